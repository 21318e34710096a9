"""Selectors: which items of the conversation a policy lets through."""

import difflib
import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, ClassVar, Literal, ParamSpec, TypeAlias, TypeVar, cast

import msgspec

from weft.declare.functions import StateFunction, name_of
from weft.errors import DeclarationError
from weft.jsonschema import shorten

if TYPE_CHECKING:
    from weft.declare.policy import Policy

Which = Literal["all", "first", "last", "bookend"]

Scorer = Literal["bm25", "embedding", "model"]

NotesFormat = Literal["list", "text", "checklist", "json"]

Kind = Literal["user", "model", "results", "foreign", "summary", "state"]
"""What an item is to an author: the user's words, the agent's, a call with its results, ..."""


class Written(msgspec.Struct, frozen=True):
    """One word of a policy with its options; the first `placed` are written without a name."""

    word: ClassVar[str] = ""
    placed: ClassVar[int] = 0

    def __str__(self) -> str:
        shown: list[str] = []
        names, defaults = self.__struct_fields__, self.__struct_defaults__
        required = len(names) - len(defaults)
        for index, name in enumerate(names):
            value: object = getattr(self, name)
            if index >= required and value == defaults[index - required]:
                continue
            if index < self.placed and isinstance(value, tuple):
                shown += map(_shown, cast("tuple[object, ...]", value))
            elif index < self.placed:
                shown.append(_shown(value))
            else:
                shown.append(f"{name}={_shown(value)}")
        return f"{self.word}({', '.join(shown)})"

    __repr__ = __str__


class Everything(Written, frozen=True):
    """The whole visible log; without `data`, not the words of agents whose output is data."""

    word: ClassVar[str] = "default"
    data: bool = True


class ThisTurn(Written, frozen=True):
    """The current turn: the user's message and the agent's own traffic of this invocation."""

    word: ClassVar[str] = "none"


class Nothing(Written, frozen=True):
    """No conversation at all, not even the user's message."""

    word: ClassVar[str] = "nothing"


class Auto(Written, frozen=True):
    """The whole log, reduced at birth, edited when that pays."""

    word: ClassVar[str] = "auto"


class UserWords(Written, frozen=True):
    """What the user said: all of it, the first, the last, or both ends."""

    word: ClassVar[str] = "user"
    placed: ClassVar[int] = 1
    which: Which = "all"


class Window(Written, frozen=True):
    """The last turns; a turn is a user's message with all that follows it."""

    word: ClassVar[str] = "window"
    placed: ClassVar[int] = 1
    turns: int


def names(word: str, given: object, what: str, *, least: int = 1) -> tuple[str, ...]:
    """Names as a tuple: one, or several."""
    listed = (given,) if isinstance(given, str) else given
    if isinstance(listed, Iterable):
        found = tuple(cast("Iterable[object]", listed))
        if len(found) >= least and all(isinstance(one, str) and one for one in found):
            return cast("tuple[str, ...]", found)
    shown = shorten(repr(given), 60)
    within = cast("tuple[object, ...]", given)[:1] if isinstance(given, tuple) else ()
    one_by_one = " one by one" if within and isinstance(within[0], list | tuple) else ""
    raise DeclarationError(
        f"{shown} is not a list of {what}",
        where=f"C.{word}",
        hint=f'pass {what}{one_by_one}: "name"',
    )


class FromAgents(Written, frozen=True):
    """What these agents said and did."""

    word: ClassVar[str] = "agents"
    placed: ClassVar[int] = 1
    names: tuple[str, ...]


class WithoutAgents(Written, frozen=True):
    """Everything but what these agents said and did."""

    word: ClassVar[str] = "without_agents"
    placed: ClassVar[int] = 1
    names: tuple[str, ...]


class Matching(Written, frozen=True):
    """Items by author, kind and tag; each that is given must fit."""

    word: ClassVar[str] = "select"
    author: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    tag: tuple[str, ...] = ()


class Recent(Written, frozen=True):
    """Items whose worth, which fades with every turn, is still at least `min_score`."""

    word: ClassVar[str] = "recent"
    half_life: float | None = None
    decay: float | None = None
    min_score: float = 0.1


class Relevant(Written, frozen=True):
    """Items that have to do with a query: given, in state, or what the user said last."""

    word: ClassVar[str] = "relevant"
    query: str | None = None
    from_state: str | None = None
    top_k: int | None = None
    scorer: Scorer = "bm25"
    model: object = None


class StateKeys(Written, frozen=True):
    """The values of state keys, as items of their own."""

    word: ClassVar[str] = "state"
    placed: ClassVar[int] = 1
    keys: tuple[str, ...]


class Notes(Written, frozen=True):
    """What was noted under a key."""

    word: ClassVar[str] = "notes"
    placed: ClassVar[int] = 1
    key: str
    format: NotesFormat = "list"


class ArtifactText(Written, frozen=True):
    """The newest text of an artifact."""

    word: ClassVar[str] = "artifact"
    placed: ClassVar[int] = 1
    name: str


class When(Written, frozen=True):
    """What a policy selects, while a predicate of the state holds."""

    word: ClassVar[str] = "when"
    placed: ClassVar[int] = 2
    predicate: StateFunction
    policy: "Policy"


Selector: TypeAlias = (
    Everything
    | ThisTurn
    | Nothing
    | Auto
    | UserWords
    | Window
    | FromAgents
    | WithoutAgents
    | Matching
    | Recent
    | Relevant
    | StateKeys
    | Notes
    | ArtifactText
    | When
)

DedupeHow = Literal["exact", "superseded"]

Keep = Literal["head", "tail", "bookend"]

Stale = Literal["drop", "warn", "compact"]

Strategy = Literal["append", "replace", "merge", "checklist"]

Overflow = Literal["degrade", "drop", "summarize", "error"]

Quality = Literal["completeness", "contradictions", "density"]

Untrusted = Literal["results", "files", "agents"]

Restore = Literal["tools", "answer"]

Scope = Literal["all", "results", "agents"]


class Compact(Written, frozen=True):
    """Large results, texts and media become a handle with a digest of at most `to` tokens.

    `results`, `texts` and `media` are the tokens from which on that is done; None leaves them as
    they are. Media, and what the user and the agent said, wait until their turn is over.
    """

    word: ClassVar[str] = "compact"
    results: int | None = 800
    texts: int | None = 4000
    media: int | None = 2000
    to: int = 300


class Dedupe(Written, frozen=True):
    """The same large value once: an exact copy, or the newest of what superseded each other."""

    word: ClassVar[str] = "dedupe"
    placed: ClassVar[int] = 1
    how: DedupeHow = "exact"


class Project(Written, frozen=True):
    """Only these fields of JSON results, or all but those."""

    word: ClassVar[str] = "project"
    fields: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()


class Truncate(Written, frozen=True):
    """At most so many tokens of each text and result."""

    word: ClassVar[str] = "truncate"
    tokens: int
    keep: Keep = "head"


class Summarize(Written, frozen=True):
    """What lies before the last `before` turns as a summary that a model writes.

    One summary stands for `every` so many turns; None is as many as stay, where those are a few.
    """

    word: ClassVar[str] = "summarize"
    before: int = 5
    every: int | None = None
    scope: Scope = "all"
    schema: object = None
    prompt: str | None = None
    model: object = None


class Priority(Written, frozen=True):
    """Who survives a budget: 1 always, 4 first to go."""

    word: ClassVar[str] = "priority"
    placed: ClassVar[int] = 1
    tier: int


class Fit(Written, frozen=True):
    """So many tokens of these items, the best first, else the newest."""

    word: ClassVar[str] = "fit"
    placed: ClassVar[int] = 1
    tokens: int


class Fresh(Written, frozen=True):
    """Results that are older than so many turns or seconds are stale."""

    word: ClassVar[str] = "fresh"
    turns: int | None = None
    seconds: float | None = None
    stale: Stale = "drop"


class Redact(Written, frozen=True):
    """What detectors, patterns and field names find is replaced in all that is sent."""

    word: ClassVar[str] = "redact"
    placed: ClassVar[int] = 1
    kinds: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    restore: tuple[Restore, ...] = ()


class Validate(Written, frozen=True):
    """What is to be found out about a request before it is sent; `model` looks too, if given."""

    word: ClassVar[str] = "validate"
    placed: ClassVar[int] = 1
    what: tuple[Quality, ...] = ("completeness",)
    model: object = None


class Label(Written, frozen=True):
    """A label on state keys, tools' results and artifacts that only who is cleared may see."""

    word: ClassVar[str] = "label"
    placed: ClassVar[int] = 2
    name: str
    keys: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()


class Fence(Written, frozen=True):
    """Text that nobody vouches for stands between marks that it cannot close."""

    word: ClassVar[str] = "fence"
    placed: ClassVar[int] = 1
    what: tuple[Untrusted, ...] = ("results", "files", "agents")


class Capture(Written, frozen=True):
    """The user's message goes into state."""

    word: ClassVar[str] = "capture"
    placed: ClassVar[int] = 1
    key: str


class NoteDown(Written, frozen=True):
    """The agent's answer is noted under a key."""

    word: ClassVar[str] = "note"
    placed: ClassVar[int] = 1
    key: str
    strategy: Strategy = "append"


class Extract(Written, frozen=True):
    """What a schema asks for is read out of the conversation into state, by a model."""

    word: ClassVar[str] = "extract"
    placed: ClassVar[int] = 2
    schema: object
    key: str
    model: object = None


class Distill(Written, frozen=True):
    """The conversation as single facts with their sources, in state, by a model."""

    word: ClassVar[str] = "distill"
    placed: ClassVar[int] = 1
    key: str
    model: object = None


class Budget(Written, frozen=True):
    """The tokens of the whole request, with a reserve for the answer, and what gives way."""

    word: ClassVar[str] = "budget"
    placed: ClassVar[int] = 1
    tokens: int
    overflow: Overflow = "degrade"
    reserve: int | None = None


Reduction: TypeAlias = Compact | Dedupe | Project | Truncate | Summarize | Priority | Fit | Fresh

Protection: TypeAlias = Redact | Validate | Label | Fence

Writing: TypeAlias = Capture | NoteDown | Extract | Distill

Transform: TypeAlias = Reduction | Protection | Writing

P = ParamSpec("P")

R = TypeVar("R")


def _shown(value: object) -> str:
    if value is None or isinstance(value, str | int | float | bool | Written):
        return repr(value)
    if isinstance(value, dict):
        return repr(cast("dict[object, object]", value))
    if isinstance(value, tuple):
        return "[" + ", ".join(_shown(one) for one in cast("tuple[object, ...]", value)) + "]"
    if callable(value):
        return name_of(value)
    name = cast("object", getattr(value, "name", None))
    return repr(name) if isinstance(name, str) else repr(value)


def hinted(function: Callable[P, R]) -> Callable[P, R]:
    """Refuse an option of `C` that there is none of where it is written, and name the nearest."""
    return _hinted(function, "C")


def hinted_change(function: Callable[P, R]) -> Callable[P, R]:
    """The same for `S`."""
    return _hinted(function, "S")


def _hinted(function: Callable[P, R], letter: str) -> Callable[P, R]:
    signature = inspect.signature(function)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise _misused(
                    f"{letter}.{function.__name__}", signature, list(kwargs), error
                ) from None
            raise

    return checked


def _misused(
    word: str, signature: inspect.Signature, given: list[str], error: TypeError
) -> DeclarationError:
    options = [name for name in signature.parameters if name != "self"]
    wrong = next((name for name in given if name not in options), None)
    takes = f"write {word}({_options(signature)})"
    if wrong is None:
        return DeclarationError(
            f"it is written with too many or too few options: {error}", where=word, hint=takes
        )
    near = [name for name in OPTIONS_ELSEWHERE.get(wrong, ()) if name in options]
    near = near or difflib.get_close_matches(wrong, options, n=1, cutoff=0.5)
    return DeclarationError(
        f"`{wrong}` is not one of its options",
        where=word,
        hint=f"did you mean `{near[0]}`?" if near else takes,
    )


def _options(signature: inspect.Signature) -> str:
    """What is written between the parentheses: names of places, and options with a =."""
    shown: list[str] = []
    for name, option in signature.parameters.items():
        if name == "self":
            continue
        if option.kind is option.VAR_POSITIONAL:
            shown.append(f"*{name.rstrip('_')}")
        elif option.kind is option.VAR_KEYWORD:
            shown.append("key=...")
        elif option.kind is option.KEYWORD_ONLY:
            shown.append(f"{name}=...")
        else:
            shown.append(name)
    return ", ".join(shown)


def no_such_word(letter: str, name: str, words: Iterable[str]) -> AttributeError:
    """The error for a word that there is none of: ours for it, the nearest one, or all."""
    listed = list(words)
    ours = WORDS_ELSEWHERE.get(f"{letter}.{name}")
    near = difflib.get_close_matches(name, listed, n=1, cutoff=0.5)
    if ours is not None:
        return AttributeError(f"there is no `{letter}.{name}`; write {ours}")
    if near:
        return AttributeError(f"there is no `{letter}.{name}`; did you mean `{letter}.{near[0]}`?")
    return AttributeError(f"there is no `{letter}.{name}`; there are: {', '.join(listed)}")


def count(word: str, name: str, value: object, least: int = 1) -> None:
    """Refuse what is no whole number of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise DeclarationError(
            f"{name}={value!r} is not a whole number of at least {least}",
            where=f"C.{word}",
            hint=f"pass {least} or more",
        )


def amount(word: str, name: str, value: object, *, most: float = float("inf")) -> None:
    """Refuse what is no number above 0 and at most `most`."""
    right = isinstance(value, int | float) and not isinstance(value, bool)
    if not right or not 0 < cast("float", value) <= most:
        limit = "" if most == float("inf") else f" and at most {most:g}"
        raise DeclarationError(
            f"{name}={value!r} is not a number above 0{limit}",
            where=f"C.{word}",
            hint=f"pass a number above 0{limit}",
        )


WORDS_ELSEWHERE = {
    "C.all": "C.default()",
    "C.exclude": 'C.without_agents("name")',
    "C.exclude_agents": 'C.without_agents("name")',
    "C.everything": "C.default()",
    "C.from_agents": 'C.agents("name")',
    "C.from_agents_windowed": 'C.agents("name").summarize(before=3)',
    "C.from_state": 'C.state("key")',
    "C.full": "C.default()",
    "C.history": "C.default()",
    "C.last": "C.window(3)",
    "C.last_n_turns": "C.window(3)",
    "C.manus_cascade": "C.default().compact().budget(8000)",
    "C.pipeline_aware": 'C.user() + C.state("key"), or no policy at all: that is the default',
    "C.recall": "C.default().compact(): the model then has a tool of this name",
    "C.rolling": "C.default().summarize(before=5)",
    "C.shared_thread": "C.default()",
    "C.template": 'the text into the instruction: agent.instruct("About {topic}.")',
    "C.trim": "C.window(3), or .truncate(500) for long texts",
    "C.user_only": "C.user()",
    "C.user_strategy": 'C.user("bookend")',
    "C.write_notes": 'C.default().note("key")',
    "S.branch": 'Route("key").eq("value", S.set(x=1)).otherwise(S.set(x=2))',
    "S.filter": 'S.transform("key", lambda items: [one for one in items if one])',
    "S.history": 'S.accumulate("key", into="keys")',
    "S.identity": "nothing there: a flow needs no step that changes nothing",
    "S.map": 'S.transform("key", function), or Map("key", agent, into="results")',
    "S.unflatten": "S.compute(key=function)",
    "S.validate": 'S.guard(predicate, "what is wrong"), or agent @ Schema',
}
"""Policies and changes by the names that others give them."""

METHODS_ELSEWHERE = {
    **dict.fromkeys(
        ("ask", "run", "run_sync", "invoke", "chat", "call", "execute", "kickoff", "generate"),
        'weft.run_sync(agent, "message"), or await weft.run(agent, "message")',
    ),
    **dict.fromkeys(("arun", "ainvoke", "run_async"), 'await weft.run(agent, "message")'),
    **dict.fromkeys(
        ("stream", "astream", "run_stream", "run_live", "iter"), 'weft.stream(agent, "message")'
    ),
    **dict.fromkeys(("copy", "clone", "model_copy"), "dataclasses.replace(agent, model=...)"),
    **dict.fromkeys(("add_tool", "with_tools", "bind_tools"), ".uses(function)"),
    **dict.fromkeys(("compile", "to_prompt"), 'weft.compile(agent, message="...")'),
    "check": "weft.check(agent)",
    "branch": 'agent >> Route("key").eq("value", other)',
    "build": "nothing: it is ready to run as it is",
    "consumes": '.reads("key"), or {key} in the instruction',
    "fallback": "agent // other",
    "loop_until": "agent * until(predicate, max=3)",
    "loop_while": "agent * while_(predicate, max=3)",
    "outputs": '.writes("key")',
    "parallel": "agent | other",
    "proceed_if": "Route().when(predicate, agent).otherwise(other)",
    "produces": '(agent @ Schema).writes("key")',
    "save_as": '.writes("key")',
    "step": "flow >> agent",
    "sub_agent": ".delegates_to(agent)",
    "tap": "agent >> tap(function)",
    "then": "agent >> other",
    "timeout": "timeout(agent, 30)",
    "tool": ".uses(function)",
}
"""What is done with agents and flows, by the names that others give it."""

OPTIONS_ELSEWHERE = {
    "fn": ("how", "function", "field"),
    "function": ("how",),
    "func": ("how", "function"),
    "k": ("top_k",),
    "key_fn": ("field",),
    "last": ("n",),
    "max_age": ("seconds",),
    "max_turns": ("n",),
    "mode": ("how", "which", "keep"),
    "msg": ("message",),
    "pattern": ("patterns",),
    "query_key": ("from_state",),
    "regex": ("patterns",),
    "regexes": ("patterns",),
    "stale_action": ("stale",),
    "step": ("by",),
    "strategy": ("which", "how", "keep", "overflow"),
    "threshold": ("results",),
    "turns": ("n", "before"),
    "type": ("kind",),
    "window": ("before", "n"),
}
"""Options by the names that others give them; of ours the first that a word has is meant."""

_ONE_BY_ONE = "pass the agents one by one, without a name: Sequence(first, second)"

FLOW_WORDS = {
    **dict.fromkeys(
        ("sub_agents", "agents", "steps", "branches", "choices", "nodes", "children"), _ONE_BY_ONE
    ),
    **dict.fromkeys(("max_iterations", "max_rounds", "max_turns", "times", "n"), "max"),
    **dict.fromkeys(("agent", "node", "sub_agent"), "body"),
    **dict.fromkeys(("condition", "predicate", "stop", "done"), "until"),
    **dict.fromkeys(("max_concurrency", "max_workers", "limit"), "concurrency"),
    **dict.fromkeys(("output_key", "output", "results"), "into"),
    **dict.fromkeys(("timeout", "timeout_seconds"), "seconds"),
    **dict.fromkeys(("prompt", "message", "text"), "question"),
    **dict.fromkeys(("options",), "choices"),
}
"""Options of flows by the names that others give them."""

_GENERATE = 'write generate_config={{"{0}": ...}}'

_AT_MODEL = "pass it to a model object of weft.models: model=PROVIDER(NAME, {0}=...)"

_AT_RUN = 'pass it when it runs: weft.run(agent, "message", {0}=...)'

_NAME = 'the name comes first: Agent("name")'

_BEFORE = "write before_model=..., which may answer in the model's place"

_AFTER = "write after_model=..., which may change the answer"

AGENT_WORDS = {
    **dict.fromkeys(
        (
            "instructions", "system_prompt", "system_message", "system_instruction", "system",
            "prompt", "prompt_template", "static_instruction", "preamble", "backstory", "goal",
            "state_modifier", "messages_modifier",
        ),
        "instruction",
    ),
    **dict.fromkeys(
        (
            "llm", "lm", "model_name", "model_id", "chat_model", "language_model", "model_client",
            "chat_client", "llm_config", "client", "engine",
        ),
        "model",
    ),
    **dict.fromkeys(
        (
            "functions", "function", "tool", "toolset", "toolsets", "actions", "skills",
            "builtin_tools", "function_map",
        ),
        "tools",
    ),
    **dict.fromkeys(
        (
            "handoffs", "handoff", "agents", "subagents", "sub_agent", "children", "members",
            "team", "participants",
        ),
        "sub_agents",
    ),
    **dict.fromkeys(
        (
            "output_type", "result_type", "response_model", "response_format", "response_schema",
            "output_model", "output_pydantic", "output_json", "structured_output",
            "structured_output_model", "schema", "returns",
        ),
        "output_schema",
    ),
    **dict.fromkeys(("args_schema", "input_type", "input_model"), "input_schema"),
    **dict.fromkeys(("output", "outputs", "writes", "save_as", "result_key"), "output_key"),
    **dict.fromkeys(
        (
            "generate_content_config", "generation_config", "model_settings", "model_kwargs",
            "model_params", "model_options", "default_options", "config",
        ),
        "generate_config",
    ),
    **dict.fromkeys(("handoff_description", "role", "desc", "summary"), "description"),
    **dict.fromkeys(
        (
            "max_turns", "max_iterations", "max_iter", "max_rounds", "max_loops", "steps",
            "recursion_limit", "tool_call_limit", "max_tool_calls",
        ),
        "max_steps",
    ),
    **dict.fromkeys(
        (
            "history", "memory", "window", "context_window", "context_policy", "policy", "sees",
            "history_processors", "conversation_manager", "num_history_runs", "messages",
            "message_history",
        ),
        "write context=C.window(5), or another policy of C",
    ),
    **{
        f"{when}_{what}_callback": f"{when}_{what}"
        for when in ("before", "after")
        for what in ("agent", "model", "tool")
    },
    "on_model_error_callback": "on_model_error",
    "on_tool_error_callback": "on_tool_error",
    "global_instructions": "global_instruction",
    **dict.fromkeys(("middleware", "guardrails", "input_guardrails"), _BEFORE),
    **dict.fromkeys(("output_guardrails", "output_validator", "result_validator"), _AFTER),
    **dict.fromkeys(
        ("hooks", "callbacks", "callback_handler"),
        "write before_agent=..., after_model=... and so on, or pass Runner(agent, plugins=[...])",
    ),
    **dict.fromkeys(("id", "agent_name", "agent_id", "title", "key"), _NAME),
    **{
        option: _GENERATE.format(option)
        for option in (
            "temperature", "top_p", "top_k", "max_output_tokens", "stop_sequences", "seed",
            "presence_penalty", "frequency_penalty", "logprobs", "thinking", "tool_choice",
            "parallel_tool_calls", "service_tier",
        )
    },
    **dict.fromkeys(("max_tokens", "max_completion_tokens"), _GENERATE.format("max_output_tokens")),
    "stop": _GENERATE.format("stop_sequences"),
    **{option: _AT_MODEL.format(option) for option in ("api_key", "base_url", "headers")},
    **{option: _AT_RUN.format(option) for option in ("state", "session", "plugins", "message")},
    **dict.fromkeys(("store", "session_service", "db"), "write Runner(agent, store=...)"),
    **dict.fromkeys(("stream", "streaming"), 'write weft.stream(agent, "message")'),
    "deps": 'put it into state: weft.run(agent, "message", state={"key": ...})',
}  # fmt: skip
"""Options of an agent by the names that others give them: ours, or what to write."""

AGENT_VERBS = {
    "instruction": 'write agent = agent.instruct("..."), which returns a copy',
    "description": 'write agent = agent.describe("..."), which returns a copy',
    "tools": "write agent = agent.uses(function), which returns a copy with one tool more",
    "sub_agents": "write agent = agent.delegates_to(other), which returns a copy",
    "output_key": 'write agent = agent.writes("key"), which returns a copy',
    "output_schema": "write agent = agent.returns(Schema), which returns a copy",
    "context": "write agent = agent.sees(C.window(5)), which returns a copy",
}
"""How a field of an agent is changed: by a verb that returns a copy."""

RUN_WORDS = {
    **dict.fromkeys(("input", "prompt", "query", "user_prompt", "text", "messages"), "message"),
    **dict.fromkeys(("agent", "flow", "starting_agent"), "pass the agent first, without a name"),
    **dict.fromkeys(
        ("model", "strict", "max_llm_calls", "busy", "budget", "generate_config"),
        "pass it in config=weft.RunConfig(...)",
    ),
    **dict.fromkeys(
        ("temperature", "max_tokens", "max_output_tokens", "model_settings"),
        'pass config=weft.RunConfig(generate_config={"temperature": 0.3})',
    ),
    "stream": 'write weft.stream(agent, "message"), or config=weft.RunConfig(stream=True)',
    "max_turns": "pass config=weft.RunConfig(max_llm_calls=50), or Agent(max_steps=...)",
    "max_steps": "pass config=weft.RunConfig(max_llm_calls=50), or Agent(max_steps=...)",
    "run_config": "config",
    "context": "state",
    "deps": "state",
    "variables": "state",
    "inputs": "state",
    "initial_state": "state",
    "message_history": "session",
    "history": "session",
    "thread_id": "session_id",
    "conversation_id": "session_id",
    "session_service": "store",
    "hooks": "plugins",
    "callbacks": "plugins",
}
"""Options of a run by the names that others give them."""

CONFIG_WORDS = {
    **{
        option: _GENERATE.format(option)
        for option in ("temperature", "top_p", "top_k", "max_output_tokens", "seed", "thinking")
    },
    "max_tokens": _GENERATE.format("max_output_tokens"),
    **dict.fromkeys(
        ("max_turns", "max_calls", "max_iterations", "recursion_limit"), "max_llm_calls"
    ),
    **dict.fromkeys(("generate_content_config", "model_settings"), "generate_config"),
    **dict.fromkeys(("streaming", "streaming_mode"), "stream"),
    "run_budget": "budget",
    "max_steps": 'write Agent("name", max_steps=...)',
}
"""Options of a run's configuration by the names that others give them."""

TOOL_WORDS = {
    **dict.fromkeys(("name_override", "tool_name", "title"), "name"),
    **dict.fromkeys(("description_override", "desc", "doc"), "description"),
    **dict.fromkeys(("max_retries", "retry"), "retries"),
    **dict.fromkeys(("needs_approval", "requires_approval", "require_confirmation"), "confirm"),
    **dict.fromkeys(("is_long_running", "background"), "long_running"),
    **dict.fromkeys(("func", "fn", "callable"), "function"),
    **dict.fromkeys(("args_schema", "input_schema", "schema"), "parameters"),
}
"""Options of a tool by the names that others give them."""
