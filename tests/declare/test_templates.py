"""T1 to T6: what is a variable, what is text, and what is put in its place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from tests.support.linear import check_linear
from weft import Agent, RunConfig
from weft.declare.template import parse, render
from weft.errors import MissingVariable, SessionError
from weft.instructions import substitute_vars
from weft.values import Json

STATE: dict[str, Json] = {
    "key": "VALUE",
    "name": "Ada",
    "größe": "12",
    "_x1": "under",
    "app:k": "app's",
    "user:k": "user's",
    "temp:k": "temp's",
    "k": "plain",
    "order": {"id": 7, "lines": [{"sku": "a"}, {"sku": "b"}], "note": None},
    "list": ["zero", "one", ["deep"]],
    "artifact": {"field": "a state value"},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{key}", "VALUE"),
        ("a{key}b{name}c", "aVALUEbAdac"),
        ("{key}{key}", "VALUEVALUE"),
        ("{größe}", "12"),
        ("{_x1}", "under"),
        ("{app:k} {user:k} {temp:k} {k}", "app's user's temp's plain"),
        ("{order.id}", "7"),
        ("{order.lines[1].sku}", "b"),
        ("{order.lines[-1].sku}", "b"),
        ("{list[0]}", "zero"),
        ("{list[2][0]}", "deep"),
        ("{artifact}", '{"field":"a state value"}'),
        ("{ key }", "VALUE"),
        ("{\tkey  }", "VALUE"),
        ("{ order.lines[0].sku? }", "a"),
        ("{key?}", "VALUE"),
        ("[{absent?}]", "[]"),
        ("[{order.absent?}]", "[]"),
        ("[{list[9]?}]", "[]"),
        ("[{artifact.absent?}]", "[]"),
    ],
)
def test_T1_a_valid_name_is_replaced_by_its_value(text: str, expected: str) -> None:
    assert substitute_vars(text, STATE) == expected


def test_T1_an_artifact_is_inserted_by_name() -> None:
    agent = Agent("bot", instruction="{artifact.report.md} {artifact.user:cv-2.txt} {artifact.no?}")
    texts = {"report.md": "Q3 {key}", "user:cv-2.txt": "CV"}
    assert weft.compile(agent, artifacts=texts, state=STATE).system == (
        "You are bot.\n\nQ3 {key} CV "
    )


NOT_PLACEHOLDERS = [
    "{}",
    "{ }",
    "{a b}",
    "{a-b}",
    "{1a}",
    "{key!r}",
    "{key:>10}",
    "{other:k}",
    "{key.}",
    "{.key}",
    "{key..id}",
    "{key[}",
    "{key[]}",
    "{key[x]}",
    "{key[0}",
    "{list[00000000000]}",
    "{key??}",
    "{?key}",
    "{key\n}",
    "{\nkey}",
    "{artifact.}",
    "{artifact.a b}",
    '{"k": 1}',
    '{"k": {"nested": [1, {"x": "}"}]}}',
    "function f() { return {}; }",
    "a } b { c",
    "{",
    "}",
    "{{",
    "}}",
    "{{}}",
    "{{ }}",
    "{{a b}}",
    '{{"k": 1}}',
    "{{{}}}",
    "}key{",
    "{$key}",
    "${}",
    "{%key%}",
    "{key,name}",
    "{\u200bkey}",
]


@pytest.mark.parametrize("text", NOT_PLACEHOLDERS)
def test_T2_other_braces_stay_as_written(text: str) -> None:
    assert substitute_vars(text, STATE) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"user": {name}}', '{"user": Ada}'),
        ('{"user": "{name}", "n": {"m": {}}}', '{"user": "Ada", "n": {"m": {}}}'),
        ("${name}", "$Ada"),
        ("{ {name} }", "{ Ada }"),
        ("{name", "{name"),
        ("{{name}", "{Ada"),
        ("{name}}", "Ada}"),
    ],
)
def test_T2_a_placeholder_inside_other_braces_is_still_one(text: str, expected: str) -> None:
    assert substitute_vars(text, STATE) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{name}}", "{name}"),
        ("{{absent}}", "{absent}"),
        ("{{name?}}", "{name?}"),
        ("{{app:k}}", "{app:k}"),
        ("{{order.lines[0].sku}}", "{order.lines[0].sku}"),
        ("{{artifact.report}}", "{artifact.report}"),
        ("{{name}} is {name}", "{name} is Ada"),
        ("{{name}}{{name}}", "{name}{name}"),
        ("{{{name}}}", "{{name}}"),
        ("{{name}}}", "{name}}"),
    ],
)
def test_T3_doubled_braces_around_a_placeholder_escape_it(text: str, expected: str) -> None:
    assert substitute_vars(text, STATE) == expected


@pytest.mark.parametrize("text", ["{{ name }}", "{{name }}", "a {{ name}} b", '{"a": {{ name }}}'])
def test_T3_a_doubled_brace_that_is_not_tight_is_left_as_it_is(text: str) -> None:
    assert substitute_vars(text, {"name": "X"}) == text


def test_T3_an_escape_is_no_missing_variable() -> None:
    compiled = weft.compile(Agent("bot", model="gemini-flash-latest", instruction="{{city}}"))
    assert compiled.system == "You are bot.\n\n{city}"
    assert not compiled.diagnostics


GREETER = Agent("greeter", model="gemini-flash-latest", instruction="Greet {who} in {city}.")


def test_T4_a_missing_variable_is_left_as_it_is_and_reported() -> None:
    compiled = weft.compile(GREETER, state={"who": "Ada", "town": "Oslo"}, message="Hi")
    assert compiled.system == "You are greeter.\n\nGreet Ada in {city}."
    (found,) = compiled.diagnostics
    assert str(found) == (
        "greeter.instruction:15: warning[WEFT101] `{city}` has no value and is sent as written;"
        " the state keys that exist: `town`, `who`\n"
        "  hint: put it into state, or make it optional: `{city?}`"
    )


@pytest.mark.parametrize(
    ("agent", "config"),
    [
        (Agent("greeter", instruction=GREETER.instruction, on_missing="error"), None),
        (GREETER, RunConfig(on_missing="error")),
        (GREETER, RunConfig(strict=True)),
    ],
)
def test_T4_on_missing_error_names_agent_variable_and_keys(
    agent: Agent, config: RunConfig | None
) -> None:
    with pytest.raises(MissingVariable) as caught:
        weft.compile(agent, state={"who": "Ada", "town": "Oslo"}, config=config)
    assert caught.value.where == "greeter.instruction:15"
    for named in ("{city}", "`town`", "`who`", "{city?}"):
        assert named in str(caught.value)


def test_T4_on_missing_empty_drops_the_placeholder_in_silence() -> None:
    compiled = weft.compile(
        GREETER, state={"who": "Ada"}, config=RunConfig(on_missing="empty"), message="Hi"
    )
    assert compiled.system == "You are greeter.\n\nGreet Ada in ."
    assert not compiled.diagnostics


def test_T4_the_run_decides_over_the_agent() -> None:
    strict = Agent("greeter", instruction="{who}", on_missing="error")
    kept = weft.compile(strict, config=RunConfig(on_missing="keep"))
    assert kept.system == "You are greeter.\n\n{who}"


def test_T4_a_missing_artifact_is_reported_as_one() -> None:
    agent = Agent("bot", model="gemini-flash-latest", instruction="Read {artifact.cv}.")
    (found,) = weft.compile(agent, artifacts={"letter": ""}, message="Hi").diagnostics
    assert "the artifacts that exist: `letter`" in found.message
    assert "artifacts" in found.hint


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("text", "text"),
        ("", ""),
        (False, "false"),
        (True, "true"),
        (0, "0"),
        (1.5, "1.5"),
        ([1, "ä"], '[1,"ä"]'),
        ({"b": 1, "a": [None]}, '{"b":1,"a":[null]}'),
        ([], "[]"),
        (None, "{v}"),
        ("NUL \0 stays", "NUL \0 stays"),
    ],
)
def test_T5_values_are_inserted_as_text_or_compact_json(value: Json, expected: str) -> None:
    assert substitute_vars("{v}", {"v": value}) == expected
    compiled = weft.compile(Agent("bot", instruction="<{v}>"), state={"v": value})
    assert compiled.system == f"You are bot.\n\n<{expected}>"


def test_T5_none_counts_as_missing() -> None:
    assert substitute_vars("[{v?}][{order.note?}]", {**STATE, "v": None}) == "[][]"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (object(), "an object is not a JSON value"),
        (float("nan"), "nan is not a JSON number"),
        ({"a": [{1: 2}]}, "the key 1 is not a string"),
    ],
)
def test_T5_a_value_that_is_not_json_is_refused_by_name(value: object, reason: str) -> None:
    with pytest.raises(SessionError, match=reason) as caught:
        weft.compile(Agent("bot", instruction="{v}"), state={"v": value})  # type: ignore[dict-item]
    assert caught.value.where.startswith("state.v")


@pytest.mark.parametrize("inserted", ["{name}", "{{name}}", "{absent}", "}{", '{"name": {name}}'])
def test_T6_an_inserted_value_is_never_scanned_again(inserted: str) -> None:
    assert substitute_vars("<{v}>", {"v": inserted, "name": "Ada"}) == f"<{inserted}>"
    assert substitute_vars("{v}name}", {"v": "{", "name": "Ada"}) == "{name}"


braces = st.text(alphabet=st.sampled_from('{}{}abk .:?[]01-"_ \t\n'), max_size=40)
templates = st.lists(
    braces | st.sampled_from(["{key}", "{{key}}", "{a.b[0]?}", "{artifact.x}", "{ app:k }"]),
    max_size=6,
).map("".join)


@given(st.lists(st.sampled_from(NOT_PLACEHOLDERS)), st.sampled_from([" ", "\n", " | ", "; "]))
def test_T2_text_without_a_valid_placeholder_is_unchanged(texts: list[str], between: str) -> None:
    text = between.join(texts)
    assert substitute_vars(text, STATE) == text


@given(st.text(alphabet=st.characters(exclude_characters="{")))
def test_T2_text_without_an_opening_brace_is_unchanged(text: str) -> None:
    assert substitute_vars(text, STATE) == text


@given(templates)
def test_T4_missing_variables_are_left_as_they_are(text: str) -> None:
    rendered = render(parse(text), {})
    for piece in rendered:
        if piece.variable is not None and not piece.variable.optional:
            assert piece.text == text[piece.start : piece.end]


@given(templates, st.text(max_size=20))
def test_T6_substituting_never_rescans(text: str, value: str) -> None:
    """Each variable gives its value and each other piece its own text, whatever they contain."""
    state: dict[str, Json] = {"key": value, "a": value, "k": value, "b": value}
    expected = [
        value if piece.variable is not None and not piece.missing else piece.text
        for piece in render(parse(text), state)
    ]
    assert substitute_vars(text, state) == "".join(expected)


@given(templates)
def test_spans_tile_the_source_exactly(text: str) -> None:
    template = parse(text)
    assert "".join(text[piece.start : piece.end] for piece in template.pieces) == text
    ends = [0, *(piece.end for piece in template.pieces)]
    assert [piece.start for piece in template.pieces] == ends[:-1]
    for variable in template.variables:
        assert text[variable.start] == "{"
        assert text[variable.end - 1] == "}"


def test_T2_an_index_longer_than_any_list_is_text() -> None:
    text = "{a[" + "9" * 5000 + "]}"
    assert substitute_vars(text, {"a": [1]}) == text


@pytest.mark.parametrize("piece", ["{", "{a", "{{a", "{a.b", "{a[0", "{ ", "{{", "}", "{a}}{"])
def test_a_megabyte_of_braces_is_parsed_in_linear_time(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    check_linear(parse, text)
    assert parse(text).source == text


def test_a_template_is_parsed_once() -> None:
    assert parse("Parsed {once}.") is parse("Parsed {once}.")
