"""`weft.compact`: a request of any agent, made cheaper by a policy, without a session.

A pure function: the same request gives the same bytes, in every process. The caller sends the whole
history with each request, and passes decide by the log alone. So a request begins with the one
before it, and what the provider has kept stays good.
"""

import operator
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from itertools import dropwhile, takewhile
from threading import Lock
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar, cast

import msgspec

from weft.compaction.patching import (
    Joined,
    MessageOrder,
    Patcher,
    Place,
    RequestEdit,
    compare_items,
    count_common,
    place_system,
    spell_block,
)
from weft.compaction.reading import (
    AGENT,
    QUOTED_MARKS,
    Histories,
    HistoryReader,
    ReadHistory,
    Request,
    RequestBody,
    chain_hashes,
    read_body,
    take_apart,
)
from weft.compaction.splicing import (
    Unlike,
    encode,
    join_elements,
    replace_fields,
    splice,
)
from weft.compiler import Compilation, compile_request
from weft.compiler.costs import Load, Rates, announced, load_of, rates_for
from weft.compiler.parts import media_block
from weft.compiler.plan import NamedModel
from weft.compiler.receipt import Expectation
from weft.compiler.tools import recall_tool, values_of
from weft.content import FunctionCall
from weft.declare import Agent, C, RunConfig
from weft.declare.policy import Policy, Stage, makes_handles, policies_in
from weft.declare.policy_parts import Auto, Budget, Label, Redact, When
from weft.declare.template import write_literally
from weft.diagnostics import Diagnostic, Origin, Severity, report
from weft.dialects import Dialect, facts_for, wire_name
from weft.dialects.caching import MARK, MARKS, keeps_unasked, without_marks
from weft.dialects.facts import YARDSTICK
from weft.dialects.legality import TurnJudge
from weft.dialects.measure import Mark, Meter, TurnCost
from weft.dialects.track import LoweringReport
from weft.dialects.wire import ReadTool
from weft.errors import (
    BudgetExceeded,
    DeclarationError,
    ProtectionError,
    UsageError,
    WeftError,
)
from weft.ir import Item, MediaBlock, ResultBlock, TextBlock, ToolDecl
from weft.ir.block import RECALL
from weft.misuse import explain_calls
from weft.recordings.recording import tools_of
from weft.values import Json, JsonObject

if TYPE_CHECKING:
    from weft.compiler.report import Report

_histories = Histories()
"""What was read of the requests before; the same request gives the same bytes without it."""


@explain_calls("weft.compact(request, C.auto())")
def compact(
    request: Request,
    policy: Policy | None = None,
    *,
    dialect: str | None = None,
    model: str = "",
) -> "Compacted":
    """Make a provider's request cheaper, as a policy says; `C.auto()` where none is given.

    `request` is a provider's JSON, parsed or as text or bytes, or a list of its messages. Its
    dialect is found by its shape, or named by `dialect`; `model` is for JSON that does not name it.
    What the policy does not change is in the outcome as it came: the same objects, or the same
    bytes.
    """
    chosen = C.auto() if policy is None else policy
    require_stateless(chosen, where="weft.compact")
    return compact_body(read_body(request, dialect), chosen, model=model)


def compact_body(body: RequestBody, policy: Policy, *, model: str = "") -> "Compacted":
    """As `compact`, for a request whose messages are known one by one."""
    named = body.wire.get("model")
    name = named if isinstance(named, str) and named else model
    return Compacted(_Work(_list_words(body) if policy.protections else body, policy, name))


def ask_to_keep(body: RequestBody, model: str = "") -> RequestBody:
    """The request with a mark for the provider's cache, where nothing of it is kept without one.

    The caller's own marks stand. A request is left as it is where its dialect has no such mark.
    """
    named = body.wire.get("model")
    name = named if isinstance(named, str) and named else model
    if not body.dialect.traits.marks_requests or _is_anything_kept(body, name):
        return body
    mark: JsonObject = {"type": "ephemeral"}
    wire: JsonObject = {**body.wire, MARK: mark}
    if body.raw is None:
        return body._replace(request=wire, wire=wire)
    fields = {**body.fields, MARK: msgspec.Raw(encode(mark))}
    try:
        raw = replace_fields(body.raw, {MARK: encode(mark)}, fields=body.fields)
    except Unlike:
        raw = encode(wire)
    return body._replace(request=raw, wire=wire, raw=raw, fields=fields)


def _is_anything_kept(body: RequestBody, model: str) -> bool:
    """Whether the provider keeps anything: where it must be asked, the caller asks."""
    if body.is_list or keeps_unasked(body.wire, facts_for(model).cache):
        return True
    return any(map(_has_mark, reversed(body.keys))) or _has_mark(encode(_options_of(body)))


def _options_of(body: RequestBody) -> JsonObject:
    """All fields of a request but its messages."""
    turns = body.dialect.traits.turns
    return {key: value for key, value in body.wire.items() if key != turns}


def _list_words(body: RequestBody) -> RequestBody:
    """A request that says its words as one text, with the message that they stand for.

    What is to be replaced in them has a place then. The request itself is what came.
    """
    turns = body.dialect.traits.turns
    words = body.wire.get(turns)
    if not isinstance(words, str):
        return body
    wire: JsonObject = {**body.wire, turns: [{"role": "user", "content": words}]}
    raw = splice(body.raw, body.wire, wire) if body.raw is not None else None
    return take_apart(body.request, wire, body.dialect, raw, is_list=False)


class LeftOut(NamedTuple):
    """Something that the request says in fewer words now, or not at all.

    `pointer` is where it stood in what came. `tokens_after` is 0 where it was left out. `handle` is
    what `recall` finds it by, where a digest stands in its place.
    """

    pointer: str
    tokens_before: int
    tokens_after: int
    reason: str
    handle: str = ""


class Compacted:
    """A request after `weft.compact`, what it costs, and what it leaves out."""

    def __init__(self, work: "_Work") -> None:
        self._work = work
        self.request: Request = work.request
        """The request in the form in which it came; the same object where nothing changed."""
        self.sources: tuple[int | None, ...] = work.sources
        """For each message of `request` the index of the one that came; None for a new one."""
        self.tool: JsonObject | None = work.tool
        """How `recall` is declared, where handles may stand in the request.

        It is among the tools of `request` already, unless only messages came.
        """

    @cached_property
    def tokens(self) -> int:
        """The tokens of the request now; of a list of messages, those of the messages."""
        return self._work.tokens

    @cached_property
    def tokens_before(self) -> int:
        """The tokens of the request as it came."""
        return self._work.tokens_before

    @cached_property
    def cost(self) -> float:
        """What the request is predicted to cost, without its answer.

        In US dollars where the model has a price, else in tokens that are read for the first time.
        What the conversation sent with the request before is expected to be read again.
        """
        return self._work.cost_of(self._work.tokens, self._work.shared)

    @cached_property
    def cost_before(self) -> float:
        """What it would have cost as it came."""
        return self._work.cost_of(self._work.tokens_before, self._work.shared_before)

    @property
    def lacks_mark(self) -> bool:
        """Whether the provider keeps nothing of it only because nothing in it is marked."""
        least = facts_for(self._work.model).cache.minimum
        is_markable = self._work.dialect.traits.marks_requests and not self._work.asks
        return is_markable and self.tokens_before >= least

    @cached_property
    def expected(self) -> Expectation:
        """What the request is expected to cost, to hold its bill against."""
        return Expectation(
            self._work.model, self._work.load_of(self._work.tokens, self._work.shared)
        )

    @cached_property
    def expected_before(self) -> Expectation:
        """The same of the request as it came."""
        return Expectation(
            self._work.model, self._work.load_of(self._work.tokens_before, self._work.shared_before)
        )

    @cached_property
    def left_out(self) -> tuple[LeftOut, ...]:
        """What is said in fewer words, or not at all, in the order of the messages."""
        return tuple(self._work.list_left_out())

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What there is to say about it, such as an edit of what was sent before and its price."""
        return tuple(self._work.list_diagnostics())

    def explain(self) -> "Report":
        """The report of the compilation: a row a pass, a row a block, and why."""
        return self._work.seen.explain()

    def recall(self, call: JsonObject) -> JsonObject:
        """The answer to a call of `recall`, out of the request that came.

        `call` is the call as the provider spells it. The answer is what goes back to it, to be sent
        as the results of other tools are: a message, a block, a part or an item.
        """
        return self._work.answer_recall(call)

    def look_up(self, arguments: Mapping[str, Json]) -> str:
        """What `recall` with these arguments says, as text: for a tool that a host calls itself."""
        response, _ = self._work.find(FunctionCall(name=RECALL, args=dict(arguments)))
        text = response.get("result", response.get("error"))
        return text if isinstance(text, str) else encode(response).decode()

    def continues(self, earlier: "Compacted") -> bool:
        """Whether it begins with all messages of an earlier request, under the same head."""
        chain, longer = earlier._work.chains, self._work.chains
        return 0 < len(chain) <= len(longer) and longer[len(chain) - 1] == chain[-1]

    def __repr__(self) -> str:
        return f"Compacted({self._work.dialect.traits.name}, {len(self.sources)} messages)"


class _Head(msgspec.Struct, frozen=True):
    """Everything but the conversation, as far as it decides about it."""

    agent: Agent
    offers_recall: bool = False
    """Whether `recall` is declared already."""
    takes_recall: bool = True
    """Whether `recall` can be declared, and is nobody else's name."""
    is_stateful: bool = False
    """Whether the provider holds a part of the conversation, so that the request lacks it."""


class _Record(msgspec.Struct):
    """What was done to a request of `length` messages, for those that begin with it.

    `came` are the messages as they came, `messages` and `elements` those that went, and their
    bytes. The marks are what the request takes up to each of its messages, as they came and as they
    went; the two that know what is wrong with them have read all of them.
    """

    edit: RequestEdit = RequestEdit()
    length: int = 0
    adds_tool: bool = False
    order: MessageOrder = ()
    came: list[Json] = []
    messages: list[Json] = []
    elements: list[bytes] = []
    judge_before: TurnJudge | None = None
    judge_after: TurnJudge | None = None
    marks_before: list[Mark] = []
    marks_after: list[Mark] = []


class _Work:
    """One request on its way through the passes and back."""

    def __init__(
        self, body: RequestBody, policy: Policy, model: str, *, later: "_Work | None" = None
    ) -> None:
        """Take a request apart and run the policy; `later` is the request that goes on from it."""
        self.body, self.dialect = body, body.dialect
        self.model = model or wire_name(YARDSTICK)
        self.asked = policy
        # marks move on: what was asked of the provider then is known of the later request alone
        self.asks: bool = _is_anything_kept(body, self.model) if later is None else later.asks
        self.notes: list[Diagnostic] = []
        self.record = _Record()
        self._patcher = Patcher(self.dialect, self.model)
        self._take_back()
        # of a conversation that the provider holds a part of, nothing is left out
        if policy != _EVERYTHING and self.head.is_stateful:
            policy = self.asked = replace(_EVERYTHING, protections=policy.protections)
        # nothing is read where nothing can change
        if policy == _EVERYTHING or not (body.messages or policy.protections):
            self.policy = _EVERYTHING
            return
        self.policy = self._fit_policy(policy)
        if later is None:
            self._read_earlier()
        if self.policy.limit is None:
            self._run()
        else:
            self._run_within(self.policy.limit)

    def _run_within(self, limit: Budget) -> None:
        """Run under this budget, and under smaller ones as long as the whole request is above it.

        What only the caller's request has takes a part of it.
        """
        most = limit.tokens - (limit.reserve or 0)
        low, high, over = 0, limit.tokens, 0
        least, room = sys.maxsize, limit.tokens
        for _ in range(_TRIES):
            try:
                self._run()
            except BudgetExceeded:
                if room == limit.tokens:
                    raise
                low = room
            else:
                if self.tokens <= most:
                    return
                least, high = min(least, self.tokens), room
                over = max(2 * over, self.tokens - most)
            room = (low + high) // 2 if low else max(high - over, 1)
            if room in (low, high):
                break
            tighter = msgspec.structs.replace(limit, tokens=room)
            self.policy = replace(self.policy, limit=tighter)
            for name in _OF_A_TRY:
                self.__dict__.pop(name, None)
            self._take_back()
        raise self._explain_excess(limit, least)

    def _explain_excess(self, limit: Budget, least: int) -> BudgetExceeded:
        """The error for a request of which so much stays that nothing may be left out of."""
        words = f"{least} tokens stay of the request, and the budget is {limit.tokens}"
        hint = f"write .budget({least + (limit.reserve or 0)}), or shorten what Weft cannot read"
        return BudgetExceeded(words, where="request", hint=hint)

    def _take_back(self) -> None:
        """The request as it came, before a try and after one whose result will not do."""
        self.edit = RequestEdit()
        self.request: Request = self.body.request
        self.wire: JsonObject = self.body.wire
        self.messages: list[Json] = self.body.messages
        self.order: MessageOrder = range(len(self.messages))
        self.sources: tuple[int | None, ...] = tuple(self.order)
        self.tool: JsonObject | None = None

    # What is known before anything is done.

    @cached_property
    def chains(self) -> list[bytes]:
        return chain_hashes(self.body.bare, self._head_key)

    @cached_property
    def _lead(self) -> list[Json]:
        """The system texts that stand before the conversation, among its messages."""
        return [*takewhile(_is_system, self.body.messages)]

    @cached_property
    def _head_key(self) -> bytes:
        wire, system = self.body.wire, self.dialect.form.system
        fields = [value for key, value in wire.items() if key in (system, *_HEAD)]
        named: list[Json] = [self.dialect.traits.name, self.model, self.body.is_list, self.asks]
        return encode([named, fields, self._lead])

    @cached_property
    def _whole_head(self) -> tuple[bytes, bytes]:
        """The head and all options: they may take tokens, and forbid a tool."""
        return self._head_key, encode(_options_of(self.body))

    @cached_property
    def head(self) -> _Head:
        return _heads.read(self._whole_head, self._read_head)

    def _read_head(self) -> _Head:
        """What stands before the conversation; what cannot be read of it decides nothing."""
        wire: JsonObject = {**self.body.wire, self.dialect.traits.turns: self._lead}
        try:
            reading = self.dialect.read(self.dialect.spell(wire))
            weighed = self.dialect.weigh_head(wire)
        except UsageError:
            return _Head(Agent(AGENT, identity=False), takes_recall=False)
        system = "\n\n".join(one.part.text or "" for one in reading.system)
        facts = facts_for(self.model)
        own = [tool for tool in reading.tools if tool.name == RECALL]
        is_ours = any(tool.description == recall_decl().description for tool in own)
        alone = reading.output is not None and not facts.schema_with_tools
        takes = facts.tools and not alone and (is_ours or not own)
        return _Head(
            _make_agent(system, reading.tools),
            offers_recall=is_ours,
            takes_recall=takes and (is_ours or self.body.is_list or self._takes_tool(wire)),
            is_stateful=weighed.stateful,
        )

    def _takes_tool(self, wire: JsonObject) -> bool:
        """Whether one more tool changes nothing about what the provider refuses."""
        tool = spell_recall(self.dialect, self.model)
        with_tool: JsonObject = {**wire, "tools": _add_tool(self.dialect, wire.get("tools"), tool)}
        spelled = (self.dialect.spell(one) for one in (wire, with_tool))
        before, after = (
            {one.message for one in self.dialect.refuse_head(one, self.model)} for one in spelled
        )
        return after <= before

    def _fit_policy(self, policy: Policy) -> Policy:
        """The policy, in the grade that needs no tool where the request can have none."""
        if self.head.takes_recall or not policy.facts.makes_handles:
            return policy
        message = f"the request cannot have the tool `{RECALL}`, so nothing is left out for it"
        self.notes.append(report("WEFT711", _ORIGIN, message, severity=Severity.INFO))
        return without_handles(policy)

    # What is done.

    @cached_property
    def history(self) -> ReadHistory:
        reader = HistoryReader(self.dialect, self.model)
        return _histories.read(reader, self.body, self.chains)

    def _read_earlier(self) -> None:
        """Take the request before first, where nothing of this conversation is known.

        What this one costs depends on what that one sent. The other way round, both would be read
        from the beginning; so this one goes on from it.
        """
        if self._earlier.length or _histories.knows(self.chains):
            return
        end = HistoryReader(self.dialect, self.model).find_answer(self.body.messages)
        if end:
            self._work_on_first(end)

    def _compile(self, policy: Policy) -> Compilation:
        dialect = self.dialect.traits.name
        # the same object again: plans are kept by it
        config = _configs.read(
            (self.model, dialect, policy, self.asks), lambda: self._make_config(policy)
        )
        return compile_request(self.head.agent, session=self.history.session, config=config)

    def _make_config(self, policy: Policy) -> RunConfig:
        """How a request is compiled: one that nobody asks to keep pays for all of it each time."""
        options: JsonObject = {} if self.asks else {"cache": False}
        model = NamedModel(self.model, self.dialect.traits.name)
        return RunConfig(model=model, context=policy, generate_config=options)

    @cached_property
    def seen(self) -> Compilation:
        """The conversation as the policy shows it."""
        return self._compile(self.policy)

    @cached_property
    def plain(self) -> Compilation:
        """The conversation without the policy."""
        return self._compile(_EVERYTHING)

    def _run(self) -> bool:
        """Compile, and write what changed into the request; whether anything did."""
        history = self.history
        if not len(history.session.events):
            self._require_protected()
            return False
        earlier = self._earlier
        self.edit = compare_items(
            self.plain.prompt.items.since(0),
            self.seen.prompt.items.since(0),
            history,
            earlier.edit,
            earlier.length,
            hides=self.policy.facts.makes_handles,
        )
        came = [*self.body.messages]  # the caller's list may grow
        order = range(len(came))
        self.record = _records.keep(
            (self.chains[-1], self._policy_key),
            _Record(self.edit, history.length, order=order, came=came, messages=came),
        )
        # the name may be that of a tool of the caller's own
        if self.policy.facts.makes_handles and RECALL in self.seen.tools:
            self.tool = spell_recall(self.dialect, self.model)
        self.record.adds_tool = self._adds_tool
        if self.edit.is_empty and (self.tool is None or self.head.offers_recall):
            self._require_protected()
            return False
        self._patch()
        problems = self._new_problems() if self.edit.drops or self.edit.insertions else ()
        if problems:
            self._undo(problems)
        self._require_protected()
        return not problems

    def _require_protected(self) -> None:
        """Refuse a request that has what the policy keeps away, also where nothing was changed."""
        if self.policy.protections:
            protected: JsonObject = {**self.body.wire, self.dialect.traits.turns: self.messages}
            try:
                self.seen.require_protected(self.seen.prompt, protected)
                self.seen.require_cleared(protected)
            except ProtectionError:
                for chain in self.chains[-1:]:  # it is never sent
                    _records.drop((chain, self._policy_key))
                raise

    def _patch(self) -> None:
        """The messages with what changed, each with the index of the one that it was."""
        edit, earlier, start = self.edit, self._earlier, self._same_messages
        order: list[Place] = [*earlier.order[: self._same_places]]
        messages = earlier.messages[: self._same_places]
        added: dict[int, list[Item]] = {}
        for one in edit.insertions:
            added.setdefault(one.message, []).append(one.item)
        for index in range(start, len(self.body.messages) + 1):
            for item in added.get(index, ()):
                for wire in self._patcher.spell_item(item):
                    order.append(item)
                    messages.append(wire)
            if index < len(self.body.messages) and () not in edit.drops.get(index, ()):
                order.append(index)
                messages.append(self._patch_message(index))
        if (edit.drops or edit.insertions) and self.dialect.traits.places_system:
            stays = place_system(order, messages, len(self.body.messages))
            self._same_places = min(self._same_places, stays)
        if edit.drops or edit.insertions:
            self.order = order
            self.sources = tuple(one if isinstance(one, int) else None for one in order)
        self.messages, self.record.messages, self.record.order = messages, messages, self.order
        self.request = self._put_together()

    def _patch_message(self, index: int) -> Json:
        changes, drops = self.edit.changes.get(index, ()), self.edit.drops.get(index, ())
        message, key = self.body.messages[index], self.body.keys[index]
        if not changes and not drops:
            return message
        return self._patcher.patch_message(message, key, changes, drops)

    @cached_property
    def _same_messages(self) -> int:
        """How many of the first messages came in the earlier request, too, and go as they did."""
        earlier = self._earlier
        # marks may have moved, and callers may have changed what is theirs
        same = map(operator.is_, earlier.came, self.body.messages)
        count = min(self.edit.stable, sum(takewhile(bool, same)))
        # what stood after these may stand elsewhere now
        inserted = any(one.message >= count for one in earlier.edit.insertions)
        return 0 if inserted or _is_torn(earlier.order, count) else count

    @cached_property
    def _same_places(self) -> int:
        """How many messages these were when they went."""
        order = self._earlier.order
        places = len(order) if self._same_messages else 0
        while places and _reaches(order[places - 1], self._same_messages):
            places -= 1
        return places

    @property
    def _adds_tool(self) -> bool:
        """Whether the request has a tool more than what came."""
        return self.tool is not None and not self.head.offers_recall and not self.body.is_list

    def _put_together(self) -> Request:
        """The request in the form in which it came."""
        body, turns = self.body, self.dialect.traits.turns
        wire: JsonObject = {**body.wire}
        if not self.edit.is_empty:
            wire[turns] = self.messages
        if self.tool is not None and self._adds_tool:
            wire["tools"] = _add_tool(self.dialect, wire.get("tools"), self.tool)
        self.wire = wire
        if body.raw is None:
            if isinstance(body.request, (bytes, str)):  # only Python reads what came
                raw = encode(cast("Json", self.messages) if body.is_list else wire)
                return raw.decode() if isinstance(body.request, str) else raw
            return cast("Request", self.messages) if body.is_list else wire
        raw = self._splice_messages(body.raw) if body.is_list else self._splice(body.raw)
        return raw.decode() if isinstance(body.request, str) else raw

    def _splice(self, raw: bytes) -> bytes:
        """The bytes of a whole request, with those of its messages and tools that changed."""
        turns, old, new = self.dialect.traits.turns, self.body.wire, self.wire
        fields = self.body.fields
        values: dict[str, bytes] = {}
        if not self.edit.is_empty:
            values[turns] = self._splice_messages(bytes(fields[turns]))
        if new.get("tools") is not old.get("tools"):
            values["tools"] = encode(new["tools"])
            if "tools" in fields:
                values["tools"] = splice(bytes(fields["tools"]), old["tools"], new["tools"])
        try:
            return replace_fields(raw, values, fields=fields)
        except Unlike:
            return encode(new)

    def _splice_messages(self, raw: bytes) -> bytes:
        """The bytes of the messages; one that changed as before is not written again."""
        edit, body = self.edit, self.body
        elements = self._earlier.elements[: self._same_places]
        for at in range(len(elements), len(self.messages)):
            source, message = self.sources[at], self.messages[at]
            if source is None:
                elements.append(encode(message))
            elif message is body.messages[source]:
                elements.append(body.keys[source])
            else:
                changes = edit.changes.get(source, ())
                key = body.keys[source]
                first = changes[0] if changes and source not in edit.drops else None
                known, spliced = first.spliced if first is not None else (b"", b"")
                if known != key:
                    spliced = splice(key, body.messages[source], message)
                if first is not None:
                    first.spliced = key, spliced
                elements.append(spliced)
        self.record.elements = elements
        came = [one for one in self.sources if one is not None]
        if len(came) < len(self.sources) or came != sorted(came):
            return b"[" + b",".join(elements) + b"]"
        if not edit.drops:
            return join_elements(raw, body.keys, elements)
        listed: list[bytes | None] = [None] * len(body.keys)
        for source, element in zip(self.sources, elements, strict=True):
            listed[source or 0] = element
        return join_elements(raw, body.keys, listed)

    def _new_problems(self) -> tuple[str, ...]:
        """What the provider would refuse of the request now, and would have taken as it came.

        Only messages are looked at: the tool was, before it was offered.
        """
        turns, record, earlier = self.dialect.traits.turns, self.record, self._earlier
        record.judge_before = self._fork_judge(earlier.judge_before, self._same_messages)
        record.judge_after = self._fork_judge(earlier.judge_after, self._same_places)
        now: JsonObject = {**self.wire, turns: self.messages}
        # both, so that both have read what there is to read
        before = record.judge_before.read(self.body.wire)
        return tuple(sorted(record.judge_after.read(now) - before))

    def _fork_judge(self, judge: TurnJudge | None, same: int) -> TurnJudge:
        """A judge who has read some of the first messages, which are the `same` as before."""
        fork = judge.fork(same) if judge is not None else None
        return TurnJudge(self.dialect, self.body.wire, self.model) if fork is None else fork

    def _undo(self, problems: tuple[str, ...]) -> None:
        """Let the request be as it came: a provider would refuse it as it is."""
        self._take_back()
        # the next request is not to build on what was not sent
        self.record = _records.keep(
            (self.chains[-1], self._policy_key), _Record(order=range(len(self.messages)))
        )
        message = (
            f"the request is left as it came, since the provider would refuse it: {problems[0]}"
        )
        hint = "write C.auto(), which keeps every message"
        self.notes.append(report("WEFT711", _ORIGIN, message, hint))

    # What it comes to.

    @cached_property
    def _meter(self) -> Meter:
        return self.dialect.meter(self.model)

    def _head_cost(self, wire: JsonObject) -> int:
        if self.body.is_list:
            return 0
        return self._meter.head(self._meter.weigher.head(wire)).total

    @cached_property
    def _head_before(self) -> int:
        return _head_costs.read(self._whole_head, lambda: self._head_cost(self.body.wire))

    @cached_property
    def _policy_key(self) -> str:
        return str(self.policy)

    @cached_property
    def _earlier(self) -> "_Record":
        """What was done to the longest request that this one begins with, if that is known."""
        for chain in reversed(self.chains):
            record = _records.get((chain, self._policy_key))
            if record is not None:
                return record
        return _Record()

    @cached_property
    def _marks_before(self) -> list[Mark]:
        """What the request takes up to each of its messages as it came."""
        marks = self._earlier.marks_before
        marks = marks[:] if marks else [Mark()]
        for index in range(len(marks) - 1, len(self.body.messages)):
            marks.append(self._meter.step(marks[-1], self._cost_of_message(index)))
        self.record.marks_before = marks
        return marks

    @cached_property
    def tokens_before(self) -> int:
        """The tokens of the request as it came."""
        return self._head_before + self._marks_before[-1].total

    @cached_property
    def shared_before(self) -> int:
        """Those of them that the request before had too."""
        answered = self.answered
        return self._head_before + self._marks_before[answered].total if answered else 0

    def _cost_of_message(self, index: int) -> TurnCost:
        """What a message takes as it came."""
        key = (self.chains[index], self.model)
        return _turn_costs.read(key, partial(self._measure, self.body.messages[index]))

    def _measure(self, message: Json) -> TurnCost:
        # marks move on, and are nothing that a model reads
        return self._meter.turn(without_marks(message))

    @cached_property
    def answered(self) -> int:
        """The message that the model's last answer begins with."""
        return self.history.answered if self.body.messages else 0

    @cached_property
    def _head_after(self) -> int:
        if not self._adds_tool:
            return self._head_before
        named = (*self._whole_head, RECALL)
        return _head_costs.read(named, lambda: self._head_cost(self.wire))

    @cached_property
    def _marks_after(self) -> list[Mark]:
        """What the request takes up to each of its messages now."""
        if self.messages is self.body.messages:
            self.record.marks_after = self._marks_before
            return self._marks_before
        meter, earlier = self._meter, self._earlier
        is_grown = bool(earlier.marks_after) and self.edit.stable == earlier.length
        marks = earlier.marks_after[:] if is_grown else [Mark()]
        for at in range(len(marks) - 1, len(self.messages)):
            source, message = self.sources[at], self.messages[at]
            if source is not None and message is self.body.messages[source]:
                cost = self._cost_of_message(source)
            else:
                cost = self._measure(message)
            marks.append(meter.step(marks[-1], cost))
        self.record.marks_after = marks
        return marks

    @cached_property
    def tokens(self) -> int:
        """The tokens of the request now."""
        return self._head_after + self._marks_after[-1].total

    @cached_property
    def shared(self) -> int:
        """Those of them that the request before, which led to the last answer, had too."""
        if self.policy == _EVERYTHING or not self.answered:
            return self.shared_before
        previous = self._previous
        if not previous.order or previous.adds_tool is not self._adds_tool:
            return 0  # tools stand before all messages
        common = count_common(self.edit, self.order, previous.edit, previous.order)
        return self._head_after + self._marks_after[common].total

    @cached_property
    def _previous(self) -> "_Record":
        """What was done to the request that led to the last answer; nothing if it was refused."""
        end = self.answered
        known = _records.get((self.chains[end - 1], self._policy_key))
        if known is not None and known.length == end:
            return known
        return self._work_on_first(end)

    def _work_on_first(self, end: int) -> "_Record":
        """What is done to the request of the first `end` messages; nothing if it is refused."""
        messages = self.body.messages[:end]
        wire: JsonObject = {**self.body.wire, self.dialect.traits.turns: messages}
        keys, bare = self.body.keys[:end], self.body.bare[:end]
        body = self.body._replace(
            request=wire, wire=wire, messages=messages, keys=keys, bare=bare, raw=None
        )
        try:
            return _Work(body, self.asked, self.model, later=self).record
        except (BudgetExceeded, ProtectionError):
            return _Record()

    def cost_of(self, tokens: int, shared: int) -> float:
        """What a request costs, by what is read again of it."""
        rates: Rates = rates_for(self.model, tokens=tokens)
        return rates.cost(self.load_of(tokens, shared))

    def load_of(self, tokens: int, shared: int) -> Load:
        """The tokens of a request by kind, by what is read again of it."""
        cache = facts_for(self.model).cache
        if not self._is_kept:
            shared = min(shared, self._head_before) if _has_mark(self._head_key) else 0
        # providers read whole strides again: half of one is lost on average, wherever they begin
        even = cache._replace(stride=1)
        reread = max(cache.minimum, shared - cache.stride // 2) if shared >= cache.minimum else 0
        return load_of(tokens, reread, even, asked=self._is_kept)

    @cached_property
    def _is_kept(self) -> bool:
        """Whether the provider keeps the conversation: where it must be asked, the caller asks.

        A mark in the system text or at the tools alone keeps these, and no more.
        """
        body = self.body
        if body.is_list or keeps_unasked(body.wire, facts_for(self.model).cache):
            return True
        is_asked = any(body.wire.get(mark) for mark in MARKS)
        return is_asked or any(map(_has_mark, reversed(body.keys)))

    def list_left_out(self) -> list[LeftOut]:
        listed: list[LeftOut] = []
        turns = self.dialect.traits.turns
        count = self._meter.counter.count
        reasons = {note.before.event: note.reason for note in self.seen.woven.notes}
        for step in self.seen.steps:
            reasons |= {note.before.event: note.reason for note in step.notes}
        for index in sorted({*self.edit.changes, *self.edit.drops}):
            at = f"/{turns}/{index}" if not self.body.is_list else f"/{index}"
            for change in self.edit.changes.get(index, ()):
                block = change.after
                handle = block.handle if isinstance(block, ResultBlock | TextBlock) else ""
                place = "".join(f"/{key}" for key in change.path)
                reason = reasons.get(block.origin.name, "the policy shortened it")
                sizes = count(spell_block(change.before)), count(spell_block(block))
                listed.append(LeftOut(f"{at}{place}", *sizes, reason, handle))
            for path in self.edit.drops.get(index, ()):
                place = "".join(f"/{key}" for key in path)
                size = self._meter.turn(self.body.messages[index]).tokens
                listed.append(LeftOut(f"{at}{place}", size, 0, "the policy leaves it out"))
        return listed

    def list_diagnostics(self) -> list[Diagnostic]:
        if self.policy == _EVERYTHING:
            return self.notes
        known = {str(one) for one in self.plain.prompt.diagnostics}
        fresh = [one for one in self.seen.prompt.diagnostics if str(one) not in known]
        return [*self.notes, *fresh, *announced(self.seen)]

    # What is asked back.

    def answer_recall(self, call: JsonObject) -> JsonObject:
        role, place = self.dialect.traits.calls or ("", "")
        field = place.strip("/")
        message: JsonObject = {"role": role, field: [call]} if field else call
        turns = self.dialect.traits.turns
        try:
            reading = self.dialect.read(self.dialect.spell({turns: [message]}))
        except UsageError:
            reading = None
        parts = [one.part for turn in (reading.turns if reading else ()) for one in turn.parts]
        asked = next((one.function_call for one in parts if one.function_call is not None), None)
        if asked is None or asked.name != RECALL:
            raise UsageError(
                f"this is not a call of `{RECALL}`: {encode(call).decode()[:120]}",
                where="recall",
                hint="pass the call as it stands in the provider's answer",
            )
        response, media = self.find(asked)
        block = ResultBlock(
            role="user",
            origin=_ORIGIN,
            call_id=asked.id or "",
            name=RECALL,
            response=response,
            given=asked.id is not None,
            media=media,
        )
        return self.dialect.result(block, _silent(self.dialect, self.model))

    def find(self, asked: FunctionCall) -> tuple[JsonObject, tuple[MediaBlock, ...]]:
        """What a call of `recall` finds in the conversation as it came."""
        # the runtime is large, and most requests are never asked for anything
        from weft.runtime.recall import found_among

        outcome = found_among(values_of(self.history.session.events), asked)
        media = (media_block(part, _ORIGIN, "user") for part in outcome.parts)
        return outcome.response or {}, tuple(one for one in media if one is not None)


# --- what is asked of a policy, of a head and of messages

_EVERYTHING = C.default()

_ORIGIN = Origin("field", "context", AGENT)

_HEAD = ("tools", "functions", "system_instruction")
"""Fields of a request, besides its system text, that stand before the conversation."""

_TRIES = 8
"""How often a budget is made smaller for what only the caller's request has."""

_OF_A_TRY = ("seen", "tokens", "_marks_after", "_head_after", "_same_messages", "_same_places")
"""What is worked out from what one try makes of the request."""


def require_stateless(policy: object, *, where: str) -> None:
    """Refuse what is not a policy, and what a request alone cannot do."""
    if not isinstance(policy, Policy):
        raise DeclarationError(
            f"{policy!r} is not a policy", where=where, hint="write C.auto(), or C.window(5)"
        )
    idle = [f".{one.word}()" for one in policy.writings]
    idle += [
        ".redact(restore=...)"
        for one in policy.protections
        if isinstance(one, Redact) and one.restore
    ]
    if idle:
        raise DeclarationError(
            f"a request is compiled without a session, and `{idle[0]}` needs one",
            where=where,
            hint="leave it out, or run the agent with Weft",
        )


def protects(policy: Policy) -> bool:
    """Whether it keeps something away from the model: then no request goes out as it came."""
    kept_away = (Redact, Label)
    return any(
        isinstance(one, kept_away) for each in policies_in(policy) for one in each.protections
    )


def without_handles(policy: Policy) -> Policy:
    """The policy for a request that cannot have the tool `recall`: nothing becomes a handle.

    All else it says holds: what is redacted, what is left out, and its budget, which has to drop
    what it would shorten.
    """
    if not policy.facts.makes_handles:
        return policy
    limit = policy.limit
    if limit is not None and limit.overflow == "degrade":
        limit = msgspec.structs.replace(limit, overflow="drop")
    stages = tuple(map(_stage_without_handles, policy.stages))
    return replace(policy, stages=stages, limit=limit, folding=None)


def _stage_without_handles(stage: Stage) -> Stage:
    selector = stage.selector
    if isinstance(selector, Auto):
        selector = Auto(lossless=True)
    elif isinstance(selector, When):
        selector = msgspec.structs.replace(selector, policy=without_handles(selector.policy))
    steps = tuple(step for step in stage.steps if not makes_handles(step))
    return msgspec.structs.replace(stage, selector=selector, steps=steps)


def _make_agent(system: str, tools: Sequence[ReadTool]) -> Agent:
    """An agent that has nothing but a system text and tools; nobody knows when it will end."""
    agent = Agent(AGENT, identity=False, instruction=write_literally(system), max_steps=sys.maxsize)
    try:
        return replace(agent, tools=tools_of(tools))
    except WeftError:  # a declaration that only its provider takes: what it says is not counted
        return agent


@lru_cache(maxsize=1)
def recall_decl() -> ToolDecl:
    """The tool `recall` as every agent is offered it."""
    return recall_tool(Agent(AGENT))


def _silent(dialect: Dialect, model: str) -> LoweringReport:
    return LoweringReport(dialect=dialect.traits.name, strict=False, model=model)


def spell_recall(dialect: Dialect, model: str) -> JsonObject:
    """The tool as it is declared to the provider."""
    return dialect.declaration(recall_decl(), _silent(dialect, model))


def _add_tool(dialect: Dialect, tools: Json, declared: JsonObject) -> list[Json]:
    return dialect.with_function(tools if isinstance(tools, list) else (), declared)


def _reaches(place: Place, message: int) -> bool:
    if isinstance(place, Joined):
        return place.messages[-1] >= message
    return isinstance(place, int) and place >= message


def _is_torn(order: MessageOrder, message: int) -> bool:
    """Whether what came before a message stands after it now, or as one with what came later."""
    later = dropwhile(lambda place: not _reaches(place, message), order)
    return any(isinstance(place, Joined) or not _reaches(place, message) for place in later)


def _is_system(message: Json) -> bool:
    return isinstance(message, dict) and message.get("role") in ("system", "developer")


_MARK = re.compile("|".join(rf'"{mark}"\s*:\s*[^n\s]' for mark in MARKS).encode())
"""A mark of the caller's, in JSON; one that is null is none."""


def _has_mark(raw: bytes) -> bool:
    # the pattern takes ten times as long to find nothing
    return any(mark in raw for mark in QUOTED_MARKS) and _MARK.search(raw) is not None


# --- what was worked out before

Value = TypeVar("Value")


class _RecentResults(Generic[Value]):
    """What was worked out last, by a key; bounded."""

    def __init__(self, most: int) -> None:
        self._known: dict[object, Value] = {}
        self._most = most
        self._lock = Lock()

    def get(self, key: object) -> Value | None:
        """What is known under a key."""
        return self._known.get(key)

    def read(self, key: object, make: Callable[[], Value]) -> Value:
        """What is known under a key, worked out where it is not."""
        value = self._known.get(key)
        return value if value is not None else self.keep(key, make())

    def keep(self, key: object, value: Value) -> Value:
        """Remember a value, and forget the oldest where there are too many."""
        with self._lock:
            self._known[key] = value
            while len(self._known) > self._most:
                self._known.pop(next(iter(self._known)))
        return value

    def drop(self, key: object) -> None:
        """Forget one value, if it is known."""
        with self._lock:
            self._known.pop(key, None)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._known.clear()


_heads: _RecentResults[_Head] = _RecentResults(64)
_configs: _RecentResults[RunConfig] = _RecentResults(64)
_records: _RecentResults[_Record] = _RecentResults(256)
_head_costs: _RecentResults[int] = _RecentResults(256)
_turn_costs: _RecentResults[TurnCost] = _RecentResults(50_000)


def forget() -> None:
    """Forget everything that was worked out before: for measuring what the first request costs."""
    _histories.clear()
    for known in (_heads, _configs, _records, _head_costs, _turn_costs):
        known.clear()
