"""A diff: the names of the files and the heads of the hunks stay, then what changed."""

from weft.digest.lines import Line, bookends

_FILES = ("diff ", "+++ ", "--- ", "rename ", "new file", "deleted file", "Index: ", "Binary files")


def diff_lines(text: str) -> list[Line]:
    """The lines with their weights."""
    lines = text.splitlines()
    out: list[Line] = []
    for line, end in zip(lines, bookends(lines, first=2, last=1), strict=True):
        weight = 0.0
        if line.startswith(_FILES):
            weight = 20.0
        elif line.startswith("@@"):
            weight = 10.0
        elif line[:1] in ("+", "-"):
            weight = 2.0
        out.append(Line(line, max(weight, end)))
    return out
