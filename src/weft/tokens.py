"""How many tokens a text, a tool, an image and a whole request cost, offline.

A request's size is the sum of its texts, of what the provider renders its tools and
schemas into, and of fixed costs the API never shows (roles, tool preambles). The texts
are counted by the model's own tokenizer where one is public, and by a linear model on
text features where it is not; the fixed costs were fitted to recorded usage. Nothing
here asks a network, and nothing is loaded before the first count.

    request + turns * turn + sum(overhead(kind) + count(payload) * factor) + tools + schema
"""

import functools
import importlib.util
import json
import re
import zlib
from collections.abc import Callable, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Protocol

import msgspec

from weft import _token_tables as tables
from weft._token_tables import Overheads as Overheads
from weft.late import late_pattern
from weft.values import Json, compact

if TYPE_CHECKING:
    import splintr

CACHED_TEXT = 2_000
"""The counts of longer texts are kept by their hash, and the texts are not."""


class Counter(Protocol):
    """Counts the tokens of a text as one family of models does."""

    @property
    def name(self) -> str:
        """The tokenizer, with `~` when it is estimated."""
        ...

    @property
    def exact(self) -> bool:
        """Whether the model's own tokenizer counts."""
        ...

    @property
    def margin(self) -> float:
        """Relative: `count * (1 + margin)` is a safe upper bound for real text; 0.0 when exact."""
        ...

    def count(self, text: str) -> int:
        """How many tokens the text has, special-token spellings read as plain text."""
        ...


class VocabularyCounter(msgspec.Struct, frozen=True):
    """A real tokenizer; `exact` is false when it stands in for one that is not public."""

    name: str
    vocabulary: str
    exact: bool = True
    margin: float = 0.0

    def count(self, text: str) -> int:
        """How many tokens the text has."""
        if len(text) > CACHED_TEXT:
            return _long_counts.find(text, self.vocabulary, self._count)
        return _encode_cached(self.vocabulary, text)

    def _count(self, text: str) -> int:
        return _encode(self.vocabulary, text)


class EstimateCounter(msgspec.Struct, frozen=True):
    """A linear model on text features, with o200k tokens as one of them where available."""

    name: str
    weights: tuple[float, ...]
    margin: float
    vocabulary: str = ""
    exact: bool = False

    def count(self, text: str) -> int:
        """How many tokens the text has, estimated; at least one for any text."""
        if len(text) > CACHED_TEXT:
            return _long_counts.find(text, (self.weights, self.vocabulary), self._count)
        return _estimate_cached(self.weights, self.vocabulary, text)

    def _count(self, text: str) -> int:
        return _estimate(self.weights, self.vocabulary, text)


@functools.lru_cache(maxsize=512)
def counter_for(model: str) -> Counter:
    """The counter of a model, `provider/model` prefixes understood; never raises.

    Unknown models are counted with a common tokenizer and a margin that says so.
    """
    available = importlib.util.find_spec("splintr") is not None
    if "claude" in model.lower():
        key = "claude-4.7" if _claude_version(model) >= (4, 7) else "claude-3"
        return _estimator(key, available=available)
    name, vocabulary, exact = _vocabulary(model)
    if not available:
        return _estimator("gemma3" if vocabulary.startswith("gemma") else "o200k", available=False)
    if exact:
        return VocabularyCounter(name, vocabulary)
    return VocabularyCounter(f"{name}~", vocabulary, exact=False, margin=tables.STAND_IN_MARGIN)


def overheads_for(dialect: str, model: str) -> Overheads:
    """What a request costs beyond its texts, in one dialect and family of models."""
    return tables.OVERHEADS[_family(dialect, model)]


def thought_tokens(overheads: Overheads, text_tokens: int, opaque_chars: int) -> int:
    """The cost of one replayed thought: its hidden text if the dialect bills that, else its text.

    The opaque part (signature, encrypted content) holds the full reasoning; its length tells
    how long that is. A summary next to it is not billed.
    """
    hidden = max(0.0, opaque_chars - overheads.opaque_free) * overheads.opaque
    visible = text_tokens * overheads.thought_text
    return overheads.thought + round(max(hidden, visible))


def tool_text(
    dialect: str, model: str, name: str, description: str, schema: Mapping[str, Json] | None
) -> str:
    """A tool declaration as the provider most likely writes it for the model.

    OpenAI shows tools as TypeScript types, Anthropic as JSON lines, Gemini as objects with
    bare keys; found by matching recorded usage, so this is the payload to count.
    """
    schema = schema or {}
    if dialect == "gemini":
        plain = _plain(dict(schema), _References(schema), ())
        if _gemini_version(model) < (3, 0):
            return name + description + compact(plain)
        declaration: dict[str, Json] = {"name": name}
        if description:
            declaration["description"] = description
        if schema.get("properties"):
            declaration["parameters"] = plain
        return re.sub(r'"(\w+)":', r"\1:", json.dumps(declaration, ensure_ascii=False))
    if dialect == "anthropic":
        about: dict[str, Json] = {"description": description} if description else {}
        body = about | {"name": name, "parameters": dict(schema)}
        return f"<function>{json.dumps(body, ensure_ascii=False)}</function>\n"
    comment = _comment(description)
    if not schema.get("properties"):
        return f"{comment}type {name} = () => any;\n\n"
    fields = _fields(schema, _References(schema), ())
    return f"{comment}type {name} = (_: {{\n{fields}}}) => any;\n\n"


def media_tokens(
    dialect: str, model: str, mime_type: str, size_bytes: int, width: int = 0, height: int = 0
) -> int:
    """The tokens of an image, document, recording or film by the providers' published formulas.

    Sizes that are not known are assumed to be those of a typical file of that many bytes.
    """
    kind = mime_type.partition("/")[0]
    if kind == "image":
        if not (width and height):
            width = height = max(64, min(2048, round((size_bytes * 6) ** 0.5)))
        return _image_tokens(dialect, model, width, height)
    if mime_type == "application/pdf":
        pages = max(1, round(size_bytes / 60_000))
        newer = dialect == "gemini" and _gemini_version(model) >= (3, 0)
        return pages * (530 if newer else tables.PDF_PAGE.get(dialect, 1_500))
    if kind == "audio":
        return max(1, round(size_bytes / 16_000 * (32 if dialect == "gemini" else 10)))
    if kind == "video":
        newer = _gemini_version(model) >= (3, 0)
        return max(1, round(size_bytes / 250_000 * (102 if newer else 290)))
    return 5 + size_bytes // 4


class Media(msgspec.Struct, frozen=True):
    """What a medium takes, and what of it cannot be counted; then the tokens are the least."""

    tokens: int
    uncounted: str = ""


def measure_media(dialect: str, model: str, mime_type: str, data: bytes) -> Media:
    """What media takes, read from its bytes; empty where the request has only its address.

    Providers read the text of a document too, and no header tells how much of it there is.
    """
    kind = mime_type.partition("/")[0]
    noun = "PDF" if mime_type == "application/pdf" else _NOUNS.get(kind, "file")
    page = tables.PDF_LEAST.get(dialect, 200)
    if dialect == "gemini" and _gemini_version(model) >= (3, 0):
        page = 2 * page
    if not data:
        # nobody knows its size: that of a small picture
        least = _image_tokens(dialect, model, 448, 448) if noun == "image" else _LEAST // 4
        if noun == "PDF" and dialect in ("anthropic", "gemini"):
            least = page
        return Media(least, f"the {noun} that only an address is sent of")
    if kind == "image":
        width, height = image_size(data) or (0, 0)
        tokens = media_tokens(dialect, model, mime_type, len(data), width, height)
        return Media(tokens if width else _LEAST, "" if width else "an image of unknown size")
    if noun == "PDF":
        return Media(page * pdf_pages(data), "the text of the PDF")
    seconds = audio_seconds(data) if kind == "audio" else None
    if seconds is not None:
        return Media(max(1, round(seconds * (32 if dialect == "gemini" else 10))))
    return Media(_LEAST, f"the {noun} of type {mime_type}")


_NOUNS = {"image": "image", "audio": "recording", "video": "film"}
_LEAST = 80
"""Tokens of media of which nothing is known: less is hardly ever counted."""


def own_tool_tokens(kind: str) -> int:
    """What a tool takes that the provider defines and others run, by its type; 0 if not known."""
    name = kind.rpartition("_")[0]
    return tables.OWN_TOOLS.get(name, 0)


def served_tool_tokens(dialect: str, kind: str) -> int:
    """What a tool takes that the provider runs, before it is used; 0 if not known."""
    name = re.sub(r"_\d{8}$", "", kind)  # the version is a date
    return tables.SERVED_TOOLS[dialect].get(name, 0)


def pdf_pages(data: bytes) -> int:
    """How many pages a PDF has, at least one; those in packed objects are unpacked to count."""
    # `/Pages` is the tree of pages, not a page; `/Count` is what the tree says it has
    pages = len(re.findall(rb"/Type\s*/Page(?![A-Za-z])", data))
    counts = [int(number) for number in re.findall(rb"/Count\s+(\d{1,6})\b", data)]
    if pages or counts:
        return max(1, pages, *counts)
    unpacked = 0
    for start in re.finditer(rb"/ObjStm.{0,200}?stream\r?\n", data, re.DOTALL):
        try:
            # the limit is for a file that is made to unpack to gigabytes
            packed = zlib.decompressobj().decompress(data[start.end() :], 1 << 22)
        except zlib.error:
            continue
        unpacked += len(re.findall(rb"/Type\s*/Page(?![A-Za-z])", packed))
    return max(1, unpacked)


def audio_seconds(data: bytes) -> float | None:
    """How long a WAV or MP3 file plays, from its header; None where it does not tell."""
    if data[:4] == b"RIFF" and data[8:12] == b"WAVE" and len(data) > 44:
        rate = int.from_bytes(data[28:32], "little")
        return (len(data) - 44) / rate if rate else None
    start = 0
    if data[:3] == b"ID3" and len(data) > 10:
        # the size of this header has seven bits in each byte
        size = functools.reduce(lambda total, byte: total << 7 | byte & 0x7F, data[6:10], 0)
        start = 10 + size
    at = data.find(b"\xff", start, start + 4096)
    if at < 0 or at + 4 > len(data) or data[at + 1] & 0xE6 != 0xE2:  # no frame of layer three
        return None
    first = data[at + 1] >> 3 & 1  # MPEG 1; else 2, which is slower
    rate = (44_100, 48_000, 32_000, 0)[data[at + 2] >> 2 & 3] >> (1 - first)
    tag = max(data.find(mark, at, at + 64) for mark in (b"Xing", b"Info"))
    if tag > 0 and rate and data[tag + 7] & 1:  # it counts its frames, which may vary in rate
        return int.from_bytes(data[tag + 8 : tag + 12]) * (1152 if first else 576) / rate
    kilobits = (_MP3_FAST if first else _MP3_SLOW)[data[at + 2] >> 4]
    return (len(data) - at) * 8 / (kilobits * 1000) if kilobits else None


_MP3_FAST = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0)
_MP3_SLOW = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0)


def image_size(data: bytes) -> tuple[int, int] | None:
    """Width and height from the header of a PNG, JPEG, GIF or WebP file, else None."""
    if data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) >= 24:
        return int.from_bytes(data[16:20]), int.from_bytes(data[20:24])
    if data[:6] in (b"GIF87a", b"GIF89a") and len(data) >= 10:
        return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP" and len(data) >= 30:
        return _webp_size(data)
    if data[:2] == b"\xff\xd8":
        return _jpeg_size(data)
    return None


# --- which tokenizer


def _estimator(key: str, *, available: bool) -> Counter:
    if available and key in tables.WITH_O200K:
        weights, margin = tables.WITH_O200K[key]
        return EstimateCounter(f"{key}~", weights, margin, "o200k_base")
    weights, margin = tables.FEATURES_ONLY[key]
    return EstimateCounter(f"{key}~", weights, margin)


def _vocabulary(model: str) -> tuple[str, str, bool]:
    lowered = model.lower()
    for pattern, vocabulary, exact in tables.VOCABULARIES:
        if re.search(pattern, lowered):
            return vocabulary.removesuffix("_base"), vocabulary, exact
    if "gemini" in lowered:
        version = _gemini_version(lowered)
        vocabulary = "gemma2" if version < (2, 0) else "gemma3" if version < (3, 1) else "gemma4"
        return vocabulary, vocabulary, True
    return "o200k", "o200k_base", False


def _claude_version(model: str) -> tuple[int, int]:
    """The generation of a Claude model; the newest when its name does not say."""
    lowered = model.lower()
    # two digits at most: a date after the name is not a version
    match = re.search(r"claude-(?:[a-z]+-)?v?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)", lowered)
    return (int(match[1]), int(match[2] or 0)) if match else (99, 0)


def _gemini_version(model: str) -> tuple[int, int]:
    match = re.search(r"gemini-(\d+)(?:\.(\d+))?", model.lower())
    return (int(match[1]), int(match[2] or 0)) if match else (99, 0)


def _reasons(model: str) -> bool:
    """Whether an OpenAI model renders requests in the format of its reasoning models."""
    return re.search(r"gpt-(?:[5-9]|\d\d|oss)|(?:^|[/:.])o\d|codex", model.lower()) is not None


_OLDER_CLAUDE = r"claude-3-(?:5-)?(haiku)|claude-3-(opus|sonnet)"


def _family(dialect: str, model: str) -> str:
    match dialect:
        case "anthropic":
            version = _claude_version(model)
            if version < (4, 0) and (older := re.search(_OLDER_CLAUDE, model.lower())):
                return f"claude-3-{older[1] or older[2]}"
            if version < (4, 7):
                return "claude-3" if version < (4, 5) else "claude-4.5"
            return "claude-4.7"
        case "gemini":
            version = _gemini_version(model)
            if version < (3, 0):
                return "gemini-2" if version < (2, 5) else "gemini-2.5"
            return "gemini-3" if version < (3, 1) else "gemini-3.1"
        case "openai-responses":
            return "responses-5" if _reasons(model) else "responses-4"
        case _:
            return "chat-5" if _reasons(model) else "chat-4"


# --- counting


@functools.cache
def _tokenizer(vocabulary: str) -> "splintr.AnyTokenizer":
    import splintr

    return splintr.Tokenizer.from_pretrained(vocabulary)


_WORDS = late_pattern(r"[ \u2581]*[^ \u2581]+(?:(?<=>)[ \u2581](?=</)[^ \u2581]+)*|[ \u2581]+")
"""Words with the spaces before them; only one token of Gemma's has a space after a letter.

The tokenizer writes a space as U+2581.
"""

_LONGEST_WORD = 64
"""Words of more letters are not kept."""


def _encode(vocabulary: str, text: str) -> int:
    try:
        if vocabulary.startswith("gemma"):
            words = _WORDS.findall(text)
            count, encode = _word_counter(vocabulary), _tokenizer(vocabulary).encode_ordinary
            short = sum(map(count, [one for one in words if len(one) <= _LONGEST_WORD]))
            return short + sum(len(encode(one)) for one in words if len(one) > _LONGEST_WORD)
        return len(_tokenizer(vocabulary).encode_ordinary(text))
    except UnicodeEncodeError:  # lone surrogates: no tokenizer takes them, nor does any wire
        return _encode(vocabulary, text.encode("utf-8", "replace").decode("utf-8"))


def _estimate(weights: tuple[float, ...], vocabulary: str, text: str) -> int:
    if not text:
        return 0
    total = sum(map(float.__mul__, weights[1:], map(float, tables.features(text))))
    if vocabulary:
        total += weights[0] * _encode(vocabulary, text)
    return max(1, round(total))


@functools.cache
def _word_counter(vocabulary: str) -> Callable[[str], int]:
    """How many tokens a word of a text has; its text takes what its words do.

    Gemma's tokenizer is slow, and most words of a text stand in it, or in another one, again.
    """
    encode = _tokenizer(vocabulary).encode_ordinary

    def count(word: str) -> int:
        return len(encode(word))

    return functools.lru_cache(maxsize=65_536)(count)


_encode_cached = functools.lru_cache(maxsize=8192)(_encode)
_estimate_cached = functools.lru_cache(maxsize=8192)(_estimate)


class _LongCounts:
    """The counts of long texts by their hash, the latest.

    A long text is counted in every request that has it, under whatever policy. Thousands of texts
    would take too much room, and their hashes take next to none.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[object, bytes], int] = {}
        self._lock = Lock()

    def find(self, text: str, counter: object, count: Callable[[str], int]) -> int:
        """What `counter` says of a text; `count` tells where nobody has asked yet."""
        from hashlib import blake2b

        key = counter, blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        known = self._known.get(key)
        if known is None:
            known = count(text)
            with self._lock:
                self._known[key] = known
                if len(self._known) > _MOST_LONG:
                    del self._known[next(iter(self._known))]
        return known


_MOST_LONG = 16_384
"""How many counts of long texts are kept."""

_long_counts = _LongCounts()


# --- tools as TypeScript


def _object(value: Json | None) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


class _References:
    """The definitions of one schema; follows 64 references at most, so every schema ends."""

    def __init__(self, schema: Mapping[str, Json]) -> None:
        self.definitions = _object(schema.get("$defs"))
        self.remaining = 64

    def follow(self, reference: str, path: tuple[str, ...]) -> dict[str, Json]:
        self.remaining -= 1
        # a recursive part is shown once inside itself, then as any object
        if self.remaining < 0 or path.count(reference) > 1:
            return {"type": "object"}
        return dict(_object(self.definitions.get(reference.rpartition("/")[2])))


def _plain(value: Json, references: _References, path: tuple[str, ...]) -> Json:
    """References replaced by what they name, `additionalProperties` dropped, types first."""
    if len(path) > 32:
        return {}
    if isinstance(value, list):
        return [_plain(item, references, (*path, "")) for item in value]
    if not isinstance(value, dict):
        return value
    if isinstance(name := value.get("$ref"), str):
        return _plain(references.follow(name, path), references, (*path, name))
    order = sorted(value, key=lambda key: tables.SCHEMA_ORDER.get(key, 9))
    keys = [key for key in order if key not in ("$defs", "additionalProperties")]
    return {key: _plain(value[key], references, (*path, "")) for key in keys}


def _comment(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "// " + "\n".join(lines) + "\n" if lines else ""


def _fields(schema: Mapping[str, Json], references: _References, path: tuple[str, ...]) -> str:
    required = schema.get("required")
    names = required if isinstance(required, list) else []
    lines: list[str] = []
    for key, value in _object(schema.get("properties")).items():
        field = _object(value)
        description = field.get("description")
        lines.append(_comment(description) if isinstance(description, str) else "")
        default = f" // default: {compact(field['default'])}" if "default" in field else ""
        optional = "" if key in names else "?"
        lines.append(f"{key}{optional}: {_type(field, references, (*path, ''))},{default}\n")
    return "".join(lines)


def _type(schema: Mapping[str, Json], references: _References, path: tuple[str, ...]) -> str:
    if len(path) > 16:
        return "any"
    if isinstance(name := schema.get("$ref"), str):
        return _type(references.follow(name, path), references, (*path, name))
    if isinstance(options := schema.get("enum"), list):
        return " | ".join(map(compact, options))
    if "const" in schema:
        return compact(schema["const"])
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(branches := schema.get(key), list):
            return " | ".join(_type(_object(one), references, (*path, "")) for one in branches)
    match schema.get("type"):
        case "object" if schema.get("properties"):
            return "{\n" + _fields(schema, references, path) + "}"
        case "array":
            return _type(_object(schema.get("items")), references, (*path, "")) + "[]"
        case "integer":
            return "number"
        case str(name):
            return name
        case list(names):
            return " | ".join(map(str, names))
        case _:
            return "any"


# --- images


def _image_tokens(dialect: str, model: str, width: int, height: int) -> int:
    if dialect == "anthropic":
        edge, most = (2576, 4784) if _claude_version(model) >= (4, 7) else (1568, 1600)
        # the provider scales to the longest edge, then bills pixels by 750
        scale = min(1.0, edge / max(width, height))
        return max(1, min(most, round(width * scale * height * scale / 750)))
    if dialect == "gemini":
        if _gemini_version(model) >= (3, 0):
            return 1_100
        # tiles of 768 pixels, each of 258 tokens
        return 258 * -(-width // 768) * -(-height // 768)
    # some models bill patches of 32 pixels, the others tiles of 512
    for pattern, factor in tables.PATCH_FACTORS:
        if re.search(pattern, model.lower()):
            patches = -(-width // 32) * -(-height // 32)
            return round(min(1536, patches) * factor)
    base, tile = next((b, t) for p, b, t in tables.TILE_COSTS if re.search(p, model.lower()))
    # the image is first fitted into 2048 pixels, then its shorter side into 768
    scale = min(1.0, 2048 / max(width, height), 768 / min(width, height))
    tiles = -(-round(width * scale) // 512) * -(-round(height * scale) // 512)
    return base + tile * tiles


def _webp_size(data: bytes) -> tuple[int, int] | None:
    bits = int.from_bytes(data[21:30], "little")
    match data[12:16]:
        case b"VP8X":
            # two of the three forms store each side less one
            return (bits >> 24 & 0xFFFFFF) + 1, (bits >> 48) + 1
        case b"VP8L":
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            return bits >> 40 & 0x3FFF, bits >> 56 & 0x3FFF
        case _:
            return None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 < len(data) and data[at] == 0xFF:
        marker, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4])
        # these markers begin a frame with its size; the three are tables among them
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(data[at + 7 : at + 9]), int.from_bytes(data[at + 5 : at + 7])
        at += 2 + length
    return None
