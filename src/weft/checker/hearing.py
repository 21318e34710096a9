"""Whose words are seen by whom, as a walk comes to one reader after the other."""

from weft.checker.agents import sees_text_of, view_of
from weft.checker.chart import Chart
from weft.declare import Agent


class Hearing:
    """Who was heard so far; readers of one view do not go through the same speakers again."""

    def __init__(self) -> None:
        self._listened: dict[tuple[str, ...], tuple[Chart[str | None], set[str]]] = {}
        """By view: who had spoken when it was last asked for, and readers not yet heard by another.
        """

    def heard(self, reader: Agent, said: Chart[str | None]) -> set[str]:
        """Whose words the reader sees, of those that nobody with its view has seen yet."""
        view = view_of(reader)
        before, own = self._listened.get(view, (Chart(), set[str]()))
        new = {name for name, key in said.since(before) if sees_text_of(reader, name, key)}
        new |= {name for name in own if name in said}
        self._listened[view] = said, (own - new) | (new & {reader.name})
        return new - {reader.name}
