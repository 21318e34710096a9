"""What a request's token count depends on, whichever dialect it is written in.

Readers take any request of their dialect, also one that Weft did not make: what has an odd
shape is read as the JSON it is, and nothing raises.
"""

import functools
import json
import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from weft.values import Json, JsonObject, compact

Kind = Literal["text", "document", "thought", "call", "result", "media", "tool", "other"]


class Part(NamedTuple):
    """One thing with a size of its own, and where in its turn it stands.

    `text` is what to count; of media it is the base64 data, empty where only an address is
    sent; of a tool that is declared in mid-conversation it is the declaration as JSON. `name` is
    a call's name or a media type, `sealed` the length of a signature or of encrypted content.
    `uncounted` names what the provider adds here that nobody else can count. Several parts may
    stand at one place: a call and its signature, a result and its media.
    """

    pointer: str
    kind: Kind
    text: str
    name: str = ""
    sealed: int = 0
    uncounted: str = ""


class Turn(NamedTuple):
    """One element of the request's turns.

    `asks` says whether the user speaks in it, rather than a tool, `counts` whether the provider
    makes a turn of it.
    """

    role: str
    parts: list[Part]
    asks: bool = False
    counts: bool = True


class Declared(NamedTuple):
    """A tool as the request declares it."""

    name: str
    description: str
    schema: JsonObject | None


class Head(NamedTuple):
    """Everything but the turns.

    `others` are the provider's own tools, as JSON, `own` the tokens of those whose size is known.
    `stateful` says that the request continues something only the provider holds, so that its
    bytes do not tell its size; `uncounted` names what else the provider adds that they do not
    tell.
    """

    system: tuple[str, ...] = ()
    tools: tuple[Declared, ...] = ()
    others: tuple[str, ...] = ()
    schema: Json = None
    forced: bool = False
    thinking: bool = False
    stateful: bool = False
    own: int = 0
    uncounted: tuple[str, ...] = ()


class Reader(NamedTuple):
    """How a dialect's requests are read, and what is a turn in them.

    `merges`: neighbours of one role are one turn; `system_counts`: the system text is a turn.
    """

    turns: str
    head: Callable[[JsonObject], Head]
    turn: Callable[[Json], Turn]
    merges: bool = False
    system_counts: bool = False


SEALED = frozenset(
    ("encrypted_content", "encrypted_index", "encrypted_stdout", "signature", "data",
     "thoughtSignature", "thought_signature")
)  # fmt: skip
"""Fields that only the provider can read: their letters are not what is counted."""

OWN_TOOLS = "what the provider's own tools add"
LATER = "tools that are loaded later"
SERVED = "what the provider's tools gave"
HELD = "what the provider holds of the conversation"


def readable(value: Json) -> Json:
    """A value without what only the provider can read."""
    if isinstance(value, dict):
        return {key: readable(held) for key, held in value.items() if key not in SEALED}
    return [readable(each) for each in value] if isinstance(value, list) else value


def said(value: object) -> str:
    """A value as the compact JSON it is sent as, or as near to that as it can be written."""
    try:
        return compact(value)
    except RecursionError:
        return ""
    except (TypeError, ValueError):
        return json.dumps(value, ensure_ascii=False, default=str, skipkeys=True)


def text_of(value: Json) -> str:
    """A string as it is, nothing as no text, anything else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else said(value)


def object_of(value: Json) -> JsonObject:
    """The object, or an empty one."""
    return value if isinstance(value, dict) else {}


def list_of(value: Json) -> list[Json]:
    """The list; a single value is a list of one."""
    if isinstance(value, list):
        return value
    return [] if value is None else [value]


def field(value: JsonObject, name: str) -> Json:
    """A field under its camelCase name, or under the snake_case one recordings may have."""
    return value[name] if name in value else value.get(_snake(name))


def arguments(value: Json) -> str:
    """A call's arguments as compact JSON, parsed first where they are sent as text."""
    if not isinstance(value, str):
        return said({} if value is None else value)
    try:
        return said(json.loads(value or "{}"))
    except (ValueError, RecursionError):
        return value


def data_url(pointer: str, url: str, fallback: str) -> Part:
    """Media in a data URL, or at an address that is not read."""
    if not url.startswith("data:"):
        return Part(pointer, "media", "", fallback)
    head, _, data = url.removeprefix("data:").partition(",")
    return Part(pointer, "media", data, head.partition(";")[0] or fallback)


@functools.cache
def _snake(name: str) -> str:
    return re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name)
