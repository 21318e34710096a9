"""The same inputs give the same bytes and the same hash, in every process."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

_CODE = """
import json
from weft import Agent, Session, compile
from tests.support.build import user, says, calls, returns

def look(q: str, deep: dict[str, int] | None = None) -> str:
    "Look something up."

bot = Agent("bot", model="gpt-5", instruction="In {city}, {prefs}.", tools=[look],
            sub_agents=[Agent("a", description="A"), Agent("b", description="B")],
            generate_config={"temperature": 0.3, "stop_sequences": ["x", "y"]})
state = {"city": "Oslo", "prefs": {"z": 1, "a": [1, 2]}}
log = Session("s", state=state, events=[
    user("Hi"), says("a", "x", writes="city"), calls("bot", "look", {"q": "1", "b": 2}, None),
    returns("bot", "look", {"z": 1, "a": 2}, None), user("Bye", inv="2")])
compiled = compile(bot, session=log)
print(*{"city", "prefs", "look"})
print(compiled.hash, compiled.tokens)
for dialect in ("gemini", "anthropic", "openai-chat", "openai-responses"):
    print(json.dumps(compiled.lower(dialect)))
"""


def test_processes_with_different_hash_seeds_agree() -> None:
    def run(seed: int) -> tuple[str, str]:
        """The order of a set, and what is compiled."""
        env = {**os.environ, "PYTHONHASHSEED": str(seed)}
        done = subprocess.run(
            [sys.executable, "-c", _CODE], capture_output=True, text=True, env=env, check=True
        )
        order, _, output = done.stdout.partition("\n")
        return order, output

    with ThreadPoolExecutor(2) as pool:
        runs = [*pool.map(run, range(8))]
    orders, outputs = {order for order, _ in runs}, {output for _, output in runs}
    assert len(orders) >= 4, "too few orders of a set: other seeds"
    assert len(outputs) == 1
    assert outputs.pop().count("\n") == 5


def test_the_hash_changes_with_every_input_and_not_with_event_ids() -> None:
    from tests.support.build import session, user
    from weft import Agent, RunConfig, compile

    bot = Agent("bot", model="gemini-flash-latest", instruction="Hi {x}")
    base = compile(bot, session=session(user("Hi"), x="1"))
    assert base.hash == compile(bot, session=session(user("Hi"), x="1")).hash
    others = [
        compile(bot, session=session(user("Hi!"), x="1")),
        compile(bot, session=session(user("Hi"), x="2")),
        compile(bot.instruct("Hey {x}"), session=session(user("Hi"), x="1")),
        compile(bot, session=session(user("Hi"), x="1"), config=RunConfig(model="gemini-x")),
        compile(
            bot,
            session=session(user("Hi"), x="1"),
            config=RunConfig(generate_config={"temperature": 0.5}),
        ),
    ]
    assert len({base.hash, *(other.hash for other in others)}) == len(others) + 1
