"""Models by name."""

from weft.errors import UsageError
from weft.models.base import Model


def model_for(name: str, *, where: str) -> Model:
    """The model of that name, or an error that says how to get one."""
    raise UsageError(
        f"there is no client for the model `{name}`",
        where=where,
        hint="pass a model object: model=weft.testing.ScriptedModel([...]), or your own Model",
    )
