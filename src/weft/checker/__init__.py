"""The checker: before anything runs, whether the three channels between agents add up."""

from weft.checker.check import check

__all__ = ["check"]
