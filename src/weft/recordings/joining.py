"""Calls of a log joined into the conversations that they were made in.

A recorder writes each request with all that was said before it. Fifteen calls of one conversation
are fifteen requests, and not the hundred and twenty answers that stand in them. A call goes on
with a conversation if its request begins with all of it. One that begins with a part of it, such as
a retry or an edited message, is a fork: it has the part as its past, and its own answer alone.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from weft.recordings.recording import (
    AGENT,
    Aside,
    RecordedCall,
    Recording,
    merge_asides,
    with_events,
)
from weft.session import Event, Session
from weft.values import compact


def join_calls(recordings: Iterable[Recording], *, of_files: bool = False) -> list[Recording]:
    """The recordings of one file, its calls joined; other recordings do not change.

    Of a call only what is new in it is kept: a log repeats each word in every later line. If each
    is of a file of its own, they are a log only where one of them goes on with another.
    """
    log = _CallLog()
    # each conversation is in the place of its first call
    places: list[Recording | _Conversation] = []
    for one in _in_time(recordings):
        conversation = log.take(one) if one.call is not None else one
        if conversation is not None:
            places.append(conversation)
    is_log = log.count > (sum(isinstance(one, _Conversation) for one in places) if of_files else 1)
    return [
        one.recording(is_log=is_log) if isinstance(one, _Conversation) else one for one in places
    ]


def _in_time(recordings: Iterable[Recording]) -> Iterable[Recording]:
    """The calls in the order in which they were made: exports may have the newest first."""
    rest = iter(recordings)
    first = next(rest, None)
    if first is None or first.call is None or not first.call.time:
        return itertools.chain(() if first is None else (first,), rest)
    listed = [first, *rest]
    if not all(one.call is not None and one.call.time for one in listed):
        return listed
    return sorted(listed, key=lambda one: one.call.time if one.call is not None else 0.0)


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

    def __init__(self) -> None:
        self._by_words: dict[int, _Conversation] = {}
        self._by_reply: dict[str, tuple[_Conversation, int]] = {}
        self.count = 0

    def take(self, call: Recording) -> "_Conversation | None":
        """Add a call to its conversation; a new conversation, where it begins one."""
        self.count += 1
        id, follows, *_ = call.call or RecordedCall()
        words = _SpokenPieces(call.session.events)
        past, start = None, 0
        if follows in self._by_reply:
            past, length = self._by_reply[follows]
            # the conversation went on with another call: this one is a fork
            conversation = past if len(past.events) == length else None
            forked = past.events[:length]
        else:
            call = _name_missing_past(call)
            conversation, forked = self._find(call, words), []
        is_new = conversation is None
        if conversation is None:
            conversation = _Conversation(call, forked)
        else:
            self._by_words.pop(conversation.words.keys[-1], None)
            start = 0 if past is not None else words.ends.index(conversation.words.ends[-1])
        conversation.add(call, start)
        self._by_words[conversation.words.keys[-1]] = conversation
        if id:
            self._by_reply[id] = conversation, len(conversation.events)
        return conversation if is_new else None

    def _find(self, call: Recording, words: "_SpokenPieces") -> "_Conversation | None":
        """The longest conversation that the request of a call begins with."""
        past = words.ends[-1] if call.asks else words.ends[-2]
        for length in sorted({end for end in words.ends if 0 < end <= past}, reverse=True):
            conversation = self._by_words.get(words.keys[length])
            if conversation is None:
                continue
            last = conversation.calls[-1]
            # the same request once more is a call of its own, unless the first one failed
            if not last.asks or length < past or (last.call is not None and last.call.failed):
                return conversation
        return None


class _Conversation:
    """Calls that belong together, in order."""

    def __init__(self, first: Recording, past: Sequence[Event] = ()) -> None:
        self.first = first
        self.calls: list[Recording] = []
        self.events = [*past]
        self.answers: set[int] = set()
        """The places of the events that answered a recorded request."""
        self.words = _SpokenPieces(past)

    @property
    def is_waiting(self) -> bool:
        """Whether the answer to its last request is not known yet."""
        return bool(self.calls) and bool(self.calls[-1].asks)

    def add(self, call: Recording, start: int) -> None:
        """Go on with the events of a call from one on: those before are here."""
        added = call.session.events.since(start)
        # an answer that was not recorded with its request stands in the next one
        if self.is_waiting and added and _is_model(added[0]) and (len(added) > 1 or call.asks):
            self.answers.add(len(self.events))
        self.events += added
        self.words.extend(added)
        self.calls.append(call._replace(session=_NOTHING))
        if not call.asks:
            self.answers.add(len(self.events) - 1)

    def recording(self, *, is_log: bool) -> Recording:
        """All calls as one recording, with what the last one was sent; a lone call is not a log."""
        if not is_log:
            return self.first
        last = self.calls[-1]
        events = renumber(self.events)
        tools = {tool.name: tool for call in self.calls for tool in call.tools}
        asides = [aside for call in self.calls for aside in call.aside]
        systems = dict.fromkeys(call.instructions.get(AGENT, "") for call in self.calls)
        if len(systems) > 1:
            asides.append(
                Aside(
                    "system text that changed between two calls",
                    "each request is compiled with that of the last one",
                    len(systems) - 1,
                    tuple(call.source for call in self.calls[1:4]),
                )
            )
        return last._replace(
            id=self.first.id,
            session=with_events(self.first.session, events),
            tools=tuple(tools.values()),
            call=None,
            answers=frozenset(events[at].id for at in self.answers),
            aside=merge_asides(asides),
            excused=frozenset().union(*(call.excused for call in self.calls)),
            source=self.first.source,
        )


def renumber(events: Iterable[Event]) -> list[Event]:
    """Events of several recordings as those of one: ids, turns and times begin anew."""
    renumbered: list[Event] = []
    turn = 0
    for number, event in enumerate(events, 1):
        turn += event.author == "user"
        renumbered.append(
            msgspec.structs.replace(
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
        self.extend(events)

    def extend(self, events: Iterable[Event]) -> None:
        """Go on with more events."""
        for event in events:
            for piece in _pieces(event):
                self.keys.append(hash((self.keys[-1], piece)))
            self.ends.append(len(self.keys) - 1)


def _pieces(event: Event) -> Iterator[tuple[str, ...]]:
    content = event.content
    for part in (content.parts or ()) if content is not None else ():
        call, result, blob, file = (
            part.function_call,
            part.function_response,
            part.inline_data,
            part.file_data,
        )
        if call is not None:
            yield "call", call.name or "", compact(call.args or {})
        elif result is not None:
            yield "result", compact(result.response or {})
        elif blob is not None:
            yield "media", blob.data or ""
        elif file is not None:
            yield "media", file.file_uri or ""
        elif part.text and not part.thought and part.text.strip():
            yield event.author, part.text.strip()


_NOTHING = Session("")
"""In the place of what a call repeats."""


def _is_model(event: Event) -> bool:
    return event.content is not None and event.content.role == "model"
