"""Actions and results of agents that speak without calls: both are texts, known by their shapes.

Such an agent ends its words with an action, in a block of code, in a tag or after a word, and the
program that runs it answers as the user would, in a frame that is always the same.
"""

import re
from collections.abc import Sequence

from weft.content import Part
from weft.late import late_pattern

_LETTERS = 20_000
"""How many letters at the end of a text are read."""

_AFTER = late_pattern(r"(?:\s*</?\w+>)+\Z")
"""Marks after an action, such as `<end_code>`."""

_TAGGED = late_pattern(
    r"<(execute\w*|tool_(?:call|use)|function(?:_calls?)?|invoke|bash|code)\b[^>]*>"
    r"((?:(?!<\1\b).)+)</\1>\Z",
    re.DOTALL,
)
_SAID = late_pattern(r"^(?:Action|Code)(?: Input)?:[ \t]*(\S.*)\Z", re.DOTALL | re.MULTILINE)
_INPUT = late_pattern(r"\nAction Input:[ \t]*")
_PASSED = late_pattern(
    r"['\"](?:arguments|action_input|parameters)['\"]\s*:\s*(\S.*[}\])])\Z", re.DOTALL
)

_FRAME = late_pattern(
    r"<((?:return|exit)_?code|output|std(?:out|err)"
    r"|(?:(?:tool|function|execution|command)_)?(?:observation|result|response)s?)\b[^<>\n]*>"
    r"|(call id): \S|\[?(observation)\]?:|(execution (?:logs|result))\b[^\n:]{0,80}:",
    re.IGNORECASE,
)
_TAG = late_pattern(r"<([A-Za-z][\w-]{0,60})(?:\s[^<>]{0,200})?>")
_PROMPT = late_pattern(r"\n([\w.@:~/-]{0,80}[$#])\Z")


def find_action(text: str) -> str:
    """What the words of an agent end with that is to be run; nothing if they only speak."""
    tail = text[-_LETTERS:].rstrip()
    if tail.endswith(">"):  # else no tag stands there, which takes a while to find out
        match = _TAGGED.search(tail)
        if match is not None:
            return match[2].strip()
        tail = _AFTER.sub("", tail)
    if tail.endswith("```"):
        before, _, block = tail[:-3].rpartition("```")
        # the language stands after the first mark
        lines = block.partition("\n")[2] if "\n" in block else block
        return lines.strip() if before.endswith("\n") or not before else ""
    match = _SAID.search(tail) if "Action" in tail or "Code" in tail else None
    if match is not None:
        return _INPUT.sub(" ", match[1]).strip()
    match = _PASSED.search(tail) if tail.endswith(("}", "]", ")")) else None
    return match[1].strip() if match is not None else ""


def is_remark(text: str) -> bool:
    """Whether a program says it and no person: all of it stands in one tag."""
    match = _TAG.match(text.lstrip())
    return match is not None and text.rstrip().endswith(f"</{match[1]}>")


def are_remarks(parts: Sequence[Part]) -> bool:
    """Whether all that a message says is said by a program; pictures come from one, too."""
    return all(
        part.kind == "media" or (part.text is not None and is_remark(part.text)) for part in parts
    )


def frame_of(text: str) -> str:
    """The frame in which a program says what an action did; nothing if no frame is there."""
    match = _FRAME.match(text.lstrip()) or _PROMPT.search(text[-200:].rstrip())
    return next((one.lower() for one in match.groups() if one), "") if match is not None else ""
