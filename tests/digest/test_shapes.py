"""What a text looks like is seen from the text alone."""

import base64
import json

import pytest

from weft.digest import shape_of

CODE = '''import os
from pathlib import Path

class Reader:
    """Reads a file."""

    def read(self, path):
        with open(path) as file:
            return file.read()
'''
LOG = "\n".join(f"2024-05-01 10:00:{second:02} INFO step {second}" for second in range(20))
HTML = "<!DOCTYPE html><html><head><title>Rivers</title></head><body><p>Text</p></body></html>"
DIFF = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n-old\n+new\n"


@pytest.mark.parametrize(
    ("shape", "value"),
    [
        ("json", {"a": 1}),
        ("json", [1, 2]),
        ("json", 7),
        ("json", json.dumps({"rows": [1, 2, 3]}, indent=2)),
        ("json", '{"a": 1}\n{"a": 2}\n{"a": 3}'),
        ("table", "id,name,price\n1,a,2\n2,b,3\n3,c,4"),
        ("table", "id\tname\n1\ta\n2\tb\n3\tc"),
        ("table", "| id | name |\n|----|------|\n| 1 | a |\n| 2 | b |"),
        (
            "table",
            "NAME       READY   STATUS\npod-1      1/1     Running\npod-2      0/1     Failed",
        ),
        ("log", LOG),
        ("log", "[INFO] a\n[WARN] b\n[ERROR] c"),
        ("code", CODE),
        ("code", "\n".join(f"{n}:{line}" for n, line in enumerate(CODE.splitlines(), 1))),
        ("html", HTML),
        ("diff", DIFF),
        ("base64", base64.b64encode(bytes(range(256)) * 4).decode()),
        ("text", "A river rose. Nobody was hurt, and the mayor said so."),
        ("text", ""),
        ("text", "{not json at all}"),
        ("text", "well, then, and so on\nyes, no, and then\nso, well, and but"),
    ],
)
def test_a_shape_is_told_from_the_value(shape: str, value: object) -> None:
    assert shape_of(value) == shape  # type: ignore[arg-type]


def test_hostile_texts_are_looked_at_in_no_time() -> None:
    for text in ("-" * 200_000, "|" * 200_000, "<" * 200_000, "{" * 200_000, "a," * 100_000):
        assert shape_of(text) in ("text", "table", "html")
