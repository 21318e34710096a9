"""Answer a call of `recall` from the session's own log, state and artifacts."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from weft.compiler.tools import Held, is_seen, is_withheld, policy_of, standing_values, values_of
from weft.content import FunctionCall
from weft.declare import Agent
from weft.digest import Count, cut_text
from weft.digest.asked import window_of
from weft.digest.cut import boundary_before
from weft.ir.block import RECALL
from weft.passes.handles import PAGE
from weft.passes.reduce import project_value
from weft.relevance import rank
from weft.runtime.invocation import Invocation
from weft.runtime.labels import known_labels
from weft.runtime.place import Place
from weft.runtime.tool_call import Outcome
from weft.session.log_labels import label_of_log
from weft.tokens import counter_for
from weft.values import Json, JsonObject, compact, only_text

_SHOWN = 8
"""How many handles are named where one was wrong."""

_LETTERS = 400
"""Shorter values seldom have a handle, and are not named."""

_CONTEXT = 2
"""How many lines around one that fits are shown."""

_NEAR = 0.5
"""How well a line must fit, compared with the best one."""

_PIECE = 1_000
"""Longer lines are taken apart."""

_NARROW = 800
"""How many tokens a query gets at most: the lines around what was asked for, not all that fit."""

_HANDLES = re.compile(r"\b[0-9a-f]{12}\b|#\d{1,9}\b")
"""A handle is a hash, or the number of a folded step."""

_STEP = re.compile(r"(?:step\s*)?#?\s*(\d{1,9})", re.IGNORECASE)

_SPAN = re.compile(r"\s*(\d{1,9})\s*(?:(?:-|to|\.\.|:|,)\s*(\d{1,9}))?\s*")
"""Lines as they are asked for: one, or the first and the last."""


async def answer_recall(
    invocation: Invocation, place: Place, path: tuple[Agent, ...], call: FunctionCall
) -> Outcome:
    """What the handle stands for, of all that the agent may see from its place.

    It has the label of all that the log says, and of the values of the state and the files that are
    asked for: other sessions may have written these.
    """
    standing = await _standing(invocation, place, path[-1])
    outcome = found_among([*standing, *_visible(invocation, place, path)], call)
    asked = _names((call.args or {}).get("handle"))
    # where nothing was found, files are listed by their names
    values = (one for one in standing if one.handle in asked or one.file)
    label = label_of_log(invocation.log.view(place.scope).events)
    label |= invocation.flow.of_names([one.key or f"artifact:{one.file}" for one in values])
    return msgspec.structs.replace(outcome, label=label)


def found_among(known: Sequence[Held], call: FunctionCall) -> Outcome:
    """What a handle stands for: all of it, page by page, some lines, a field, or what fits a query.

    A step that was folded goes by its number, as "#12". Several handles, in a list or in one text,
    share what one call gets. A wrong handle gets those there are. One of another session is wrong
    in this one.
    """
    args = call.args or {}
    handle, query, page = args.get("handle"), args.get("query"), args.get("page", 1)
    names = _names(handle)
    if not names:
        return _refuse(call, f"handle is {compact(handle)}, not a text", known)
    if query is not None and not isinstance(query, str):
        return Outcome(call, {"error": f"query is {compact(query)}; pass words, or leave it out"})
    field = args.get("field")
    if field is not None and not isinstance(field, str):
        return Outcome(call, {"error": f'field is {compact(field)}; pass a path, as "rows[].id"'})
    if not isinstance(page, int) or isinstance(page, bool):
        return Outcome(call, {"error": f"page is {compact(page)}; pass a whole number, from 1 on"})
    span = _span(args.get("lines"))
    if isinstance(span, str):
        return Outcome(call, {"error": span})
    wish = _Wish(span, (field or "").strip(), (query or "").strip(), page, PAGE // len(names))
    if len(names) == 1:
        return _answer(known, call, names[0], wish)
    outcomes = {name: _answer(known, call, name, wish) for name in names}
    return Outcome(
        call,
        {name: one.response for name, one in outcomes.items()},
        parts=tuple(part for one in outcomes.values() for part in one.parts),
    )


class _Wish(NamedTuple):
    """What is asked of a value, and how many tokens of it one call gets."""

    span: tuple[int, int] | None
    field: str
    query: str
    page: int
    limit: int


def _names(handle: Json) -> list[str]:
    """The handles that are asked for, each once: one text, several in it, or a list of them."""
    texts = handle if isinstance(handle, list) else [handle]
    names: dict[str, None] = {}
    for text in texts:
        if not isinstance(text, str):
            return []
        words = _HANDLES.findall(text) or [text.strip().strip("[]").removeprefix("handle")]
        names.update(dict.fromkeys(word.strip(" :") for word in words))
    return list(names)


def _answer(known: Sequence[Held], call: FunctionCall, name: str, wish: _Wish) -> Outcome:
    """What one handle stands for, or as much of it as is asked for."""
    number = _STEP.fullmatch(name)
    if number is not None:
        return _answer_step(known, call, int(number[1]), wish)
    # the newest of several equal ones
    match = next((one for one in reversed(known) if one.handle == name), None)
    if match is None:
        return _refuse(call, f"there is no handle {name!r} in this session", known)
    return _answer_value(call, match, name, wish)


def _answer_step(known: Sequence[Held], call: FunctionCall, number: int, wish: _Wish) -> Outcome:
    """What was said, called and returned in a step that a note names by its number.

    Lines and fields are those of its result, as far as it has only one.
    """
    own = [one for one in known if one.position == number and not one.key]
    calls = {one.call for one in own if one.call and not one.tool}
    # a provider without ids returns results right after their calls
    results = [
        one
        for one in known
        if one.tool and (one.call in calls or (not one.call and one.position == number + 1))
    ]
    media = [one.media for one in (*own, *results) if one.media is not None]
    texts = [one for one in (*own, *results) if one.media is None]
    name = f"#{number}"
    if not texts and not media:
        steps = sorted({one.position for one in known if one.position >= 0})
        there = f"steps #{steps[0]} to #{steps[-1]} may be asked for" if steps else "there are none"
        return Outcome(call, {"error": f"there is no step {name} to get back; {there}"})
    step = Held(name, "\n\n".join(map(_spell_held, texts)), "", position=number)
    returned = [one for one in results if one.media is None]
    if len(returned) == 1 and (wish.span is not None or wish.field):
        step = returned[0]._replace(handle=name)
    outcome = _answer_value(call, step, name, wish)
    parts = (*outcome.parts, *media)
    return msgspec.structs.replace(outcome, parts=parts) if media else outcome


def _spell_held(one: Held) -> str:
    """A value of a step as text: what was said, the arguments of a call, or its result."""
    if one.tool:
        return f"{one.tool} returned:\n{_text(one.value)}"
    if not one.call or not isinstance(one.value, dict):
        return _text(one.value)
    arguments = (
        f"{name}: {value if isinstance(value, str) else compact(value)}"
        for name, value in one.value.items()
    )
    return "\n".join(("called with:", *arguments))


def _answer_value(call: FunctionCall, match: Held, name: str, wish: _Wish) -> Outcome:
    """What one value says, or as much of it as is asked for."""
    if match.media is not None:
        return Outcome(call, {"result": f"what {name} stands for"}, parts=(match.media,))
    count, limit = counter_for("").count, wish.limit
    if wish.field:
        part = project_value(match.value, wish.field)
        if part is None:
            return Outcome(call, {"error": f"{name} has no field {wish.field!r}; pass a query"})
        match = match._replace(value=part)
    if wish.span is not None:
        return Outcome(call, _read_lines(match, wish.span, limit=limit, count=count))
    if wish.query:
        return Outcome(
            call, _fitting(match.value, wish.query, limit=min(limit, _NARROW), count=count)
        )
    whole = _whole(match.value, limit=limit, count=count)
    if whole is not None and wish.page == 1:
        return Outcome(call, whole)
    return Outcome(call, _page(match, wish.page, limit=limit, count=count))


def _visible(invocation: Invocation, place: Place, path: tuple[Agent, ...]) -> list[Held]:
    """The values that the agent may see from its place, as they came."""
    labels, cleared = invocation.labels, path[-1].cleared
    log = invocation.log.view(place.scope).events
    return [
        one
        for one in values_of(log)
        if is_seen(one, log, place.branch) and not is_withheld(one, labels, cleared)
    ]


async def _standing(invocation: Invocation, place: Place, agent: Agent) -> list[Held]:
    """What the state and the files in view hold, without what the agent may not see."""
    shows = policy_of(agent, invocation.config).facts.shows_artifacts
    texts = await invocation.surroundings.artifact_texts() if shows else {}
    values = [
        *standing_values(invocation.log.view(place.scope).initial),
        *standing_values(invocation.forks.state_at(place), texts),
    ]
    hidden = tuple(label for label in invocation.labels if label.name not in agent.cleared)
    if not hidden:
        return values
    known = await known_labels(invocation, hidden)
    return [
        one for one in values if not known.of_state(one.key) and one.file not in known.artifacts
    ]


def _refuse(call: FunctionCall, message: str, known: Sequence[Held]) -> Outcome:
    """What is wrong, and which handles there are, the newest first."""
    named: dict[str, str] = {}
    for one in reversed(known):
        size = len(compact(one.value)) if one.media is None else _LETTERS
        if size >= _LETTERS and one.handle not in named:
            named[one.handle] = one.tool or one.key or one.file or "text"
        if len(named) == _SHOWN:
            break
    listed = ", ".join(f"{handle} ({what})" for handle, what in named.items()) or "none yet"
    return Outcome(call, {"error": f"{message}; there are: {listed}"})


def _whole(value: Json, *, limit: int, count: Count) -> JsonObject | None:
    """The value as it was, where it is short enough."""
    response: JsonObject = value if isinstance(value, dict) else {"result": value}
    return response if count(compact(response)) <= limit else None


def _span(lines: Json) -> tuple[int, int] | str | None:
    """The first and the last line that are asked for, None for no such wish, or what is wrong."""
    if lines is None or lines == "":
        return None
    if isinstance(lines, int) and not isinstance(lines, bool):
        first = last = lines
    else:
        match = _SPAN.fullmatch(lines) if isinstance(lines, str) else None
        if match is None:
            return f'lines is {compact(lines)}; pass the first and the last, as "12-40"'
        first, last = int(match[1]), int(match[2] or match[1])
    return (first, last) if 1 <= first <= last else f"there are no lines {first}-{last}"


def _read_lines(value: Held, span: tuple[int, int], *, limit: int, count: Count) -> JsonObject:
    """The lines of a value that are asked for, letter for letter, as many as one call gets."""
    lines = _text(value.value).split("\n")
    window = window_of("\n".join(lines))
    if window is not None and (places := window.between(*span)):
        # who reads numbered lines asks by those numbers
        span = (places[0] + 1, places[-1] + 1)
    first, last = span[0], min(span[1], len(lines))
    if first > len(lines):
        return {"error": f"there is no line {first}; {value.handle} has {len(lines):,}"}
    end, size = first - 1, 0
    while end < last and (end < first or size + count(lines[end]) < limit):
        size += count(lines[end]) + 1
        end += 1
    more = f"; more: {RECALL}(handle={value.handle!r}, lines='{end + 1}-{last}')"
    head = f"[lines {first}-{end} of {len(lines):,}{more if end < last else ''}]"
    text = "\n".join(lines[first - 1 : end])
    if size > 2 * limit:  # one line alone that is longer than a call gets
        text = cut_text(text, limit=2 * limit, count=count, keep="bookend")
    return {"result": f"{head}\n{text}"}


def _page(value: Held, page: int, *, limit: int, count: Count) -> JsonObject:
    """One page of lines, and how to ask for the next."""
    pages = list(_pages(_lines(value.value), limit=limit, count=count))
    if not 1 <= page <= len(pages):
        return {"error": f"there is no page {page}; {value.handle} has {len(pages)}"}
    first, lines = pages[page - 1]
    head = f"[page {page} of {len(pages)}, from line {first}"
    more = (
        f"; more: {RECALL}(handle={value.handle!r}, page={page + 1})" if page < len(pages) else ""
    )
    text = "\n".join(lines)
    return {"result": f"{head}{more}; with query= only lines that fit]\n{text}"}


def _pages(lines: Sequence[str], *, limit: int, count: Count) -> Iterator[tuple[int, list[str]]]:
    """The lines in pages, each with the number of its first line."""
    page: list[str] = []
    first, size = 1, 0
    for number, line in enumerate(lines, start=1):
        tokens = count(line) + 1
        if page and size + tokens > limit:
            yield first, page
            page, first, size = [], number, 0
        page.append(line)
        size += tokens
    yield first, page


def _fitting(value: Json, query: str, *, limit: int, count: Count) -> JsonObject:
    """The lines or records that fit the query best, in their order, with what stands around."""
    lines = _lines(value)
    wanted = query.strip().casefold()
    literal = [index for index, line in enumerate(lines) if wanted in line.casefold()]
    scores = rank(query, lines)
    best = max(scores, default=0.0)
    near = [index for index, score in enumerate(scores) if score > 0 and score >= best * _NEAR]
    # lines that have the very words come first; else those that are near
    hits = literal or sorted(near, key=lambda index: -scores[index])
    if not hits:
        return {"result": f"nothing in it fits {query!r}; it has {len(lines):,} lines"}
    chosen = _lines_around(hits, lines, limit=limit, count=count)
    omitted = sum(1 for hit in hits if hit not in chosen)
    more = f"\n[{omitted:,} more lines fit; ask for something narrower]" if omitted else ""
    return {"result": _render_lines(sorted(chosen), lines, limit=limit, count=count) + more}


def _lines_around(
    hits: Sequence[int], lines: Sequence[str], *, limit: int, count: Count
) -> set[int]:
    """The hits with a few lines around each, as many as one call gets."""
    chosen: set[int] = set()
    size = 0
    for hit in hits:
        # with its neighbours, or alone where those do not fit
        for reach in (_CONTEXT, 0):
            stretch = range(max(0, hit - reach), min(len(lines), hit + reach + 1))
            new = [index for index in stretch if index not in chosen]
            cost = sum(count(lines[index]) + 1 for index in new) + 8
            # at least one, however long it is
            if size + cost <= limit or not chosen:
                chosen.update(new)
                size += cost
                break
        else:
            break
    return chosen


def _render_lines(chosen: Sequence[int], lines: Sequence[str], *, limit: int, count: Count) -> str:
    """The chosen lines, each stretch under a line that says where it stands."""
    rendered: list[str] = []
    for at, index in enumerate(chosen):
        if at == 0 or chosen[at - 1] != index - 1:
            end = next((i for i in range(index, len(lines)) if i + 1 not in chosen), index)
            rendered.append(f"[lines {index + 1}-{end + 1} of {len(lines):,}]")
        rendered.append(lines[index])
    return cut_text("\n".join(rendered), limit=2 * limit, count=count, keep="bookend")


def _text(value: Json) -> str:
    """A value as a text: one that is a text as it is, JSON with a record or a field a line."""
    text = only_text(value)
    return text if text is not None else "\n".join(_records(value, ""))


def _lines(value: Json) -> list[str]:
    """A value line by line, where very long lines are taken apart."""
    return [piece for line in _text(value).split("\n") for piece in _pieces(line)]


def _records(value: Json, path: str) -> Iterator[str]:
    """A record of a list, or a field, in each line; what is short stays together."""
    spelled = compact(value)
    if len(spelled) <= 200 or not isinstance(value, list | dict):
        yield f"{path}: {spelled}" if path else spelled
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _records(each, f"{path}[{index}]")
    else:
        for key, each in value.items():
            yield from _records(each, f"{path}.{key}" if path else key)


def _pieces(line: str) -> Iterator[str]:
    """A line, or where it is very long, pieces of it that can be read alone."""
    at = 0
    while len(line) - at > _PIECE:
        end = boundary_before(line, at + _PIECE)
        end = end if end > at else at + _PIECE
        yield line[at:end]
        at = end
    yield line[at:]
