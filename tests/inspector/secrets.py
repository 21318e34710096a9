"""A session with values that its agents redact or withhold, planted wherever a session has text."""

import asyncio
import re

from weft import Agent, C, Runner, Sequence, Session, tool
from weft.testing import ScriptedModel, call

KEY = "sk-ant-api03-" + "a1B2" * 12
PLANTED = (
    "jane@example.org",
    "eve@example.com",
    "boss@example.net",
    "fay@example.edu",
    "EMP-1234",
    KEY,
    "pin-77001",
    "zebra-crossing-42",
)
"""Who says it: the user, a tool, the state, an error, all, the user, an argument, a label."""

LONG = "and so on, " * 17


@tool(confirm=lambda args, ctx: args["who"].startswith("ask"))
def find(who: str, pin: str) -> dict[str, object]:
    """Find somebody."""
    if who.startswith("fail"):
        raise ValueError("nobody is called fay@example.edu or EMP-1234")
    return {"mail": "eve@example.com", "badge": "EMP-1234", "notes": ["eve@example.com"] * 40}


def guarded_agent(name: str = "bot", *, model: str = "claude-opus-5", dialect: str = "") -> Agent:
    """An agent that says and calls what it may not see."""
    script: list[object] = []
    for turn in range(5):
        who = "fail" if turn == 2 else "jane@example.org eve@example.com"
        script += [
            call("find", who=who, pin="pin-77001"),
            f"Turn {turn}: I wrote to jane@example.org for EMP-1234 with {KEY}.",
        ]
    script += [call("find", who="ask jane@example.org", pin="pin-77001")]
    return Agent(
        name,
        model=ScriptedModel(script, name=model, dialect=dialect or "anthropic"),
        instruction="You work for {owner}. The code is {code}.",
        tools=[find],
    ).sees(
        C.window(2)
        .redact("email", "api_key", re.compile(r"\bEMP-\d{4}\b"), fields=["pin"])
        .label("secret", "code")
    )


def open_agent() -> Agent:
    """One that redacts nothing: it is sent all that the log has."""
    return Agent("clerk", model=ScriptedModel(["Noted for jane@example.org."] * 9, name="gpt-5"))


STATE = {
    "owner": "boss@example.net",
    "code": "zebra-crossing-42",
    "card": {"pin": "pin-77001", "of": ["EMP-1234"]},
}


async def talk(runner: Runner, turns: int = 6) -> Session:
    """The user says what it should not, in messages that are cut in the middle of a value."""
    for turn in range(turns):
        text = f"{turn}: I am {LONG}jane@example.org, badge EMP-1234, key {KEY}"
        await runner.run(text, session_id="s", state=STATE if turn == 0 else None)
    return await runner.session(session_id="s")


def talked(root: Agent | Sequence, turns: int = 6) -> Session:
    """The session of such a talk."""
    return asyncio.run(talk(Runner(root), turns))


def leaks(text: str) -> list[str]:
    """The planted values, and halves of them, that stand in a text."""
    halves = (
        "jane@exa",
        "eve@exa",
        "boss@exa",
        "fay@exa",
        "a1B2a1B2",
        "EMP-1",
        "pin-77",
        "zebra-c",
    )
    return [one for one in (*PLANTED, *halves) if one in text]
