"""The inspector as one HTML file that needs nothing beside itself."""

import base64
import json
from importlib.resources import files

from weft.inspector import questions
from weft.inspector.inspection import Inspection
from weft.inspector.request import RequestView
from weft.values import Json

PAGE = files("weft.inspector") / "page"
"""The page's own files; they are served as they are."""

LARGEST = 24_000_000
"""Characters of requests that one file carries; the newest are kept where there are more."""


def export(inspection: Inspection, *, key: str) -> str:
    """The whole session as a page: film, requests, caches, checks. It asks no server."""
    data: dict[str, Json] = {}
    quoted = _query(session=key)
    film = inspection.film()
    data[f"film?{quoted}"] = film
    data[f"ghosts?{quoted}"] = inspection.ghosts()
    data[f"dead-weight?{quoted}"] = questions.dead_weight(inspection)
    data[f"trust?{quoted}"] = questions.trust(inspection)
    data[f"picture?{quoted}"] = questions.picture(inspection)
    size, omitted = 0, 0
    for step in reversed(inspection.steps):
        if step.request is None:
            continue
        if size > LARGEST:
            omitted += 1
            continue
        view = RequestView(inspection, step.number)
        drawn = view.to_json()
        size += len(json.dumps(drawn))
        where = _query(session=key, step=str(step.number))
        data[f"request?{where}"] = drawn
        data[f"cache?{where}"] = view.cache()
    if omitted:
        film["notice"] = f"This file holds the newest requests; the first {omitted} were left out."
    return _inlined(data, key)


def _query(**params: str) -> str:
    """Parameters as a browser writes them."""
    from urllib.parse import urlencode

    return urlencode(params)


def _inlined(data: dict[str, Json], key: str) -> str:
    """The page with its files and the data inside."""
    html = (PAGE / "index.html").read_text("utf-8")
    style = (PAGE / "inspector.css").read_text("utf-8")
    library = base64.b64encode((PAGE / "vendor" / "htm-preact.js").read_bytes()).decode()
    script = (PAGE / "inspector.js").read_text("utf-8")
    script = script.replace('"./vendor/htm-preact.js"', f'"data:text/javascript;base64,{library}"')
    # "<" never stands in the data, so that no text can end the script around it.
    written = json.dumps(data).replace("<", "\\u003c")
    start = f"<script>window.WEFT_DATA = {written}; location.hash ||= {_hash(key)};</script>"
    html = html.replace('<link rel="stylesheet" href="inspector.css">', f"<style>\n{style}</style>")
    html = html.replace("<!-- data -->", start)
    return html.replace(
        '<script type="module" src="inspector.js"></script>',
        f'<script type="module">\n{script}</script>',
    )


def _hash(key: str) -> str:
    from urllib.parse import quote

    return json.dumps(quote(key, safe="")).replace("<", "\\u003c")
