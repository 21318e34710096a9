"""Hints for wrong calls: what other libraries call a thing, and what it is called here."""

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, ClassVar, ParamSpec, TypeVar

from weft.errors import DeclarationError
from weft.misuse import find_near

P = ParamSpec("P")

R = TypeVar("R")


def explain_policy_calls(function: Callable[P, R]) -> Callable[P, R]:
    """Refuse an unknown option of a word of `C` where it is written, and name the nearest."""
    return _check_call(function, "C")


def explain_change_calls(function: Callable[P, R]) -> Callable[P, R]:
    """The same for `S`."""
    return _check_call(function, "S")


def _check_call(function: Callable[P, R], letter: str) -> Callable[P, R]:
    @wraps(function)
    def call_checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError:
            signature = inspect.signature(function)
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise _explain_misuse(
                    f"{letter}.{function.__name__}", signature, list(kwargs), error
                ) from None
            raise

    return call_checked


def _explain_misuse(
    word: str, signature: inspect.Signature, keywords: list[str], error: TypeError
) -> DeclarationError:
    options = [name for name in signature.parameters if name != "self"]
    wrong = next((name for name in keywords if name not in options), None)
    takes = f"write {word}({_options(signature)})"
    if wrong is None:
        return DeclarationError(
            f"it is written with too many or too few options: {error}", where=word, hint=takes
        )
    near = [name for name in OPTIONS_ELSEWHERE.get(wrong, ()) if name in options]
    near = near or find_near(wrong, options, cutoff=0.5)
    return DeclarationError(
        f"`{wrong}` is not one of its options",
        where=word,
        hint=f"did you mean `{near[0]}`?" if near else takes,
    )


def _options(signature: inspect.Signature) -> str:
    """What is written between the parentheses: names of places, and options with a =."""
    parameters: list[str] = []
    for name, option in signature.parameters.items():
        if name == "self":
            continue
        if option.kind is option.VAR_POSITIONAL:
            parameters.append(f"*{name.rstrip('_')}")
        elif option.kind is option.VAR_KEYWORD:
            parameters.append("key=...")
        elif option.kind is option.KEYWORD_ONLY:
            parameters.append(f"{name}=...")
        else:
            parameters.append(name)
    return ", ".join(parameters)


class OneLetter:
    """The name that all words of one kind begin with, as `C` or `S` does."""

    __slots__ = ()

    _letter: ClassVar[str]

    if not TYPE_CHECKING:  # or else a type checker would take any word

        def __getattr__(self, name: str) -> object:
            if name.startswith("__"):
                raise AttributeError(name)
            words = [word for word in dir(type(self)) if not word.startswith("_")]
            raise no_such_word(self._letter, name, words)

    def __repr__(self) -> str:
        return self._letter


def no_such_word(letter: str, name: str, words: Iterable[str]) -> AttributeError:
    """The error for an unknown word: our word for it, the nearest one, or all words."""
    listed = list(words)
    ours = WORDS_ELSEWHERE.get(f"{letter}.{name}")
    near = find_near(name, listed, cutoff=0.5)
    if ours is not None:
        return AttributeError(f"there is no `{letter}.{name}`; write {ours}")
    if near:
        return AttributeError(f"there is no `{letter}.{name}`; did you mean `{letter}.{near[0]}`?")
    return AttributeError(f"there is no `{letter}.{name}`; there are: {', '.join(listed)}")


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

_FLOW = "a >> b for one after the other, a | b for both at once"
_LOOP_OF_TOOLS = 'Agent("name", tools=[...]): an agent calls its tools until it answers'
_HAND_OVER = 'Agent("name", sub_agents=[other]): it may hand over to them'
_ASKS_PERSON = 'Gate("name", question="...") in a flow, or @tool(confirm=True)'
_STORE = 'Runner(agent, store="sqlite:///weft.db")'
MODEL_BY_NAME = (
    'Agent("name", model="local"): the name of a model is enough, as in model="PROVIDER/NAME"'
)

NAMES_ELSEWHERE = {
    **dict.fromkeys(
        (
            "LlmAgent", "ChatAgent", "Assistant", "ReActAgent", "AssistantAgent", "FunctionAgent",
            "ConversableAgent", "ToolCallingAgent", "ChatCompletionAgent", "ReactAgent",
            "CodeAgent", "Kernel",
        ),
        "Agent",
    ),
    **dict.fromkeys(
        (
            "create_react_agent", "create_agent", "initialize_agent", "AgentExecutor", "ToolNode",
            "create_tool_calling_agent", "tools_condition",
        ),
        _LOOP_OF_TOOLS,
    ),
    **dict.fromkeys(
        ("SequentialAgent", "Pipeline", "SequentialChain", "RunnableSequence"), "Sequence"
    ),
    **dict.fromkeys(("ParallelAgent", "RunnableParallel"), "Parallel"),
    "LoopAgent": "Loop",
    **dict.fromkeys(("BaseAgent", "BaseNode"), "CustomAgent"),
    **dict.fromkeys(("RunnableLambda", "FunctionNode"), "Step"),
    **dict.fromkeys(("RunnableBranch", "Router", "Switch", "Condition"), "Route"),
    **dict.fromkeys(("Send", "MapReduce"), "Map"),
    **dict.fromkeys(
        (
            "Crew", "Workflow", "StateGraph", "MessageGraph", "Graph", "GraphBuilder", "Team",
            "AgentWorkflow", "GroupChat", "RoundRobinGroupChat", "SelectorGroupChat",
        ),
        _FLOW,
    ),
    "Task": 'Agent("name", instruction="...") for each task, and a >> b',
    "Process": f"{_FLOW}; an agent with sub_agents=[...] decides itself",
    **dict.fromkeys(
        ("START", "END"), "nothing there: a flow begins with its first node, and ends with its last"
    ),
    **dict.fromkeys(
        ("MessagesState", "AgentState", "GraphState", "State"),
        'nothing there: a session keeps messages and state; agent.writes("key") stores an answer',
    ),
    **dict.fromkeys(
        ("function_tool", "FunctionTool", "StructuredTool", "BaseTool", "tool_plain"), "tool"
    ),
    "LongRunningFunctionTool": "@tool(long_running=True) above a function",
    "AgentTool": "Agent(..., tools=[other]): an agent is a tool as it is",
    **dict.fromkeys(("Handoff", "handoff", "Swarm", "transfer_to_agent"), _HAND_OVER),
    **dict.fromkeys(
        ("UserProxyAgent", "HumanInput", "HumanInputTool", "interrupt", "UserInput"), _ASKS_PERSON
    ),
    **dict.fromkeys(("InMemoryRunner", "Engine"), "Runner"),
    **dict.fromkeys(
        (
            "InMemorySessionService", "DatabaseSessionService", "SessionService", "MemorySaver",
            "InMemorySaver", "SqliteSaver", "PostgresSaver", "SQLiteSession", "Checkpointer",
        ),
        _STORE,
    ),
    **dict.fromkeys(
        ("PromptTemplate", "ChatPromptTemplate", "SystemMessage", "SystemPrompt"),
        'Agent("name", instruction="About {topic}.")',
    ),
    **dict.fromkeys(("HumanMessage", "UserMessage", "Message"), 'the text alone: run(agent, "Hi")'),
    **dict.fromkeys(
        (
            "LLM", "LiteLlm", "LiteLLM", "GoogleModel", "ChatModel", "init_chat_model", "BaseLlm",
        ),
        MODEL_BY_NAME,
    ),
    **dict.fromkeys(
        ("ModelSettings", "GenerateContentConfig", "GenerationConfig"),
        'Agent("name", generate_config={"temperature": 0.3})',
    ),
    "Command": 'Route("key").eq("value", other) for what comes next; resume(answers={...}) answers',
    "Signature": 'Agent("name", instruction="About {topic}.", output_schema=Schema)',
    "start": 'await Runner(agent).start("message"), or weft.run_sync(agent, "message")',
    **dict.fromkeys(
        ("guardrail", "input_guardrail", "InputGuardrail", "Guardrail"),
        "from weft.plugins import Guardrail, and Runner(agent, plugins=[Guardrail(input=...)])",
    ),
    **dict.fromkeys(
        ("output_guardrail", "OutputGuardrail"),
        "from weft.plugins import Guardrail, and Runner(agent, plugins=[Guardrail(output=...)])",
    ),
    "ModelRetry": 'raise ValueError("what is wrong") in the tool: the model reads it',
    **dict.fromkeys(("UsageLimits", "UsageLimit"), "RunConfig(budget=RunBudget(tokens=10_000))"),
    **dict.fromkeys(("RunContextWrapper", "InvocationContext"), "ToolContext"),
    **dict.fromkeys(
        ("BaseCallbackHandler", "CallbackHandler", "RunHooks", "AgentHooks", "BasePlugin"), "Plugin"
    ),
    **dict.fromkeys(("GoogleSearch", "WebSearchTool", "google_search"), "WebSearch"),
    **dict.fromkeys(("UrlContext", "WebFetchTool"), "WebFetch"),
    **dict.fromkeys(("CodeInterpreter", "CodeExecutionTool"), "CodeExecution"),
    "FileSearchTool": "FileSearch",
    **dict.fromkeys(
        ("TestModel", "FunctionModel", "FakeListLLM"), "from weft.testing import ScriptedModel"
    ),
}  # fmt: skip
"""Classes and functions by the names that others give them: ours, or what to write."""

SUB_MODULES = ("errors", "tools", "testing", "models")
"""Where a name may live that `weft` itself does not have."""

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

_PURE = 'write effect="pure", if it changes nothing'
_AGAIN = 'write effect="idempotent", the default, if the same call twice is the same as once'
_ONCE = 'write effect="unsafe", if it must never be made twice'

CHOICES_ELSEWHERE = {
    "effect.safe": f"{_PURE}; {_AGAIN.removeprefix('write ')}",
    **dict.fromkeys(
        (
            "effect.read", "effect.readonly", "effect.read_only", "effect.none", "effect.no",
            "effect.nothing", "effect.false", "effect.query", "effect.get", "effect.stateless",
        ),
        _PURE,
    ),
    **dict.fromkeys(
        (
            "effect.retry", "effect.retryable", "effect.repeatable", "effect.safe_to_retry",
            "effect.at_least_once", "effect.put",
        ),
        _AGAIN,
    ),
    **dict.fromkeys(
        (
            "effect.write", "effect.writes", "effect.true", "effect.mutating", "effect.mutation",
            "effect.dangerous", "effect.destructive", "effect.side_effect", "effect.side_effects",
            "effect.post",
            "effect.exactly_once", "effect.at_most_once", "effect.once", "effect.external",
        ),
        _ONCE,
    ),
    **dict.fromkeys(
        ("effect.atomic", "effect.db", "effect.database"),
        'write effect="transactional", if it writes through ctx.connection',
    ),
}  # fmt: skip
"""Values of options by the words that others have for them."""

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

_IN_AGENT = 'write Agent("name", {0}=...): it belongs to an agent'

_AGENT_ONLY = ("model", "instruction", "tools", "output_key", "output_schema", "generate_config")

VERB_WORDS = {option: _IN_AGENT.format(option) for option in (*_AGENT_ONLY, "max_steps", "context")}
"""Options of an agent that are given to one of its verbs, or to a function that takes an agent."""

FLOW_WORDS = {
    **VERB_WORDS,
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
            "conversation_manager", "num_history_runs", "messages",
            "message_history",
        ),
        "write context=C.window(5), or another policy of C",
    ),
    **dict.fromkeys(
        ("request_processors", "history_processors", "processors", "transforms"), "passes"
    ),
    **dict.fromkeys(("few_shot", "few_shots", "few_shot_examples", "example_store"), "examples"),
    **dict.fromkeys(("response_processors",), _AFTER),
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
    **dict.fromkeys(("deps", "dependencies"), _AT_RUN.format("deps")),
    **{
        option: f"pass config=weft.RunConfig({option}=...) to the run"
        for option in ("max_llm_calls", "budget", "busy")
    },
    "timeout": "write timeout(agent, 30)",
    **dict.fromkeys(("until", "max"), "write agent * until(predicate, max=3)"),
    **{
        option: f"write it with the tool: @tool({option}=...)"
        for option in ("effect", "confirm", "probe")
    },
    **dict.fromkeys(("context_type", "deps_types", "dependency_type"), "deps_type"),
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
        (
            "model",
            "strict",
            "max_llm_calls",
            "busy",
            "unfinished",
            "queue_timeout",
            "budget",
            "generate_config",
            "passes",
            "global_instruction",
        ),
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
    **dict.fromkeys(("dependencies", "dependency"), "deps"),
    "variables": "state",
    "inputs": "state",
    "initial_state": "state",
    "message_history": "session",
    "history": "session",
    **dict.fromkeys(("idempotency_key", "message_id"), "request_id"),
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
    **dict.fromkeys(("request_processors", "history_processors", "processors"), "passes"),
    **dict.fromkeys(("instruction", "instructions", "system_prompt"), "global_instruction"),
    "max_steps": 'write Agent("name", max_steps=...)',
}
"""Options of a run's configuration by the names that others give them."""

TOOL_WORDS = {
    **{option: _IN_AGENT.format(option) for option in ("model", "instruction", "max_steps")},
    "pure": _PURE,
    "idempotent": _AGAIN,
    "unsafe": _ONCE,
    "safe": CHOICES_ELSEWHERE["effect.safe"],
    **dict.fromkeys(("read_only", "readonly"), _PURE),
    **dict.fromkeys(("name_override", "tool_name", "title"), "name"),
    **dict.fromkeys(("description_override", "desc", "doc"), "description"),
    **dict.fromkeys(("max_retries", "retry"), "retries"),
    **dict.fromkeys(("needs_approval", "requires_approval", "require_confirmation"), "confirm"),
    **dict.fromkeys(("is_long_running", "background"), "long_running"),
    **dict.fromkeys(("func", "fn", "callable"), "function"),
    **dict.fromkeys(("args_schema", "input_schema", "schema"), "parameters"),
    **dict.fromkeys(("process_request", "process_llm_request", "prepare_request"), "prepare"),
}
"""Options of a tool by the names that others give them."""
