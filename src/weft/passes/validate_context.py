"""Find out what is wrong with a request before it is sent."""

import re
from collections.abc import Iterator

import msgspec

from weft.codes import report
from weft.content import Part
from weft.declare.policy.selectors import ArtifactText
from weft.declare.policy.transforms import Validate
from weft.diagnostics import Diagnostic, Origin
from weft.ir import Prompt, ResultBlock, TextBlock
from weft.ir.handle import handle_of
from weft.passes.contradictions import asked_for, contradictions
from weft.passes.env import Env
from weft.values import compact

_HANDLE = re.compile(r"\[handle ([0-9a-f]{12})\b|\"handle\":\"([0-9a-f]{12})\"")
_WORDS = re.compile(r"\w+")
_RUN = 8
"""How many words in a row are the same when something is said again."""
_LEAST, _MOST = 400, 100_000
"""How many words a request must have to be looked at, and how many are looked at."""
DENSITY = 0.5
"""The share of repeated words from which on a request says little in many words."""


def validate_context(prompt: Prompt, env: Env, options: Validate) -> Prompt:
    """Report what is missing, what contradicts itself, and what is said over and over.

    Nothing is changed. Under `RunConfig(strict=True)` what is missing or contradicts is an error.

    Before:  call price({}) | result 40 | call price({}) | result 45   ("contradictions")
    After:   the same, and WEFT604: `price` returned different things for the same arguments
    """
    found: list[Diagnostic] = []
    for quality in options.what:
        match quality:
            case "completeness":
                found += _incomplete(prompt, env)
            case "contradictions":
                found += contradictions(prompt, env)
            case "density":
                found += _repeated(prompt, env)
    want = None
    if "contradictions" in options.what and options.model is not None:
        said, want = asked_for(prompt, env, options.model)
        found += said
    new = [one for one in dict.fromkeys(found) if one not in prompt.diagnostics]
    wants = prompt.wants if want is None or want in prompt.wants else (*prompt.wants, want)
    if not new and wants is prompt.wants:
        return prompt
    return msgspec.structs.replace(prompt, diagnostics=(*prompt.diagnostics, *new), wants=wants)


def _incomplete(prompt: Prompt, env: Env) -> Iterator[Diagnostic]:
    """What the request refers to and does not hold."""
    for said in prompt.diagnostics:
        if said.code in ("WEFT101", "WEFT102"):
            yield _missing(said.origin, f"a part of the instruction is missing: {said.message}")
    here = Origin("field", "context", env.agent)
    for key in env.policy.state_keys:
        if env.state.get(key) is None:
            yield _missing(here, f"the policy shows `{key}`, which has no value")
    for stage in env.policy.stages:
        selector = stage.selector
        if isinstance(selector, ArtifactText) and selector.name not in env.artifacts:
            yield _missing(here, f"the policy shows the artifact `{selector.name}`, which is none")
    asked = any(env.is_asked(item) for item in prompt.items)
    if not asked and env.policy.view != "nothing" and _was_asked(env):
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
    shown: dict[str, Origin] = {}
    for item in prompt.items:
        for block in item.blocks:
            text = block.text if isinstance(block, TextBlock) else ""
            if isinstance(block, ResultBlock):
                text = compact(block.response)
            for match in _HANDLE.finditer(text):
                shown.setdefault(match[1] or match[2], block.origin)
    if not shown:
        return
    held = set(_handles(env))
    for handle, origin in shown.items():
        if handle not in held:
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
    yield from map(handle_of, env.state.values())
    yield from map(handle_of, env.artifacts.values())


def _of_part(part: Part) -> Iterator[str]:
    if part.text:
        yield handle_of(part.text)
    if part.inline_data is not None and part.inline_data.data:
        yield handle_of(part.inline_data.data.replace("-", "+").replace("_", "/"))


def _repeated(prompt: Prompt, env: Env) -> Iterator[Diagnostic]:
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
