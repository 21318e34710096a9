"""Labels of a whole program: what any agent declares holds for all of them.

A secret of one agent is one for every other: whether or not they are in one tree, and whoever runs
first. So labels are gathered over all agents, the flows they stand in, and the agents they call.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from weft.declare import Agent, Flow, Node, Policy, RunConfig, agents_of
from weft.declare.policy.selectors import When
from weft.declare.policy.transforms import Label
from weft.ir import Prompt, TextBlock
from weft.passes import Env
from weft.session import Event, Session
from weft.values import Strand

if TYPE_CHECKING:
    from weft.passes.labelled import Labelled


class Whole(NamedTuple):
    """What a request is a part of: the labels of the whole program, and the whole session."""

    labels: tuple[Label, ...]
    session: Session

    def before(self, event: Event) -> "Whole":
        """The same before an event happened."""
        for index in range(len(self.session.events) - 1, -1, -1):
            if self.session.events[index].id == event.id:
                return Whole(self.labels, self.session.before(index))
        return self


def labels_of(node: Node, config: RunConfig | None = None) -> tuple[Label, ...]:
    """All labels that are declared in a program, one for each name, in the order of names."""
    found: list[Label] = []
    for agent in _everybody(node):
        if agent.context is not None:
            found += _declared(agent.context)
        for tool in agent.tools:
            names = tool.writes
            found += [Label(label, keys=names, tools=(tool.name,)) for label in tool.labels]
    if config is not None and config.context is not None:
        found += _declared(config.context)
    return united(found)


def united(labels: Iterable[Label]) -> tuple[Label, ...]:
    """The labels, those of one name as one."""
    by_name: dict[str, list[Label]] = {}
    for label in labels:
        by_name.setdefault(label.name, []).append(label)
    return tuple(
        Label(
            name,
            keys=tuple(sorted({key for label in some for key in label.keys})),
            tools=tuple(sorted({tool for label in some for tool in label.tools})),
            artifacts=tuple(sorted({file for label in some for file in label.artifacts})),
        )
        for name, some in sorted(by_name.items())
    )


def guarded(policy: Policy, labels: tuple[Label, ...], cleared: tuple[str, ...]) -> Policy:
    """The policy with every label that its agent is not cleared for, and no other."""
    held = [one for one in policy.protections if isinstance(one, Label)]
    hidden = tuple(label for label in labels if label.name not in cleared)
    if not hidden and not held:
        return policy
    others = (one for one in policy.protections if not isinstance(one, Label))
    return replace(policy, protections=(*hidden, *others))


def withheld_by(policy: Policy, env: Env) -> "Labelled | None":
    """What the policy withholds from the agent's model; None where it withholds nothing."""
    labels = labels_in(policy)
    if not labels:
        return None
    from weft.passes.labelled import withheld_from

    return withheld_from(env, labels)


def without_labelled(
    system: tuple[TextBlock, ...], prompt: Prompt, policy: Policy, env: Env
) -> tuple[TextBlock, ...]:
    """A system text of this prompt without what the policy withholds."""
    from weft.passes.withhold_labelled import withhold_labelled

    alone = msgspec.structs.replace(prompt, system=system, items=Strand())
    return withhold_labelled(alone, env, labels_in(policy)).system


def labels_in(policy: Policy) -> tuple[Label, ...]:
    """The labels that a policy withholds."""
    return tuple(one for one in policy.protections if isinstance(one, Label))


def _declared(policy: Policy) -> Iterator[Label]:
    """The labels of a policy; also those under a condition, since a secret is one at any time."""
    yield from labels_in(policy)
    for stage in policy.stages:
        if isinstance(stage.selector, When):
            yield from _declared(stage.selector.policy)


def _everybody(node: Node) -> Iterator[Agent]:
    """Every agent: of the flow, of their trees, and those that are called as tools."""
    waiting: list[Node] = [node]
    seen: set[int] = set()
    while waiting:
        for agent in agents_of(waiting.pop()):
            if id(agent) in seen:
                continue
            seen.add(id(agent))
            yield agent
            waiting += [tool.agent for tool in agent.tools if isinstance(tool.agent, Agent | Flow)]
