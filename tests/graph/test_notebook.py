"""A notebook shows agents and flows by their picture, and importing weft stays light."""

import subprocess
import sys
import xml.etree.ElementTree as ET

from tests.cli.run import environment
from weft import Agent, Route


def test_a_notebook_shows_the_picture_of_a_flow() -> None:
    flow = Agent("triage").writes("intent") >> Route("intent").eq("a", Agent("booker"))
    text = flow._repr_svg_()
    assert text is not None
    assert ET.fromstring(text).tag.endswith("svg")
    assert "route intent" in text


def test_a_notebook_shows_the_picture_of_an_agent() -> None:
    text = Agent("helper", instruction="Help with {topic?}")._repr_svg_()
    assert text is not None
    assert "reads {topic?}" in text


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    return done.stdout.strip()


def test_declaring_agents_loads_nothing_that_draws() -> None:
    code = (
        "import sys; from weft import Agent; Agent('a') >> Agent('b')\n"
        "print([n for n in sys.modules if n.startswith(('weft.graph', 'weft.checker'))])"
    )
    assert run(code) == "[]"


def test_where_nobody_can_draw_only_the_text_is_shown() -> None:
    code = "from weft.declare import Agent; a = Agent('a') >> Agent('b'); print(a._repr_svg_(), a)"
    assert run(code) == "None (a >> b)"
