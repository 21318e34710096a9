"""How much personal data the detectors find in labelled texts, and how much of it is any.

    python bench/pii.py PATH        a .json or .json.gz: [{full_text, spans: [{entity_type, ...}]}]

A labelled value counts as found when finds of its kind cover every letter and digit of it; a find
counts as right when it overlaps a label of its kind. `any` counts finds of any kind: what matters
to a redaction is that the value does not stay. Titles, places, organisations and nationalities
have no detector and no row; finds that overlap them are counted as wrong all the same.
"""

import argparse
import gzip
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from weft.detect import GROUPS, KINDS, Detection, find

KINDS_OF = {
    "EMAIL_ADDRESS": {"email"},
    "PHONE_NUMBER": {"phone"},
    "CREDIT_CARD": {"card"},
    "IBAN_CODE": {"iban"},
    "US_SSN": {"ssn"},
    "IP_ADDRESS": {"ip"},
    "DOMAIN_NAME": {"url"},
    "DATE_TIME": {"date", "birth_date"},
    "ZIP_CODE": {"zip", "address"},
    "US_DRIVER_LICENSE": {"driver_license"},
    "AGE": {"age"},
    "PERSON": {"name"},
    "STREET_ADDRESS": {"address", "zip"},
}
WORDY = {"PERSON", "STREET_ADDRESS"}
# A full address holds its city and country, and a name its title: such an overlap is no mistake.
ALSO_RIGHT = {"address": {"GPE"}, "zip": {"GPE", "STREET_ADDRESS"}, "name": {"TITLE"}}


class Score(NamedTuple):
    labelled: Counter[str]
    found: Counter[str]
    anyhow: Counter[str]
    reported: Counter[str]
    right: Counter[str]


def score(rows: list[dict], kinds: tuple[str, ...]) -> tuple[Score, list[str]]:
    """Count what was labelled, found and reported."""
    result = Score(Counter(), Counter(), Counter(), Counter(), Counter())
    wrong: list[str] = []
    for row in rows:
        text = row["full_text"]
        finds = find(text, kinds)
        spans = [(s["entity_type"], s["start_position"], s["end_position"]) for s in row["spans"]]
        for label, start, end in spans:
            if label not in KINDS_OF:
                continue
            result.labelled[label] += 1
            own = [each for each in finds if each.kind in KINDS_OF[label]]
            if covered(text, start, end, own):
                result.found[label] += 1
            else:
                wrong.append(f"missed {label:16} {text[start:end]!r} in {text[:160]!r}")
            result.anyhow[label] += covered(text, start, end, finds)
        for each in finds:
            result.reported[each.kind] += 1
            if is_right(each, spans):
                result.right[each.kind] += 1
            else:
                wrong.append(f"wrong  {each.kind:16} {each.value!r} in {text[:160]!r}")
    return result, wrong


def covered(text: str, start: int, end: int, finds: list[Detection]) -> bool:
    """Whether every letter and digit of the label is inside one of the finds."""
    return all(
        any(each.start <= at < each.end for each in finds)
        for at in range(start, end)
        if text[at].isalnum()
    )


def is_right(found: Detection, spans: list[tuple[str, int, int]]) -> bool:
    """Whether a find overlaps a label that its kind is meant for."""
    return any(
        start < found.end and found.start < end
        for label, start, end in spans
        if found.kind in KINDS_OF.get(label, ()) or label in ALSO_RIGHT.get(found.kind, ())
    )


def show(name: str, part: int, whole: int, more: str = "") -> None:
    share = f"{part / whole:7.1%}" if whole else "      -"
    print(f"  {name:24}{share}  {part:>5} of {whole:<5} {more}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--part", help="every N-th row from I on, as I/N, to check on unseen rows")
    parser.add_argument("--wrong", action="store_true", help="list what was missed and wrong")
    options = parser.parse_args()
    raw = options.path.read_bytes()
    rows = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
    if options.part:
        first, step = map(int, options.part.split("/"))
        rows = rows[first::step]
    labels = {span["entity_type"] for row in rows for span in row["spans"]}
    labelled_kinds = set().union(*(KINDS_OF.get(label, set()) for label in labels))
    others = ", ".join(sorted(labels - set(KINDS_OF)))
    print(f"{len(rows):,} texts; labels without a detector: {others}")
    begun = time.perf_counter()
    result, wrong = score(rows, KINDS)
    took = time.perf_counter() - begun
    print("recall, by label (any kind in brackets)")
    for label in sorted(result.labelled, key=lambda each: (each in WORDY, -result.labelled[each])):
        some = result.anyhow[label] / result.labelled[label]
        show(label, result.found[label], result.labelled[label], f"({some:.1%})")
    print("precision, by kind")
    for kind in KINDS:
        if result.reported[kind]:
            unlabelled = "" if kind in labelled_kinds else "no label of this kind in the file"
            show(kind, result.right[kind], result.reported[kind], unlabelled)
    shaped = [label for label in result.labelled if label not in WORDY]
    print("overall")
    show("structured, recall", *totals(result.found, result.labelled, shaped))
    show("structured, precision", *totals(result.right, result.reported, GROUPS["structured"]))
    show("names, recall", *totals(result.found, result.labelled, ["PERSON"]))
    show("names, precision", *totals(result.right, result.reported, ["name"]))
    show("addresses, recall", *totals(result.found, result.labelled, ["STREET_ADDRESS"]))
    show("addresses, precision", *totals(result.right, result.reported, ["address"]))
    show("all, recall", *totals(result.found, result.labelled, list(result.labelled)))
    show("all, precision", *totals(result.right, result.reported, KINDS))
    characters = sum(len(row["full_text"]) for row in rows)
    print(f"  {characters / took / 1e6:.1f} million characters a second")
    if options.wrong:
        print("\n".join(wrong))
    return 0


def totals(part: Counter[str], whole: Counter[str], names: object) -> tuple[int, int]:
    return sum(part[each] for each in names), sum(whole[each] for each in names)


if __name__ == "__main__":
    sys.exit(main())
