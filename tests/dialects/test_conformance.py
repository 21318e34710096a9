"""Every prompt in every dialect fits the provider's own types, and keeps its laws."""

import copy
import functools
import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple, cast

import pytest
from pydantic import TypeAdapter, ValidationError

from tests.dialects.prompts import (
    BY_NAME,
    DIALECTS,
    MODELS,
    SCENES,
    WITHOUT_SCHEMA,
    Scene,
    log,
    scene,
)
from tests.dialects.shapes import misfits, places, request_type
from tests.support.laws import all_laws
from weft import Session
from weft.compiler import Compilation
from weft.content import call_part, result_part
from weft.dialects import DIALECTS as WEFT_DIALECTS
from weft.dialects import dialect_named, facts_for
from weft.values import compact

Wire = dict[str, Any]

BEYOND_THE_TYPES = {"temperature", "top_p", "top_k"}
"""What Anthropic's API still takes from older models, and its SDK only as `extra_body`."""


@functools.cache
def gemini_body() -> dict[str, TypeAdapter[object]]:
    """The fields of a generateContent body; the SDK has types for them but none for the whole."""
    from google.genai import types as genai

    fields: dict[str, Any] = {
        "contents": list[genai.Content],
        "systemInstruction": genai.Content,
        "tools": list[genai.Tool],
        "toolConfig": genai.ToolConfig,
        "generationConfig": genai.GenerationConfig,
        "safetySettings": list[genai.SafetySetting],
        "cachedContent": str,
        "serviceTier": genai.ServiceTier,
        "labels": dict[str, str],
        "store": bool,
    }
    return {key: TypeAdapter(field) for key, field in fields.items()}


def free(place: str, dialect: str) -> bool:
    return any(f"{form}/" in f"{place}/" for form in CONFORMANCE[dialect].free_form)


def snake_keys(wire: Wire) -> list[str]:
    """Keys as Python writes them: the SDK reads them too, the REST API does not."""
    keys = [
        f"{at}/{key}" for at in places(wire) if not free(at, "gemini") for key in value_at(wire, at)
    ]
    return [key for key in keys if "_" in key.rpartition("/")[2]]


def value_at(wire: Wire, place: str) -> Any:
    value: Any = wire
    for step in place.split("/")[1:]:
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


def gemini_misfits(wire: Wire) -> list[str]:
    found = [f"`{key}` is not a field of the body" for key in wire if key not in gemini_body()]
    found += [f"{place} is not in camel case" for place in snake_keys(wire)]
    for key, adapter in gemini_body().items():
        if key in wire:
            try:
                adapter.validate_json(json.dumps(wire[key]))
            except ValidationError as error:
                found += [f"{key}/{e['loc']}: {e['msg']}" for e in error.errors()]
            except UserWarning as warning:
                found.append(f"{key}: {warning}")
    return found


def anthropic_misfits(wire: Wire) -> list[str]:
    if facts_for(wire["model"]).sampling:
        wire = {key: value for key, value in wire.items() if key not in BEYOND_THE_TYPES}
    return misfits(wire, request_type("anthropic"))


def misfits_of(wire: Wire, dialect: str) -> list[str]:
    """What of a request the provider's own types do not have."""
    match dialect:
        case "gemini":
            return gemini_misfits(wire)
        case "anthropic":
            return anthropic_misfits(wire)
        case _:
            return misfits(wire, request_type(dialect))


def lowered(scene: Scene, dialect: str) -> tuple[Compilation, Wire]:
    """Compilation once for all the laws."""
    held = _COMPILED.get((scene.name, dialect))
    if held is None:
        held = _COMPILED[scene.name, dialect] = scene.compile(dialect)
    return held, cast("Wire", held.lower(dialect))


_COMPILED: dict[tuple[str, str], Compilation] = {}


def a_request_fits_the_providers_own_types(scene: Scene, dialect: str) -> None:
    _, wire = lowered(scene, dialect)
    assert misfits_of(wire, dialect) == []


def turns_come_last_so_that_requests_extend_each_other(scene: Scene, dialect: str) -> None:
    _, wire = lowered(scene, dialect)
    assert list(wire)[-1] == dialect_named(dialect).traits.turns


def the_same_prompt_gives_the_same_bytes(scene: Scene, dialect: str) -> None:
    compiled, wire = lowered(scene, dialect)
    again = dialect_named(dialect).lower(compiled.prompt)
    assert compact(wire) == compact(again.wire)
    assert compact(wire).encode()


def lowering_changes_nothing_it_reads(scene: Scene, dialect: str) -> None:
    compiled = scene.compile(dialect)
    before = copy.deepcopy(
        (compiled.prompt.config, [tool.parameters for tool in compiled.prompt.tools])
    )
    compiled.lower(dialect)
    compiled.lower(dialect)
    assert (compiled.prompt.config, [t.parameters for t in compiled.prompt.tools]) == before


def every_piece_of_a_turn_knows_its_block(scene: Scene, dialect: str) -> None:
    held = lowered(scene, dialect)[0].lowered(dialect)
    for entry in held.entries:
        assert entry.blocks, entry
        for pointer, _ in entry.blocks:
            value_at(cast("Wire", entry.wire), pointer)


def every_call_has_its_result_next_to_it(scene: Scene, dialect: str) -> None:
    _, wire = lowered(scene, dialect)
    turns = wire[dialect_named(dialect).traits.turns]
    for asked, answered in CONFORMANCE[dialect].pairs(turns):
        assert asked == answered
        assert len(set(asked)) == len(asked)


def gemini_pairs(turns: list[Wire]) -> Iterator[tuple[list[str], list[str]]]:
    for turn, following in zip(turns, [*turns[1:], {"parts": []}], strict=True):
        calls = [p["functionCall"]["name"] for p in turn["parts"] if "functionCall" in p]
        parts = following["parts"]
        results = [p["functionResponse"]["name"] for p in parts if "functionResponse" in p]
        yield _numbered(calls), _numbered(results)


def anthropic_pairs(turns: list[Wire]) -> Iterator[tuple[list[str], list[str]]]:
    for turn, following in zip(turns, [*turns[1:], {"content": []}], strict=True):
        calls = [p["id"] for p in turn["content"] if p["type"] == "tool_use"]
        kinds = [p["type"] for p in following["content"]]
        assert kinds == sorted(kinds, key=lambda kind: kind != "tool_result")
        yield calls, [p["tool_use_id"] for p in following["content"] if p["type"] == "tool_result"]


def chat_pairs(turns: list[Wire]) -> Iterator[tuple[list[str], list[str]]]:
    index = 0
    while index < len(turns):
        calls = [call["id"] for call in turns[index].get("tool_calls", [])]
        index += 1
        results: list[str] = []
        while index < len(turns) and turns[index]["role"] == "tool":
            results.append(turns[index]["tool_call_id"])
            index += 1
        yield calls, results


def responses_pairs(turns: list[Wire]) -> Iterator[tuple[list[str], list[str]]]:
    kinds = [turn.get("type", "message") for turn in turns]
    index = 0
    while index < len(turns):
        calls: list[str] = []
        results: list[str] = []
        while index < len(turns) and kinds[index] == "function_call":
            calls.append(turns[index]["call_id"])
            index += 1
        while index < len(turns) and kinds[index] == "function_call_output":
            results.append(turns[index]["call_id"])
            index += 1
        yield calls, results
        index += not calls and not results


class Conformance(NamedTuple):
    """What the suite has to know of a dialect in addition to the provider's types."""

    free_form: tuple[str, ...]
    """Where the provider takes any JSON."""
    pairs: Callable[[list[Wire]], Iterator[tuple[list[str], list[str]]]]
    """The calls of each turn, and the results that stand right after it."""


CONFORMANCE: dict[str, Conformance] = {
    "gemini": Conformance(("/args", "/response", "/labels", "JsonSchema"), gemini_pairs),
    "anthropic": Conformance(("/input", "/input_schema", "/schema"), anthropic_pairs),
    "openai-chat": Conformance(("/parameters", "/schema", "/metadata"), chat_pairs),
    "openai-responses": Conformance(("/parameters", "/schema", "/metadata"), responses_pairs),
}


def test_every_dialect_is_held_to_the_suite() -> None:
    assert set(DIALECTS) == set(WEFT_DIALECTS), "name it in DIALECTS of tests/dialects/prompts.py"
    assert set(DIALECTS) <= MODELS.keys() & WITHOUT_SCHEMA.keys(), "MODELS, WITHOUT_SCHEMA there"
    assert set(DIALECTS) == CONFORMANCE.keys(), "give it a row in CONFORMANCE above"


def _numbered(names: list[str]) -> list[str]:
    return [f"{name} {names[:index].count(name)}" for index, name in enumerate(names)]


def roles_alternate_and_the_user_begins_and_ends(scene: Scene, dialect: str) -> None:
    if dialect not in ("gemini", "anthropic"):  # the others take turns in any order
        return
    _, wire = lowered(scene, dialect)
    roles = [turn["role"] for turn in wire[dialect_named(dialect).traits.turns]]
    model = dialect_named(dialect).traits.model_role
    assert roles == ["user", model] * (len(roles) // 2) + ["user"]


def only_lowering_codes_are_reported(scene: Scene, dialect: str) -> None:
    held = lowered(scene, dialect)[0].lowered(dialect)
    known = {"WEFT204", "WEFT709", "WEFT710", *(f"WEFT70{number}" for number in range(1, 7))}
    assert {d.code for d in held.diagnostics} <= known


LAWS = [
    a_request_fits_the_providers_own_types,
    turns_come_last_so_that_requests_extend_each_other,
    the_same_prompt_gives_the_same_bytes,
    lowering_changes_nothing_it_reads,
    every_piece_of_a_turn_knows_its_block,
    every_call_has_its_result_next_to_it,
    roles_alternate_and_the_user_begins_and_ends,
    only_lowering_codes_are_reported,
]


@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_law_holds_for_every_scene_in_every_dialect(dialect: str, name: str) -> None:
    with all_laws() as laws:
        laws.check(f"{dialect}: {name}", LAWS, BY_NAME[name], dialect)


GROWING = log(
    ("user", "Look up a."),
    ("bot", "Looking.", call_part("lookup", {"key": "a"}, id="c1"), call_part("ping", {}, id="c2")),
    ("bot", result_part("lookup", {"result": "1"}, id="c1"), result_part("ping", {}, id="c2")),
    ("bot", "It is 1."),
    ("user", "And b?"),
    ("bot", call_part("lookup", {"key": "b"}, id="c3")),
    ("bot", result_part("lookup", {"error": "none"}, id="c3")),
    ("bot", "There is none."),
    ("user", "Thanks."),
)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_request_of_a_session_begins_with_the_one_before(dialect: str) -> None:
    bodies = [
        compact(scene("tool loop")._replace(events=GROWING[:length]).compile(dialect).wire)
        for length in (1, 3, 5, 7, 9)
    ]
    for before, after in pairwise(bodies):
        assert after.startswith(before.removesuffix("]}"))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_kept_track_gives_what_a_fresh_lowering_gives(dialect: str) -> None:
    session = Session("s")
    for index, one in enumerate(GROWING):
        session = session.append(one)
        kept = scene("tool loop")._replace(events=tuple(session.events)).compile(dialect)
        fresh = dialect_named(dialect).lower(kept.prompt)
        assert compact(kept.wire) == compact(fresh.wire), index


def planted(wire: Wire, place: str) -> Wire:
    """The request with a key nobody knows, at that place."""
    copied = copy.deepcopy(wire)
    value_at(copied, place)["planted"] = 1
    return copied


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_check_sees_a_key_planted_anywhere(dialect: str) -> None:
    for one in SCENES:
        if one.name == "many tools":
            continue
        _, wire = lowered(one, dialect)
        for place in places(wire):
            if not free(place, dialect):
                assert misfits_of(planted(wire, place), dialect), (one.name, place)


@pytest.mark.parametrize(
    ("dialect", "path", "value"),
    [
        ("gemini", "contents/0/parts/0/text", 1),
        ("gemini", "contents/0/parts/0", {"thought_signature": "eA=="}),
        ("gemini", "generationConfig", {"topK": "many"}),
        ("gemini", "toolConfig", {"functionCallingConfig": {"mode": "MAYBE"}}),
        ("anthropic", "max_tokens", "8192"),
        ("anthropic", "max_tokens", True),
        ("anthropic", "messages/0/role", "model"),
        ("anthropic", "messages/0/content/0/type", "txt"),
        ("anthropic", "messages/1/content/0/input", "{}"),
        ("anthropic", "messages/2/content/0/tool_use_id", None),
        ("anthropic", "tools/0/name", None),
        ("anthropic", "tool_choice", {"type": "required"}),
        ("openai-chat", "messages/1/content", 1),
        ("openai-chat", "messages/2/tool_calls/0/function/arguments", {"key": "a"}),
        ("openai-chat", "messages/3/role", "function_result"),
        ("openai-chat", "tool_choice", "any"),
        ("openai-responses", "input/0/content/0/type", "text"),
        ("openai-responses", "input/1/arguments", {"key": "a"}),
        ("openai-responses", "input/2/output", {"result": "1"}),
        ("openai-responses", "tools/0/strict", "yes"),
        ("openai-responses", "include", ["everything"]),
    ],
)
def test_the_check_sees_a_wrong_value(dialect: str, path: str, value: object) -> None:
    _, wire = lowered(scene("tool loop"), dialect)
    wire = copy.deepcopy(wire)
    assert misfits_of(wire, dialect) == []
    *above, last = path.split("/")
    target = value_at(wire, "/".join(["", *above]))
    target[int(last) if isinstance(target, list) else last] = value
    assert misfits_of(wire, dialect)


@pytest.mark.parametrize(
    ("dialect", "path"),
    [
        ("anthropic", "max_tokens"),
        ("anthropic", "messages/2/content/0/tool_use_id"),
        ("openai-chat", "messages/3/tool_call_id"),
        ("openai-responses", "input/1/call_id"),
        ("openai-responses", "tools/0/parameters"),
    ],
)
def test_the_check_sees_a_missing_key(dialect: str, path: str) -> None:
    _, wire = lowered(scene("tool loop"), dialect)
    wire = copy.deepcopy(wire)
    *above, last = path.split("/")
    target = value_at(wire, "/".join(["", *above]))
    del target[last]
    assert misfits_of(wire, dialect)


def test_a_torn_pair_would_be_seen() -> None:
    """The pairing law can fail: without the results, it does."""
    for dialect in DIALECTS:
        _, wire = lowered(scene("tool loop"), dialect)
        turns = wire[dialect_named(dialect).traits.turns][:-1]
        pairs = CONFORMANCE[dialect].pairs(turns)
        assert any(asked != answered for asked, answered in pairs), dialect
