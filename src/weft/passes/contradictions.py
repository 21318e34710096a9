"""Contradictions: what a request says twice, and differently."""

from collections.abc import Iterator

from weft.codes import report
from weft.diagnostics import Diagnostic, Origin
from weft.ir import CallBlock, Prompt, ResultBlock, TextBlock, Want
from weft.ir.want import fingerprint
from weft.passes.env import Env
from weft.passes.summaries import NOT_ASKED, done_without, entries_of, name_of_model
from weft.values import Json, JsonObject, compact

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
            held = returned.setdefault(what, compact(block.response))
            if held != compact(block.response):
                words = f"`{call.name}` returned different things for the same arguments"
                yield report("WEFT604", block.origin, words, _HINT)
                returned[what] = compact(block.response)


def _keys(prompt: Prompt) -> Iterator[Diagnostic]:
    """A state key that is shown with two values."""
    shown: dict[str, str] = {}
    for block in prompt.blocks:
        if not isinstance(block, TextBlock):
            continue
        start = 0
        pieces: list[tuple[Origin, str]] = []
        for span in block.spans:
            pieces.append((span.origin, block.text[start : span.end]))
            start = span.end
        if block.origin.kind == "state":
            pieces = [(block.origin, block.text.partition(":")[2].strip())]
        for origin, text in pieces:
            if origin.kind != "state":
                continue
            held = shown.setdefault(origin.name, text)
            if held != text:
                words = f"the state key `{origin.name}` is shown with two values"
                yield report("WEFT604", origin, words, _HINT)


def _things(prompt: Prompt) -> Iterator[Diagnostic]:
    """A thing with an id that has another value in another result."""
    known: dict[tuple[str, str, str], str] = {}
    for block in prompt.blocks:
        if not isinstance(block, ResultBlock) or block.synthetic:
            continue
        fresh: dict[tuple[str, str, str], str] = {}
        for name, value, thing in _identified(block.response):
            for field, held in thing.items():
                if field != name and not isinstance(held, dict | list):
                    fresh[name, value, field] = compact(held)
        for (name, value, field), held in fresh.items():
            if known.get((name, value, field), held) != held:
                words = f"`{field}` of what has the {name} {value} has two values"
                yield report("WEFT604", block.origin, words, _HINT)
        known.update(fresh)


def _identified(value: Json) -> "Iterator[tuple[str, str, dict[str, Json]]]":
    if isinstance(value, dict):
        for name in _IDS:
            held = value.get(name)
            if isinstance(held, str | int) and not isinstance(held, bool):
                yield name, compact(held), value
                break
        for inner in value.values():
            yield from _identified(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _identified(inner)


def asked_for(prompt: Prompt, env: Env, model: object) -> tuple[list[Diagnostic], Want | None]:
    """What a model finds, from the log; what it is to be asked where the log has no answer."""
    entries = entries_of([item for item in prompt.items if item.kind != "system"], env)
    text = "\n".join(map(str, entries))
    if not text:
        return [], None
    found = fingerprint("contradictions", name_of_model(model), text)
    effect = env.effects.get(found)
    outcome = effect.get("outcome") if effect is not None else None
    if not isinstance(outcome, dict):
        problem = NOT_ASKED if effect is None else str(effect.get("error"))
        want = Want("contradictions", found, _ASK, text, _SCHEMA, model)
        said = done_without(env, "contradictions were looked for by rules only", problem)
        return [said], None if effect is not None else want
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
