"""The check digits of cards, accounts and identity numbers."""

from collections.abc import Iterable, Sequence

_VERHOEFF_TIMES = (
    (0, 1, 2, 3, 4, 5, 6, 7, 8, 9),
    (1, 2, 3, 4, 0, 6, 7, 8, 9, 5),
    (2, 3, 4, 0, 1, 7, 8, 9, 5, 6),
    (3, 4, 0, 1, 2, 8, 9, 5, 6, 7),
    (4, 0, 1, 2, 3, 9, 5, 6, 7, 8),
    (5, 9, 8, 7, 6, 0, 4, 3, 2, 1),
    (6, 5, 9, 8, 7, 1, 0, 4, 3, 2),
    (7, 6, 5, 9, 8, 2, 1, 0, 4, 3),
    (8, 7, 6, 5, 9, 3, 2, 1, 0, 4),
    (9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
)
_VERHOEFF_MOVES = (
    (0, 1, 2, 3, 4, 5, 6, 7, 8, 9),
    (1, 5, 7, 6, 2, 8, 3, 0, 9, 4),
    (5, 8, 0, 3, 7, 9, 6, 1, 4, 2),
    (8, 9, 1, 6, 0, 4, 3, 5, 2, 7),
    (9, 4, 5, 3, 1, 2, 6, 8, 7, 0),
    (4, 2, 8, 6, 5, 7, 3, 9, 0, 1),
    (2, 7, 9, 3, 8, 0, 6, 4, 1, 5),
    (7, 0, 4, 6, 9, 1, 3, 2, 5, 8),
)


def digits(text: str) -> list[int]:
    """The ASCII digits of a text, in order."""
    return [ord(each) - 48 for each in text if "0" <= each <= "9"]


def luhn(numbers: Sequence[int]) -> bool:
    """Whether the last digit is the Luhn check digit of the others."""
    total = sum(numbers[-1::-2])
    for each in numbers[-2::-2]:
        total += each * 2 - 9 if each > 4 else each * 2
    return total % 10 == 0


def mod97(text: str) -> bool:
    """Whether an account number leaves 1 modulo 97, its first four characters moved last."""
    moved = text[4:] + text[:4]
    return int("".join(str(int(each, 36)) for each in moved)) % 97 == 1


def verhoeff(numbers: Sequence[int]) -> bool:
    """Whether the last digit is the Verhoeff check digit of the others."""
    check = 0
    for place, each in enumerate(reversed(numbers)):
        check = _VERHOEFF_TIMES[check][_VERHOEFF_MOVES[place % 8][each]]
    return check == 0


def weighted(numbers: Iterable[int], weights: Iterable[int]) -> int:
    """The sum of the digits, each times its weight."""
    return sum(each * weight for each, weight in zip(numbers, weights, strict=False))


def iso7064(numbers: Sequence[int]) -> bool:
    """Whether the last digit is the ISO 7064 (mod 11, 10) check digit of the others."""
    product = 10
    for each in numbers[:-1]:
        total = (each + product) % 10 or 10
        product = total * 2 % 11
    return (11 - product) % 10 == numbers[-1]
