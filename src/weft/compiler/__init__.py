"""The compiler: build, instructions, the front door, the report."""

from weft.compiler.compile import compile
from weft.compiler.compiled import Compiled
from weft.compiler.inputs import ReadonlyContext
from weft.compiler.plan import ModelLike

__all__ = ["Compiled", "ModelLike", "ReadonlyContext", "compile"]
