"""Agents that google-adk reads from YAML files; it makes them itself."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import cast

from weft.errors import UsageError


def load_config(path: Path) -> object:
    """The agent that a YAML file declares."""
    try:
        module = import_module("google.adk.agents.config_agent_utils")
    except ImportError as error:
        raise UsageError(
            "google-adk is not installed", where=str(path), hint="pip install 'weft[adk]'"
        ) from error
    try:
        return cast("Callable[[str], object]", module.from_config)(str(path))
    except Exception as error:
        said = (str(error).splitlines() or [""])[0]
        raise UsageError(
            f"google-adk makes no agent of it: {type(error).__name__}: {said}",
            where=str(path),
            hint="mend what it names",
        ) from error
