"""Rules on what is sent: undescribed, never sent, too long, ordered against the cache, refused."""

from collections.abc import Iterator
from functools import lru_cache

from weft import schema
from weft.checker.world import WalkRecord
from weft.codes import report
from weft.declare import Agent, Node, RunConfig, template
from weft.declare.compose import Composable
from weft.diagnostics import Diagnostic, Origin, Severity
from weft.errors import BudgetExceeded, UsageError, WeftError
from weft.tokens import counter_for
from weft.values import compact

LONG = 1024
"""Tokens that a provider reuses at least: less is never kept."""

NARROW = 8_000
"""Letters that fit into any model; no window is looked up for fewer."""

EARLY = 0.25
"""How much of a text may stand before its first variable until that is called early."""


def undescribed(record: WalkRecord) -> Iterator[Diagnostic]:
    """A tool, or an agent that a model is to choose, of which nothing is known but its name."""
    for agent in record.agents:
        for child in agent.sub_agents:
            if not child.description.strip():
                yield _undescribed(child, f"`{agent.name}` may hand over to it")
        for tool in agent.tools:
            if isinstance(tool.agent, Composable):
                if not tool.description.strip():
                    yield _undescribed(tool.agent, f"`{agent.name}` may call it")
            elif not tool.documented:
                yield report(
                    "WEFT301",
                    Origin("tool", tool.name, agent.name),
                    "the tool has no description, so the model has only its name to decide by",
                    "give the function a docstring, or @tool(description=...)",
                )


def _undescribed(node: Node, why: str) -> Diagnostic:
    return report(
        "WEFT302",
        Origin("field", "description", node.name),
        f"`{node.name}` has no description, and {why}: the model has only its name to decide by",
        f'say what it is for: description="..."{" or .describe(...)" * isinstance(node, Agent)}',
    )


def unsent_global(record: WalkRecord) -> Iterator[Diagnostic]:
    """A `global_instruction` of an agent that is no root: it is sent to nobody."""
    for root, agents in record.trees:
        for agent in agents:
            if agent is not root and agent.global_instruction is not None:
                yield report(
                    "WEFT103",
                    Origin("field", "global_instruction", agent.name),
                    "only the root's global_instruction is sent",
                    "move it to the root, or into this agent's instruction",
                )


def too_long(record: WalkRecord) -> Iterator[Diagnostic]:
    """Texts and tools that alone take more than their agent's budget or its model allows."""
    tops: dict[str, Agent] = {}
    for root, agents in record.trees:
        for agent in agents:
            tops.setdefault(agent.name, root)
    for agent in record.visited:
        top = tops.get(agent.name, agent)
        limited = agent.policy.limit is not None or agent.token_budget is not None
        letters = sum(len(text) for _, text in sent_parts(agent, top))
        windowed = isinstance(agent.model, str) and letters > NARROW
        # compiling each agent costs: only where a limit may be reached
        if limited or windowed:
            yield from _too_long(agent, top, limited=limited)


def _too_long(agent: Agent, top: Agent, *, limited: bool) -> Iterator[Diagnostic]:
    """The compiler's findings on an empty request: no request of the agent is smaller."""
    from weft.compiler import compile_request
    from weft.compiler.costs import window_of

    if agent.policy.is_conditional:
        return  # what is sent depends on functions of the state, and nothing is run here
    empty = {"instruction": "", "global_instruction": ""}
    texts = {"instruction": agent.instruction, "global_instruction": top.global_instruction}
    provided = {name: "" for name in empty if not isinstance(texts[name], str | None)}
    config = RunConfig(on_missing="empty")
    parts = sent_parts(agent, top)
    counts = [count(agent, text) for _, text in parts]
    place = parts[counts.index(max(counts))][0] if parts else Origin("field", "name", agent.name)
    try:
        compiled = compile_request(
            top, agent=agent.name, message="?", config=config, recorded=provided
        )
        tokens = compiled.tokens
    except BudgetExceeded as error:
        yield report("WEFT506", place, error.message, error.hint)
        return
    except WeftError:
        return  # what else is wrong with it is said elsewhere
    window = window_of(agent.model) if isinstance(agent.model, str) else 0
    if window and tokens > window:
        yield report(
            "WEFT506",
            place,
            f"what is sent in any case takes {tokens} tokens, {max(counts)} of them here, and the"
            f" window of {agent.model} is {window}",
            "shorten this, or take a wider model",
        )


def refused_by_provider(record: WalkRecord) -> Iterator[Diagnostic]:
    """Options, tools, schemas and names of models that a provider answers with an error."""
    from weft.compiler.prefix import refused_declaration

    for agent in record.visited:
        if agent.model is None:  # the model is another's, or chosen for the run
            continue
        if isinstance(agent.model, str) and not _asks_for_more(agent) and _is_taken(agent.model):
            continue
        try:
            refused = refused_declaration(agent)
            yield from (one for one in refused if one.code not in agent.allow)
        except UsageError as error:
            place = Origin("field", "model", agent.name)
            yield report("WEFT706", place, error.message, error.hint, severity=Severity.ERROR)
        except WeftError:  # what cannot be compiled is told by compiling
            continue


def _asks_for_more(agent: Agent) -> bool:
    """Whether an agent's requests hold more than the model, texts and turns."""
    declared = agent.tools or agent.tool_sources or agent.sub_agents or agent.generate_config
    steered = agent.context or agent.context_compressor or agent.passes or agent.examples
    return bool(declared or steered or agent.cleared) or agent.output_schema is not None


@lru_cache(maxsize=256)
def _is_taken(model: str) -> bool:
    """Whether a request for nothing but this model is taken; most agents of a flow share one."""
    from weft.compiler.prefix import refused_declaration

    try:
        return not refused_declaration(Agent("model", model=model))
    except WeftError:
        return False  # the agent itself says what is wrong with it


def volatile_first(record: WalkRecord) -> Iterator[Diagnostic]:
    """A long instruction that begins with what changes, so that nothing of it is reused."""
    for agent in record.visited:
        text = agent.instruction
        if not isinstance(text, str) or len(text) < LONG * 2:
            continue
        variables = template.parse(text).variables
        # enough stands before the first variable
        if not variables or variables[0].start > EARLY * len(text):
            continue
        behind = count(agent, text[variables[0].end :])
        if behind >= LONG:
            yield report(
                "WEFT507",
                Origin("field", "instruction", agent.name, variables[0].start, variables[0].end),
                f"`{{{variables[0].name}}}` stands before {behind} tokens that never change",
                "put what changes last: providers reuse a request up to its first changed byte",
            )


def fixed_parts(agent: Agent) -> list[tuple[Origin, str]]:
    """Each part with its place."""
    fields = (
        ("instruction", agent.instruction),
        ("global_instruction", agent.global_instruction),
        ("description", agent.description),
    )
    parts = [
        (Origin("field", name, agent.name), text)
        for name, text in fields
        if isinstance(text, str) and text
    ]
    for tool in agent.tools:
        text = f"{tool.name} {tool.description} {compact(tool.parameters)}"
        parts.append((Origin("tool", tool.name, agent.name), text))
    return parts


def sent_parts(agent: Agent, root: Agent) -> list[tuple[Origin, str]]:
    """The same, with the root's text for all, the schema, and whom it may hand over to."""
    parts = fixed_parts(agent)
    if agent is not root and isinstance(root.global_instruction, str):
        parts = [one for one in parts if one[0].name != "global_instruction"]
        parts.append((Origin("field", "global_instruction", root.name), root.global_instruction))
    if agent.output_schema is not None:
        shape = schema.of_type(agent.output_schema, where=f"{agent.name}.output_schema")
        parts.append((Origin("field", "output_schema", agent.name), compact(shape)))
    if agent.sub_agents:
        text = " ".join(f"{child.name}: {child.description}" for child in agent.sub_agents)
        parts.append((Origin("field", "sub_agents", agent.name), text))
    return parts


def count(agent: Agent, text: str) -> int:
    """The tokens of a text for the agent's model, or for a usual one."""
    return counter_for(agent.model if isinstance(agent.model, str) else "").count(text)
