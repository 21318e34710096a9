"""Rules on what agents see and are sent.

Values may be shown twice, words seen by nobody, a user heard by nobody. A request may lack a
description, be too long, be ordered against the cache, or be refused. Labels say what must not be
sent: secrets that reach somebody who is not cleared, and misspelt guards.
"""

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from itertools import pairwise

from weft import schema
from weft.checker.agents import (
    route_reads,
    sees_text_of,
    why_writes_unknown,
    writes_of,
)
from weft.checker.rules.variables import acts, names_saved_by
from weft.checker.schemas import follow, kind_of, values_of
from weft.checker.world import Read, Site, WalkRecord
from weft.declare import Agent, Node, Policy, RunConfig, Step, TokenBudget, Tool, template
from weft.declare.agent import labels_in, walk_nodes
from weft.declare.changes import Tag
from weft.declare.compose import Composable
from weft.declare.policy import selectors_in
from weft.declare.policy_parts import (
    Capture,
    FromAgents,
    Matching,
    StateKeys,
    WithoutAgents,
)
from weft.declare.tool import RESERVED
from weft.diagnostics import Diagnostic, Origin, Severity, report
from weft.dialects.facts import dialect_named, facts_for, require_model_name
from weft.dialects.legality import is_model_taken
from weft.errors import BudgetExceeded, UsageError, WeftError, with_article
from weft.late import late_pattern
from weft.misuse import find_near, join_few, suggest_names
from weft.tokens import counter_for
from weft.values import compact


def seen_twice(record: WalkRecord) -> Iterator[Diagnostic]:
    """A value that reaches an agent through two channels, because it asked for both."""
    for agent, site in record.agent_sites():
        if record.survey.captures:
            yield from _captured_twice(agent, site)
        if not agent.policy.duplicates:
            continue
        for speaker, key in site.world.spoken.items():
            read = next((one for one in _whole(site) if one.key == key), None)
            if read is not None and speaker != agent.name and sees_text_of(agent, speaker, key):
                yield report(
                    "WEFT206",
                    read.origin,
                    f"what `{speaker}` said reaches `{agent.name}` twice: {_channel(read)} and in"
                    " the conversation",
                    "leave out keep_duplicates(): what the template carries is then said once",
                )
        in_block = {
            key
            for stage in agent.policy.stages
            if isinstance(stage.selector, StateKeys)
            for key in stage.selector.keys
        }
        for read in _whole(site):
            if read.how == "template" and read.key in in_block and read.key in site.world.facts:
                yield report(
                    "WEFT206",
                    read.origin,
                    f"`{read.key}` reaches `{agent.name}` twice: {_channel(read)} and in the state"
                    " block of its policy",
                    "leave out keep_duplicates(), or one of the two",
                )


def _captured_twice(agent: Agent, site: Site) -> Iterator[Diagnostic]:
    """What the user said, which a key holds: in two keys, or in one and in the conversation."""
    facts = site.world.facts
    reads = [one for one in _whole(site) if (fact := facts.get(one.key)) and fact.is_message]
    for first, read in pairwise(reads):
        if first.key != read.key:
            yield report(
                "WEFT206",
                read.origin,
                f"`{read.key}` reaches `{agent.name}` twice: `{first.key}` holds the user's message"
                " too",
                f"capture it once, and read {{{first.key}}}",
            )
    if reads and agent.policy.duplicates and agent.policy.facts.view != "nothing":
        yield report(
            "WEFT206",
            reads[0].origin,
            f"`{reads[0].key}` reaches `{agent.name}` twice: {_channel(reads[0])} and, as the"
            " user's message, in the conversation",
            "leave out keep_duplicates(): what the template carries is then said once",
        )


def _whole(site: Site) -> Iterator[Read]:
    """The values that the model is shown as a whole."""
    return (r for r in site.reads if not r.path and r.how in ("template", "policy"))


def _channel(read: Read) -> str:
    if read.how == "template":
        return f"in its template as {{{read.key}}}"
    return f"in the state block `{read.key}`"


def lost_output(record: WalkRecord) -> Iterator[Diagnostic]:
    """An agent that nobody hears: it writes no key, and no view shows its words."""
    final = {site.node.name for site in record.sites if site.last}
    for agent, site in record.agent_sites():
        if site.last or agent.output_key is not None:
            continue
        # somebody sees it, or it hands over, or its policy stores what is said
        if agent.name in record.heard or agent.sub_agents or agent.policy.writings:
            continue
        if agent.name in final or why_writes_unknown(agent) or any(True for _ in writes_of(agent)):
            continue
        yield report(
            "WEFT207",
            Origin("field", "name", agent.name),
            f"what `{agent.name}` says reaches nobody: it writes no key to the state, and no agent"
            " after it sees its words in the conversation",
            f'write {agent.name}.writes("key") and read {{key}}, or let the next see it:'
            f' C.user() + C.agents("{agent.name}")',
            severity=Severity.INFO if acts(agent) else None,
        )


def lost_message(record: WalkRecord) -> Iterator[Diagnostic]:
    """An agent that neither sees what the user said nor reads anything that stands for it."""
    decided = {read.key for node, _ in record.routes for read in route_reads(node)}
    for agent, site in record.agent_sites():
        if agent.context is None:
            continue
        if agent.context.facts.view != "nothing":
            continue
        # a function may put the message into the text
        if not isinstance(agent.instruction, str):
            continue
        if any(isinstance(one, Capture) for one in agent.policy.writings):
            continue
        reads = [read for read in site.reads if read.how in ("template", "policy")]
        if any(_is_given(site, read) for read in reads):
            continue
        severity = _weigh_loss(agent, agent.instruction)
        if any(read.key not in decided and not _is_label(site, read) for read in reads):
            severity = Severity.INFO
        elif severity is None:
            continue
        what = " and ".join(f"`{key}`" for key in dict.fromkeys(read.key for read in reads))
        yield report(
            "WEFT208",
            Origin("field", "context", agent.name),
            f"the user's message does not reach `{agent.name}`: C.nothing() leaves the conversation"
            f" out, and {f'it reads only {what}' if what else 'it reads nothing'} from the state",
            "write C.none(), which keeps the message, or read a key that holds the request",
            severity=severity,
        )


_OPEN = late_pattern(
    # what the user said, or something that only the user named
    r"\bthe (?:user|customer|client|input|task|topic|text|problem|request|question|message|query"
    r"|conversation|following|above)\b|\b(?:user|customer)'s|\b(?:it|both|them|asked|asks|help)\b"
    r"|\banswer\s+(?:the|their|questions?|what|any|politely|briefly|kindly)\b"
    # this, where no noun follows
    r"|\b(?:this|these|those)\b(?=\s*(?:[.,;:!?]|$)|\s+(?:in|into|to|as|and|or|by|for|with)\b)",
    re.IGNORECASE,
)
_CLOSED = late_pattern(r"\b(?:an?|one|two|three|four|five|\d+|some|that|with)\b|:\s*\S|[\"“]", re.I)
_ROLE = late_pattern(r"\b(?:you are|you're|act as)\b[^.!?\n]*[.!?]?", re.I)
_FEW_WORDS = 5
_FEWEST_WORDS = 3


def _weigh_loss(agent: Agent, text: str) -> Severity | None:
    """How bad it is that an agent lacks the request; None where its instruction can do without.

    Such a text speaks of nothing that the user named, and says what to write; or a tool says the
    rest. Who the agent is, is not yet something to do.
    """
    pieces = template.parse(text).pieces
    own = "".join(one.text for one in pieces if isinstance(one, template.Literal))
    words = len(re.findall(r"\w+", own))
    if _OPEN.search(own):
        return Severity.WARNING
    if agent.tools or (words >= _FEW_WORDS and _CLOSED.search(_ROLE.sub("", own))):
        return None
    is_task = _ROLE.sub("", own).strip() and words >= _FEWEST_WORDS
    return Severity.INFO if is_task or words > 2 * _FEW_WORDS else Severity.WARNING


def _is_given(site: Site, read: Read) -> bool:
    """Whether the key holds what the user or the application gave, or nobody can know."""
    fact = site.world.facts.get(read.key)
    if fact is None:
        return bool(site.world.opaque) or not read.optional
    return fact.is_message or any(one.kind in ("input", "map", "gate") for one in fact.writers)


def _is_label(site: Site, read: Read) -> bool:
    """Whether the key holds one of a few words, a number or a boolean, which is not a request."""
    fact = site.world.facts.get(read.key)
    shape, _ = follow(fact.schema, read.path) if fact is not None else (None, "")
    return values_of(shape) is not None or kind_of(shape) in ("number", "integer", "boolean")


def unknown_name(record: WalkRecord) -> Iterator[Diagnostic]:
    """A view of agents that are not in the flow, or of a tag that nothing gives."""
    agents = record.survey.members
    names = {agent.name for agent in agents}
    names |= {tool.name for agent in agents for tool in agent.tools if tool.agent is not None}
    tags = set(_tags(record.survey.nodes))
    for agent in agents:
        if agent.context is None:
            continue
        place = Origin("field", "context", agent.name)
        for chosen, only_these in _agents_named(agent.context):
            unknown = [one for one in chosen if one not in names]
            # names that are left out may belong to another flow that shares the policy
            if only_these or names.isdisjoint(chosen) or any(_near(one, names) for one in unknown):
                yield from (_unknown_name(one, names, place) for one in unknown)
        matching = (one for one in selectors_in(agent.context) if isinstance(one, Matching))
        for tag in (tag for one in matching for tag in one.tag):
            if tag not in tags:
                yield report(
                    "WEFT209",
                    place,
                    f"the policy shows what is tagged `{tag}`, and nothing is",
                    f'tag it: ... >> S.tag("{tag}"), or leave it out',
                )


def _unknown_name(name: str, names: set[str], place: Origin) -> Diagnostic:
    known = join_few(names)
    return report(
        "WEFT209",
        place,
        f"the policy names the agent `{name}`, and there is none; there are: {known}",
        suggest_names(name, names) or "name an agent of the flow",
    )


def _near(name: str, names: set[str]) -> bool:
    return bool(find_near(name, names, cutoff=0.75))


def _agents_named(policy: Policy) -> Iterator[tuple[tuple[str, ...], bool]]:
    """The agents that each selector names, without the user, and whether it shows them.

    A policy that leaves agents out may be shared by flows that have some of them each.
    """
    for selector in selectors_in(policy):
        match selector:
            case FromAgents():
                yield selector.names, True
            case WithoutAgents():
                yield selector.names, False
            case Matching() if selector.author:
                others = tuple(one for one in selector.author if one != "user")
                if others:
                    yield others, True
            case _:
                pass


def _tags(nodes: list[tuple[Node, Node | None]]) -> Iterator[str]:
    for node, _ in nodes:
        if isinstance(node, Step) and isinstance(node.change, Tag):
            yield from node.change.names
        elif isinstance(node, Agent):
            for child in node.sub_agents:
                yield from _tags(walk_nodes(child))


# --- what a request is made of

LONG = 1024
"""Tokens that a provider reuses at least: less is never kept."""

NARROW = 8_000
"""Letters that fit into any model; no window is looked up for fewer."""

EARLY = 0.25
"""How much of a text may stand before its first variable until that is called early."""


def undescribed(record: WalkRecord) -> Iterator[Diagnostic]:
    """A tool, or an agent that a model chooses, without a description."""
    for agent in record.survey.agents:
        for child in agent.sub_agents:
            if not child.description.strip():
                yield _report_undescribed(child, f"`{agent.name}` may hand over to it")
        for tool in agent.tools:
            if isinstance(tool.agent, Composable):
                if not tool.description.strip():
                    yield _report_undescribed(tool.agent, f"`{agent.name}` may call it")
            elif not tool.documented:
                yield report(
                    "WEFT301",
                    Origin("tool", tool.name, agent.name),
                    "the tool has no description, so the model has only its name to decide by",
                    "give the function a docstring, or @tool(description=...)",
                )


def missing_function(record: WalkRecord) -> Iterator[Diagnostic]:
    """A tool that code is to call, and that its agent does not have."""
    for agent in record.survey.agents:
        names = [tool.name for tool in agent.tools]
        for tool in agent.tools:
            for name in tool.functions or ():
                # what a toolset answers is known when it is asked
                if name in names or agent.tool_sources:
                    continue
                others = join_few(one for one in names if one != tool.name) or "none"
                yield report(
                    "WEFT304",
                    Origin("tool", tool.name, agent.name),
                    f"its code is to call `{name}`, which is not a tool of `{agent.name}`",
                    suggest_names(name, names) or f"give the agent that tool; it has: {others}",
                )


def _report_undescribed(node: Node, why: str) -> Diagnostic:
    return report(
        "WEFT302",
        Origin("field", "description", node.name),
        f"`{node.name}` has no description, and {why}: the model has only its name to decide by",
        f'say what it is for: description="..."{" or .describe(...)" * isinstance(node, Agent)}',
    )


_NAMED = r"[`'\"*]*(?P<{}>[a-z]\w*_\w+)[`'\"*]*(?:\(\))?"
_BEHIND = (
    r"(?=[.,;:)\n]|\s*$|\s+(?:to|when|whenever|if|for|and|or|once|as|with|on|then|before|after|first"
    r"|again|until|in|at|using|only|from|by|each|every|now|once|yourself|instead|directly|exactly"
    r"|immediately|tool|function)\b)"
)

_CALL = late_pattern(
    # call name(), invoke the name function, use the name tool
    r"(?:\b(?:call|invoke|execute|trigger)\s+(?:the\s+|your\s+)?(?:tool\s+|function\s+)?"
    rf"(?:[`'\"](?P<quoted>[a-z]\w+)[`'\"]|{_NAMED.format('plain')}{_BEHIND}"
    rf"|(?P<word>[a-z]\w+){_BEHIND})"
    rf"|\b(?:use|using|with|run|via)\s+(?:the\s+|your\s+)?{_NAMED.format('named')}\s+(?:tool|function)\b"
    # use name, where that is a tool of the program, as any plain word must be
    rf"|\b(?:use|using|with|via)\s+(?:the\s+)?{_NAMED.format('known')}{_BEHIND})",
    re.IGNORECASE,
)
"""What tells a model to call a tool."""

_NOT = (
    r"(?:\bnot|n't|\bcannot|\bnever|\bwithout|\binstead of|\bno need to|\bavoid|\brather than"
    r"|\bunable to)\b[^.;,]{0,24}$"
)
_DENIED = late_pattern(_NOT, re.IGNORECASE)
_OTHERS = late_pattern(
    rf"{_NOT}"  # do not call it
    r"|(?<!you )(?<!we )\b(?:will|may|can|could|would|should|must|shall)\s+$"  # the critic may
    r"|\b(?:ask|tell|let|have|wait for)\b[^.;,]{0,40}$",
    re.IGNORECASE,
)
"""Before a call: it is not made, or not by the one who reads this."""

_CODE = late_pattern(
    r"\b(?:code|script|program|python|javascript|java|api|class|module|method|snippet|library)\b",
    re.IGNORECASE,
)
"""A text about code names functions that are not tools."""

_EXIT = "exit_loop"
_QUOTES = late_pattern("[`'\"]")


def missing_tool(record: WalkRecord) -> Iterator[Diagnostic]:
    """An agent whose instruction calls for a tool that it does not have."""
    agents = record.survey.agents
    tools = {tool.name for agent in agents for tool in agent.tools}
    others = {one.name for one in (*agents, *(node for node, _ in record.survey.nodes))}
    for agent in agents:
        text = agent.instruction
        # a toolset answers tools that nobody knows before a run
        if not isinstance(text, str) or agent.tool_sources:
            continue
        if not tools and "_" not in text and not _QUOTES.search(text):  # the usual text names none
            continue
        own = {tool.name for tool in agent.tools}
        hosted = any(tool.hosted for tool in agent.tools)  # a provider has names of its own
        missing: dict[str, re.Match[str]] = {}
        for match in _CALL.finditer(text):
            name = next(one for one in match.groups() if one)
            plain = match["known"] or match["word"] or hosted
            if name in own | others or name in RESERVED or (plain and name not in {*tools, _EXIT}):
                continue
            if not _OTHERS.search(text[max(0, match.start() - 80) : match.start()]):
                missing.setdefault(name, match)
        # whoever is meant to end the loop, nobody can
        mention = re.search(_EXIT, text) if _EXIT not in tools else None
        if mention and not _DENIED.search(text[max(0, mention.start() - 80) : mention.start()]):
            missing.setdefault(_EXIT, mention)
        yield from (_missing_tool(agent, name, match) for name, match in missing.items())


def _missing_tool(agent: Agent, name: str, match: re.Match[str]) -> Diagnostic:
    own = [tool.name for tool in agent.tools]
    add = f"give it the tool: tools=[{', '.join((*own, name))}]"
    if name == _EXIT:
        add = f"from weft.tools import {_EXIT}, and {add}"
    return report(
        "WEFT304",
        Origin("field", "instruction", agent.name, match.start(), match.end()),
        f"`{agent.name}` is told to call `{name}`, and has no such tool"
        + (f"; its tools are: {', '.join(own)}" if own else ""),
        suggest_names(name, own) or add,
        severity=Severity.INFO if name != _EXIT and _CODE.search(match.string) else None,
    )


def unsent_global(record: WalkRecord) -> Iterator[Diagnostic]:
    """A `global_instruction` of an agent that is not a root: it is sent to nobody."""
    for root, agents in record.survey.trees:
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
    for root, agents in record.survey.trees:
        for agent in agents:
            tops.setdefault(agent.name, root)
    for agent in record.visited_agents:
        top = tops.get(agent.name, agent)
        limited = agent.policy.limit is not None or isinstance(
            agent.context_compressor, TokenBudget
        )
        letters = sum(len(text) for _, text in sent_parts(agent, top))
        windowed = isinstance(agent.model, str) and letters > NARROW
        # compiling each agent costs: only where a limit may be reached
        if limited or windowed:
            yield from _too_long(agent, top)


def _too_long(agent: Agent, top: Agent) -> Iterator[Diagnostic]:
    """The compiler's findings on an empty request: no request of the agent is smaller."""
    from weft.compiler import compile_request
    from weft.compiler.costs import window_of

    if agent.policy.facts.is_conditional:
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
    for agent in record.visited_agents:
        if agent.model is None:  # the model is another's, or chosen for the run
            continue
        if isinstance(agent.model, str) and not _asks_for_more(agent) and _is_taken(agent.model):
            continue
        from weft.compiler.prefix import refused_declaration  # few agents need the compiler here

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
    """Whether the provider takes a request with nothing but this model; agents often share one."""
    try:
        require_model_name(model, where="model")
    except UsageError:
        return False  # the agent itself says what is wrong with it
    return is_model_taken(dialect_named(facts_for(model).dialect), model)


def volatile_first(record: WalkRecord) -> Iterator[Diagnostic]:
    """A long instruction that begins with what changes, so that nothing of it is reused."""
    for agent in record.visited_agents:
        text = agent.instruction
        if not isinstance(text, str) or len(text) < LONG * 2:
            continue
        variables = template.parse(text).variables
        # enough stands before the first variable
        if not variables or variables[0].start > EARLY * len(text):
            continue
        after = count(agent, text[variables[0].end :])
        if after >= LONG:
            yield report(
                "WEFT507",
                Origin("field", "instruction", agent.name, variables[0].start, variables[0].end),
                f"`{{{variables[0].name}}}` stands before {after} tokens that never change",
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


# --- labels


def secret_reaches_model(record: WalkRecord) -> Iterator[Diagnostic]:
    """A labelled key read by an agent or tool that is not cleared for the label."""
    for agent, site in record.agent_sites():
        for read in site.reads:
            if read.how not in ("template", "policy", "tool"):
                continue
            labels = _labels(record, site, read.key)
            if read.how == "tool":
                tool = next(one for one in agent.tools if one.name == read.origin.name)
                if read.key not in tool.reads:
                    continue  # its own code may look at a secret: it is the model that may not
                barred, who = labels - set(tool.cleared), f"the tool `{tool.name}`"
                fix = "@tool(cleared=[{}])"
            else:
                barred, who = labels - set(agent.cleared), f"`{agent.name}`"
                fix = f'Agent("{agent.name}", cleared=[{{}}])'
            if barred:
                label = sorted(barred)[0]
                yield report(
                    "WEFT608",
                    read.origin,
                    f"`{read.key}` is labelled `{label}`, and {who} is not cleared for it",
                    f"write {fix.format(f'{chr(34)}{label}{chr(34)}')}, or do not read it here",
                )


def secret_may_reach_tool(record: WalkRecord) -> Iterator[Diagnostic]:
    """A cleared agent that could pass a secret to a tool that is not cleared."""
    for agent, site in record.agent_sites():
        labels = {
            label
            for read in site.reads
            if read.how in ("template", "policy")
            for label in _labels(record, site, read.key)
        }
        for tool in agent.tools:
            barred = (labels & set(agent.cleared)) - set(tool.cleared)
            # an agent that is a tool has a clearance of its own
            if barred and tool.agent is None:
                label = sorted(barred)[0]
                yield report(
                    "WEFT608",
                    Origin("tool", tool.name, agent.name),
                    f"`{agent.name}` reads what is labelled `{label}`, and the tool `{tool.name}`"
                    " is not cleared for it: a call that carries it is refused",
                    f'write @tool(cleared=["{label}"]) if it may have it',
                    severity=Severity.INFO,
                )


def withheld_result(record: WalkRecord) -> Iterator[Diagnostic]:
    """A tool whose results carry a label that its own agent is not cleared for."""
    marked: dict[str, set[str]] = {}
    for agent in record.survey.agents:
        for label in labels_in(agent.policy):
            for name in label.tools:
                marked.setdefault(name, set()).add(label.name)
    for agent in record.survey.agents:
        for tool in agent.tools:
            barred = {*tool.labels, *marked.get(tool.name, ())} - {*agent.cleared}
            if not barred:
                continue
            label = sorted(barred)[0]
            yield report(
                "WEFT608",
                Origin("tool", tool.name, agent.name),
                f"what the tool `{tool.name}` returns is labelled `{label}`, and `{agent.name}` is"
                " not cleared for it: its model never sees the result",
                f'write Agent("{agent.name}", cleared=["{label}"]), or give the tool to an agent'
                " that is cleared",
                # one that writes keys may be called for these, by a model that is to see nothing
                severity=Severity.INFO if _is_of_use(record, tool, barred) else None,
            )


def _is_of_use(record: WalkRecord, tool: Tool, labels: set[str]) -> bool:
    """Whether somebody may use a labelled key that a tool writes: a cleared agent, or code."""
    for site in record.sites:
        cleared = not isinstance(site.node, Agent) or labels <= {*site.node.cleared}
        for read in site.reads:
            if read.key in tool.writes and (cleared or read.how not in ("template", "policy")):
                return True
    return False


def label_on_nothing(record: WalkRecord) -> Iterator[Diagnostic]:
    """A label on a key, a tool or an artifact that is called otherwise, or is not there."""
    declared = [(one, label) for one in record.survey.agents for label in labels_in(one.policy)]
    if not declared:
        return
    keys = {*record.everywhere, *record.start.facts}
    keys |= {read.key for site in record.sites for read in site.reads if read.how != "input"}
    tools = {tool.name for agent in record.survey.agents for tool in agent.tools}
    files, all_files = names_saved_by(record.survey.agents)
    all_tools = not any(agent.tool_sources for agent in record.survey.agents)
    declares = bool(record.start.facts)
    opaque = any(site.world.opaque for site in record.sites)
    for agent, label in declared:
        known = (
            any(key in keys for key in label.keys)
            or any(tool in tools for tool in label.tools)
            or any(file in files for file in label.artifacts)
        )
        kinds = (
            ("state key", label.keys, keys, not opaque),
            ("tool", label.tools, tools, all_tools),
            ("artifact", label.artifacts, files, all_files and bool(files)),
        )
        for kind, names, there, complete in kinds:
            for name in names:
                if name in there:
                    continue
                near = _misspelt(name, there)
                if not near and (known or not complete):
                    continue
                yield report(
                    "WEFT620",
                    Origin("field", "context", agent.name),
                    f"the label `{label.name}` is on the {kind} `{name}`, and there is none of"
                    " that name: it guards nothing",
                    f"did you mean `{near}`?"
                    if near
                    else f"name {with_article(kind)} of the program",
                    # where no inputs are declared, the application may put any key into the state
                    severity=None if near or kind != "state key" or declares else Severity.INFO,
                )


def clearance_for_nothing(record: WalkRecord) -> Iterator[Diagnostic]:
    """A clearance for a label that nothing carries, and that is spelled nearly like one."""
    agents = record.survey.agents
    names = {label.name for agent in agents for label in labels_in(agent.policy)}
    names |= {label for agent in agents for tool in agent.tools for label in tool.labels}
    for agent in agents:
        cleared = [(one, Origin("field", "cleared", agent.name)) for one in agent.cleared]
        for tool in agent.tools:
            cleared += [(one, Origin("tool", tool.name, agent.name)) for one in tool.cleared]
        for label, place in cleared:
            near = _misspelt(label, names) if label not in names else ""
            if near:
                yield report(
                    "WEFT621",
                    place,
                    f"the clearance is for `{label}`, and nothing carries that label",
                    f"did you mean `{near}`?",
                )


def _misspelt(name: str, names: Collection[str]) -> str:
    """The name that was likely meant; names that differ in a number are different things."""
    scoped = [one for one in names if one.partition(":")[2] == name]
    bare = name.rstrip("0123456789")
    others = [one for one in names if one.rstrip("0123456789") != bare]
    # two letters exchanged
    swapped = [one for one in others if sorted(one) == sorted(name) and one != name]
    return next(iter((*scoped, *swapped, *find_near(name, others, cutoff=0.75))), "")


def _labels(record: WalkRecord, site: Site, key: str) -> frozenset[str]:
    fact = site.world.facts.get(key)
    declared = record.labels.get(key, frozenset[str]())
    return declared | fact.labels if fact is not None else declared
