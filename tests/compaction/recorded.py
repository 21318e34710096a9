"""Runs of coding agents, request by request: one made after a recorded one, or a file of them.

`WEFT_RUNS` names a file of recordings, such as JSON lines with the messages of a chat each.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.compaction.talks import TALKS, Wire
from weft.recordings.read import read_files

SAMPLE = Path(__file__).parents[1] / "recordings" / "samples" / "claude-code.request.json"


class CodingRun(NamedTuple):
    """A run: whose messages they are, the rest of each request, and all messages."""

    name: str
    dialect: str
    head: Wire
    messages: list[Wire]

    def requests(self) -> Iterator[Wire]:
        """Each request that an answer followed."""
        talk = TALKS[self.dialect]
        for end, message in enumerate(self.messages):
            if end and talk.is_answer(message) and not talk.is_answer(self.messages[end - 1]):
                yield {**self.head, talk.turns: self.messages[:end]}


def coding_runs() -> Iterator[CodingRun]:
    """The runs of `WEFT_RUNS`, or one of 80 steps, which is long enough for a fold."""
    file = os.environ.get("WEFT_RUNS")
    if file is None:
        yield coding_run(steps=80)
        return
    for recording in read_files([Path(file)], lenient=True):
        # as who answered is asked elsewhere: what a thought was signed for stays with him
        claude = "claude" in (recording.asked_model or "")
        dialect, model = ("anthropic", "claude-sonnet-5") if claude else ("openai-chat", "gpt-5.6")
        head = {**TALKS[dialect].head, "model": model}
        yield CodingRun(recording.id, dialect, head, recording.session.to_messages(dialect))


def coding_run(*, steps: int) -> CodingRun:
    """A run that reads, tests and edits again and again, and thinks with a signature."""
    sample: list[Wire] = json.loads(SAMPLE.read_text("utf-8"))["messages"]
    asked, *step = sample[:5]
    messages = [asked]
    for number in range(steps // 2):
        spelled = json.dumps(step).replace("toolu_", f"toolu_{number}_")
        spelled = spelled.replace("app.py", f"app_{number}.py")
        grown: list[Wire] = json.loads(spelled)
        read, ran = grown[1]["content"]
        # what is read again tells the same
        parts = (f"{line}\tdef part_{number % 9}_{line}(value): ..." for line in range(3, 60))
        read["content"] = "\n".join((read["content"], *parts))
        ran["content"] = "\n".join(f"case {number} of {line} passed" for line in range(90))
        messages += grown
        if number == steps // 5:  # thoughts of a turn that is over bind no more
            messages += sample[5:]
    head = {**TALKS["anthropic"].head, "model": "claude-sonnet-5"}
    return CodingRun("made by hand", "anthropic", head, [*messages, *sample[5:]])
