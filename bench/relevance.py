"""How often the turns that hold the answer are in the request, for questions about long dialogues.

    python bench/relevance.py PATH                     every question, 2,048 and 4,096 tokens
    python bench/relevance.py PATH --tokens 1024 --limit 50 --captions
    python bench/relevance.py PATH --part tune         the dialogues that settings were chosen on
    python bench/relevance.py PATH --part held         the others

PATH is a JSON file, gzipped or not: a list of `{"conversation", "qa"}`, where a conversation has
`session_1`, `session_2`, ... (each a list of `{"speaker", "dia_id", "text"}`), and a question its
`question`, its `category` and the ids of the turns that hold its `evidence`.

Each dialogue becomes a session with one event a turn. Each question is compiled as the next
message of an agent that sees the policy of the row, and counts as found where all of its turns
are in the request. `words` is plain BM25 with nothing else, the best first while it fits.
Questions of category 5 have no answer in the dialogue, so the share is also told without them.
A hash of a dialogue's `sample_id` says which part it is in.
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
from typing import NamedTuple

import weft
from weft import Agent, C
from weft.content import Content, Part
from weft.declare import Policy
from weft.meaning import is_installed
from weft.relevance.index import Index, all_of, match, words
from weft.session import Event, Session
from weft.tokens import counter_for

MODEL = "gpt-4o"
UNANSWERED = "5"
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
    asked = parser.parse_args()
    budgets = asked.tokens or [2048, 4096]
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


def _share(hits: list[bool]) -> float:
    return sum(hits) / max(1, len(hits))


if __name__ == "__main__":
    main()
