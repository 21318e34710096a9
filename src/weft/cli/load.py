"""Find the agent or flow a command is about: `pkg.module:object` or `path/to/file.py:object`.

Whatever goes wrong is said about the user's files: what was looked for, what is there, and,
where their code raises, the file and line it happened at. Never our own traceback.
"""

import contextlib
import difflib
import importlib
import importlib.util
import inspect
import os
import pkgutil
import sys
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from types import ModuleType
from typing import cast

import weft
from weft.declare import Agent, Flow, Node
from weft.errors import UsageError, WeftError

_OURS = str(Path(weft.__file__).parent)


def load_node(target: str) -> Node:
    """The agent or flow a target names; one of google-adk's as Weft reads it."""
    return node_of(load_source(target), target)


def node_of(found: object, target: str) -> Node:
    """What a target names as a node: itself, or what google-adk's agent is in Weft."""
    if isinstance(found, Agent | Flow):
        return found
    from weft.interop.adk import from_adk

    with _their_code(target):
        return from_adk(found)


def load_source(target: str) -> object:
    """What a target names, as it is there; a factory without arguments is called for it."""
    place, _, path = target.rpartition(":")
    if not place or not path:
        raise UsageError(
            f"`{target}` does not name an object",
            where="target",
            hint=_object_hint(target),
        )
    module = _file(place) if _is_path(place) else _module(place)
    found: object = module
    for name in path.split("."):
        found = _attribute(found, name, target, module)
    if not _is_node(found) and callable(found):
        found = _made(cast("Callable[[], object]", found), target)
    if not _is_node(found):
        if inspect.iscoroutine(found):
            found.close()
        raise UsageError(
            f"this is a {type(found).__name__}, not an agent or a flow",
            where=target,
            hint=_agents_hint(module, place),
        )
    return found


def blame(error: BaseException) -> str:
    """The file and line of an exception: the last of the user's own frames, else the last."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_shown(error.filename)}:{error.lineno or 1}"
    frames: list[tuple[str, int]] = []
    trace = error.__traceback__
    while trace is not None:
        frames.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    theirs = [
        (file, line)
        for file, line in frames
        if not file.startswith((_OURS, "<")) and "site-packages" not in file and _is_own(file)
    ]
    if theirs:
        return f"{_shown(theirs[-1][0])}:{theirs[-1][1]}"
    if not frames:
        return "internal error"
    return f"internal error at {Path(frames[-1][0]).name}:{frames[-1][1]}"


def _is_own(file: str) -> bool:
    """Whether a file is neither Python's own nor the launcher of the command."""
    library = str(Path(os.__file__).parent)
    return not file.startswith(library) and Path(file).stem not in ("weft", "__main__")


def _is_path(place: str) -> bool:
    return place.endswith(".py") or os.sep in place


def _module(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path[:1]:
        sys.path.insert(0, here)
    if not all(step.isidentifier() for step in name.split(".")):
        raise UsageError(
            f"`{name}` is not a module name",
            where="target",
            hint="write pkg.module:object, or path/to/file.py:object",
        )
    with _their_code(f"{name}"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            missing = error.name or ""
            if name != missing and not name.startswith(f"{missing}."):
                raise
    raise UsageError(f"there is no module `{missing}`", where=f"{name}", hint=_module_hint(missing))


def _file(place: str) -> ModuleType:
    path = Path(place)
    if not path.is_file():
        folder = path.parent
        there = sorted(p.name for p in folder.glob("*.py")) if folder.is_dir() else []
        raise UsageError(
            "there is no such file", where=place, hint=_nearest(path.name, there, "file")
        )
    beside = str(path.resolve().parent)
    if beside not in sys.path[:1]:
        sys.path.insert(0, beside)
    name = path.stem if path.stem.isidentifier() and path.stem not in sys.modules else "weft_target"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise UsageError("this is not a Python file", where=place, hint="name a .py file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with _their_code(place):
        spec.loader.exec_module(module)
    return module


def _attribute(holder: object, name: str, target: str, module: ModuleType) -> object:
    with _their_code(target):
        try:
            return cast("object", getattr(holder, name))
        except AttributeError:
            pass
    what = "module" if isinstance(holder, ModuleType) else type(holder).__name__
    nodes = _nodes(module)
    public = [found for found in dir(holder) if not found.startswith("_")]
    names = nodes if holder is module and nodes else public
    raise UsageError(
        f"the {what} has no `{name}`",
        where=target,
        hint=_nearest(name, names, "agent" if names is nodes else "name", also=public),
    )


def _made(factory: Callable[[], object], target: str) -> object:
    """What a factory gives; one that wants arguments is not one."""
    try:
        needed = [
            parameter.name
            for parameter in inspect.signature(factory).parameters.values()
            if parameter.default is parameter.empty
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        ]
    except (TypeError, ValueError):
        needed = []
    if needed:
        raise UsageError(
            f"this callable needs arguments ({', '.join(needed)}), so it gives no agent by itself",
            where=target,
            hint="name an agent, or a function without arguments that returns one",
        )
    with _their_code(target):
        return factory()


@contextlib.contextmanager
def _their_code(where: str) -> Generator[None]:
    """Run the user's code: what it prints goes to stderr, what it raises becomes one line."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except WeftError as error:
        raise type(error)(
            error.message, where=_joined(blame(error), error.where), hint=error.hint
        ) from None
    except SystemExit as error:
        raise UsageError(
            f"the code exits when it is loaded (sys.exit({error.code!r}))",
            where=_joined(where, blame(error)),
            hint='put what runs under `if __name__ == "__main__":`',
        ) from None
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        raise UsageError(f"{type(error).__name__}: {first}", where=blame(error)) from None


def _joined(*places: str) -> str:
    return ": ".join(place for place in places if place and not place.startswith("internal error"))


def _object_hint(target: str) -> str:
    """Where the module can be loaded, the agents in it; else how a target is written."""
    usual = "write pkg.module:object, or path/to/file.py:object"
    place = target.strip(":")
    if not place:
        return usual
    try:
        module = _file(place) if _is_path(place) else _module(place)
    except WeftError:
        return usual
    nodes = _nodes(module)
    return f"write {' or '.join(f'{place}:{name}' for name in nodes[:6])}" if nodes else usual


def _nodes(module: ModuleType) -> list[str]:
    """The names of the agents and flows in a module."""
    return [name for name, value in vars(module).items() if _is_node(value)]


def _is_node(value: object) -> bool:
    """Whether this is an agent or a flow, or one of google-adk's, where that is loaded."""
    if isinstance(value, Agent | Flow):
        return True
    if "google.adk" not in sys.modules:
        return False
    from weft.interop.adk import is_adk

    return is_adk(value)


def _agents_hint(module: ModuleType, place: str) -> str:
    nodes = _nodes(module)
    if not nodes:
        return "the module holds no weft.Agent and no flow"
    return f"agents there: {', '.join(f'{place}:{name}' for name in nodes[:6])}"


def _module_hint(missing: str) -> str:
    """Modules beside the one that was not found."""
    parent, _, last = missing.rpartition(".")
    paths: Iterable[str] | None = [str(Path.cwd())]
    if parent:
        spec = importlib.util.find_spec(parent)
        paths = spec.submodule_search_locations if spec is not None else None
        if paths is None:
            return f"`{parent}` is a module, not a package"
    there = sorted(found.name for found in pkgutil.iter_modules(paths))
    return _nearest(last, there, "module")


def _nearest(name: str, there: list[str], what: str, *, also: Iterable[str] = ()) -> str:
    near = difflib.get_close_matches(name, [*there, *also], n=1, cutoff=0.5)
    listed = ", ".join(there[:8]) + (", ..." if len(there) > 8 else "")
    found = f"{what}s there: {listed}" if there else f"there is no {what} there"
    return f"did you mean `{near[0]}`? {found}" if near else found


def _shown(file: str) -> str:
    """A file below the working folder by its relative path."""
    with contextlib.suppress(ValueError):
        return str(Path(file).resolve().relative_to(Path.cwd().resolve()))
    return file
