"""What is left of a tool's output in its digest: of what the agent used later, and of its size.

    python bench/digest.py runs.jsonl.gz

The file has one recorded run a line, `{"id": ..., "messages": [{"role", "text"}]}`, where the
messages of `user` after the third are what tools gave. A string counts when it looks like a name,
a path or a number, has at least six characters, and stands in an observation and in something the
agent wrote later.
"""

import argparse
import gzip
import json
import re
import time
from collections import defaultdict
from pathlib import Path

from weft.digest import cut_text, reduced, shape_of
from weft.tokens import counter_for

WORD = re.compile(r"[\w./-]{6,}")
MARKED = re.compile(r"[a-z0-9][A-Z]|_|\w[./-]\w|\d")


def strings_of(text: str) -> set[str]:
    """The words of a text that have at least six characters."""
    return {word.strip(".-/") for word in WORD.findall(text) if len(word.strip(".-/")) >= 6}


def measure(path: Path, limits: list[int], most: int | None) -> None:
    """Print what is kept, by limit and by shape."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt") as lines:
        runs = [json.loads(line) for line in lines][:most]
    count = counter_for("gpt-5").count
    for limit in limits:
        kept: dict[str, list[int]] = defaultdict(lambda: [0] * 7)
        spent = 0.0
        for run in runs:
            messages = run["messages"]
            used: set[str] = set()
            for index in range(len(messages) - 1, 2, -1):
                text = messages[index]["text"]
                if messages[index]["role"] == "assistant":
                    used |= strings_of(text)
                elif (size := count(text)) > limit:
                    started = time.perf_counter()
                    shape, digest = shape_of(text), reduced(text, limit_tokens=limit, count=count)
                    spent += time.perf_counter() - started
                    short = str(digest.value)
                    if count(short) > limit:
                        raise SystemExit(f"{run['id']}: {count(short)} tokens exceed {limit}")
                    again = strings_of(text) & used
                    named = {word for word in again if MARKED.search(word)}
                    plain = cut_text(text, limit=limit, count=count, keep="bookend")
                    for row in (kept["all"], kept[shape]):
                        row[0] += 1
                        row[1] += size
                        row[2] += len(named)
                        row[3] += sum(word in short for word in named)
                        row[4] += sum(word in plain for word in named)
                        row[5] += len(again)
                        row[6] += sum(word in short for word in again)
        print(f"limit {limit} ({spent * 1000 / max(1, kept['all'][0]):.1f} ms each)")
        for shape, row in kept.items():
            number, total, names, held, cut, words, all_held = row
            print(
                f"  {shape:7} {number:5} observations, {total // max(1, number):6} tokens each;"
                f" names kept {held / max(1, names):6.1%}"
                f" (cut at both ends {cut / max(1, names):6.1%}) of {names};"
                f" all words {all_held / max(1, words):6.1%} of {words}"
            )


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--limit", type=int, action="append", help="tokens; may be repeated")
    parser.add_argument("--runs", type=int, help="only the first so many")
    given = parser.parse_args()
    measure(given.path, given.limit or [300, 500], given.runs)


if __name__ == "__main__":
    main()
