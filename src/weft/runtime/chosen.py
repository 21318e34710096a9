"""The model to ask: the one that is declared or given as an object, or found by its name."""

from typing import cast

from weft.declare import Agent
from weft.errors import UsageError
from weft.models import Model
from weft.models.registry import model_for
from weft.runtime.invocation import Services


def chosen_model(services: Services, agent: Agent, chosen: object) -> Model:
    """The model an agent is to be asked with."""
    if not isinstance(chosen, str):
        return _given(agent, chosen)
    held = services.models.get(chosen)
    if held is None:
        held = services.models[chosen] = model_for(chosen, where=f"{agent.name}.model")
    return held


def _given(agent: Agent, model: object) -> Model:
    """The model object, once it is known to be one; the agent remembers that of the last."""
    held = agent.memo.get(Model)
    if held is model:
        return cast("Model", held)
    if not isinstance(model, Model):
        raise UsageError(
            f"a {type(model).__name__} cannot be asked: it has no `generate`",
            where=f"{agent.name}.model",
            hint="pass a weft.models.Model, or weft.testing.ScriptedModel([...])",
        )
    agent.memo[Model] = model
    return model
