"""Memory over the store: what a user said and was told, in any session, found by its words."""

import re
from collections import Counter

from weft.content import Content
from weft.runtime.rewind import visible_events
from weft.session import Event, Store

_WORD = re.compile(r"\w+")


class SessionMemory:
    """Search the stored sessions of a user; the texts that share most words with the query."""

    def __init__(self, store: Store, *, most: int = 10) -> None:
        self._store = store
        self._most = most

    async def search(self, app_name: str, user_id: str, query: str) -> list[Content]:
        """What was said that may answer the query, the best first."""
        wanted = set(_words(query))
        found: list[tuple[int, float, Content]] = []
        for info in await self._store.sessions(app_name, user_id):
            session = await self._store.get(info.key)
            for event in visible_events(session) if session is not None else ():
                if event.content is None or not event.text or not _was_said(event):
                    continue
                shared = sum((Counter(_words(event.text)) & Counter(wanted)).values())
                if shared:
                    found.append((shared, event.timestamp, event.content))
        found.sort(key=lambda one: (-one[0], -one[1]))
        return [content for _, _, content in found[: self._most]]


def _was_said(event: Event) -> bool:
    """Whether it was said to the user or by them: no draft, nothing an agent told a tool."""
    return event.audience != "internal" and not event.isolation_scope and not event.error_code


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]
