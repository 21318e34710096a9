"""A server that shows what arrives, and what its page has of it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.server.live import Live, serving
from weft import C
from weft.server.access import Tokens
from weft.server.proxy import PolicyRule, ProxyApplication, ProxySettings
from weft.server.proxy_records import CallLog
from weft.server.proxy_store import ProxyStore


@contextmanager
def listen(tokens: Tokens | None = None) -> Iterator[Live]:
    """A server that shows what arrives."""
    settings = ProxySettings((PolicyRule(C.default()),))
    with serving(ProxyApplication(settings, CallLog(ProxyStore()), tokens=tokens)) as live:
        yield live


def get(live: Live, what: str, **query: object) -> Any:
    """What the page asks for."""
    params = {name: str(value) for name, value in query.items()}
    with live.client(verify=False) as client:
        answer = client.get(f"/weft/inspect/api/{what}", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def talks_on_page(live: Live) -> list[list[tuple[list[str], str]]]:
    """For each session and call the texts of the request, and the answer with its results."""
    talks: list[list[tuple[list[str], str]]] = []
    for row in get(live, "sessions"):
        key, calls = row["key"], []
        for frame in get(live, "film", session=key)["frames"]:
            body = json.loads(get(live, "request", session=key, step=frame["number"])["text"])
            answer = get(live, "answer", session=key, step=frame["number"])
            said = [_text_of(one["content"]) for one in body["messages"] if one.get("content")]
            words = [str(one.get("name") or one["text"]) for one in answer["parts"]]
            results = [one["text"] for one in answer["results"].values()]
            calls.append((said, " ".join([*words, *results])))
        talks.append(calls)
    return talks


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return " ".join(str(one.get("text", one)) for one in content)
