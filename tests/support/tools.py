"""Tools that agents of tests have: what they do does not matter, how they are declared does."""


def look(city: str) -> str:
    """Look it up."""
    return city


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
