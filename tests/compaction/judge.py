"""What a provider refuses of a request, by its documentation and the types of its SDK.

Nothing of Weft is asked, so that it judges what Weft takes for legal. Each problem is a sentence
that names calls by their ids and never by their places: a request is compared with what it was
made of, whose messages stand elsewhere.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from tests.dialects.shapes import misfits, request_type
from tests.dialects.test_conformance import gemini_misfits

Wire = dict[str, Any]


def is_legal(dialect: str, request: Wire) -> bool:
    """Whether nothing is wrong with the turns of a request."""
    turns = request.get(_turns_of(dialect))
    if isinstance(turns, list) and len(_objects(turns)) < len(turns):
        return False  # the judges read objects alone
    return next(_JUDGES[dialect](request), None) is None


def new_problems(dialect: str, before: Wire, after: Wire) -> Counter[str]:
    """What is wrong with a request and was not wrong with the one that it was made of."""
    turns = _turns_of(dialect)
    came, went = _objects(before.get(turns)), _objects(after.get(turns))
    # types are asked of one message after the other, so the same ones cancel each other out
    same = {id(one) for one in came} & {id(one) for one in went}
    fresh = [
        [message for message in wire[turns] if id(message) not in same] for wire in (after, before)
    ]
    odd = _kinds_of(dialect, {**after, turns: fresh[0]})
    odd -= _kinds_of(dialect, {**before, turns: fresh[1]})
    if odd:
        # of several odd messages a check of types may name the first alone
        odd = sum((_kinds_of(dialect, {**after, turns: [one]}) for one in fresh[0]), Counter())
        odd -= sum((_kinds_of(dialect, {**before, turns: [one]}) for one in fresh[1]), Counter())
    known = Counter(_JUDGES[dialect](before))
    # of two calls of one id one had no result before, whichever the provider takes for it
    for problem in [one for one in known if one.endswith(" is called twice")]:
        known[f"the call {problem.split()[0]} has no result"] += known[problem]
    return Counter(_JUDGES[dialect](after)) - known + odd


def _kinds_of(dialect: str, request: Wire) -> Counter[str]:
    """What its types refuse, whatever the numbers of the messages and their values are."""
    return Counter(
        re.sub(r"\d+", "N", re.sub(r": .* is n", ": is n", problem, flags=re.DOTALL))
        for problem in _misfits(dialect, request)
    )


def _misfits(dialect: str, request: Wire) -> list[str]:
    spelled = json.dumps(request, ensure_ascii=False)
    # a reader of JSON stops at half a character, and would not see what else is wrong
    whole = spelled.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    halves = [] if whole == spelled else ["half a character"]
    wire = json.loads(whole)
    if dialect == "gemini":
        return halves + gemini_misfits(wire)
    return halves + misfits(wire, request_type(dialect))


def _turns_of(dialect: str) -> str:
    return {"gemini": "contents", "openai-responses": "input"}.get(dialect, "messages")


def _objects(value: object) -> list[Wire]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _is_blank(text: object) -> bool:
    return isinstance(text, str) and not text.strip()


def _chat(request: Wire) -> Iterator[str]:
    """Results follow the calls at once, each call has one, and an answer says something."""
    waiting: list[str] = []
    messages = _objects(request.get("messages"))
    if not messages:
        yield "there are no messages"
    for message in [*messages, {"role": "end"}]:
        role = message.get("role")
        if role not in ("system", "developer", "user", "assistant", "tool", "end"):
            yield "a role is unknown"
        if role == "tool":
            id = message.get("tool_call_id")
            if id in waiting:
                waiting.remove(id)
            else:
                yield f"the result {id} follows no call"
            if message.get("content") is None:
                yield f"the result {id} has no content"
            continue
        yield from (f"the call {id} has no result" for id in waiting)
        waiting = [str(one.get("id")) for one in _objects(message.get("tool_calls"))]
        yield from (
            f"{id} is called twice" for id in {one for one in waiting if waiting.count(one) > 1}
        )
        said = message.get("content") or message.get("refusal") or message.get("audio")
        if role == "assistant" and said in (None, []) and not waiting and "content" not in message:
            yield "an answer says nothing"
        if role == "user" and message.get("content") in (None, []):
            yield "a user says nothing"


def _claude(request: Wire) -> Iterator[str]:
    """Turns of one side are one; results come first in the turn after their calls."""
    turns: list[tuple[object, list[Wire]]] = []
    marks = str(request.get("system")).count("'cache_control': {") + str(
        request.get("tools")
    ).count("'cache_control': {")
    messages = _objects(request.get("messages"))
    for at, message in enumerate(messages):
        content = message.get("content")
        last = at == len(messages) - 1 and message.get("role") == "assistant"
        if content in ("", [], None) and not last:
            yield "a turn says nothing"
        blocks = (
            [{"type": "text", "text": content}] if isinstance(content, str) else _objects(content)
        )
        if turns and turns[-1][0] == message.get("role"):
            turns[-1][1].extend(blocks)
        else:
            turns.append((message.get("role"), blocks))
    if not turns or turns[0][0] != "user":
        yield "the user does not begin"
    if any(role not in ("user", "assistant", "system") for role, _ in turns):
        yield "a role is unknown"
    roles = [one.get("role") for one in messages if one.get("content") != []]
    for at, role in enumerate(roles):
        if role == "system":
            if roles[max(0, at - 1)] not in ("user", "system") or not at:
                yield "a system text follows no words of the user"
            if roles[at + 1 : at + 2] not in ([], ["assistant"], ["system"]):
                yield "the model does not speak after a system text"
    turns = [one for one in turns if one[0] != "system"]
    waiting: list[str] = []
    called: Counter[str] = Counter()
    for _, blocks in [*turns, ("user", [])]:
        answered: list[str] = []
        is_over = False
        for block in blocks:
            kind = block.get("type")
            marks += isinstance(block.get("cache_control"), dict)
            if kind == "text" and _is_blank(block.get("text")):
                yield "a text is empty"
            if kind in ("thinking", "redacted_thinking") and block.get("cache_control"):
                yield "a thought has a mark"
            if kind == "thinking" and not block.get("signature"):
                yield "a thought has no signature"
            if kind == "tool_result":
                id = str(block.get("tool_use_id"))
                if id not in waiting or id in answered:  # a call has one result
                    yield f"the result {id} answers no call"
                if is_over and id in waiting:
                    yield f"the result {id} follows other words"
                answered.append(id)
                inner = _objects(block.get("content"))
                for one in inner:
                    if one.get("type") == "text" and _is_blank(one.get("text")):
                        yield "a text of a result is empty"
                    marks += isinstance(one.get("cache_control"), dict)
            else:
                is_over = True
        yield from (f"the call {id} has no result" for id in waiting if id not in answered)
        waiting = [str(one.get("id")) for one in blocks if one.get("type") == "tool_use"]
        called.update(waiting)
    yield from (f"{id} is called twice" for id, count in called.items() if count > 1)
    if marks > 4:
        yield "there are more than four marks"


def _gemini(request: Wire) -> Iterator[str]:
    """The turn after calls has a result for each, in any order, and no turn is empty."""
    contents = _objects(request.get("contents"))
    if not contents:
        yield "there are no contents"
    waiting: list[str] = []
    for content in [*contents, {"role": "end", "parts": [{}]}]:
        parts = _objects(content.get("parts"))
        if content.get("role") not in (None, "user", "model", "end"):
            yield "a role is unknown"
        if not parts:
            yield "a turn has no parts"
        results = [
            str(one["functionResponse"].get("name"))
            for one in parts
            if isinstance(one.get("functionResponse"), dict)
        ]
        calls = [
            str(one["functionCall"].get("name"))
            for one in parts
            if isinstance(one.get("functionCall"), dict)
        ]
        for name in results:
            if name in waiting:
                waiting.remove(name)
            else:
                yield f"a result of {name} follows no call"
        yield from (f"a call of {name} has no result" for name in waiting)
        waiting = calls
        for one in parts:
            kinds = [
                key for key in one if key not in ("thought", "thoughtSignature", "videoMetadata")
            ]
            if content.get("role") != "end" and len(kinds) != 1:
                yield "a part says not one thing"


def _responses(request: Wire) -> Iterator[str]:
    """Each output has a call before it and each call an output; a thought stands before what
    was thought."""
    items = _objects(request.get("input")) if isinstance(request.get("input"), list) else []
    called: Counter[str] = Counter(
        str(one.get("call_id")) for one in items if one.get("type") == "function_call"
    )
    given: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    ids = Counter(str(one["id"]) for one in items if one.get("id"))
    for at, item in enumerate(items):
        id = str(item.get("call_id"))
        if item.get("type") == "function_call":
            seen[id] += 1
        if item.get("type") == "function_call_output":
            given[id] += 1
            if given[id] > seen[id]:
                yield f"the output {id} follows no call"
        if item.get("type") == "reasoning":
            following = items[at + 1] if at + 1 < len(items) else {"role": "user"}
            if (
                following.get("role") in ("user", "system", "developer")
                or following.get("type") == "function_call_output"
            ):
                yield f"the reasoning {item.get('id')} is followed by nothing"
    if not request.get("previous_response_id") and not request.get("conversation"):
        yield from (
            f"the call {id} has no output" for id, count in called.items() if given[id] < count
        )
    yield from (f"{id} is called twice" for id, count in called.items() if count > 1)
    yield from (f"the id {id} stands twice" for id, count in ids.items() if count > 1)
    if "input" in request and request["input"] == []:
        yield "there is no input"


_JUDGES: dict[str, Callable[[Wire], Iterator[str]]] = {
    "openai-chat": _chat,
    "anthropic": _claude,
    "gemini": _gemini,
    "openai-responses": _responses,
}
