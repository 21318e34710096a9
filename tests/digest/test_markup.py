"""Pages: plain markup is read in one go, and says what Python's own parser says."""

import random

import pytest

from weft.digest.lines import Line
from weft.digest.texts import _Page, markup_lines  # pyright: ignore[reportPrivateUsage]

FRAGMENTS = (
    "<div>", "</div>", "<p class='x'>", "</p>", '<a href="/y?a=1&amp;b=2">', "</a>", "<br>",
    "<br/>", "<br  />", "<img alt='a pic' src=x>", "<h2>", "</h2>", "<h3>Error: timeout</h3>",
    "<script>var a='<b>';</script>", "<script src=a></script>", "<script/>", "</script>",
    "<script>a</scripty></script>", "<style>a</ style>b</style>", "<SCRIPT>q</SCRIPT>",
    "<script>a</\u017fcript>", "</\u017ftyle>",
    "<!-- c -->", "<!-- a -- > b -->", "<!-- a --!> b -->", "<!--a--->", "<!-->", "<!--->",
    "<!doctype html>", '<!DOCTYPE html PUBLIC "a" "b">', "<![CDATA[x]]>", "<?php x ?>", "<nav>",
    "</nav>", "&amp;", "&lt", "&#60;", "&am", "&#x3c", "<", "a<b", "<title>T</title>", "<title>",
    "<title>a<b>c</title>", "</title>", "<textarea>x</textarea>", "<textarea>", "<head>", "</head>",
    "<li>", "<A HREF=foo>", "<a href=foo/>", "<a href=foo/bar>", '<a href="x"title="y">',
    '<a href = "x">', "<A Href=\"1\" href='2'>", "<a href>", "<a href='#x'>",
    "<a href=javascript:x>", '<a href="&#106;x">', "<p", "</ p>", "</", "</>", "<>", "<1>",
    "<a\vb>", "<p\u00a0c>", "</p\u00a0>", '<img alt="q&quot;" >', "<img alt>", "<img alt=''>",
    "<svg><path d='m'/></svg>", "<table>", "<tr>", "<td>", "</td>", "<th>", "<input disabled/>",
    "<iframe src=x></iframe>", "<iframe>x<b></iframe>", "<x-y>", "</x-y>", "<a:b>", "</a.b>",
    "some words", "cannot be found",
)  # fmt: skip


def parsed(text: str) -> list[Line]:
    """The lines of a page that the parser of Python reads from its first letter on."""
    page = _Page()
    page.feed(text)
    page.close()
    page.end_line()
    return page.lines


@pytest.mark.parametrize("seed", range(8))
def test_a_page_is_read_as_the_parser_reads_it(seed: int) -> None:
    some = random.Random(seed)
    for _ in range(400):
        size = some.randint(1, 30)
        text = "".join(some.choice(FRAGMENTS) + some.choice(("", " ", "\n")) for _ in range(size))
        page = _Page()
        page.read(text)
        page.end_line()
        assert page.lines == parsed(text), text


def test_trouble_on_a_page_matters_more_than_other_lines() -> None:
    rows = "".join(f"<p>row {number}</p>" for number in range(20))
    lines = markup_lines(f"<body>{rows}<p>fatal: disk is full</p></body>")
    assert lines[-1] == Line("fatal: disk is full", 12.0)
    assert {line.weight for line in lines[:-1]} == {6.0, 1.0}


@pytest.mark.parametrize("unit", ["<p ", "<a href='", "<!-- ", "</p ", "<![CDATA[", "<a href=\"x'"])
def test_a_page_of_beginnings_is_not_read_to_its_end_from_each_of_them(
    unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    def count(self: _Page, start: int, end: int) -> int:
        nonlocal looks
        looks += end < 0
        return require(self, start, end)

    require = _Page._require_end
    monkeypatch.setattr(_Page, "_require_end", count)
    lines = markup_lines(f"<div>three words here</div>{unit * 5_000}")
    assert lines[0].text == "three words here"
    assert looks <= 51
    assert len(str(lines)) > 10_000
