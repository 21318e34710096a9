"""`weft init`: a first flow that runs as it is, and its test, in files of the user's own."""

from pathlib import Path

from weft.cli.options import CommandOptions
from weft.errors import UsageError

DESK = '''"""A help desk of two agents: one sorts the question, one answers it."""

from weft import Agent

ORDERS = {"A-17": "on its way, arrives on Friday", "B-42": "delivered"}


def order_status(order: str) -> str:
    """Where an order is.

    Args:
        order: The number of the order, such as A-17.
    """
    return ORDERS.get(order, "there is no such order")


sorter = Agent(
    "sorter",
    instruction="What is the question about? Answer with one word: order or other.",
).writes("topic")

desk = Agent(
    "desk",
    instruction="Answer customers in a sentence or two. This question is about: {topic}.",
    tools=[order_status],
)

root = sorter >> desk
'''

TEST = '''"""The help desk with a model that follows a script: no key and no network."""

import weft
from desk import root
from weft import RunConfig
from weft.testing import ScriptedModel, call


def test_the_desk_looks_the_order_up() -> None:
    model = ScriptedModel(
        {"sorter": ["order"], "desk": [call("order_status", order="A-17"), "It comes on Friday."]}
    )
    result = weft.run_sync(root, "Where is A-17?", config=RunConfig(model=model))
    assert result.text == "It comes on Friday."
    assert result.state["topic"] == "order"
    sent = str(model.prompts[-1])
    assert "about: order." in sent
    assert "arrives on Friday" in sent


def test_nothing_is_missing() -> None:
    assert not weft.check(root)
'''

NEXT = """next:
  weft check {at}desk.py:root
      what does not add up, before anything runs
  weft run {at}desk.py:root "Where is order A-17?" -v
      ask it; where no model is set up, the one in the box answers
  weft explain {at}desk.py:root --agent desk -m "Hello" --state topic=order
      where each token of a request comes from
  python -m pytest {folder}
      its test"""


def init_command(options: CommandOptions) -> int:
    """Write a first flow and its test: desk.py and test_desk.py. Files that are there stay."""
    folder = options.folder
    files = {folder / "desk.py": DESK, folder / "test_desk.py": TEST}
    there = [path for path in files if path.exists()]
    if there:
        raise UsageError(
            f"`{there[0]}` is there already",
            where="init",
            hint="name another folder: weft init NEW",
        )
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"`{folder}` is a file", where="init", hint="weft init FOLDER")
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
        print(f"wrote {path}")
    at = "" if folder == Path() else f"{folder.as_posix()}/"
    print(NEXT.format(at=at, folder=folder.as_posix()))
    return 0
