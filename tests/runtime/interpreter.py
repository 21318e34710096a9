"""An independent reading of programs: what a run must leave in the log, event by event.

It knows nothing of how Weft runs anything. It walks the program, says what comes next in each
lane, and holds it against what the log has; lanes are what runs side by side: branches, and
agents behind tools. It remembers where every place stands, so that it can go on as a run does.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field

from tests.runtime.programs import (
    MAX_STEPS,
    Choices,
    Fork,
    Program,
    Rounds,
    Row,
    Speaker,
    Switch,
    Task,
    call_of,
    children,
    reply_of,
)
from weft import Event
from weft.session.event import apply_delta
from weft.session.lookback import CONFIRMATION
from weft.values import Json, JsonObject

Path = tuple[object, ...]
STOPPED = ("the run was cancelled", "another branch failed")
MAX_HOPS = 10


class Failed(Exception):
    """The node ends with an error."""


class Waits(Exception):
    """The node waits for an answer."""


class Cut(Exception):
    """The log ends here, and it may."""


@dataclass
class Made:
    """A call that was made: by whom, what it is, and what was predicted of it."""

    speaker: Speaker
    kind: str
    number: int
    place: int
    confirmed: bool | None = None


@dataclass
class Outcome:
    """What a call comes to."""

    response: JsonObject | None = None
    delta: JsonObject = field(default_factory=dict)
    waits: bool = False
    asks: bool = False
    hop: str = ""
    leaves: bool = False
    suspended: bool = False


@dataclass
class Stand:
    """Where a place stands: a node's decisions, or an agent's turn."""

    ended: bool = False
    failed: bool = False
    rounds: int = 0
    stop: bool = False
    choice: int = 0
    case: int | None = None
    agent: str = ""
    answered: bool = False
    text: str = ""
    asked: bool = False
    steps: int = 0
    news: bool = False
    hops: list[str] = field(default_factory=list)
    open: dict[str, Made] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)
    waited: set[str] = field(default_factory=set)
    questions: dict[str, str] = field(default_factory=dict)
    lane: str = ""


@dataclass
class Invocation:
    """One invocation: where its places stand, and what was heard of them last."""

    id: str
    start: str
    stands: dict[Path, Stand] = field(default_factory=lambda: defaultdict(Stand))
    heard: list[tuple[Path, bool]] = field(default_factory=list)
    escalated: list[Path] = field(default_factory=list)
    hops: int = 0
    failed: bool = False
    said: tuple[int, str] = (-1, "")


@dataclass
class Lane:
    """What the log has of one lane in this run; `low` is where the lane stands in the log."""

    name: str
    low: int
    may_end: bool


def data_of(program: Program, *, followed: bool) -> set[str]:
    """The speakers whose text is data (O2): they write a key, and something comes after them."""
    match program:
        case Speaker():
            return {one.name for one, _ in program.tree() if followed and one.writes}
        case Row():
            last = len(program.steps) - 1
            parts = [(step, followed or at < last) for at, step in enumerate(program.steps)]
        case Fork():
            parts = [(branch, followed) for branch in program.branches]
        case Rounds():
            parts = [(program.body, followed)]
        case Choices():
            parts = [(choice, followed) for choice in program.choices]
        case Switch():
            ways = [way for _, way in program.cases]
            parts = [(way, followed) for way in (*ways, program.default) if way is not None]
        case _:
            parts = []
    return {name for part, behind in parts for name in data_of(part, followed=behind)}


class Interpreter:
    """Walks a program beside its runs."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._data = data_of(program, followed=False)
        self.state: JsonObject = {}
        self.spoken: Counter[str] = Counter()
        self.invocations: dict[str, Invocation] = {}
        self._kept: list[tuple[int, str, Invocation]] = []
        self._queues: dict[str, deque[tuple[int, Event]]] = {}
        self._sheltered: list[Path] = []
        self._inv = Invocation("", "")

    # One run.

    def follow(
        self, id: str, events: Iterable[tuple[int, Event]], *, may_end: bool, cancelled: bool
    ) -> None:
        """Hold a run's events, by their places in the log, against what must come of it."""
        inv = self._inv = self.invocations[id]
        self._sheltered = []
        self._queues = defaultdict(deque)
        for index, event in events:
            if not _is_record(event):
                lane = event.isolation_scope or event.branch or ""
                self._queues[lane].append((index, event))
        stopped = self._taken_stop() if cancelled else False
        lane = Lane("", -1, may_end)
        inv.failed = False
        try:
            if isinstance(self.program, Speaker):
                self._speaker(self.program, (), lane, inv.start)
            else:
                self._node(self.program, (self.program.name,), lane)
        except Failed:
            inv.failed = True
        except Waits:
            pass
        except Cut:
            assert may_end, "the log ends too early"
        if stopped:
            self._close_calls((), may_end=False)
        left = [_short(event) for queue in self._queues.values() for _, event in queue]
        assert not left, f"nobody expects {left}"

    def begin(self, id: str, start: str, delta: JsonObject) -> None:
        """A user's message began an invocation."""
        self.invocations[id] = Invocation(id, start)
        self._write(delta)

    def answer(self, id: str, answers: dict[str, Json]) -> None:
        """The user answered calls of an invocation."""
        inv = self.invocations[id]
        for path, stand in inv.stands.items():
            for call_id, value in answers.items():
                if call_id in stand.questions:
                    original = stand.questions.pop(call_id)
                    stand.open[original].confirmed = value is True
                    stand.pending.discard(original)
                elif call_id in stand.pending:
                    stand.open.pop(call_id, None)
                    stand.pending.discard(call_id)
                    stand.news = True
                else:
                    continue
                stand.failed = False
                inv.heard.append((path, False))

    def keep(self, id: str, at: int) -> None:
        """Remember how an invocation stood when the log had so many events."""
        self._kept.append((at, id, deepcopy(self.invocations[id])))

    def take_back(self, first: int) -> None:
        """Put every invocation back to where it stood before an event of the log."""
        while self._kept and self._kept[-1][0] >= first:
            _, id, before = self._kept.pop()
            self.invocations[id] = before

    def open_calls(self, ids: Iterable[str]) -> set[str]:
        """The calls that have no result and never waited for one, wherever a run was cut."""
        stands = [stand for id in ids for stand in self.invocations[id].stands.values()]
        return {id for stand in stands for id in stand.open if id not in stand.waited}

    def waiting(self, id: str) -> dict[str, str]:
        """The calls of an invocation that wait, each with the id that its answer has."""
        found: dict[str, str] = {}
        for stand in self.invocations[id].stands.values():
            asked = {call: question for question, call in stand.questions.items()}
            found.update({call: asked.get(call, call) for call in stand.pending})
        return found

    # Nodes.

    def _node(self, program: Program, path: Path, lane: Lane, *, is_round: bool = False) -> None:
        if isinstance(program, Speaker):
            self._speaker(program, path, lane, program.name)
            return
        stand = self._inv.stands[path]
        if stand.ended:
            return
        if stand.failed and self._is_sheltered(path):
            raise Failed
        match program:
            case Row():
                for index, step in enumerate(program.steps):
                    inner = (*path, index)
                    self._node(step, inner, lane)
                    if is_round and self._has_escalated(inner):
                        break
            case Fork():
                self._fork(program, path, lane)
            case Rounds():
                self._rounds(program, path, lane, stand)
            case Choices():
                self._choices(program, path, lane, stand)
            case Switch():
                self._switch(program, path, lane, stand)
            case Task():
                self._task(program, path, lane, stand)
                return
        event = self._take(lane, path, program.name, "end")
        assert event.actions.end_of_agent
        stand.ended = True

    def _fork(self, program: Fork, path: Path, lane: Lane) -> None:
        paths = [(*path, index) for index in range(len(program.branches))]
        if program.collects and not all(map(self._failed_last, paths)):
            self._sheltered += paths
        ends: list[type[Exception] | None] = []
        lows = [lane.low]
        for index, branch in enumerate(program.branches):
            name = f"{program.name}.{branch.name}"
            inner = Lane(
                f"{lane.name}.{name}" if lane.name else name,
                lane.low,
                lane.may_end or not program.collects,
            )
            try:
                self._node(branch, paths[index], inner)
                ends.append(None)
            except (Failed, Waits, Cut) as end:
                ends.append(type(end))
            lows.append(inner.low)
        lane.low = max(lows)
        failed = ends.count(Failed)
        if Cut in ends:
            assert failed or lane.may_end, "a branch ends too early, and none has failed"
        if not program.collects:
            for inner_path, end in zip(paths, ends, strict=True):
                self._close_calls(inner_path, may_end=lane.may_end or end is not Cut)
        if failed and not (program.collects and (Waits in ends or failed < len(ends))):
            raise Failed
        if Cut in ends:
            raise Cut
        if Waits in ends:
            raise Waits

    def _rounds(self, program: Rounds, path: Path, lane: Lane, stand: Stand) -> None:
        while stand.rounds < program.most and not stand.stop:
            inner = (*path, stand.rounds)
            self._node(program.body, inner, lane, is_round=True)
            stop = self._has_escalated(inner)
            if not stop and program.until is not None:
                key, word = program.until
                stop = self.state.get(key) == word
            event = self._take(lane, path, program.name, "decision")
            assert event.actions.agent_state == {"rounds": stand.rounds + 1, "stop": stop}
            stand.rounds += 1
            stand.stop = stop

    def _choices(self, program: Choices, path: Path, lane: Lane, stand: Stand) -> None:
        while True:
            inner, last = (*path, stand.choice), stand.choice == len(program.choices) - 1
            if not last:
                self._sheltered.append(inner)
            try:
                self._node(program.choices[stand.choice], inner, lane)
                return
            except Failed:
                if last:
                    raise
            event = self._take(lane, path, program.name, "decision")
            assert event.actions.agent_state == {"failed": stand.choice}
            stand.choice += 1

    def _switch(self, program: Switch, path: Path, lane: Lane, stand: Stand) -> None:
        nodes = children(program)
        if stand.case is None:
            value = self.state.get(program.key)
            values = [each for each, _ in program.cases]
            case = values.index(str(value)) if value in values else len(values)
            if case == len(nodes):
                self._take(lane, path, program.name, "error", "no_route")
                raise Failed
            event = self._take(lane, path, program.name, "decision")
            assert event.actions.agent_state == {"case": case}
            stand.case = case
        self._node(nodes[stand.case], (*path, stand.case), lane)

    def _task(self, program: Task, path: Path, lane: Lane, stand: Stand) -> None:
        if self.state.get("trip"):
            self._take(lane, path, program.name, "error", "step_error")
            raise Failed
        before = self.state.get(f"n_{program.name}", 0)
        assert isinstance(before, int)
        delta: JsonObject = {f"n_{program.name}": before + 1}
        event = self._take(lane, path, program.name, "end", delta=delta)
        assert event.actions.end_of_agent
        stand.ended = True

    # Agents.

    def _speaker(self, root: Speaker, path: Path, lane: Lane, start: str) -> None:
        stand = self._inv.stands[path]
        stand.lane = lane.name
        if stand.failed and self._is_sheltered(path):
            raise Failed
        stand.agent = stand.agent or start
        while not stand.answered:
            if any(id not in stand.pending for id in stand.open):
                self._answer_calls(root, path, lane, stand)
            elif stand.pending:
                raise Waits
            else:
                self._ask(root, path, lane, stand)

    def _ask(self, root: Speaker, path: Path, lane: Lane, stand: Stand) -> None:
        speaker = root.find(stand.agent)[-1]
        if stand.steps >= MAX_STEPS:
            self._take(lane, path, speaker.name, "error", "max_steps")
            raise Failed
        number = self.spoken[speaker.name]
        reply = reply_of(speaker, number)
        if reply.fails:
            self._take(lane, path, speaker.name, "error", reply.fails)
            self.spoken[speaker.name] += 1
            raise Failed
        if not reply.calls:
            delta: JsonObject = {speaker.key: reply.text} if speaker.writes else {}
            event = self._take(lane, path, speaker.name, "text", delta=delta)
            assert event.text == reply.text
            self.spoken[speaker.name] += 1
            stand.answered, stand.text = True, reply.text
            self._hear_text(event, lane, reply.text)
            return
        event = self._take(lane, path, speaker.name, "calls")
        assert event.text == reply.text
        if any(kind in ("wait", "job", "pay") for kind in reply.calls):
            self._hear_text(event, lane, reply.text)  # what is said while it waits
        expected = [call_of(speaker, kind, number, place) for place, kind in enumerate(reply.calls)]
        assert [(call.name, call.args) for call in event.calls] == expected
        self.spoken[speaker.name] += 1
        stand.steps += 1
        stand.news = stand.news or bool(reply.text)
        for place, (call, kind) in enumerate(zip(event.calls, reply.calls, strict=True)):
            assert call.id
            stand.open[call.id] = Made(speaker, kind, number, place)

    def _answer_calls(self, root: Speaker, path: Path, lane: Lane, stand: Stand) -> None:
        due = {id: made for id, made in stand.open.items() if id not in stand.pending}
        outcomes: dict[str, Outcome] = {}
        cut = False
        for id, made in due.items():
            try:
                outcomes[id] = self._outcome(root, path, lane, id, made)
            except Cut:
                cut = True
        if cut:
            raise Cut
        if any(one.waits or one.suspended for one in outcomes.values()):
            for id, one in outcomes.items():
                if one.hop:
                    outcomes[id] = Outcome({"error": "not handed over"})
        told = {id: one.response for id, one in outcomes.items() if one.response is not None}
        waits = [id for id, one in outcomes.items() if one.waits]
        hop = next((one.hop for one in outcomes.values() if one.hop), "")
        refused = self._refused(root, stand, hop, len(told)) if hop else ""
        delta = {key: value for one in outcomes.values() for key, value in one.delta.items()}
        speaker = stand.agent
        if told or waits:
            event = self._take(lane, path, speaker, "results", told=told, delta=delta)
            assert _pending(event) == waits
            assert event.actions.transfer_to_agent == (None if refused else hop or None)
            leaves = any(one.leaves for one in outcomes.values())
            assert event.actions.escalate == event.actions.skip_summarization == (leaves or None)
            for id in told:
                del stand.open[id]
                stand.news = stand.news or not due[id].kind.startswith("to:")
            stand.pending.update(waits)
            stand.waited.update(waits)
            if leaves:
                self._inv.escalated.append(path)
                stand.answered = True
            if hop and not refused:
                self._inv.hops += 1
                stand.hops.append(stand.agent)
                stand.agent, stand.steps, stand.news = hop, 0, False
        if refused:
            self._take(lane, path, speaker, "error", refused, at_once=True)
            raise Failed
        asks = [id for id, one in outcomes.items() if one.asks]
        if asks:
            event = self._take(lane, path, speaker, "questions", at_once=True)
            about = [(call.args or {}).get("originalFunctionCall") for call in event.calls]
            assert [one.get("id") for one in about if isinstance(one, dict)] == asks
            stand.questions.update(
                {call.id or "": id for call, id in zip(event.calls, asks, strict=True)}
            )
        if any(one.suspended for one in outcomes.values()):
            raise Waits

    def _outcome(self, root: Speaker, path: Path, lane: Lane, id: str, made: Made) -> Outcome:
        where = f"{made.number}.{made.place}"
        match made.kind:
            case "ok":
                return Outcome({"result": f"ok {where}"})
            case "put":
                delta: JsonObject = {f"t_{made.speaker.name}": where}
                return Outcome({"result": f"put {where}"}, delta)
            case "bad":
                return Outcome({"error": f"ValueError: bad {where}"})
            case "nope":
                return Outcome({"error": "there is no tool 'nope'"})
            case "wait":
                return Outcome(waits=True)
            case "job":
                return Outcome({"status": f"started {where}"}, waits=True)
            case "pay":
                if made.confirmed is None:
                    return Outcome(waits=True, asks=True)
                if not made.confirmed:
                    return Outcome({"error": "the user refused this call"})
                return Outcome({"result": f"paid {where}"})
            case "exit":
                return Outcome({"result": "left"}, leaves=True)
            case "expert":
                return self._expert(path, lane, id, made)
            case hop:
                target = hop[3:]
                if target in root.targets(made.speaker.name):
                    return Outcome({"result": f"handed over to {target}"}, hop=target)
                return Outcome({"error": f"there is no agent '{target}' to hand over to"})

    def _expert(self, path: Path, lane: Lane, id: str, made: Made) -> Outcome:
        expert = made.speaker.expert
        assert expert is not None
        inner, within = (*path, id), Lane(id, lane.low, lane.may_end)
        stand = self._inv.stands[inner]
        stand.lane = id
        self._sheltered.append(inner)
        try:
            if not stand.asked:
                event = self._take(within, inner, "user", "text")
                assert event.text == f"{made.number}.{made.place}"
                stand.asked = True
            self._speaker(expert, inner, within, expert.name)
        except Failed:
            return Outcome({"error": f"{expert.name} failed: "})
        except Waits:
            return Outcome(suspended=True)
        finally:
            lane.low = max(lane.low, within.low)
        return Outcome({"result": stand.text})

    def _refused(self, root: Speaker, stand: Stand, hop: str, results: int) -> str:
        if self._inv.hops >= MAX_HOPS:
            return "max_transfers"
        back = bool(stand.hops) and stand.hops[-1] == hop
        return "transfer_loop" if back and not stand.news and results < 2 else ""

    # The log.

    def _take(
        self,
        lane: Lane,
        path: Path,
        author: str,
        kind: str,
        code: str = "",
        *,
        told: dict[str, JsonObject] | None = None,
        delta: JsonObject | None = None,
        at_once: bool = False,
    ) -> Event:
        """The lane's next event, which must be this one; Cut if there is none and may be none.

        One that comes `at_once` is stored together with the one before.
        """
        queue = self._queues.get(lane.name)
        wanted = f"{author}: {kind} {code}".strip()
        if not queue:
            assert lane.may_end, f"the log has no {wanted} in lane {lane.name!r}"
            assert not at_once, f"{wanted} is not stored with what it belongs to"
            raise Cut
        index, event = queue[0]
        if told is not None and lane.may_end and _was_stopped(event):
            raise Cut
        queue.popleft()
        assert _kind(event) == (author, kind, code), f"not {wanted}, but {_short(event)}"
        assert index > lane.low, f"{wanted} comes before what it builds on"
        assert event.invocation_id == self._inv.id
        lane.low = index
        if told is not None:
            ids = [result.id for result in event.results]
            assert ids == list(told), f"not results of {list(told)}, but {_short(event)} of {ids}"
            for result in event.results:
                given, due = result.response or {}, told[result.id or ""]
                assert _is_as_told(given, due), f"not {due}, but {given}"
        assert event.actions.state_delta == (delta or {})
        self._write(event.actions.state_delta)
        self._hear(path, failed=kind == "error")
        return event

    def _hear(self, path: Path, *, failed: bool) -> None:
        self._inv.heard.append((path, failed))
        self._inv.stands[path].failed = failed

    def _hear_text(self, event: Event, lane: Lane, text: str) -> None:
        """Note what is the last word of the invocation so far."""
        data = event.author in self._data and not event.isolation_scope
        assert (event.audience == "internal") == data, (event.author, self._data)
        if text and not event.isolation_scope and not data:
            self._inv.said = max(self._inv.said, (lane.low, text))

    def _taken_stop(self) -> bool:
        """Take the word that the run was cancelled off the log, if it is there."""
        queue = self._queues.get("")
        if not queue or queue[-1][1].error_code != "cancelled":
            return False
        event = queue.pop()[1]
        assert event.interrupted
        return True

    def _close_calls(self, below: Path, *, may_end: bool) -> None:
        """What was open when a branch was stopped is answered, by its result if it has one."""
        for path, stand in list(self._inv.stands.items()):
            due = {id: made for id, made in stand.open.items() if id not in stand.pending}
            if not due or path[: len(below)] != below:
                continue
            queue = self._queues[stand.lane]
            if may_end and not (queue and _was_stopped(queue[0][1])):
                continue
            assert queue, f"{list(due)} are left open by a run that was stopped"
            _, event = queue.popleft()
            assert _kind(event)[:2] == (stand.agent, "results")
            assert [result.id for result in event.results] == list(due)
            lane = Lane(stand.lane, -1, may_end=False)
            for result in event.results:
                made = stand.open.pop(result.id or "")
                if _is_stop(result.response):
                    continue
                outcome = self._outcome(made.speaker, path, lane, result.id or "", made)
                assert _is_as_told(result.response or {}, outcome.response or {})
                if outcome.waits:
                    stand.pending.add(result.id or "")
                    stand.waited.add(result.id or "")
            stand.news = True
            assert _pending(event) == [id for id in due if id in stand.pending]
            self._write(event.actions.state_delta)
            self._hear(path, failed=False)

    def _write(self, delta: JsonObject) -> None:
        kept = {key: value for key, value in delta.items() if not key.startswith("temp:")}
        self.state = apply_delta(self.state, kept)

    def _is_sheltered(self, path: Path) -> bool:
        return any(path[: len(other)] == other for other in self._sheltered)

    def _failed_last(self, path: Path) -> bool:
        for other, failed in reversed(self._inv.heard):
            if other[: len(path)] == path:
                return failed
        return False

    def _has_escalated(self, path: Path) -> bool:
        return any(where[: len(path)] == path for where in self._inv.escalated)


def _is_record(event: Event) -> bool:
    """Whether it only keeps the outcome of a call until all of them are there."""
    weft = (event.custom_metadata or {}).get("weft")
    return isinstance(weft, dict) and ("outcomes" in weft or "started" in weft)


def _kind(event: Event) -> tuple[str, str, str]:
    if event.error_code:
        return event.author, "error", event.error_code
    if any(call.name == CONFIRMATION for call in event.calls):
        return event.author, "questions", ""
    if event.calls:
        return event.author, "calls", ""
    if event.results or _pending(event):
        return event.author, "results", ""
    if event.actions.agent_state is not None:
        return event.author, "decision", ""
    if event.actions.end_of_agent:
        return event.author, "end", ""
    return event.author, "text", ""


def _pending(event: Event) -> list[object]:
    weft = (event.custom_metadata or {}).get("weft")
    pending = weft.get("pending") if isinstance(weft, dict) else None
    return pending if isinstance(pending, list) else []


def _was_stopped(event: Event) -> bool:
    return any(_is_stop(result.response) for result in event.results)


def _is_stop(response: JsonObject | None) -> bool:
    """Whether a result says that there is none, because the call was stopped."""
    return any(str((response or {}).get("error")).startswith(words) for words in STOPPED)


def _is_as_told(response: JsonObject, told: JsonObject) -> bool:
    """Whether a result is the one predicted; of an error, how it begins."""
    if "error" in told:
        return str(response.get("error")).startswith(str(told["error"]))
    return response == told


def _short(event: Event) -> str:
    author, kind, code = _kind(event)
    names = [call.name for call in event.calls] or [r.response for r in event.results]
    return f"{author}: {kind} {code or names or event.text}"
