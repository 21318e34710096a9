"""Which object model for events: constructing, encoding and decoding one tree in three."""

import dataclasses
import json
import typing

import msgspec
from table import Table, best

COUNT = 2_000
TEXT = "The weather in Oslo is sunny with light clouds. " * 3


class PartM(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None


class ContentM(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    role: str
    parts: tuple[PartM, ...]


class EventM(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    id: str
    author: str
    invocation_id: str
    timestamp: float
    content: ContentM
    branch: str | None = None
    partial: bool | None = None
    actions: dict[str, typing.Any] = {}


@dataclasses.dataclass(frozen=True, slots=True)
class PartD:
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ContentD:
    role: str
    parts: tuple[PartD, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class EventD:
    id: str
    author: str
    invocation_id: str
    timestamp: float
    content: ContentD
    branch: str | None = None
    partial: bool | None = None
    actions: dict[str, typing.Any] = dataclasses.field(default_factory=dict)


def measure() -> Table:
    """msgspec, the choice, against the other two."""
    table = Table(f"object model: {COUNT:,} events")
    ours = _msgspec()
    others = {"slotted dataclass + json": _dataclass(), "pydantic": _pydantic()}
    for index, action in enumerate(("construct", "encode", "decode")):
        for name, seconds in others.items():
            if seconds is None:
                table.note(name, "not installed")
            else:
                table.add(
                    f"{action} with msgspec", ours[index], name, seconds[index], at_least=True
                )
    return table


def _three(
    construct: typing.Callable[[], list[typing.Any]],
    encode: typing.Callable[[list[typing.Any]], typing.Any],
    decode: typing.Callable[[typing.Any], typing.Any],
) -> tuple[float, float, float]:
    made = construct()
    data = encode(made)
    assert decode(data) == made
    return best(construct), best(lambda: encode(made)), best(lambda: decode(data))


def _msgspec() -> tuple[float, float, float]:
    decoder = msgspec.json.Decoder(list[EventM])
    return _three(
        lambda: [
            EventM(f"e{i}", "bot", "i", 1.0, ContentM("model", (PartM(TEXT),)))
            for i in range(COUNT)
        ],
        msgspec.json.encode,
        decoder.decode,
    )


def _dataclass() -> tuple[float, float, float]:
    def read(raw: dict[str, typing.Any]) -> EventD:
        content = raw.pop("content")
        parts = tuple(PartD(**part) for part in content["parts"])
        return EventD(content=ContentD(content["role"], parts), **raw)

    return _three(
        lambda: [
            EventD(f"e{i}", "bot", "i", 1.0, ContentD("model", (PartD(TEXT),)))
            for i in range(COUNT)
        ],
        lambda made: json.dumps([dataclasses.asdict(event) for event in made]),
        lambda data: [read(raw) for raw in json.loads(data)],
    )


def _pydantic() -> tuple[float, float, float] | None:
    try:
        import pydantic
    except ImportError:
        return None
    frozen = pydantic.ConfigDict(frozen=True)
    part = pydantic.create_model(
        "part", __config__=frozen, text=(str | None, None), thought=(bool | None, None),
        thought_signature=(str | None, None),
    )  # fmt: skip
    content = pydantic.create_model(
        "content", __config__=frozen, role=(str, ...), parts=(tuple[part, ...], ...)
    )
    event = pydantic.create_model(
        "event", __config__=frozen, id=(str, ...), author=(str, ...), invocation_id=(str, ...),
        timestamp=(float, ...), content=(content, ...), branch=(str | None, None),
        partial=(bool | None, None), actions=(dict, {}),
    )  # fmt: skip
    adapter = pydantic.TypeAdapter(list[event])
    return _three(
        lambda: [
            event(
                id=f"e{i}",
                author="bot",
                invocation_id="i",
                timestamp=1.0,
                content=content(role="model", parts=(part(text=TEXT),)),
            )
            for i in range(COUNT)
        ],
        lambda made: adapter.dump_json(made, exclude_none=True),
        adapter.validate_json,
    )
