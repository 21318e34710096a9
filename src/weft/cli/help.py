"""`weft doctor`, `weft init` and `weft rule`: help to begin with, and when something is wrong.

The doctor says whether this machine can do what Weft does, and what to type if not. Names only: the
values of keys are never read into anything that is printed. `init` writes a first flow that runs as
it is, and its test. `rule` prints the page of a diagnostic code.
"""

import importlib.util
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import weft
from weft.cli.options import CommandOptions
from weft.errors import UsageError

CORE = ("httpx2", "jsonschema-rs", "msgspec", "splintr-rs")
"""What Weft cannot do without, as named in its package metadata."""

_DEVELOPERS = ("adk-test", "bench", "dev")
"""Extras for work on Weft itself: nobody who uses it misses them."""

OLDEST_PYTHON = (3, 11)
_KEY = re.compile(r"_(API_KEY|API_TOKEN|APPLICATION_CREDENTIALS)$|^WEFT_")
_SAMPLE = "The warp is what stays; the weft is the thread that each turn weaves through it."
_COUNTED = 20
"""Tokens that any real tokenizer finds in the sample, give or take a few."""


class Checkup(NamedTuple):
    """One thing that was checked: whether it is well, its status, and what to type if it is not."""

    ok: bool
    name: str
    status: str
    fix: str = ""


def doctor_command(_: CommandOptions) -> int:
    """Look at Python, dependencies, extras, tokenizers, prices, keys and the working folder."""
    sections = (
        ("weft", _versions()),
        ("dependencies", _dependencies()),
        ("extras", _extras()),
        ("tokenizers", _tokenizers()),
        ("prices", _prices()),
        ("keys in the environment (names only)", _keys()),
        ("code: PythonTool", _code()),
        ("code: CPythonTool", _full_python()),
        ("working folder", _folder()),
    )
    well = True
    for title, findings in sections:
        print(title)
        for one in findings:
            well = well and one.ok
            # an extra that is not installed is neither well nor a problem
            mark = "problem" if not one.ok else "absent " if one.fix else "ok     "
            print(f"  {mark}  {one.name:<18} {one.status}".rstrip())
            if one.fix:
                print(f"           {'':<18} {one.fix}")
    print("all is well" if well else "something is wrong: see the lines marked `problem`")
    return 0 if well else 1


def _versions() -> Iterator[Checkup]:
    number = ".".join(str(part) for part in sys.version_info[:3])
    new = sys.version_info >= OLDEST_PYTHON
    yield Checkup(new, "python", number, "" if new else "install Python 3.11 or newer")
    yield Checkup(True, "weft", weft.__version__)


def _dependencies() -> Iterator[Checkup]:
    for name in CORE:
        version = _version(name)
        fix = "" if version else f"pip install {name}"
        yield Checkup(bool(version), name, version or "missing", fix)


def _extras() -> Iterator[Checkup]:
    """Optional packages by extra; a missing one is not a problem."""
    from importlib import metadata

    try:
        wanted = metadata.requires("weft") or []
    except metadata.PackageNotFoundError:
        yield Checkup(True, "unknown", "weft runs from its sources and is not installed")
        return
    extras: dict[str, list[str]] = {}
    for requirement in wanted:
        name = re.match(r"[\w.-]+", requirement)
        extra = re.search(r"extra\s*==\s*['\"]([\w.-]+)['\"]", requirement)
        if name and extra:
            extras.setdefault(extra[1], []).append(name[0])
    for group, names in extras.items():
        if group in _DEVELOPERS:
            continue
        missing = [name for name in names if not _version(name)]
        if missing:
            some = ", ".join(missing[:6]) + (", ..." if len(missing) > 6 else "")
            yield Checkup(True, group, f"missing: {some}", f"pip install 'weft[{group}]'")
        else:
            yield Checkup(True, group, "present")


def _code() -> Iterator[Checkup]:
    """Whether code that a model writes can run in an interpreter made for that."""
    version = _version("pydantic-monty")
    words = f"pydantic-monty {version}" if version else "missing, so it cannot be declared"
    yield Checkup(True, "interpreter", words, "" if version else "pip install 'weft[code]'")


def _full_python() -> Iterator[Checkup]:
    """What full Python can be kept from; where one of it is absent, it is not run."""
    from weft.tools.cpython import abilities

    for one in abilities(None):
        words = one.words if one.can else f"{one.words}: no code is run"
        yield Checkup(True, one.name, words, "" if one.can else one.hint)


def _tokenizers() -> Iterator[Checkup]:
    """Each vocabulary is loaded and asked to count a sentence."""
    from weft.tokens import counter_for

    if importlib.util.find_spec("splintr") is None:
        fix = "pip install splintr-rs"
        yield Checkup(False, "splintr", "missing, so every count is an estimate", fix)
        return
    for name, model in (("o200k", "o4-mini"), ("gemma", "gemma-3")):
        try:
            counter = counter_for(model)
            count = counter.count(_SAMPLE)
        except Exception as error:
            yield Checkup(False, name, f"{type(error).__name__}: {error}", "pip install splintr-rs")
            continue
        # vocabularies differ: half of it off is a broken one
        near = abs(count - _COUNTED) <= _COUNTED // 2
        words = f"{counter.name} finds {count} tokens in a sentence of {len(_SAMPLE)} characters"
        yield Checkup(near, name, words, "" if near else "pip install --force-reinstall splintr-rs")


def _prices() -> Iterator[Checkup]:
    """Which list of prices is used, and in which version."""
    from weft.dialects.price_list import price_list

    yield Checkup(True, "list", str(price_list()))


def _keys() -> Iterator[Checkup]:
    names = sorted(name for name, value in os.environ.items() if value and _KEY.search(name))
    for name in names:
        yield Checkup(True, name, "set")
    if not names:
        yield Checkup(True, "none", "compiling and explaining need none")


def _folder() -> Iterator[Checkup]:
    try:
        with tempfile.TemporaryFile(dir="."):
            pass
    except OSError as error:
        fix = "change to a folder you may write to"
        yield Checkup(False, "writable", f"no: {error.strerror}", fix)
        return
    yield Checkup(True, "writable", "yes")


def _version(distribution: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


# --- a first flow

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


# --- the page of a code


def rule_command(options: CommandOptions) -> int:
    """Explain a diagnostic code; without one, list them all."""
    from weft.codes import CODES  # the doctor needs none of it

    if options.code is None:
        width = max(len(one.severity) for one in CODES.values())
        for one in CODES.values():
            print(f"{one.code}  {one.severity:<{width}}  {one.title}")
        return 0
    number = _write_out(options.code)
    code = CODES.get(number)
    if code is None:
        near = _nearest(number, list(CODES))
        raise UsageError(
            f"there is no code `{options.code}`",
            where="rule",
            hint=f"the nearest is {near} ({CODES[near].title}); `weft rule` lists them all",
        )
    print(f"{code.code}: {code.title} ({code.severity})\n\n{code.page.strip()}")
    return 0


def _write_out(code: str) -> str:
    """`weft101` and `101` mean WEFT101."""
    upper = code.strip().upper()
    return f"WEFT{upper}" if upper.isdigit() else upper


def _nearest(code: str, codes: list[str]) -> str:
    """The code of the nearest number, else of the nearest spelling."""
    number = code.removeprefix("WEFT").replace("O", "0").replace("I", "1").replace("L", "1")
    if number.isascii() and number.isdigit():
        return min(codes, key=lambda one: abs(int(one.removeprefix("WEFT")) - int(number[:9])))
    from difflib import get_close_matches  # slow to load

    return get_close_matches(code, codes, n=1, cutoff=0.0)[0]
