"""Likeness in meaning comes from vectors on this machine, and from nothing else."""

import subprocess
import sys

import pytest

from weft.meaning import is_installed, likeness

pytestmark = pytest.mark.skipif(not is_installed(), reason="wordllama is not installed")


def test_what_is_meant_counts_and_not_the_letters() -> None:
    weather, mail = likeness("Will it rain?", ["weather forecast", "send an email"])
    assert weather > mail


def test_a_text_is_most_like_itself() -> None:
    (same,) = likeness("Book a flight", ["Book a flight"])
    assert same == pytest.approx(1)


def test_nothing_is_like_nothing() -> None:
    assert likeness("", ["weather"]) == [0.0]


def test_no_client_for_http_comes_along() -> None:
    code = (
        "import sys; from weft.meaning import likeness; likeness('a', ['b']);"
        " sys.exit('requests' in sys.modules or 'wordllama' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
