"""Find out what is wrong with a request before it is sent."""

import re
from collections.abc import Iterator

import msgspec

from weft.content import Part
from weft.declare.policy_parts import ArtifactText, Validate
from weft.diagnostics import Diagnostic, Origin, report
from weft.ir import CallBlock, Prompt, ResultBlock, TextBlock, Want
from weft.ir.block import fingerprint
from weft.passes.env import Env
from weft.passes.summaries import NOT_ASKED, done_without, entries_of, name_of_model
from weft.values import Json, JsonObject, compact, handle_of

_HANDLE = re.compile(r"\[handle ([0-9a-f]{12})\b|\"handle\":\"([0-9a-f]{12})\"")

_WORDS = re.compile(r"\w+")

_RUN = 8
"""So many equal words in a row count as said again."""

_LEAST, _MOST = 400, 100_000
"""Shorter requests, in words, are not looked at for repeats, and of longer ones only this many."""

DENSITY = 0.5
"""A request with a larger share of repeated words is reported."""


def validate_context(prompt: Prompt, env: Env, options: Validate) -> Prompt:
    """Report what is missing, what contradicts itself, and what is said over and over.

    Nothing is changed. Under `RunConfig(strict=True)` what is missing or contradicts is an error.

    Before:  call price({}) | result 40 | call price({}) | result 45   ("contradictions")
    After:   the same, and WEFT604: `price` returned different things for the same arguments
    """
    problems: list[Diagnostic] = []
    for quality in options.what:
        match quality:
            case "completeness":
                problems += _incomplete(prompt, env)
            case "contradictions":
                problems += contradictions(prompt, env)
            case "density":
                problems += _check_repetition(prompt, env)
    want = None
    if "contradictions" in options.what and options.model is not None:
        diagnostics, want = asked_for(prompt, env, options.model)
        problems += diagnostics
    new = [one for one in dict.fromkeys(problems) if one not in prompt.diagnostics]
    wants = prompt.wants if want is None or want in prompt.wants else (*prompt.wants, want)
    if not new and wants is prompt.wants:
        return prompt
    return msgspec.structs.replace(prompt, diagnostics=(*prompt.diagnostics, *new), wants=wants)


def _incomplete(prompt: Prompt, env: Env) -> Iterator[Diagnostic]:
    """What the request refers to and does not hold."""
    for diagnostics in prompt.diagnostics:
        if diagnostics.code in ("WEFT101", "WEFT102"):
            yield _missing(
                diagnostics.origin, f"a part of the instruction is missing: {diagnostics.message}"
            )
    here = Origin("field", "context", env.agent)
    for key in env.policy.facts.state_keys:
        if env.session.state.get(key) is None:
            yield _missing(here, f"the policy shows `{key}`, which has no value")
    for stage in env.policy.stages:
        selector = stage.selector
        if isinstance(selector, ArtifactText) and selector.name not in env.session.artifacts:
            yield _missing(here, f"the policy shows the artifact `{selector.name}`, which is none")
    asked = any(env.is_asked(item) for item in prompt.items)
    if not asked and env.policy.facts.view != "nothing" and _was_asked(env):
        yield _missing(here, "what the user asks is not in view")
    for item in prompt.items:
        for block in item.blocks:
            if isinstance(block, ResultBlock) and block.synthetic:
                yield _missing(block.origin, f"the call of `{block.name}` has no result")
    yield from _lost_handles(prompt, env)


def _missing(origin: Origin, message: str) -> Diagnostic:
    hint = "write the key, select the item, or answer the call"
    return report("WEFT603", origin, message, hint)


def _was_asked(env: Env) -> bool:
    return any(event.author == "user" and event.text for event in env.log.since(env.turn))


def _lost_handles(prompt: Prompt, env: Env) -> Iterator[Diagnostic]:
    """Handles in view whose value the log does not have."""
    handles_in_view: dict[str, Origin] = {}
    for item in prompt.items:
        for block in item.blocks:
            text = block.text if isinstance(block, TextBlock) else ""
            if isinstance(block, ResultBlock):
                text = compact(block.response)
            for match in _HANDLE.finditer(text):
                handles_in_view.setdefault(match[1] or match[2], block.origin)
    if not handles_in_view:
        return
    known_handle = set(_handles(env))
    for handle, origin in handles_in_view.items():
        if handle not in known_handle:
            yield _missing(origin, f"the handle {handle} stands for nothing in this session")


def _handles(env: Env) -> Iterator[str]:
    """The handles of everything that the log can give back."""
    for event in env.log:
        for part in (event.content.parts or ()) if event.content is not None else ():
            yield from _of_part(part)
            result = part.function_response
            if result is not None:
                yield handle_of(result.response or {})
                for raw in result.parts or ():
                    yield from _of_part(msgspec.convert(raw, Part))
        yield from map(handle_of, event.actions.state_delta.values())
    yield from map(handle_of, env.session.state.values())
    yield from map(handle_of, env.session.artifacts.values())


def _of_part(part: Part) -> Iterator[str]:
    if part.text:
        yield handle_of(part.text)
    if part.inline_data is not None and part.inline_data.data:
        # handles are made of standard base64, and a log may have either alphabet
        yield handle_of(part.inline_data.data.replace("-", "+").replace("_", "/"))


def _check_repetition(prompt: Prompt, env: Env) -> Iterator[Diagnostic]:
    """That most of the words stand in stretches that stood there before."""
    words: list[str] = []
    for text in _texts(prompt):
        words += _WORDS.findall(text.casefold())
        if len(words) > _MOST:
            break
    if len(words) < _LEAST:
        return
    seen: set[int] = set()
    again = 0
    for at in range(len(words) - _RUN + 1):
        stretch = hash(tuple(words[at : at + _RUN]))
        again += stretch in seen
        seen.add(stretch)
    share = again / (len(words) - _RUN + 1)
    if share > DENSITY:
        yield report(
            "WEFT605",
            Origin("field", "context", env.agent),
            f"{share:.0%} of what the request says, it says more than once",
            "write .dedupe(), .project(fields=...), .compact(), or C.auto()",
        )


def _texts(prompt: Prompt) -> Iterator[str]:
    for block in prompt.blocks:
        if isinstance(block, TextBlock):
            yield block.text
        elif isinstance(block, ResultBlock):
            yield compact(block.response)


_ASK = (
    "Find statements in this conversation that cannot both be true: about the same person, thing"
    " or event, at the same time. For each pair say what it is about, and quote both, word for"
    " word. What was corrected openly is no contradiction. Most conversations have none."
)

_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "contradictions": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {name: {"type": "string"} for name in ("about", "first", "second")},
                "required": ["about", "first", "second"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["contradictions"],
    "additionalProperties": False,
}

_IDS = ("id", "uuid")

_HINT = 'write .dedupe("superseded"), or .fresh(turns=...), or drop one of them'


def contradictions(prompt: Prompt, env: Env) -> Iterator[Diagnostic]:
    """What can be seen without a model: one call, one key or one thing with two values."""
    yield from _calls(prompt)
    yield from _keys(prompt)
    yield from _things(prompt)


def _calls(prompt: Prompt) -> Iterator[Diagnostic]:
    """The same tool with the same arguments that returned something else."""
    returned: dict[tuple[str, str], str] = {}
    for item in prompt.items:
        asked = {block.id: block for block in item.blocks if isinstance(block, CallBlock)}
        for block in item.blocks:
            if not isinstance(block, ResultBlock) or block.synthetic or block.is_error:
                continue
            call = asked.get(block.call_id)
            if call is None:
                continue
            what = (call.name, compact(call.args))
            value = returned.setdefault(what, compact(block.response))
            if value != compact(block.response):
                words = f"`{call.name}` returned different things for the same arguments"
                yield report("WEFT604", block.origin, words, _HINT)
                # each change is reported once, against the newest value
                returned[what] = compact(block.response)


def _keys(prompt: Prompt) -> Iterator[Diagnostic]:
    """A state key that is shown with two values."""
    keys: dict[str, str] = {}
    for block in prompt.blocks:
        if not isinstance(block, TextBlock):
            continue
        start = 0
        pieces: list[tuple[Origin, str]] = []
        for span in block.spans:
            pieces.append((span.origin, block.text[start : span.end]))
            start = span.end
        # a value among the turns stands after its heading
        if block.origin.kind == "state":
            pieces = [(block.origin, block.text.partition(":")[2].strip())]
        for origin, text in pieces:
            if origin.kind != "state":
                continue
            value = keys.setdefault(origin.name, text)
            if value != text:
                words = f"the state key `{origin.name}` is shown with two values"
                yield report("WEFT604", origin, words, _HINT)


def _things(prompt: Prompt) -> Iterator[Diagnostic]:
    """A thing with an id that has another value in another result."""
    known: dict[tuple[str, str, str], str] = {}
    for block in prompt.blocks:
        if not isinstance(block, ResultBlock) or block.synthetic:
            continue
        fresh: dict[tuple[str, str, str], str] = {}
        for name, value, thing in _identity_of(block.response):
            for field, inner in thing.items():
                if field != name and not isinstance(inner, dict | list):
                    fresh[name, value, field] = compact(inner)
        for (name, value, field), inner in fresh.items():
            if known.get((name, value, field), inner) != inner:
                words = f"`{field}` of what has the {name} {value} has two values"
                yield report("WEFT604", block.origin, words, _HINT)
        # within one result a thing may come twice: only results are compared with each other
        known.update(fresh)


def _identity_of(value: Json) -> "Iterator[tuple[str, str, dict[str, Json]]]":
    if isinstance(value, dict):
        for name in _IDS:
            identity = value.get(name)
            if isinstance(identity, str | int) and not isinstance(identity, bool):
                yield name, compact(identity), value
                break
        for inner in value.values():
            yield from _identity_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _identity_of(inner)


def asked_for(prompt: Prompt, env: Env, model: object) -> tuple[list[Diagnostic], Want | None]:
    """What a model finds, from the log; what it is to be asked where the log has no answer."""
    entries = entries_of([item for item in prompt.items if item.kind != "system"], env)
    text = "\n".join(map(str, entries))
    if not text:
        return [], None
    wants = fingerprint("contradictions", name_of_model(model), text)
    effect = env.session.effects.get(wants)
    outcome = effect.get("outcome") if effect is not None else None
    if not isinstance(outcome, dict):
        problem = NOT_ASKED if effect is None else str(effect.get("error"))
        want = Want("contradictions", wants, _ASK, text, _SCHEMA, model)
        diagnostics = done_without(env, "contradictions were looked for by rules only", problem)
        # it was asked and failed: it is not asked again for the same text
        return [diagnostics], None if effect is not None else want
    listed = outcome.get("contradictions")
    origin = Origin("field", "context", env.agent)
    return [
        report(
            "WEFT604",
            origin,
            f"{one.get('about')}: `{one.get('first')}` and `{one.get('second')}`",
            _HINT,
        )
        for one in (listed if isinstance(listed, list) else ())
        if isinstance(one, dict)
    ], None
