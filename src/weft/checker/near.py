"""Names that look alike: what somebody who misspelt one may have meant."""

from weft.misuse import close as close
from weft.misuse import few as few
from weft.misuse import meant as meant


def is_slip(name: str, other: str) -> bool:
    """Whether one name is the other with a slip of the finger: a letter more, less or swapped.

    Names that are meant to differ are none: by a number, by a plural, by a short word in them.
    """
    if name == other or min(len(name), len(other)) < 4 or abs(len(name) - len(other)) > 1:
        return False
    shorter, longer = sorted((name, other), key=len)
    if longer in (f"{shorter}s", f"{shorter}_"):
        return False
    ours, theirs = name.split("_"), other.split("_")
    if len(ours) == len(theirs):
        differ = [(one, two) for one, two in zip(ours, theirs, strict=True) if one != two]
        if any(min(len(one), len(two)) < 3 for one, two in differ):
            return False
        plural = any(f"{one}s" == two or one == f"{two}s" for one, two in differ)
        if plural and len(differ) == 1:
            return False
    if any(letter.isdigit() for letter in {*name} ^ {*other}):
        return False
    return _one_slip(shorter, longer)


def _one_slip(shorter: str, longer: str) -> bool:
    start = 0
    while start < len(shorter) and shorter[start] == longer[start]:
        start += 1
    left, right = shorter[start:], longer[start:]
    if len(shorter) < len(longer):
        return left == right[1:]
    swapped = left[:2] == right[1::-1] and left[2:] == right[2:]
    return left[1:] == right[1:] or swapped
