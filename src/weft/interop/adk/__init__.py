"""google-adk: look at its agents with Weft, and make its requests cheaper.

`from_adk` makes an Agent or a flow of an agent tree, `check_adk` says what is wrong with it, and
`WeftPlugin` makes every request of a google-adk Runner cheaper. Nothing here imports google-adk but
the plugin, when it is made.
"""

from typing import TYPE_CHECKING

from weft.interop.adk.agents import Imported, from_adk, imported
from weft.interop.adk.checking import check_adk
from weft.interop.adk.objects import is_adk

if TYPE_CHECKING:
    from weft.interop.adk.plugin import WeftPlugin

__all__ = ["Imported", "WeftPlugin", "check_adk", "from_adk", "imported", "is_adk"]


if not TYPE_CHECKING:  # or else a type checker would take any name

    def __getattr__(name: str) -> object:
        if name == "WeftPlugin":
            from weft.interop.adk.plugin import WeftPlugin

            return WeftPlugin
        raise AttributeError(f"module 'weft.interop.adk' has no attribute {name!r}")
