"""K: what is said of a function of the state is so, whatever it does and whichever way it goes."""

import contextlib
import linecache
import random
from collections.abc import Callable
from typing import Any

import pytest

from weft.checker.functions import keys_of
from weft.checker.keys import Keys
from weft.session.event import State

KEYS, FLAGS = "abcd", "pq"
DRAFT = "a"
SPARE = {"c": 1, "d": None}
PLAIN = {"b": 5, "c": 6}


def meddle(state: State) -> None:
    """What a function does that gets the state from another."""
    state["d"] = 9


def pack(one: object) -> dict[str, object]:
    """A dict for whoever asks."""
    packed = {"a": one, "b": None}
    return {**packed, "c": 2}


def either(state: State) -> dict[str, object] | None:
    """One dict or another, or none."""
    if state.get("p"):
        return {"a": 1, "b": state.get("b", 3)}
    return {"b": 2} if state.get("q") else SPARE


def put(state: State, key: str = "a", one: object = 1) -> None:
    """Write a key that the caller names."""
    state[key] = one


def keep(state: State, **values: object) -> None:
    """Write the keys that the caller names."""
    for key, one in values.items():
        state[key] = one


def same(state: State) -> State:
    """Change the state, and give it back."""
    state.update(pack(4))
    return state


HELPERS = [pack, either, put, keep, same, meddle]


def value(pick: random.Random) -> str:
    """An expression, some of which look into the state."""
    key = pick.choice(KEYS)
    return pick.choice(
        ["1", '"text"', f'state["{key}"]', f'state.get("{key}", 5)', "len(state)", "None",
         f'(state["{key}"] if state.get("p") else 3)', f'(state.get("q") or state["{key}"])',
         f'[one for one in (1, 2) if state.get("{key}")]']
    )  # fmt: skip


def change(pick: random.Random) -> str:
    """A statement that does something to the state, or to a dict of its own."""
    key, other = pick.choice(KEYS), pick.choice(KEYS)
    return pick.choice(
        [f'state["{key}"] = {value(pick)}', f'state["{key}"] = state["{other}"]', "held = state",
         f'state["{key}"] += 1', f'del state["{key}"]', f'state.pop("{key}", None)',
         f'kept = state.pop("{key}")', f'state.setdefault("{key}", {value(pick)})',
         f'state.update({{"{key}": 1, "{other}": {value(pick)}}})', f"state.update({key}=1)",
         f'out["{key}"] = {value(pick)}', f"out.update({other}=2)", f'out.pop("{key}", None)',
         f'state[DRAFT], state["{other}"] = 1, {value(pick)}',
         f'state.get("p") and out.update({key}=1)',
         f'(state.update({key}=1) if state.get("p") else state.update({other}=1))',
         f'[state.update({key}=one) for one in range(state.get("q", 0))]',
         'state.get("list", []).append(1)', 'named = state.get("list", []); named.append(1)',
         f'state[f"{key}"] = 1', "meddle(state)" if pick.random() < 0.2 else "pass",
         f'put(state, "{key}")', f'put(state, one=3, key="{key}")', "put(state)",
         f"keep(state, {key}=1, z=2)", "put(state, one=state.get('p', 2))",
         "out.update(pack(1))", "state.update(**pack(2))",
         'state.update(either(state) or {"c": 1})',
         "other = same(state)", f'other = same(state); other["{key}"] = 2',
         f'made = pack(3); made["{key}"] = 1; state.update(made)',
         f'state.update({{one: 1 for one in ("{key}", "{other}")}})', "out = {**SPARE}",
         'for one, two in PLAIN.items(): state[one] = two']
    )  # fmt: skip


def answer(pick: random.Random) -> str:
    """The end of a function."""
    key, other = pick.choice(KEYS), pick.choice(KEYS)
    return pick.choice(
        ["return", "return out", "return state", f'return {{"{key}": 1}}',
         f'return {{**out, "{key}": {value(pick)}}}', f'return {{**state, "{key}": 1}}',
         f"return dict(out, {key}=1)", f'return out | {{"{other}": None}}',
         f'return {{"{key}": 1}} if state.get("p") else {{"{other}": 2}}',
         f'return {{one: 1 for one in ("{key}", "{other}")}}', "return pack(1)", "return SPARE",
         "return either(state)", f'return {{**SPARE, **(either(state) or {{}}), "{key}": 1}}',
         "return same(state)", f'return {{**pack(1), "{key}": 2}} if state.get("p") else SPARE',
         f'return dict.fromkeys(("{key}", "{other}"), 1)', "return dict(either(state) or {}, d=1)",
         f'return {{one: 1 for one in ("{key}", "{other}") if state.get(one)}}']
    )  # fmt: skip


def block(pick: random.Random, depth: int, indent: str = "    ") -> list[str]:
    """Some statements, one inside the other."""
    lines: list[str] = []
    for _ in range(pick.randint(1, 3)):
        lines += _statement(pick, depth, indent)
    return lines


def _statement(pick: random.Random, depth: int, indent: str) -> list[str]:
    kind = pick.random() if depth else 0
    deeper, key = indent + "    ", pick.choice(KEYS)
    inner = block(pick, depth - 1, deeper) if depth else []
    other = block(pick, depth - 1, deeper) if depth else []
    ends = [deeper + answer(pick)] if pick.random() < 0.3 else []
    if kind < 0.5:
        return [indent + change(pick)]
    if kind < 0.65:
        test = pick.choice([f'"{key}" in state', 'state.get("p")', f'state["{key}"] == 1'])
        return [f"{indent}if {test}:", *inner, *ends, f"{indent}else:", *other]
    if kind < 0.72:
        return [f'{indent}for key in ("{key}", "a"):', f"{deeper}state[key] = 1", *inner]
    if kind < 0.79:
        return [f'{indent}for one in range(state.get("q", 0)):', *inner, *ends]
    if kind < 0.88:
        return [f"{indent}try:", *inner, *ends, f"{indent}except KeyError:", *other]
    if kind < 0.94:
        return [f"{indent}with contextlib.suppress(KeyError):", *inner]
    rest = [f"{deeper}    {line.strip()}" for line in (change(pick), change(pick))]
    return [f'{indent}match state.get("p"):', f"{deeper}case 1:", rest[0],
            f"{deeper}case _:", rest[1]]  # fmt: skip


def _loop(pick: random.Random, indent: str) -> list[str]:
    """A loop that may be left from within, or have its rounds cut short."""
    deeper = indent + "    "
    head = pick.choice(
        ["while True:", "while flip():", "for one in range(2):", "for one in (1, state):",
         'for one in range(state.get("q", 0)):', "go, n = True, 0\n" + indent + "while go:",
         "n = 0\n" + indent + "while n < 2:"]
    )  # fmt: skip
    leaves = [f"{deeper}    {change(pick)}", f"{deeper}    {pick.choice(['break', 'continue'])}"]
    if pick.random() < 0.3:
        leaves = [f"{deeper}    try:", f"{deeper}        {leaves[1].strip()}",
                  f"{deeper}    finally:", f"{deeper}        {change(pick)}"]  # fmt: skip
    lines = [indent + head, *block(pick, 1, deeper), f"{deeper}if flip():", *leaves]
    lines += [*block(pick, 0, deeper), f"{deeper}n, go = 3, flip()", f"{deeper}if flip():"]
    lines.append(f"{deeper}    break")
    if pick.random() < 0.3:
        lines += [f"{indent}else:", *block(pick, 0, deeper)]
    return lines


def flips(seed: int) -> Callable[[], bool]:
    """A coin that shows every side now and then."""
    pick = random.Random(seed)
    return lambda: pick.random() < 0.5


def made(seed: int) -> tuple[Callable[[State], Any], str]:
    """A function that nobody wrote, and its source."""
    pick = random.Random(seed)
    lines = ["def function(state):", "    out = {}", *block(pick, 2), *block(pick, 1)]
    if seed % 2:
        lines = ["def function(state):", "    out = {}", *block(pick, 1), *_loop(pick, "    ")]
    if pick.random() < 0.6:
        lines.append("    " + answer(pick))
    source = "\n".join(lines) + "\n"
    name = f"<function {seed}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space: dict[str, Any] = {
        "contextlib": contextlib,
        "DRAFT": DRAFT,
        "SPARE": SPARE,
        "PLAIN": PLAIN,
    }
    space |= {helper.__name__: helper for helper in HELPERS}
    space["flip"] = flips(seed)
    exec(compile(source, name, "exec"), space)
    return space["function"], source


def wrong(keys: Keys, before: dict[str, Any], state: State) -> list[str]:
    """What was said of a function, and is not so."""
    after = dict(state)
    moved = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    known = keys.writes | keys.maybe | keys.drops | keys.may_drop | keys.touches
    found = [f"{key} is read on every path" for key in keys.reads - before.keys()]
    if keys.writes_all:
        found += [f"{key} is written on every path" for key in keys.writes - after.keys()]
        found += [f"{key} is taken away on every path" for key in keys.drops & after.keys()]
        found += [f"nothing happens to {key}" for key in moved - known]
    return found


@pytest.mark.parametrize("start", range(0, 400, 100))
def test_what_is_said_of_a_function_is_so(start: int) -> None:
    followed = 0
    for seed in range(start, start + 100):
        function, source = made(seed)
        keys = keys_of(function)
        followed += keys.writes_all
        pick = random.Random(seed)
        for _ in range(8):
            before: dict[str, Any] = {k: pick.choice([0, 1]) for k in KEYS if pick.random() < 0.7}
            before |= {k: 1 for k in FLAGS if pick.random() < 0.5}
            before |= {"list": [1]} if pick.random() < 0.5 else {}
            state = State(before)
            try:
                returned = function(state)
                for key, held in dict(returned or {}).items():
                    state[key] = held
            except (KeyError, TypeError):
                continue
            state.delta  # noqa: B018  # takes in what was changed in place
            assert not wrong(keys, before, state), source
    assert followed > 25


def test_a_test_proves_keys_however_it_is_negated() -> None:
    proofs: list[tuple[Callable[..., object], str]] = [
        (lambda state: "a" in state and state["b"], "ab"),
        (lambda state: "a" in state or state["b"], ""),
        (lambda state: not ("a" not in state or state.get("b") is None), "ab"),
        (lambda state: not ("a" not in state and state.get("b") is None), ""),
        (lambda state: bool(state.get("a") is not None), "a"),
        (lambda state: state.get("a") == 1, "a"),
        (lambda state: not state.get("a"), ""),
        (lambda state: state.get("a") is None, ""),
    ]
    for function, keys in proofs:
        assert keys_of(function).proves == {*keys}
