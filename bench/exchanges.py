"""Hold recorded exchanges with providers against Weft: python bench/exchanges.py PATH.

PATH is a .jsonl.gz file of lines {id, dialect, path, request, status, response, stream}. It prints
a row a dialect: answers that are lifted without loss, streams that give the same event however
they are cut, requests that are read and lowered back to the same meaning, 400s that are told
before sending, and false alarms on requests that were answered. What "the same" means is in
`meaning.py`. It exits with 1 if a share is too low, or if there is a false alarm.

    --splits N    how often each stream is cut at random (1000)
    --show        one line for each exchange that failed
"""

import argparse
import gzip
import json
import random
import sys
from collections import Counter
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parent))
import meaning

from weft.compiler.parts import blocks_of
from weft.content import Content
from weft.dialects import dialect_named, lift, stream_of
from weft.dialects.stream import Events
from weft.dialects.strict import check_request
from weft.errors import WeftError
from weft.ir import Item, ModelResponse, Prompt
from weft.recordings.requests import read_request
from weft.session import Event
from weft.session.strand import Strand
from weft.values import Json, JsonObject

SAME, TOLD = 0.97, 0.80
CUTS = 12
UNSENT = ("annotations",)
"""What a message of an answer has and a message of a request has no place for."""
COLUMNS = ("answers", "sent back", "streams", "requests", "400s told", "false alarms")


class Tally:
    """How many of each kind there were, and how many were right, by dialect."""

    def __init__(self, *, show: bool) -> None:
        self.right: Counter[tuple[str, str]] = Counter()
        self.all: Counter[tuple[str, str]] = Counter()
        self.show = show

    def count(self, exchange: JsonObject, what: str, why: str) -> None:
        """Count one; `why` says what is wrong with it, and is empty if nothing is."""
        key = (str(exchange["dialect"]), what)
        self.all[key] += 1
        self.right[key] += not why
        if why and self.show:
            print(f"{what}: {exchange['id']}: {why}"[:400])

    def share(self, what: str) -> float:
        """The share that was right, over all dialects."""
        there = sum(count for (_, one), count in self.all.items() if one == what)
        right = sum(count for (_, one), count in self.right.items() if one == what)
        return right / there if there else 1.0

    def __str__(self) -> str:
        rows = [("", *COLUMNS)]
        for name in [*sorted({dialect for dialect, _ in self.all}), "all"]:
            rows.append((name, *(self._cell(name, what) for what in COLUMNS)))
        widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )

    def _cell(self, name: str, what: str) -> str:
        def total(counted: Counter[tuple[str, str]]) -> int:
            return sum(n for (one, w), n in counted.items() if w == what and name in (one, "all"))

        right, there = total(self.right), total(self.all)
        if what == "false alarms":
            return f"{there - right} of {there}"
        return f"{right}/{there}" if there else "-"


def model_of(exchange: JsonObject) -> str:
    """The model, which some providers have in the address."""
    return str(exchange["path"]).rpartition("/models/")[2].partition(":")[0]


def request_is_kept(exchange: JsonObject) -> str:
    """Why a request does not come back with the same meaning; empty if it does."""
    dialect, request = str(exchange["dialect"]), exchange["request"]
    assert isinstance(request, dict)
    try:
        prompt = read_request(dialect, request, model_of(exchange))
        wire = dialect_named(dialect).lower(prompt).wire
    except WeftError as error:
        return str(error)
    given, made = meaning.meaning(dialect, request), meaning.meaning(dialect, wire)
    return difference(given, made)


def difference(given: Json, made: Json, at: str = "") -> str:
    """The first place where two values differ."""
    if isinstance(given, dict) and isinstance(made, dict):
        for key in [*given, *(key for key in made if key not in given)]:
            found = difference(given.get(key), made.get(key), f"{at}/{key}")
            if found:
                return found
        return ""
    if isinstance(given, list) and isinstance(made, list) and len(given) == len(made):
        pairs = enumerate(zip(given, made, strict=True))
        found_all = (difference(one, other, f"{at}/{n}") for n, (one, other) in pairs)
        return next((found for found in found_all if found), "")
    same = given == made and isinstance(given, bool) == isinstance(made, bool)
    return "" if same else f"{at}: {json.dumps(given)[:120]} became {json.dumps(made)[:120]}"


def is_answer(exchange: JsonObject) -> bool:
    """Whether the exchange is a question and its answer, and not a count or a failure."""
    return exchange["status"] == 200 and "count_tokens" not in str(exchange["path"])


def lifted(dialect: str, exchange: JsonObject) -> tuple[JsonObject, ModelResponse]:
    """The body of the answer, and what it says."""
    stream, body = exchange.get("stream"), exchange.get("response")
    if isinstance(stream, str) and stream:
        body = body_of(dialect, [stream.encode()])
    assert isinstance(body, dict)
    return body, lift(dialect, body)


def body_of(dialect: str, pieces: list[bytes]) -> JsonObject:
    """The body that a stream adds up to."""
    events, answer = Events(), stream_of(dialect)
    for piece in pieces:
        for name, data in events.feed(piece):
            answer.feed(name, msgspec.json.decode(data))
    for name, data in events.end():
        answer.feed(name, msgspec.json.decode(data))
    if events.done:
        answer.note_end()
    return answer.body()


def answer_is_kept(dialect: str, body: JsonObject, response: ModelResponse) -> str:
    """Why something of an answer's content is lost; empty if nothing is."""
    held = Counter(meaning.leaves(msgspec.json.decode(msgspec.json.encode(response))))
    told = Counter(leaf for turn in meaning.answer(dialect, body) for leaf in meaning.leaves(turn))
    lost = list((told - held).elements())
    return f"lost {', '.join(lost)[:200]}" if lost else ""


def answer_goes_back(dialect: str, body: JsonObject, response: ModelResponse, model: str) -> str:
    """Why an answer that is sent back differs from what came; empty if it does not."""
    maker: JsonObject = {"provider": dialect, "model": model}
    event = Event(
        author="model",
        content=response.content or Content(parts=(), role="model"),
        custom_metadata={"weft": maker},
    )
    blocks = blocks_of(event, 0, "model", [])
    item = Item("model", blocks, "model", "", 0, 0, event.id)
    prompt = Prompt(model=model, agent="", items=Strand([item] if blocks else []))
    target = dialect_named(dialect)
    wire = target.lower(prompt).wire
    key = target.traits.turns
    given = [
        {key: value for key, value in turn.items() if key not in UNSENT}
        for turn in meaning.answer(dialect, body)
        if isinstance(turn, dict)
    ]
    made = meaning.meaning(dialect, {key: wire[key]}).get(key, [])
    return difference(given, made)


def stream_is_stable(dialect: str, stream: str, splits: int, chance: random.Random) -> str:
    """Why the answer depends on how the stream was cut; empty if it does not."""
    data = stream.encode()
    whole = body_of(dialect, [data])
    for _ in range(splits):
        places = sorted(chance.randrange(len(data) + 1) for _ in range(CUTS))
        pieces = [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]
        cut = body_of(dialect, pieces)
        if cut != whole or lift(dialect, cut) != lift(dialect, whole):
            return f"cut at {places}"
    return ""


def judge(exchange: JsonObject, tally: Tally, splits: int, chance: random.Random) -> None:
    """Count one exchange in every column it belongs to."""
    dialect, request = str(exchange["dialect"]), exchange["request"]
    assert isinstance(request, dict)
    tally.count(exchange, "requests", request_is_kept(exchange))
    alarms = [str(one) for one in check_request(dialect, request, model_of(exchange))]
    if exchange["status"] in (400, 404):
        tally.count(exchange, "400s told", "" if alarms else "nothing was said")
    elif exchange["status"] == 200:
        tally.count(exchange, "false alarms", "; ".join(alarms))
    if not is_answer(exchange):
        return
    try:
        body, response = lifted(dialect, exchange)
    except WeftError as error:
        tally.count(exchange, "answers", str(error))
        return
    tally.count(exchange, "answers", answer_is_kept(dialect, body, response))
    model = str(request.get("model") or model_of(exchange))
    tally.count(exchange, "sent back", answer_goes_back(dialect, body, response, model))
    stream = exchange.get("stream")
    if isinstance(stream, str) and stream:
        tally.count(exchange, "streams", stream_is_stable(dialect, stream, splits, chance))


def main() -> int:
    """Judge every exchange of the file."""
    about = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("path", type=Path)
    parser.add_argument("--splits", type=int, default=1000)
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    tally, chance = Tally(show=options.show), random.Random(4)
    with gzip.open(options.path, "rt", encoding="utf-8") as lines:
        for line in lines:
            judge(msgspec.json.decode(line), tally, options.splits, chance)
    print(tally)
    low = [what for what in ("answers", "streams", "requests") if tally.share(what) < SAME]
    low += ["400s told"] if tally.share("400s told") < TOLD else []
    low += ["false alarms"] if tally.share("false alarms") < 1 else []
    print(f"too low: {', '.join(low)}" if low else "every share is high enough")
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
