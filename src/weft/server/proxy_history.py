"""A client's history as a proxy knows it again, and what the client never saw put back into it."""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import cast

import msgspec

from weft.compaction.reading import MessageCache, RequestBody, take_apart
from weft.compaction.splicing import encode, splice
from weft.dialects.answers import LOOSE_TEXT, AnswerShape
from weft.dialects.caching import MARKS
from weft.dialects.weave import take_pieces
from weft.dialects.wire import object_in
from weft.server.proxy_store import ProxyStore, RecallRecord
from weft.values import Json, JsonObject


class HistoryDigests:
    """After each message a hash of all so far, by what they say.

    Marks for the cache move from request to request, and a text may stand alone or in a list: both
    change nothing of what was said. What was hashed before is known by its bytes.
    """

    def __init__(self) -> None:
        self._known: dict[str, MessageCache[bytes]] = {}

    def chain(self, body: RequestBody) -> list[bytes]:
        """The hash before the first message, and after each."""
        name = body.dialect.traits.name
        cache = self._known.setdefault(name, MessageCache())
        chain = [blake2b(name.encode(), digest_size=16).digest(), *cache.find(body.keys)]
        for message in body.messages[len(chain) - 1 :]:
            message_hash = blake2b(encode(_plain(message)), digest_size=16).digest()
            chain.append(blake2b(chain[-1] + message_hash, digest_size=16).digest())
        cache.keep(body.keys, chain[1:])
        return chain


def _plain(value: Json) -> Json:
    """A value in one of the ways to say it: sorted, without marks and what is null."""
    if isinstance(value, dict):
        plain: JsonObject = {
            key: _plain(value[key])
            for key in sorted(value)
            if key not in MARKS and value[key] is not None
        }
        return plain["text"] if plain.keys() == {"text", "type"} else plain
    if isinstance(value, list):
        listed = [_plain(one) for one in value]
        return listed[0] if len(listed) == 1 and isinstance(listed[0], str) else listed
    return value


def fingerprint(form: AnswerShape, turns: Sequence[JsonObject]) -> str:
    """What tells an answer from another one to the same history: its words and its calls."""
    words: list[str] = []
    calls: list[str] = []
    for piece in form.open_turns(turns):
        name = form.call_name(piece)
        if name:
            calls.append(f"{name} {piece.get('call_id') or piece.get('id') or ''}")
        elif not piece.get("thought") and "field" not in piece:
            words += _texts_in(piece)
    letters = "".join("".join(words).split())
    return blake2b("\0".join((letters, *calls)).encode("utf-8", "replace")).hexdigest()[:32]


def _texts_in(piece: JsonObject) -> Iterator[str]:
    """The texts of a piece, which may be a message with a text or several."""
    content = piece.get("content")
    inner: list[Json] = [*content] if isinstance(content, list) else [{"text": content}]
    for one in (piece, *map(object_in, inner)):
        for key in ("text", LOOSE_TEXT):
            if isinstance(text := one.get(key), str):
                yield text


def restore_recalls(
    body: RequestBody, form: AnswerShape, chain: Sequence[bytes], store: ProxyStore
) -> RequestBody:
    """The request with all that the client did not see of its answers, where each was."""
    messages: list[Json] = []
    done, count = 0, len(body.messages)
    for at in store.find_places(chain[:-1]):
        end = at
        while end < count and form.is_model(body.messages[end]):
            end += 1
        answer = cast("list[JsonObject]", body.messages[at:end])
        record = _choose(store.find_recalls(chain[at]), fingerprint(form, answer))
        if at < done or not answer or record is None:
            continue
        messages += body.messages[done:at]
        messages += restore_answer(form, answer, record)
        following = body.messages[end : end + 1]
        done = end + len(following)
        if record.results:
            place = record.places[0] if record.places else 0
            following = form.add_results(following, record.results, place)
        messages += following
    if not done:
        return body
    return replace_messages(body, [*messages, *body.messages[done:]])


def _choose(records: Sequence[RecallRecord], seen: str) -> RecallRecord | None:
    """The record of an answer; one that a client has changed beyond recognition has none."""
    return next((one for one in records if one.seen == seen), None)


def restore_answer(
    form: AnswerShape, answer: list[JsonObject], record: RecallRecord
) -> list[JsonObject]:
    """The elements of an answer, with the calls that the client did not see."""
    turns: list[JsonObject] = []
    pieces = form.open_turns(answer)
    for leg in record.legs:
        turns += [*leg.turns, *leg.results]
        pieces = take_pieces(pieces, form.open_turns(leg.turns))
    for call, place in zip(record.calls, record.places, strict=True):
        calls = [at for at, one in enumerate(pieces) if form.call_name(one)]
        index = calls[place] if place < len(calls) else len(pieces)
        pieces.insert(index, call)
    return [*turns, *form.close_turns(answer, pieces)]


def replace_messages(body: RequestBody, messages: list[Json]) -> RequestBody:
    """The request with other messages; those that are the same objects keep their bytes."""
    return replace_wire(body, {**body.wire, body.dialect.traits.turns: messages})


def replace_wire(body: RequestBody, wire: JsonObject) -> RequestBody:
    """The request with other values; those that are the same objects keep their bytes."""
    raw = encode(wire) if body.raw is None else splice(body.raw, body.wire, wire)
    return take_apart(raw, wire, body.dialect, raw, is_list=False)


def read_json(raw: bytes) -> Json:
    """A body as a value; None where it is not JSON."""
    try:
        return cast("Json", msgspec.json.decode(raw))
    except (ValueError, RecursionError):
        return None
