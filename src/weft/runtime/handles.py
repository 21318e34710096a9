"""Handles in a run: what stands for hidden text is opened in arguments and for the user.

A model that does not see a text passes its handle on. The tool gets the text, and its call the
label of it; the user is shown the text, and the log keeps what the model wrote next to it.
"""

import json
import re
from collections.abc import Mapping

import msgspec

from weft.compiler.plan import Plan
from weft.content import Content, Part
from weft.declare import Policy
from weft.declare.policy_parts import HANDLE, Hide
from weft.late import late_pattern
from weft.passes.hide import HiddenText, hidden_in_state, hidden_texts
from weft.runtime.invocation import Invocation
from weft.runtime.place import Place
from weft.runtime.sinks import ArgumentSource
from weft.session.flow import TRUSTED, TrustLabel, join_labels
from weft.values import Json, JsonObject


def hides_text(policy: Policy) -> bool:
    """Whether a policy has handles in the place of untrusted text."""
    return any(isinstance(one, Hide) for one in policy.protections)


class UnknownHandle(Exception):
    """A handle that stands for nothing in this session."""


class Opening:
    """The handles of one agent's requests, and what they stand for."""

    def __init__(self, invocation: Invocation, place: Place) -> None:
        self._known: Mapping[str, HiddenText] = hidden_texts(invocation.log.session.events)
        self._invocation = invocation
        self._place = place
        self._in_state: Mapping[str, HiddenText] | None = None

    def find(self, handle: str) -> HiddenText | None:
        """What a handle stands for."""
        hidden = self._known.get(handle)
        if hidden is None:
            if self._in_state is None:
                state = self._invocation.forks.state_at(self._place)
                self._in_state = hidden_in_state(state, self._invocation.log.session.events)
            hidden = self._in_state.get(handle)
        return hidden

    def open_arguments(
        self, args: JsonObject
    ) -> tuple[JsonObject, dict[str, tuple[ArgumentSource, ...]]]:
        """Arguments with their texts, and by argument where these came from.

        Raises:
            UnknownHandle: one of the handles is not of this session.
        """
        opened: JsonObject = {}
        sources: dict[str, tuple[ArgumentSource, ...]] = {}
        for name, value in args.items():
            used: list[ArgumentSource] = []
            opened[name] = self._open(value, used)
            if used:
                sources[name] = tuple(used)
        return opened, sources

    def _open(self, value: Json, used: list[ArgumentSource]) -> Json:
        if isinstance(value, str):
            text, hidden = self.open_text(value, strict=True)
            whole = len(hidden) == 1 and hidden[0].text == text
            # a text that a handle is only a part of is the value of no field
            used += [
                ArgumentSource(one.source if whole else "", one.label, one.text) for one in hidden
            ]
            return text
        if isinstance(value, dict):
            return {str(self._open(key, used)): self._open(one, used) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self._open(one, used) for one in value]
        return value

    def open_text(
        self, text: str, *, strict: bool = False, as_json: bool = False
    ) -> tuple[str, list[HiddenText]]:
        """A text with what its handles stand for; one that stands for nothing stays."""
        used: list[HiddenText] = []

        def open_handle(match: re.Match[str]) -> str:
            hidden = self.find(match.group())
            if hidden is None:
                if strict:
                    raise UnknownHandle(match.group())
                return match.group()
            used.append(hidden)
            return json.dumps(hidden.text, ensure_ascii=False)[1:-1] if as_json else hidden.text

        return HANDLE.sub(open_handle, text), used


class OpenedReply(msgspec.Struct, frozen=True):
    """A reply as the user is shown it, what the model wrote, and the label of what was opened."""

    content: Content
    own_words: dict[str, str]
    label: TrustLabel


def open_reply(opening: Opening, content: Content, *, is_json: bool) -> OpenedReply:
    """A reply with the texts that its handles stand for."""
    parts: list[Part] = []
    own_words: dict[str, str] = {}
    label = TRUSTED
    for index, part in enumerate(content.parts or ()):
        if part.text and not part.thought and "$h" in part.text:
            text, used = opening.open_text(part.text, as_json=is_json)
            if used:
                own_words[str(index)] = part.text
                label |= join_labels(one.label for one in used)
                part = msgspec.structs.replace(part, text=text)
        parts.append(part)
    if not own_words:
        return OpenedReply(content, {}, TRUSTED)
    return OpenedReply(Content(parts=tuple(parts), role=content.role), own_words, label)


class OpenedStream:
    """The pieces of a reply as the user is shown them; the beginning of a handle waits."""

    def __init__(self, invocation: Invocation, place: Place, plan: Plan) -> None:
        self._opening = Opening(invocation, place)
        self._is_json = plan.output is not None
        self._waiting = ""

    def open_piece(self, content: Content | None) -> Content | None:
        """A piece with the texts that its handles stand for."""
        if content is None:
            return None
        parts: list[Part] = []
        for part in content.parts or ():
            if part.text and not part.thought:
                text = self._waiting + part.text
                start = _BEGINNING.search(text)
                self._waiting = text[start.start() :] if start is not None else ""
                whole = text[: start.start()] if start is not None else text
                opened, _ = self._opening.open_text(whole, as_json=self._is_json)
                part = msgspec.structs.replace(part, text=opened)
            parts.append(part)
        return Content(parts=tuple(parts), role=content.role)


_BEGINNING = late_pattern(r"\$(?:h[0-9a-f]{0,7})?\Z")
"""The beginning of a handle at the end of a piece."""
