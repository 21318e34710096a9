"""Short ways to run things, and to tell what came of it."""

import asyncio
from collections.abc import Callable, Coroutine

from weft import (
    Content,
    Event,
    Part,
)

TO = "transfer_to_agent"


def says(text: str) -> Content:
    """What a callback answers with."""
    return Content(parts=(Part(text=text),), role="model")


def runs(test: Callable[[], Coroutine[object, object, None]]) -> None:
    """Run a test's coroutine."""
    asyncio.run(asyncio.wait_for(test(), 120))


def told(events: "tuple[Event, ...] | list[Event]") -> list[object]:
    """Events in short: `author: text`, calls by name, results as they are."""
    found: list[object] = []
    for event in events:
        if event.error_code:
            found.append(f"{event.author}! {event.error_code}")
        elif event.calls:
            found.append([call.name for call in event.calls])
        elif event.results:
            found.append([result.response for result in event.results])
        else:
            found.append(f"{event.author}: {event.text}")
    return found
