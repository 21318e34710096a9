"""`weft doctor`: whether this machine can do what Weft does, and what to type if not.

Names only: the values of keys are never read into anything that is printed.
"""

import importlib.util
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

import weft
from weft.cli.options import CommandOptions

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
        ("code execution", _code()),
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
    """Optional packages by extra; a missing one is no problem."""
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
    """What code that a model writes can be kept from; it runs only where a PythonTool is given."""
    from weft.tools.python import isolation

    achieved = isolation()
    for key, what in (("network", "network"), ("files", "other folders"), ("processes", "others")):
        can = (
            "out of reach of a PythonTool" if achieved.get(key) else "the kernel lets it be reached"
        )
        yield Checkup(True, what, can)


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
    """Whose list of prices is used, and of which version."""
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
