"""Tools that several tests of runs have."""

from weft import tool


def look(city: str = "Oslo") -> str:
    """Look."""
    return f"rain in {city}"


@tool(long_running=True)
def approve(amount: int) -> dict[str, str]:
    """Ask a manager."""
    return {"status": "asked"}
