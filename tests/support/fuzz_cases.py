"""Random cases for the compiler: programs, logs and ways to look at them, written as expressions.

A case is data: a tree of calls that prints as Python and is evaluated from that text. So a case
that fails can be made smaller piece by piece, and what is left is a program that anybody can run.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from tests.support import fuzz_words as words

T = TypeVar("T")


class Word(str):
    """A name or an expression that is written as it is."""

    __slots__ = ()


class Call(NamedTuple):
    """A call, written `function(...)`, or `on.function(...)`."""

    function: str
    arguments: tuple[object, ...] = ()
    options: Mapping[str, object] = {}
    on: object = None


class Sum(NamedTuple):
    """Two policies, united."""

    left: object
    right: object


def write(value: object) -> str:
    """The expression as Python."""
    match value:
        case Word():
            return str(value)
        case Call():
            given = [*map(write, value.arguments)]
            given += [f"{name}={write(one)}" for name, one in value.options.items()]
            above = f"{write(value.on)}." if value.on is not None else ""
            return f"{above}{value.function}({', '.join(given)})"
        case Sum():
            return f"({write(value.left)} + {write(value.right)})"
        case dict():
            return "{" + ", ".join(f"{key!r}: {write(one)}" for key, one in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(write, value)) + "]"
        case tuple():
            return "(" + "".join(f"{write(one)}, " for one in value) + ")"
        case float() if value != value or value in (float("inf"), float("-inf")):
            return f"float({str(value)!r})"
        case _:
            return repr(value)


# --- smaller cases


def shrink(value: object) -> Iterator[object]:
    """Smaller expressions, the much smaller ones first."""
    match value:
        case Word():
            return
        case Call():
            yield from _shrink_call(value)
        case Sum():
            yield value.left
            yield value.right
            yield from (Sum(left, value.right) for left in shrink(value.left))
            yield from (Sum(value.left, right) for right in shrink(value.right))
        case dict():
            for key in value:
                yield {name: one for name, one in value.items() if name != key}
            for key, one in value.items():
                yield from ({**value, key: less} for less in shrink(one))
        case list() | tuple():
            yield from _shrink_list(value)
        case str() if len(value) > 1:
            yield value[: len(value) // 2]
            yield value[len(value) // 2 :]
        case int() if not isinstance(value, bool) and value > 1:
            yield 1
            yield value // 2
        case _:
            return


def _shrink_call(value: Call) -> Iterator[object]:
    if value.on is not None:
        yield value.on
    for name in value.options:
        if name in ("id", "timestamp") and value.function == "Event":
            continue  # without them the event is another one each time
        rest = {one: given for one, given in value.options.items() if one != name}
        yield value._replace(options=rest)
    if value.on is not None:
        yield from (value._replace(on=less) for less in shrink(value.on))
    for less in shrink(value.options):
        if isinstance(less, dict) and less.keys() == value.options.keys() and less.get("id", "e"):
            yield value._replace(options=less)
    for at, one in enumerate(value.arguments):
        before, after = value.arguments[:at], value.arguments[at + 1 :]
        yield from (value._replace(arguments=(*before, less, *after)) for less in shrink(one))


def _shrink_list(value: "list[object] | tuple[object, ...]") -> Iterator[object]:
    size = len(value)
    step = size // 2
    while step:
        for at in range(0, size, step):
            yield value[:at] + value[at + step :]
        step //= 2
    for at, one in enumerate(value):
        for less in shrink(one):
            yield type(value)((*value[:at], less, *value[at + 1 :]))


def smallest(case: Call, fails: Callable[[Call], bool], tries: int = 1_500) -> Call:
    """The smallest case that still fails, as far as these tries find it."""
    while True:
        for less in shrink(case):
            tries -= 1
            if tries < 0:
                return case
            if isinstance(less, Call) and less.function == "Case" and fails(less):
                case = less
                break
        else:
            return case


# --- what cases are made of


class Dice(random.Random):
    """A source of chance, with words for what is asked of it most.

    With `long`, what it decides makes a session that folds: many turns, and large texts.
    """

    long = False

    def one(self, *options: T) -> T:
        """One of these."""
        return options[self.randrange(len(options))]

    def maybe(self, chance: float) -> bool:
        """True as often as `chance` says."""
        return self.random() < chance

    def some(self, options: Sequence[T], most: int = 3) -> list[T]:
        """Up to `most` of these, in their order."""
        count = self.randrange(min(most, len(options)) + 1)
        chosen = {*self.sample(range(len(options)), count)}
        return [one for at, one in enumerate(options) if at in chosen]


def draw_text(dice: Dice) -> object:
    """What somebody says."""
    if dice.long and dice.maybe(0.5):
        return Word(f"'step_{dice.randrange(999)} ' + {dice.one(*words.LARGE[:-1])}")
    if dice.maybe(0.12):
        return Word(dice.one(*words.LARGE))
    if dice.maybe(0.02):
        return dice.one(*words.HOSTILE)
    return dice.one(*words.TEXTS)


def draw_value(dice: Dice, depth: int = 0) -> object:
    """A value as tools return it and states hold it."""
    if depth < 3 and dice.maybe(0.3):
        keys = dice.some(words.KEYS) if not dice.maybe(0.02) else [dice.one(*words.ODD_KEYS)]
        return {key: draw_value(dice, depth + 1) for key in keys}
    if depth < 3 and dice.maybe(0.15):
        return [draw_value(dice, depth + 1) for _ in range(dice.randrange(4))]
    if not dice.long and dice.maybe(0.02):  # most logs with one are refused
        return Word(dice.one(*words.ODD_VALUES))
    text = draw_text(dice)
    return dice.one(text, text, None, True, 0, -7, 2.5, 10**12, 2**70, [])


def draw_object(dice: Dice) -> dict[str, object]:
    """Arguments of a call, or a result of one."""
    if dice.maybe(0.3):
        return {dice.one("result", "error", "output"): draw_text(dice)}
    return {key: draw_value(dice, 1) for key in dice.some(words.KEYS)}


# --- policies


def draw_policy(dice: Dice, depth: int = 0) -> object:
    """What an agent sees: any word of `C`, verbs on it, unions and conditions."""
    policy: object = _draw_selector(dice)
    if dice.long and dice.maybe(0.8):
        name, arguments, options = dice.one(*words.FOLDING)
        policy = Call(name, arguments, options, on=Call("default", on=Word("C")))
    if depth < 2 and dice.maybe(0.06):
        predicate = Word(
            dice.one('lambda state: "intent" in state', 'lambda state: state.get("city") == "Oslo"')
        )
        policy = Call("when", (predicate, draw_policy(dice, 2)), on=Word("C"))
    for _ in range(dice.one(0, 0, 1, 1, 2, 3)):
        policy = _with_verb(dice, policy)
    if depth < 2 and dice.maybe(0.15):
        policy = Sum(policy, draw_policy(dice, depth + 1))
    if depth == 0:
        for _ in range(dice.one(0, 0, 0, 1, 2)):
            policy = _with_guard(dice, policy)
        if dice.maybe(0.15):
            policy = _with_budget(dice, policy)
        if dice.maybe(0.05):
            policy = Call("keep_duplicates", on=policy)
    return policy


def _draw_selector(dice: Dice) -> Call:
    name, arguments, options = dice.one(*words.SELECTORS)
    return Call(name, arguments, options, on=Word("C"))


def _with_verb(dice: Dice, policy: object) -> Call:
    name, arguments, options = dice.one(*words.REDUCTIONS)
    return Call(name, arguments, options, on=policy)


def _with_guard(dice: Dice, policy: object) -> Call:
    name, arguments, options = dice.one(*words.GUARDS)
    return Call(name, arguments, options, on=policy)


def _with_budget(dice: Dice, policy: object) -> Call:
    options: dict[str, object] = {"overflow": dice.one("degrade", "drop", "error")}
    if dice.maybe(0.3):
        options["keep_recent"] = dice.randrange(3)
    if dice.maybe(0.3):
        options["reserve"] = 50
    tokens = dice.one(200, 500, 900, 2_000, 8_000) if not dice.long else dice.one(16_000, 20_000)
    return Call("budget", (tokens,), options, on=policy)


# --- programs


def draw_agent(dice: Dice, name: str, *, below: int = 0, root: bool = True) -> Call:
    """An agent; `below` says how many agents it may hand over to."""
    options: dict[str, object] = {}
    if root or dice.maybe(0.3):
        options["model"] = dice.one(*words.MODELS)
    options["instruction"] = Word(dice.one(*words.INSTRUCTIONS))
    if tools := dice.some(words.TOOLS):
        options["tools"] = [Word(tool) for tool in tools]
    if dice.long or dice.maybe(0.5):
        options["context"] = draw_policy(dice)
    for field, chance, values in words.FIELDS:
        if dice.maybe(chance):
            options[field] = Word(dice.one(*values))
    if root and dice.maybe(0.1):
        options["global_instruction"] = "Speak to {user:name?}."
    if below:
        names = dice.sample([one for one in words.AGENTS if one != name], below)
        children: list[object] = [draw_agent(dice, one, root=False) for one in names]
        if dice.maybe(0.2):
            children.append(Word(dice.one(*words.CHILDREN)))
        options["sub_agents"] = children
    if dice.maybe(0.08) and name != "expert":
        tools_now = options.setdefault("tools", [])
        assert isinstance(tools_now, list)
        tools_now.append(Call("Agent", ("expert",), {"description": "Knows.", "model": "gpt-4o"}))
    return Call("Agent", (name,), options)


def draw_program(dice: Dice) -> object:
    """An agent, a router with its agents, or a flow of some."""
    kind = dice.random()
    if kind < 0.45:
        return draw_agent(dice, "bot")
    if kind < 0.75:
        return draw_agent(dice, "bot", below=dice.one(1, 2))
    first, second = (draw_agent(dice, name) for name in ("bot", "helper"))
    if kind < 0.85:
        return Call("Sequence", (first, second))
    if kind < 0.95:
        return Call("Parallel", (first, second))
    return Call("Sequence", (first, Call("Parallel", (second, draw_agent(dice, "writer")))))


def draw_looks(dice: Dice) -> list[object]:
    """How the log is looked at as it grows: by whom, from where, saying what, with which run."""
    looks: list[object] = []
    for _ in range(dice.one(1, 1, 2, 3)):
        options: dict[str, object] = {}
        if dice.maybe(0.5):
            options["agent"] = dice.one(*words.AGENTS)
        if dice.maybe(0.15):
            options["branch"] = dice.one(*words.BRANCHES)
        if dice.maybe(0.12):
            options["message"] = draw_text(dice)
        if dice.maybe(0.1):
            options["state"] = {dice.one(*words.STATE_KEYS): draw_value(dice)}
        if dice.maybe(0.15):
            options["artifacts"] = {"notes.txt": Word(dice.one(*words.LARGE))}
        if dice.maybe(0.15):
            options["brief"] = True
        if dice.maybe(0.3):
            options["config"] = _draw_config(dice)
        looks.append(Call("Look", (), options))
    return looks


def _draw_config(dice: Dice) -> Call:
    options: dict[str, object] = {}
    if dice.maybe(0.7):
        options["model"] = dice.one(*words.MODELS)
    if dice.maybe(0.2):
        options["context"] = draw_policy(dice)
    if dice.maybe(0.1):
        options["on_missing"] = dice.one("keep", "empty", "error")
    if dice.maybe(0.05):
        options["strict"] = True
    if dice.maybe(0.1):
        options["passes"] = [Word(dice.one("drop_first", "drop_tools"))]
    return Call("RunConfig", (), options)


# --- logs


class LogDraft:
    """A log under way: its events, and the calls that are still open."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.events: list[object] = []
        self.open: list[tuple[str, str, str]] = []
        """Calls without a result: the author, the tool, the id."""
        self.turn = 0
        self.clock = 100.0
        self.branch = ""

    def add(
        self, author: str, role: str | None, *parts: object, **more: object
    ) -> dict[str, object]:
        """One more event; what it was made of, to be changed."""
        dice, number = self.dice, len(self.events)
        self.clock += dice.one(1.0, 1.0, 1.0, 0.0, 30.0, -2.0 if dice.maybe(0.05) else 1.0)
        options: dict[str, object] = {"author": author}
        if parts:
            options["content"] = Call("Content", (), {"role": role, "parts": tuple(parts)})
        options |= {
            "invocation_id": f"i{self.turn}" if not dice.maybe(0.03) else "",
            "id": f"e{number}",
            "timestamp": self.clock,
        }
        if self.branch and author != "user":
            options["branch"] = self.branch
        options |= more
        self.events.append(Call("Event", (), options))
        return options


def draw_log(dice: Dice) -> list[object]:
    """The events of a few turns."""
    draft = LogDraft(dice)
    for _ in range(dice.one(1, 1, 2, 2, 3, 4, 6) + (10 if dice.long else 0)):
        _draw_turn(draft)
    if dice.maybe(0.05):
        dice.shuffle(draft.events)
    return draft.events


def _draw_turn(draft: LogDraft) -> None:
    dice = draft.dice
    draft.turn += 0 if dice.maybe(0.05) else 1
    if not dice.maybe(0.05):
        parts: list[object] = [Call("Part", (), {"text": draw_text(dice)})]
        if dice.maybe(0.12):
            parts.append(_draw_media(dice))
        draft.add("user", "user", *parts)
    for _ in range(dice.one(0, 1, 1, 2, 3, 4)):
        kind = dice.choices(_KINDS, _WEIGHTS)[0]
        if dice.maybe(0.06):
            draft.branch = dice.one("", *words.BRANCHES)
        kind(draft)
    if dice.maybe(0.6):
        draft.branch = ""


def _draw_author(dice: Dice) -> str:
    return dice.one("bot", "bot", "bot", "bot", "helper", "writer", "stranger", "")


def _draw_media(dice: Dice) -> object:
    return Word(dice.one(*words.MEDIA))


def say(draft: LogDraft) -> None:
    """Plain words, perhaps stored under a key, or for other agents only."""
    dice = draft.dice
    text = draw_text(dice)
    more: dict[str, object] = {}
    if dice.maybe(0.2):
        more["actions"] = Call("Actions", (), {"state_delta": {dice.one(*words.STATE_KEYS): text}})
    if dice.maybe(0.1):
        more["audience"] = dice.one("internal", "user")
    if dice.maybe(0.03):
        more["finish_reason"] = dice.one("CONTINUATION", "MAX_TOKENS", "STOP")
    if dice.maybe(0.03):
        more["isolation_scope"] = "task1"
    role = "model" if not dice.maybe(0.05) else dice.one("user", None, "system")
    draft.add(_draw_author(dice), role, Call("Part", (), {"text": text}), **more)


def call_tool(draft: LogDraft) -> None:
    """Calls, and mostly their results right after them."""
    dice = draft.dice
    author = _draw_author(dice)
    count = dice.one(1, 1, 1, 1, 2, 3)
    calls: list[object] = []
    made: list[tuple[str, str, str]] = []
    for _ in range(count):
        name = dice.one(*words.CALLED)
        identity = dice.one("same", "", "call.é") if dice.maybe(0.06) else f"c{dice.randrange(999)}"
        calls.append(_draw_call(dice, name, identity))
        made.append((author, name, identity))
    if dice.maybe(0.15):
        calls.insert(0, Call("Part", (), {"text": draw_text(dice)}))
    if dice.maybe(0.15):
        calls.insert(0, _draw_thought(dice))
    more: dict[str, object] = {}
    if dice.maybe(0.08):
        more["long_running_tool_ids"] = tuple(identity for _, _, identity in made)
    if dice.maybe(0.2):
        more["custom_metadata"] = Call("notes", (), _draw_maker(dice))
    draft.add(author, "model", *calls, **more)
    for author, name, identity in made if not dice.maybe(0.05) else dice.sample(made, count):
        if dice.maybe(0.14):
            draft.open.append((author, name, identity))
        elif dice.maybe(0.8):
            _answer(draft, author, name, identity)
    if count > 1 and dice.maybe(0.3):
        draft.open.clear()


def _draw_call(dice: Dice, name: str, identity: str) -> object:
    function: dict[str, object] = {"name": name, "args": draw_object(dice)}
    if identity:
        function["id"] = identity
    if dice.maybe(0.02):
        function = {key: one for key, one in function.items() if not dice.maybe(0.4)}
    options: dict[str, object] = {"function_call": Call("FunctionCall", (), function)}
    if dice.maybe(0.08):
        options["thought_signature"] = "c2lnbmF0dXJl"
    if dice.maybe(0.03):
        options["part_metadata"] = Call("part_notes", (), {"malformed": "{not json"})
    return Call("Part", (), options)


def _draw_thought(dice: Dice) -> object:
    options: dict[str, object] = {"text": draw_text(dice), "thought": True}
    if dice.maybe(0.7):
        options["thought_signature"] = "c2lnbmF0dXJl"
    if dice.maybe(0.5):
        options["part_metadata"] = Call(
            "part_notes", (), {"provider": dice.one(*words.DIALECTS), "fields": {"id": "rs_1"}}
        )
    return Call("Part", (), options)


def _draw_maker(dice: Dice) -> dict[str, object]:
    """Who wrote an answer."""
    dialect = dice.one(*words.DIALECTS)
    return {"provider": dialect, "model": dice.one(*words.MODELS)}


def _answer(draft: LogDraft, author: str, name: str, identity: str) -> None:
    dice = draft.dice
    function: dict[str, object] = {"name": name, "response": draw_object(dice)}
    if identity:
        function["id"] = identity
    if dice.maybe(0.05):
        function["parts"] = [Word(f"builtins({dice.one(*words.MEDIA)})")]
    more: dict[str, object] = {}
    if dice.maybe(0.1):
        delta = {dice.one(*words.STATE_KEYS): draw_value(dice)}
        more["actions"] = Call("Actions", (), {"state_delta": delta})
    if dice.maybe(0.1):
        more["custom_metadata"] = Call("notes", (), {"labels": [dice.one("secret", "card")]})
    part = Call("Part", (), {"function_response": Call("FunctionResponse", (), function)})
    draft.add(author if not dice.maybe(0.05) else "user", "user", part, **more)


def answer_late(draft: LogDraft) -> None:
    """The result of a call that was made long ago."""
    if draft.open:
        _answer(draft, *draft.open.pop(0))
        if draft.dice.maybe(0.1):
            draft.open.append(("bot", "look", "c1"))
    else:
        _answer(draft, "bot", "gone", f"c{draft.dice.randrange(999)}")


def ask_again(draft: LogDraft) -> None:
    """The user says more in the same turn."""
    draft.add("user", "user", Call("Part", (), {"text": draw_text(draft.dice)}))


def think(draft: LogDraft) -> None:
    """A thought, and perhaps words after it."""
    dice = draft.dice
    parts = [_draw_thought(dice)]
    if dice.maybe(0.7):
        parts.append(Call("Part", (), {"text": draw_text(dice)}))
    draft.add(
        _draw_author(dice), "model", *parts, custom_metadata=Call("notes", (), _draw_maker(dice))
    )


def show(draft: LogDraft) -> None:
    """Media, code or something only one provider understands."""
    dice = draft.dice
    part = dice.one(_draw_media(dice), Word(dice.one(*words.OTHER_PARTS)))
    draft.add(dice.one("user", _draw_author(dice)), dice.one("user", "model"), part)


def change_state(draft: LogDraft) -> None:
    """A change of state without words."""
    dice = draft.dice
    delta = {key: draw_value(dice) for key in dice.some(words.STATE_KEYS, 2)}
    draft.add(_draw_author(dice), None, actions=Call("Actions", (), {"state_delta": delta}))


def stream(draft: LogDraft) -> None:
    """A partial event."""
    dice = draft.dice
    part = Call("Part", (), {"text": draw_text(dice)})
    draft.add(_draw_author(dice), "model", part, partial=True)


def sum_up(draft: LogDraft) -> None:
    """A summary of some stretch of the log."""
    dice = draft.dice
    start = dice.one(100.0, draft.clock - dice.randrange(8), 0.0)
    end = dice.one(draft.clock, draft.clock - 1, start + dice.randrange(6))
    content = Call("Content", (), {"parts": (Call("Part", (), {"text": draw_text(dice)}),)})
    compaction = Call("Compaction", (start, end, content))
    draft.add(
        dice.one("user", "bot"), None, actions=Call("Actions", (), {"compaction": compaction})
    )


def rewind(draft: LogDraft) -> None:
    """Take back everything from an invocation on."""
    target = f"i{draft.dice.randrange(draft.turn + 2)}"
    actions = Call("Actions", (), {"rewind_before_invocation_id": target})
    draft.add("user", None, actions=actions)


def hand_over(draft: LogDraft) -> None:
    """A transfer: the call, its result and what the result does."""
    dice = draft.dice
    author, target = dice.one("bot", "helper"), dice.one(*words.AGENTS)
    identity = f"t{dice.randrange(999)}"
    function = {"name": "transfer_to_agent", "args": {"agent_name": target}, "id": identity}
    call = Call("Part", (), {"function_call": Call("FunctionCall", (), function)})
    draft.add(author, "model", call)
    answer = {"name": "transfer_to_agent", "response": {"result": None}, "id": identity}
    part = Call("Part", (), {"function_response": Call("FunctionResponse", (), answer)})
    draft.add(author, "user", part, actions=Call("Actions", (), {"transfer_to_agent": target}))


def note(draft: LogDraft) -> None:
    """What flows and the runtime write on events."""
    dice = draft.dice
    chosen = dice.one(*words.NOTES)
    options = {
        name: Word(one) if isinstance(one, words.Expression) else one
        for name, one in chosen.items()
    }
    if "pieces" in options or "tagged" in options:
        target = f"e{dice.randrange(len(draft.events) + 1)}"
        options = (
            {"pieces": [target]}
            if "pieces" in options
            else {"tagged": Word(f"LaterTags({target!r}, ['a'])")}
        )
    parts = [Call("Part", (), {"text": draw_text(dice)})] if dice.maybe(0.6) else []
    metadata: object = Call("notes", (), options)
    if dice.maybe(0.04):
        metadata = {dice.one(*words.ODD_KEYS): draw_value(dice)}
    info = {"path": dice.one("bot@1", "flow@1/bot@1", "fan@1")}
    draft.add(_draw_author(dice), "model", *parts, custom_metadata=metadata, node_info=info)


def mix(draft: LogDraft) -> None:
    """An event with everything in it, an empty one, or one that failed."""
    dice = draft.dice
    parts: list[object] = [
        dice.one(
            Call("Part", (), {"text": draw_text(dice)}),
            _draw_thought(dice),
            _draw_media(dice),
            _draw_call(dice, "look", f"c{dice.randrange(99)}"),
            Word(dice.one(*words.OTHER_PARTS)),
            Call("result_part", ("look", draw_object(dice)), {"id": f"c{dice.randrange(99)}"}),
            Call("Part"),
        )
        for _ in range(dice.randrange(5))
    ]
    more: dict[str, object] = {}
    if dice.maybe(0.2):
        more = {"error_code": "model_error", "error_message": "it failed"}
    if dice.maybe(0.1):
        more["output_transcription"] = {"text": draw_text(dice)}
    if dice.maybe(0.1):
        field = dice.one("output", "grounding_metadata", "citation_metadata", "cache_metadata")
        more[field] = {"x": draw_value(dice)}
    if dice.maybe(0.1):
        usage = {"prompt_token_count": dice.one(0, 900), "candidates_token_count": 5}
        more["usage"] = Call("Usage", (), usage)
    draft.add(_draw_author(dice), dice.one("model", "user"), *parts, **more)


_CHANCES: tuple[tuple[Callable[[LogDraft], None], float], ...] = (
    (say, 6), (call_tool, 8), (answer_late, 1.5), (ask_again, 1), (think, 1.5), (show, 1.5),
    (change_state, 1), (stream, 1), (sum_up, 1.2), (rewind, 0.5), (hand_over, 1), (note, 2),
    (mix, 1),
)  # fmt: skip
_KINDS = [kind for kind, _ in _CHANCES]
_WEIGHTS = [weight for _, weight in _CHANCES]


def draw_case(seed: int, *, long: bool = False) -> Call:
    """The case of a seed: the same in every process."""
    dice = Dice(seed)
    dice.long = long
    program, looks, events = draw_program(dice), draw_looks(dice), draw_log(dice)
    state = {key: draw_value(dice) for key in dice.some(words.STATE_KEYS)}
    begins = dice.randrange(len(events) + 1) if dice.maybe(0.3) else 0
    return Call(
        "Case",
        (),
        {
            "program": program, "looks": looks, "state": state, "events": events,
            "begins": begins, "way": "snapshots" if dice.maybe(0.3) else "append",
        },
    )  # fmt: skip
