"""Record what a source tree does, text by text, and compare two records.

    python bench/golden.py record OUT.gz [--data FOLDER] [--mutations 6] [--only walks,checks]
    python bench/golden.py compare OLD.gz NEW.gz [--show 6] [--only KEY]

A record is made with whatever `weft` the interpreter imports, so the same scenes can be run over
an old tree and a new one: `PYTHONPATH=OLD/src python bench/golden.py record old.gz`. It holds

    scenes      every conformance scene for every model, lowered to every dialect: wire, hash,
                tokens, report, diagnostics, source map, what is read back, what is refused
    walks       generated sessions, step by step and cold, under every policy
    checks      the checker's corpora with and without their planted faults, drawn as pictures
    runs        the checker's programs run with a scripted model: requests and stored JSON
    exchanges   with --data: recorded exchanges and random mutations of requests, answers and
                streams, in all dialects
    recordings  with --data: recorded sessions under policies, and detected personal data

Scenes alone are a thin guard: a planted fault showed in none of them, and did in mutations.
"""

import argparse
import copy
import dataclasses
import gzip
import hashlib
import importlib
import json
import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

import weft  # noqa: E402
from weft import Agent, C, Content, Event, Part, Session  # noqa: E402
from weft.errors import WeftError  # noqa: E402

DIALECTS = ("gemini", "anthropic", "openai-chat", "openai-responses")
KINDS = ("scenes", "walks", "checks", "runs", "exchanges", "recordings")

Check = tuple[str, Callable[[], object]]
"""What is recorded, and how it comes about."""


def first_of(*places: str) -> Any:
    """The first of several `module:name` that is there: rooms move, what they do stays."""
    for place in places:
        module, _, name = place.partition(":")
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise SystemExit(f"golden: none of {', '.join(places)} is in {weft.__file__}")


read_request = first_of(
    "weft.compiler.read:read_request",
    "weft.recordings.requests:read_request",
    "weft.replay.recordings:read_request",
)
dialect_named = first_of("weft.dialects:dialect_named")
count_request = first_of("weft.dialects:count_request")
lift = first_of("weft.dialects.lift:lift", "weft.dialects:lift")
stream_of = first_of("weft.dialects.lift:stream_of", "weft.dialects:stream_of")
Events = first_of("weft.dialects.lift.sse:Events", "weft.dialects.stream:Events")
check_request = first_of(
    "weft.models.check_request:check_request", "weft.dialects.refuse:refusals",
    "weft.dialects:refusals",
)  # fmt: skip


def plain(value: object) -> object:
    """A value as JSON has it, whatever its class is called."""
    if isinstance(value, msgspec.Struct):
        return {
            field: plain(getattr(value, field))
            for field in value.__struct_fields__
            if not field.startswith("_")
        }
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            one.name: plain(getattr(value, one.name))
            for one in dataclasses.fields(value)
            if not one.name.startswith("_")
        }
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, Sequence | set | frozenset):
        return [plain(one) for one in value]
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))


def text_of(make: Callable[[], object]) -> str:
    """The outcome as text; an error is one too, and the same error counts as the same."""
    try:
        value = make()
    except WeftError as error:
        return f"{type(error).__name__}: {error}"
    except Exception as error:
        return f"!{type(error).__name__}: {error}"
    return value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)


def digest(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(plain(value), sort_keys=True)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


# Scenes


def scenes() -> Iterator[Check]:
    from tests.dialects.prompts import SCENES

    for one in SCENES:
        for spoken in DIALECTS:
            try:
                compiled = one.compile(spoken)
            except WeftError as error:
                yield f"{one.name}/{spoken}/error", lambda error=error: str(error)
                continue
            key = f"{one.name}/{spoken}"
            yield f"{key}/hash", lambda c=compiled: c.hash
            yield f"{key}/prompt", lambda c=compiled: str(c.prompt)
            yield f"{key}/tokens", lambda c=compiled: c.tokens
            yield f"{key}/diagnostics", lambda c=compiled: [str(d) for d in c.diagnostics]
            yield f"{key}/explain", lambda c=compiled: c.explain().to_dict()
            yield f"{key}/report", lambda c=compiled: str(c.explain())
            for target in DIALECTS:
                yield from _lowered(f"{key}->{target}", compiled, target, one.models[spoken])


def _lowered(key: str, compiled: Any, target: str, model: str) -> Iterator[Check]:
    yield f"{key}/wire", lambda: compiled.lower(target)
    try:
        wire = compiled.lower(target)
    except WeftError:
        return
    yield f"{key}/count", lambda: count_request(wire, dialect=target, model=model)
    yield f"{key}/refused", lambda: [str(d) for d in check_request(target, wire, model)]
    yield (
        f"{key}/readback",
        lambda: dialect_named(target).lower(read_request(target, wire, model)).wire,
    )
    if wire == compiled.wire:
        yield f"{key}/origins", lambda: {at: str(compiled.origin(at)) for at in _pointers(wire)}


def _pointers(value: object, at: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _pointers(one, f"{at}/{str(key).replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from _pointers(one, f"{at}/{index}")
    elif isinstance(value, str):
        yield at


# Walks: generated sessions, step by step

PNG = (  # one pixel
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
POLICIES: dict[str, Any] = {
    "default": None,
    "window2": C.window(2),
    "window10": C.window(10),
    "compact": C.default().compact(),
    "compact_small": C.default().compact(results=100, texts=64, to=64, media=1),
    "dedupe": C.default().dedupe(),
    "superseded": C.default().dedupe("superseded"),
    "auto": C.auto(),
    "budget": C.default().budget(3000),
    "budget_drop": C.default().budget(3000, overflow="drop"),
    "budget8": C.default().budget(8000),
    "redact": C.default().redact("email"),
    "redact_auto": C.auto().redact("email"),
    "relevant": C.relevant(),
    "relevant3": C.relevant(top_k=3),
    "relevant_fit": C.relevant().fit(2048),
    "truncate_dedupe": C.default().truncate(20, keep="bookend").dedupe(),
    "window_compact": C.window(5).compact(),
    "dedupe_compact": C.default().dedupe().compact(),
    "union": C.window(2) + C.select(kind="results"),
    "window_redact": C.window(3).redact("email"),
    "label": C.default().compact(results=100, texts=64, to=64).label("secret", tools=["look"]),
    "window_budget": C.window(5).budget(2000),
    "fresh": C.default().fresh(turns=1, stale="compact"),
    "user": C.user(),
    "none": C.none(),
    "recent": C.recent(half_life=3),
    "fence": C.default().fence(),
}
MODELS = ("gpt-4o", "claude-sonnet-4-5", "gemini-flash-latest")


def step(left: int = 0, query: str = "", path: str = "") -> str:
    """Looks."""
    return f"{left} {query} {path}"


def walks(per_policy: int = 10) -> Iterator[Check]:
    for number, events in enumerate(_sessions()):
        # Every session under some policies, every policy on some sessions.
        names = list(POLICIES)[number % 3 :: 3] if number % per_policy else list(POLICIES)
        for name in names:
            yield f"{number}/{name}", lambda e=events, n=name, k=number: _walk(e, n, k)


def _walk(events: list[Event], name: str, number: int) -> str:
    policy = POLICIES[name]
    bot = Agent(
        "bot", model=MODELS[number % 3], tools=[step],
        instruction="Be brief. The intent is {intent?}.",
    )  # fmt: skip
    bot = bot if policy is None else bot.sees(policy)
    grown = Session("s", state={"city": "Oslo"})
    lines: list[str] = []
    for at, event in enumerate(events):
        grown = grown.append(event)
        if at < 30 or at % 5 == 0:
            lines.append(f"{at} {_compiled(bot, grown)}")
        if at % 7 == 3:
            lines.append(f"{at} message {_compiled(bot, grown, message='and what now?')}")
        if at % 6 == 2 or at == len(events) - 1:
            cold = Session("s", state={"city": "Oslo"}, events=events[: at + 1])
            lines.append(f"{at} cold {_compiled(bot, cold)}")
        if at == len(events) - 1 or (len(events) < 30 and at % 6 == 5):
            lines.append(f"{at} report {_report(bot, grown)}")
    return "\n".join(lines)


def _compiled(bot: Agent, session: Session, **more: Any) -> str:
    try:
        c = weft.compile(bot, session=session, **more)
    except WeftError as error:
        return f"{type(error).__name__} {error}"[:300]
    return f"{digest(c.wire)} {c.hash} {c.tokens} {digest([str(d) for d in c.diagnostics])}"


def _report(bot: Agent, session: Session) -> str:
    try:
        report = weft.compile(bot, session=session).explain().to_dict()
    except WeftError as error:
        return f"{type(error).__name__} {error}"[:300]
    return digest(report)


def _sessions() -> Iterator[list[Event]]:
    from tests.support.recorded import coding_run, service_run

    for seed, turns in enumerate([6] * 12 + [20] * 3):
        yield made_up(seed, turns)
    for run in (coding_run(steps=20), service_run(looks=12)):
        yield from _events_of([run])


def made_up(seed: int, turns: int) -> list[Event]:
    """A session with copies, large texts, media, mails, late results, rewinds, other agents."""
    from weft.content import Blob, call_part, result_part

    files = ["\n".join(f"line {k} of file {f}: value {k * f}" for k in range(60)) for f in range(5)]
    dice = random.Random(seed)
    events: list[Event] = []
    late: list[tuple[Part, str]] = []

    def add(author: str, role: str, *parts: Part, turn: str, **more: Any) -> None:
        number = len(events) + 1
        content = Content(role=role, parts=parts) if parts else None
        events.append(
            Event(
                author=author, invocation_id=turn, id=f"e{number}", timestamp=float(number),
                content=content, **more,
            )
        )  # fmt: skip

    for number in range(turns):
        turn = f"i{number}" if dice.random() < 0.95 else ""
        words = dice.choice(
            [
                f"ask about file {dice.randrange(5)}",
                f"mail jane{dice.randrange(3)}@example.org now",
                "word " * dice.choice([3, 1500]),
                f"gauge value {number}",
            ]
        )
        parts = [Part(text=words)]
        if dice.random() < 0.15:
            parts.append(Part(inline_data=Blob(mime_type="image/png", data=PNG)))
        if dice.random() < 0.05:
            add("bot", "model", Part(text="I begin"), turn=turn)
        add("user", "user", *parts, turn=turn)
        for at in range(dice.randrange(0, 5)):
            chance, id, who = (
                dice.random(),
                f"c{number}_{at}",
                dice.choice(["bot"] * 3 + ["helper"]),
            )
            if chance < 0.5:
                args = {"path": f"f{dice.randrange(5)}", "left": dice.randrange(3)}
                add(who, "model", call_part("step", args, id=id), turn=turn)
                text = dice.choice([*files, "short", "mail bob@example.com", files[0] * 20])
                result = result_part("step", {"result": text}, id=id)
                if dice.random() < 0.06:
                    late.append((result, who))
                else:
                    add(who, "user", result, turn=turn)
            elif chance < 0.6:
                add(who, "model", Part(text=dice.choice(["ok", "x " * 900, files[1]])), turn=turn)
            elif chance < 0.65:
                add("user", "user", Part(text="and also"), turn=turn)
            elif chance < 0.7:
                delta = weft.Actions(state_delta={"intent": files[2]})
                add(who, "model", Part(text=files[2]), turn=turn, actions=delta)
            else:
                add(who, "model", Part(text=f"said {number} {at}"), turn=turn)
        if late and dice.random() < 0.4:
            result, who = late.pop(0)
            add(who, "user", result, turn=turn)
        if number > 2 and dice.random() < 0.03:
            back = weft.Actions(rewind_before_invocation_id=f"i{dice.randrange(1, number)}")
            add("user", "user", turn=turn, actions=back)
    return events


# Checks and runs


def checks() -> Iterator[Check]:
    from tests.checker.programs import edited, made, programs

    for program in programs():
        yield program.name, lambda p=program: _findings(made(p.source))
        for number, edit in enumerate(program.edits):
            key = f"{program.name}/{number}"
            yield key, lambda p=program, e=edit: _findings(made(edited(p, e)))
        yield f"{program.name}/graph", lambda p=program: _pictures(made(p.source).flow)


def _findings(program: Any) -> str:
    found = weft.check(program.flow, inputs=program.inputs)
    rows = [f"{d} | {d.severity} | {d.origin} | {d.hint}" for d in found]
    return re.sub(r"<corpus \d+>", "<corpus>", "\n".join(rows))


def _pictures(flow: Any) -> str:
    from weft.graph import graph_of, to_mermaid, to_svg, to_text

    graph = graph_of(flow)
    return "\n".join([to_mermaid(graph), to_text(graph), to_svg(graph), str(flow)])


def runs() -> Iterator[Check]:
    from tests.checker.programs import made, programs

    for program in programs():
        yield program.name, lambda p=program: _run_of(made(p.source))


def _run_of(program: Any) -> str:
    from tests.checker.programs import run

    result, model, errors = run(program)
    stored = result.session.to_json()
    stored = stored.decode() if isinstance(stored, bytes) else stored
    lines = [*map(str, model.prompts), *(json.dumps(wire) for wire in model.wires)]
    lines += [str(result.text), json.dumps(plain(result.usage)), str(len(errors)), stored]
    return _without_chance("\n".join(lines))


def _without_chance(text: str) -> str:
    """Ids numbered as they come, times and checksums left out."""
    ids: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        return ids.setdefault(match[0], f"id{len(ids) + 1}")

    text = re.sub(r'"(timestamp|lastUpdateTime|checksum)":\s*("[^"]*"|[0-9.e+]+)', r'"\1":0', text)
    return re.sub(
        r"(?<![0-9a-zA-Z])(?:[0-9a-f]{32}|[0-9a-f]{12,16}|[0-9a-f]{6})(?![0-9a-zA-Z])", number, text
    )


# Recorded exchanges, and mutations of them

ODD: list[Any] = [
    None, "", " ", 0, 1.5, True, [], {}, "x", ["x"], {"type": "text", "text": "t"},
    [{"type": "text", "text": " "}], {"type": "image"}, "tool_use", "tool_result", "thinking",
    "image", "document", "assistant", "user", "system", "data:image/png;base64,AAAA",
    {"text": "t"}, {"functionCall": {"name": "f"}}, "function_call", "function_call_output",
    "reasoning", {"type": "function", "function": {"name": "f"}},
]  # fmt: skip
ADDED = (
    "cache_control", "extra", "id", "name", "signature", "thoughtSignature", "citations",
    "is_error", "thought", "call_id", "tool_call_id", "arguments", "top_p", "status",
)  # fmt: skip


def mutated(value: Any, dice: random.Random) -> Any:
    """A copy with one to three things taken out, replaced, repeated or added."""
    value = copy.deepcopy(value)
    places = [path for path in _places(value) if path]
    if not places:
        return value
    for _ in range(dice.choice((1, 1, 2, 3))):
        path = dice.choice(places)
        try:
            holder = value
            for one in path[:-1]:
                holder = holder[one]
            chance = dice.random()
            if chance < 0.3:
                del holder[path[-1]]
            elif chance < 0.8:
                holder[path[-1]] = copy.deepcopy(dice.choice(ODD))
            elif isinstance(holder, list):
                holder.insert(path[-1], copy.deepcopy(dice.choice(holder)))
            else:
                holder[dice.choice(ADDED)] = copy.deepcopy(dice.choice(ODD))
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took the place away
    return value


def _places(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _places(one, (*path, key))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from _places(one, (*path, index))


def exchanges(path: Path, mutations: int) -> Iterator[Check]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for at, line in enumerate(lines):
            yield from _exchange(at, msgspec.json.decode(line), mutations)


def _exchange(at: int, exchange: Any, mutations: int) -> Iterator[Check]:
    dialect, request = exchange["dialect"], exchange["request"]
    in_address = str(exchange["path"]).rpartition("/models/")[2].partition(":")[0]
    model = str(request.get("model") or in_address)
    dice = random.Random(f"{at}")
    key = f"{dialect}/{at}"
    yield from _request(key, dialect, request, model)
    for number in range(mutations):
        yield from _request(f"{key}.{number}", dialect, mutated(request, dice), model)
    body = exchange.get("response")
    if isinstance(body, dict):
        yield f"{key}/lift", lambda: lift(dialect, body)
        for number in range(mutations):
            bad = mutated(body, dice)
            yield f"{key}.{number}/lift", lambda bad=bad: lift(dialect, bad)
    if exchange.get("stream"):
        data = exchange["stream"].encode()
        reader = Events()
        events = [(n, msgspec.json.decode(b)) for n, b in [*reader.feed(data), *reader.end()]]
        yield f"{key}/stream", lambda: _streamed(dialect, events)
        for number in range(mutations * 4):
            cut = copy.deepcopy(events)
            index, chance = dice.randrange(len(cut)), dice.random()
            if chance < 0.3:
                del cut[index]
            elif chance < 0.5:
                cut.insert(dice.randrange(len(cut)), cut[index])
            else:
                cut[index] = (cut[index][0], mutated(cut[index][1], dice))
            yield f"{key}.{number}/stream", lambda cut=cut: _streamed(dialect, cut)


def _request(key: str, dialect: str, request: Any, model: str) -> Iterator[Check]:
    yield f"{key}/refused", lambda: [str(d) for d in check_request(dialect, request, model)]
    yield f"{key}/count", lambda: count_request(request, dialect=dialect, model=model)
    yield f"{key}/read", lambda: str(read_request(dialect, request, model))
    for target in DIALECTS:
        yield f"{key}/wire->{target}", lambda t=target: _relowered(dialect, request, model, t)


def _relowered(dialect: str, request: Any, model: str, target: str) -> str:
    lowered = dialect_named(target).lower(read_request(dialect, request, model))
    return json.dumps(lowered.wire) + "".join(f"\n{d}" for d in lowered.diagnostics)


def _streamed(dialect: str, events: Sequence[tuple[str, Any]]) -> object:
    answer = stream_of(dialect)
    shown = [plain(answer.feed(name, one)) for name, one in events]
    return [shown, answer.body(), plain(lift(dialect, answer.body()))]


# Recorded sessions


def recordings(folder: Path) -> Iterator[Check]:
    for name, most in (("swe-agent", 12), ("tau-airline", 16)):
        for path in sorted(folder.glob(f"{name}*.jsonl.gz")):
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                rows = [json.loads(line) for _, line in zip(range(most), lines, strict=False)]
            for number, events in enumerate(_events_of(rows)):
                for policy in ("default", "auto", "compact", "dedupe", "window10", "budget8"):
                    key = f"{name}/{number}/{policy}"
                    yield key, lambda e=events, p=policy, n=number: _walk(e[:80], p, n)
    find, kinds = first_of("weft.detect:find"), first_of("weft.detect:KINDS")
    for path in sorted(folder.glob("pii*.json.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for number, row in enumerate(json.load(lines)):
                text = row["full_text"]
                yield f"pii/{number}", lambda t=text: [plain(one) for one in find(t, kinds)]


def _events_of(rows: list[dict[str, Any]]) -> Iterator[list[Event]]:
    """The events of runs as they were recorded: chat messages, or words and observations."""
    from weft.content import call_part, result_part

    for row in rows:
        events: list[Event] = []
        turn, last_call = 0, ""
        for at, message in enumerate(row.get("messages") or row.get("traj") or []):
            text = message.get("text") or message.get("content") or ""
            author, role, parts = "bot", "model", [Part(text=text)] if text else []
            match message["role"]:
                case "system":
                    continue
                case "tool":
                    id, name = message["tool_call_id"], message.get("name") or "step"
                    role, parts = "user", [result_part(name, {"result": text}, id=id)]
                case "user" if at > 3 and last_call:
                    role, parts = "user", [result_part("step", {"result": text}, id=last_call)]
                    last_call = ""
                case "user":
                    author, role, turn = "user", "user", turn + 1
                case _ if message.get("tool_calls"):
                    for one in message["tool_calls"]:
                        function = one["function"]
                        args = json.loads(function["arguments"])
                        parts.append(call_part(function["name"], args, id=one["id"]))
                case _ if "text" in message:
                    last_call = f"c{at}"
                    parts.append(call_part("step", {"query": text[-80:]}, id=last_call))
                case _:
                    pass
            events.append(
                Event(
                    author=author, invocation_id=f"i{turn}", id=f"e{at}", timestamp=float(at),
                    content=Content(role=role, parts=tuple(parts) or (Part(text="."),)),
                )
            )  # fmt: skip
        yield events


# The command


def record(args: argparse.Namespace) -> int:
    """Write one line a check: its key and its text."""
    wanted = args.only.split(",") if args.only else KINDS
    makers: dict[str, Callable[[], Iterator[Check]]] = {
        "scenes": scenes, "walks": walks, "checks": checks, "runs": runs,
    }  # fmt: skip
    if args.data:
        folder = Path(args.data)
        makers["recordings"] = lambda: recordings(folder)
        makers["exchanges"] = lambda: (
            check
            for path in sorted(folder.glob("exchanges*.jsonl.gz"))
            for check in exchanges(path, args.mutations)
        )
    with gzip.open(
        args.out, "wt", encoding="utf-8", errors="backslashreplace", compresslevel=3
    ) as out:
        for kind in [one for one in KINDS if one in wanted and one in makers]:
            began, count, crashed = time.process_time(), 0, 0
            for key, make in makers[kind]():
                text = text_of(make)
                count += 1
                crashed += text.startswith("!")
                out.write(json.dumps([f"{kind}/{key}", text]) + "\n")
            spent = time.process_time() - began
            print(f"{kind:11} {count:7,} texts, {crashed} crashes, {spent:.0f} s", flush=True)
    return 0


_CHANCE = re.compile(r'"sessionChecksum":"[0-9a-f]+",?| at 0x[0-9a-f]+')
"""What differs from run to run: a checksum over times, and where objects are."""


def _texts(path: str) -> dict[str, str]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    texts = {key: _CHANCE.sub("", text) for key, text in rows}
    assert len(texts) == len(rows), f"{path}: a key stands there twice"
    return texts


def compare(args: argparse.Namespace) -> int:
    """Print how many texts are equal, by kind, and the first differences."""
    old, new = _texts(args.old), _texts(args.new)
    total: Counter[str] = Counter()
    equal: Counter[str] = Counter()
    different: list[str] = []
    for key in old.keys() | new.keys():
        kind = key.split("/")[0]
        total[kind] += 1
        if old.get(key) == new.get(key):
            equal[kind] += 1
        else:
            different.append(key)
    for kind in sorted(total):
        if equal[kind] != total[kind]:
            print(f"{kind:40} {equal[kind]:6,} of {total[kind]:6,}")
    print(f"{'all':40} {sum(equal.values()):6,} of {sum(total.values()):6,} are equal")
    for key in [key for key in sorted(different) if args.only in key][: args.show]:
        before, after = old.get(key, "(not there)"), new.get(key, "(not there)")
        pairs = enumerate(zip(before, after, strict=False))
        at = next((n for n, (a, b) in pairs if a != b), min(len(before), len(after)))
        print(f"\n{key}, character {at}")
        print(f"  old  {before[max(0, at - 120) : at + 200]!r}")
        print(f"  new  {after[max(0, at - 120) : at + 200]!r}")
    return 1 if different else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    recording = commands.add_parser("record", help="write what the imported weft does")
    recording.add_argument("out")
    recording.add_argument("--data", help="a folder with exchanges*.jsonl.gz and recorded sessions")
    recording.add_argument("--mutations", type=int, default=6)
    recording.add_argument("--only", default="", help=f"some of {','.join(KINDS)}")
    recording.set_defaults(run=record)
    comparing = commands.add_parser("compare", help="print what differs between two records")
    comparing.add_argument("old")
    comparing.add_argument("new")
    comparing.add_argument("--show", type=int, default=6)
    comparing.add_argument("--only", default="", help="show only keys that contain this")
    comparing.set_defaults(run=compare)
    args = parser.parse_args()
    return int(args.run(args))


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets must not show as a difference
        os.execve(
            sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"}
        )
    raise SystemExit(main())
