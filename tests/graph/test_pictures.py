"""A dozen flows as Mermaid and as text, each as it stands in pictures.md."""

import re
from pathlib import Path

import pytest

from tests.graph.flows import WRITTEN, draw_wild
from weft.compiler.report import columns
from weft.graph import graph_of, to_mermaid, to_text

PAGE = Path(__file__).with_name("pictures.md")
SECTION = re.compile(r"^## (.+?)\n\n```text\n(.*?)```\n\n```mermaid\n(.*?)```\n", re.M | re.S)
EXPECTED = {title: (text, mermaid) for title, text, mermaid in SECTION.findall(PAGE.read_text())}


def test_the_page_shows_every_flow() -> None:
    assert list(EXPECTED) == list(WRITTEN)


@pytest.mark.parametrize("title", WRITTEN)
def test_the_text_is_as_the_page_shows_it(title: str) -> None:
    make, inputs = WRITTEN[title]
    assert to_text(graph_of(make(), inputs=inputs)) == EXPECTED[title][0]


@pytest.mark.parametrize("title", WRITTEN)
def test_the_mermaid_is_as_the_page_shows_it(title: str) -> None:
    make, inputs = WRITTEN[title]
    assert to_mermaid(graph_of(make(), inputs=inputs)) == EXPECTED[title][1]


@pytest.mark.parametrize("width", [100, 60, 40])
def test_no_line_is_wider_than_the_page(width: int) -> None:
    for seed in range(40):
        text = to_text(draw_wild(seed, 30), width=width)
        assert max(columns(line) for line in text.splitlines()) <= width, seed
        assert "\x1b" not in text


def test_every_box_of_a_random_flow_stands_in_the_text() -> None:
    for seed in range(40):
        graph = draw_wild(seed, 12)
        text = to_text(graph, width=4000)
        for vertex in graph.vertices:
            assert vertex.title in text, seed


def test_plain_text_is_ascii() -> None:
    for seed in range(20):
        text = to_text(draw_wild(seed, 20), ascii_only=True)
        assert text.isascii()
        assert max(len(line) for line in text.splitlines()) <= 100, seed


def test_mermaid_labels_hold_no_markup() -> None:
    for seed in range(40):
        text = to_mermaid(draw_wild(seed, 30))
        for line in text.splitlines():
            if line.lstrip().startswith("%%"):
                assert "{" not in line
                continue
            assert line.count('"') in (0, 2), line
            for label in re.findall(r'"(.*)"', line):
                assert not re.search(r"[<>&`]", label.replace("<br>", "")), line


def test_mermaid_declares_what_it_connects() -> None:
    for seed in range(40):
        text = to_mermaid(draw_wild(seed, 30))
        declared = set(re.findall(r"^ *(?:subgraph )?(\w+)[\[({]", text, re.M))
        ends = re.findall(r'^ *(\w+) (?:-->|-\.->)(?:\|".*"\|)? (\w+)$', text, re.M)
        assert ends
        assert {end for pair in ends for end in pair} <= declared
        opened = len(re.findall(r"^ *subgraph ", text, re.M))
        assert opened == len(re.findall(r"^ *end$", text, re.M))


def test_a_long_conversation_is_drawn_from_the_nearest_speaker_only() -> None:
    from tests.graph.flows import agent
    from weft import Sequence

    graph = graph_of(Sequence(*(agent(f"a{n}") for n in range(30))))
    assert sum(edge.channel == "conversation" for edge in graph.edges) == 30 * 29 // 2
    text = to_mermaid(graph)
    assert text.count("conversation") == 29
    assert "hears a26, a27, a28 +26" in text
