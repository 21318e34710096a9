"""How much of recorded provider requests comes back when they are read and compiled again.

    .venv/bin/python bench/imports.py exchanges.jsonl.gz [more files ...]

Takes lines of `{dialect, path, request}` as HTTP recorders keep them, and files of chats. For each
dialect it prints the share of requests that come back as they were, the share whose conversation
(system and turns) does, and the named differences of the rest.
"""

import argparse
import gzip
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from weft import C
from weft.dialects import dialect_named
from weft.recordings import Recording, read_recordings
from weft.replay.replay import requests_of
from weft.values import Json, JsonObject

CONVERSATION = ("messages", "system", "instructions", "input", "contents", "systemInstruction")


def differences(one: Json, other: Json, at: str = "") -> Iterator[str]:
    """Where two requests differ. Null, false and an empty text say no more than nothing."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from differences(one.get(key), other.get(key), f"{at}/{key}")
    elif isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            yield f"{at}: {'more' if len(other) > len(one) else 'fewer'}"
            return
        for left, right in zip(one, other, strict=True):
            yield from differences(left, right, f"{at}/*")
    elif plain(one, at) != plain(other, at):
        yield at


def plain(value: Json, at: str) -> Json:
    """A value as it counts: one text part is its text, arguments are what they say."""
    if value in (None, False, "", [], {}):
        return None
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        return value[0].get("text", value)
    if isinstance(value, str) and at.endswith("arguments"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    if isinstance(value, str) and at.endswith("/data"):  # two alphabets of base64
        return value.replace("-", "+").replace("_", "/").rstrip("=")
    return value


def model_of(recording: Recording, row: JsonObject) -> str:
    """The model to compile for: the recorded one; Gemini's stands in the path."""
    match = re.search(r"models/([^:]+):", str(row.get("path")))
    return f"gemini/{match[1]}" if match and not recording.model else recording.asked_model


def main() -> None:
    """Read the files and print the shares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--show", type=int, default=6, help="differences to list")
    arguments = parser.parse_args()
    total: Counter[str] = Counter()
    same: Counter[str] = Counter()
    spoken: Counter[str] = Counter()
    names: defaultdict[str, Counter[str]] = defaultdict(Counter)
    unnamed: Counter[str] = Counter()
    for path in arguments.files:
        data = path.read_bytes()
        text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        for line in filter(None, text.split(b"\n")):
            row = json.loads(line)
            request = row.get("request") or {"messages": row["messages"]}
            kept = {key: row[key] for key in ("id", "dialect") if key in row}
            source = {**kept, **({"request": request} if "request" in row else request)}
            (recording,) = read_recordings(json.dumps(source).encode(), name=path.name)
            dialect = row.get("dialect") or recording.format
            total[dialect] += 1
            target = dialect if dialect != "plain" else "openai-chat"
            model = model_of(recording, row) or f"{target}/gpt-5"
            asked = recording if recording.asks else recording._replace(asks="agent")
            wire = list(requests_of(asked, C.default(), model=model, as_recorded=True))[-1][2].wire
            if "model" not in request:
                wire.pop("model", None)
            if dialect == "plain":  # texts have no form of their own: only what is said can be held
                texts = [message["text"] for message in request["messages"]]
                said = json.dumps(wire, ensure_ascii=False)
                found = [] if all(json.dumps(one, ensure_ascii=False)[1:-1] in said
                                  for one in texts) else ["/messages"]  # fmt: skip
            else:
                found = [*dict.fromkeys(differences(dialect_named(target).spell(request), wire))]
            if "tools" not in request:  # called tools are declared, as providers want it
                found = [one for one in found if not one.startswith("/tools")]
            same[dialect] += not found
            talk = [one for one in found if one.split("/")[1].split(":")[0] in CONVERSATION]
            spoken[dialect] += not talk
            names[dialect].update(found)
            unnamed[dialect] += bool(talk) and not recording.aside
    for dialect, count in total.items():
        print(
            f"{dialect}: {count} requests, {same[dialect] / count:.1%} come back whole,"
            f" {spoken[dialect] / count:.1%} of the conversations;"
            f" {unnamed[dialect]} differ with nothing set aside"
        )
        for name, times in names[dialect].most_common(arguments.show):
            print(f"  {times:4} {name}")


if __name__ == "__main__":
    main()
