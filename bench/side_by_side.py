"""Weft, Headroom and what people do by hand on the same runs, with the count of `weft replay`.

make side-by-side RUNS=long.jsonl
.venv/bin/python bench/side_by_side.py long.jsonl --headroom .venv-headroom/bin/python --every 6 \\
    --messages 300 --minutes 30

Headroom reads the whole request at each call, which takes tenths of a second where it is long.
So a file of long runs takes hours: `--messages` cuts each run, `--minutes` begins no other run
after that time, and the head of the table says what was measured.

A line of the file is a run: `{"messages": [...]}` of a chat. `cost` is relative to plain history,
in fresh tokens of the yardstick. `with recalls` adds what each step that misses something would
have had to ask for again. `rebuilt` is the share of shortened texts that come back letter by
letter, `illegal` counts requests that their provider would refuse, and `changed` is the share of
requests that are not what the program wrote.
"""

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import IO, TypeAlias, cast

import msgspec

import weft
from weft import C, Policy
from weft.dialects import dialect_named, refusals
from weft.ir import Block, Item, ResultBlock, TextBlock
from weft.passes import Env, map_blocks
from weft.recordings import Recording
from weft.recordings.read import from_messages
from weft.replay.replay import Trial, recorded_agents, replay, total, uses_of
from weft.replay.rivals import CAP, CLEARED, KEPT, RIVALS, WINDOW, Rival
from weft.values import Json, JsonObject

CHAT = dialect_named("openai-chat")
Shorten = Callable[[list[JsonObject]], list[JsonObject]]
RequestPair: TypeAlias = tuple[list[JsonObject], list[JsonObject]]
"""The messages of a request as they were, and as they are sent."""


@dataclass
class Contender:
    """A way to make requests shorter: on messages, and where it is not a policy, on items."""

    name: str
    shorten: Shorten
    policy: Policy = field(default_factory=C.default)
    rival: Rival | None = None
    trials: list[Trial] = field(default_factory=list)
    requests: int = 0
    changed: int = 0
    illegal: int = 0
    rebuilt: list[bool] = field(default_factory=list)
    headroom: "Headroom | None" = None

    def requests_of(self, messages: list[JsonObject]) -> Iterator[RequestPair]:
        """Each request of a run, as it was and as it is sent."""
        if self.headroom is not None:  # it takes long, so those of the replay are looked at
            yield from self.headroom.requests
            return
        for end, message in enumerate(messages):
            if end and message["role"] == "assistant":
                yield messages[:end], self.shorten(messages[:end])


class Headroom:
    """Headroom in its own process, with options of its `compress`."""

    def __init__(self, python: Path, model: str, *, freezes: bool = False, **options: Json) -> None:
        worker = Path(__file__).with_name("side_by_side_headroom.py")
        self._process = subprocess.Popen(
            [python, worker], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self._model, self._options, self._freezes = model, options, freezes
        self._known: dict[bytes, list[JsonObject]] = {}
        self._sent: list[JsonObject] = []
        self.requests: list[RequestPair] = []
        self.rebuilt: list[bool] = []

    def shorten(self, messages: list[JsonObject]) -> list[JsonObject]:
        """The messages as it sends them."""
        key = sha256(msgspec.json.encode(messages)).digest()
        if key not in self._known:
            options = {**self._options}
            if self._freezes and messages[: len(self._sent)] == self._sent:
                options["frozen_message_count"] = len(self._sent)
            asked = {"messages": messages, "model": self._model, "options": options}
            cast("IO[str]", self._process.stdin).write(json.dumps(asked) + "\n")
            cast("IO[str]", self._process.stdin).flush()
            line = cast("IO[str]", self._process.stdout).readline()
            if not line:
                raise SystemExit(
                    f"Headroom ended with {self._process.wait()}: run its worker alone"
                )
            answer = json.loads(line)
            self._known[key] = answer["messages"]
            self.requests.append((messages, answer["messages"]))
            self.rebuilt += answer["rebuilt"]
        self._sent = messages
        return self._known[key]

    def forget(self) -> None:
        """Another run begins."""
        self._known, self._sent, self.requests = {}, [], []

    def shorten_items(self, items: Sequence[Item], env: Env) -> list[Item]:
        """The same on the items of a replay: results and texts get the words that it sends."""
        spelled = [[turn.wire for turn in CHAT.turns_of(item, self._model)] for item in items]
        after = iter(self.shorten([wire for wires in spelled for wire in wires]))
        return [
            _with_words(item, wires, [next(after) for _ in wires])
            for item, wires in zip(items, spelled, strict=True)
        ]


def _with_words(item: Item, before: list[JsonObject], after: list[JsonObject]) -> Item:
    results = [block for block in item.blocks if isinstance(block, ResultBlock)]
    texts = [block for block in item.blocks if isinstance(block, TextBlock)]
    new: dict[int, Block] = {}
    for old, now in zip(before, after, strict=True):
        waiting: list[Block] = [*results] if old["role"] == "tool" else [*texts]
        block = waiting[0] if waiting else None
        if old["role"] == "tool":
            results = results[1:]
        if old == now or block is None:
            continue
        words = str(now.get("content") or "")
        change = {"response": {"result": words}} if old["role"] == "tool" else {"text": words}
        new[id(block)] = msgspec.structs.replace(block, **change)
    return map_blocks(item, lambda block: new.get(id(block), block))


# --- what people do by hand, on messages


def cap_results(messages: list[JsonObject]) -> list[JsonObject]:
    """Each result with its first characters only."""
    return [_say(one, str(one["content"])[:CAP]) if _is_long(one) else one for one in messages]


def clear_results(messages: list[JsonObject]) -> list[JsonObject]:
    """All results but the newest ones cleared."""
    places = [at for at, one in enumerate(messages) if one["role"] == "tool"]
    gone = {*places[:-KEPT]}
    return [_say(one, CLEARED) if at in gone else one for at, one in enumerate(messages)]


def keep_newest(messages: list[JsonObject]) -> list[JsonObject]:
    """The author's words and the newest messages."""
    start = max(0, len(messages) - WINDOW)
    return [one for at, one in enumerate(messages) if at >= start or one["role"] == "system"]


def _is_long(message: JsonObject) -> bool:
    return message["role"] == "tool" and len(str(message.get("content") or "")) > CAP


def _say(message: JsonObject, text: str) -> JsonObject:
    return {**message, "content": text}


# --- the runs


def measure(contender: Contender, recording: Recording, messages: list[JsonObject]) -> None:
    """One run of one contender."""
    roots = recorded_agents(recording)
    if contender.rival is not None:
        added = contender.rival.run_pass
        roots = {name: replace(one, passes=(*one.passes, added)) for name, one in roots.items()}
    uses = uses_of(recording.session.events, "\n".join(recording.instructions.values()))
    contender.trials.append(replay(recording, contender.policy, uses=uses, agents=roots))
    for plain, after in contender.requests_of(messages):
        contender.requests += 1
        contender.changed += after != plain
        problems = _problems(after) if after != plain else set[str]()
        contender.illegal += bool(problems and problems - _problems(plain))


def _problems(messages: list[JsonObject]) -> set[str]:
    wire: JsonObject = {"model": "gpt-5", "messages": cast("Json", messages)}
    return {one.message for one in refusals("openai-chat", wire)}


def _compact(messages: list[JsonObject]) -> list[JsonObject]:
    request: JsonObject = {"model": "gpt-5", "messages": cast("Json", messages)}
    after = cast("JsonObject", weft.compact(request, C.auto(), dialect="openai-chat").request)
    return cast("list[JsonObject]", after["messages"])


def main() -> None:
    """Measure all of them, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("--headroom", type=Path, help="the Python of its environment")
    parser.add_argument("--every", type=int, default=1, help="measure each run of this many")
    parser.add_argument("--limit", type=int, help="measure at most this many runs")
    parser.add_argument("--messages", type=int, help="measure at most this many messages of a run")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no run after these")
    given = parser.parse_args()
    by_name = {rival.name: rival for rival in RIVALS}
    contenders = [
        Contender("plain history", lambda messages: messages),
        Contender("Weft, `C.auto()`", _compact, C.auto()),
        Contender(
            f"clear old results, keep {KEPT}", clear_results,
            rival=by_name[f"clear old results, keep {KEPT}"],
        ),
        Contender(
            f"cap {CAP:,} characters", cap_results, rival=by_name[f"cap {CAP:,} characters"]
        ),
        Contender(f"window of {WINDOW}", keep_newest, rival=by_name[f"window of {WINDOW}"]),
    ]  # fmt: skip
    processes: list[Headroom] = []
    if given.headroom is not None:
        for name, freezes, options in (
            ("Headroom, default", False, {}),
            ("Headroom, prefix frozen", True, {}),
            ("Headroom, agent-90", False, {"savings_profile": "agent-90"}),
        ):
            headroom = Headroom(given.headroom, "gpt-5", freezes=freezes, **options)
            rival = Rival(name, headroom.shorten_items)
            rebuilt = headroom.rebuilt
            contenders.append(
                Contender(name, headroom.shorten, rival=rival, rebuilt=rebuilt, headroom=headroom)
            )
            processes.append(headroom)
    lines = given.runs.read_text("utf-8").splitlines()[:: given.every]
    chosen = lines[: given.limit]
    measured, begun = list[str](), time.monotonic()
    for number, line in enumerate(chosen):
        if time.monotonic() - begun > 60 * given.minutes:
            break
        run = json.loads(line)
        name = str(run.get("id") or number)
        run = {"messages": run["messages"][: given.messages]}
        recording = from_messages(run, format="openai-chat", lenient=True)
        for at, contender in enumerate(contenders):
            done = 20 * at // len(contenders)
            bar, spent = "#" * done + "." * (20 - done), time.monotonic() - begun
            print(f"\r\033[Krun {number + 1} of {len(chosen)} [{bar}] {spent:,.0f} s, {name}:"
                  f" {contender.name}", end="", file=sys.stderr, flush=True)  # fmt: skip
            measure(contender, recording, run["messages"])
        for process in processes:
            process.forget()
        measured.append(name)
    print("\r\033[K", end="", file=sys.stderr)
    print(f"{len(measured)} of {len(lines)} runs: {', '.join(measured)}")
    print_table(contenders)


def print_table(contenders: list[Contender]) -> None:
    """A row for each, against plain history."""
    plain = total(contenders[0].trials)
    print(f"{plain.runs} runs, {plain.requests:,} requests")
    print("| | cost | with recalls | rebuilt | illegal | changed |")
    print("|---|---:|---:|---:|---:|---:|")
    for one in contenders:
        trial = total(one.trials)
        rebuilt = trial.rebuilt / trial.reduced if trial.reduced else None
        if one.rebuilt:
            rebuilt = sum(one.rebuilt) / len(one.rebuilt)
        print(
            f"| {one.name} | {trial.cost / plain.cost:.2f} | {trial.with_recalls / plain.cost:.2f}"
            f" | {f'{rebuilt:.0%}' if rebuilt is not None else '-'} | {one.illegal:,}"
            f" | {one.changed / max(1, one.requests):.0%} |"
        )


if __name__ == "__main__":
    main()
