"""The inspector as one HTML file that needs nothing beside itself."""

import base64
import json
import re
from importlib.resources import files

import msgspec

from weft.inspector import questions
from weft.inspector.inspection import Inspection
from weft.inspector.request import RequestView
from weft.values import JsonObject

PAGE = files("weft.inspector") / "page"
"""The page's own files; they are served as they are."""

STYLE = "inspector.css"
LIBRARY = "vendor/htm-preact.js"
SCRIPTS = ("common.js", "film.js", "request.js", "views.js", "talk.js", "inspector.js")
"""Each uses only those before it, so that in one file they stand one behind the other."""

LARGEST = 24_000_000
"""Characters of requests that one file carries; the newest are kept where there are more."""


def export(inspection: Inspection, *, key: str) -> str:
    """The whole session as a page: film, requests, caches, checks. It asks no server."""
    data: dict[str, str] = {}
    quoted = _query(session=key)
    film = inspection.film()
    data[f"ghosts?{quoted}"] = _encoded(inspection.ghosts())
    data[f"dead-weight?{quoted}"] = _encoded(questions.dead_weight(inspection))
    data[f"trust?{quoted}"] = _encoded(questions.trust(inspection))
    data[f"picture?{quoted}"] = _encoded(questions.picture(inspection))
    texts = _Texts()
    size, omitted = 0, 0
    for step in reversed(inspection.steps):
        if step.request is None:
            continue
        if size + texts.size > LARGEST:
            omitted += 1
            continue
        view = RequestView(inspection, step.number)
        where = _query(session=key, step=str(step.number))
        request = _encoded(texts.shared(view))
        data[f"request?{where}"] = request
        data[f"cache?{where}"] = _encoded(view.cache())
        size += len(request)
    if omitted:
        film["notice"] = f"This file holds the newest requests; the first {omitted} were left out."
    data[f"film?{quoted}"] = _encoded(film)
    return _inlined(data, texts, key)


class _Texts:
    """Texts of requests, each once: a turn stands in every request that comes after it."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.size = 0

    def number(self, text: str) -> int:
        """The number of a text."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self._numbers)
            self.size += len(text)
        return number

    def shared(self, view: RequestView) -> JsonObject:
        """A request with numbers in the place of its texts; the page puts them back."""
        drawn = view.to_json()
        rows = drawn["rows"]
        assert isinstance(rows, list)
        for row in rows:
            assert isinstance(row, dict)
            row["text"] = self.number(str(row["text"]))
        return {**drawn, "text": [self.number(piece) for piece in view.pieces()]}

    def encoded(self) -> str:
        """All of them, in the order of their numbers."""
        return _encoded([*self._numbers])


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


def _inlined(data: dict[str, str], texts: _Texts, key: str) -> str:
    """The page with its files and the data inside."""
    html = (PAGE / "index.html").read_text("utf-8")
    style = (PAGE / STYLE).read_text("utf-8")
    script = _one_script()
    entries = ",".join(f"{_encoded(name)}:{value}" for name, value in data.items())
    start = (
        f"<script>window.WEFT_DATA = {{{entries}}}; window.WEFT_TEXTS = {texts.encoded()};"
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
