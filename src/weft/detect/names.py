"""Names of people, as far as words alone tell.

A capitalised word is a name when something says so: a title or a phrase in front of it, a given
name that is known, a known given name next to it, or the ending of a surname. Part of a name that
was found stands for the person in the rest of the text too.
"""

import re
from collections.abc import Iterator, Sequence

from weft.detect.addresses import COUNTRIES
from weft.detect.kinds import Span, capitals
from weft.detect.name_words import (
    AMBIGUOUS,
    COMMON,
    NOT_NAMES,
    ORGANISATION,
    PARTICLES,
    PEOPLE,
    SURNAME_WORDS,
    SURNAMES,
    TITLES,
    Word,
    bare,
    fold,
    is_above_address,
    is_addressed,
    is_announced,
    is_cued,
    is_firm,
    is_given,
    is_place,
    is_surely_surname,
    looks_like_surname,
    measure_title,
    particles,
    speakers,
    without_possessive,
)

_CAPITALS = capitals()

PERSON_VERBS = (
    "lives", "lived", "shouted", "whispered", "smiled", "laughed", "replied", "was born",
    "spent a", "had given", "has given",
    "gave", "is from", "works for", "works at", "will be talking", "is very", "is a very",
    "just has to", "explained", "sang",
)  # fmt: skip
"""What people do, and few other things."""

_CAPITALISED = re.compile(
    rf"[{_CAPITALS}](?<!\w[{_CAPITALS}])(?<!['\u2019][{_CAPITALS}])[^\W\d_]*(?:['\u2019\-\u2010][^\W\d_]+)*"
)

_IDENTIFIER = re.compile(r"\A(?!Ma?c[A-Z]|(?:De|Di|La|Le|Du|Van|Von|Fitz)[A-Z]).*[a-z][A-Z]")

_ROMAN = frozenset({"II", "III", "IV", "Jr", "Sr"})

_LISTED = frozenset({", ", " and ", ", and ", " & ", " or "})

_LONGEST = 5


def look_for_names(text: str) -> Iterator[Span]:
    """Names with a reason to be believed, and their parts wherever they come again."""
    words = [
        Word(match.group(), fold(match.group()), *match.span())
        for match in _CAPITALISED.finditer(text)
    ]
    if not words:
        yield from look_in_lower_case(text)
        return
    sizes = _sizes(words, text)
    known = _speaking(text)
    at = 0
    while at < len(words):
        size = sizes[at]
        if size:
            parts = words[at : at + size]
            known.update(bare(each) for each in parts if _is_part(each))
            yield Span(_with_title(text, parts[0].start), without_possessive(parts[-1]))
        at += size or 1
    if not known:
        return
    taken = {at + more for at, size in enumerate(sizes) for more in range(size)}
    for at, word in enumerate(words):
        if at not in taken and bare(word) in known and not _is_organisation(words, at, 1, text):
            yield Span(word.start, without_possessive(word))


def _speaking(text: str) -> set[str]:
    """The speakers of a text in which at least one speaker has a known name."""
    labels = [Word(each, fold(each), 0, 0) for each in set(speakers(text))]
    named = [each for each in labels if each.low not in NOT_NAMES]
    if len(named) < 2 or len(named) * 2 < len(labels):
        return set()
    if not any(map(_is_known, named)):
        return set()
    return {each.text for each in named}


def _sizes(words: Sequence[Word], text: str) -> list[int]:
    """For each word, how many words are one person's name from it on; 0 where none begins."""
    sizes = [0] * len(words)
    at = 0
    while at < len(words):
        sizes[at] = _name_at(words, at, text)
        at += sizes[at] or 1
    for step in (1, -1):  # a word listed next to a given name is a person too
        for at in range(len(words))[::step]:
            other = at - step
            if sizes[at] or not 0 <= other < len(words) or sizes[other] != 1:
                continue
            if _is_beside(words, at, other, text) and _is_listed(words, at, other, text):
                sizes[at] = 1
    for first, last in _lists(words, text):
        if _are_people(words[first:last], text):
            for at in range(first, last):
                sizes[at] = sizes[at] or int(words[at].low not in NOT_NAMES)
    return sizes


def _is_beside(words: Sequence[Word], at: int, other: int, text: str) -> bool:
    """Whether two words are in one list; a comma alone may also end what precedes a name."""
    before, after = sorted((at, other))
    if _gap(words, before, text) != ", ":
        return _gap(words, before, text) in _LISTED
    return _gap(words, before - 1, text) in _LISTED or _gap(words, after, text) in _LISTED


def _gap(words: Sequence[Word], at: int, text: str) -> str:
    """The text between a word and the next one; empty if one of them is missing."""
    if not 0 <= at < len(words) - 1:
        return ""
    return text[words[at].end : words[at + 1].start]


def _lists(words: Sequence[Word], text: str) -> Iterator[tuple[int, int]]:
    """A list of three or more single words: its first word, and its end."""
    if ", " not in text:
        return
    first = 0
    for at in range(1, len(words) + 1):
        if _gap(words, at - 1, text) in _LISTED:
            continue
        if at - first > 2:
            yield first, at
        first = at


def _are_people(listed: Sequence[Word], text: str) -> bool:
    """Whether a list is announced as one of people, or many of it have given names."""
    if any(each.low in COUNTRIES for each in listed):
        return False
    start = listed[0].start
    if PEOPLE.search(text[max(0, start - 24) : start]) is not None:
        return True
    with_given = sum(is_given(each) for each in listed)
    known = sum(_is_known(each) for each in listed)
    many = (
        with_given * 3 >= len(listed) if with_given > 1 else with_given and known * 2 >= len(listed)
    )
    return len(listed) > 3 and bool(many) and _is_one_list(listed, text)


def _is_one_list(listed: Sequence[Word], text: str) -> bool:
    """Whether no `and` stands before the last of a list, as it does where firms are listed."""
    return all(_gap(listed, at, text) == ", " for at in range(len(listed) - 2))


def _is_known(word: Word) -> bool:
    return (is_given(word) and word.low not in AMBIGUOUS) or is_surely_surname(word)


def _is_listed(words: Sequence[Word], at: int, other: int, text: str) -> bool:
    word = words[at]
    if word.low.partition("'")[0] in NOT_NAMES or _run(words, at, text) != 1:
        return False
    if _is_organisation(words, at, 1, text):
        return False
    if words[other].low in COMMON:
        return True
    return looks_like_surname(word) and not _is_enumerated(words, at, text)


def _is_part(word: Word) -> bool:
    return len(bare(word)) > 2 and word.low not in NOT_NAMES and word.low not in SURNAME_WORDS


def _name_at(words: Sequence[Word], at: int, text: str) -> int:
    word = words[at]
    if _is_turned(words, at, text):
        return 2
    if word.text.isupper() and len(word.text) > 2:
        return _shouted_name(words, at, text)
    if word.low in NOT_NAMES and word.low not in COMMON:
        return 0
    if "'" in word.low and word.low.partition("'")[0] in NOT_NAMES:
        return 0
    if word.low in TITLES or _IDENTIFIER.search(word.text) is not None:
        return 0
    size = _run(words, at, text)
    if _is_organisation(words, at, size, text):
        return 0
    before = text[max(0, word.start - 40) : word.start]
    if measure_title(before):
        return size
    before = before[: len(before) - particles(before)]
    if is_place(word.low, before) and not is_announced(before):
        return 0
    if size > 1:
        return size if _is_full_name(words[at : at + size], before, text) else 0
    return int(_is_single_name(words, at, before, text))


def _shouted_name(words: Sequence[Word], at: int, text: str) -> int:
    """How many words in capitals are a name: a given name and a surname, or what is announced."""
    size = 1
    while size < _LONGEST and _gap(words, at + size - 1, text) in {" ", ". "}:
        following = words[at + size]
        if not following.text.isupper() or following.low in NOT_NAMES:
            break
        size += 1
    first, last = words[at], words[at + size - 1]
    if size < 2 or first.low in NOT_NAMES or last.low in ORGANISATION:
        return 0
    if is_given(first) and first.low not in AMBIGUOUS and looks_like_surname(last):
        return size
    return size if is_announced(text[max(0, first.start - 40) : first.start]) else 0


def _is_turned(words: Sequence[Word], at: int, text: str) -> bool:
    """Whether a surname stands first and the given name after a comma."""
    if _gap(words, at, text) != ", ":
        return False
    known = words[at].text.isupper() and words[at].low in SURNAMES
    if not known and not is_surely_surname(words[at]):
        return False
    first_name = words[at + 1]
    if not is_given(first_name) or first_name.low in AMBIGUOUS or first_name.low in SURNAMES:
        return False
    return _gap(words, at - 1, text) not in _LISTED and _gap(words, at + 1, text) not in _LISTED


def _is_full_name(parts: Sequence[Word], before: str, text: str) -> bool:
    word, others = parts[0], parts[1:]
    sure = any(is_surely_surname(each) for each in others)
    likely = sure or any(looks_like_surname(each) for each in others)
    if is_given(word) and (word.low not in AMBIGUOUS or likely or is_cued(before)):
        return True
    if (
        len(others) > 1
        and len(others[0].text) == 1
        and (len(word.text) > 1 or (word.text != "U" and text[word.end] == "."))
    ):
        return True
    if is_cued(before):
        return is_announced(before) or likely or len(parts) == 2
    if any(each.low in COMMON and each.low not in AMBIGUOUS for each in others):
        return not _begins_sentence(before) or looks_like_surname(word)
    if (
        sure
        or _does(text, parts[-1].end)
        or is_addressed(word.low, before, _after(parts[-1], text))
    ):
        return True
    return len(parts) < 4 and is_above_address(text, word.start, parts[-1].end)


def _does(text: str, end: int) -> bool:
    """Whether what follows is what people do."""
    return text[end : end + 1] == " " and text.startswith(PERSON_VERBS, end + 1)


def _after(word: Word, text: str) -> str:
    """The text after a word, from its possessive on."""
    end = without_possessive(word)
    return text[end : end + 16]


def _is_single_name(words: Sequence[Word], at: int, before: str, text: str) -> bool:
    word = words[at]
    has_given = is_given(word)
    if word.low not in NOT_NAMES and is_announced(before):
        return True
    if has_given and word.low not in AMBIGUOUS:
        return True
    after = _after(word, text)
    if word.low not in NOT_NAMES and (
        _does(text, word.end) or is_addressed(word.low, before, after)
    ):
        return True
    surname = is_surely_surname(word)
    if not has_given and not surname and not looks_like_surname(word):
        return False
    if is_cued(before) or (
        has_given and _begins_line(text, word.start) and after[:1] in {":", ","}
    ):
        return True
    if has_given and re.match(r"[!?]", after) and before.endswith(", "):
        return True
    if not surname or _is_enumerated(words, at, text) or after.startswith("-"):
        return False
    return before[-1:] == " " and before[-2:-1] not in {".", "!", "?", ":", ""}


def _is_enumerated(words: Sequence[Word], at: int, text: str) -> bool:
    """Whether commas stand between it and other names, as in those of law firms."""
    for before, after in ((at - 1, at), (at, at + 1), (at - 2, at - 1)):
        if (
            before >= 0
            and after < len(words)
            and text[words[before].end : words[after].start] == ", "
        ):
            return True
    return False


def _run(words: Sequence[Word], at: int, text: str) -> int:
    """How many words from here on are capitalised and next to each other."""
    size = 1
    while at + size < len(words) and size < _LONGEST:
        before, word = words[at + size - 1], words[at + size]
        if before.text.endswith(("'s", "\u2019s")) or not _is_joined(text, before, word):
            break
        if word.text in _ROMAN:
            return size + 1
        if (
            word.low in NOT_NAMES
            and word.low not in SURNAMES
            and not _is_initial(words, at + size, text)
        ):
            break
        if word.text.isupper() and len(word.text) > 2:
            break
        size += 1
    return size


def _is_initial(words: Sequence[Word], at: int, text: str) -> bool:
    """Whether a letter that is a word as well stands between a name and its last part."""
    if words[at].low not in {"a", "i"} or at + 1 >= len(words) or words[at + 1].low in NOT_NAMES:
        return False
    gap = text[words[at].end : words[at + 1].start]
    return gap == ". " or (
        gap == " " and words[at].low == "a" and words[at - 1].low not in NOT_NAMES
    )


def _is_joined(text: str, before: Word, word: Word) -> bool:
    gap = text[before.end : word.start]
    if gap == " ":
        return True
    if len(before.text) == 1:
        gap = gap.removeprefix(".")
        if gap == " ":
            return True
    return (
        gap[:1] == " "
        and len(gap) < 12
        and gap[-1:] in {" ", "'", "\u2019"}
        and all(each in PARTICLES for each in gap.split())
        and bool(gap.strip())
        and gap.strip() not in {"e", "y", "do"}
    )


def _is_organisation(words: Sequence[Word], at: int, size: int, text: str) -> bool:
    parts = words[at : at + size]
    if size > 1 and parts[-1].low in SURNAMES and is_given(parts[0]):
        parts = parts[:-1]
    after = at + size
    spelled = next((each for each in reversed(parts) if len(each.text) > 1), parts[-1])
    following = text[spelled.end : spelled.end + 32]
    if is_firm([each.low for each in parts], following) or is_firm([words[after - 1].text], ""):
        return True
    if after >= len(words):
        return False
    gap = text[words[after - 1].end : words[after].start]
    return gap in {" ", ", "} and words[after].low in ORGANISATION


def _begins_sentence(before: str) -> bool:
    return not before.strip() or before.rstrip(" \"'\u201c")[-1:] in {".", "!", "?"}


def _begins_line(text: str, start: int) -> bool:
    return start == 0 or text[start - 1] in "\n>"


def _with_title(text: str, start: int) -> int:
    """The start of a name, including its title or particles."""
    before = text[max(0, start - 32) : start]
    return start - (measure_title(before) or particles(before))


_ANY = re.compile(r"[^\W\d_]+(?:['\u2019\-\u2010][^\W\d_]+)*")

_INITIAL = re.compile(r" [a-z]\.? (?=\w)")

_NAME_IS = re.compile(r"name is \Z")


def look_in_lower_case(text: str) -> Iterator[Span]:
    """Known given names in a text without capitals, with a surname that looks like one."""
    for match in _ANY.finditer(text):
        low = fold(match.group())
        start, end = match.span()
        is_common = len(low) > 3 and low in COMMON and low not in AMBIGUOUS
        if not is_common and not (
            low not in NOT_NAMES and _NAME_IS.search(text, max(0, start - 8), start)
        ):
            continue
        if not _is_in_identifier(text, start, end):
            yield Span(start, _with_surname(text, start, end))


def _is_in_identifier(text: str, start: int, end: int) -> bool:
    """Whether the word is a part of a host, a path or another name that code uses."""
    after = text[end : end + 2]
    return text[start - 1 : start] in _SIGNS or (after[:1] in _SIGNS and after[1:].isalnum())


_SIGNS = frozenset("._-/@\\=:#$")


def _with_surname(text: str, start: int, end: int) -> int:
    """The end of a name, including its surname."""
    if text[end : end + 1] != " ":
        return end
    initial = _INITIAL.match(text, end)
    follow = _ANY.match(text, initial.end() if initial else end + 1)
    if follow is None:
        return end
    last = Word(follow.group(), fold(follow.group()), *follow.span())
    if initial or looks_like_surname(last):
        return without_possessive(last)
    announced = is_cued(text[max(0, start - 40) : start])
    return without_possessive(last) if announced and last.low not in NOT_NAMES else end
