"""The system instruction of a google-adk request: Weft's in place of what both would write.

google-adk writes who the agent is, its instruction and whom it may hand over to. What tools,
planners and plugins have added stays.
"""

import re

from weft.compiler import Compiled
from weft.interop.adk.objects import field, text
from weft.interop.adk.templates import filled
from weft.ir import ToolDecl
from weft.values import JsonObject

_HANDING_OVER = re.compile(
    r"\n?You have a list of other agents to transfer to:\n.*?"
    r"\*\*NOTE\*\*: the only available agents for `\w+` function are\n(?P<names>[^\n]*)\.\n"
    r"(?:\nIf neither you nor the other agents are best[^\n]*\n)?",
    re.DOTALL,
)


def joined_system(
    held: str, compiled: Compiled, agent: object, root: object, state: JsonObject
) -> str | None:
    """Weft's instruction, and behind it what others have added; None where that is in doubt."""
    rest = held
    for part in _written(agent, root, state):
        if part is None or rest.count(part) != 1:
            return None
        rest = rest.replace(part, "", 1)
    targets = next((_targets(t) for t in compiled.prompt.tools if t.name == _TRANSFER), ())
    match = _HANDING_OVER.search(rest)
    if bool(match) != bool(targets):
        return None
    if match is not None:
        if not all(f"`{name}`" in match["names"] for name in targets):
            return None
        rest = rest[: match.start()] + rest[match.end() :]
    added = [piece.strip("\n") for piece in rest.split("\n\n")]
    return "\n\n".join(piece for piece in (compiled.system, *added) if piece.strip())


_TRANSFER = "transfer_to_agent"


def _written(agent: object, root: object, state: JsonObject) -> list[str | None]:
    """What google-adk itself writes into it, None for what cannot be known."""
    name, description = text(agent, "name"), text(agent, "description")
    identity = f'You are an agent. Your internal name is "{name}".'
    if description:
        identity += f' The description about you is "{description}".'
    found: list[str | None] = [identity]
    if field(agent, "static_instruction"):
        return [None]
    for owner, kind in ((agent, "instruction"), (root, "global_instruction")):
        given = field(owner, kind)
        if callable(given):
            return [None]
        if isinstance(given, str) and given:
            found.append(filled(given, state) or None)
    return found


def _targets(tool: ToolDecl) -> tuple[str, ...]:
    """The agents that Weft lets it hand over to."""
    properties = tool.parameters.get("properties")
    asked = properties.get("agent_name") if isinstance(properties, dict) else None
    names = asked.get("enum") if isinstance(asked, dict) else None
    return tuple(str(name) for name in names) if isinstance(names, list) else ()
