"""Evidence: what later steps of a recording used, and whether a request still shows it.

A string is used that looks like a name, a path or a number, was told to the agent, and comes up
in what it says or calls later. So is a short value: a number of two digits, a price, a seat. It
must stand by itself, since a few letters are part of many words. Lines are used by an edit: of the
numbers that a command names, in the newest result that shows them, or those that it quotes to be
replaced.

A request shows a text in view, by a handle, or in pieces that can be put together again.

Top to bottom: what was used, what is shown.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from weft.compiler.compiled import Compilation
from weft.content import Part
from weft.digest.asked import NumberedWindow, read_query, window_of
from weft.digest.names import GROUPED, SHORTEST, plain_value, short_values_in, telling_names
from weft.digest.repeats import undo_tables
from weft.ir import Block, Item, Prompt, ResultBlock, TextBlock
from weft.ir.block import FOLDED, RECALL
from weft.session import Event
from weft.values import Json, compact, handle_of, only_text


class EditedLines(NamedTuple):
    """The lines that an edit changed, as a result showed them, and the handle of that result."""

    lines: tuple[str, ...]
    handle: str


class Uses(NamedTuple):
    """The earlier strings that each model event used, by the place of the event in the log.

    `at_once` are those that first appeared after the agent's last answer.
    `edits` are the lines that it changed.
    """

    by_event: dict[int, tuple[str, ...]]
    at_once: dict[int, frozenset[str]] = {}
    edits: dict[int, EditedLines] = {}

    @property
    def total(self) -> int:
        """How many uses there are."""
        return sum(map(len, self.by_event.values()))


def uses_of(events: Sequence[Event], instruction: str = "") -> Uses:
    """What each model event of a log used of what was said or returned before it.

    `instruction` and what the user says before the agent's first word are the task. An agent that
    runs as a tool, or in a lane of its own, has heard what was said there, and nothing else.
    """
    talks: dict[str | None, _HeardTalk] = {}
    uses: dict[int, tuple[str, ...]] = {}
    at_once: dict[int, frozenset[str]] = {}
    edits: dict[int, EditedLines] = {}
    results = _EditableResults()
    for index, event in enumerate(events):
        talk = talks.setdefault(event.isolation_scope, _HeardTalk(instruction))
        content = event.content
        parts = (content.parts or ()) if content is not None else ()
        if content is not None and content.role == "user":
            for part in parts:
                is_late = talk.has_begun or part.function_response is not None
                (talk.heard if is_late else talk.task).add(part_text(part))
                results.add(part)
            continue
        quoted = evidence_in("\n".join(map(part_text, parts)))
        talk.has_begun = talk.has_begun or bool(parts)
        born = [one for one in quoted if one not in talk.coined and not talk.task.has(one)]
        used = tuple(one for one in born if talk.heard.has(one))
        # the agent made it up: when it says it again, nothing of the log was used
        talk.coined.update(one for one in born if one not in used)
        if used:
            uses[index] = used
            at_once[index] = frozenset(one for one in used if not talk.heard.has_before(one))
        edited = results.edited_by(parts)
        if edited is not None:
            edits[index] = edited
        talk.heard.end_step()
    return Uses(uses, at_once, edits)


class _HeardTalk:
    """What was said in one conversation of a log so far."""

    def __init__(self, instruction: str) -> None:
        self.task, self.heard = _HeardTexts(instruction), _HeardTexts()
        self.coined: set[str] = set()
        self.has_begun = False
        """Whether the agent has spoken."""


class _HeardTexts:
    """Texts that were said, and which of them before the agent's last word."""

    def __init__(self, *texts: str) -> None:
        self._texts = [*map(SearchedText, texts)]
        self._older = 0

    def add(self, text: str) -> None:
        """One text more."""
        self._texts.append(SearchedText(text))

    def end_step(self) -> None:
        """The agent has spoken: what was said so far is older than what comes."""
        self._older = len(self._texts)

    def has(self, one: str) -> bool:
        """Whether one of the texts holds it."""
        return any(text.has(one) for text in self._texts)

    def has_before(self, one: str) -> bool:
        """Whether one of the texts before the agent's last word holds it."""
        return any(text.has(one) for text in self._texts[: self._older])


_EDITS = re.compile(r"\s*(?:\w*edit|replace|change)\w*\b", re.IGNORECASE)
"""How a command begins that changes the lines it names."""

_QUOTES = ("old_str", "old_string", "old_text")
"""The arguments that quote the lines to be replaced."""


_TOLD = re.compile(r"[A-Za-z]*\d\w*(?:[.:-]\w+)*")
_STEP = re.compile(r"[.:-]")


def evidence_in(text: str) -> list[str]:
    """The strings and the short values of a text."""
    return [*telling_names(text), *short_values_in(text)]


def is_short(one: str) -> bool:
    """Whether evidence must stand by itself to count."""
    return len(one) < SHORTEST


class SearchedText:
    """A text in which evidence is looked for: a string anywhere, a short value by itself."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._values: frozenset[str] | None = None

    def has(self, one: str) -> bool:
        """Whether the text holds it."""
        if not is_short(one):
            return one in self.text
        if self._values is None:
            self._values = frozenset(_all_values(self.text))
        return one in self._values


def _all_values(text: str) -> Iterator[str]:
    """Every value of a text, and each part of one that has parts, such as a date or a place."""
    yield from (match[0].replace(",", "") for match in GROUPED.finditer(text))
    for token in _TOLD.findall(text):
        yield plain_value(token)
        if _STEP.search(token):
            yield from map(plain_value, _STEP.split(token))


class _ShownWindow(NamedTuple):
    """A result that shows numbered lines, by their numbers, and its handle."""

    lines: dict[int, str]
    handle: str


class _EditableResults:
    """The results so far that an edit may be about."""

    def __init__(self) -> None:
        self._windows: list[_ShownWindow] = []
        self._texts: list[tuple[str, str]] = []

    def add(self, part: Part) -> None:
        """Take in a result."""
        result = part.function_response
        if result is None or not result.response:
            return
        text, handle = spell_value(result.response), handle_of(result.response)
        self._texts.append((text, handle))
        window = window_of(text)
        if window is not None:
            self._windows.append(_ShownWindow(_by_number(window), handle))

    def edited_by(self, parts: Iterable[Part]) -> EditedLines | None:
        """The lines that an answer changes, as the newest result with all of them has them."""
        words = "\n".join(part.text for part in parts if part.text)
        for part in parts:
            call = part.function_call
            arguments = {**(call.args or {})} if call is not None else {}
            # words next to a call are not a command of their own
            if call is None and any(one.function_call for one in parts):
                continue
            quote = next((arguments[name] for name in _QUOTES if arguments.get(name)), None)
            if isinstance(quote, str):
                return self._find_by_quote(quote)
            texts = [one if isinstance(one, str) else compact(one) for one in arguments.values()]
            named = call.name if call is not None else ""
            asked = read_query(texts, words)
            if asked.span is not None and _EDITS.match(f"{named if texts else ''} {asked.command}"):
                return self._find_by_number(*asked.span)
        return None

    def _find_by_number(self, first: int, last: int) -> EditedLines | None:
        numbers = range(first, last + 1)
        for window in reversed(self._windows):
            if all(number in window.lines for number in numbers):
                return EditedLines(tuple(window.lines[one] for one in numbers), window.handle)
        return None

    def _find_by_quote(self, quote: str) -> EditedLines | None:
        wanted = quote.strip("\n").split("\n")
        for text, handle in reversed(self._texts):
            lines = text.split("\n")
            if all(any(line.endswith(one) for line in lines) for one in wanted):
                places = [next(line for line in lines if line.endswith(one)) for one in wanted]
                return EditedLines(tuple(places), handle)
        return None


def _by_number(window: NumberedWindow) -> dict[int, str]:
    return {number: window.lines[place] for place, number in window.numbers.items()}


def spell_value(value: Json) -> str:
    """A value as text: the one text that it has, else its JSON."""
    text = only_text(value)
    return text if text is not None else compact(value)


def part_text(part: Part) -> str:
    """What a part of an event says, as text."""
    call, result = part.function_call, part.function_response
    if call is not None:
        return f"{call.name} {compact(call.args or {})}"
    if result is not None:
        return spell_value(result.response or {})
    return part.text or ""


# --- what is shown


class KeptEvidence:
    """The values of a log, by their places and by their handles."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.values: dict[str, Json] = {}
        self.heard: dict[str, int] = {}
        """The handles of the values that the agent saw, and where each appeared first."""
        self.places: dict[tuple[str, int], Json] = {}
        self.task = next(
            (
                index
                for index, event in enumerate(events)
                if event.content is not None and event.content.role != "user"
            ),
            len(events),
        )
        """Where the agent's first word is: what lies before it is the task."""
        self.steps: dict[int, list[str]] = {}
        """By the place of a step in the log: the handles of what was said and returned in it."""
        self._texts: dict[str, SearchedText] = {}
        calls: dict[str, int] = {}
        for index, event in enumerate(events):
            for at, part in enumerate((event.content.parts if event.content else None) or ()):
                call, result = part.function_call, part.function_response
                if call is not None and call.id:
                    calls[call.id] = index
                    self.steps.setdefault(index, [])
                value: Json = part.text
                if result is not None:
                    value = result.response or {}
                if value:
                    handle = handle_of(value)
                    step = calls.get(result.id or "", index) if result is not None else index
                    self.steps.setdefault(step, []).append(handle)
                    self.values[handle] = value
                    if result is not None or event.author == "user":
                        self.heard.setdefault(handle, index)
                    self.places[event.id or "", at] = value

    def text(self, handle: str) -> str:
        """The value of a handle, as text."""
        return self.search_text(handle).text

    def search_text(self, handle: str) -> SearchedText:
        """The value of a handle, as a text that can be searched."""
        text_behind = self._texts.get(handle)
        if text_behind is None:
            text_behind = self._texts[handle] = SearchedText(spell_value(self.values[handle]))
        return text_behind

    def handle_of(self, string: str, handles: Iterable[str]) -> str | None:
        """The handle of the shortest value among these that holds the string, or None."""
        matches = [one for one in handles if self.search_text(one).has(string)]
        return min(matches, key=lambda one: (len(self.text(one)), one), default=None)


class Rebuilt(NamedTuple):
    """How many texts of a request are shorter than in the log, and which cannot be rebuilt."""

    reduced: int
    lost: tuple[str, ...]


def rebuild_texts(compiled: Compilation, records: KeptEvidence) -> Rebuilt:
    """Put every text that is sent in short together again, from the request and its handles.

    What a policy drops on purpose cannot be rebuilt.
    """
    prompt = compiled.prompt
    reader = _AnswerReader(prompt, records)
    reduced, lost = 0, list[str]()
    for item in prompt.items:
        for step in _folded_steps(item):
            reduced += 1
            if not reader.recalls or step not in records.steps:
                lost.append(f"#{step}")
        for block in item.blocks:
            place = (block.origin.name, block.origin.part)
            whole = records.places.get(place) if block.origin.kind == "event" else None
            if whole is None or not isinstance(block, ResultBlock | TextBlock):
                continue
            sent: Json = block.response if isinstance(block, ResultBlock) else block.text
            if sent == whole or _sent_text(block).startswith(_DROPPED):
                continue
            if isinstance(block, TextBlock) and spell_value(whole) in block.text:
                continue  # somebody else's, with the name of who said it
            reduced += 1
            if not reader.is_whole(block, whole):
                lost.append(f"{place[0]}#{place[1]}: {_sent_text(block)[:200]}")
    return Rebuilt(reduced, tuple(lost))


class View:
    """What can be read in a request: the texts in it, and the values of its handles."""

    def __init__(self, compiled: Compilation, texts: "Texts", records: KeptEvidence) -> None:
        prompt = compiled.prompt
        items = prompt.items.since(0)
        self._born = [text for item in items for text in texts.born(item, prompt.agent, records)]
        self._records = records
        self.behind: tuple[str, ...] = ()
        """The handles that can be asked for."""
        # without the tool the value of a handle cannot be read
        if any(tool.name == RECALL for tool in prompt.tools):
            named = dict.fromkeys(one for item in items for one in texts.handles(item, records))
            self.behind = tuple(one for one in named if one in records.values)

    def has(self, string: str) -> bool:
        """Whether a text that is sent, and came from where the string did, holds it."""
        # the newest first: what is used was mostly said last
        return any(text.has(string) for text in reversed(self._born))

    def has_line(self, line: str) -> bool:
        """Whether a text that is sent, and came from where the line did, has it as a line."""
        return any(f"\n{line}\n" in f"\n{one.text}\n" for one in reversed(self._born))

    def are_lines_behind(self, lines: Iterable[str], handles: Iterable[str]) -> bool:
        """Whether the values of these handles have all the lines."""
        texts = [f"\n{self.text(one)}\n" for one in handles]
        return all(any(f"\n{line}\n" in text for text in texts) for line in lines)

    def handle_of(self, string: str) -> str | None:
        """The handle of the shortest value that holds the string, or None."""
        return self._records.handle_of(string, self.behind)

    def is_behind(self, string: str, handles: Iterable[str]) -> bool:
        """Whether the value of one of these handles holds the string."""
        return self._records.handle_of(string, handles) is not None

    def text(self, handle: str) -> str:
        """The value of a handle of the log, as text."""
        return self._records.text(handle)

    def source_of(self, string: str, index: int) -> str | None:
        """The handle of the shortest value with the string that came before an event."""
        heard = self._records.heard
        return self._records.handle_of(string, (one for one in heard if heard[one] < index))


_HANDLE = re.compile(r'handle["\s:\\]+([0-9a-f]{12})')

_ADDED = re.compile(
    r"^\[handle [0-9a-f]{12}: [^\n]*\]$|^also: [^\n]*\Z"
    r"|\[(?:as lines|the same|superseded:|left out:)[^\n]*?handle [0-9a-f]{12}\]"
    r"|\[last \d+ lines as [^\n]*? above\]"
    r'|"left_out":"[^"]*",?| \(\+[\d,]+ (?:alike|characters)\)'
    r"|\u2026\s?(?:lines )?[\d,]+(?:-\d+)?(?: (?:lines|characters|more(?: rows?| paths)?))?",
    re.MULTILINE,
)
"""What stands in a text that is sent and was not in it: its head, bare names, references, marks."""

_LINES = re.compile(
    r"\[as lines (\d+)-(\d+) of [^\n]*?, (?:(\d+) results|the result) above,"
    r" handle ([0-9a-f]{12})\]"
)

_END = re.compile(r"\[last (\d+) lines as (?:(\d+) results|in the result) above\]")

_LEFT = re.compile(r"\[left out: (?:lines (\d+)-(\d+) of )?handle ([0-9a-f]{12})\]")

_SAME = re.compile(
    r"\[the same (?:as [^\n]*?, (?:(?:(\d+) results|the result) )?above|result stands further down)"
    r", handle ([0-9a-f]{12})\]"
)

_DROPPED = "[dropped: "


def _folded_steps(item: Item) -> list[int]:
    """The steps that a note names, by their places in the log."""
    if item.kind != "summary" or not item.blocks or item.blocks[0].origin != FOLDED:
        return []
    text = _sent_text(item.blocks[0])
    return [int(one) for one in re.findall(r"^#(\d+) ", text, re.MULTILINE)]


class Texts:
    """What items say, each worked out once."""

    def __init__(self) -> None:
        self._born: dict[int, tuple[Item, tuple[SearchedText, ...]]] = {}
        self._handles: dict[int, tuple[Item, tuple[str, ...]]] = {}

    def born(self, item: Item, agent: str, records: KeptEvidence) -> tuple[SearchedText, ...]:
        """What of an item came with it: without what was put in, and without the task."""
        cached = self._born.get(id(item))
        # an id may be used again by another item
        if cached is None or cached[0] is not item:
            task = item.kind == "user" and item.position < records.task
            own = item.author == agent
            texts = [
                SearchedText(_ADDED.sub("", _sent_text(block)))
                for block in item.blocks
                if isinstance(block, ResultBlock)
                or (isinstance(block, TextBlock) and not task and not own)
            ]
            cached = self._born[id(item)] = (item, tuple(texts))
        return cached[1]

    def handles(self, item: Item, records: KeptEvidence) -> tuple[str, ...]:
        """The handles that stand in an item, those of folded steps with them."""
        cached = self._handles.get(id(item))
        if cached is None or cached[0] is not item:
            texts = [
                block.text if isinstance(block, TextBlock) else compact(block.response)
                for block in item.blocks
                if isinstance(block, ResultBlock | TextBlock)
            ]
            named = [one for text in texts for one in _HANDLE.findall(text)]
            named += [one for step in _folded_steps(item) for one in records.steps.get(step, ())]
            cached = self._handles[id(item)] = (item, tuple(named))
        return cached[1]


class _AnswerReader:
    """Somebody who has a request and `recall`, and nothing else."""

    def __init__(self, prompt: Prompt, records: KeptEvidence) -> None:
        self._records = records
        self.recalls = any(tool.name == RECALL for tool in prompt.tools)
        self._results: list[ResultBlock] = []
        self._blocks: list[ResultBlock | TextBlock] = []
        for item in prompt.items:
            own = item.author == prompt.agent and item.kind == "exchange"
            for block in item.blocks:
                if own and isinstance(block, ResultBlock):
                    self._results.append(block)
                if isinstance(block, ResultBlock | TextBlock):
                    self._blocks.append(block)

    def is_whole(self, block: ResultBlock | TextBlock, whole: Json) -> bool:
        """Whether a reader of the block gets the whole value."""
        text = _sent_text(block)
        lines = [self._lines(line, block) for line in text.split("\n")]
        if any(one is None for one in lines):
            return False  # it refers to what is not there
        own = handle_of(whole)
        if self.recalls and own in _HANDLE.findall(_spelled_all(block)):
            return True
        joined = "\n".join(one for one in lines if one is not None)
        return _same(joined, spell_value(whole))

    def _lines(self, line: str, block: ResultBlock | TextBlock) -> str | None:
        """What a line stands for: itself, or lines it refers to; None if those are not there."""
        if (match := _LINES.fullmatch(line)) is not None:
            lines = self._behind(match[4], int(match[1]), int(match[2]))
            source = self._above(block, int(match[3] or 1))
            if lines is None or source is None:
                return None
            return lines if f"\n{lines}\n" in f"\n{_sent_text(source)}\n" else None
        if (match := _END.fullmatch(line)) is not None:
            return self._end_of(self._above(block, int(match[2] or 1)), int(match[1]))
        if (match := _LEFT.fullmatch(line)) is not None:
            if not self.recalls:
                return None
            return self._behind(match[3], int(match[1] or 1), int(match[2] or 0))
        if (match := _SAME.fullmatch(line)) is not None:
            return self._same_as(match, block)
        return line

    def _end_of(self, source: ResultBlock | None, size: int) -> str | None:
        """The last lines of a result, unchanged."""
        if source is None:
            return None
        whole = self._records.places.get((source.origin.name, source.origin.part))
        lines = "\n".join(spell_value(whole).split("\n")[-size:])
        return lines if f"\n{lines}\n" in f"\n{_sent_text(source)}\n" else None

    def _same_as(self, match: re.Match[str], block: ResultBlock | TextBlock) -> str | None:
        """The text of another value that is there, at the place that the words say."""
        if match[1] and isinstance(block, ResultBlock):
            source = self._above(block, int(match[1]))
            others: list[ResultBlock | TextBlock] = [source] if source is not None else []
        else:
            others = [one for one in self._blocks if one is not block]
        places = ((one.origin.name, one.origin.part) for one in others)
        there = any(handle_of(self._records.places.get(one)) == match[2] for one in places)
        return self._behind(match[2], 1, 0) if there else None

    def _behind(self, handle: str, first: int, last: int) -> str | None:
        if handle not in self._records.values:
            return None
        lines = self._records.text(handle).split("\n")
        return "\n".join(lines[first - 1 : last or len(lines)])

    def _above(self, block: ResultBlock | TextBlock, back: int) -> ResultBlock | None:
        at = next((at for at, one in enumerate(self._results) if one is block), -1)
        return self._results[at - back] if at >= back else None


def _same(one: str, other: str) -> bool:
    """Whether two texts say the same: JSON does without its blanks, and as tables."""
    if one == other:
        return True
    try:
        read, wanted = msgspec.json.decode(one), msgspec.json.decode(other)
        return bool(read == wanted or undo_tables(read) == wanted)
    except (ValueError, RecursionError):
        return False


def _sent_text(block: Block) -> str:
    """What is sent of a block, as text."""
    if isinstance(block, ResultBlock):
        return spell_value(block.response)
    return block.text if isinstance(block, TextBlock) else ""


def _spelled_all(block: ResultBlock | TextBlock) -> str:
    return block.text if isinstance(block, TextBlock) else compact(block.response)
