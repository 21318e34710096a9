"""What-ifs of a recording: each call compiled otherwise, from what its own request held."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import msgspec

from weft.compiler.compiled import Compilation
from weft.compiler.plan import NamedModel
from weft.content import Content, Part
from weft.declare import Agent, Node, RunConfig
from weft.declare.template import write_literally
from weft.declare.tool import Tool
from weft.dialects import dialect_named
from weft.dialects.wire import ReadTool
from weft.ir import Feature, Prompt, ToolDecl
from weft.ir.prompt import is_declared_for_calls
from weft.recordings import ExchangeRecord, RecordedBlock
from weft.recordings.providers import LISTS
from weft.recordings.recording import AGENT, declared_tools
from weft.replay.recorded import RecordedCalls, measure_by_yardstick
from weft.replay.steps import Speaker, StepWalk, compile_before, speaker_of
from weft.session import Event, Session
from weft.session.provenance import Provenance


class OverlayWalk(StepWalk):
    """The calls of a recording compiled otherwise, each from what its own request held.

    Its system text, its tools and its options stay as they were recorded. So what differs from the
    recorded request is what the policy or the model does.
    """

    def __init__(
        self,
        root: Node,
        recorded: RecordedCalls,
        *,
        config: RunConfig,
        model: str = "",
        added: frozenset[str] = frozenset(),
    ) -> None:
        """`root` are the recording's agents with the policy; `model` is another one to ask.

        The events that are `added` stand in each request after them, also where it did not hold
        them.
        """
        session = recorded.recording.session
        super().__init__(root, session, config=config, answers=recorded.answers)
        self._model = model
        self._added = added
        self._settings = config
        self._exchanges = {one.event: one for one in recorded.exchanges}
        self._requests = {step.event.id: step.request for step in recorded.steps}
        self._heads: dict[tuple[str, int, int], tuple[Prompt, Agent]] = {}
        self._logs: dict[Speaker, _AgentLog] = {}
        self._by_id = {event.id: event for event in session.events}
        self._is_alone = len({event.author for event in session.events} - {"user"}) < 2

    def compile(self, event: Event, home: Agent, before: Session) -> Compilation:
        """The request of a call, from what was recorded of it."""
        exchange, recorded = self._exchanges[event.id], self._requests[event.id]
        assert recorded is not None
        prompt = recorded.prompt
        has_body = exchange.body is not None
        agent = self._agent(home, prompt, recorded.dialect, has_body=has_body)
        log = before
        if has_body or not self._is_alone:
            agent_log = self._logs.setdefault(speaker_of(event), _AgentLog(before))
            events = self._events_in(exchange, before)
            log = agent_log.read(self._with_added(events, before), event.author)
        named = self._model or NamedModel(prompt.model or "unknown", recorded.dialect)
        config = msgspec.structs.replace(self._settings, model=named, strict=False)
        if log is not before:  # it holds what the agent was sent, whoever said it
            event = msgspec.structs.replace(event, branch=None, isolation_scope=None)
        request = compile_before(event, agent, log, config=config)
        request.plan = measure_by_yardstick(request.plan, request.prompt.model)
        if request.dialect == recorded.dialect:
            request.prompt = _with_head(request.prompt, recorded.priced.prompt, agent)
        return request

    def _agent(self, home: Agent, prompt: Prompt, dialect: str, *, has_body: bool) -> Agent:
        """The agent with the system text and the tools of one request."""
        key = (home.name, id(prompt.system), id(prompt.tools))
        known = self._heads.get(key)
        if known is None:
            text = "\n\n".join(block.text for block in prompt.system)
            # a transcript may not hold its tools: that there were some decides what a policy does,
            # and none of them gets into the request
            tools = _declare_tools(prompt.tools, dialect) or (() if has_body else home.tools)
            agent = dataclasses.replace(home, instruction=write_literally(text), tools=tools)
            # the prompt is kept, so that no other has its numbers
            known = self._heads[key] = (prompt, agent)
        return known[1]

    def _events_in(self, exchange: ExchangeRecord, before: Session) -> Iterator[Event]:
        """The events that a request held, in their order and in its words."""
        if exchange.body is None:
            for one in before.events:
                if (one.isolation_scope or "") == exchange.lane:
                    yield one
            return
        times: Counter[str] = Counter()
        for _, together in groupby(exchange.blocks, lambda one: one.event or _turn_of(one)):
            for event in self._event_of([*together], exchange):
                times[event.id] += 1
                # an event may be said in two places, and each has a name of its own
                again = f"{event.id} ({times[event.id]})" if times[event.id] > 1 else event.id
                yield msgspec.structs.replace(event, id=again)

    def _with_added(self, events: Iterable[Event], before: Session) -> Iterator[Event]:
        """The events of a request, and those that are added, each before what was said after it."""
        listed = [*events]
        ids = {event.id for event in listed}
        waiting = [one for one in before.events if one.id in self._added and one.id not in ids]
        places = {event.id: at for at, event in enumerate(before.events)} if waiting else {}
        for event in listed:
            place = places.get(event.id, -1)
            while waiting and places[waiting[0].id] < place:
                yield waiting.pop(0)
            yield event
        yield from waiting

    def _event_of(
        self, blocks: Sequence[RecordedBlock], exchange: ExchangeRecord
    ) -> Iterator[Event]:
        """The event of some blocks that stand together; none of the head."""
        if not blocks or blocks[0].source.kind in ("system", "tool"):
            return
        first = blocks[0]
        event = self._by_id.get(first.event)
        if event is None or event.content is None:
            parts = [one for block in blocks for one in _read_part(block, exchange)]
            if parts:
                role = "model" if first.role == "model" else "user"
                author = AGENT if role == "model" else "user"
                content = Content(parts=tuple(parts), role=role)
                maker = Provenance(provider=exchange.dialect, model=exchange.model)
                notes = maker.onto(None) if role == "model" else None
                yield Event(
                    author=author,
                    id=_turn_of(first),
                    content=content,
                    custom_metadata=notes,
                    timestamp=0.0,
                )
            return
        listed = event.content.parts or ()
        parts = [
            msgspec.structs.replace(listed[block.part], text=block.text)
            if block.kind == "text" and listed[block.part].text not in (None, block.text)
            else listed[block.part]
            for block in blocks
            if 0 <= block.part < len(listed)
        ]
        if [*listed] != parts:
            content = msgspec.structs.replace(event.content, parts=tuple(parts))
            event = msgspec.structs.replace(event, content=content)
        yield event


class _AgentLog:
    """The log that the requests of one agent hold; it grows as long as they do."""

    def __init__(self, session: Session) -> None:
        self._empty = Session(
            session.id,
            app_name=session.app_name,
            user_id=session.user_id,
            state=session.initial,
        )
        self._log = self._empty
        self._events: list[Event] = []

    def read(self, events: Iterable[Event], author: str) -> Session:
        """The log of these events: all of them were said to the agent, or by it."""
        listed = [*events]
        known = len(self._events)
        if listed[:known] != self._events:
            self._log, known = self._empty, 0
        fresh = [_as_said_to(author, one) for one in listed[known:]]
        if fresh:
            self._log = self._log.append(*fresh)
        self._events = listed
        return self._log


def _as_said_to(author: str, event: Event) -> Event:
    """An event as one of the conversation of an agent, wherever it was said."""
    if event.author in ("user", author) and not (event.branch or event.isolation_scope):
        return event
    author = "user" if event.author == "user" else author
    return msgspec.structs.replace(event, author=author, branch=None, isolation_scope=None)


def _turn_of(block: RecordedBlock) -> str:
    return block.place.rpartition("/")[0]


def _read_part(block: RecordedBlock, exchange: ExchangeRecord) -> Iterator[Part]:
    """A part of a request that is in no event, such as one that only its provider reads."""
    dialect = dialect_named(exchange.dialect)
    name = LISTS[exchange.dialect]
    spelled = dialect.spell(exchange.body or {})
    turns, (_, turn, place) = spelled.get(name), block.place.split("/")
    if isinstance(turns, list):
        reading = dialect.read({name: [turns[int(turn)]]})
        parts = [part for one in reading.turns for part in one.parts]
        if int(place) < len(parts) and parts[int(place)].part.kind != "empty":
            yield parts[int(place)].part


def _declare_tools(declared: Sequence[ToolDecl], dialect: str) -> tuple[Tool, ...]:
    """The tools of a request as an agent declares them."""
    read = (
        (
            ReadTool(
                one.own or {}, one.name, one.description, one.parameters, own=one.own is not None
            ),
            one.kept,
        )
        for one in declared
    )
    return declared_tools(read, dialect)


def _with_head(prompt: Prompt, recorded: Prompt, agent: Agent) -> Prompt:
    """The prompt with the recorded head, and what the policy added to it."""
    own = {tool.name for tool in agent.tools}
    names = {tool.name for tool in prompt.tools}
    tools = [one for one in recorded.tools if one.name in names or one.name not in own]
    # of the program, only its calls may be known: no tool is made up from them
    tools += [one for one in prompt.tools if one.name not in own and not is_declared_for_calls(one)]
    added = [one for one in prompt.system if one.origin.kind not in ("field", "dialect")]
    return msgspec.structs.replace(
        prompt,
        system=(*recorded.system, *added),
        tools=tuple(tools),
        config=recorded.config,
        output=recorded.output,
        cache=recorded.cache or prompt.cache,
        features=prompt.features if tools else Feature.NONE,
    )
