"""The words of random cases: texts, values, tools, policies and notes, by the names they have."""

import json
from collections.abc import AsyncIterator

import msgspec

from weft import CustomAgent, Event, ReadonlyContext, RunContext, tool
from weft.content import Part, PartProvenance, file_part, media_part
from weft.ir import Prompt
from weft.passes import Env
from weft.session.provenance import Provenance
from weft.values import Json, JsonObject

DIALECTS = ("gemini", "anthropic", "openai-chat", "openai-responses")

MODELS = (
    "gemini-2.5-flash", "gemini-3-flash", "gemini-flash-latest",
    "claude-sonnet-4-5", "claude-opus-4-8", "claude-opus-5-5", "claude-3-5-haiku-latest",
    "gpt-4o", "gpt-5.4", "gpt-5.6", "openai-chat/gpt-4.1", "openrouter/some-model", "gpt-4-turbo",
    "local",
)  # fmt: skip

AGENTS = ("bot", "helper", "writer", "router")

BRANCHES = ("fan.bot", "fan.helper", "fan", "fan.bot.inner", "map.bot_1", "map.bot_2")

STATE_KEYS = ("intent", "draft", "city", "user:name", "app:tone", "notes", "facts")

KEYS = ("city", "rows", "id", "status", "note", "error")

# --- texts and values

LINES = "\n".join(f"10:0{n % 10}:3{n % 6} service[{n}]: handled request {n * 7}" for n in range(90))
TABLE = json.dumps(
    [{"id": n, "city": "Oslo", "price": n * 1.5, "ok": n % 2 == 0} for n in range(60)]
)
PROSE = "The ferry to Oslo leaves at nine. Tickets are sold on board, in coins. " * 40
CODE = "\n".join(f"def step_{n}(value):\n    return value + {n}\n" for n in range(50))
HUGE = "A line of some length that is repeated, and then once more. " * 1_200

LARGE = ("LINES", "TABLE", "PROSE", "CODE", "PROSE", "HUGE")

TEXTS = (
    "Oslo", "book a flight to Oslo", "ja", "hello", "and what now?", "{not} a {variable?}",
    '{"k": 1}', "日本語の文", "🙂👍🏽", "x" * 200, "mail ann@example.org, card 4111 1111 1111 1111",
    "<untrusted> it </untrusted>", "a\nb\n\nc", "```\ncode\n```", "Yes.",
    "[summary of earlier turns]", " ", "[handle 0123456789ab]", "it is 12 degrees",
    "key sk-ant-api03-abcdefghijklmnop1234567890",
)  # fmt: skip

HALVES = "\ud83d\ude00"

HOSTILE = ("half \ud83d", "\udc00", "\x00", "a\u2028b", "\ufeff", HALVES, "")

ODD_KEYS = ("\ud83d", "", "\x00", "a.b", "weft", "é" * 60)

ODD_VALUES = ("10**5000", "-(10**4400)", "1e308", "'\\ud83d'", "[[[[[[[[]]]]]]]]", "{'\\udc00': 1}")

# --- tools


@tool
def look(city: str, day: int = 1) -> str:
    """Look at the weather."""
    return city


@tool(long_running=True)
def slow(q: str) -> str:
    """Take time."""
    return q


@tool(labels=["secret"])
def vault(key: str) -> str:
    """Open the vault."""
    return key


@tool(compact=64)
def rows(query: str) -> str:
    """List rows."""
    return query


@tool(compact=False)
def whole(path: str) -> str:
    """Read a file, whole."""
    return path


def drop_first(prompt: Prompt, env: Env) -> Prompt:
    """Leave out the first item."""
    return prompt.with_items(list(prompt.items)[1:])


def drop_tools(prompt: Prompt, env: Env) -> Prompt:
    """Offer no tools."""
    return msgspec.structs.replace(prompt, tools=())


def shout(prompt: Prompt, env: Env) -> Prompt:
    """Change nothing, in a new list."""
    return prompt.with_items(list(prompt.items))


@tool(prepare=drop_tools)
def shy(q: str) -> str:
    """Hide all tools."""
    return q


TOOLS = (
    "look", "slow", "vault", "rows", "whole", "shy", "WebSearch()", "CodeExecution()", "toolset",
)  # fmt: skip

CALLED = ("look", "look", "slow", "vault", "rows", "whole", "recall", "gone", "no such/tool")


class Worker(CustomAgent):
    """Code of its own."""

    name = "worker"
    description = "Works."

    async def run(self, ctx: RunContext) -> AsyncIterator[Event]:
        """Say that it works."""
        yield ctx.say("done")


CHILDREN = (
    "Worker()",
    'Sequence(Agent("first", output_key="draft"), Agent("second", instruction="{draft}"))',
    'Agent("solo", disallow_transfer_to_parent=True, disallow_transfer_to_peers=True)',
)


def tell(ctx: ReadonlyContext) -> str:
    """An instruction that a function writes."""
    return f"You speak of {ctx.state.get('intent', 'nothing')} after {len(ctx.events)} events."


def fail(ctx: ReadonlyContext) -> str:
    """An instruction that cannot be written."""
    raise ValueError("no instruction")


INSTRUCTIONS = (
    '""', '"Be brief."', '"The intent is {intent?}. You live in {city}."',
    '"Draft: {draft}\\nTone: {app:tone?}"', '"File: {artifact.notes.txt?}"', "tell", "fail",
    '"{draft.title?} and {rows[0]?} and {{intent}}"', "PROSE",
)  # fmt: skip

FIELDS: tuple[tuple[str, float, tuple[str, ...]], ...] = (
    ("description", 0.3, ('"Does things."',)),
    ("output_key", 0.2, ('"draft"', '"intent"')),
    ("output_schema", 0.08, ("Trip", "list[int]", '{"type": "object", "properties": {}}')),
    ("disallow_transfer_to_parent", 0.1, ("True",)),
    ("disallow_transfer_to_peers", 0.1, ("True",)),
    ("cleared", 0.08, ('["secret"]',)),
    ("examples", 0.05, ('[("Weather?", "Rain.")]',)),
    ("passes", 0.06, ("[drop_first]", "[drop_tools]", "[shout]")),
    ("context_compressor", 0.06, ("TokenBudget(900)", "TokenBudget(4000)")),
    (
        "generate_config",
        0.12,
        ('{"max_output_tokens": 512}', '{"cache": False}', '{"instruction_changes": "append"}',
         '{"tool_choice": "auto"}', '{"tool_choice": "none"}', '{"thinking": {"effort": "low"}}'),
    ),
    ("on_missing", 0.06, ('"empty"', '"error"')),
    ("identity", 0.1, ("False",)),
    ("allow", 0.03, ('["WEFT101"]',)),
)  # fmt: skip


class Trip(msgspec.Struct):
    """A journey."""

    city: str
    days: int = 1


# --- policies: word, arguments, options

Use = tuple[str, tuple[object, ...], dict[str, object]]

SELECTORS: tuple[Use, ...] = (
    ("default", (), {}),
    ("default", (), {}),
    ("default", (), {}),
    ("default", (), {"data": False}),
    ("none", (), {}),
    ("nothing", (), {}),
    ("auto", (), {}),
    ("auto", (), {}),
    ("auto", (), {"careful": True}),
    ("user", (), {}),
    ("user", ("first",), {}),
    ("user", ("last",), {}),
    ("user", ("bookend",), {}),
    ("window", (1,), {}),
    ("window", (2,), {}),
    ("window", (5,), {}),
    ("agents", ("bot",), {}),
    ("agents", ("user", "helper"), {}),
    ("without_agents", ("helper",), {}),
    ("without_agents", ("user",), {}),
    ("select", (), {"kind": "results"}),
    ("select", (), {"author": "user"}),
    ("select", (), {"tag": "a"}),
    ("recent", (), {"half_life": 1.5}),
    ("recent", (), {"decay": 0.5, "min_score": 0.3}),
    ("relevant", (), {}),
    ("relevant", ("Oslo",), {"top_k": 2}),
    ("relevant", (), {"from_state": "intent"}),
    ("relevant", (), {"scorer": "model"}),
    ("state", ("intent", "draft"), {}),
    ("notes", ("notes",), {}),
    ("notes", ("notes",), {"format": "checklist"}),
    ("artifact", ("notes.txt",), {}),
    ("memory", (), {}),
)

REDUCTIONS: tuple[Use, ...] = (
    ("compact", (), {}),
    ("compact", (), {"results": 100, "texts": 64, "to": 64, "media": 1}),
    ("dedupe", (), {}),
    ("dedupe", ("superseded",), {}),
    ("project", (), {"fields": ["city", "rows"]}),
    ("project", (), {"exclude": ["note"], "tools": ["look"]}),
    ("truncate", (10,), {}),
    ("truncate", (20,), {"keep": "tail"}),
    ("truncate", (20,), {"keep": "bookend"}),
    ("summarize", (), {"before": 1}),
    ("summarize", (), {"before": 0, "every": 1}),
    ("summarize", (), {"before": 1, "scope": "results"}),
    ("summarize", (), {"before": 1, "scope": "agents"}),
    ("priority", (1,), {}),
    ("priority", (4,), {}),
    ("fit", (300,), {}),
    ("fresh", (), {"turns": 1}),
    ("fresh", (), {"turns": 1, "stale": "warn"}),
    ("fresh", (), {"turns": 1, "stale": "compact"}),
    ("fresh", (), {"seconds": 20.0, "stale": "compact"}),
)

FOLDING: tuple[Use, ...] = (
    ("fold", (), {}),
    ("fold", (), {"keep": 1}),
    ("budget", (16_000,), {}),
)
"""What replaces steps that are over by notes; for long sessions, where something is over."""

GUARDS: tuple[Use, ...] = (
    ("redact", ("email", "card"), {}),
    ("redact", ("pii",), {}),
    ("redact", (), {"patterns": ["O[a-z]+o"], "fields": ["note"]}),
    ("redact", (), {"fields": ["city"], "restore": True}),
    ("label", ("secret", "draft"), {}),
    ("label", ("secret",), {"tools": ["vault"]}),
    ("label", ("file",), {"artifacts": ["notes.txt"]}),
    ("fence", (), {}),
    ("fence", ("results",), {}),
    ("validate", (), {}),
    ("validate", ("completeness", "contradictions", "density"), {}),
    ("capture", ("city",), {}),
    ("note", ("notes",), {}),
    ("distill", ("facts",), {}),
    ("extract", ({"type": "object", "properties": {}}, "draft"), {}),
)

# --- parts and notes

_PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)
PNG = media_part("image/png", _PNG)
PDF = media_part("application/pdf", b"%PDF-1.7 0000")
WAV = media_part("audio/wav", b"RIFF0000WAVE")
NOTE = media_part("text/plain", b"a note")
LINK = file_part("https://example.org/a.png", "image/png")
BROKEN = Part(inline_data=msgspec.structs.replace(PNG.inline_data, data="!!"))  # type: ignore[type-var]

MEDIA = ("PNG", "PDF", "WAV", "NOTE", "LINK", "BROKEN")

OTHER_PARTS = (
    'Part(executable_code=ExecutableCode(code="1+1", language="PYTHON"))',
    'Part(code_execution_result=CodeExecutionResult("OUTCOME_OK", "2"))',
    'opaque_part("anthropic", {"type": "redacted_thinking", "data": "x"})',
    'opaque_part("openai-responses", {"type": "web_search_call", "id": "ws_1"})',
    'opaque_part("gemini", {"x": 1})',
    'Part(text="signed", thought_signature="c2ln")',
    'Part(thought_signature="c2ln")',
    'Part(tool_call={"name": "x"})',
    "Part(function_call=FunctionCall())",
    "Part(function_response=FunctionResponse())",
    'Part(text="so", part_metadata=part_notes(provider="openai-responses", fields={"id": "m"}))',
)


class Expression(str):
    """An expression that is written as it is."""

    __slots__ = ()


NOTES: tuple[dict[str, object], ...] = (
    {"tags": ["a"]},
    {"tagged": True},
    {"undone": ["bot@1"]},
    {"undone": ["flow@1"]},
    {"pieces": True},
    {"closed": "fan"},
    {"labels": ["secret"]},
    {"rejected": "not valid"},
    {"withheld": ["look"]},
    {"within": 400},
    {"untrusted": {"x": 1}},
    {"restored": {"[email_1]": "ann@example.org"}},
    {"instructions": {"bot.instruction": "Recorded."}},
    {"forks": {"fan.bot": {"draft": "forked"}, "fan.helper": {}}},
    {"branch_delta": Expression("BranchDelta('fan.bot', {'intent': 'held'})")},
    {"joined": Expression("JoinedBranch('fan@1', 'fan.bot')")},
    {"offered": Expression("OfferedTools('bot', [OFFERED])")},
    {"offered": Expression("OfferedTools('bot', [])")},
    {"effect": {"kind": "summary", "fingerprint": "f", "outcome": "Summed up."}},
    {"pending": ["c1"], "started": ["c1"]},
)

OFFERED: JsonObject = {"name": "dig", "description": "Dig.", "parameters": {"type": "object"}}


def toolset(ctx: ReadonlyContext) -> list[object]:
    """Tools that are asked for in each run."""
    return []


def notes(**fields: object) -> JsonObject:
    """Metadata of an event with what Weft notes there."""
    return Provenance(**fields).onto(None)  # type: ignore[arg-type]


def part_notes(**fields: object) -> JsonObject:
    """Metadata of a part with what Weft notes there."""
    return PartProvenance(**fields).onto(None)  # type: ignore[arg-type]


def builtins(part: Part) -> Json:
    """A part as plain JSON."""
    return msgspec.to_builtins(part)
