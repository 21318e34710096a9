"""The inspector: what the model saw in a session, where it came from, and what else it could be."""

from weft.inspector.inspection import Inspection, Variant

__all__ = ["Inspection", "Variant"]
