"""Have a model write into state what the conversation says."""

from collections.abc import Sequence
from typing import cast

import msgspec

from weft import schema as schemas
from weft.declare.policy_parts import Distill, Extract
from weft.diagnostics import Diagnostic
from weft.ir import Item, Prompt, Want
from weft.ir.block import fingerprint
from weft.passes.env import Env
from weft.passes.summaries import NOT_ASKED, done_without, entry_of, name_of_model
from weft.values import Json, JsonObject

EXTRACT = (
    "Read out of this conversation what the schema asks for. Take only what was said; leave out"
    " or set to null what was not, as the schema allows."
)

DISTILL = (
    "Take the facts out of this conversation: each a short sentence that stands by itself and"
    " says one thing, in the words of its source, with every name, number and date as written."
    " Give each the number of the entry it is from. Leave out greetings and guesses; add nothing."
)

FACTS: JsonObject = {
    "type": "object",
    "properties": {
        "facts": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"fact": {"type": "string"}, "source": {"type": "integer"}},
                "required": ["fact", "source"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["facts"],
    "additionalProperties": False,
}


def want_writings(prompt: Prompt, env: Env, options: Extract | Distill) -> Prompt:
    """Leave a want for what is to be written, where the log has no outcome for this input.

    The input is what is in view up to the user's last words: what the agent does about them does
    not change it, so the model is asked once a turn. The outcome is in the state already, for
    the event that has it carries it. Facts are distilled of what is new only.

    Before:  user "Fly me to Oslo"   (C.default().distill("facts"))
    After:   the same, and a want of kind "distill" for `facts`
    """
    seen = _seen(prompt, env)
    if isinstance(options, Extract):
        want, diagnostic = _extracted(seen, env, options)
    else:
        want, diagnostic = _distilled(seen, env, options)
    known = want is None or want in prompt.wants
    if known and diagnostic in (None, *prompt.diagnostics):
        return prompt
    return msgspec.structs.replace(
        prompt,
        wants=prompt.wants if known else (*prompt.wants, cast("Want", want)),
        diagnostics=prompt.diagnostics if diagnostic is None else (*prompt.diagnostics, diagnostic),
    )


def _seen(prompt: Prompt, env: Env) -> list[Item]:
    """What is in view up to what the agent did in the current turn."""
    items: list[Item] = []
    for item in prompt.items:
        # behind this the input would change with every step, and be asked for again
        if item.position >= env.turn and item.author == env.agent and item.kind != "summary":
            break
        if item.kind not in ("state", "system"):
            items.append(item)
    return items


def _extracted(
    seen: Sequence[Item], env: Env, options: Extract
) -> tuple[Want | None, Diagnostic | None]:
    entries = [entry for item in seen if (entry := entry_of(item, env)) is not None]
    if not entries:
        return None, None
    text = "\n".join(map(str, entries))
    schema = schemas.of_type(options.schema, where="C.extract.schema")
    named = name_of_model(options.model)
    key = fingerprint("extract", schema, options.key, named, text)
    effect = env.session.effects.get(key)
    # a `temp:` key is gone with its invocation: then it is read out again
    if effect is not None and not _is_lost(effect, env, options.key):
        return None, _failed(effect, env, f"`{options.key}` is not extracted")
    want = Want("extract", key, EXTRACT, text, schema, options.model, options.key)
    return want, done_without(env, f"`{options.key}` is not extracted", NOT_ASKED)


def _distilled(
    seen: Sequence[Item], env: Env, options: Distill
) -> tuple[Want | None, Diagnostic | None]:
    done, last = _distilled_through(env, options.key)
    fresh = [item for item in seen if item.position > done]
    entries = [(item, entry) for item in fresh if (entry := entry_of(item, env)) is not None]
    if not entries:
        return None, _left_out(last, env, options.key)
    lines = [f"[{number}] {entry}" for number, (_, entry) in enumerate(entries, 1)]
    text = "\n".join(lines)
    key = fingerprint("distill", options.key, name_of_model(options.model), text)
    effect = env.session.effects.get(key)
    if effect is not None:
        return None, _failed(effect, env, f"nothing new is distilled into `{options.key}`")
    want = Want(
        "distill",
        key,
        DISTILL,
        text,
        FACTS,
        options.model,
        options.key,
        sources=tuple((item.event, entry.text) for item, entry in entries),
        through=max(item.last for item, _ in entries),
    )
    return want, done_without(env, f"nothing new is distilled into `{options.key}`", NOT_ASKED)


def _distilled_through(env: Env, key: str) -> tuple[int, JsonObject | None]:
    """The log index up to which facts are in state under the key, and the effect that says so."""
    done, last = -1, None
    for effect in env.session.effects.values():
        through = effect.get("through")
        same = effect.get("kind") == "distill" and effect.get("key") == key
        # one that failed has distilled nothing, so its entries are still due
        if same and "outcome" in effect and isinstance(through, int) and through > done:
            done, last = through, effect
    return done, last


def _is_lost(effect: JsonObject, env: Env, key: str) -> bool:
    """Whether an outcome was kept only as long as its invocation lasted."""
    return key.startswith("temp:") and "outcome" in effect and key not in env.session.state


def _failed(effect: JsonObject, env: Env, what: str) -> Diagnostic | None:
    error: Json = effect.get("error")
    return done_without(env, what, str(error)) if "outcome" not in effect else None


def _left_out(effect: JsonObject | None, env: Env, key: str) -> Diagnostic | None:
    dropped = effect.get("dropped") if effect is not None else None
    if not isinstance(dropped, list) or not dropped:
        return None
    words = f"{len(dropped)} of the facts for `{key}` are left out"
    return done_without(env, words, "their sources do not say them")
