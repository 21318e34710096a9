"""The compiler: build, instructions, the front door, the report."""

from weft.compiler.compile import compile, compile_request
from weft.compiler.compiled import Compilation, Compiled
from weft.compiler.instruction import ReadonlyContext
from weft.compiler.plan import ModelLike

__all__ = [
    "Compilation",
    "Compiled",
    "ModelLike",
    "ReadonlyContext",
    "compile",
    "compile_request",
]
