"""Facts about models by name: the dialect they speak, what they can do, how they reuse a prefix.

A table a topic, read top down: the first pattern that matches wins. What is not in them gets
safe defaults and is marked unknown. Prices, and the windows of models that are not in here, are
in the list of prices (`price_list.py`), which is loaded when somebody asks.

Below them: which names there can be. A name that nobody can be asked by is refused alike by
compiling, replaying and running. Other names are told by their words first. Only one with a word
that no vendor's model has is looked up in the list of prices.

At the end, the dialects themselves by name.
"""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from weft.errors import UsageError
from weft.misuse import find_near

if TYPE_CHECKING:
    from weft.dialects.base import Dialect
    from weft.dialects.price_list import PriceList

SECONDS = {"5m": 300, "30m": 1_800, "1h": 3_600, "12h": 43_200}
"""How long a provider keeps something, by the name of the lifetime."""


class Cache(NamedTuple):
    """How a provider reuses what it has read: from how many tokens on, how long, at what price.

    Prices are shares of what a fresh input token costs. With `breakpoints` the request says what
    to keep, at most that often; without marks, the provider keeps what it likes.
    """

    minimum: int = 0
    """A prefix of fewer tokens is never kept."""
    breakpoints: int = 0
    lookback: int = 0
    """How many blocks before a breakpoint an older entry is looked for; 0 for any number."""
    ttls: tuple[str, ...] = ()
    """How long it can be asked to keep something, the default first."""
    stride: int = 1
    """Reused tokens come in multiples of this."""
    exact: bool = False
    """Whether nothing but the two requests decides how much is reused."""
    keyed: bool = False
    """Whether requests can name the prefix they share, so that they meet on one machine."""
    write: float = 1.0
    write_long: float = 1.0
    read: float = 1.0


_GEMINI, _CLAUDE, _GPT = "gemini", "anthropic", "openai-responses"
CHAT = "openai-chat"
"""The dialect whose messages everybody writes, with and without the rest of a request."""


class Facts(NamedTuple):
    """What lowering must know of a model, and what its user may want to."""

    dialect: str
    native_schema: bool = True
    schema_with_tools: bool = True
    tools: bool = True
    sampling: bool = True
    """Whether it takes a temperature and its kin, and a budget for thinking."""
    known: bool = True
    parallel_calls: bool = True
    forced_choice: bool = True
    """Whether it can be made to call a tool."""
    picks_tools: bool = True
    """Whether it can choose among tools itself; for one that cannot, a pass does."""
    late_system: bool = False
    """Whether a system text may come after the conversation, not only before it."""
    thinks: bool = True
    """Whether it thinks before it answers; true also where that is not known."""
    rests: str = "disabled"
    """What kind of thinking it is told where it is not to think; empty if it always does."""
    efforts: tuple[str, ...] | None = None
    """How hard it can be told to think; empty if that cannot be told, None if it is not known."""
    media: tuple[str, ...] | None = None
    """What it takes in addition to text; None where that is not known."""
    window: int = 0
    """How many tokens a request with its answer may have; 0 where this table does not say."""
    output_limit: int = 0
    cache: Cache = Cache()
    binds: bool = False
    """Whether it refuses a thought of its own if something before it has changed."""
    least_thought: int = 0
    """The fewest tokens of thinking that it can be told; 0 if it can be told not to think."""

    @property
    def is_told_by_effort(self) -> bool:
        """Whether how hard to try is all that it can be told about thinking."""
        return self.dialect in (CHAT, _GPT)

    @property
    def has_word_for_rest(self) -> bool:
        """Whether not to think has a word of its own, and is not an effort of none."""
        return self.dialect == _CLAUDE and bool(self.rests)

    @property
    def takes_either(self) -> bool:
        """Whether it takes an effort or a number of tokens, but not both at once."""
        return self.dialect == _GEMINI

    @property
    def takes_budget(self) -> bool:
        """Whether it can be told how many tokens to think."""
        return self.sampling and not self.is_told_by_effort


YARDSTICK = "openai-chat/gpt-5"
"""The model whose tokens are counted where policies are compared and no model is named."""

_MODELS: tuple[tuple[str, Facts], ...] = (
    (r"gemini-(1|2)(\.|-|$)", Facts(_GEMINI, schema_with_tools=False)),
    (r"gemini-", Facts(_GEMINI)),
    (r"gemma-?[123](\D|$)", Facts(_GEMINI, native_schema=False, tools=False)),
    (r"gemma", Facts(_GEMINI, native_schema=False)),
    (r"claude-(instant|2|3)", Facts(_CLAUDE, native_schema=False)),
    (r"claude-(opus|sonnet)-4(-0)?(-2025\d+)?$", Facts(_CLAUDE, native_schema=False)),
    (r"claude-[a-z]+-(5-[5-9]|[6-9])(\D|$)", Facts(_CLAUDE, sampling=False, binds=True)),
    (r"claude-[a-z]+-(4-[7-9]|[5-9])(\D|$)", Facts(_CLAUDE, sampling=False)),
    (r"claude-", Facts(_CLAUDE)),
    (r"gpt-(3|4$|4-)", Facts(CHAT, native_schema=False)),
    (r"(gpt-|chatgpt-|o\d|codex-|ft:gpt-)", Facts(_GPT)),
    (r"local(:smollm2-135m)?$", Facts(CHAT, picks_tools=False, parallel_calls=False)),
    (r"local:", Facts(CHAT, schema_with_tools=False, parallel_calls=False)),
    (r"https?://", Facts(CHAT)),
)

_EPHEMERAL = Cache(
    breakpoints=4, lookback=20, ttls=("5m", "1h"), write=1.25, write_long=2.0, read=0.10
)
_AUTOMATIC = Cache(minimum=1_024, stride=128, keyed=True, read=0.10)
_EXPLICIT = Cache(
    minimum=1_024, breakpoints=4, ttls=("30m", "12h"), keyed=True, write=1.25, write_long=1.25,
    read=0.10,
)  # fmt: skip
_IMPLICIT = Cache(minimum=4_096, read=0.10)

_CACHES: tuple[tuple[str, Cache], ...] = (
    (r"claude-(fable|mythos)-5-1", _EPHEMERAL._replace(minimum=512, read=0.025)),
    (r"claude-(opus|sonnet)-5-5", _EPHEMERAL._replace(minimum=4_096, read=0.05)),
    (r"claude-[a-z]+-5-5", _EPHEMERAL._replace(minimum=4_096)),
    (r"claude-(opus|fable|mythos)-5", _EPHEMERAL._replace(minimum=512)),
    (r"claude-sonnet-5", _EPHEMERAL._replace(minimum=1_024)),
    (r"claude-opus-4-7", _EPHEMERAL._replace(minimum=2_048)),
    (r"claude-(opus-4-[56]|haiku-4-5)", _EPHEMERAL._replace(minimum=4_096)),
    (r"claude-(opus|sonnet)-4", _EPHEMERAL._replace(minimum=1_024)),
    (r"claude-3-(5-)?haiku", _EPHEMERAL._replace(minimum=2_048)),
    (r"claude-3", _EPHEMERAL._replace(minimum=1_024)),
    (r"claude-", _EPHEMERAL._replace(minimum=4_096)),
    (r"gpt-6\.1", _EXPLICIT._replace(read=0.05)),
    (r"(gpt-5\.([6-9]|\d\d)|gpt-([6-9]|\d\d))", _EXPLICIT),
    (r"(ft:)?(gpt-4o|chatgpt-4o|o1|o3-mini)", _AUTOMATIC._replace(read=0.5)),
    (r"(ft:)?(gpt-4\.1|o\d|codex-)|chatgpt-image|gpt-5\.4-image", _AUTOMATIC._replace(read=0.25)),
    (r"gpt-5|chatgpt-|ft:gpt-", _AUTOMATIC),
    (r"gemini-2\.5", _IMPLICIT._replace(minimum=2_048)),
    (r"gemini-4-argon", _IMPLICIT._replace(read=0.05)),
    (r"gemini-([3-9]|\d\d|[a-z-]+latest)", _IMPLICIT),
    (r"local(:|$)", Cache(exact=True, read=0.0)),
)

_WINDOWS: tuple[tuple[str, tuple[int, int]], ...] = (
    (r"claude-((opus|sonnet)-4-[6-9]|[a-z]+-[5-9])", (1_000_000, 128_000)),
    (r"claude-opus-4(-0|-1)?(-2025\d+)?$", (200_000, 32_000)),
    (r"claude-(sonnet-4|haiku-4-5|opus-4-5)", (200_000, 64_000)),
    (r"claude-3-(opus|sonnet|haiku)", (200_000, 4_096)),
    (r"claude-3-5", (200_000, 8_192)),
    (r"claude-", (200_000, 0)),
    (r"gpt-4(-0\d+)?$", (8_192, 0)),
    (r"gpt-3\.5", (16_385, 0)),
    (r"gpt-5\.4-(mini|nano)", (400_000, 128_000)),
    (r"gpt-(5\.([4-9]|\d\d)|6)", (1_050_000, 128_000)),
    (r"gemini-2\.0", (1_048_576, 8_192)),
    (r"gemini-1", (0, 8_192)),
    (r"gemini-(2\.5|[3-9]|[a-z-]+latest)", (1_048_576, 65_536)),
)
"""Tokens of a request with its answer, and of the answer; 0 where only the prices know."""

_UNTHINKING = (
    r"claude-(instant|2|3-(opus|sonnet|haiku|5))|gemini-(1|2\.0)|gpt-(3|4|5-chat)|chatgpt-"
)
_RESTS: tuple[tuple[str, str], ...] = (
    (r"claude-(opus-5-5|fable-5|mythos-5-[12])", ""),
    (r"claude-sonnet-5-5", "between_tools"),
)

_NEVER_RESTS = r"gemini-2\.5-pro"
"""Who takes a number of tokens, and no 0."""

_TRIES = ("low", "medium", "high")
_EFFORTS: tuple[tuple[str, tuple[str, ...] | None], ...] = (
    (r"claude-(instant|2|3|(sonnet|haiku)-4-5|(opus|sonnet)-4(-[01])?(-2025\d+)?$)", ()),
    (r"claude-opus-4-5", _TRIES),
    (r"claude-(opus|sonnet)-4-6", (*_TRIES, "max")),
    (r"claude-(opus-4-[78]|(opus|sonnet|fable|mythos)-5)", (*_TRIES, "xhigh", "max")),
    (r"(gpt|o\d|codex).*(codex|pro|chat|research|search|audio|realtime|oss|computer)", None),
    (r"gpt-(3|4)|chatgpt-|o1-(mini|preview)", ()),
    (r"gpt-5\.6", ("none", *_TRIES, "xhigh", "max")),
    (r"gpt-5\.[2-5]", ("none", *_TRIES, "xhigh")),
    (r"gpt-5\.1", ("none", *_TRIES)),
    (r"gpt-5(-|$)", ("minimal", *_TRIES)),
    (r"o\d", _TRIES),
    (r"gemini-(1|2)(\.|-|$)", ()),
    (r"gemini-3(\.\d)?-pro", _TRIES),
    (r"gemini-3", ("minimal", *_TRIES)),
)

_MEDIA: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"gemini-", ("image", "pdf", "audio", "video")),
    (r"claude-", ("image", "pdf")),
    (r"gpt-.*(audio|realtime)", ("image", "pdf", "audio")),
    (r"o1-(mini|preview)|o3-mini|gpt-3|gpt-4(-\d{4}(-preview)?|-32k.*)?$", ()),
    (r"(gpt-(?!oss)|chatgpt-|o\d)", ("image", "pdf")),
)

_LATE = r"claude-opus-(4-[89]|[5-9])|gpt-(?!oss)|chatgpt-|o\d|codex-|ft:(gpt-|o\d)|local(:|$)"
"""Who reads a system text in mid-conversation; others refuse it, or read over it."""

_UNFORCED = r"claude-(opus-5-5|(fable|mythos)-5-[12])"
"""Who cannot be made to call a tool."""

_PROVIDERS: dict[str, str] = {
    "google": _GEMINI,
    "gemini": _GEMINI,
    "vertex": _GEMINI,
    "vertex_ai": _GEMINI,
    "anthropic": _CLAUDE,
    "openai": _GPT,
    "openai-responses": _GPT,
    "openai-chat": CHAT,
    **dict.fromkeys(
        ("azure", "openrouter", "ollama", "vllm", "groq", "together", "fireworks", "mistral",
         "deepseek", "xai", "cerebras", "litellm", "lmstudio", "llamacpp"),
        CHAT,
    ),
}  # fmt: skip

PROVIDERS = tuple(_PROVIDERS)
"""Who may stand before the slash of a model's name."""

_SELLERS = {
    **dict.fromkeys(("gemini", "google", "vertex", "vertex_ai"), "google"),
    **dict.fromkeys(("openai-chat", "openai-responses"), "openai"),
    "xai": "x-ai",
}

_OWN = frozenset(
    ("google", "gemini", "vertex", "vertex_ai", "anthropic", "openai", "openai-responses",
     "openai-chat")
)  # fmt: skip
"""Providers whose models are their own; others only pass on what they are asked."""


@functools.lru_cache(maxsize=1024)
def facts_for(model: str) -> Facts:
    """The facts of a model; a `provider/` prefix decides the dialect."""
    if model.startswith(("http://", "https://")):
        return Facts(CHAT)
    provider, slash, bare = model.rpartition("/")
    if model.startswith("local:"):
        provider, slash, bare = "", "", model  # what follows is a path
    family = next((facts for pattern, facts in _MODELS if _fits(pattern, bare)), None)
    if not slash:
        return _in_full(family, bare) if family is not None else Facts(CHAT, known=False)
    first = provider.split("/")[0]
    dialect = _PROVIDERS.get(first)
    if dialect is None:
        return Facts(CHAT, known=False)
    facts = _in_full(family, bare) if family is not None else Facts(dialect)
    # whoever passes a model on may cache, cut and steer it in other ways than its vendor
    if first not in _OWN:
        facts = facts._replace(
            late_system=False, cache=Cache(), thinks=True, rests="disabled", efforts=None
        )
    return facts._replace(dialect=dialect)


def _in_full(facts: Facts, model: str) -> Facts:
    """The facts with what the other tables say of the model."""
    window, output_limit = _first(_WINDOWS, model, (0, 0))
    return facts._replace(
        forced_choice=not _fits(_UNFORCED, model),
        late_system=_fits(_LATE, model),
        thinks=not _fits(_UNTHINKING, model),
        rests=_first(_RESTS, model, "disabled"),
        efforts=_first(_EFFORTS, model, None),
        media=_first(_MEDIA, model, None),
        window=window,
        output_limit=output_limit,
        cache=_first(_CACHES, model, Cache()),
        least_thought=128 if _fits(_NEVER_RESTS, model) else 0,
    )


_Value = TypeVar("_Value")


def _first(table: tuple[tuple[str, _Value], ...], model: str, otherwise: _Value) -> _Value:
    """The value of the first pattern that fits the model."""
    return next((value for pattern, value in table if _fits(pattern, model)), otherwise)


def _fits(pattern: str, model: str) -> bool:
    """Whether a pattern fits the beginning of a name; few of them need be compiled for that."""
    return model.startswith(beginning_of(pattern)) and re.match(pattern, model) is not None


@functools.cache
def beginning_of(pattern: str) -> str:
    """The letters with which every name begins that the pattern fits."""
    depth = 0
    for letter in pattern:
        depth += (letter == "(") - (letter == ")")
        if letter == "|" and not depth:
            return ""
    letters = ""
    for letter in pattern:
        if not letter.isalnum() and letter not in "-:":
            return letters[:-1] if letter in "?*{" else letters  # these make the last optional
        letters += letter
    return letters


def seller_of(model: str) -> str:
    """Who sells the model's tokens, under the name that price lists have for them."""
    provider, slash, _ = model.partition("/")
    first = provider if slash else facts_for(model).dialect
    return _SELLERS.get(first, first)


def is_own(model: str) -> bool:
    """Whether the model is asked at the vendor's own service, as far as its name tells."""
    provider = model.partition("/")[0]
    passed_on = provider in _PROVIDERS and provider not in _OWN
    return not passed_on and not model.startswith(("http://", "https://"))


def same_model(one: str, other: str) -> bool:
    """Whether two names are one model's, as far as they tell: a date or an alias may differ."""
    return not one or not other or _strip_date(one) == _strip_date(other)


@functools.lru_cache(maxsize=1024)
def _strip_date(model: str) -> str:
    return re.sub(r"([-@](\d{8}|\d{4}-\d\d-\d\d)|-latest)$", "", wire_name(model))


def wire_name(model: str) -> str:
    """The name the provider knows the model by: without `provider/`, or after the `#`."""
    if model.startswith(("http://", "https://")):
        return model.partition("#")[2] or model
    provider, _, bare = model.partition("/")
    return bare if bare and provider in _PROVIDERS else model


# --- which names there can be

FORMS = "gemini-*, claude-*, gpt-*, provider/model, http://host/v1#model, local"

_ELSEWHERE = {
    "google-gla": "gemini",
    "google_genai": "gemini",
    "google-vertex": "vertex",
    "mistralai": "mistral",
    "grok": "xai",
}
"""Providers by the names that other libraries have for them."""

_VENDORS = (
    (r"claude-", "anthropic"),
    (r"gemini-", "google"),
    (r"gpt-|chatgpt-|o\d(-|$)", "openai"),
)

_WORDS = frozenset((
    "argon", "astra", "audio", "chat", "chatgpt", "claude", "codex", "computer", "cyber", "deep",
    "diarize", "embedding", "exp", "fable", "flare", "flash", "gemini", "gpt", "haiku", "image",
    "instant", "instruct", "it", "large", "latest", "lite", "live", "luna", "maas", "max",
    "mini", "mythos", "nano", "native", "omni", "opus", "oss", "preview", "pro", "realtime",
    "research", "robotics", "safeguard", "search", "small", "sol", "sonnet", "terra", "thinking",
    "transcribe", "translate", "tts", "turbo", "use", "vision",
))  # fmt: skip
"""Words in the names of vendors' models; what holds a digit is a version, a size or a date."""

_LISTED_AS = {"gemini": "google", "xai": "x-ai"}
"""Services that the list of prices has under another name."""


def require_model_name(name: str, *, where: str) -> None:
    """Refuse a name that no model can be found by, with what to write instead."""
    provider, slash, bare = name.partition("/")
    if slash and not bare and provider in PROVIDERS:
        raise UsageError(
            f"`{name}` does not say which model it is", where=where, hint=f"write {provider}/MODEL"
        )
    if facts_for(name).known:
        return
    before, colon, after = name.partition(":")
    before = _ELSEWHERE.get(before, before)
    if colon and before in PROVIDERS and not slash:
        raise UsageError(
            f"there is no client for the model `{name}`: a slash follows the provider",
            where=where,
            hint=f"write {before}/{after or 'MODEL'}",
        )
    known = f"the forms are: {FORMS}"
    if slash:
        near = find_near(provider, PROVIDERS, cutoff=0.6)
        also = f"did you mean `{near[0]}/...`? " if near else ""
        raise UsageError(
            f"there is no client for the model `{name}`: nobody knows the provider `{provider}`",
            where=where,
            hint=f"{also}known: {', '.join(_listed_providers())}; {known}",
        )
    names = near_names(("openai", "anthropic", "gemini"), name)
    also = f"did you mean {' or '.join(f'`{each}`' for each in names)}? " if names else ""
    raise UsageError(
        f"there is no client for the model `{name}`",
        where=where,
        hint=f"{also}{known}; or pass a model object",
    )


def _listed_providers() -> list[str]:
    """The providers, the vendors of most models first, without other names for the same."""
    vendors = ["gemini", "anthropic", "openai"]
    others = (name for name in PROVIDERS if facts_for(f"{name}/x").dialect == "openai-chat")
    return [*vendors, *(name for name in others if name != "openai-chat")]


def is_misspelt(name: str) -> bool:
    """Whether the name claims to be a vendor's, and the vendor has no model of that name.

    New versions of known families pass, since they come out all the time.
    """
    vendor = _vendor(name)
    if not vendor:
        return False
    words = re.split(r"[-:@]", name.lower())
    versioned = any(word in ("preview", "latest") or re.search(r"\d", word) for word in words)
    known = all(word in _WORDS or re.search(r"\d", word) for word in words)
    if known and (versioned or vendor != "anthropic"):
        return False
    return _prices().find(name, vendor) is None


def near_names(services: Sequence[str], model: str) -> list[str]:
    """Up to three names the price list has for these services that are near to the name."""
    named = {_LISTED_AS.get(service, service) for service in services}
    listed = [
        each.id for seller in _prices().sellers if seller.id in named for each in seller.listings
    ]
    return find_near(model, dict.fromkeys(listed), most=3, cutoff=0.6)


def suggestion(name: str) -> str:
    """The names near to a vendor's model that there is not, as a question; empty for none."""
    names = near_names((_vendor(name) or "openai",), name)
    return f"did you mean {' or '.join(f'`{each}`' for each in names)}?" if names else ""


def _vendor(name: str) -> str:
    return next((vendor for shape, vendor in _VENDORS if re.match(shape, name)), "")


def _prices() -> "PriceList":
    from weft.dialects.price_list import price_list

    return price_list()


# --- the dialects


class ListedDialect(NamedTuple):
    """The module whose `DIALECT` it is, and where its requests have what all requests have."""

    module: str
    turns: str
    """The field of its turns."""
    beside: tuple[str, ...]
    """The fields of its system text and of the answer's schema."""


class Dialects(Mapping[str, "Dialect"]):
    """Dialects by name. A provider's file is loaded when its dialect is first used."""

    def __init__(self, listed: Mapping[str, ListedDialect]) -> None:
        self._listed: dict[str, ListedDialect] = dict(listed)
        self._loaded: dict[str, Dialect] = {}

    def __getitem__(self, name: str) -> "Dialect":
        dialect = self._loaded.get(name)
        if dialect is None:
            dialect = cast("Dialect", import_module(self._listed[name].module).DIALECT)
            self._loaded[name] = dialect
        return dialect

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._listed)

    def __contains__(self, name: object) -> bool:
        return name in self._listed

    def fields(self) -> frozenset[str]:
        """The fields by which requests of the dialects are told apart; no file is loaded."""
        return self.turn_fields().union(*(one.beside for one in self._listed.values()))

    def turn_fields(self) -> frozenset[str]:
        """The fields in which requests of the dialects have their turns; no file is loaded."""
        return frozenset(one.turns for one in self._listed.values())

    def register(self, dialect: "Dialect") -> None:
        """Add a dialect of one's own, or take the place of the one with its name."""
        name = dialect.traits.name
        turns = dialect.traits.turns
        beside = tuple(field for field in dialect.own_fields() if field != turns)
        self._listed[name] = ListedDialect(type(dialect).__module__, turns, beside)
        self._loaded[name] = dialect

    def forget(self, name: str) -> None:
        """Take out a dialect that was registered."""
        del self._listed[name], self._loaded[name]


DIALECTS = Dialects(
    {
        "gemini": ListedDialect(
            "weft.dialects.gemini", "contents", ("systemInstruction", "generationConfig")
        ),
        "anthropic": ListedDialect(
            "weft.dialects.anthropic", "messages", ("system", "output_config")
        ),
        "openai-chat": ListedDialect("weft.dialects.openai_chat", "messages", ("response_format",)),
        "openai-responses": ListedDialect(
            "weft.dialects.openai_responses", "input", ("instructions", "text")
        ),
    }
)
"""Every dialect. A test holds its fields to what its own file says."""


def dialect_named(name: str) -> "Dialect":
    """The dialect of that name, or an error that lists them."""
    try:
        return DIALECTS[name]
    except KeyError:
        if name in DIALECTS:  # its file raised it
            raise
    near = find_near(str(name), DIALECTS, cutoff=0.4)
    known = ", ".join(DIALECTS)
    raise UsageError(
        f"`{name}` is not a dialect",
        where="dialect",
        hint=f"did you mean `{near[0]}`? known: {known}" if near else f"known: {known}",
    )
