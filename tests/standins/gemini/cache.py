"""What a stand-in server remembers: beginnings it has read, and contents kept by name."""

import datetime
import hashlib
import re
import secrets
from typing import TYPE_CHECKING, NamedTuple, cast

from tests.standins.gemini.errors import Refused, refused_field
from tests.standins.gemini.models import GeminiModel
from weft.dialects import count_request
from weft.dialects.gemini import CACHED
from weft.values import Json, JsonObject, canonical

if TYPE_CHECKING:
    from tests.standins.gemini.shapes import CacheChange, CacheRequest

_HOUR = datetime.timedelta(hours=1)
_SECONDS = re.compile(r"(\d+(?:\.\d{1,9})?)s")


class ReadBefore:
    """The beginnings of all requests so far, part by part, for each model."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def shared(self, body: JsonObject, model: GeminiModel) -> int:
        """The tokens of the longest beginning that an earlier request had; 0 below the minimum.

        The request is remembered, too.
        """
        link = canonical([model.name, *(body.get(key) for key in CACHED)])
        longest: tuple[int, int] | None = None
        for turn, content in enumerate(_contents(body)):
            for number, part in enumerate(_listed(content.get("parts"))):
                link = hashlib.sha256(link + canonical([turn, content.get("role"), part])).digest()
                if link in self._seen:
                    longest = turn, number
                self._seen.add(link)
        if longest is None:
            return 0
        turn, number = longest
        contents = _contents(body)[: turn + 1]
        last: JsonObject = {
            **contents[-1],
            "parts": _listed(contents[-1].get("parts"))[: number + 1],
        }
        beginning: JsonObject = {**body, "contents": [*contents[:-1], last]}
        tokens = count_request(beginning, dialect="gemini", model=model.name)
        return tokens if tokens >= model.minimum else 0


class Kept(NamedTuple):
    """A cached content: the beginning that requests may name instead of sending it."""

    name: str
    model: str
    display_name: str
    beginning: JsonObject
    tokens: int
    made: datetime.datetime
    changed: datetime.datetime
    expires: datetime.datetime

    def body(self) -> JsonObject:
        """What the server says of it."""
        return {
            "name": self.name,
            "model": self.model,
            "createTime": _time(self.made),
            "updateTime": _time(self.changed),
            "expireTime": _time(self.expires),
            "displayName": self.display_name,
            "usageMetadata": {"totalTokenCount": self.tokens},
        }


class KeptContents:
    """All cached contents of a server that have not expired."""

    def __init__(self) -> None:
        self._kept: dict[str, Kept] = {}

    def make(self, body: JsonObject, request: "CacheRequest", model: GeminiModel) -> Kept:
        """Keep a beginning, if it is large enough."""
        beginning = {key: body[key] for key in ("contents", *CACHED) if key in body}
        tokens = count_request(beginning, dialect="gemini", model=model.name)
        if tokens < model.minimum:
            raise Refused(
                f"Cached content is too small. total_token_count={tokens},"
                f" min_total_token_count={model.minimum}"
            )
        now = _now()
        kept = Kept(
            name=f"cachedContents/{secrets.token_hex(10)}",
            model=f"models/{model.name}",
            display_name=request.display_name or "",
            beginning=beginning,
            tokens=tokens,
            made=now,
            changed=now,
            expires=_expires(request.ttl, request.expire_time) or now + _HOUR,
        )
        self._kept[kept.name] = kept
        return kept

    def named(self, name: str) -> Kept:
        """The cached content of that name, if it lives."""
        kept = self._kept.get(name)
        if kept is None or kept.expires <= _now():
            self._kept.pop(name, None)
            raise Refused(f"CachedContent not found (or permission denied): {name}", status=403)
        return kept

    def change(self, name: str, request: "CacheChange") -> Kept:
        """Let it live until another time."""
        kept = self.named(name)
        expires = _expires(request.ttl, request.expire_time)
        if expires is None:
            raise refused_field("expiration", "One of ttl and expire_time must be set.")
        self._kept[name] = kept = kept._replace(expires=expires, changed=_now())
        return kept

    def drop(self, name: str) -> None:
        """Forget it."""
        del self._kept[self.named(name).name]

    def all(self) -> list[Kept]:
        """Those that live."""
        now = _now()
        return [kept for kept in self._kept.values() if kept.expires > now]


def after(kept: Kept, body: JsonObject) -> JsonObject:
    """The request as it reads with its cached beginning in place."""
    held = _contents(kept.beginning)
    return {**kept.beginning, **body, "contents": [*held, *_contents(body)]}


def _contents(body: JsonObject) -> list[JsonObject]:
    return cast("list[JsonObject]", _listed(body.get("contents")))


def _listed(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _time(moment: datetime.datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _expires(ttl: str | None, expire_time: str | None) -> datetime.datetime | None:
    if ttl is not None:
        matched = _SECONDS.fullmatch(ttl)
        if matched is None:
            message = (
                f"Invalid value at 'ttl' (Duration), Field 'ttl', Illegal duration format: {ttl}"
            )
            raise refused_field("ttl", message)
        return _now() + datetime.timedelta(seconds=float(matched[1]))
    if expire_time is None:
        return None
    try:
        return datetime.datetime.fromisoformat(expire_time)
    except ValueError:
        message = f"Invalid value at 'expire_time' (Timestamp), \"{expire_time}\""
        raise refused_field("expire_time", message) from None
