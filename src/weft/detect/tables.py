"""Tables of words, written as running text."""


def table(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())
