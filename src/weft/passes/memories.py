"""Show what the user's memory has on a question among the turns."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import cast

import msgspec

from weft.declare.policy_parts import Memories
from weft.diagnostics import Diagnostic, Origin
from weft.ir import Item, Note, Prompt, TextBlock, Want
from weft.ir.block import fingerprint
from weft.passes.env import Env
from weft.passes.relevant import query_of, unasked
from weft.passes.state_items import drop_all
from weft.passes.summaries import done_without
from weft.values import Json, JsonObject

_NOT_SEARCHED = "the memory was not searched yet"


def insert_memories(prompt: Prompt, env: Env, options: Memories) -> Prompt:
    """Put what the memory gave behind what was asked, each memory as an item of its own.

    A pass searches nothing: it leaves a want, the runtime searches, and the log keeps what came of
    it. What an earlier turn was shown stays where it was, so that what was sent keeps its bytes; a
    memory that is in view is not repeated. O(searches of this session).

    Before:  user "Where do I live?"
    After:   user "[memory] 2026-03-01, user: I moved to Oslo"         (C.memory())
    """
    asked = query_of(prompt.items, env, options)
    diagnostics: list[Diagnostic] = [*unasked(env, options)]
    wants: tuple[Want, ...] = ()
    if asked.strip():
        want = _want(asked, env, options)
        effect = env.session.effects.get(want.fingerprint)
        if effect is None:
            wants = (want,)
            diagnostics.append(done_without(env, "no memories are shown", _NOT_SEARCHED))
        elif "error" in effect:
            problem = str(effect["error"])
            diagnostics.append(done_without(env, "no memories are shown", problem))
    staying = [*_memories_in_view(env, options)]
    notes = [Note("insert_memories", "the memory gave it", one, one) for one in staying]
    after = drop_all(prompt, "insert_memories", "the policy shows memories only")
    after = after.with_items(staying, notes, diagnostics)
    return msgspec.structs.replace(after, wants=(*prompt.wants, *wants))


def _want(asked: str, env: Env, options: Memories) -> Want:
    """The search of this turn; the same question in a later turn is asked anew."""
    spec = _spec(env, options)
    # with the invocation: the memory may know more by the next turn
    key = fingerprint("memory", spec, asked, env.invocation)
    return Want("memory", key, "", asked, through=len(env.log) - 1, options=spec)


def _spec(env: Env, options: Memories) -> JsonObject:
    """Whose search it is, and how it is done."""
    return {
        "agent": env.agent,
        "branch": env.branch,
        "query": options.query,
        "from_state": options.from_state,
        "top_k": options.top_k,
        "scorer": options.scorer,
    }


def _memories_in_view(env: Env, options: Memories) -> Iterator[Item]:
    """What all searches of this policy gave, each memory where it was first shown."""
    spec, seen = _spec(env, options), set[str]()
    for effect in env.session.effects.values():
        # searches of another agent or policy are not its own
        if effect.get("kind") != "memory" or effect.get("options") != spec:
            continue
        position = cast("int", effect.get("through", -1)) + 1
        for memory in cast("list[JsonObject]", effect.get("outcome") or []):
            name = str(memory.get("id"))
            if name not in seen:
                seen.add(name)
                yield _item(name, memory, position)


def _item(name: str, memory: JsonObject, position: int) -> Item:
    block = TextBlock(role="user", origin=Origin("memory", name), text=_text(memory))
    score = memory.get("score")
    return Item(
        "state",
        (block,),
        "",
        "",
        position,
        position,
        f"memory {name}",
        score=float(score) if isinstance(score, int | float) else 0.0,
    )


def _text(memory: JsonObject) -> str:
    about = ", ".join(part for part in (_day(memory.get("at")), str(memory["author"])) if part)
    return f"[memory] {about}: {memory['text']}" if about else f"[memory] {memory['text']}"


def _day(at: Json) -> str:
    if not isinstance(at, int | float) or at <= 0:
        return ""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"
