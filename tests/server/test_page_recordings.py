"""Pages of recordings as a browser shows them: on a desk, on a phone, and for everybody."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.server.browser import browsing, find_serious, needs_browser, watched
from weft import Agent, Runner
from weft.inspector import Inspection
from weft.inspector.export import export
from weft.recordings.read import read_recordings
from weft.testing import ScriptedModel


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
                assert page.inner_text("header .totals").startswith("1 call · ")
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                assert not find_serious(page)


@needs_browser
def test_calls_that_failed_stand_in_the_strip_and_the_keyboard_reaches_them(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    (recording,) = read_recordings(log_with_failures(), name="log.jsonl")
    path.write_text(export(Inspection.of_recording(recording), key="1"), "utf-8")
    with browsing() as browser:
        for width, scheme in ((1280, "dark"), (700, "light"), (390, "light")):
            with watched(browser, color_scheme=scheme) as page:
                page.set_viewport_size({"width": width, "height": 900})
                page.goto(path.as_uri())
                page.wait_for_selector("[data-testid=failed]")
                assert page.inner_text("[data-testid=step]") == "5 / 5"
                for step, words in ((2, "429"), (4, "status 503"), (2, "429")):
                    page.focus("[data-testid=failed]")
                    page.keyboard.press("Enter")
                    page.locator(".answer .red", has_text=words).wait_for()
                    assert page.inner_text("[data-testid=step]") == f"{step} / 5"
                    assert "failed: " in page.inner_text("[data-testid=caption]")
                assert page.inner_text("[data-testid=failed]") == "2 calls failed"
                if width < 600:
                    page.click("text=show the strip")
                strip = page.locator("[data-testid=film]")
                assert "failed: rate_limited" in str(strip.get_attribute("aria-valuetext"))
                frames = page.locator(".film path.frame").get_attribute("d")
                assert str(frames).count("M") == 2
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                assert not find_serious(page)


def log_with_failures() -> bytes:
    """A log of five calls, two of which were refused."""
    said: list[dict[str, str]] = []
    lines: list[object] = []

    def ask(status: int, response: object) -> None:
        lines.append(
            {
                "time": 1_790_000_000 + len(lines),
                "status": status,
                "request": {"model": "gpt-5", "messages": [*said]},
                "response": response,
            }
        )

    for number, refusal in enumerate(((), (429, {"error": {"message": "429: wait"}}), (503, None))):
        said.append({"role": "user", "content": f"Question {number}?"})
        if refusal:
            ask(*refusal)
        answer = {"role": "assistant", "content": f"Answer {number}."}
        ask(200, {"id": f"a{number}", "choices": [{"index": 0, "message": answer}]})
        said.append(answer)
    return "\n".join(json.dumps(line) for line in lines).encode()


@needs_browser
async def test_each_origin_of_a_request_has_a_name_of_its_own(tmp_path: Path) -> None:
    agent = Agent("bot", model=ScriptedModel(["Hello."], name="gpt-5"), instruction="Be brief.")
    runner = Runner(agent)
    await runner.run("Hi", session_id="s")
    own = Inspection(agent, await runner.session(session_id="s"))
    system = {"role": "system", "content": "Be brief."}
    answer = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi."}}]}
    asked = {"model": "gpt-5", "messages": [system, {"role": "user", "content": "Hello"}]}
    line = json.dumps({"request": asked, "response": answer})
    (recording,) = read_recordings(line.encode(), name="log.jsonl")

    def names(name: str, inspection: Inspection) -> list[str]:
        path = tmp_path / f"{name}.html"
        path.write_text(export(inspection, key="1"), "utf-8")
        with browsing() as browser, watched(browser) as page:
            page.goto(path.as_uri())
            page.wait_for_selector(".origins button")
            return page.locator(".origins button span.grow").all_inner_texts()

    with ThreadPoolExecutor(1) as pool:
        for name, inspection in (("own", own), ("log", Inspection.of_recording(recording))):
            listed = pool.submit(names, name, inspection).result()
            assert len(set(listed)) == len(listed), listed
            assert "the provider's format" in listed
            wanted = "a blank line between two texts" if name == "own" else "system text"
            assert wanted in listed
