"""What a call asks for, and what stays for it of windows, searches, tests, tables and JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.digest import reduced
from weft.digest.asked import (
    GAP,
    NOTHING,
    SIGNATURE,
    CallQuery,
    choose_window,
    read_query,
    shows_all,
    window_of,
)
from weft.tokens import counter_for

COUNT = counter_for("gpt-5").count

SOURCE = [
    "import os",
    "",
    "",
    "class Store:",
    '    """Keeps things."""',
    "",
    "    def __init__(self, path):",
    "        self.path = path",
    "",
    "    def load_all(self):",
    "        names = sorted(os.listdir(self.path))",
    *(f"        step_{n} = names[{n}]" for n in range(30)),
    "        return names",
    "",
    "    def drop(self, name):",
    "        os.remove(self.path + name)",
    *(f"        left_{n} = name[{n}]" for n in range(40)),
]


def editor(first: int = 1, total: int = 900) -> str:
    """As SWE-agent's editor shows a file."""
    lines = [f"{number}:{line}" for number, line in enumerate(SOURCE, first)]
    return "\n".join(
        [
            f"[File: /repo/store.py ({total} lines total)]",
            f"({first - 1} more lines above)",
            *lines,
            f"({total - first - len(SOURCE)} more lines below)",
            "(Open file: /repo/store.py)",
        ]
    )


def digest(text: str, asked: CallQuery, limit: int = 900) -> str:
    short = reduced(text, limit_tokens=limit, count=COUNT, asked=asked).value
    assert isinstance(short, str)
    return short


def numbered(text: str) -> list[int]:
    window = window_of(text + "\n" * 0)
    return list(window.numbers.values()) if window is not None else []


def test_a_command_is_the_arguments_or_the_last_code_block_of_the_words() -> None:
    told = read_query([], "Look at `Store`.\n```\nedit 12:14\nreturn names\n```")
    assert (told.command, told.numbers, told.span) == ("edit 12:14", (12, 14), (12, 14))
    assert told.lines == ("return names",)
    assert told.names["store"] == 0.8
    given_ = read_query(["/repo/store.py", "40"], "", question="Where is load_all?")
    assert given_.numbers == (40,)
    assert given_.names["load_all"] == 0.4
    assert read_query([], "").numbers == ()


def test_a_window_keeps_what_was_gone_to_up_to_the_end_of_its_block() -> None:
    short = digest(editor(101), read_query(["goto 110"], ""))
    assert "110:    def load_all(self):" in short
    assert "142:        return names" in short
    assert "151:" not in short
    assert "[File: /repo/store.py (900 lines total)]" in short


def test_a_window_keeps_what_the_words_name_and_its_signatures() -> None:
    short = digest(editor(), read_query([], "I look for `drop`.\n```\nopen store.py\n```"))
    assert "44:    def drop(self, name):" in short
    assert "45:        os.remove" in short
    assert "10:    def load_all(self):" in short
    assert "25:" not in short


def test_a_window_keeps_the_rest_of_the_block_that_was_gone_into() -> None:
    short = digest(editor(101), read_query(["goto 120"], ""))
    assert "142:        return names" in short
    assert "144:    def drop(self, name):" in short  # a signature
    assert "150:" not in short


def test_a_window_keeps_the_whole_block_that_the_question_names() -> None:
    question = "The load_all of a shop is slow. It reads names, and a path, and os, and names."
    short = digest(editor(), read_query(["open it"], "Let me see.", question=question))
    assert "10:    def load_all(self):" in short
    assert all(f"{number}:" in numbers_of(short) for number in range(11, 43))
    assert "60:" not in numbers_of(short)
    unnamed = digest(editor(), read_query(["open it"], "Let me see.", question="It is slow."))
    assert "30:" not in numbers_of(unnamed)


def test_who_scrolls_on_reads_on_in_the_block_that_was_named() -> None:
    whole = editor().split("\n")
    above, below = whole[:14], "\n".join([whole[0], *whole[14:]])  # load_all goes on in `below`
    assert above[-1].startswith("12:        step_0")
    words = "I want to see more of `load_all`.\n```\nscroll_down\n```"
    asked = read_query([], words)._replace(seen=frozenset(above))
    short = digest(below, asked)
    assert all(f"{number}:" in numbers_of(short) for number in range(13, 43))
    assert "60:" not in numbers_of(short)
    other = read_query([], words.replace("load_all", "something"))._replace(seen=frozenset(above))
    assert "30:" not in numbers_of(digest(below, other))
    alone = digest(below, read_query([], words))  # nobody knows which block it is
    assert "30:" not in numbers_of(alone)


def numbers_of(text: str) -> set[str]:
    return {line.partition(":")[0] + ":" for line in text.split("\n")}


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("    async def load_all(self):", "load_all"),
        ("class Store(Base):", "Store"),
        ("export default function render() {", "render"),
        ("func (s *Store) Load(path string) error {", "Load"),
        ("func Open() *Store {", "Open"),
        ("pub fn drop(self) {", "drop"),
        ("const handler = function () {", None),
        ("define = 1", None),
    ],
)
def test_a_signature_says_what_it_defines(line: str, name: str | None) -> None:
    match = SIGNATURE.match(line)
    assert (match[1] if match is not None else None) == name


def test_a_window_keeps_the_lines_around_a_change() -> None:
    words = "```\nedit 10:11\n    def load_all(self):\n        names = []\nend_of_edit\n```"
    short = digest(editor(), read_query([], words))
    assert "6:\n7:    def __init__" in short
    assert "16:" in short
    assert "30:" not in short


@pytest.mark.parametrize("form", ["{}:{}", "{:>6}\t{}", "{:>6}\u2192{}", "{} | {}"])
def test_editors_number_lines_in_many_ways(form: str) -> None:
    text = "\n".join(form.format(number, line) for number, line in enumerate(SOURCE, 1))
    window = window_of(text)
    assert window is not None
    assert list(window.numbers.values()) == list(range(1, len(SOURCE) + 1))
    assert window.between(3, 5) == [2, 3, 4]


def test_a_short_file_is_shown_whole() -> None:
    whole, part = window_of(editor(total=len(SOURCE))), window_of(editor())
    assert whole is not None
    assert part is not None
    assert shows_all(whole)
    assert not shows_all(part)


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=30)),
    st.integers(1, 60),
    st.integers(40, 400),
)
def test_a_window_in_short_is_some_of_its_lines_in_their_order(
    lines: list[str], target: int, limit: int
) -> None:
    text = "\n".join(f"{number}:{line}" for number, line in enumerate([*lines, *SOURCE], 1))
    window = window_of(text)
    if window is None:
        return
    asked = read_query([f"goto {target}"], "the `drop` of Store")
    short = choose_window(window, asked, limit=limit, count=COUNT)
    assert short == choose_window(window, asked, limit=limit, count=COUNT)
    if short is None:
        return
    assert len(short.split("\n")) <= 2 * len(window.lines)
    rest = iter(window.lines)
    for line in short.split("\n"):
        assert line == GAP or line in rest  # `in` goes on behind the last one that was met


RIPGREP = "\n".join(
    [
        *(
            f"src/weft/part_{n}.py:{n * 10}:    value = compute({n}, other_thing_{n})"
            for n in range(80)
        ),
        "src/weft/store.py:12:def load_everything(path):",
    ]
)


def test_a_search_keeps_the_path_and_the_line_of_each_hit() -> None:
    short = digest(RIPGREP, read_query(["load_everything"], "", tool="Grep"), 1_500)
    assert "src/weft/store.py:12:def load_everything(path):" in short
    for n in range(80):
        assert f"src/weft/part_{n}.py:{n * 10}" in short
    assert COUNT(short) <= 1_500
    assert "more paths" in digest(RIPGREP, read_query(["rg -n compute src"], ""), 200)


def test_a_clock_is_not_a_line_and_what_nobody_searched_has_no_hits() -> None:
    log = [f"10:{n // 60:02}:{n % 60:02} INFO request {n} served" for n in range(400)]
    log[217] = "10:03:37 ERROR the disk is full"
    for lines in (
        log,
        [f"INFO {line}" if "ERROR" not in line else line for line in log],
        [f"app.log:{line}" for line in log],
        [f"Jan 12 {line}" for line in log],
        [f"[2024-01-12T{line}" for line in log],
    ):
        for asked in (read_query(["grep -n served app.log"], "", tool="bash"), NOTHING):
            short = digest("\n".join(lines), asked, 300)
            assert lines[217] in short
            assert "also at" not in short
    # the same lines as a compiler prints them are messages
    messages = RIPGREP.replace("    value", " warning: value")
    assert "also at" not in digest(messages, read_query(["make all"], "", tool="bash"), 400)


@pytest.mark.parametrize(
    ("arguments", "tool", "searches"),
    [
        (["grep -rn foo src"], "bash", True),
        (["cd src && rg foo | head"], "bash", True),
        (["git grep -n foo"], "run", True),
        (["search_dir foo"], "run", True),
        (["foo"], "Grep", True),
        (["foo"], "search_code", True),
        (["cat app.log"], "bash", False),
        (["pytest -q"], "bash", False),
        (["app.log"], "read_file", False),
    ],
)
def test_what_searches_is_told_by_the_call(arguments: list[str], tool: str, searches: bool) -> None:
    assert read_query(arguments, "", tool=tool).searches == searches


def test_a_search_keeps_hits_that_define_something_before_those_that_fit() -> None:
    prose = [f"Line {n}:    # watch what the manager of part {n} does" for n in range(10, 70)]
    text = "\n".join([*prose[:30], "Line 45:    def watch_file(self, path):", *prose[30:]])
    short = digest(text, read_query(["search_file watch"], "What does the manager watch?"), 300)
    assert "Line 45:    def watch_file(self, path):" in short


def test_a_list_of_paths_keeps_those_outside_of_tests() -> None:
    words = ["amber", "birch", "cedar", "dahlia", "elder", "fennel", "ginger", "hazel"]
    tests = [f"/repo/tests/roots/test-{one}-{two}/conf.py" for one in words for two in words]
    text = "\n".join([*tests[:40], "/repo/doc/conf.py", *tests[40:]])
    asked = read_query(["find_file conf.py"], "Where are hazel, birch, cedar and ginger set?")
    assert "/repo/doc/conf.py" in digest(text, asked, 200)


def test_a_trace_that_repeats_itself_keeps_what_each_of_its_lines_says() -> None:
    again = ['  File "/repo/power.py", line 336, in __new__', "    b = abs(b)"] * 300
    text = "\n".join(
        [
            "Traceback (most recent call last):",
            '  File "/repo/main.py", line 4, in <module>',
            "    print(expression.is_zero)",
            *again,
            '  File "/repo/basic.py", line 2058, in __next__',
            "    return next(self.tree)",
            "RecursionError: maximum recursion depth exceeded",
        ]
    )
    short = digest(text, read_query(["python main.py"], ""), 150)
    for line in {*text.split("\n")}:
        assert line in short


PYTEST = "\n".join(
    [
        "============================= test session starts ==============================",
        *(
            f"tests/test_part_{n}.py ....................                     [ {n}%]"
            for n in range(60)
        ),
        "=================================== FAILURES ===================================",
        "__________________________ test_the_store_is_closed ___________________________",
        "",
        "    def test_the_store_is_closed():",
        "        store = Store()",
        ">       assert store.closed",
        "E       assert False",
        "E        +  where False = <Store>.closed",
        "",
        "tests/test_store.py:12: AssertionError",
        "=========================== short test summary info ============================",
        "FAILED tests/test_store.py::test_the_store_is_closed - assert False",
        "======================== 1 failed, 1200 passed in 4.20s ========================",
    ]
)

UNITTEST = "\n".join(
    [
        *(f"test_case_{n} (tests.test_parts.Parts) ... ok" for n in range(90)),
        "======================================================================",
        "FAIL: test_total (tests.test_sum.Sums)",
        "----------------------------------------------------------------------",
        "Traceback (most recent call last):",
        '  File "tests/test_sum.py", line 9, in test_total',
        "    self.assertEqual(total([1, 2]), 4)",
        "AssertionError: 3 != 4",
        "",
        "Ran 91 tests in 0.010s",
    ]
)

GO = "\n".join(
    [
        *(f"=== RUN   TestPart{n}\n--- PASS: TestPart{n} (0.00s)" for n in range(60)),
        "=== RUN   TestClose",
        "--- FAIL: TestClose (0.00s)",
        "    store_test.go:31: want closed, got open",
        "FAIL",
        "FAIL\texample.org/store\t0.004s",
    ]
)


@pytest.mark.parametrize(
    ("output", "stays"),
    [
        (
            PYTEST,
            (">       assert store.closed", "E        +  where False", "tests/test_store.py:12:"),
        ),
        (UNITTEST, ("line 9, in test_total", "AssertionError: 3 != 4")),
        (GO, ("--- FAIL: TestClose", "store_test.go:31: want closed, got open")),
    ],
)
def test_the_output_of_tests_keeps_what_failed_whole(output: str, stays: tuple[str, ...]) -> None:
    short = digest(output, NOTHING, 300)
    assert COUNT(short) <= 300
    for line in stays:
        assert line in short


def test_a_table_keeps_its_header_the_rows_that_fit_and_their_number() -> None:
    rows = [f"{n},customer_{n},{n * 3}.50,open" for n in range(300)]
    text = "\n".join(["id,name,total,state", *rows])
    short = digest(text, read_query(["customer_217"], "What does customer_217 owe?"), 200)
    assert short.startswith("id,name,total,state")
    assert "217,customer_217,651.50,open" in short
    assert "more rows" in short


def test_json_keeps_the_rows_and_the_fields_that_were_asked_for() -> None:
    rows = [
        {"id": n, **{f"detail_{k}": "x" * 20 for k in range(30)}, "gate_code": f"GC-{n}"}
        for n in range(50)
    ]
    asked = read_query(["GC-31"], "Which gate_code is GC-31?")._replace(
        names={"gc-31": 1.0, "gate_code": 1.0}
    )
    short = digest(json.dumps(rows), asked, 300)
    assert COUNT(short) <= 300
    assert "GC-31" in short
