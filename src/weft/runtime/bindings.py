"""What a run needs of an agent's declaration, made once: its callbacks, its tools, its model."""

import inspect
import time
from collections.abc import Awaitable, Sequence
from typing import cast

import msgspec

from weft import schema
from weft.declare import Agent, Tool
from weft.declare.context import ToolContext
from weft.declare.functions import Foreign
from weft.errors import UsageError, describe_kind
from weft.models import Model
from weft.runtime.callbacks import Callbacks, callbacks_of
from weft.values import JsonObject

FAST = 100e-6
"""A function that always returns within this time, in seconds, is not worth a thread."""


class BoundTool:
    """A tool that can be called: its signature is read once, and how long it takes is known."""

    __slots__ = (
        "_fits_declaration",
        "_plain",
        "_quick",
        "function",
        "is_async",
        "signature",
        "takes_context",
        "tool",
    )

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.takes_context = (
            tool.context_parameter is not None
            or tool.confirm is not False
            or tool.effect == "transactional"
        )
        """Whether a call needs a context, even where nobody is told of calls."""
        function = tool.function
        self.function = function
        self.signature: schema.Signature | None = None
        self.is_async = False
        self._fits_declaration = False
        self._quick = 0
        if isinstance(function, Foreign):
            self.is_async = True
        elif function is not None:
            signature = schema.of_function(
                function, context_type=ToolContext, name=tool.name, where=f"tool {tool.name}"
            )
            self.signature = signature
            self.is_async = signature.is_async
            self._fits_declaration = signature.parameters == tool.parameters
        self._plain = _plain_arguments(self.signature) if self._fits_declaration else None

    def arguments(self, args: JsonObject) -> dict[str, object]:
        """The arguments as the function wants them, or a SchemaError that names each problem."""
        if self._plain is not None:
            try:
                msgspec.convert(args, self._plain)
            except msgspec.ValidationError:
                pass  # the slow way knows what is wrong, and what a null means
            else:
                return dict(args)
        if self.signature is not None and self._fits_declaration:
            return schema.validate_arguments(self.signature, args)
        checked = schema.validate_declared(self.tool.parameters, args, where=self.tool.name)
        return cast("dict[str, object]", checked)

    @property
    def quick(self) -> bool:
        """Whether the function may be called on the event loop: it has never taken long.

        A thread costs more than a small function does. One that was slow once, or has a time
        limit, always gets a thread, so it holds up nobody.
        """
        return self._quick >= 3 and self.tool.timeout is None

    def timed(self, *args: object, **kwargs: object) -> object:
        """Call the function, and learn from how long it took."""
        assert self.function is not None
        begun = time.perf_counter()
        try:
            return self.function(*args, **kwargs)
        finally:
            took = time.perf_counter() - begun
            # -1 for ever: a function that was slow once may be so again
            self._quick = self._quick + 1 if took < FAST and self._quick >= 0 else -1


def _plain_arguments(signature: schema.Signature | None) -> type[msgspec.Struct] | None:
    """The arguments as a struct, for a function that takes only texts, whole numbers and flags.

    Such arguments are passed on as they come, so checking them is all there is to do.
    """
    if signature is None or signature.takes_any:
        return None
    if not all(
        param.type is str or param.type is int or param.type is bool for param in signature.params
    ):
        return None
    fields = [
        (param.name, param.type) if param.required else (param.name, param.type, None)
        for param in sorted(signature.params, key=lambda param: not param.required)
    ]
    # a default in the schema is filled in, which the plain way does not do
    if any(not param.required and param.default is not msgspec.UNSET for param in signature.params):
        return None
    return msgspec.defstruct("Arguments", fields, forbid_unknown_fields=True)


class AgentBindings:
    """An agent's callbacks and tools, ready to be used."""

    __slots__ = (
        "agent",
        "callbacks",
        "model",
        "raises",
        "tools",
        "watches_model",
        "watches_tools",
    )

    def __init__(self, agent: Agent, plugins: Sequence[object]) -> None:
        self.agent = agent
        self.callbacks: Callbacks = callbacks_of(agent, plugins)
        self.tools = _bound(agent)
        self.watches_model = any(
            (
                self.callbacks.before_model,
                self.callbacks.after_model,
                self.callbacks.on_model_error,
            )
        )
        """Whether anybody is told of the requests and answers of the model."""
        self.watches_tools = any(
            (self.callbacks.before_tool, self.callbacks.after_tool, self.callbacks.on_tool_error)
        )
        """Whether anybody is told of the calls of tools."""
        self.raises = agent.on_tool_error == "raise"
        self.model: object = None
        """The model the agent was last asked with, for the agents it calls as tools."""


def _bound(agent: Agent) -> dict[str, BoundTool]:
    """The agent's tools by name, kept with it: what was learned of them outlasts a runner."""
    bound = agent.memo.of(_BoundTools)
    if bound is None:
        ours = [tool for tool in agent.tools if tool.hosted is None]  # the provider runs the others
        bound = agent.memo.keep(_BoundTools({tool.name: BoundTool(tool) for tool in ours}))
    return bound


class _BoundTools(dict[str, BoundTool]):
    """An agent's tools by name."""


async def settled(value: object) -> object:
    """The value, waited for if it must be."""
    return await cast("Awaitable[object]", value) if inspect.isawaitable(value) else value


def chosen_model(models: dict[str, Model], agent: Agent, chosen: object) -> Model:
    """The model an agent is to be asked with."""
    if not isinstance(chosen, str):
        return _checked_model(agent, chosen)
    model = models.get(chosen)
    if model is None:
        from weft.models.registry import model_for  # a model object needs no provider's address

        model = models[chosen] = model_for(chosen, where=f"{agent.name}.model")
    return model


class _LastModel(msgspec.Struct, frozen=True):
    """The model object an agent was last asked with."""

    model: Model


def _checked_model(agent: Agent, model: object) -> Model:
    """The model object, once it is known to be one; the agent remembers that of the last."""
    last = agent.memo.of(_LastModel)
    if last is not None and last.model is model:
        return last.model
    if not isinstance(model, Model):
        raise UsageError(
            f"{describe_kind(model)} cannot be asked: it has no `generate`",
            where=f"{agent.name}.model",
            hint="pass a weft.models.Model, or weft.testing.ScriptedModel([...])",
        )
    agent.memo.keep(_LastModel(model))
    return model
