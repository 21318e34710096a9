"""Pages of recordings as a browser shows them: on a desk, on a phone, and for everybody."""

import json
from pathlib import Path

from tests.server.browser import browsing, find_serious, needs_browser, watched
from weft.inspector import Inspection
from weft.inspector.export import export
from weft.recordings.read import read_recordings


@needs_browser
def test_the_page_of_a_recording_fits_and_is_called_after_its_first_words(tmp_path: Path) -> None:
    long = "\n\n".join(f"Line {n} of a long answer, which is read by rolling." for n in range(80))
    messages = [
        {"role": "user", "content": "<environment_context>x</environment_context>"},
        {"role": "user", "content": "Why does the parser fail on Windows and nowhere else?"},
        {"role": "assistant", "content": long},
    ]
    run = {"id": "ses_" + "0123456789abcdef" * 3, "messages": messages, "model": "gpt-5"}
    (recording,) = read_recordings(json.dumps(run).encode(), name="chat.json")
    path = tmp_path / "page.html"
    path.write_text(export(Inspection.of_recording(recording), key="1"), "utf-8")
    with browsing() as browser:
        for width, scheme in ((1440, "light"), (390, "dark")):
            with watched(browser, color_scheme=scheme) as page:
                page.set_viewport_size({"width": width, "height": 900})
                page.goto(path.as_uri())
                page.wait_for_selector(".answer .said")
                assert page.text_content("h1").startswith("Why does the parser fail")
                assert page.is_visible("header code.id") == (width > 800)
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                assert not find_serious(page)
