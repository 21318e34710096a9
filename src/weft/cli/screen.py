"""What a person sees of a run: the answer as it streams, and beside it, dim, what happens.

The answer goes to one stream and the notes to another, which are often the same screen. So a
note waits until the text under way is whole, and of agents that speak at once one is shown as
it streams, the others when they are done.
"""

import shutil
from typing import TextIO

from weft.cli.words import deeds, error_words, marks_for
from weft.compiler.text import clip, safe
from weft.declare import Node, agents_of
from weft.declare.roles import inner_agents
from weft.runtime.answer import is_piece
from weft.session import Event

Voice = tuple[str, str]
"""Who speaks: the agent, and the branch it stands on."""


class Screen:
    """Shows the events of runs, one after the other."""

    def __init__(self, root: Node, answer: TextIO, notes: TextIO | None) -> None:
        agents = agents_of(root)
        self._answer = answer
        self._notes = notes
        self._marks = marks_for(notes if notes is not None else answer)
        self._width = max(20, shutil.get_terminal_size((100, 24)).columns - 1)
        self._inner = inner_agents(root)
        self._whole = {agent.name for agent in agents if agent.output_schema is not None}
        self._several = len(agents) > 1
        self._speaker = ""
        self._live: Voice | None = None
        self._streamed = ""
        self._waiting: list[Event] = []
        self._failed: Event | None = None
        self.said = False
        """Whether any of the answer was shown."""

    def show(self, event: Event) -> None:
        """Show an event, partial or whole, at once or as soon as its turn comes."""
        if is_piece(event):
            return  # it was streamed, and the whole answer follows
        voice = (event.author, event.branch or "")
        if self._live not in (None, voice) and not _beside(self._live[1], voice[1]):
            self._close()  # it was cut off, and this is what came next
            self._catch_up()
        if event.partial and event.void and self._live == voice:
            self._close()  # what was streamed is void
            self._catch_up()
        if event.partial:
            self._stream(event, voice)
        elif self._live not in (None, voice):
            self._waiting.append(event)
        else:
            self._whole_event(event, voice)
            self._catch_up()

    def end(self) -> None:
        """Close the line that is open, and show what still waits; the command tells the error."""
        self._close()
        self._catch_up()
        self._failed = None

    def say(self, text: str) -> None:
        """Show an answer that was given before."""
        self._write(text)
        self._close()

    def note(self, text: str) -> None:
        """Show a line beside the answer."""
        if self._notes is None:
            return
        if self._notes.isatty():
            from rich.console import Console
            from rich.text import Text

            console = Console(file=self._notes, highlight=False, soft_wrap=True)
            console.print(Text(text, style="dim"))
        else:
            print(text, file=self._notes, flush=True)

    def _catch_up(self) -> None:
        """Show what waited for the line that was open."""
        while self._live is None and self._waiting:
            event = self._waiting.pop(0)
            self._whole_event(event, (event.author, event.branch or ""))

    def _stream(self, event: Event, voice: Voice) -> None:
        if not event.text or not self._is_answer(event) or event.author in self._whole:
            return
        if self._live is None:
            self._introduce(event.author)
            self._live, self._streamed = voice, ""
        if self._live == voice:
            self._streamed += event.text
            self._write(event.text)

    def _whole_event(self, event: Event, voice: Voice) -> None:
        """Show what an event adds to what was streamed of it."""
        streamed = self._streamed if self._live == voice else ""
        text = event.text if event.content is not None and event.content.role != "user" else ""
        self._tell_failure()
        if text and not self._is_answer(event):
            self._close()
            line = f"{self._marks.agent} {event.author}: {' '.join(text.split())}"
            self.note(clip(safe(line), self._width))
        elif text.startswith(streamed):
            if text and not streamed:
                self._introduce(event.author)
            self._write(text[len(streamed) :])
            self._close()
        else:  # what was streamed did not become the answer: cut off, replaced
            self._close()
            self._write(text)
            self._close()
        for line in deeds(event, self._marks, self._width):
            self._introduce(event.author)
            self.note(line)
        if event.error_code:
            self._failed = event

    def _is_answer(self, event: Event) -> bool:
        return event.audience != "internal" and event.author not in self._inner

    def _tell_failure(self) -> None:
        """Tell of an error that did not end the run: something came after it."""
        if self._failed is not None:
            words = error_words(self._failed).splitlines()[0]
            self.note(clip(f"{self._marks.problem} {self._failed.author}: {words}", self._width))
            self._failed = None

    def _introduce(self, agent: str) -> None:
        """Say that another agent is at work."""
        if self._several and agent != self._speaker:
            self._tell_failure()
            self.note(f"{self._marks.agent} {agent}")
        self._speaker = agent

    def _write(self, text: str) -> None:
        if text:
            self.said = True
            self._answer.write(safe(text) if self._answer.isatty() else text)
            self._answer.flush()
            self._at_start = text.endswith("\n")

    def _close(self) -> None:
        """End the line that is open."""
        if not self._at_start:
            self._answer.write("\n")
            self._answer.flush()
            self._at_start = True
        self._live, self._streamed = None, ""

    _at_start = True


def _beside(one: str, other: str) -> bool:
    """Whether two branches run at the same time: both stand in a parallel, neither in the other."""
    return bool(one and other) and not (
        f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")
    )
