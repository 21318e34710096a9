"""Digests: one large value made shorter, its shape kept, the same way every time.

JSON keeps its keys, a table its header, a log its trouble, code its signatures, a page its
headings, a diff its files; every one says what is not there any more, and never takes more tokens
than it may.
"""

from weft.digest.cut import Count, Keep, Shape, cut_text
from weft.digest.reduce import Reduced, reduced, shape_of

__all__ = ["Count", "Keep", "Reduced", "Shape", "cut_text", "reduced", "shape_of"]
