"""The compiler: build, instructions, the front door, the report."""

from weft.compiler.compile import ModelLike, compile
from weft.compiler.compiled import Compiled
from weft.compiler.context import ReadonlyContext

__all__ = ["Compiled", "ModelLike", "ReadonlyContext", "compile"]
