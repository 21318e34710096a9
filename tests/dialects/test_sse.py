"""Server-sent events: the same events, however the bytes are cut."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dialects.answers import byte_by_byte, in_pieces
from weft.dialects.stream import Events


def events(*chunks: bytes) -> list[tuple[str, str]]:
    reader = Events()
    return [event for chunk in chunks for event in reader.feed(chunk)] + reader.end()


def test_an_event_has_a_name_and_data() -> None:
    assert events(b'event: ping\ndata: {"a":1}\n\ndata: {"b":2}\n\n') == [
        ("ping", '{"a":1}'),
        ("", '{"b":2}'),
    ]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_end_in_any_of_three_ways(newline: str) -> None:
    text = 'event: a\ndata: {"x":1}\n\n: a comment\n\ndata: {"y":2}\n\ndata:{"z":3}\n\n'
    expected = [("a", '{"x":1}'), ("", '{"y":2}'), ("", '{"z":3}')]
    data = text.replace("\n", newline).encode()
    assert events(data) == expected
    assert events(*byte_by_byte(data)) == expected


def test_several_data_lines_are_one_text() -> None:
    assert events(b'data: {"a":\ndata: 1}\n\n') == [("", '{"a":\n1}')]


def test_comments_ids_and_empty_events_are_left_out() -> None:
    assert events(b": hello\n\nid: 7\nretry: 10\n\nevent: ping\n\ndata:\n\ndata: {}\n\n") == [
        ("", "{}")
    ]


def test_a_byte_order_mark_is_skipped_once() -> None:
    data = b'\xef\xbb\xbfdata: {"a":1}\n\n'
    assert events(data) == [("", '{"a":1}')]
    assert events(*byte_by_byte(data)) == [("", '{"a":1}')]


def test_a_character_may_be_cut_in_two() -> None:
    data = 'data: {"a":"Größe 🚀"}\n\n'.encode()
    for at in range(len(data)):
        assert events(data[:at], data[at:]) == [("", '{"a":"Größe 🚀"}')]


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert events(b'data: {"a":"\xff"}\n\n') == [("", '{"a":"\ufffd"}')]


def test_done_is_no_event_but_is_remembered() -> None:
    reader = Events()
    assert reader.feed(b'data: {"a":1}\n\n') == [("", '{"a":1}')]
    assert not reader.done
    assert reader.feed(b"data: [DONE]\n\n") == []
    assert reader.done


def test_an_event_comes_as_soon_as_its_empty_line_does() -> None:
    reader = Events()
    assert reader.feed(b'data: {"a":1}\r\n\r') == [("", '{"a":1}')]
    assert reader.feed(b'\ndata: {"b":2}\n') == []
    assert reader.feed(b"\n") == [("", '{"b":2}')]


def test_the_last_event_may_lack_its_empty_line() -> None:
    reader = Events()
    assert reader.feed(b'data: {"a":1}\n\ndata: {"b":2}') == [("", '{"a":1}')]
    assert reader.end() == [("", '{"b":2}')]
    assert reader.end() == []


def test_a_return_within_a_line_ends_it() -> None:
    reader = Events()
    reader.feed(b"data: {}\n\n")
    assert reader.feed(b'data: {"a":1}\rid: 4\n\n') == [("", '{"a":1}')]


def test_a_huge_event_byte_by_byte_takes_no_longer_than_it_must() -> None:
    data = b'data: {"a":"' + b"x" * 300_000 + b'"}\n\n'
    reader = Events()
    found = [event for chunk in byte_by_byte(data) for event in reader.feed(chunk)]
    assert len(found[0][1]) == 300_008


_PIECES = st.sampled_from(
    ["event: a", "data: {", "data:}", 'data: {"k":"ü🚀"}', ": note", "", "", "id: 1", "data",
     "[DONE]", "data: [DONE]", "\ufeff", "data: {}"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(_PIECES, st.sampled_from(["\n", "\r\n", "\r"]))),
    st.integers(0, 40),
    st.integers(),
)
def test_no_cut_changes_the_events(lines: list[tuple[str, str]], cuts: int, seed: int) -> None:
    data = "".join(text + newline for text, newline in lines).encode()
    whole = events(data)
    assert events(*in_pieces(data, cuts, seed)) == whole
    assert events(*byte_by_byte(data)) == whole


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.dictionaries(st.text(), st.text(), min_size=1), max_size=6),
    st.sampled_from(["\n", "\r\n"]),
)
def test_what_a_server_says_is_what_is_read(said: list[dict[str, str]], newline: str) -> None:
    data = "".join(f"data: {json.dumps(each)}{newline}{newline}" for each in said).encode()
    assert [json.loads(text) for _, text in events(data)] == said
