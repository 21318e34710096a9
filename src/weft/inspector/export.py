"""The inspector as one HTML file that needs nothing beside itself."""

import base64
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from zlib import crc32

import msgspec

from weft.inspector import questions
from weft.inspector.inspection import Inspection
from weft.inspector.request import RequestView
from weft.values import Json, JsonObject

PAGE = files("weft.inspector") / "page"
"""The page's own files; they are served as they are."""

STYLE = "inspector.css"
LIBRARY = "vendor/htm-preact.js"
SCRIPTS = ("common.js", "film.js", "request.js", "views.js", "talk.js", "inspector.js")
"""Each uses only those before it, so that in one file they stand one behind the other."""

LARGEST = 24_000_000
"""Characters of requests that one file carries; the newest are kept where there are more."""

_LISTS = (
    "text", "rows", "segments", "pointers", "origins", "passes", "left_out", "chains", "ages",
)  # fmt: skip
"""The long lists of an answer. Those of two requests of a session have nearly all in common."""


def export(inspection: Inspection, *, key: str, largest: int = LARGEST) -> str:
    """The whole session as a page: film, requests, caches, checks. It asks no server."""
    data: dict[str, str] = {}
    quoted = _query(session=key)
    film = inspection.film()
    data[f"ghosts?{quoted}"] = _encoded(inspection.ghosts())
    data[f"dead-weight?{quoted}"] = _encoded(questions.dead_weight(inspection))
    data[f"trust?{quoted}"] = _encoded(questions.trust(inspection))
    data[f"picture?{quoted}"] = _encoded(questions.picture(inspection))
    pieces = _Pieces()
    size, omitted = 0, 0
    for step in reversed(inspection.steps):
        if step.request is None:
            continue
        if size + pieces.size > largest:
            omitted += 1
            continue
        view = RequestView(inspection, step.number)
        where = _query(session=key, step=str(step.number))
        request = _encoded(pieces.of_request(view))
        cache = _encoded(pieces.packed(view.cache()))
        data[f"request?{where}"], data[f"cache?{where}"] = request, cache
        size += len(request) + len(cache)
    if omitted:
        film["notice"] = (
            f"This file holds the newest requests: with the first {omitted} it would have more than"
            f" {largest // 1_000_000} MB. Open the session with `weft inspect` to see them."
        )
    data[f"film?{quoted}"] = _encoded(film)
    return _inlined(data, pieces, key)


class _Pieces:
    """What requests have in common, each piece once: they have its number.

    A list is cut where an item's own letters say so, so that the pieces of a list that has grown,
    or lost its beginning, are those that are there already.
    """

    def __init__(self) -> None:
        self._texts: dict[str, int] = {}
        self._parts: dict[str, int] = {}
        self.size = 0

    def of_request(self, view: RequestView) -> JsonObject:
        """A request with numbers in the place of its parts; the page puts them back."""
        drawn = view.to_json()
        rows = drawn["rows"]
        assert isinstance(rows, list)
        for row in rows:
            assert isinstance(row, dict)
            row["text"] = self._text(str(row["text"]))
        text: list[Json] = [self._text(piece) for piece in view.pieces()]
        return self.packed({**drawn, "text": text})

    def packed(self, answer: JsonObject) -> JsonObject:
        """An answer with its long lists in pieces, and a name that says which they are."""
        packed = {**answer}
        lists = [name for name in _LISTS if answer.get(name)]
        for name in lists:
            value = answer[name]
            items: Json = [[*pair] for pair in value.items()] if isinstance(value, dict) else value
            assert isinstance(items, list)
            if name in ("segments", "ages"):
                items = _with_lengths(items)
            packed[name] = self._list(items)
        return {**packed, "packed": list[Json](lists)}

    def encoded(self) -> tuple[str, str]:
        """All texts and all parts of lists, in the order of their numbers."""
        return _encoded([*self._texts]), f"[{','.join(self._parts)}]"

    def _text(self, text: str) -> int:
        number = self._texts.get(text)
        if number is None:
            number = self._texts[text] = len(self._texts)
            self.size += len(text)
        return number

    def _list(self, items: Sequence[Json]) -> list[Json]:
        numbers: list[Json] = []
        start = 0
        for index, item in enumerate(items, 1):
            if index == len(items) or _ends_piece(item) or index - start >= 8 * _PART:
                part = _encoded(items[start:index])
                number = self._parts.get(part)
                if number is None:
                    number = self._parts[part] = len(self._parts)
                    self.size += len(part)
                numbers.append(number)
                start = index
        return numbers


_PART = 12
"""How many items of a list are one piece, on average."""


def _ends_piece(item: Json) -> bool:
    """Whether a list is cut behind an item: it depends on nothing else."""
    if isinstance(item, list) and item:
        item = item[0]
    elif isinstance(item, dict):
        item = item.get("text", item.get("name"))
    mark = item if isinstance(item, int) else crc32(str(item).encode(errors="replace"))
    return mark * 2_654_435_761 % 4_294_967_296 < 4_294_967_296 // _PART


def _with_lengths(items: Sequence[Json]) -> list[Json]:
    """Stretches of a text with their lengths in the place of their ends, which all change."""
    lengths: list[Json] = []
    start = 0
    for item in items:
        assert isinstance(item, list)
        end = item[0]
        assert isinstance(end, int)
        lengths.append([end - start, *item[1:]])
        start = end
    return lengths


def _encoded(value: object) -> str:
    """JSON for a script: `<` never stands in it, so that no text can end the script around it."""
    try:
        text = msgspec.json.encode(value).decode()
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can write
        text = json.dumps(value)
    return text.replace("<", "\\u003c")


def _query(**params: str) -> str:
    """Parameters as a browser writes them."""
    from urllib.parse import urlencode

    return urlencode(params)


def _inlined(data: dict[str, str], pieces: _Pieces, key: str) -> str:
    """The page with its files and the data inside."""
    html = (PAGE / "index.html").read_text("utf-8")
    style = (PAGE / STYLE).read_text("utf-8")
    script = _one_script()
    entries = ",".join(f"{_encoded(name)}:{value}" for name, value in data.items())
    texts, parts = pieces.encoded()
    start = (
        f"<script>window.WEFT_DATA = {{{entries}}}; window.WEFT_TEXTS = {texts};"
        f" window.WEFT_PARTS = {parts};"
        f" location.hash ||= {_hash(key)};</script>"
    )
    html = html.replace('<link rel="stylesheet" href="inspector.css">', f"<style>\n{style}</style>")
    html = html.replace("<!-- data -->", start)
    return html.replace(
        '<script type="module" src="inspector.js"></script>',
        f'<script type="module">\n{script}</script>',
    )


def _one_script() -> str:
    """The page's modules as one: what they import of each other stands above."""
    library = base64.b64encode((PAGE / LIBRARY).read_bytes()).decode()
    names: set[str] = set()
    parts: list[str] = []
    for name in SCRIPTS:
        text = (PAGE / name).read_text("utf-8")
        for listed, source in _IMPORT.findall(text):
            if source == f"./{LIBRARY}":
                names |= {word.strip() for word in listed.split(",") if word.strip()}
        parts.append(
            re.sub(r"^export (?=const|function|async)", "", _IMPORT.sub("", text), flags=re.M)
        )
    head = f'import {{ {", ".join(sorted(names))} }} from "data:text/javascript;base64,{library}";'
    return "\n".join((head, *parts))


_IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";\n', re.M)


def _hash(key: str) -> str:
    from urllib.parse import quote

    return json.dumps(quote(key, safe="")).replace("<", "\\u003c")
