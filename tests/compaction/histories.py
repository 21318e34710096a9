"""Random conversations in four dialects, and random policies, each by a number."""

import json
import random
from collections.abc import Callable
from typing import Any

from tests.compaction.spices import SPICES
from tests.compaction.talks import TALKS, Wire
from weft import C, Policy

_WORDS = (
    "alpha",
    "beta",
    "error",
    "failed",
    "a/b.py",
    "12",
    "3.14",
    "{json}",
    "été",
    "😀",
    "a@b.example",
)
_PICTURE = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}


def random_request(seed: int) -> tuple[str, Wire]:
    """A request that its provider would take, and its dialect."""
    history = _History(random.Random(seed))
    dialect, request = history.dialect, history.request()
    chance = random.Random(f"spices {seed}")
    fitting = [one for one in SPICES if dialect in one.dialects]
    for spice in chance.sample(fitting, k=chance.choice([0, 0, 1, 2, 4])):
        spice.put(request, TALKS[dialect].messages(request), chance)
    return dialect, request


def random_policy(seed: int) -> Policy:
    """A policy that needs no session."""
    chance = random.Random(f"policy {seed}")
    policy = chance.choice(_BASES)(chance)
    return chance.choice(_VERBS)(policy, chance) if chance.random() < 0.5 else policy


_BASES: list[Callable[[random.Random], Policy]] = [
    lambda chance: C.auto(),
    lambda chance: C.auto(),
    lambda chance: C.auto(lossless=True),
    lambda chance: C.auto(careful=True),
    lambda chance: C.default(),
    lambda chance: C.window(chance.randint(1, 3)),
    lambda chance: C.none(),
    lambda chance: C.user(chance.choice(["all", "first", "last", "bookend"])),
]
_VERBS: list[Callable[[Policy, random.Random], Policy]] = [
    lambda policy, chance: policy.compact(results=chance.choice([64, 300])),
    lambda policy, chance: policy.dedupe(),
    lambda policy, chance: policy.truncate(chance.choice([5, 50])),
    lambda policy, chance: policy.budget(chance.choice([2_000, 5_000])),
    lambda policy, chance: policy.fresh(turns=1),
    lambda policy, chance: policy.redact("email"),
    lambda policy, chance: policy.project(fields=["id", "name"]),
    lambda policy, chance: policy.fence(),
]


class _History:
    """One conversation as it is made up."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.dialect = chance.choice([*TALKS])
        self.talk = TALKS[self.dialect]
        self.messages: list[Wire] = []
        self.calls = 0
        self.seen: list[str] = []

    def request(self) -> Wire:
        """The whole request."""
        chance, turns = self.chance, self.chance.randint(1, 4)
        if self.dialect.startswith("openai") and chance.random() < 0.5:
            self.messages.append({"role": "system", "content": "You watch gauges."})
        for turn in range(turns):
            self.messages.append(self.talk.user(self._text(chance.choice([1, 3, 40]))))
            for _ in range(chance.randint(0, 4)):
                self._step()
            if turn < turns - 1:
                self.messages.append(self.talk.say(self._text(2)))
        head = json.loads(json.dumps(self.talk.head))
        request = {**head, self.talk.turns: self.messages}
        if chance.random() < 0.2:
            request["odd"] = {"field": [1, 2.5]}
        return request

    def _text(self, lines: int) -> str:
        chance = self.chance
        words = (" ".join(chance.choices(_WORDS, k=chance.randint(1, 8))) for _ in range(lines))
        return "\n".join(f"{line} {chance.random()}" for line in words)

    def _result(self) -> str:
        chance, kind = self.chance, self.chance.random()
        if kind < 0.25 and self.seen:
            return chance.choice(self.seen)
        if kind < 0.4:
            rows = range(chance.choice([2, 30]))
            return json.dumps([{"id": row, "name": chance.choice(_WORDS)} for row in rows])
        if kind < 0.5:
            return "".join(f"{line}\t{chance.choice(_WORDS)}\n" for line in range(60))
        self.seen.append(self._text(chance.choice([1, 5, 40, 90])))
        return self.seen[-1]

    def _step(self) -> None:
        """Calls made together, and their results."""
        calls: list[tuple[str, str, Wire, str]] = []
        for _ in range(self.chance.choice([1, 1, 1, 2, 3])):
            self.calls += 1
            args = {"path": self.chance.choice(_WORDS)}
            calls.append((f"call_{self.calls}", "read", args, self._result()))
        made = [self.talk.call(id, name, args) for id, name, args, _ in calls]
        match self.dialect:
            case "openai-chat":
                self._chat_step(made, calls)
            case "anthropic":
                self._claude_step(made, calls)
            case "gemini":
                made[0]["thoughtSignature"] = "c2ln"
                answers: list[Any] = [
                    {"functionResponse": {"name": name, "response": self._response(result)}}
                    for _, name, _, result in calls
                ]
                self.messages.append({"role": "model", "parts": made})
                self.messages.append({"role": "user", "parts": answers})
            case _:
                self._responses_step(made, calls)

    def _response(self, result: str) -> Wire:
        return self.chance.choice([{"output": result}, {"result": result}, {"a": result, "b": [1]}])

    def _chat_step(self, made: list[Wire], calls: list[tuple[str, str, Wire, str]]) -> None:
        said = self._text(1) if self.chance.random() < 0.5 else None
        thought: Wire = {}
        if self.chance.random() < 0.3:
            words = self._text(1)
            details = [{"type": "reasoning.text", "text": words}]
            thought = self.chance.choice(
                [{"reasoning_content": words}, {"reasoning": words}, {"reasoning_details": details}]
            )
        self.messages.append({"role": "assistant", "content": said, **thought, "tool_calls": made})
        for id, _, _, result in calls:
            content = self.chance.choice([result, [{"type": "text", "text": result}]])
            self.messages.append({"role": "tool", "tool_call_id": id, "content": content})

    def _claude_step(self, made: list[Wire], calls: list[tuple[str, str, Wire, str]]) -> None:
        chance, said = self.chance, list[Wire]()
        if chance.random() < 0.3:
            thought = {"type": "thinking", "thinking": self._text(1), "signature": "c2lnbmF0dXJl"}
            said.append(thought)
        if chance.random() < 0.4:
            said.append({"type": "text", "text": self._text(1)})
        self.messages.append({"role": "assistant", "content": [*said, *made]})
        results: list[Wire] = []
        for id, _, _, result in calls:
            text = {"type": "text", "text": result}
            picture = {"type": "image", "source": _PICTURE}
            content = chance.choice([result, [text], [text, text], [text, picture]])
            results.append({"type": "tool_result", "tool_use_id": id, "content": content})
        if chance.random() < 0.2:
            results[-1]["is_error"] = True
        if chance.random() < 0.2:
            results.append({"type": "text", "text": self._text(1)})
        if chance.random() < 0.1 and "cache_control" not in json.dumps(self.messages):
            results[-1]["cache_control"] = {"type": "ephemeral"}
        self.messages.append({"role": "user", "content": results})

    def _responses_step(self, made: list[Wire], calls: list[tuple[str, str, Wire, str]]) -> None:
        if self.chance.random() < 0.3:
            sealed = {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
            self.messages.append({**sealed, "id": f"rs_{self.calls}"})
            made[0]["id"] = f"fc_{self.calls}"
        self.messages += made
        for id, _, _, result in calls:
            item = {"type": "function_call_output", "call_id": id, "output": result}
            self.messages.append(item)
