"""Rules on what is sent: too long, ordered against the cache, or refused by the provider."""

from collections.abc import Iterator

from weft.checker.fixed import count, fixed_parts
from weft.checker.sites import Record
from weft.codes import report
from weft.declare import Agent, template
from weft.diagnostics import Diagnostic, Origin, Severity
from weft.errors import UsageError, WeftError

LONG = 1024
"""Tokens that a provider reuses at least: less is never kept."""
NARROW = 8_000
"""Letters that fit into any model; no window is looked up for fewer."""
EARLY = 0.25
"""How much of a text may stand before its first variable until that is called early."""


def too_long(record: Record) -> Iterator[Diagnostic]:
    """Texts and tools that alone take more than their agent's budget or its model allows."""
    for agent in _agents(record):
        limits = [
            ("the budget", agent.policy.limit.tokens if agent.policy.limit is not None else 0),
            (
                "the token budget",
                agent.context_compressor.token_budget if agent.context_compressor else 0,
            ),
        ]
        parts = fixed_parts(agent)
        letters = sum(len(text) for _, text in parts)
        if isinstance(agent.model, str) and letters > NARROW:
            from weft.compiler.prices import window_of

            limits.append((f"the window of {agent.model}", window_of(agent.model)))
        for words, limit in limits:
            if not limit or letters < limit:
                continue
            counts = [count(agent, text) for _, text in parts]
            total = sum(counts)
            if total > limit:
                place, _ = parts[counts.index(max(counts))]
                yield report(
                    "WEFT506",
                    place,
                    f"what is sent in any case takes {total} tokens, {max(counts)} of them here,"
                    f" and {words} is {limit}",
                    "shorten this, or take a wider model"
                    if words.startswith("the window")
                    else f"raise it to at least {total * 2}, or shorten this",
                )


def refused_by_provider(record: Record) -> Iterator[Diagnostic]:
    """Options, tools, schemas and names of models that a provider answers with an error."""
    from weft.compiler.refused import refused_declaration

    for agent in _agents(record):
        if agent.model is None:  # the model is another's, or chosen for the run
            continue
        try:
            found = refused_declaration(agent)
            yield from (one for one in found if one.code not in agent.allow)
        except UsageError as error:
            place = Origin("field", "model", agent.name)
            yield report("WEFT706", place, error.message, error.hint, severity=Severity.ERROR)
        except WeftError:  # what cannot be compiled is told by compiling
            continue


def volatile_first(record: Record) -> Iterator[Diagnostic]:
    """A long instruction that begins with what changes, so that nothing of it is reused."""
    for agent in _agents(record):
        text = agent.instruction
        if not isinstance(text, str) or len(text) < LONG * 2:
            continue
        variables = template.parse(text).variables
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


def _agents(record: Record) -> Iterator[Agent]:
    seen: set[str] = set()
    for site in record.sites:
        if isinstance(site.node, Agent) and site.node.name not in seen:
            seen.add(site.node.name)
            yield site.node
