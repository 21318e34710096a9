"""Calls of a log joined into the conversations that they were made in.

A recorder writes each request with all that was said before it. Fifteen calls of one conversation
are fifteen requests, and not the hundred and twenty answers that stand in them. A call goes on
with a conversation if its request begins with all of it. One that begins with a part of it, such as
a retry or an edited message, is a fork: it has the part as its past, and its own answer alone.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from msgspec.structs import replace as replace_fields

from weft.recordings.alignment import key_of_part, share_turns
from weft.recordings.exchanges import ExchangeRecord
from weft.recordings.recording import (
    AGENT,
    MOST_PLACES,
    Aside,
    RecordedCall,
    Recording,
    merge_asides,
    with_events,
)
from weft.recordings.shelf import Shelf
from weft.session import Event, Session
from weft.values import Json


def join_calls(
    recordings: Iterable[Recording],
    *,
    of_files: bool = False,
    in_order: bool = False,
    is_large: bool = False,
) -> Iterator[Recording]:
    """The recordings of one file, its calls joined; other recordings do not change.

    Of a call only what is new in it is kept: a log repeats each word in every later line. If each
    is of a file of its own, or none says how it ended, they are a log only where one of them goes
    on with another. Those that are `in_order` of time are taken one by one as they come. Of a file
    that `is_large`, the conversations that were not gone on with for longest are kept on disk.
    """
    log = _CallLog(_Room() if is_large else None)
    # each conversation is in the place of its first call
    places: list[Recording | _Conversation] = []
    for one in recordings if in_order else _in_time(recordings):
        conversation = log.take(one) if one.call is not None else one
        if conversation is not None:
            places.append(conversation)
    conversations = [one for one in places if isinstance(one, _Conversation)]
    # chats that end with the user's words are no calls whose answers nobody recorded
    is_log = log.count > (1 if log.has_ends and not of_files else len(conversations))
    _find_starters(conversations)
    for place in places:
        if isinstance(place, _Conversation):
            yield place.recording(is_log=is_log)
            place.end()
        else:
            yield place


def _find_starters(conversations: Sequence["_Conversation"]) -> None:
    """Find the sub-agents: what a call of another conversation asked for is their first word."""
    if len(conversations) < 2:
        return
    tasks: dict[int, tuple[_Conversation, int]] = {}
    for one in conversations:
        for task, number in one.starts.tasks.items():
            tasks.setdefault(task, (one, number))
    # some programs put words of their own around a task
    is_short = len(tasks) * len(conversations) < _FEW_PAIRS
    texts: dict[str, tuple[_Conversation, int]] = {}
    for one in conversations if is_short else ():
        for text, number in one.list_tasks() if one.starts.tasks else ():
            texts.setdefault(text, (one, number))
    for one in conversations if tasks else ():
        starter = tasks.get(one.starts.first)
        if starter is None and is_short:
            first = one.first_words
            starter = next((where for text, where in texts.items() if text in first), None)
        if starter is not None and starter[0] is not one and one.parent is None:
            one.parent, one.relation = starter, "sub-agent"


_FEW_PAIRS = 40_000

_TASK = 20
"""Letters of a text that is hardly said twice by chance."""


def _long_texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        if len(value.strip()) >= _TASK:
            yield value.strip()
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _long_texts(one)


def _in_time(recordings: Iterable[Recording]) -> Iterable[Recording]:
    """The calls in the order in which they were made: exports may have the newest first."""
    rest = iter(recordings)
    first = next(rest, None)
    if first is None or first.call is None or not first.call.time:
        return itertools.chain(() if first is None else (first,), rest)
    listed = [first, *rest]
    if not all(one.call is not None and one.call.time for one in listed):
        return listed
    timed = sorted(listed, key=lambda one: one.call.time if one.call is not None else 0.0)
    sizes = ([len(one.session.events) for one in order] for order in (listed, timed))
    return listed if count_growths(next(sizes)) > count_growths(next(sizes)) else timed


def count_growths(sizes: Sequence[int]) -> int:
    """How often a call is longer than the one before it, as a conversation is that goes on.

    A clock may be set back in the middle of a log; then the order in which it was written is right.
    """
    return sum(one < other for one, other in itertools.pairwise(sizes))


def _name_missing_past(call: Recording) -> Recording:
    """A call that goes on from an answer which is not in the file, with a word about that."""
    if call.call is None or not call.call.follows:
        return call
    why = f"the provider kept it, and {call.call.follows} is not in this file"
    return call._replace(
        aside=(*call.aside, Aside("past of a conversation", why, 1, (call.source,)))
    )


class _CallLog:
    """The conversations so far, by all that was said in them."""

    def __init__(self, room: "_Room | None" = None) -> None:
        self._room = room
        self._by_words: dict[int, _Conversation] = {}
        self._by_reply: dict[str, tuple[_Conversation, int]] = {}
        self._by_request: dict[int, _Conversation] = {}
        """By all that was said before the last answer."""
        self._by_beginning: dict[int, tuple[_Conversation, int]] = {}
        """Where a request was made or answered, by all that was said before."""
        self._by_failure: dict[int, _Conversation] = {}
        """By all that was said before a call that failed."""
        self._by_record: dict[tuple[str, int], _Conversation] = {}
        """By the id of an answer and all that was recorded of the call."""
        self.count = 0
        self.has_ends = False
        """Whether it says of any call how it ended."""

    def take(self, call: Recording) -> "_Conversation | None":
        """Add a call to its conversation; a new conversation, where it begins one."""
        id, follows, time, _, digest = call.call or RecordedCall()
        words = _SpokenPieces(call.session.events)
        record = (id, digest)
        if id and time and digest and record in self._by_record:
            self._by_record[record].repeated.append(call.source)
            return None
        self.count += 1
        self.has_ends |= not call.asks or (call.call is not None and call.call.failed)
        past, start = None, 0
        if follows in self._by_reply:
            past, length = self._by_reply[follows]
            # the conversation went on with another call: this one is a fork
            conversation = past if len(past.pages.events) == length else None
            forked = past.pages.events[:length]
        else:
            call = _name_missing_past(call)
            conversation, forked = self._find(call, words), []
        edited = after_failure = None
        if conversation is None and past is None:
            after_failure = self._find_before_failure(words)
            edited = after_failure or self._find_edited(call, words)
            conversation = edited[0] if edited is not None else None
        is_new = conversation is None
        if conversation is None:
            conversation = _Conversation(call, forked, self._room)
            parent = (past, len(past.pages.calls)) if past is not None else self._find_parent(words)
            if parent is not None:
                conversation.parent, conversation.relation = parent, "fork"
        else:
            self._by_words.pop(conversation.pages.words.keys[-1], None)
            if edited is not None:
                start = edited[1]
            elif past is None:
                start = words.ends.index(conversation.pages.words.ends[-1])
        before = conversation.pages.words.keys[-1]
        conversation.add(call, start)
        if call.call is not None and call.call.failed and before:
            self._by_failure[before] = conversation
        if edited is not None:
            conversation.pages.words = words
            conversation.edited += after_failure is None
        number = len(conversation.pages.calls)
        for end, latest in ((words.ends[-2], number - 1), (words.ends[-1], number)):
            if not call.asks or end == words.ends[-1]:
                latest -= bool(call.asks)
                self._by_beginning.setdefault(words.keys[end], (conversation, latest))
        self._by_words[conversation.pages.words.keys[-1]] = conversation
        self._by_record[record] = conversation
        if id:
            self._by_reply[id] = conversation, len(conversation.pages.events)
        if not call.asks:
            for key in (words.keys[words.ends[-2]], words.tail(words.ends[-2])):
                self._by_request[key] = conversation
        if self._room is not None:
            self._room.make_room(conversation)
        return conversation if is_new else None

    def _find_before_failure(self, words: "_SpokenPieces") -> "tuple[_Conversation, int] | None":
        """The conversation that a call goes on with as if its last call had not been made.

        That one failed, and the program asked something else. With the number of events that are
        in the conversation already.
        """
        for at in range(len(words.ends) - 1, 0, -1):
            conversation = self._by_failure.get(words.keys[words.ends[at]])
            last = conversation.pages.calls[-1].call if conversation is not None else None
            if conversation is not None and last is not None and last.failed:
                return conversation, at
        return None

    def _find_edited(
        self, call: Recording, words: "_SpokenPieces"
    ) -> "tuple[_Conversation, int] | None":
        """The conversation that a call goes on with, though it does not repeat all of it.

        Programs add the words they stopped a model at to an answer, or trim it, and leave out the
        oldest messages. With the number of events that are in the conversation already.
        """
        events = call.session.events
        for at in range(len(events) - (0 if call.asks else 1) - 1, 0, -1):
            end = words.ends[at]
            conversation = self._by_request.get(words.keys[end]) or self._by_request.get(
                words.tail(end)
            )
            if conversation is None or conversation.is_waiting or not _is_model(events[at]):
                continue
            if _resembles(conversation.pages.events[-1], events[at]):
                return conversation, at + 1
        return None

    def _find_parent(self, words: "_SpokenPieces") -> "tuple[_Conversation, int] | None":
        """The conversation that begins as a new one does, and its last call that both share."""
        for end in reversed(words.ends[1:]):
            parent = self._by_beginning.get(words.keys[end]) if end else None
            if parent is not None:
                return parent
        return None

    def _find(self, call: Recording, words: "_SpokenPieces") -> "_Conversation | None":
        """The longest conversation that the request of a call begins with."""
        past = words.ends[-1] if call.asks else words.ends[-2]
        for length in sorted({end for end in words.ends if 0 < end <= past}, reverse=True):
            conversation = self._by_words.get(words.keys[length])
            if conversation is None:
                continue
            last = conversation.pages.calls[-1]
            # the same request once more is a call of its own, unless the first one failed
            if not last.asks or length < past or (last.call is not None and last.call.failed):
                return conversation
        return None


class _Starts(NamedTuple):
    """What tells whether a conversation started another one, or was started by one."""

    tasks: dict[int, int]
    """Hashes of what its calls asked for, and the number of the answer that each stands in."""
    first: int
    """A hash of the user's first words."""


@dataclass
class _Pages:
    """All that was said in a conversation: what may lie on disk."""

    first: Recording
    events: list[Event]
    words: "_SpokenPieces"
    calls: list[Recording] = field(default_factory=list[Recording])
    exchanges: list[ExchangeRecord] = field(default_factory=list[ExchangeRecord])
    size: int = 0
    """About how many bytes of memory it takes."""


class _Room:
    """Keeps what was added to last in memory, and the pages of other conversations on disk."""

    MOST = 64_000_000
    """Bytes of conversations in memory."""

    def __init__(self) -> None:
        self._shelf = Shelf[_Pages]()
        self._open: dict[_Conversation, int] = {}
        """The size of each conversation in memory; the one that was used last is at the end."""
        self._size = 0

    def make_room(self, latest: "_Conversation") -> None:
        """Put away the conversations that were used longest ago."""
        self.forget(latest)
        self._open[latest] = latest.pages.size
        self._size += latest.pages.size
        while self._size > self.MOST and len(self._open) > 1:
            oldest = next(iter(self._open))
            self.forget(oldest)
            oldest.put_away(len(self._shelf))

    def forget(self, conversation: "_Conversation") -> None:
        """Count a conversation no more."""
        self._size -= self._open.pop(conversation, 0)

    def keep(self, pages: _Pages) -> None:
        """Put pages on disk, behind those that are there."""
        self._shelf.append(pages)

    def fetch(self, place: int) -> _Pages:
        """The pages that were put away."""
        return self._shelf[place]


_AROUND_A_CALL = 6_000
"""Bytes of memory that a call takes besides its texts, which it has in its event and its record."""


class _Conversation:
    """Calls that belong together, in order."""

    def __init__(
        self, first: Recording, past: Sequence[Event] = (), room: _Room | None = None
    ) -> None:
        self._pages: _Pages | None = _Pages(first, [*past], _SpokenPieces(past))
        self._room = room
        self._place = 0
        self.id = first.id
        self._starts: _Starts | None = None
        self.answers: set[int] = set()
        """The places of the events that answered a recorded request."""
        self.places: list[int | None] = []
        """For each call the place of the event that answered it."""
        self.asked: list[int] = []
        """For each call how many events its request came after."""
        self.parent: tuple[_Conversation, int] | None = None
        self.relation: Literal["", "fork", "sub-agent"] = ""
        self.edited = 0
        """How many requests have another past than was recorded before."""
        self.repeated: list[str] = []
        """Where a call of it was recorded once more: a log may be shipped twice."""

    @property
    def pages(self) -> _Pages:
        """All that was said in it."""
        if self._pages is None:
            assert self._room is not None
            self._pages = self._room.fetch(self._place)
            self._room.make_room(self)
        return self._pages

    @property
    def starts(self) -> _Starts:
        """What it started, and how it begins."""
        if self._starts is None:
            tasks: dict[int, int] = {}
            for text, number in self.list_tasks():
                tasks.setdefault(hash(text), number)
            self._starts = _Starts(tasks, hash(self.first_words.strip()))
        return self._starts

    @property
    def first_words(self) -> str:
        """What the user said first."""
        return next((one.text or "" for one in self.pages.events if one.author == "user"), "")

    def list_tasks(self) -> Iterator[tuple[str, int]]:
        """What its calls asked for, each with the number of the answer that it stands in."""
        events = self.pages.events
        for number, place in enumerate(self.places, 1):
            for call in events[place].calls if place is not None else ():
                for text in _long_texts(call.args):
                    yield text, number

    def put_away(self, place: int) -> None:
        """Put its pages on disk, where they are the ones of that number."""
        assert self._room is not None
        self._starts = self.starts
        self._room.keep(self.pages)
        self._place, self._pages = place, None

    def end(self) -> None:
        """Forget its pages: nothing is asked of it any more."""
        if self._room is not None:
            self._room.forget(self)
            self._pages = None

    @property
    def is_waiting(self) -> bool:
        """Whether the answer to its last request is not known yet."""
        return bool(self.pages.calls) and bool(self.pages.calls[-1].asks)

    def add(self, call: Recording, start: int) -> None:
        """Go on with the events of a call from one on: those before are here."""
        added = call.session.events.since(start)
        self._starts = None
        if start and self.pages.events:
            self.pages.events[-1] = _with_call_ids(
                self.pages.events[-1], call.session.events[start - 1]
            )
        # an answer that was not recorded with its request stands in the next one
        if self.is_waiting and added and _is_model(added[0]) and (len(added) > 1 or call.asks):
            self.answers.add(len(self.pages.events))
            self.places[-1] = len(self.pages.events)
        self._add_exchange(call, repeats=self.is_waiting and not added)
        self.pages.events += added
        self.pages.words.extend(added)
        self.pages.size += _AROUND_A_CALL + 4 * sum(map(_count_letters, added))
        self.pages.calls.append(_share_head(call, self.pages.calls))
        self.asked.append(len(self.pages.events) - (0 if call.asks else 1))
        self.places.append(None if call.asks else len(self.pages.events) - 1)
        if not call.asks:
            self.answers.add(len(self.pages.events) - 1)

    def _add_exchange(self, call: Recording, *, repeats: bool) -> None:
        for one in call.exchanges:
            number = len(self.pages.exchanges) + 1
            if self.pages.exchanges:
                last = self.pages.calls[-1].call
                failed = repeats or (last is not None and last.failed)
                one = share_turns(one, self.pages.exchanges[-1])
                one = replace(one, retries=number - 1 if failed else 0)
            self.pages.exchanges.append(replace(one, number=number))

    def recording(self, *, is_log: bool) -> Recording:
        """All calls as one recording, with what the last one was sent; a lone call is not a log."""
        repeats: list[Aside] = []
        if self.repeated:
            why = "its record is the same, with the time and the id; it is counted once"
            places = tuple(self.repeated[:MOST_PLACES])
            repeats.append(Aside("call that was recorded before", why, len(self.repeated), places))
        if not is_log:
            return self.pages.first._replace(
                exchanges=self._place_exchanges(self.pages.first.session.events),
                aside=(*self.pages.first.aside, *repeats),
            )
        last = self.pages.calls[-1]
        events = renumber(self.pages.events)
        tools = {tool.name: tool for call in self.pages.calls for tool in call.tools}
        asides = [*(aside for call in self.pages.calls for aside in call.aside), *repeats]
        texts = (call.instructions.get(AGENT, "") for call in self.pages.calls)
        systems = dict.fromkeys(text for text in texts if text)
        if len(systems) > 1:
            asides.append(
                Aside(
                    "system text that changed between two calls",
                    "each request is compiled with that of the last one",
                    len(systems) - 1,
                    tuple(call.source for call in self.pages.calls[1:4]),
                )
            )
        if self.edited:
            why = "the session has it as the model gave it"
            place = (self.pages.first.source,)
            asides.append(
                Aside("answer that was sent back in other words", why, self.edited, place)
            )
        return last._replace(
            id=self.id,
            session=with_events(self.pages.first.session, events),
            instructions={AGENT: [*systems][-1]} if systems else last.instructions,
            tools=tuple(tools.values()),
            call=None,
            answers=frozenset(events[at].id for at in self.answers),
            aside=merge_asides(asides),
            excused=frozenset().union(*(call.excused for call in self.pages.calls)),
            source=self.pages.first.source,
            exchanges=self._place_exchanges(events),
            parent=self.parent[0].id if self.parent is not None else "",
            relation=self.relation,
            forked=self.parent[1] if self.parent is not None else 0,
        )

    def _place_exchanges(self, events: Sequence[Event]) -> tuple[ExchangeRecord, ...]:
        """The recorded calls, each with the event that answered it."""
        placed: list[ExchangeRecord] = []
        rows = zip(self.pages.exchanges, self.places, self.asked, strict=False)
        for one, place, asked in rows:
            answer = events[place] if place is not None else None
            if answer is None and 0 < asked <= len(events):
                one = replace(one, follows=events[asked - 1].id)
            if answer is not None:
                finish, failure = answer.finish_reason or one.finish, answer.error_code or one.error
                one = replace(
                    one,
                    event=answer.id,
                    usage=one.usage or answer.usage,
                    finish=finish,
                    error=failure,
                )
            placed.append(one)
        return tuple(placed)


def _share_head(call: Recording, before: Sequence[Recording]) -> Recording:
    """A call without its words; what it declares as the one before it did is kept once."""
    call = call._replace(session=_NOTHING, exchanges=())
    if not before:
        return call
    last = before[-1]
    return call._replace(
        instructions=last.instructions
        if last.instructions == call.instructions
        else call.instructions,
        tools=last.tools if last.tools == call.tools else call.tools,
        declared=last.declared if last.declared == call.declared else call.declared,
    )


def _count_letters(event: Event) -> int:
    return sum(len(text) for piece in _pieces(event) for text in piece)


def _with_call_ids(answer: Event, repeated: Event) -> Event:
    """An answer with the ids of its calls, where only the request that repeats it has them."""
    ids = [one.id for one in repeated.calls]
    if all(one.id for one in answer.calls) or not all(ids) or len(ids) != len(answer.calls):
        return answer
    assert answer.content is not None
    rest = iter(ids)
    parts = tuple(
        part
        if part.function_call is None
        else replace_fields(part, function_call=replace_fields(part.function_call, id=next(rest)))
        for part in answer.content.parts or ()
    )
    return replace_fields(answer, content=replace_fields(answer.content, parts=parts))


def renumber(events: Iterable[Event]) -> list[Event]:
    """Events of several recordings as those of one: ids, turns and times begin anew."""
    renumbered: list[Event] = []
    turn = 0
    for number, event in enumerate(events, 1):
        turn += event.author == "user"
        renumbered.append(
            replace_fields(
                event, id=f"e{number}", invocation_id=f"i{max(1, turn)}", timestamp=float(number)
            )
        )
    return renumbered


class _SpokenPieces:
    """What events say, piece by piece, to find the common beginning of two requests.

    Thoughts and ids are not part of it: clients leave them out, or give others, when they send an
    answer back.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self.keys = [0]
        """A hash of the first pieces, by how many."""
        self.ends = [0]
        """How many pieces there are before each event, and after the last."""
        self._pieces: list[tuple[str, ...]] = []
        self.extend(events)

    def extend(self, events: Iterable[Event]) -> None:
        """Go on with more events."""
        for event in events:
            for piece in _pieces(event):
                self.keys.append(hash((self.keys[-1], piece)))
                self._pieces.append(piece)
            self.ends.append(len(self.keys) - 1)

    def tail(self, end: int) -> int:
        """A hash of the last pieces before a place, where that is not all of them."""
        return hash(("tail", *self._pieces[end - _TAIL : end])) if end > _TAIL else 0


_TAIL = 2
"""How many pieces in a row are hardly said twice before the same answer."""


def _resembles(old: Event, new: Event) -> bool:
    """Whether an answer is another one, with something added to it or cut off."""
    before, after = (old.text or "").strip(), (new.text or "").strip()
    if before and after:
        return after.startswith(before) or before.startswith(after)
    calls = [piece for piece in _pieces(old) if piece[0] == "call"]
    return bool(calls) and calls == [piece for piece in _pieces(new) if piece[0] == "call"]


def _pieces(event: Event) -> Iterator[tuple[str, ...]]:
    content = event.content
    for part in (content.parts or ()) if content is not None else ():
        key = key_of_part(part, event.author)
        if key is not None:
            yield key


_NOTHING = Session("")
"""In the place of what a call repeats."""


def _is_model(event: Event) -> bool:
    return event.content is not None and event.content.role == "model"
