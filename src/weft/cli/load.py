"""Find the agent or flow a command is about: `pkg.module:object` or `path/to/file.py:object`.

A folder alone is one of google-adk's, with its root in a package, a module `agent` or a YAML file.
Whatever goes wrong is said about the user's files: what was looked for, what is there, and,
where their code raises, the file and line it happened at. Never our own traceback.
"""

import contextlib
import importlib
import importlib.util
import inspect
import os
import pkgutil
import sys
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from types import ModuleType
from typing import TypeGuard, cast

import weft
from weft.cli.printing import hint_names
from weft.declare import Node
from weft.errors import UsageError, WeftError, describe_kind

_OURS = str(Path(weft.__file__).parent)

ROOTS = ("app", "root_agent")
"""What google-adk looks for in a folder, in that order."""


def load_node(target: str) -> Node:
    """The agent or flow a target names; one of google-adk's as Weft reads it."""
    return node_of(load_source(target), target)


def app_of(root: Node, target: str) -> str:
    """The app name of a target; a flow without a name is called by its place."""
    from weft.runtime.runner import named_app  # checking needs no runtime

    place, _, variable = target.rpartition(":")
    if not place:
        place, variable = str(Path(target).resolve().parent), Path(target).stem
    if _is_path(place):
        path = Path(place).resolve()
        package = path.parent
        names = [path.stem]
        while (package / "__init__.py").is_file():
            names.insert(0, package.name)
            package = package.parent
        place = ".".join(names)
    return named_app(root, place, variable)


def node_of(source: object, target: str) -> Node:
    """What a target names, as a node; an agent of google-adk is translated."""
    if is_node(source):
        return source
    from weft.interop.adk import from_adk

    with _their_code(target):
        return from_adk(source)


def is_node(value: object) -> TypeGuard[Node]:
    """Whether this is an agent or a flow of Weft's own."""
    return isinstance(value, Node)


def load_source(target: str) -> object:
    """The object that a target names. A factory without arguments is called."""
    if Path(target).is_dir():
        return _root_of(Path(target).resolve(), target)
    if target.endswith((".yaml", ".yml")):
        return _load_config(Path(target))
    place, _, path = target.rpartition(":")
    if not place or not path:
        raise UsageError(
            f"`{target}` does not name an object",
            where="target",
            hint=_object_hint(target),
        )
    module = _file(place) if _is_path(place) else _module(place)
    module = _find_holder(module, path.split(".")[0])
    source: object = module
    for name in path.split("."):
        source = _attribute(source, name, target, module)
    if not _is_node(source) and callable(source):
        source = _product_of(cast("Callable[[], object]", source), target)
    if not _is_node(source):
        # nobody will wait for it
        if inspect.iscoroutine(source):
            source.close()
        raise UsageError(
            f"this is {describe_kind(source)}, not an agent or a flow",
            where=target,
            hint=_agents_hint(module, place),
        )
    return source


def blame(error: BaseException) -> str:
    """The file and line of an exception: the last of the user's own frames, else the last."""
    # no frame of the file ran: the error itself says where
    if isinstance(error, SyntaxError) and error.filename:
        return f"{relative_path(error.filename)}:{error.lineno or 1}"
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
        return f"{relative_path(theirs[-1][0])}:{theirs[-1][1]}"
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
    _look_in(Path.cwd())
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
            # the module is there, and something that it imports is not: that is the user's error
            if name != missing and not name.startswith(f"{missing}."):
                raise
    raise UsageError(f"there is no module `{missing}`", where=f"{name}", hint=_module_hint(missing))


def _root_of(folder: Path, target: str) -> object:
    """The root in a folder, where google-adk would find it."""
    config = folder / "root_agent.yaml"
    module = _folder(folder)
    for name in ROOTS:
        root: object = vars(_find_holder(module, name)).get(name)
        if _is_node(root):
            return root
    if config.is_file():
        return _load_config(config)
    raise UsageError(
        "the folder holds no `root_agent`",
        where=target,
        hint="name a folder with a root_agent in its agent.py, __init__.py or root_agent.yaml",
    )


def _load_config(config: Path) -> object:
    """The agent that a YAML file declares; google-adk makes it."""
    if not config.is_file():
        raise UsageError("there is no such file", where=str(config), hint="name a file")
    from weft.interop.adk.agents import load_config

    with _their_code(str(config)):
        return load_config(config)


def _folder(folder: Path) -> ModuleType:
    """The package that a folder is, or its module `agent` where another has taken the name."""
    code = folder / "agent.py"
    if "." in folder.name or not folder.name:  # no name that an import could find
        return _file(str(code if code.is_file() else folder / "__init__.py"))
    _look_in(folder.parent)
    with _their_code(str(folder)):
        package = importlib.import_module(folder.name)
    if code.is_file() and str(folder) not in map(str, vars(package).get("__path__", ())):
        return _file(str(code))
    return package


def _find_holder(module: ModuleType, name: str) -> ModuleType:
    """The module that has the name: itself, or the module `agent` in it, as google-adk has it."""
    if name in vars(module) or "__path__" not in vars(module):
        return module
    inner = f"{module.__name__}.agent"
    with _their_code(inner):
        if importlib.util.find_spec(inner) is None:
            return module
        inner_module = importlib.import_module(inner)
    return module if name not in vars(inner_module) and _nodes(module) else inner_module


def _look_in(folder: Path) -> None:
    # first on the path, also where it stands further back: the target's own files come first
    if str(folder) not in sys.path[:1]:
        sys.path.insert(0, str(folder))


def _import_packaged_file(path: Path) -> ModuleType | None:
    """A file of a package by its full name, so that it can import its neighbours.

    None where it belongs to no package, or another has taken that name.
    """
    names, folder = [path.stem], path.parent
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        names.insert(0, folder.name)
        folder = folder.parent
    taken = sys.modules.get(names[0])
    if len(names) == 1 or not all(name.isidentifier() for name in names):
        return None
    # another package of that name is loaded already
    if taken is not None and str(folder / names[0]) not in vars(taken).get("__path__", ()):
        return None
    _look_in(folder)
    return importlib.import_module(".".join(names).removesuffix(".__init__"))


def _file(place: str) -> ModuleType:
    path = Path(place)
    if path.is_dir():
        return _folder(path.resolve())
    if not path.is_file():
        folder = path.parent
        there = sorted(p.name for p in folder.glob("*.py")) if folder.is_dir() else []
        raise UsageError(
            "there is no such file", where=place, hint=hint_names("files", path.name, there)
        )
    _look_in(path.resolve().parent)
    with _their_code(place):
        packaged = _import_packaged_file(path.resolve())
    if packaged is not None:
        return packaged
    name = path.stem if path.stem.isidentifier() and path.stem not in sys.modules else "weft_target"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise UsageError("this is not a Python file", where=place, hint="name a .py file")
    module = importlib.util.module_from_spec(spec)
    # before it runs: dataclasses and pickle look their module up by name
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
    public = [one for one in dir(holder) if not one.startswith("_")]
    names = nodes if holder is module and nodes else public
    raise UsageError(
        f"the {what} has no `{name}`",
        where=target,
        hint=hint_names("agents" if names is nodes else "names", name, names, also=public),
    )


def _product_of(factory: Callable[[], object], target: str) -> object:
    """Call a factory; refuse one that needs arguments."""
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
            error.message, where=_join_places(blame(error), error.where), hint=error.hint
        ) from None
    except SystemExit as error:
        raise UsageError(
            f"the code exits when it is loaded (sys.exit({error.code!r}))",
            where=_join_places(where, blame(error)),
            hint='put what runs under `if __name__ == "__main__":`',
        ) from None
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        place, hint = blame(error), ""
        # null bytes are a ValueError below Python 3.11.4
        is_no_text = isinstance(error, SyntaxError | UnicodeError) or "null bytes" in first
        if is_no_text and place.startswith("internal error"):
            place, hint = where, "save it as plain Python text, in UTF-8"  # no line to be named
        raise UsageError(f"{type(error).__name__}: {first}", where=place, hint=hint) from None


def _join_places(*places: str) -> str:
    return ": ".join(place for place in places if place and not place.startswith("internal error"))


def _object_hint(target: str) -> str:
    """A hint: the agents in the module if it can be loaded, else how a target is written."""
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
    """The names of the agents and flows in a module, those that google-adk starts with first."""
    names = [name for name, value in vars(module).items() if _is_node(value)]
    return sorted(names, key=lambda name: name not in ROOTS)


def _is_node(value: object) -> bool:
    """Whether this is an agent or a flow, or one of google-adk's, where that is loaded."""
    if is_node(value):
        return True
    # what is not loaded made no object, and loading it takes seconds
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
    """Modules next to the one that was not found."""
    parent, _, last = missing.rpartition(".")
    paths: Iterable[str] | None = [str(Path.cwd())]
    if parent:
        spec = importlib.util.find_spec(parent)
        paths = spec.submodule_search_locations if spec is not None else None
        if paths is None:
            return f"`{parent}` is a module, not a package"
    there = sorted(one.name for one in pkgutil.iter_modules(paths))
    return hint_names("modules", last, there)


def relative_path(file: Path | str) -> str:
    """A file below the working folder by its relative path."""
    with contextlib.suppress(ValueError):
        return str(Path(file).resolve().relative_to(Path.cwd().resolve()))
    return str(file)


def require_folder(file: Path, where: str) -> None:
    """Refuse a file whose folder is not there, before any work is done for it."""
    if not file.absolute().parent.is_dir():
        raise UsageError(
            f"there is no folder {file.parent}",
            where=where,
            hint=f"make it: mkdir -p {file.parent}",
        )
