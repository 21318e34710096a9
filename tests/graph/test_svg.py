"""Drawn pictures: well-formed, nothing on top of anything else, whatever the flow."""

import re
import xml.etree.ElementTree as ET
from itertools import combinations
from typing import NamedTuple

import pytest

from tests.graph.flows import WRITTEN, Wild, agent
from weft import Gate, Parallel, Route, Sequence
from weft.compiler.report import columns
from weft.graph import graph_of, to_svg
from weft.graph.svg import LETTER, WIDEST

SVG = "{http://www.w3.org/2000/svg}"


class Area(NamedTuple):
    """A rectangle of a picture, and what it is."""

    left: float
    top: float
    right: float
    bottom: float
    what: str

    def overlaps(self, other: "Area") -> bool:
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom

    def holds(self, other: "Area") -> bool:
        across = self.left <= other.left and other.right <= self.right
        return across and self.top <= other.top and other.bottom <= self.bottom


class Picture:
    """A picture as it is read back: its boxes, frames and texts, on the whole page."""

    def __init__(self, text: str) -> None:
        self.root = ET.fromstring(text)
        self.boxes: list[Area] = []
        self.frames: list[Area] = []
        self.texts: list[Area] = []
        self._read(self.root, 0.0, 0.0)
        _, _, width, height = (float(n) for n in self.root.attrib["viewBox"].split())
        self.page = Area(0, 0, width, height, "page")

    def _read(self, element: ET.Element, right: float, down: float) -> None:
        moved = re.fullmatch(r"translate\((\S+) (\S+)\)", element.get("transform", ""))
        if moved:
            right, down = right + float(moved[1]), down + float(moved[2])
        for child in element:
            kind = child.get("class", "").split(" ")[0]
            if child.tag == f"{SVG}rect" and kind in ("box", "frame"):
                held = self.boxes if kind == "box" else self.frames
                held.append(_rectangle(child, right, down))
            if child.tag == f"{SVG}text":
                self.texts.append(_text(child, right, down))
            self._read(child, right, down)

    def check(self) -> None:
        """Boxes and texts lie beside each other, frames beside or inside each other."""
        for one, two in combinations(self.boxes, 2):
            assert not one.overlaps(two), (one, two)
        for one, two in combinations(self.texts, 2):
            assert not one.overlaps(two), (one, two)
        for one, two in combinations(self.frames, 2):
            assert not one.overlaps(two) or one.holds(two) or two.holds(one), (one, two)
        for frame in self.frames:
            for box in self.boxes:
                assert not frame.overlaps(box) or frame.holds(box), (frame, box)
        for text in self.texts:
            for box in (*self.boxes, *self.frames):
                assert not box.overlaps(text) or box.holds(text), (box, text)
        for area in (*self.boxes, *self.frames, *self.texts):
            assert self.page.holds(area), area


def _rectangle(element: ET.Element, right: float, down: float) -> Area:
    x, y = float(element.attrib["x"]) + right, float(element.attrib["y"]) + down
    width, height = float(element.attrib["width"]), float(element.attrib["height"])
    return Area(x, y, x + width, y + height, element.attrib["class"])


def _text(element: ET.Element, right: float, down: float) -> Area:
    words = element.text or ""
    width = columns(words) * LETTER - 1.0
    x, y = float(element.attrib["x"]) + right, float(element.attrib["y"]) + down
    left = x - width / 2 if element.get("text-anchor") == "middle" else x
    return Area(left, y - 10.0, left + width, y + 3.0, words)


@pytest.mark.parametrize("title", WRITTEN)
def test_a_written_flow_is_drawn_without_overlaps(title: str) -> None:
    make, inputs = WRITTEN[title]
    graph = graph_of(make(), inputs=inputs)
    picture = Picture(to_svg(graph))
    picture.check()
    assert len(picture.boxes) == len(graph.vertices)


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_a_hundred_random_flows_are_drawn_without_overlaps(first: int) -> None:
    for seed in range(first, first + 20):
        graph = graph_of(Wild(seed).node(1 + seed % 60), inputs=["raw"])
        picture = Picture(to_svg(graph))
        picture.check()
        assert len(picture.boxes) == len(graph.vertices), seed


def test_overlaps_would_be_found() -> None:
    text = to_svg(graph_of(WRITTEN["lanes"][0]()))
    boxes = re.findall(r'<rect class="box agent" x="([\d.]+)"', text)
    assert len(boxes) == 3
    with pytest.raises(AssertionError):
        Picture(text.replace(f'agent" x="{boxes[1]}"', f'agent" x="{boxes[0]}"')).check()


def test_many_lanes_go_into_rows() -> None:
    lanes = Parallel(*(agent(f"a_rather_long_name_{n}", "{topic}") for n in range(40)))
    picture = Picture(to_svg(graph_of(lanes, inputs=["topic"])))
    picture.check()
    assert picture.frames[0].right - picture.frames[0].left <= WIDEST + 100
    assert len({box.top for box in picture.boxes}) > 3


def test_sixty_agents_stand_one_below_the_other() -> None:
    picture = Picture(to_svg(graph_of(Sequence(*(agent(f"a{n}") for n in range(60))))))
    picture.check()
    tops = [box.top for box in picture.boxes]
    assert tops == sorted(set(tops))
    assert picture.page.right < 1000


def test_names_and_texts_are_escaped() -> None:
    nasty = '<script>alert("x")</script> & \x1b[31m \ufffe ]]> 漢字 ' + "long " * 40
    flow = Gate("ask", question=nasty, choices=["<b>", "&"]) >> Route("ask").eq(nasty, agent("a"))
    text = to_svg(graph_of(flow))
    picture = Picture(text)
    picture.check()
    assert "<script" not in text
    assert "\x1b" not in text
    assert any("<script>alert" in area.what for area in picture.texts)


def test_problems_are_red_and_have_their_codes() -> None:
    flow = agent("triage").writes("intent") >> agent("booker", "{intent} {intnet} {price}")
    text = to_svg(graph_of(flow))
    root = ET.fromstring(text)
    red = [e for e in root.iter() if "problem" in e.get("class", "").split(" ")]
    said = [e.text or "" for e in red if e.tag == f"{SVG}text"]
    assert sum(e.tag == f"{SVG}rect" for e in red) == 1
    assert any("{intnet}" in words and "WEFT105" in words for words in said)
    assert any(words.startswith("booker.instruction:") for words in said)
    assert not any("{intent}" in words and "WEFT" in words for words in said[:3])


def test_a_clean_flow_has_nothing_red() -> None:
    root = ET.fromstring(to_svg(graph_of(WRITTEN["a sequence"][0]())))
    assert not [e for e in root.iter() if "problem" in e.get("class", "").split(" ")]


def test_it_is_readable_in_the_dark_and_leaves_the_page_around_it_alone() -> None:
    text = to_svg(graph_of(agent("helper")))
    style = text.partition("<style>")[2].partition("</style>")[0]
    assert "prefers-color-scheme: dark" in style
    rules = re.sub(r"@media[^{]*\{", "", style)
    for selector in re.findall(r"([^{}]+)\{[^{}]*\}", rules):
        assert all(part.strip().startswith(".weft") for part in selector.split(",")), selector
    assert "url(" not in text
    assert "href" not in text
