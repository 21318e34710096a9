"""Whose words an agent sees: by its policy, and by who has spoken before it."""

from weft.checker.agents import once_per_agent
from weft.checker.world import Chart, World
from weft.declare import Agent
from weft.declare.policy_parts import (
    Everything,
    FromAgents,
    Matching,
    Memories,
    Notes,
    Nothing,
    Selector,
    StateKeys,
    ThisTurn,
    UserWords,
    WithoutAgents,
)


class Visibility:
    """Which agents' words were seen so far; readers with one view do not look at them again."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, ...], tuple[Chart[str | None], set[str]]] = {}
        """By view: who had spoken at the last question, and readers that no other has seen yet."""

    def newly_visible_to(self, reader: Agent, speakers: Chart[str | None]) -> set[str]:
        """Whose words this reader is the first to see, among readers with its view."""
        view = view_of(reader)
        before, own = self._seen.get(view, (Chart(), set[str]()))
        new = {name for name, key in speakers.since(before) if sees_text_of(reader, name, key)}
        new |= {name for name in own if name in speakers}
        self._seen[view] = speakers, (own - new) | (new & {reader.name})
        return new - {reader.name}


def sees_text_of(reader: Agent, speaker: str, key: str | None) -> bool:
    """Whether the reader's policy shows the words of an agent before it.

    An agent that stores its words under a `key`, and is followed, speaks data.
    """
    return any(_lets_through(stage.selector, speaker, key) for stage in reader.policy.stages)


@once_per_agent
def view_of(reader: Agent) -> tuple[str, ...]:
    """What decides whose words a reader sees: equal for readers that see the same."""
    return tuple(repr(stage.selector) for stage in reader.policy.stages)


def heard_by(reader: Agent, world: World) -> set[str]:
    """Whose words the reader's policy shows, of all who have spoken."""
    if reader.context is None:
        return {name for name, key in world.spoken.pairs() if key is None and name != reader.name}
    return {
        name
        for name, key in world.spoken.pairs()
        if name != reader.name and sees_text_of(reader, name, key)
    }


def _lets_through(selector: Selector, speaker: str, key: str | None) -> bool:
    match selector:
        case Everything():
            return selector.data or key is None
        case ThisTurn() | Nothing() | UserWords() | StateKeys() | Notes() | Memories():
            return False
        case FromAgents():
            return speaker in selector.names
        case WithoutAgents():
            return speaker not in selector.names
        case Matching():
            fits = not selector.author or speaker in selector.author
            return fits and (not selector.kind or "foreign" in selector.kind)
        case _:
            return True
