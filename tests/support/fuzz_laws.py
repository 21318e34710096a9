"""The laws of compiling, tried on random cases.

A log that grew step by step, one that is read at once and one that went through JSON give the same
request, report and diagnostics, byte for byte. Every event is in the report, sent or left out once.
Nothing raises but a WeftError. The request is legal for its provider.
"""

import json
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import weft
from tests.support import fuzz_words
from tests.support.fuzz_cases import Call, draw_case, smallest, write
from weft import Agent, Session
from weft import content as contents
from weft.compiler import Compilation, compile_request
from weft.compiler.protected import Whole
from weft.compiler.tools import DEFAULT
from weft.declare import Node
from weft.declare.agent import labels_of, nodes_of, walk_tree
from weft.dialects.strict import RequestChecker, check_request
from weft.errors import WeftError
from weft.ir import Want
from weft.session import Event, provenance
from weft.session import event as session_events
from weft.values import Json


class Look(NamedTuple):
    """Who compiles the log, and how; as `compile_request` has it."""

    agent: str | None = None
    branch: str | None = None
    message: str | None = None
    state: Mapping[str, Json] | None = None
    artifacts: Mapping[str, str] | None = None
    config: weft.RunConfig | None = None
    brief: bool = False


class Case(NamedTuple):
    """A program, a log and the looks at it.

    The grown log begins with `begins` events at once. It grows by `append`, which leaves out
    partial events, or it is looked at through snapshots of the whole, which has them.
    """

    program: Node
    looks: Sequence[Look] = (Look(),)
    state: Mapping[str, Json] = {}
    events: Sequence[Event] = ()
    begins: int = 0
    way: Literal["append", "snapshots"] = "append"


class Fault(NamedTuple):
    """A law that a case breaks: of which kind, and what was seen."""

    kind: str
    seen: str


NAMES: dict[str, object] = {
    **{name: one for name, one in vars(fuzz_words).items() if name[:1] != "_"},
    **{name: one for name, one in vars(contents).items() if name[:1] != "_"},
    **{name: vars(session_events)[name] for name in ("Actions", "Compaction", "Event", "Usage")},
    **{
        name: vars(provenance)[name]
        for name in ("JoinedBranch", "BranchDelta", "LaterTags", "OfferedTools")
    },
    **{
        name: getattr(weft, name)
        for name in (
            "Agent", "C", "CodeExecution", "Fallback", "Loop", "Parallel", "RunConfig", "Sequence",
            "TokenBudget", "WebSearch", "race",
        )
    },
    "Case": Case,
    "Look": Look,
}  # fmt: skip


def evaluate(source: str) -> Case:
    """The case that an expression stands for."""
    case = eval(source, dict(NAMES))  # a text of our own
    assert isinstance(case, Case)
    return case


def faults_in(source: str) -> list[Fault]:
    """Every law that the case breaks; none where its declaration or its log is refused."""
    try:
        case, again = evaluate(source), evaluate(source)
        snapshots = [*_grow(case)]
    except WeftError:
        return []
    except Exception as error:
        return [raised("declaring", error)]
    faults: list[Fault] = []
    for number, session in enumerate(snapshots):
        # all of it is looked at once the log is whole, a part of it on the way there
        last = number == len(snapshots) - 1
        depth = "all" if last else "some" if number % 3 == 0 else "request"
        cold = Session("s", state=case.state, events=list(session.events))
        for look in case.looks:
            grown = Outcome(case.program, session, look, depth)
            fresh = Outcome(again.program, cold, look, depth)
            faults += grown.faults
            faults += fresh.differences(grown, "grown")
            if last:
                faults += _stored_faults(again.program, cold, look, fresh)
    return list(dict.fromkeys(faults))


def count_requests(source: str) -> int:
    """How many requests of a case are compared."""
    try:
        case = evaluate(source)
        return sum(1 for _ in _grow(case)) * len(case.looks)
    except WeftError:
        return 0


def _grow(case: Case) -> Iterator[Session]:
    """The log as it grows."""
    if case.way == "snapshots":
        whole = Session("s", state=case.state, events=case.events)
        yield from (whole.before(length) for length in range(case.begins, len(case.events) + 1))
        return
    session = Session("s", state=case.state, events=case.events[: case.begins])
    yield session
    for event in case.events[case.begins :]:
        after = session.append(event)
        if after is not session:
            session = after
            yield session


def _stored_faults(program: Node, cold: Session, look: Look, fresh: "Outcome") -> list[Fault]:
    """What changes once the log went through JSON."""
    try:
        data = cold.to_json()
        read = Session.from_json(data, trusted=True)
        again = read.to_json()
        Session.from_json(data)
    except WeftError:
        return []
    except Exception as error:
        return [raised("json", error)]
    if data != again:
        return [Fault("json: the text differs", _first_difference(data.decode(), again.decode()))]
    # what belongs to one invocation is never stored
    if any(key.startswith("temp:") for key in cold.state):
        return []
    return fresh.differences(Outcome(program, read, look, "all"), "json")


Depth = Literal["request", "some", "all"]
"""How closely a request is looked at."""


class Outcome:
    """What compiling gave, or the error it was refused with."""

    def __init__(self, program: Node, session: Session, look: Look, depth: Depth) -> None:
        self.facets: dict[str, str] = {}
        self.faults: list[Fault] = []
        try:
            self._compile(program, session, look, depth)
        except WeftError as error:
            self.facets["error"] = f"{type(error).__name__}: {error}"
        except Exception as error:
            self.faults.append(raised("compiling", error))
            self.facets["error"] = f"{type(error).__name__}"

    def _compile(self, program: Node, session: Session, look: Look, depth: Depth) -> None:
        root, name = find_agent(program, look.agent)
        config = look.config or DEFAULT
        labels = labels_of(program, config)
        request = compile_request(
            root,
            session=session,
            agent=name,
            branch=look.branch,
            message=look.message,
            state=look.state,
            artifacts=look.artifacts,
            config=config,
            part_of=Whole(labels, session) if labels else None,
            brief=look.brief,
        )
        facets = self.facets
        facets["wire"] = json.dumps(request.wire)
        facets["hash"] = request.hash
        facets["tokens"] = str(request.tokens)
        if depth == "request":
            return
        facets["diagnostics"] = "\n".join(f"{one} {one.origin}" for one in request.diagnostics)
        self.faults += _illegal(request)
        if depth == "all" and not look.brief:
            report = request.explain()
            facets["prompt"] = str(request.prompt)
            facets["report"] = json.dumps(report.to_dict())
            facets["text"] = str(report)
            self.faults += _unaccounted(request, session)
            for dialect in fuzz_words.DIALECTS:
                facets[dialect] = json.dumps(request.lower(dialect))

    def differences(self, other: "Outcome", way: str) -> list[Fault]:
        """What differs between this outcome, which is cold, and another."""
        kinds = [
            name
            for name in dict.fromkeys((*self.facets, *other.facets))
            if self.facets.get(name) != other.facets.get(name)
        ]
        if not kinds:
            return []
        name = kinds[0]
        seen = _first_difference(self.facets.get(name, "(none)"), other.facets.get(name, "(none)"))
        return [Fault(f"{way}: {'+'.join(kinds[:2])} differs", seen)]


def find_agent(program: Node, wanted: str | None) -> tuple[Agent, str]:
    """An agent of the program and the root it stands under: the one of that name, or the first."""
    roots = [node for node in nodes_of(program) if isinstance(node, Agent)]
    pairs = [
        (root, agent.name)
        for root in roots
        for agent, _ in walk_tree(root)
        if isinstance(agent, Agent)
    ]
    return next((pair for pair in pairs if pair[1] == wanted), pairs[0])


def _illegal(request: Compilation) -> list[Fault]:
    """What the provider would refuse."""
    dialect, model = request.dialect, request.prompt.model
    found = [str(one) for one in check_request(dialect, request.wire, model)]
    try:
        RequestChecker(dialect).check(request.prompt, request.wire)
    except WeftError as error:
        found.append(str(error))
    return [Fault(f"illegal: {dialect}", one) for one in dict.fromkeys(found)]


def _unaccounted(request: Compilation, session: Session) -> list[Fault]:
    """Events that are in the report not at all, or more than once."""
    report = request.explain()
    # a tool that was called may be declared on that account
    spoken = [row for row in report.sent if row.source != "tools"]
    sent = {row.origin.name for row in spoken if row.origin.kind == "event"}
    left = [row for row in report.left_out if row.origin.kind == "event"]
    known = sent | {row.origin.name for row in left}
    faults = [
        Fault("an event is in no list", f"{event.id} of {event.author}: {event}")
        for event in session.events
        if event.id not in known
    ]
    gone = [row for row in left if row.action == "dropped"]
    rows = Counter(row.origin for row in gone)
    faults += [
        Fault("an event is left out twice", str(row)) for row in gone if rows[row.origin] > 1
    ]
    placed = {row.origin for row in spoken if row.pointer}
    faults += [Fault("what is left out is sent", str(row)) for row in gone if row.origin in placed]
    return faults


def raised(where: str, error: Exception) -> Fault:
    """An exception that is not one of ours, with the place in our code it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/weft/" in frame.filename] or frames
    place = f"{ours[-1].filename.rpartition('/weft/')[2]}:{ours[-1].name}"
    return Fault(f"raw {type(error).__name__} at {place}", f"{where}: {error}"[:300])


def _first_difference(one: str, other: str) -> str:
    pairs = enumerate(zip(one, other, strict=False))
    at = next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))
    start = max(0, at - 100)
    return f"cold  {one[start : at + 160]!r}\nother {other[start : at + 160]!r}"


def reduce_case(
    case: Call, find: "Callable[[Call], list[Fault]]", kind: str, tries: int = 1_500
) -> Call:
    """The smallest case found that breaks the same law."""
    return smallest(case, lambda less: any(one.kind == kind for one in find(less)), tries)


def faults_of(case: Call) -> list[Fault]:
    """The laws that a drawn case breaks."""
    return faults_in(write(case))


def show_program(case: Call) -> str:
    """The case as a program to run."""
    lines = (
        "from tests.support.fuzz_laws import faults_in",
        f'for fault in faults_in(r"""{write(case)}"""):',
        "    print(*fault)",
    )
    return "\n".join(lines)


def draw(seed: int, *, long: bool = False) -> Call:
    """The case of a seed; its log has answers to some of what its requests want of a model."""
    case = draw_case(seed, long=long)
    events = list(case.options["events"])  # type: ignore[call-overload]
    for _ in range(2):
        try:
            wants = _wants_of(evaluate(write(case)))
        except Exception:
            return case  # whoever tries the laws says what is wrong with it
        for number, want in enumerate(wants[:2], len(events)):
            events.append(_answer_to(want, number))
        if not wants:
            break
        case = case._replace(options={**case.options, "events": events})
    return case


def _wants_of(case: Case) -> Sequence[Want]:
    """What the first look at the whole log leaves for a model."""
    look, session = case.looks[0], Session("s", state=case.state, events=case.events)
    root, name = find_agent(case.program, look.agent)
    config = look.config or DEFAULT
    return compile_request(root, session=session, agent=name, config=config).prompt.wants


def _answer_to(want: Want, number: int) -> Call:
    """An event with what a model said of a want."""
    outcomes: dict[str, Json] = {
        "summary": "They spoke of Oslo.",
        "relevance": {"relevant": [1]},
        "extract": {"city": "Oslo"},
        "distill": ["It rains in Oslo."],
        "contradictions": [],
        "memory": [],
    }
    effect: dict[str, Json] = {"kind": want.kind, "fingerprint": want.fingerprint}
    if want.key:
        effect["key"] = want.key
    if want.through >= 0:
        effect["through"] = want.through
    if number % 5:
        effect["outcome"] = outcomes[want.kind]
    else:
        effect["error"] = "no answer"
    options: dict[str, object] = {
        "author": "bot", "invocation_id": "i1", "id": f"w{number}", "timestamp": 900.0 + number,
        "audience": "internal", "custom_metadata": Call("notes", (), {"effect": effect}),
    }  # fmt: skip
    if want.key and "outcome" in effect:
        delta = {want.key: effect["outcome"]}
        options["actions"] = Call("Actions", (), {"state_delta": delta})
    return Call("Event", (), options)
