"""What a run tells a plugin that traces it: when each step begins, and how it ends.

A plugin with `trace_run(ctx)` gives a `RunTrace` for each run. Where no plugin has one, nothing is
made and nothing is called.
"""

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from weft.compiler import Compilation
    from weft.content import FunctionCall
    from weft.declare import CallbackContext
    from weft.ir import ModelResponse
    from weft.runtime.place import Place
    from weft.runtime.tool_call import Outcome


class TracedStep(Protocol):
    """A step of a run that has begun."""

    def note_chunk(self) -> None:
        """A piece of a model's answer has come."""
        ...

    def follow(self, answers: "AsyncIterator[ModelResponse]") -> "AsyncIterator[ModelResponse]":
        """The answers of a model, which is asked inside the step: what it logs belongs to it."""
        ...

    def end(
        self, outcome: "Compilation | ModelResponse | Outcome | BaseException | None" = None
    ) -> None:
        """The step is over, with what came of it; a second time this does nothing."""
        ...


class RunTrace(Protocol):
    """Follows one run."""

    def begin_agent(self, agent: str, place: "Place") -> TracedStep:
        """An agent has its turn."""
        ...

    def begin_compile(self, agent: str, place: "Place") -> TracedStep:
        """A request is about to be compiled."""
        ...

    def begin_model(self, agent: str, place: "Place", compiled: "Compilation") -> TracedStep:
        """A model is asked."""
        ...

    def begin_tool(self, agent: str, place: "Place", call: "FunctionCall") -> TracedStep:
        """A tool is called."""
        ...

    def begin_store(self, place: "Place", count: int) -> TracedStep:
        """Events are about to be stored."""
        ...


@runtime_checkable
class TracingPlugin(Protocol):
    """A plugin that traces runs, and turns that wait in a queue."""

    def trace_run(self, ctx: "CallbackContext") -> RunTrace | None:
        """What follows the run that begins."""
        ...

    def carry_trace(self) -> str:
        """A turn is put into a queue: the line from which its run goes on with the trace."""
        ...

    def continue_trace(self, carried: str) -> None:
        """Go on, in this task, with a trace that was carried here."""
        ...


def tracing_plugin(plugins: tuple[object, ...]) -> TracingPlugin | None:
    """The plugin that traces runs, if there is one."""
    return next((plugin for plugin in plugins if isinstance(plugin, TracingPlugin)), None)
