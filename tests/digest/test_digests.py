"""A digest is a shorter value of the same shape that says what is left out."""

import json

from weft.digest import reduced
from weft.tokens import counter_for
from weft.values import Json, compact

COUNT = counter_for("gpt-5").count


def digest(value: Json, limit: int = 120) -> Json:
    short = reduced(value, limit_tokens=limit, count=COUNT)
    size = COUNT(short.value if isinstance(short.value, str) else compact(short.value))
    assert size <= limit
    return short.value


def text_digest(value: str, limit: int = 120) -> str:
    short = digest(value, limit)
    assert isinstance(short, str)
    return short


def test_what_fits_is_returned_as_it_is() -> None:
    assert reduced("short", limit_tokens=10, count=COUNT) == ("short", "text", "")
    assert reduced({"a": 1}, limit_tokens=10, count=COUNT) == ({"a": 1}, "json", "")


def test_json_keeps_its_keys_and_records_become_a_table() -> None:
    rows: Json = [{"id": f"R-{n}", "status": "ok", "text": "lorem " * 20} for n in range(200)]
    short = digest({"total": 200, "rows": rows, "next": "abc"}, 200)
    assert isinstance(short, dict)
    assert short["total"] == 200
    assert short["next"] == "abc"
    kept = short["rows"]
    assert isinstance(kept, dict)
    assert kept["columns"] == ["id", "text"]
    assert kept["same in all"] == {"status": "ok"}
    assert compact(kept["rows"]).startswith('[["R-0","lorem')
    assert "more" in compact(kept)
    assert "R-5" in compact(kept)


def test_json_that_came_as_text_goes_as_text() -> None:
    text = json.dumps([{"id": n, "name": f"row {n}"} for n in range(400)], indent=2)
    assert json.loads(text_digest(text))["columns"] == ["id", "name"]


def test_ids_status_and_errors_are_the_keys_that_stay() -> None:
    wide: Json = {f"field_{n}": "x" * 40 for n in range(200)}
    assert isinstance(wide, dict)
    wide.update({"id": "ORD-1", "status": "failed", "error": "card refused"})
    short = digest(wide, 100)
    assert isinstance(short, dict)
    assert (short["id"], short["status"], short["error"]) == ("ORD-1", "failed", "card refused")
    assert "more keys" in str(short["…"])


def test_a_failed_row_in_the_middle_of_a_long_list_stays() -> None:
    rows: Json = [{"id": n, "state": "done"} for n in range(300)]
    assert isinstance(rows, list)
    rows[117] = {"id": 117, "state": "done", "error": "TimeoutError: no answer"}
    assert "TimeoutError" in compact(digest(rows, 200))


def test_a_long_text_in_a_result_is_reduced_by_its_own_shape() -> None:
    code = "\n".join(f"def function_{n}(a):\n    return a + {n}\n" for n in range(100))
    short = digest({"path": "src/a.py", "content": code}, 150)
    assert isinstance(short, dict)
    assert short["path"] == "src/a.py"
    assert str(short["content"]).startswith("def function_0(a):")
    assert "… lines" in str(short["content"])


def test_a_table_keeps_its_header_its_ends_and_the_number_of_rows() -> None:
    table = "id,name,price\n" + "\n".join(f"{n},item {n},{n * 3}" for n in range(1, 501))
    short = text_digest(table).splitlines()
    assert short[0] == "id,name,price"
    assert short[1] == "1,item 1,3"
    assert any("more rows" in line for line in short)
    assert "500,item 500,1500" in short
    words = reduced(table, limit_tokens=120, count=COUNT).left_out
    assert words.endswith("of 501 rows")


def test_a_log_keeps_its_trouble_and_says_repeats_once() -> None:
    lines = [f"2024-01-01 10:00:{n % 60:02} INFO poll {n}" for n in range(124)]
    lines += ["2024-01-01 10:03:00 ERROR ConnectionError: db-7 is gone"]
    lines += [f"2024-01-01 10:04:{n % 60:02} DEBUG tick {n}" for n in range(300)]
    short = text_digest("\n".join(lines))
    assert "INFO poll 0 (+121 alike)" in short
    assert "DEBUG tick 0 (+298 alike)" in short
    assert "ConnectionError: db-7 is gone" in short


def test_code_keeps_signatures_and_what_they_say_first() -> None:
    body = "\n".join("        value = value * 2 + offset" for _ in range(30))
    code = "import os\n\n" + "\n\n".join(
        f'class Thing{n}:\n    """Holds thing {n}."""\n\n    def run(self, value):\n{body}'
        for n in range(6)
    )
    short = text_digest(code, 150)
    assert "import os" in short
    assert all(f"class Thing{n}:" in short for n in range(6))
    assert "… lines" in short


def test_a_page_keeps_title_headings_and_links_without_markup() -> None:
    filler = "<div class='a'><script>var x = 1;</script><p>Many words about water.</p></div>" * 60
    page = (
        "<!DOCTYPE html><html><head><title>Rivers</title><style>p{}</style></head><body>"
        f"<nav><a href='/home'>Home</a></nav><h1>The Rhine</h1>{filler}"
        "<h2>Sources</h2><a href='https://example.org/rhine'>Atlas</a></body></html>"
    )
    short = text_digest(page)
    assert short.startswith("title: Rivers")
    assert "# The Rhine" in short
    assert "## Sources" in short
    assert "Atlas (https://example.org/rhine)" in short
    assert "<div" not in short
    assert "var x" not in short


def test_a_diff_keeps_its_files_and_hunks() -> None:
    hunk = "@@ -1,9 +1,9 @@ def run\n" + " same line\n" * 8 + "-old_call()\n+new_call()\n"
    diff = "".join(
        f"diff --git a/m{n}.py b/m{n}.py\n--- a/m{n}.py\n+++ b/m{n}.py\n{hunk * 6}"
        for n in range(3)
    )
    short = text_digest(diff, 150)
    assert all(f"+++ b/m{n}.py" in short for n in range(3))
    assert "@@ -1,9 +1,9 @@ def run" in short


def test_encoded_bytes_are_told_by_their_size() -> None:
    short = text_digest("data:image/png;base64," + "iVBORw0KGgo5AAab12" * 500)
    assert "image/png" in short
    assert "bytes of base64" in short


def test_prose_keeps_both_ends_and_lines_with_names() -> None:
    filler = [f"And so it went on for a while, as it does, day {n}." for n in range(200)]
    filler[90] = "The key is in src/vault/open_safe.py under MASTER_TOKEN_7."
    short = text_digest("\n".join(["It begins here.", *filler, "It ends here."]))
    assert short.startswith("It begins here.")
    assert "It ends here." in short
    assert "src/vault/open_safe.py" in short


def test_names_of_what_is_left_out_are_listed_behind() -> None:
    code = "\n".join(f"    handler_{n} = make_handler_{n}(config)" for n in range(80))
    assert "\nalso: " in text_digest(code)


def test_one_line_of_200_kb_is_read_in_pieces() -> None:
    words = " ".join(f"word{n}" for n in range(25_000))
    short = text_digest(f"start_marker {words} end_marker")
    assert short.startswith("start_marker word0")
    assert "characters…" in short


def test_the_same_value_gives_the_same_digest() -> None:
    value: Json = {"rows": [{"id": n, "text": "x" * n} for n in range(200)]}
    assert digest(value) == digest(json.loads(json.dumps(value)))
