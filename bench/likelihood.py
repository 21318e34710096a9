"""Would a model act the same? How likely recorded actions are to it, with and without a policy.

    python bench/likelihood.py MODEL.gguf DATA ... --results FILE.jsonl
    python bench/likelihood.py MODEL.gguf DATA ... --policy "C.auto()" --policy "C.none()" --steps 9
    python bench/likelihood.py --rows ROWS.jsonl.gz DATA ... --steps 300      only write the steps
    python bench/likelihood.py MODEL.gguf --rows ROWS.jsonl.gz --results FILE.jsonl --backend torch
    python bench/likelihood.py --results FILE.jsonl                           only print the table

DATA are recordings that `weft replay` reads: files, folders or globs. Of their steps some are
chosen, always the same. Each is compiled as plain history and under each policy; the recorded next
action is then forced upon the model, token by token, and its log-probability noted. For each
policy there is a control: plain history with as many characters of its results removed at random.

The table says, for all tokens of an action and apart for the names of tools, for arguments and for
values that were copied from a result: the change of log-probability a token (with its range for
95% of other choices of runs), the share of steps that fell or rose by more than 5 nats, how often
the model's first choice is the recorded token, and how often it is the one it has with plain
history. Read falls minus rises: a harmless change moves some steps by 5 nats, too.

A run goes on where it stopped: rows in the results are not scored again. `--limit SECONDS` stops
it in time. The steps may be written on one machine (`--rows`) and scored on another that has no
Weft: then this file, the rows and the weights are all it needs. Two backends score alike:

- `llama`: xllamacpp, on the processor. A grammar of single tokens forces the action.
- `torch`: torch, transformers and gguf. The weights are read from the same file, into bfloat16 on
  a GPU. All positions of an action are scored in one pass.

What it does not say: one step ahead only, by a small model, and a recall gets no credit.
"""

import argparse
import gzip
import hashlib
import json
import math
import os
import random
import re
import sys
import time
import urllib.error
import urllib.request
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

FULL = "C.default()"
POLICIES = ("C.auto()", "C.auto(careful=True)", "C.default().truncate(500)", "C.window(5)")
MUCH = 5.0
"""Nats by which a step must change to count as much worse, or better."""
CONTEXT = 8_192
SEED = "likelihood"
DRAWS = 1_000
"""How often runs are drawn again for a range."""

# --- rows: what is to be scored


class Step(NamedTuple):
    """One recorded action, and the requests that it is scored after, as numbers of segments."""

    name: str
    run: str
    action: list[list[Any]]
    """Texts with their kind (markup, text, name, arguments) and the stretches that are copied."""
    contexts: dict[str, list[int]]


class Rows(NamedTuple):
    """Steps, and the segments that their requests are made of, each once."""

    segments: list[list[list[str]]]
    steps: list[Step]

    def write(self, path: Path) -> None:
        with gzip.open(path, "wt", encoding="utf-8", errors="backslashreplace") as file:
            for segment in self.segments:
                file.write(json.dumps({"segment": segment}) + "\n")
            for step in self.steps:
                file.write(json.dumps({"step": step._asdict()}) + "\n")

    @classmethod
    def read(cls, path: Path) -> "Rows":
        segments, steps = [], []
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in map(json.loads, file):
                if "segment" in line:
                    segments.append(line["segment"])
                else:
                    steps.append(Step(**line["step"]))
        return cls(segments, steps)


def make_rows(data: list[Path], policies: list[str], count: int, context: int, least: int) -> Rows:
    """Choose steps of recordings, and compile them under each policy."""
    from weft.declare.words import policy_from
    from weft.recordings.read import files_in, read_files
    from weft.replay.replay import requests_of, uses_of

    recordings = [*read_files(files_in(data))]
    recordings.sort(key=lambda one: _draw(one.source, one.id))
    each = math.ceil(count / max(1, len(recordings)))
    book = _SegmentBook()
    steps: list[Step] = []
    for number, recording in enumerate(recordings):
        if len(steps) >= count:
            break
        events = [*recording.session.events]
        sizes = {
            index: compiled.tokens
            for index, answer, compiled in requests_of(recording, policy_from(FULL), refused=[])
            if _is_action(events, index, answer)
        }
        fitting = [index for index, tokens in sizes.items() if least <= tokens <= context * _ROOM]
        # the later recordings make up for those that have too few
        left = math.ceil((count - len(steps)) / (len(recordings) - number))
        fitting.sort(key=lambda index: _draw(recording.id, str(index)))
        chosen = set(fitting[: max(each, left)])
        if not chosen:
            continue
        uses = uses_of(events, "\n".join(recording.instructions.values()))
        contexts: dict[int, dict[str, list[int]]] = defaultdict(dict)
        plain: dict[int, Any] = {}
        for policy in (FULL, *policies):
            # one that does not fit a budget is not scored
            for index, _, compiled in requests_of(recording, policy_from(policy), refused=[]):
                if index in chosen:
                    wire: Any = compiled.lower("openai-chat")
                    contexts[index][policy] = _segments_of(wire, book)
                    full = plain.setdefault(index, wire)
                    draw = random.Random(_draw(recording.id, str(index), policy))
                    control = cut_at_random(full["messages"], _size_of(wire["messages"]), draw)
                    if control is not None:
                        wire = {**full, "messages": control}
                        contexts[index][control_of(policy)] = _segments_of(wire, book)
        for index in sorted(chosen):
            steps.append(
                Step(
                    f"{recording.source or recording.id}#{index}",
                    f"{recording.source}:{recording.id}",
                    _action_of(events[index], uses.by_event.get(index, ())),
                    contexts[index],
                )
            )
        print(f"{len(steps)} steps of {number + 1} recordings", file=sys.stderr, flush=True)
    return Rows(book.segments, steps[:count])


_ROOM = 0.8
"""The share of the window that a request may take as it is counted here."""


def _draw(*names: str) -> bytes:
    return hashlib.sha256("\n".join((SEED, *names)).encode(errors="replace")).digest()


def _is_action(events: Sequence[Any], index: int, answer: Any) -> bool:
    """Whether an answer says or calls something, after a result."""
    seen = any(one.results for one in events[max(0, index - 40) : index])
    spoken = bool(answer.calls) or len(answer.text or "") >= 40
    return seen and spoken and index < len(events) and answer.isolation_scope is None


class _SegmentBook:
    """Segments with their numbers: what requests share is kept once."""

    def __init__(self) -> None:
        self.segments: list[list[list[str]]] = []
        self._numbers: dict[str, int] = {}

    def number(self, segment: list[list[str]]) -> int:
        key = json.dumps(segment)
        if key not in self._numbers:
            self._numbers[key] = len(self.segments)
            self.segments.append(segment)
        return self._numbers[key]


def control_of(policy: str) -> str:
    """What the control of a policy is called."""
    return f"as much at random, {policy}"


def cut_at_random(
    messages: list[dict[str, Any]], size: int, draw: random.Random
) -> list[dict[str, Any]] | None:
    """The messages with lines of results removed until no more is left than `size`; None: as is."""
    over = _size_of(messages) - size
    if over <= 0:
        return None
    pieces: list[tuple[int, int, int]] = []
    texts: dict[int, list[str]] = {}
    for place, message in enumerate(messages):
        if message["role"] == "tool" and isinstance(message.get("content"), str):
            texts[place] = _LINE.findall(message["content"])
            pieces += [(place, at, len(text)) for at, text in enumerate(texts[place])]
    draw.shuffle(pieces)
    for place, at, length in pieces:
        if over <= 0:
            break
        texts[place][at] = ""
        over -= length
    return [
        {**message, "content": "".join(texts[place])} if place in texts else message
        for place, message in enumerate(messages)
    ]


def _size_of(messages: list[dict[str, Any]]) -> int:
    return sum(len(str(one.get("content") or "")) for one in messages)


_LINE = re.compile(r"[^\n]{1,200}\n?|\n")
"""A line, or a piece of a very long one."""


def _segments_of(wire: dict[str, Any], book: _SegmentBook) -> list[int]:
    """A request as ChatML: a segment a message, and the opening of the answer."""
    numbers: list[int] = []
    tools = wire.get("tools")
    for place, message in enumerate(wire["messages"]):
        pieces = _message_pieces(message)
        if place == 0 and tools:
            listed = "\n".join(json.dumps(tool.get("function", tool)) for tool in tools)
            words = (
                "\n\nTools that can be called, each as"
                ' <tool_call>{"name": ..., "arguments": {...}}</tool_call>:\n'
            )
            if message["role"] in ("system", "developer"):
                pieces = [*pieces, ["text", f"{words}{listed}"]]
            else:
                numbers.append(book.number(_framed("system", [["text", f"{words}{listed}"]])))
        numbers.append(book.number(_framed(_role_of(message), pieces)))
    return [*numbers, book.number([["markup", OPEN], ["text", "assistant\n"]])]


OPEN, CLOSE = "<|im_start|>", "<|im_end|>"
CALL, CALL_END = "<tool_call>", "</tool_call>"


def _role_of(message: dict[str, Any]) -> str:
    role = str(message["role"])
    return {"tool": "user", "developer": "system"}.get(role, role)


def _framed(role: str, pieces: list[list[str]]) -> list[list[str]]:
    return [["markup", OPEN], ["text", f"{role}\n"], *pieces, ["markup", CLOSE], ["text", "\n"]]


def _message_pieces(message: dict[str, Any]) -> list[list[str]]:
    content = message.get("content")
    if isinstance(content, list):
        content = "\n".join(str(part.get("text", "")) for part in content)
    text = content or ""
    if message["role"] == "tool":
        return [["text", f"<tool_response>\n{text}\n</tool_response>"]]
    pieces = [["text", text]] if text else []
    for call in message.get("tool_calls") or ():
        function = call["function"]
        body = (
            f'\n{{"name": {json.dumps(function["name"])}, "arguments": {function["arguments"]}}}\n'
        )
        pieces += [["markup", CALL], ["text", body], ["markup", CALL_END]]
    return pieces


def _action_of(event: Any, used: Iterable[str]) -> list[list[Any]]:
    """The recorded answer in pieces: its words, and each call with its name and arguments.

    Calls are spelled as the request spells those before them: another spelling would measure how
    well the model takes to it. One that an agent made in words is scored in its words.
    """
    from weft.recordings.recording import COMMAND
    from weft.values import compact

    pieces: list[list[Any]] = []
    if event.text:
        pieces.append(["text", event.text, []])
    for call in event.calls:
        if event.text and call.name == COMMAND and not call.args:
            continue
        arguments = compact(call.args or {})
        pieces += [
            ["markup", CALL, []],
            ["text", '\n{"name": "', []],
            ["name", call.name or "", []],
            ["text", '", "arguments": ', []],
            ["arguments", arguments, _copied_stretches(arguments, used)],
            ["text", "}\n", []],
            ["markup", CALL_END, []],
        ]
    # a grammar cannot force the end of a turn, so it is not part of an action
    return pieces


def _copied_stretches(text: str, used: Iterable[str]) -> list[list[int]]:
    """Where values stand that were told before: a whole one each, as far as it is found so."""
    stretches: list[list[int]] = []
    for value in used:
        spelled = json.dumps(value, ensure_ascii=False)[1:-1]
        for match in re.finditer(rf"(?<!\w){re.escape(spelled)}(?!\w)", text):
            stretches.append([match.start(), match.end()])
    return stretches


# --- scoring


class Score(NamedTuple):
    """The log-probability of each token of an action, and the model's own first choice there."""

    logs: list[float]
    tops: list[int]


class Scorer(Protocol):
    """A model that can be forced."""

    window: int

    def tokens(self, text: str, *, markup: bool) -> list[int]:
        """The tokens of a text; marks count as such only in markup."""
        ...

    def ends(self, text: str) -> tuple[list[int], list[int]]:
        """The tokens of a text, and where each ends in it."""
        ...

    def score(self, context: list[int], action: list[int]) -> Score:
        """Force an action after a context."""
        ...


class LlamaScorer:
    """llama.cpp on the processor: the prefix of the row before is not read again."""

    def __init__(self, path: Path, window: int, threads: int) -> None:
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        params.n_ctx, params.n_parallel = window, 1
        params.verbosity, params.warmup, params.ui = -1, False, False
        self._server = xllamacpp.Server(params)
        self._url = self._server.listening_address
        self.window = window

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        data = json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        try:
            with urllib.request.urlopen(
                urllib.request.Request(f"{self._url}{path}", data, headers)
            ) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{path}: {error.read().decode(errors='replace')}") from None

    def tokens(self, text: str, *, markup: bool) -> list[int]:
        body = {"content": text, "add_special": False, "parse_special": markup}
        return self._post("/tokenize", body)["tokens"]

    def ends(self, text: str) -> tuple[list[int], list[int]]:
        body = {"content": text, "add_special": False, "parse_special": False, "with_pieces": True}
        rows = self._post("/tokenize", body)["tokens"]
        pieces = [row["piece"] for row in rows]
        sizes = [len(one.encode()) if isinstance(one, str) else len(one) for one in pieces]
        return [row["id"] for row in rows], _ends_in_characters(text, sizes)

    def score(self, context: list[int], action: list[int]) -> Score:
        answer = self._post(
            "/completion",
            {
                "prompt": context,
                "n_predict": len(action),
                "grammar": "root ::= " + " ".join(f"<[{token}]>" for token in action),
                "n_probs": 1,
                "samplers": [],
                "temperature": 0.0,
                "cache_prompt": True,
            },
        )
        rows = answer["completion_probabilities"]
        if [row["id"] for row in rows] != action:
            raise RuntimeError("the model was not forced to say the action")
        logs = [float(row["logprob"]) for row in rows]
        return Score(logs, [int(row["top_logprobs"][0]["id"]) for row in rows])


def _ends_in_characters(text: str, sizes: list[int]) -> list[int]:
    """Where pieces of so many bytes end, counted in characters."""
    starts, at = [], 0
    for character in text:
        starts.append(at)
        at += len(character.encode(errors="surrogatepass"))
    ends, done = [], 0
    for size in sizes:
        done += size
        ends.append(bisect_right(starts, done - 1))
    return ends


class TorchScorer:
    """torch and transformers: the weights of a GGUF file, on a GPU where there is one."""

    def __init__(self, path: Path, window: int) -> None:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")  # all that is needed is in the file
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self._torch = torch
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        kind = torch.bfloat16 if self._device == "cuda" else torch.float32
        place, name = str(path.parent), path.name
        self._tokenizer = AutoTokenizer.from_pretrained(place, gguf_file=name).backend_tokenizer
        model = AutoModelForCausalLM.from_pretrained(
            place, gguf_file=name, dtype=kind, attn_implementation="sdpa"
        )
        self._model = model.to(self._device).eval()
        self.window = min(window, int(model.config.max_position_embeddings))

    def _read(self, text: str, *, markup: bool) -> Any:
        self._tokenizer.encode_special_tokens = not markup  # else a mark in a text would count
        return self._tokenizer.encode(text, add_special_tokens=False)

    def tokens(self, text: str, *, markup: bool) -> list[int]:
        return self._read(text, markup=markup).ids

    def ends(self, text: str) -> tuple[list[int], list[int]]:
        read = self._read(text, markup=False)
        return read.ids, [end for _, end in read.offsets]

    def score(self, context: list[int], action: list[int]) -> Score:
        torch = self._torch
        with torch.no_grad():
            ids = torch.tensor([[*context, *action]], device=self._device)
            hidden = self._model.model(input_ids=ids, use_cache=False).last_hidden_state
            logits = self._model.lm_head(hidden[0, len(context) - 1 : -1]).float()
            logs = torch.log_softmax(logits, -1)
            said = logs.gather(1, ids[0, len(context) :, None])[:, 0]
            return Score(said.tolist(), logs.argmax(-1).tolist())


KINDS = {"markup": "m", "text": "t", "name": "n", "arguments": "a"}


def read_action(scorer: Scorer, action: list[list[Any]]) -> tuple[list[int], str]:
    """The tokens of an action, and a letter for each: its kind, or `c` where it was copied."""
    ids: list[int] = []
    letters: list[str] = []
    # what stands between two marks is read as one text, as a model would
    for is_markup, pieces in _grouped(action):
        text = "".join(piece[1] for piece in pieces)
        if is_markup:
            own = scorer.tokens(text, markup=True)
            ids += own
            letters += "m" * len(own)
            continue
        own, ends = scorer.ends(text)
        marks = [
            "c" if any(start <= at < end for start, end in copied) else KINDS[kind]
            for kind, piece, copied in pieces
            for at in range(len(piece))
        ]
        start = 0
        for end in ends:
            covered = marks[start:end] or marks[max(0, end - 1) : end]
            letters.append("c" if "c" in covered else covered[-1] if covered else "t")
            start = end
        ids += own
    return ids, "".join(letters)


def _grouped(action: list[list[Any]]) -> Iterator[tuple[bool, list[list[Any]]]]:
    group: list[list[Any]] = []
    for piece in action:
        if piece[0] == "markup":
            if group:
                yield False, group
            yield True, [piece]
            group = []
        else:
            group.append(piece)
    if group:
        yield False, group


def score_rows(
    rows: Rows,
    open_scorer: Callable[[], Scorer],
    results: Path,
    *,
    model: str,
    limit: float,
    longest: int,
) -> None:
    """Score what the results do not hold yet, and add it to them, row by row."""
    before = read_results(results)
    others = {str(one["model"]) for one in before} - {model}
    if others:
        sys.exit(f"{results} holds scores of {', '.join(others)}: name another file for {model}")
    known = {(one["step"], one["policy"]) for one in before}
    # steps of a run one after the other, policy by policy: each begins as the one before it
    wanted = [
        (policy, step)
        for policy in dict.fromkeys(name for step in rows.steps for name in step.contexts)
        for step in rows.steps
        if policy in step.contexts and (step.name, policy) not in known
    ]
    # all policies of a few steps before the next: a run that is stopped has whole steps
    wanted.sort(key=lambda row: _batch_of(rows.steps, row[1]))
    if not wanted:
        return
    scorer, begun = open_scorer(), time.monotonic()
    tokens = _SegmentTokens(rows, scorer)
    done = skipped = 0
    scores: dict[tuple[str, tuple[int, ...]], Score] = {}  # policies that send the same share one
    with results.open("a", encoding="utf-8") as file:
        for policy, step in wanted:
            if time.monotonic() - begun > limit:
                print(f"stopped after {limit:g} s: {len(wanted) - done} rows are left", flush=True)
                return
            context = tokens.of(step.contexts[policy])
            action, letters = read_action(scorer, step.action)
            action, letters = action[:longest], letters[:longest]
            done += 1
            if len(context) + len(action) >= scorer.window:
                skipped += 1
                continue
            request = (step.name, tuple(step.contexts[policy]))
            score = scores.get(request)
            if score is None:
                score = scores[request] = scorer.score(context, action)
            row = {
                "step": step.name,
                "run": step.run,
                "policy": policy,
                "model": model,
                "context": len(context),
                "letters": letters,
                "ids": action,
                "logs": [round(one, 4) for one in score.logs],
                "tops": score.tops,
            }
            file.write(json.dumps(row) + "\n")
            file.flush()
            if done % 20 == 0:
                spent = time.monotonic() - begun
                print(f"{done} of {len(wanted)} rows, {spent / done:.2f} s a row", flush=True)
    if skipped:
        print(f"{skipped} rows are longer than the window of {scorer.window:,} tokens", flush=True)


_BATCH = 8


def _batch_of(steps: list[Step], step: Step) -> int:
    return steps.index(step) // _BATCH


class _SegmentTokens:
    """The tokens of requests; each segment is read once."""

    def __init__(self, rows: Rows, scorer: Scorer) -> None:
        self._rows, self._scorer = rows, scorer
        self._known: dict[int, list[int]] = {}

    def of(self, numbers: list[int]) -> list[int]:
        for number in numbers:
            if number not in self._known:
                self._known[number] = [
                    token
                    for kind, text in self._rows.segments[number]
                    for token in self._scorer.tokens(text, markup=kind == "markup")
                ]
        return [token for number in numbers for token in self._known[number]]


def read_results(path: Path) -> list[dict[str, Any]]:
    """The rows that were scored so far; a last line that was cut off does not count."""
    if not path.exists():
        return []
    rows = []
    for line in path.read_text("utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            print(f"{path.name}: a line was cut off and is scored again", file=sys.stderr)
    return rows


# --- the table

PARTS: dict[str, Callable[[str], bool]] = {
    "all": lambda letter: letter != "m",
    "names": lambda letter: letter == "n",
    "arguments": lambda letter: letter in "ac",
    "copied": lambda letter: letter == "c",
}


class Change(NamedTuple):
    """A part of a step's tokens under a policy, against the same step with plain history."""

    run: str
    nats: float
    tokens: int
    right: int
    same: int
    share: float
    """The size of its request against plain history."""


def compare_results(results: list[dict[str, Any]]) -> dict[str, dict[str, list[Change]]]:
    """By policy and part, the changes of all steps that have both."""
    full = {one["step"]: one for one in results if one["policy"] == FULL}
    changes: dict[str, dict[str, list[Change]]] = {}
    for row in results:
        plain = full.get(row["step"])
        if plain is None or plain["ids"] != row["ids"]:
            continue
        for part, belongs in PARTS.items():
            places = [at for at, letter in enumerate(row["letters"]) if belongs(letter)]
            if places:
                change = Change(
                    row["run"],
                    sum(row["logs"][at] - plain["logs"][at] for at in places),
                    len(places),
                    sum(row["tops"][at] == row["ids"][at] for at in places),
                    sum(row["tops"][at] == plain["tops"][at] for at in places),
                    row["context"] / max(1, plain["context"]),
                )
                changes.setdefault(row["policy"], {}).setdefault(part, []).append(change)
    return changes


def print_table(results: list[dict[str, Any]]) -> None:
    """A block for each part, a line for each policy with its control below."""
    compared = compare_results(results)
    steps = len({one["step"] for one in results if one["policy"] == FULL})
    runs = len({one["run"] for one in results})
    print(f"{steps} steps of {runs} runs with plain history")
    width = max([len(name) for name in compared], default=10)
    names = [name for name in compared if name == FULL or not name.startswith("as much")]
    for part in PARTS:
        print(
            f"\n{part:<{width}}  steps  tokens  change a token [95% of draws]   fall   rise"
            "  top-1   same   size"
        )
        for name in names:
            for row in (name, control_of(name)):
                if part in compared.get(row, {}):
                    print(_table_line(row, compared[row][part], width))


def _table_line(name: str, changes: list[Change], width: int) -> str:
    tokens = sum(one.tokens for one in changes)
    mean, low, high = range_of(changes)
    fall = sum(one.nats < -MUCH for one in changes) / len(changes)
    rise = sum(one.nats > MUCH for one in changes) / len(changes)
    right, same = (sum(getattr(one, what) for one in changes) for what in ("right", "same"))
    size = sum(one.share for one in changes) / len(changes)
    return (
        f"{name:<{width}}  {len(changes):>5}  {tokens:>6}  {mean:+.4f} [{low:+.4f}, {high:+.4f}]"
        f"      {fall:>6.1%} {rise:>6.1%} {right / tokens:>6.1%} {same / tokens:>6.1%} {size:>6.2f}"
    )


def range_of(changes: list[Change]) -> tuple[float, float, float]:
    """The change a token, and its range if other runs of the kind had been drawn."""
    by_run: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for one in changes:
        by_run[one.run][0] += one.nats
        by_run[one.run][1] += one.tokens
    sums, draw = [*by_run.values()], random.Random(SEED)
    means = []
    for _ in range(DRAWS):
        drawn = [draw.choice(sums) for _ in sums]
        means.append(sum(nats for nats, _ in drawn) / sum(tokens for _, tokens in drawn))
    means.sort()
    mean = sum(nats for nats, _ in sums) / sum(tokens for _, tokens in sums)
    return mean, means[int(0.025 * DRAWS)], means[int(0.975 * DRAWS)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", type=Path, nargs="*", help="a GGUF file, and recordings")
    parser.add_argument("--policy", action="append", help="as in code; several")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rows", type=Path, help="where the steps are, or are written to")
    parser.add_argument("--results", type=Path, help="where scores are kept, and found again")
    parser.add_argument("--backend", choices=("llama", "torch"), default="llama")
    parser.add_argument("--context", type=int, default=CONTEXT, help="tokens of a request at most")
    parser.add_argument("--least", type=int, default=0, help="tokens of a plain request at least")
    parser.add_argument("--longest", type=int, default=400, help="tokens of an action at most")
    parser.add_argument("--threads", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--limit", type=float, default=math.inf, help="stop scoring after seconds")
    asked = parser.parse_args()
    model = next((one for one in asked.paths if one.suffix == ".gguf"), None)
    data = [one for one in asked.paths if one is not model]
    if model is not None and not model.is_file():
        parser.error(f"there is no such file: {model}")
    if model is not None and asked.results is None:
        parser.error("name the file for scores: --results FILE.jsonl")
    if not data and asked.rows is None and asked.results is None:
        parser.error("name recordings, --rows FILE or --results FILE")
    if asked.rows is not None and not data and not asked.rows.is_file():
        parser.error(f"there is no such file: {asked.rows}")
    rows: Rows | None = None
    if asked.rows is not None and asked.rows.is_file() and not data:
        rows = Rows.read(asked.rows)
    elif data:
        policies = asked.policy or [*POLICIES]
        others = [one for one in policies if one != FULL]
        rows = make_rows(data, others, asked.steps, asked.context, asked.least)
        if asked.rows is not None:
            rows.write(asked.rows)
            print(f"wrote {len(rows.steps)} steps to {asked.rows}")
    if model is not None and rows is not None:

        def open_scorer() -> Scorer:
            if asked.backend == "torch":
                return TorchScorer(model, asked.context)
            return LlamaScorer(model, asked.context, asked.threads)

        score_rows(
            rows,
            open_scorer,
            asked.results,
            model=f"{model.name} ({asked.backend})",
            limit=asked.limit,
            longest=asked.longest,
        )
    if asked.results is not None:
        print_table(read_results(asked.results))


if __name__ == "__main__":
    main()
