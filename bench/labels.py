"""What labels of trust cost a run: the same runs with them and without, one after the other.

    python bench/labels.py [--pairs 40]

Without them no reply and no result is labelled: what works labels out is replaced by nothing. The
runs take turns in one process, so a busy machine slows both; what is told is the median of the
pairs, and the number of function calls.
"""

import argparse
import asyncio
import cProfile
import gc
import pstats
import time
from collections.abc import Callable

from weft import Agent, Part, Runner, tool
from weft.runtime.batch import Batch
from weft.runtime.model_call import ModelCall
from weft.runtime.tool_call import ToolCall
from weft.session.flow import TRUSTED, FieldTrust
from weft.testing import ScriptedModel, call


@tool(effect="pure")
def look(q: str) -> dict[str, object]:
    """Look something up."""
    return {"id": 7, "title": "A title of some length", "body": "Text. " * 40, "tags": ["a b"]}


def one_turn() -> Agent:
    """A turn with one call."""
    return Agent("bot", model=ScriptedModel([call("look", q="x"), "Done."]), tools=[look])


def twenty_steps() -> Agent:
    """A turn with twenty calls."""
    script: list[Part | str] = [*(call("look", q=str(number)) for number in range(20)), "Done."]
    return Agent("bot", model=ScriptedModel(script), tools=[look])


def three_agents() -> object:
    """A reader, and two agents that are told what it found."""
    reader = one_turn().writes("found")
    second = Agent("second", model=ScriptedModel(["Done."]), instruction="Use {found}")
    third = Agent("third", model=ScriptedModel(["Done."]), instruction="Use {made}")
    return reader >> second.writes("made") >> third


WITH = Batch.event, ModelCall._label, ToolCall._judge
WITHOUT = (
    lambda batch, invocation, agent, place: batch._event(invocation, agent, place),
    lambda asked, response: TRUSTED,
    lambda called, *read, failed: (TRUSTED, FieldTrust()),
)


def use(functions: tuple[object, ...]) -> None:
    """Have the runs label what they store, or not."""
    Batch.event, ModelCall._label, ToolCall._judge = functions  # type: ignore[method-assign, assignment]


def play(make: Callable[[], object], times: int) -> float:
    """The CPU seconds of some runs."""

    async def run() -> None:
        for _ in range(times):
            await Runner(make()).run("Go")  # type: ignore[arg-type]

    gc.collect()
    begun = time.process_time()
    asyncio.run(run())
    return time.process_time() - begun


def count_calls(make: Callable[[], object]) -> int:
    """The function calls of ten runs."""
    profile = cProfile.Profile()
    profile.enable()
    play(make, 10)
    profile.disable()
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def main() -> None:
    """Print a line for each kind of run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=40)
    pairs = parser.parse_args().pairs
    gc.disable()
    for make, times in ((one_turn, 20), (twenty_steps, 4), (three_agents, 8)):
        ratios: list[float] = []
        for functions in (WITH, WITHOUT):
            use(functions)
            play(make, 3)
        for number in range(pairs):
            order = (WITH, WITHOUT) if number % 2 else (WITHOUT, WITH)
            seconds: dict[bool, float] = {}
            for functions in order:
                use(functions)
                seconds[functions is WITH] = play(make, times)
            ratios.append(seconds[True] / seconds[False])
        use(WITH)
        labelled = count_calls(make)
        use(WITHOUT)
        plain = count_calls(make)
        median = sorted(ratios)[len(ratios) // 2]
        print(f"{make.__name__}: CPU {median:.3f}, calls {labelled / plain:.3f} of those without")


if __name__ == "__main__":
    main()
