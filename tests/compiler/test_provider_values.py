"""T7: what a provider read and put into its text is a value; its own text is a template."""

import json
from pathlib import Path
from typing import Any

import pytest

import weft
from weft import Agent, Runner, Session
from weft.testing import ScriptedModel

SECRET = "hunter2-never-send"
STATE: dict[str, Any] = {
    "secret": SECRET,
    "topic": "rain",
    "note": "Show {secret} now",
    "bare": "{secret}",
    "spaced": "  { secret }  ",
    "escaped": "{{secret}}",
    "optional": "{secret?}",
    "deep": {"a": ["x {secret} y", {"b": "{secret}"}]},
    "key": {"{secret}": 1},
    "{secret}": "a key",
    "open": "{sec",
    "close": "ret}",
    "artifact": "{artifact.file}",
    "big": "x" * 500 + "{secret}" + "y" * 500,
}

PROVIDERS: dict[str, Any] = {
    "f-string": lambda c: f"On {{topic}}: {c.state['note']}",
    "get": lambda c: "On {topic}: " + c.state.get("bare"),
    "format": lambda c: "On {{topic}}: {}".format(c.state["note"]),
    "percent": lambda c: "On {topic}: %s" % c.state["note"],  # noqa: UP031
    "join": lambda c: "\n".join(["On {topic}:", *(str(v) for v in c.state.values())]),
    "items": lambda c: "On {topic}: " + "; ".join(f"{k}={v}" for k, v in c.state.items()),
    "dict": lambda c: f"On {{topic}}: {dict(c.state)}",
    "repr": lambda c: f"On {{topic}}: {c.state}",
    "json": lambda c: "On {topic}: " + json.dumps(dict(c.state)),
    "unpacked": lambda c: "On {topic}: " + json.dumps({**c.state}, indent=2),
    "merged": lambda c: "On {topic}: " + str(c.state | {"x": 1}),
    "deep": lambda c: "On {topic}: " + c.state["deep"]["a"][0] + c.state["deep"]["a"][1]["b"],
    "keys": lambda c: "On {topic}: " + str(list(c.state["key"])),
    "names": lambda c: "On {topic}: " + ", ".join(c.state),
    "spaced": lambda c: "On {topic}: " + c.state["spaced"].strip(),
    "optional": lambda c: "On {topic}: " + c.state["optional"],
    "cut": lambda c: "On {topic}: " + c.state["note"][:20],
    "two": lambda c: "On {topic}: " + c.state["open"] + c.state["close"],
    "half": lambda c: "On {topic}: " + c.state["open"] + "ret}",
    "other half": lambda c: "On {topic}: {sec" + c.state["close"],
    "big": lambda c: "On {topic}: " + c.state["big"],
    "message": lambda c: "On {topic}: " + c.user_content.text,
    "events": lambda c: "On {topic}: " + " ".join(e.text for e in c.events),
    "artifact": lambda c: "On {topic}: " + c.artifacts["file"],
    "asks": lambda c: "On {topic}: " + c.state["artifact"],
}


@pytest.mark.parametrize("name", PROVIDERS)
@pytest.mark.parametrize("field", ["instruction", "global_instruction"])
def test_t7_what_a_provider_read_is_never_expanded(name: str, field: str) -> None:
    state = {k: v for k, v in STATE.items() if k != "secret"} | {"secret": SECRET}
    read = {k: v for k, v in state.items() if k != "secret"}
    options: dict[str, Any] = {field: PROVIDERS[name]}
    bot = Agent("bot", model="gemini-3-pro", **options)
    whole = name in ("join", "items", "dict", "repr", "json", "unpacked", "merged")
    compiled = weft.compile(
        bot,
        state=read if whole else state,
        message="Please tell {secret}",
        artifacts={"file": f"{SECRET if name == 'asks' else ''} {{secret}}"},
    )
    text = compiled.prompt.system_text
    assert "On rain:" in text
    assert SECRET not in text
    assert "WEFT101" not in {found.code for found in compiled.diagnostics}


def test_t7_the_escape_in_a_value_stays_as_it_is() -> None:
    bot = Agent("bot", instruction=lambda c: "Say {{topic}} on {topic}: " + c.state["escaped"])
    text = weft.compile(bot, state=STATE, message="hi").prompt.system_text
    assert "Say {topic} on rain: {{secret}}" in text


def test_t7_what_was_not_read_hinders_nothing() -> None:
    bot = Agent("bot", instruction=lambda c: f"{{topic}} {{secret}} {c.state['topic']}")
    compiled = weft.compile(bot, state=STATE, message="{secret}")
    assert f"rain {SECRET} rain" in compiled.prompt.system_text
    assert not compiled.diagnostics


def test_t7_a_placeholder_that_a_value_has_too_is_told_of() -> None:
    bot = Agent("bot", instruction=lambda c: "{secret} " + c.state["note"])
    compiled = weft.compile(bot, state=STATE, message="hi")
    assert "{secret} Show {secret} now" in compiled.prompt.system_text
    assert "WEFT610" in {found.code for found in compiled.diagnostics}


async def test_t7_holds_for_async_providers_and_when_a_request_is_rebuilt(tmp_path: Path) -> None:
    async def told(ctx: Any) -> str:
        return f"On {{topic}}: {ctx.state['note']} {ctx.user_content.text}"

    def said(ctx: Any) -> str:
        return f"On {{topic}}: {ctx.state['bare']}"

    for provider in (told, said):
        model = ScriptedModel(["fine", "fine"])
        bot = Agent("bot", model=model, instruction=provider)
        async with Runner(bot, store=f"sqlite:///{tmp_path}/{provider.__name__}.db") as runner:
            state = {k: STATE[k] for k in ("secret", "topic", "note", "bare")}
            await runner.run(session_id="s", message="tell {secret}", state=state)
            result = await runner.run(session_id="s", message="again {{secret}}")
        assert SECRET not in json.dumps(model.wires)
        assert "On rain:" in json.dumps(model.wires)
        log = Session.from_json(result.session.to_json())
        for sent, index in zip(model.wires, (1, 3), strict=True):
            event = log.events[index]
            recorded = (event.custom_metadata or {})["weft"]["instructions"]  # type: ignore[index,call-overload]
            again = weft.compile(bot, session=log.before(index), recorded=recorded)  # type: ignore[arg-type]
            assert again.wire == sent


def test_the_state_of_a_provider_is_a_mapping_to_read() -> None:
    seen: list[Any] = []

    def look(ctx: Any) -> str:
        state = ctx.state
        seen.extend([state == {"a": 1}, "a" in state, len(state), list(state), state.get("b", 2)])
        seen.append({"z": 0} | state)
        with pytest.raises(TypeError):
            state["a"] = 2
        return ""

    weft.compile(Agent("bot", instruction=look), state={"a": 1}, message="hi")
    assert seen == [True, True, 1, ["a"], 2, {"z": 0, "a": 1}]
