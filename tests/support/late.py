"""Modules that are loaded when a test first looks into them: collecting tests need not wait."""

from importlib import import_module
from types import ModuleType


class _LateModule(ModuleType):
    """Stands for a module until somebody asks for a name of it."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):  # pytest looks for its marks in whatever a module holds
            raise AttributeError(name)
        return getattr(import_module(self.__name__), name)


def late(name: str) -> ModuleType:
    """The module of that name, not loaded yet."""
    return _LateModule(name)
