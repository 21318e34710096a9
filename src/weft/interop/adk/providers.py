"""Instructions of google-adk that a function makes."""

from collections.abc import Awaitable, Callable
from typing import cast

from weft.declare import Raw


class Provider:
    """An instruction that google-adk's user makes by a function: its text is no template."""

    def __init__(self, function: Callable[..., object], before: str, agent: object) -> None:
        self.function = function
        self.agent = agent
        self.before = before
        self.__name__ = str(getattr(function, "__name__", "instruction"))

    def __call__(self, context: object) -> object:
        """What the function says now."""
        from weft.interop.adk.running import instruction_context

        said = self.function(instruction_context(context, self.agent))
        if hasattr(said, "__await__"):
            return _later(said, self.before)
        return Raw(_joined(self.before, str(said)))


async def _later(said: object, before: str) -> Raw:
    return Raw(_joined(before, str(await cast("Awaitable[object]", said))))


def _joined(*texts: str) -> str:
    return "\n\n".join(text for text in texts if text)
