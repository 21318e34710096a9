"""Where each block of a recorded request comes from: requests aligned with those before them.

A request repeats most of the one before it. What it begins with in common is the same block; a
text that a model gave is its answer, a result is that of the call with its id, and what stands in
the place of another text has changed. Whatever is left is new in this call.
"""

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from weft.content import Part
from weft.dialects import DIALECTS, dialect_named
from weft.dialects.wire import object_in, objects_in, text_at
from weft.errors import UsageError
from weft.recordings.exchanges import BlockSource, ExchangeRecord, RecordedBlock
from weft.recordings.providers import LISTS
from weft.recordings.recording import Recording
from weft.session import Event
from weft.values import Json, JsonObject, compact

PieceKey = tuple[str, ...]
"""What tells what a part says from what others say: without ids and signatures."""


def key_of_part(part: Part, side: str) -> PieceKey | None:
    """The key of a part that one side said; None for a thought, which clients may leave out."""
    call, result, blob, file = (
        part.function_call,
        part.function_response,
        part.inline_data,
        part.file_data,
    )
    if call is not None:
        return "call", call.name or "", compact(call.args or {})
    if result is not None:
        return "result", compact(result.response or {})
    if blob is not None:
        return "media", blob.data or ""
    if file is not None:
        return "media", file.file_uri or ""
    if part.text and not part.thought and part.text.strip():
        return side, part.text.strip()
    return None


def exchanges_of(recording: Recording) -> list[ExchangeRecord]:
    """The calls of a recording, with the blocks of each request and where they come from."""
    recorded = recording.exchanges or tuple(_list_answers(recording))
    events = recording.session.events
    places = {event.id: at for at, event in enumerate(events)}
    homes = _find_homes(events) if recording.exchanges else {}
    whole = homes.get(None, {})
    traced: list[ExchangeRecord] = []
    lanes: dict[str, _Lane] = {}
    for exchange in recorded:
        lane = lanes.get(exchange.lane)
        if lane is None:
            past = _LogReader(recording, exchange.lane)
            own = ChainMap(homes.get(exchange.lane, {}), whole)
            lane = lanes[exchange.lane] = _Lane(_Aligner(own), past, _BodyReader())
        pieces = (
            lane.past.pieces_before(places.get(exchange.event, len(events)))
            if exchange.body is None
            else lane.bodies.pieces(exchange.dialect, exchange.body)
        )
        blocks = lane.aligner.align(exchange.number, pieces)
        traced.append(replace(exchange, blocks=blocks))
        answer = places.get(exchange.event)
        if answer is not None:
            lane.aligner.note_answer(exchange.number, events[answer])
    return traced


def _find_homes(events: Iterable[Event]) -> dict[str | None, dict[PieceKey, tuple[str, int]]]:
    """Which part of which event says something, by what it says; the first where several do.

    For each lane, and under None for all of them. A result is found by the id of its call, too: two
    calls may return the same.
    """
    homes: dict[str | None, dict[PieceKey, tuple[str, int]]] = {None: {}}
    for event in events:
        content = event.content
        known = (homes.setdefault(event.isolation_scope or "", {}), homes[None])
        for at, part in enumerate((content.parts or ()) if content is not None else ()):
            side = "user" if content is not None and content.role == "user" else "model"
            keys = (key_of_part(part, side), _key_of_result(part))
            for key in (one for one in keys if one is not None):
                for lane in known:
                    lane.setdefault(key, (event.id, at))
    return homes


def _key_of_result(part: Part) -> PieceKey | None:
    """The key of the result of one call; None for anything else."""
    result = part.function_response
    if result is None or not result.id:
        return None
    return "result", compact(result.response or {}), result.id


def _list_answers(recording: Recording) -> Iterator[ExchangeRecord]:
    """The calls of a transcript: one for each answer, with what was recorded at it."""
    tools = tuple[JsonObject, ...](
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters or {}}
        for tool in recording.tools
    )
    number, before = 0, 0.0
    for event in recording.session.events:
        content = event.content
        is_answer = content is not None and content.role == "model" and event.author != "user"
        if is_answer and recording.is_recorded(event):
            number += 1
            yield ExchangeRecord(
                number=number,
                event=event.id,
                model=event.model_version or recording.model,
                options=recording.config,
                tools=tools,
                usage=event.usage,
                started=before if before > _DATED else None,
                ended=event.timestamp if event.timestamp > _DATED else None,
                finish=event.finish_reason or "",
                error=event.error_code or "",
                source=recording.source,
                cost=event.provenance.stated_cost,
                lane=event.isolation_scope or "",
            )
        before = event.timestamp


_DATED = 1e8
"""A time before this is a count of events, and not a date."""


class _RequestPiece(NamedTuple):
    """A part of a request before it is known where it comes from."""

    place: str
    role: str
    part: Part | None
    text: str
    event: str = ""
    number: int = -1

    @property
    def kind(self) -> str:
        """What it is."""
        return "tool" if self.part is None else self.part.kind

    @property
    def key(self) -> PieceKey:
        """What tells it from others."""
        side = "user" if self.role == "user" else self.role
        known = key_of_part(self.part, side) if self.part is not None else None
        return known or (self.role, self.kind, self.text)


def words_of_part(part: Part) -> str:
    """What a part says, as plain text."""
    call, result = part.function_call, part.function_response
    if call is not None:
        return f"{call.name}({compact(call.args or {})})"
    if result is not None:
        response = result.response or {}
        alone = next(iter(response.values())) if len(response) == 1 else None
        return alone if isinstance(alone, str) else compact(response)
    if part.text:
        return part.text
    if part.opaque is not None:
        return compact(part.opaque[1])
    blob, file = part.inline_data, part.file_data
    if blob is not None:
        return f"[{blob.mime_type or 'media'}]"
    return f"[{file.mime_type or 'file'}: {file.file_uri}]" if file is not None else ""


class _LogReader:
    """Requests of a transcript: the system text, the tools, and what was said before."""

    def __init__(self, recording: Recording, lane: str) -> None:
        self._events: Sequence[Event] = recording.session.events
        self._lane = lane
        self._head = [
            _RequestPiece(f"system/{at}", "system", Part(text=text), text)
            for at, text in enumerate(recording.instructions_in(lane))
        ]
        self._head += [
            _RequestPiece(f"tools/{at}", "system", None, compact([tool.name, tool.description]))
            for at, tool in enumerate(recording.tools)
        ]
        self._pieces: list[_RequestPiece] = []
        self._read = 0

    def pieces_before(self, end: int) -> list[_RequestPiece]:
        """All that a request holds whose answer stands at a place of the log."""
        for event in self._events[self._read : end]:
            if (event.isolation_scope or "") != self._lane:
                continue
            compaction = event.actions.compaction
            content = event.content
            if compaction is not None:
                self._pieces, content = [], compaction.compacted_content
            role = (content.role if content is not None else "") or "user"
            for at, part in enumerate((content.parts or ()) if content is not None else ()):
                place = f"{event.id}/{at}"
                kind = "summary" if compaction is not None else role
                text = words_of_part(part)
                self._pieces.append(_RequestPiece(place, kind, part, text, event.id, at))
        self._read = max(self._read, end)
        return [*self._head, *self._pieces]


class _BodyReader:
    """Requests as they were recorded; turns that two of them begin with are read once."""

    def __init__(self) -> None:
        self._turns: list[Json] = []
        self._pieces: list[list[_RequestPiece]] = []
        self._dialect = ""

    def pieces(self, dialect: str, body: JsonObject) -> list[_RequestPiece]:
        """All that a body holds, in order."""
        if dialect not in DIALECTS:
            return []
        name = LISTS[dialect]
        target = dialect_named(dialect)
        spelled = target.spell(body)
        listed = spelled.get(name)
        turns: list[Json] = [*listed] if isinstance(listed, list) else [listed] if listed else []
        same = 0
        if dialect == self._dialect:
            for old, new in zip(self._turns, turns, strict=False):
                if old is not new and old != new:
                    break
                same += 1
        self._dialect, self._turns = dialect, turns
        del self._pieces[same:]
        head = target.read({**spelled, name: []})
        pieces = [
            _RequestPiece(f"system/{at}", "system", one.part, one.part.text or "")
            for at, one in enumerate(head.system)
        ]
        pieces += [
            _RequestPiece(f"tools/{at}", "system", None, compact(tool.wire))
            for at, tool in enumerate(head.tools)
        ]
        for at, turn in enumerate(turns[same:], same):
            # one by one: two turns of one side may be read as one
            try:
                reading = target.read({name: turn if isinstance(turn, str) else [turn]})
            except UsageError:  # a library's own spelling, shown as it was
                role = text_at(object_in(turn), "role") or "user"
                place = f"{name}/{at}/0"
                self._pieces.append([_RequestPiece(place, role, None, compact(turn))])
                continue
            own = [("system", one) for one in reading.system]
            own += [(read.role, one) for read in reading.turns for one in read.parts]
            self._pieces.append(
                [
                    _RequestPiece(f"{name}/{at}/{part}", role, one.part, words_of_part(one.part))
                    for part, (role, one) in enumerate(own)
                ]
            )
        return [*pieces, *(piece for one in self._pieces for piece in one)]


class _Lane(NamedTuple):
    """What follows one conversation of a recording."""

    aligner: "_Aligner"
    past: _LogReader
    bodies: _BodyReader


_RECENT = 8
"""How many answers are looked at that may have come back in other words."""


class _Aligner:
    """Follows one conversation, request by request."""

    def __init__(self, homes: Mapping[PieceKey, tuple[str, int]]) -> None:
        self._homes = homes
        self._before: list[tuple[PieceKey, RecordedBlock]] = []
        self._answers: dict[PieceKey, tuple[int, Event, int]] = {}
        self._calls: dict[str, tuple[int, str]] = {}
        self._seen: dict[PieceKey, RecordedBlock] = {}

    def note_answer(self, call: int, answer: Event) -> None:
        """Remember what a model answered."""
        content = answer.content
        for at, part in enumerate((content.parts or ()) if content is not None else ()):
            key = key_of_part(part, "model") or ("model", part.kind, words_of_part(part))
            self._answers[key] = call, answer, at
            if part.function_call is not None:
                name = part.function_call.name or ""
                self._calls[part.function_call.id or f"={name}"] = call, name

    def align(self, call: int, pieces: Iterable[_RequestPiece]) -> tuple[RecordedBlock, ...]:
        """The blocks of a request, each with where it comes from."""
        listed = [(piece.key, piece) for piece in pieces]
        same = 0
        for (old, _), (new, _) in zip(self._before, listed, strict=False):
            if old != new:
                break
            same += 1
        gone = {key for key, _ in self._before[same:]} - {key for key, _ in listed[same:]}
        # what stood in a place and does not stand anywhere now
        places = {one.place: one for key, one in self._before[same:] if key in gone}
        aligned = [*self._before[:same]]
        for key, piece in listed[same:]:
            block = self._trace(call, key, piece, places)
            aligned.append((key, block))
            self._seen[key] = block
        self._before = aligned
        return tuple([block for _, block in aligned])

    def _trace(
        self, call: int, key: PieceKey, piece: _RequestPiece, places: dict[str, RecordedBlock]
    ) -> RecordedBlock:
        home = (piece.event, piece.number) if piece.event else self._home_of(key, piece)
        block = RecordedBlock(
            piece.place, piece.role, piece.kind, piece.text, BlockSource("user", call), *home
        )
        answered = self._answers.get(key) if piece.role in ("model", "assistant") else None
        if answered is not None:
            number, event, part = answered
            source = BlockSource("answer", number)
            return replace(block, source=source, event=event.id, part=part)
        seen = self._find_seen(key, piece) or self._find_edited(call, piece, block)
        if seen is not None:
            place = home if home[0] else (seen.event, seen.part)
            return replace(block, source=seen.source, event=place[0], part=place[1])
        old = places.get(piece.place)
        if old is not None and (old.role, old.kind) == (piece.role, piece.kind):
            source = replace(old.source, changed=call, before=old.text)
            return replace(block, source=source)
        return replace(block, source=self._source_of(call, piece))

    def _home_of(self, key: PieceKey, piece: _RequestPiece) -> tuple[str, int]:
        """The part of an event that says what a piece does; an empty id where none does."""
        exact = _key_of_result(piece.part) if piece.part is not None else None
        home = self._homes.get(exact) if exact is not None else None
        return home or self._homes.get(key, ("", -1))

    def _find_seen(self, key: PieceKey, piece: _RequestPiece) -> RecordedBlock | None:
        """A block of an earlier request that is the same; a result is one of the same call."""
        seen = self._seen.get(key)
        result = piece.part.function_response if piece.part is not None else None
        asked = self._calls.get(result.id or "") if result is not None else None
        return None if seen is not None and asked and seen.source.call != asked[0] else seen

    def _find_edited(
        self, call: int, piece: _RequestPiece, block: RecordedBlock
    ) -> RecordedBlock | None:
        """A block that is an answer to which something was added, or of which it was cut off."""
        if piece.role not in ("model", "assistant") or piece.kind != "text":
            return None
        for key, (number, event, part) in list(self._answers.items())[-_RECENT:]:
            old, new = key[-1], piece.text.strip()
            if key[0] == "model" and (new.startswith(old) or (new and old.startswith(new))):
                source = BlockSource("answer", number, changed=call, before=old)
                return replace(block, source=source, event=event.id, part=part)
        return None

    def _source_of(self, call: int, piece: _RequestPiece) -> BlockSource:
        """Where a block comes from that stands in no earlier request."""
        result = piece.part.function_response if piece.part is not None else None
        if result is not None:
            number, name = self._calls.get(result.id or f"={result.name}", (0, result.name or ""))
            return BlockSource("result", number, tool=name)
        if piece.part is None:
            return BlockSource("tool", call)
        if piece.role in ("system", "summary"):
            return BlockSource("system" if piece.role == "system" else "summary", call)
        # an answer that nobody recorded, such as one of before the first call
        return BlockSource("answer", 0) if piece.role == "model" else BlockSource("user", call)


# --- calls as they stand in a log


def exchange_of_request(
    body: JsonObject, dialect: str, *, model: str, answer: Json, source: str
) -> ExchangeRecord:
    """A call from the request that was recorded, as it is, and its answer."""
    apart = (LISTS[dialect], *_APART)
    options = {key: value for key, value in body.items() if key not in apart}
    named = body.get("model")
    return ExchangeRecord(
        dialect=dialect,
        model=named if isinstance(named, str) else model,
        body=body,
        options=options,
        tools=tuple(objects_in(body.get("tools"))),
        answer=answer,
        source=source,
    )


_APART = ("model", "system", "tools", "systemInstruction", "system_instruction", "instructions")
"""Fields of requests that are shown by themselves."""


def share_turns(exchange: ExchangeRecord, before: ExchangeRecord) -> ExchangeRecord:
    """The same call with the turns of the one before it, as far as both begin alike.

    A log repeats every word in each later request; memory need not.
    """
    if exchange.body is None or before.body is None or exchange.dialect != before.dialect:
        return exchange
    name = LISTS[exchange.dialect]
    old, new = before.body.get(name), exchange.body.get(name)
    body: JsonObject = {
        key: before.body[key] if key in before.body and before.body[key] == value else value
        for key, value in exchange.body.items()
        if key != name
    }
    if isinstance(old, list) and isinstance(new, list):
        common = [one if one == turn else turn for one, turn in zip(old, new, strict=False)]
        new = [*common, *new[len(old) :]]
    body = {key: new if key == name else body[key] for key in exchange.body}
    tools = before.tools if before.tools == exchange.tools else exchange.tools
    return replace(exchange, body=body, tools=tools)
