"""How often the turns that hold the answer are in the request, for questions about long dialogues.

    python bench/relevance.py PATH                     every question, 2,048 and 4,096 tokens
    python bench/relevance.py PATH --tokens 1024 --limit 50 --captions
    python bench/relevance.py PATH --part tune         the dialogues that settings were chosen on
    python bench/relevance.py PATH --part held         the others
    python bench/relevance.py PATH --ablate            what each ingredient of the ranking brings

PATH is a JSON file, gzipped or not: a list of `{"conversation", "qa"}`, where a conversation has
`session_1`, `session_2`, ... (each a list of `{"speaker", "dia_id", "text"}`), and a question its
`question`, its `category` and the ids of the turns that hold its `evidence`.

For `--ablate`, PATH may also be a JSON Lines file of runs with tools, `{"id", "messages"}` in the
form of OpenAI. A question is then what the user said last before a call, and its evidence the one
earlier message that has a value which the call was made with.

Each dialogue becomes a session with one event a turn. Each question is compiled as the next
message of an agent that sees the policy of the row, and counts as found where all of its turns
are in the request. `words` is plain BM25 with nothing else, the best first while it fits.
Questions of category 5 have no answer in the dialogue, so the share is also told without them.
A hash of a dialogue's `sample_id` says which part it is in.

`--ablate` ranks the turns without compiling, fills the tokens as `.fit` does, and leaves out one
ingredient at a time. `left out` is what to expect of other dialogues: for each dialogue, the
settings are chosen on the others alone.
"""

import argparse
import gzip
import hashlib
import json
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

import weft
from weft import Agent, C
from weft.content import Content, Part
from weft.declare import Policy
from weft.meaning import is_installed
from weft.relevance import Scorer
from weft.relevance.index import (
    WEIGHTS,
    Index,
    RankWeights,
    SearchScope,
    all_of,
    match,
    words,
)
from weft.relevance.rank import find_hits
from weft.session import Event, Session
from weft.tokens import counter_for

MODEL = "gpt-4o"
UNANSWERED = "5"
SEVERAL = "1"
"""The category of questions whose answer stands in several turns."""
HEAD = 20
"""The tokens of a short instruction, for rows that are not compiled."""
TURN = 4
"""The tokens that a turn takes beside its text, for the row that is not compiled."""


class Question(NamedTuple):
    text: str
    evidence: frozenset[str]
    category: str


class Dialogue(NamedTuple):
    turns: dict[str, str]
    session: Session
    questions: list[Question]

    @property
    def read(self) -> list[str]:
        """The turns as a search reads them: with their author, where it is not the user."""
        events = {event.id: event for event in self.session.events}
        return [
            text if name not in events or events[name].author == "user" else f"friend:\n{text}"
            for name, text in self.turns.items()
        ]


class Found(NamedTuple):
    events: frozenset[str]
    tokens: int


Row = Callable[[Dialogue, Question, int], Found]


def dialogues(path: Path, *, captions: bool, part: str = "all") -> Iterator[Dialogue]:
    data = path.read_bytes()
    for one in json.loads(gzip.decompress(data) if path.suffix == ".gz" else data):
        if part not in ("all", part_of(one["sample_id"])):
            continue
        talk = one["conversation"]
        first = talk["speaker_a"]
        turns: dict[str, str] = {}
        events: list[Event] = []
        names = [name for name in talk if re.fullmatch(r"session_\d+", name)]
        for name in sorted(names, key=lambda name: int(name.partition("_")[2])):
            for turn in talk[name]:
                text = f"{turn['speaker']}: {turn['text']}"
                if captions and turn.get("blip_caption"):
                    text += f" [image: {turn['blip_caption']}]"
                turns[turn["dia_id"]] = text
                user = turn["speaker"] == first
                events.append(
                    Event(
                        author="user" if user else "friend",
                        content=Content(role="user" if user else "model", parts=[Part(text=text)]),
                        invocation_id=f"i{len(events)}",
                        id=turn["dia_id"],
                        timestamp=float(len(events)),
                    )
                )
        questions = [
            Question(asked["question"], evidence, str(asked["category"]))
            for asked in one["qa"]
            if (evidence := _evidence(asked.get("evidence") or (), turns))
        ]
        yield Dialogue(turns, Session("dialogue", events=events), questions)


def recorded(path: Path) -> Iterator[Dialogue]:
    """Calls of recorded runs, each as a dialogue of what was said before it, with one question."""
    data = path.read_bytes()
    for line in (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines():
        run = json.loads(line)
        texts = [(one["role"], _said(one)) for one in run["messages"] if one["role"] != "system"]
        messages = [one for one in run["messages"] if one["role"] != "system"]
        for place, message in enumerate(messages):
            for call in message.get("tool_calls") or ():
                asked = max((n for n in range(place) if texts[n][0] == "user"), default=0)
                values = list(_values(json.loads(call["function"]["arguments"])))
                homes = [
                    [n for n in range(asked) if value in texts[n][1]]
                    for value in values
                    if value not in texts[asked][1]
                ]
                evidence = frozenset(f"m{home[0]}" for home in homes if len(home) == 1)
                if evidence:
                    turns = {f"m{n}": text for n, (_, text) in enumerate(texts[:asked])}
                    question = Question(texts[asked][1], evidence, "")
                    yield Dialogue(turns, Session("dialogue"), [question])


def _said(message: dict[str, Any]) -> str:
    called = [
        f"{call['function']['name']} {call['function']['arguments']}"
        for call in message.get("tool_calls") or ()
    ]
    text = "\n".join((message.get("content") or "", *called))
    return text if message["role"] == "user" else f"agent: {text}"


def _values(arguments: Any) -> Iterator[str]:
    """The texts in a call's arguments that are long enough to be about one thing."""
    if isinstance(arguments, dict | list):
        for one in arguments.values() if isinstance(arguments, dict) else arguments:
            yield from _values(one)
    elif isinstance(arguments, str) and len(arguments) >= SHORTEST:
        yield arguments


SHORTEST = 5


def part_of(name: str) -> str:
    """Which part a dialogue is in: a third of them is not tuned on."""
    return "tune" if hashlib.sha256(name.encode()).digest()[0] % 3 else "held"


def _evidence(listed: list[str], turns: dict[str, str]) -> frozenset[str]:
    """The turns that a question names; some lists hold two in one text."""
    return frozenset(
        one for text in listed for one in re.findall(r"D\d+:\d+", text) if one in turns
    )


def compiled(policy: Callable[[int], Policy]) -> Row:
    """What an agent with this policy is sent."""
    agents: dict[int, Agent] = {}

    def found(dialogue: Dialogue, question: Question, tokens: int) -> Found:
        agent = agents.get(tokens)
        if agent is None:
            agent = agents[tokens] = Agent("friend", model=MODEL, context=policy(tokens))
        made = weft.compile(agent, session=dialogue.session, message=question.text)
        return Found(frozenset(item.event for item in made.prompt.items), made.tokens)

    return found


def plain() -> Row:
    """Plain BM25 over the turns, the best first while they fit."""
    count = counter_for(MODEL).count
    known: dict[int, tuple[Index, list[int]]] = {}

    def found(dialogue: Dialogue, question: Question, tokens: int) -> Found:
        held = known.get(id(dialogue))
        if held is None:
            sizes = [count(text) + TURN for text in dialogue.turns.values()]
            held = known[id(dialogue)] = (Index(dialogue.turns.values()), sizes)
        index, sizes = held
        scope = all_of(index)
        scores = match(scope, map(scope.exactly, dict.fromkeys(words(question.text))))
        names, used = list(dialogue.turns), 0
        chosen: set[str] = set()
        for number in sorted(range(len(names)), key=lambda number: -scores[number]):
            if scores[number] > 0 and used + sizes[number] <= tokens:
                chosen.add(names[number])
                used += sizes[number]
        return Found(frozenset(chosen), used)

    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--tokens", type=int, action="append")
    parser.add_argument("--limit", type=int, help="questions of each dialogue")
    parser.add_argument("--captions", action="store_true", help="with what images show")
    parser.add_argument("--part", choices=("all", "tune", "held"), default="all")
    parser.add_argument("--ablate", action="store_true", help="what each ingredient brings")
    asked = parser.parse_args()
    budgets = asked.tokens or [2048, 4096]
    if asked.ablate:
        if ".jsonl" in asked.path.suffixes:
            talks = list(recorded(asked.path))
        else:
            talks = list(dialogues(asked.path, captions=asked.captions, part=asked.part))
        ablate(talks, budgets)
        return
    rows: dict[str, Row] = {
        "C.default().fit(n)": compiled(lambda n: C.default().fit(n)),
        "words": plain(),
        "C.relevant().fit(n)": compiled(lambda n: C.relevant().fit(n)),
    }
    if is_installed():
        rows['C.relevant(scorer="embedding").fit(n)'] = compiled(
            lambda n: C.relevant(scorer="embedding").fit(n)
        )
    talks = list(dialogues(asked.path, captions=asked.captions, part=asked.part))
    sizes = ", ".join(str(len(talk.turns)) for talk in talks)
    total = sum(len(talk.questions[: asked.limit]) for talk in talks)
    print(f"{len(talks)} dialogues of {sizes} turns, {total} questions with evidence")
    for name, row in rows.items():
        for tokens in budgets:
            _measure(name, row, talks, tokens, asked.limit)


def _measure(name: str, row: Row, talks: list[Dialogue], tokens: int, limit: int | None) -> None:
    hits: dict[str, list[bool]] = defaultdict(list)
    each: list[str] = []
    largest = 0
    begun = time.perf_counter()
    for talk in talks:
        own: list[bool] = []
        for question in talk.questions[:limit]:
            found = row(talk, question, tokens)
            largest = max(largest, found.tokens)
            own.append(question.evidence <= found.events)
            hits[question.category].append(own[-1])
        each.append(f"{_share(own):.1%}")
    every = [hit for held in hits.values() for hit in held]
    answered = [hit for kind, held in hits.items() if kind != UNANSWERED for hit in held]
    spent = (time.perf_counter() - begun) / max(1, len(every)) * 1000
    kinds = "  ".join(f"{kind}: {_share(held):.0%}" for kind, held in sorted(hits.items()))
    print(
        f"{name:<40} {tokens:>6} tokens  {_share(every):6.1%}"
        f"  answered {_share(answered):6.1%}   by category {kinds}"
        f"   by dialogue {' '.join(each)}   largest {largest}   {spent:.1f} ms a question",
        flush=True,
    )


WITHOUT: dict[str, RankWeights] = {
    "all": WEIGHTS,
    "without neighbours": replace(WEIGHTS, beside=()),
    "without words of the best hits": replace(WEIGHTS, leads=0.0),
    "without speakers": replace(WEIGHTS, spoken=1.0),
    "without words that begin alike": replace(WEIGHTS, alike=0.0),
    "none of them": RankWeights(beside=(), leads=0.0, spoken=1.0, alike=0.0, echo=0.0, telling=0.0),
}

CHOICES = [
    replace(WEIGHTS, spoken=spoken, leads=leads, beside=WEIGHTS.beside[:steps], telling=telling)
    for spoken in (1.0, 1.5, 2.0, 3.0)
    for leads in (0.0, 0.3)
    for steps in (2, 3)
    for telling in (0.0, 0.3)
]
"""What is chosen from for a dialogue by the others."""

MANY = 20
"""Of more dialogues than these, none is left out and none is shown by itself."""

Outcome = dict[int, list[tuple[str, bool]]]
"""By tokens, the category of each question and whether its turns were found."""


def ablate(talks: list[Dialogue], budgets: list[int]) -> None:
    """What is found without each ingredient, and with settings chosen on other dialogues."""
    scorers: list[Scorer] = ["bm25", "embedding"] if is_installed() else ["bm25"]
    for scorer in scorers:
        trials = Trials(talks, budgets, scorer)
        rows = dict(WITHOUT)
        if scorer == "embedding":
            rows["without an echo of the nearest"] = replace(WEIGHTS, echo=0.0)
            rows["without meaning"] = replace(WEIGHTS, meant=0.0, echo=0.0)
        else:
            rows["without rare words counting more"] = replace(WEIGHTS, telling=0.0)
        for name, weights in rows.items():
            _tell(scorer, name, [trials.of(weights, talk) for talk in talks])
        if len(talks) > MANY:
            continue
        # only a search by words asks how much a text tells
        choices = [one for one in CHOICES if scorer == "bm25" or one.telling]
        chosen: list[Outcome] = []
        for talk in talks:
            others = [one for one in talks if one is not talk]
            means = [_mean([trials.of(weights, one) for one in others]) for weights in choices]
            chosen.append(trials.of(choices[means.index(max(means))], talk))
        _tell(scorer, "left out: chosen on the other dialogues", chosen)


class Trials:
    """What is found in dialogues under settings, each tried once."""

    def __init__(self, talks: list[Dialogue], budgets: list[int], scorer: Scorer) -> None:
        self._scopes = {id(talk): all_of(Index(talk.read)) for talk in talks}
        self._budgets = budgets
        self._scorer: Scorer = scorer
        self._known: dict[tuple[RankWeights, int], Outcome] = {}

    def of(self, weights: RankWeights, talk: Dialogue) -> Outcome:
        """What is found in a dialogue."""
        key = weights, id(talk)
        if key not in self._known:
            scope = self._scopes[id(talk)]
            self._known[key] = _filled(scope, talk, self._budgets, self._scorer, weights)
        return self._known[key]


def _filled(
    scope: SearchScope,
    talk: Dialogue,
    budgets: list[int],
    scorer: Scorer,
    weights: RankWeights,
) -> Outcome:
    """Which questions find their turns, if the best are taken while they fit."""
    count = counter_for(MODEL).count
    names, sizes = list(talk.turns), [count(text) + TURN for text in talk.turns.values()]
    found: Outcome = {tokens: [] for tokens in budgets}
    for question in talk.questions:
        if question.category == UNANSWERED:
            continue
        hits = find_hits(scope, question.text, scorer=scorer, least=0.05, weights=weights).best
        order = sorted(hits, key=lambda number: (-hits[number], -number))
        for tokens in budgets:
            room, chosen = tokens - count(question.text) - TURN - HEAD, set[str]()
            for number in order:
                if sizes[number] <= room:
                    room -= sizes[number]
                    chosen.add(names[number])
            found[tokens].append((question.category, question.evidence <= chosen))
    return found


def _mean(outcomes: list[Outcome]) -> float:
    return _share([hit for one in outcomes for rows in one.values() for _, hit in rows])


def _tell(scorer: str, name: str, outcomes: list[Outcome]) -> None:
    cells: list[str] = []
    for tokens in outcomes[0]:
        rows = [row for one in outcomes for row in one[tokens]]
        hops = [hit for category, hit in rows if category == SEVERAL]
        each = " ".join(f"{_share([hit for _, hit in one[tokens]]):.0%}" for one in outcomes)
        beside = f" ({_share(hops):.0%}) [{each}]" if len(outcomes) <= MANY else ""
        cells.append(f"{_share([hit for _, hit in rows]):.1%}{beside}")
    print(f"{scorer:<10} {name:<42} {'   '.join(cells)}", flush=True)


def _share(hits: list[bool]) -> float:
    return sum(hits) / max(1, len(hits))


if __name__ == "__main__":
    main()
