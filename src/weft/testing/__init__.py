"""What users import in their tests."""

from weft.testing.sessions import make_session

__all__ = ["make_session"]
