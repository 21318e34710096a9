"""Conversations that no well-behaved client sends, as they grow, fork and are rewritten.

A seed gives a random conversation, damages to it, a policy, and the requests that its client sends
one after the other. What a damage makes may be illegal; what comes of it may not be more so.
"""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.compaction.histories import random_policy, random_request
from tests.compaction.spices import PIXEL
from tests.compaction.talks import TALKS, Talk, Wire
from weft import C, Policy

MARK = {"type": "ephemeral"}


class Case(NamedTuple):
    """What a client sends, request by request, and under which policy."""

    dialect: str
    policy: Policy
    requests: list[Wire]
    damages: list[str]


class Damage(NamedTuple):
    """One way to spoil a conversation."""

    name: str
    spoil: Callable[[Wire, list[Wire], random.Random], None]


def draw_case(seed: int) -> Case:
    """The case of a seed."""
    chance = random.Random(f"hostile {seed}")
    dialect, request = random_request(chance.randrange(1 << 30))
    talk = TALKS[dialect]
    messages = talk.messages(request)
    if chance.random() < 0.15:
        _lengthen(talk, messages, chance)
    damages = chance.sample(DAMAGES, k=chance.choice([0, 1, 1, 2, 3]))
    for damage in damages:
        damage.spoil(request, messages, chance)
    requests = [json.loads(json.dumps(one)) for one in _requests(talk, request, chance)]
    return Case(dialect, _policy(seed, chance), requests, [one.name for one in damages])


_POLICIES: list[Callable[[random.Random], Policy]] = [
    lambda chance: C.auto(),
    lambda chance: C.auto(),
    lambda chance: C.auto(lossless=True),
    lambda chance: C.auto(fold=False),
    lambda chance: C.auto().fold(keep=chance.randint(1, 4)),
    lambda chance: C.default().fold(),
    lambda chance: C.auto().budget(chance.choice([1_500, 4_000, 20_000])),
    lambda chance: C.default().budget(chance.choice([1_500, 20_000]), overflow="drop"),
    lambda chance: C.default().fresh(turns=1, stale="compact").compact(results=64, texts=64, to=64),
    lambda chance: C.default().dedupe("superseded"),
    lambda chance: C.default().fit(chance.choice([60, 2_000])),
    lambda chance: C.window(1) + C.select(kind="results"),
    lambda chance: C.window(2) + C.user("first"),
    lambda chance: C.recent(half_life=1, min_score=0.5),
    lambda chance: C.relevant(top_k=4),
    lambda chance: C.select(kind=chance.choice(["user", "results", "model"])),
    lambda chance: C.nothing(),
    lambda chance: C.default().project(exclude=["output", "result"]),
    lambda chance: C.default().redact("email").fence(),
]


def _policy(seed: int, chance: random.Random) -> Policy:
    return random_policy(seed) if chance.random() < 0.4 else chance.choice(_POLICIES)(chance)


def _lengthen(talk: Talk, messages: list[Wire], chance: random.Random) -> None:
    """Many steps more, so that a fold pays."""
    for step in range(chance.randint(20, 60)):
        words = "\n".join(
            f"{step}.{line} {chance.random()} gauge" for line in range(chance.choice([4, 90]))
        )
        messages += talk.step(f"long_{step}", "read", {"path": f"part/{step}"}, words)


def _requests(talk: Talk, request: Wire, chance: random.Random) -> Iterator[Wire]:
    """What is sent: some of the requests of a conversation that grows, and then what is odd."""
    messages = talk.messages(request)
    ends = [at for at in range(1, len(messages) + 1) if chance.random() < 2 / (len(messages) + 1)]
    for end in [*ends, len(messages)]:
        part = messages[:end]
        if chance.random() < 0.3:
            part = [*part[:-1], _marked(part[-1])]
        yield talk.with_messages(request, part)
    for odd in chance.sample(_ODDITIES, k=chance.choice([0, 1, 2])):
        yield odd(talk, request, chance)


def _marked(message: Wire) -> Wire:
    parts = message.get("content") if isinstance(message, dict) else None
    if not isinstance(parts, list) or not parts or not isinstance(parts[-1], dict):
        return message
    return {**message, "content": [*parts[:-1], {**parts[-1], "cache_control": {**MARK}}]}


# --- what a client does with what it sent before


def _cut_front(talk: Talk, request: Wire, chance: random.Random) -> Wire:
    messages = talk.messages(request)
    return talk.with_messages(request, messages[chance.randrange(len(messages)) :])


def _fork(talk: Talk, request: Wire, chance: random.Random) -> Wire:
    messages = talk.messages(request)
    end = chance.randrange(len(messages)) + 1
    return talk.with_messages(request, [*messages[:end], talk.user("Do it in another way.")])


def _rewrite(talk: Talk, request: Wire, chance: random.Random) -> Wire:
    """A text in the middle says something else, as clients do that shorten by themselves."""
    changed: Wire = json.loads(json.dumps(request))
    texts = [*_texts_in(talk.messages(changed))]
    if texts:
        holder, key = chance.choice(texts)
        holder[key] = chance.choice(["[Old result was cleared]", "", " ", "x" * 9000])
    return changed


def _reorder_keys(talk: Talk, request: Wire, chance: random.Random) -> Wire:
    messages = [
        dict(reversed(one.items())) if isinstance(one, dict) else one
        for one in talk.messages(request)
    ]
    return dict(reversed(talk.with_messages(request, messages).items()))


def _respell(talk: Talk, request: Wire, chance: random.Random) -> Wire:
    """Texts alone become lists of one, as SDKs do from call to call."""
    kind = "input_text" if talk.turns == "input" else "text"
    messages: list[Any] = []
    for one in talk.messages(request):
        text = one.get("content") if isinstance(one, dict) else None
        user = isinstance(text, str) and one.get("role") == "user"
        messages.append({**one, "content": [{"type": kind, "text": text}]} if user else one)
    return talk.with_messages(request, messages)


def _other_head(talk: Talk, request: Wire, chance: random.Random) -> Wire:
    changed = {key: one for key, one in request.items() if key != "tools"}
    return (
        changed
        if chance.random() < 0.5
        else {**request, "model": chance.choice(["unheard-of", "gpt-4o", "claude-3-haiku"])}
    )


_ODDITIES = [_cut_front, _cut_front, _fork, _rewrite, _reorder_keys, _respell, _other_head]


def _texts_in(value: object) -> Iterator[tuple[Any, Any]]:
    """Every place with a text of some length."""
    if isinstance(value, dict | list):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(one, str):
                if len(one) > 20:
                    yield value, key
            else:
                yield from _texts_in(one)


# --- what is wrong with what is sent


def _places(messages: list[Wire], *kinds: str) -> list[tuple[list[Any], int]]:
    """The lists in which calls (`call`) or results (`result`) stand, each with its index."""
    found: list[tuple[list[Any], int]] = []
    for at, message in enumerate(messages):
        if not isinstance(message, dict):
            continue
        if _kind(message) in kinds:
            found.append((messages, at))
        for field in ("content", "parts", "tool_calls"):
            pieces = message.get(field)
            for index, piece in enumerate(pieces if isinstance(pieces, list) else ()):
                if isinstance(piece, dict) and _kind(piece) in kinds:
                    found.append((pieces, index))
    return found


def _kind(piece: Wire) -> str:
    if (
        piece.get("role") == "tool"
        or "functionResponse" in piece
        or piece.get("type") in ("tool_result", "function_call_output")
    ):
        return "result"
    if "functionCall" in piece or piece.get("type") in ("tool_use", "function_call", "function"):
        return "call"
    return ""


def _damage_one(
    *kinds: str,
) -> Callable[[Callable[[list[Any], int, random.Random], None]], Callable[..., None]]:
    def wrap(work: Callable[[list[Any], int, random.Random], None]) -> Callable[..., None]:
        def spoil(request: Wire, messages: list[Wire], chance: random.Random) -> None:
            places = _places(messages, *kinds)
            if places:
                work(*chance.choice(places), chance)

        spoil.__name__ = work.__name__
        return spoil

    return wrap


@_damage_one("result", "call")
def _missing(pieces: list[Any], at: int, chance: random.Random) -> None:
    del pieces[at]


@_damage_one("result", "call")
def _twice(pieces: list[Any], at: int, chance: random.Random) -> None:
    pieces.insert(chance.randint(0, len(pieces)), json.loads(json.dumps(pieces[at])))


@_damage_one("result")
def _empty_result(pieces: list[Any], at: int, chance: random.Random) -> None:
    piece = pieces[at]
    if "functionResponse" in piece:
        piece["functionResponse"]["response"] = chance.choice(
            [{}, {"output": ""}, {"output": None}, {"error": "x" * 900}]
        )
    else:
        key = "output" if "output" in piece else "content"
        piece[key] = chance.choice(["", " ", [], [{"type": "text", "text": ""}], None, [None, 5]])


@_damage_one("call")
def _odd_arguments(pieces: list[Any], at: int, chance: random.Random) -> None:
    piece = pieces[at]
    holder = piece.get("function") or piece.get("functionCall") or piece
    key = next((one for one in ("arguments", "args", "input") if one in holder), "")
    is_text = isinstance(holder.get(key), str)
    odd: list[Any] = (
        ["{", "", "null", "[1]", '{"a": 1e400}', '"a"']
        if is_text
        else [{}, None, [1], {"a": {"b": [None] * 40}}, "x"]
    )
    holder[key] = chance.choice(odd)


@_damage_one("call", "result")
def _odd_id(pieces: list[Any], at: int, chance: random.Random) -> None:
    piece = pieces[at]
    for key in ("id", "call_id", "tool_call_id", "tool_use_id"):
        if key in piece:
            piece[key] = chance.choice(["", "call_1", "é" * 90, 7, None, "call 1"])
            return


@_damage_one("result")
def _handle_like(pieces: list[Any], at: int, chance: random.Random) -> None:
    text = chance.choice([
        "[handle 205fa3730b56: text, 5,415 tokens; left out: 388 of 400 lines]\na",
        "[as lines 1-7 of open_file({}), the result above, handle 6d9afb43568c]\nb",
        "[Folded steps: the number, what was called]\n#1 read place/1 -> gauge",
        "[Old tool result content cleared]", "[last 3 lines as 2 results above]",
    ]) * chance.choice([1, 40])  # fmt: skip
    piece = pieces[at]
    if "functionResponse" in piece:
        piece["functionResponse"]["response"] = {"output": text}
    else:
        piece["output" if "output" in piece else "content"] = text


def _same_ids(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    """Each step counts its calls from the beginning, as some servers do."""
    text = json.dumps(messages)
    for number in range(2, 12):
        text = text.replace(f'"call_{number}"', f'"call_{number % 2}"')
    messages[:] = json.loads(text)


def _later_results(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    """Something stands between calls and their results."""
    places = [
        at for at, one in enumerate(messages) if isinstance(one, dict) and _kind(one) == "result"
    ]
    places = places or [*range(1, len(messages))]
    between = chance.choice(["user", "assistant", "developer", "system", "unheard-of"])
    wire: Wire = {"role": between, "content": "Wait."}
    if "contents" in request:
        wire = {"role": between, "parts": [{"text": "Wait."}]}
    messages.insert(chance.choice(places or [0]), wire)


def _shuffled(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    at = chance.randrange(len(messages))
    part = messages[at : at + 4]
    chance.shuffle(part)
    messages[at : at + 4] = part


def _merged(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    """Two turns of one side follow each other."""
    at = chance.randrange(len(messages))
    messages.insert(at, json.loads(json.dumps(messages[at])))


def _begins_late(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    del messages[: chance.randint(1, 3)]
    if not messages:
        messages.append(
            {"role": "user", "content": "hi"}
            if "contents" not in request
            else {"role": "user", "parts": [{"text": "hi"}]}
        )


def _prefilled(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    role = "model" if "contents" in request else "assistant"
    text = chance.choice(["{", "Sure: ", " ", ""])
    messages.append(
        {"role": role, **({"parts": [{"text": text}]} if role == "model" else {"content": text})}
    )


def _odd_message(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    odd: list[Any] = [None, 5, "text", [], {}, {"role": "user"}, {"role": "user", "content": None},
                      {"role": "user", "content": [None, {"type": "unheard_of", "x": 1}]},
                      {"role": "user", "parts": []}, {"type": "item_reference", "id": "rs_9"},
                      {"role": "assistant", "content": [{"type": "text"}]},
                      {"type": "compaction", "id": "c", "encrypted_content": "Zm9v" * 90},
                      {"role": "user", "content": [{"type": "compaction_trigger"}]}]  # fmt: skip
    messages.insert(chance.randint(0, len(messages)), chance.choice(odd))


def _marks(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    """Marks for the cache at anything, more of them than are taken."""
    for _ in range(chance.randint(1, 6)):
        holders = [
            one
            for one in _dicts_in(messages)
            if one.keys() & {"type", "role"} and one != MARK and "media_type" not in one
        ]
        if holders:
            chance.choice(holders)["cache_control"] = chance.choice(
                [{**MARK}, None, {**MARK, "ttl": "1h"}]
            )


def _dicts_in(value: object) -> Iterator[Wire]:
    if isinstance(value, dict):
        yield value
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _dicts_in(one)


def _thoughts(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    """Thoughts with a signature between calls, without one, and sealed ones."""
    for number, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in ("assistant", "model"):
            continue
        pieces = message.get("content") or message.get("parts")
        if not isinstance(pieces, list) or chance.random() < 0.4:
            continue
        thought: Wire = {
            "type": "thinking",
            "thinking": chance.choice(["", "hm " * 300]),
            "signature": chance.choice(["", f"Zm9v{number:04}"]),
        }
        if "parts" in message:
            thought = {"text": "hm", "thought": True, "thoughtSignature": f"c2ln{number:04}"}
        pieces.insert(chance.randint(0, len(pieces)), thought)


def _media(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    """Pictures and files as results of tools."""
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL * chance.choice([1, 400])}
    url = f"data:image/png;base64,{source['data']}"
    for pieces, at in _places(messages, "result"):
        if chance.random() < 0.5:
            continue
        piece = pieces[at]
        if "functionResponse" in piece:
            pieces.insert(at + 1, {"inlineData": {"mimeType": "image/png", "data": source["data"]}})
        elif "output" in piece:
            piece["output"] = [{"type": "input_image", "image_url": url, "detail": "auto"}]
        elif "tool_use_id" in piece:
            piece["content"] = [
                {"type": "image", "source": source},
                {"type": "text", "text": "a picture " * 90},
            ]
        else:
            piece["content"] = [{"type": "image_url", "image_url": {"url": url}}]


def _own_recall(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    """A tool of the client's that is called as ours is."""
    text = json.dumps(messages).replace('"name": "read"', '"name": "recall"')
    messages[:] = json.loads(text)
    if chance.random() < 0.5:
        request["tools"] = json.loads(
            json.dumps(request.get("tools", [])).replace('"read"', '"recall"')
        )


def _no_tools(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    request["tools"] = chance.choice([[], None, {}])


def _odd_options(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    odd: list[Wire] = [
        {"system": None}, {"system": []}, {"system": [{"type": "text", "text": ""}]},
        {"instructions": ""}, {"model": 5}, {"tool_choice": {"type": "tool", "name": "read"}},
        {"tool_choice": "required"}, {"previous_response_id": "resp_1"}, {"max_tokens": None},
        {"systemInstruction": {"parts": []}}, {"n": 3}, {"stream": True},
        {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    ]  # fmt: skip
    request.update(chance.choice(odd))


def _huge_words(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    text = "\n".join(f"{n} {chance.random()} pasted" for n in range(3000))
    at = chance.randint(0, len(messages))
    messages.insert(
        at,
        {"role": "user", "parts": [{"text": text}]}
        if "contents" in request
        else {"role": "user", "content": text},
    )


def _system_texts(request: Wire, messages: list[Wire], chance: random.Random) -> None:
    """What coding agents tell a model by the way, which a provider takes at some places only."""
    for at in range(len(messages), 0, -1):
        before: object = messages[at - 1]  # an odd message may be anything
        spoken = isinstance(before, dict) and before.get("role") in ("user", "tool")
        if "contents" in request or not spoken or chance.random() < 0.6:
            continue
        words = f"Reminder {chance.randrange(4)}: the list of tasks is empty."
        text: Wire = {"role": "system", "content": words}
        if chance.random() < 0.2:
            text["content"] = [{"type": "text", "text": words, "cache_control": MARK}]
        if chance.random() < 0.1:
            text["clear_at"] = "next_user_message"
        messages.insert(at, text)
    if "messages" in request and chance.random() < 0.5:
        request["model"] = "claude-opus-4-8"
        edits = [{"type": "clear_thinking_20251015", "keep": "all"}]
        request["context_management"] = {"edits": edits}


DAMAGES = [
    Damage(work.__name__.lstrip("_"), work)
    for work in (
        _missing, _twice, _empty_result, _odd_arguments, _odd_id, _handle_like, _same_ids,
        _later_results, _shuffled, _merged, _begins_late, _prefilled, _odd_message, _marks,
        _thoughts, _media, _own_recall, _no_tools, _odd_options, _huge_words,
        _system_texts,
    )
]  # fmt: skip
