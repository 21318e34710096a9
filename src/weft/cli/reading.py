"""A request as its own model reads it, where that model runs on this machine."""

from weft.compiler import Compiled
from weft.errors import ModelError


def read_as_its_model_does(compiled: Compiled) -> None:
    """Let the model's own tokens say what is reused; without them it is estimated.

    Only where there is something to compare: loading the weights takes a second. Nothing is
    fetched to explain something.
    """
    if not compiled.plan.target.facts.cache.exact or compiled.previous is None:
        return
    from weft.models.local import LocalModel

    model = LocalModel(compiled.prompt.model, slots=1, fetch=False)
    try:
        model.start()
    except ModelError:
        return  # it is not here: the report says that it is an estimate
    compiled.reads = model.tokens
