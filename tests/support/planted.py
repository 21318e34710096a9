"""Secrets planted in every channel of a program, and whether any reached who may not see it.

A keeper who is cleared takes secrets from state, from tools, from an error and from a file, copies
them to wherever a text can stand, and hands over to a clerk who is not cleared.
"""

import base64
import json
import random
import string
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from weft import Agent, C, Part, RunConfig, Runner, tool
from weft.content import Blob
from weft.declare import Policy
from weft.declare.context import ToolContext
from weft.testing import ScriptedModel, call

DIALECTS = ("gemini", "anthropic", "openai-chat", "openai-responses")

POLICIES: tuple[Callable[[], Policy], ...] = (
    C.default,
    C.auto,
    lambda: C.window(3),
    lambda: C.default().compact(results=80, texts=80, to=64),
    lambda: C.default().truncate(40),
    lambda: C.default().summarize(before=1),
    lambda: C.default() + C.state("copied") + C.notes("noted") + C.artifact("file.txt"),
    lambda: C.default().fence(),
    lambda: C.default().dedupe("superseded").fresh(turns=1, stale="compact"),
    lambda: C.default().budget(6000),
)


class Found(NamedTuple):
    """How many secrets there were, those that reached the clerk, and those the keeper missed."""

    planted: int
    reached: list[tuple[str, str]]
    missed: list[str]


def secrets_of(chance: random.Random, count: int) -> list[str]:
    """Secrets of many shapes, none of which occurs by chance."""
    return [_secret(chance, index) for index in range(count)]


def _secret(chance: random.Random, index: int) -> str:
    letters = string.ascii_letters + string.digits
    token = "".join(chance.choices(letters, k=chance.randint(10, 24))) + str(index)
    digits = "".join(chance.choices(string.digits, k=16))
    match index % 10:
        case 0:
            return f"sk-live-{token}"
        case 1:
            return digits
        case 2:
            return f"{token[:6]}.{index}@example-{token[6:9]}.org"
        case 3:
            return f"Frau Dr. {token[:5]} Grün-Öztürk {index}"
        case 4:
            return f'{token[:5]}"quoted\\{token[5:]}/&<{index}>'
        case 5:
            return f"{digits[:4]}-{digits[4:8]}-{digits[8:12]}-{index:04d}"
        case 6:
            return f"пароль {token[:4]} {index} 密码{token[4:8]}"
        case 7:
            return f"the meeting of {token[:6]} is at dock {index} before {token[6:10]}"
        case 8:
            return f"{token}+/{token[::-1]}=="
        case _:
            return f"a{index}b{token.lower()}"


def _spelled(chance: random.Random, secret: str) -> str:
    """A secret as somebody may have copied it."""
    data = secret.encode()
    match chance.randrange(9):
        case 0:
            return secret.upper()
        case 1:
            return secret.lower()
        case 2:
            return base64.b64encode(data).decode()
        case 3:
            return base64.b64encode(b"user:" + data + b"!").decode()
        case 4:
            return base64.urlsafe_b64encode(b"x" + data).decode()
        case 5:
            return urllib.parse.quote(secret, safe="")
        case 6:
            return json.dumps(secret)[1:-1]
        case 7:
            return data.hex()
        case _:
            return secret


def traces(secret: str) -> Iterator[str]:
    """What must not be in a text, all in small letters."""
    data = secret.encode()
    yield secret.casefold()
    yield data.hex()
    yield json.dumps(secret)[1:-1].casefold()
    yield urllib.parse.quote(secret, safe="").casefold()
    for before in range(3):
        whole = base64.b64encode(bytes(before) + data).decode().rstrip("=")
        yield whole[4:-2].casefold()
        yield whole[4:-2].replace("+", "-").replace("/", "_").casefold()


def _leaves(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, held in value.items():
            yield str(key)
            yield from _leaves(held)
    elif isinstance(value, list):
        for held in value:
            yield from _leaves(held)
    else:
        yield json.dumps(value)


async def plant(seed: int, count: int, folder: Path) -> Found:
    """Run the program with so many secrets over three turns, the last one by another process."""
    chance = random.Random(seed)
    dialect = DIALECTS[seed % len(DIALECTS)]
    secrets = secrets_of(chance, count)
    chance.shuffle(secrets)
    parts = [secrets[index::5] for index in range(5)]
    stated, vaulted, failing, filed, written = parts

    def copy() -> str:
        some = chance.sample(secrets, min(6, len(secrets)))
        return " | ".join(f"it is {_spelled(chance, one)} here" for one in some)

    @tool(labels=["secret"])
    def vault() -> dict[str, object]:
        """Open the vault."""
        rows = [{"n": index, "code": code} for index, code in enumerate(vaulted)]
        return {"rows": rows, "deep": {"er": [vaulted[:1]]}}

    @tool(labels=["secret"])
    def broken() -> str:
        """Open what is broken."""
        raise ValueError("; ".join(f"cannot open with [{one}]" for one in failing))

    @tool(labels=["secret"], writes=["found"])
    def write(ctx: ToolContext) -> str:
        """Write something down."""
        ctx.state["found"] = {"list": written}
        return "written"

    @tool(labels=["other"])
    async def file(ctx: ToolContext) -> str:
        """Keep a file."""
        await ctx.save_artifact("file.txt", "\n".join(filed))
        ctx.state["copied"] = copy()
        ctx.state["noted"] = [copy(), {"text": copy()}]
        return "kept"

    def echo(text: str) -> dict[str, object]:
        """Say it again."""
        return {"said": [text, copy()], "more": {copy(): 1}}

    # the clerk declares nothing: the labels are the keeper's
    described = tool(description=f"Echo. {copy()}")(echo)
    schema = {
        "type": "object",
        "properties": {"kind": {"type": "string", "enum": [copy(), "x"], "description": copy()}},
    }

    def program(keeper: ScriptedModel, clerk: ScriptedModel) -> Agent:
        policy = POLICIES[seed // len(DIALECTS) % len(POLICIES)]()
        peer = Agent(
            "clerk",
            model=clerk,
            description="Does the rest.",
            instruction="State {key0}, {found?}, {copied?}, file {artifact.file.txt?}. " + copy(),
            tools=[described],
            output_schema=schema if seed % 3 == 0 else None,
            generate_config={"stop_sequences": [copy()], "user": copy()},
        ).sees(policy)
        keys = [f"key{index}" for index in range(len(stated))]
        return Agent(
            "keeper",
            model=keeper,
            instruction="Known: " + " ".join(f"{{{key}}}" for key in keys),
            tools=[vault, broken, write, file, echo],
            cleared=["secret", "other"],
            sub_agents=[peer],
        ).sees(C.default().label("secret", *keys, artifacts="file.txt"))

    keeper = ScriptedModel(
        [
            [call("vault"), call("broken"), call("write"), call("file")],
            f"I know: {copy()}",
            call("transfer_to_agent", agent_name="clerk"),
        ],
        dialect=dialect,
    )
    answer = '{"kind": "x"}'
    clerk = ScriptedModel(
        [call("echo", text="hm"), answer, call("echo", text=copy()), answer, answer],
        dialect=dialect,
    )
    store = f"sqlite:///{folder / f'{seed}.db'}"
    state = {f"key{index}": secret for index, secret in enumerate(stated)}
    picture = Part(inline_data=Blob(mime_type="image/png", data="aGk=", display_name=copy()))
    messages = [f"first {copy()}", f"second {copy()}", [Part(text=copy()), picture], copy()]
    for turn, message in enumerate(messages):
        runner = Runner(program(keeper, clerk), store=store)
        config = RunConfig(stream=turn % 2 == 0, effects=False)
        async for event in runner.run(
            user_id="u",
            session_id="s",
            message=message,
            state=state if turn == 0 else None,
            config=config,
        ):
            assert not event.error_code, event.error_message
            for result in event.results:
                if result.name in ("vault", "write", "file"):
                    assert "error" not in (result.response or {}), result.response
        await runner.store.close()
    assert clerk.remaining == 0
    return Found(count, _reached(secrets, clerk), _missed([*stated, *vaulted, *failing], keeper))


def _reached(secrets: list[str], model: ScriptedModel) -> list[tuple[str, str]]:
    texts = [leaf.casefold() for wire in model.wires for leaf in set(_leaves(wire))]
    whole = "\n".join(dict.fromkeys(texts))
    found = [(one, trace) for one in secrets for trace in traces(one) if trace in whole]
    return found


def _missed(secrets: list[str], model: ScriptedModel) -> list[str]:
    whole = "\n".join(leaf for wire in model.wires for leaf in _leaves(wire))
    spelled = {one: (one, json.dumps(one, ensure_ascii=False)[1:-1]) for one in secrets}
    return [one for one in secrets if not any(form in whole for form in spelled[one])]
