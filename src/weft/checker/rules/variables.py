"""Rules on state: keys that are read but not written on every path, and keys nobody reads.

Artifacts are read by name too: what is read must be saved somewhere.
"""

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple, cast

from weft.checker.agents import functions_in, uses_of_tool
from weft.checker.functions import keys_of
from weft.checker.paths import paths_without
from weft.checker.rules.placeholders import lookalike_keys
from weft.checker.schemas import follow, kind_of, missing_field, spell_kind
from weft.checker.sources import cache_by_function, open_source, text_of
from weft.checker.world import Fact, Read, Removal, Site, WalkRecord, World, Writer
from weft.declare import Agent, Map, Parallel, Sequence, Step, Tool, template
from weft.declare.agent import agents_of
from weft.declare.changes import Drop
from weft.declare.checks import CALLBACKS
from weft.declare.policy import selectors_in
from weft.declare.policy_parts import ArtifactText
from weft.declare.template import spell_path
from weft.diagnostics import Diagnostic, Origin, Severity, report
from weft.misuse import find_near, is_slip, join_few, suggest_names
from weft.session.event import scope_of


def read_of_nothing(record: WalkRecord) -> Iterator[Diagnostic]:
    """Every read that finds nothing, finds it on some paths only, or looks for another shape."""
    for site in record.sites:
        for read in site.reads:
            if read.how in ("tool", "callback") or (read.how == "policy" and read.optional):
                yield from _any_turn(record, site, read)
            else:
                yield from _check_read(record, site, read)


def _check_read(record: WalkRecord, site: Site, read: Read) -> Iterator[Diagnostic]:
    world = site.world
    fact = world.facts.get(read.key)
    if fact is None:
        yield from _missing(site, read)
        return
    writers = _format_writers(fact.writers)
    sure = fact.must or fact.soft or read.guarded or read.optional
    if not sure and not world.opaque:
        if read.key in site.siblings:
            yield _report_sibling(site, read)
        lacking = paths_without(record.survey.root, site.node, read.key)
        yield report(
            "WEFT106",
            read.origin,
            f"{_what(read)} is written on some paths only, by {writers}"
            + (f"; not {' or '.join(lacking)}" if lacking else ""),
            f"write it on every path, set it first, or write {{{read.key}?}}"
            if read.how == "template"
            else "write it on every path, or set it first",
        )
    if read.path and not _is_letter(fact, read):
        _, problem = follow(fact.schema, read.path)
        if problem:
            yield report(
                "WEFT109",
                read.origin,
                f"{_what(read)} does not fit what {writers} writes: {problem}",
                suggest_names(*missing_field(fact.schema, read.path))
                or "read a field that is there, or give the writer an output_schema that has it",
            )


def _is_letter(fact: Fact, read: Read) -> bool:
    """Whether code takes a letter of a text, as `state["name"][0]` does; a template cannot."""
    *before, last = read.path
    if read.how not in ("step", "predicate") or not isinstance(last, int):
        return False
    return kind_of(follow(fact.schema, before)[0]) == "string"


def misspelt_read(record: WalkRecord) -> Iterator[Diagnostic]:
    """A key that one place reads where code may write any: it is near one that others use.

    Behind such code nothing can be said of what is missing. A slip of the finger shows all the
    same: nobody else knows the key, and it is one letter away from a key that is known.
    """
    if not any(site.world.opaque for site in record.sites):
        return
    places: dict[str, set[Origin]] = {}
    for site in record.sites:
        for read in site.reads:
            places.setdefault(read.key, set()).add(read.origin)
    known = {*record.everywhere, *(key for key, where in places.items() if len(where) > 1)}
    for site in record.sites:
        for read in site.reads:
            unsure = read.how != "template" or read.optional or not site.world.opaque
            if unsure or read.key in known or read.key in site.world.facts:
                continue
            near = sorted(key for key in known if is_slip(read.key, key))
            if near:
                yield report(
                    "WEFT105",
                    read.origin,
                    f"{_reads(read)}, and nobody who can be seen writes that; it is near"
                    f" `{near[0]}`, which is known",
                    f"did you mean `{near[0]}`?",
                    severity=Severity.WARNING,
                )


def misspelt_drop(record: WalkRecord) -> Iterator[Diagnostic]:
    """A key that `S.drop` takes away and nobody writes, one letter away from one that is there."""
    for site in record.sites:
        step, facts = site.node, site.world.facts
        if not isinstance(step, Step) or not isinstance(step.change, Drop):
            continue
        for key in step.change.keys:
            near = sorted(one for one in facts if is_slip(key, one))
            if near and key not in facts and key not in record.everywhere:
                yield report(
                    "WEFT105",
                    Origin("field", "function", step.name),
                    f"`{key}` is taken away here, and nobody writes that; `{near[0]}` stays",
                    f"did you mean `{near[0]}`?",
                    severity=Severity.WARNING,
                )


def _missing(site: Site, read: Read) -> Iterator[Diagnostic]:
    world = site.world
    gone = world.gone.get(read.key)
    # who took it away is more to the point than that it is not there
    if gone is not None and not read.optional:
        yield _report_removed(read, gone)
        return
    routed = read.how == "route"
    if world.opaque or (read.guarded if routed else read.optional):
        return
    if read.key in site.siblings:
        yield _report_sibling(site, read)
        return
    keys = [*world.facts]
    known, near = (
        join_few(keys) or "nothing",
        _inner_key(read, keys) or suggest_names(read.key, keys),
    )
    yield report(
        "WEFT108" if routed else "WEFT105",
        read.origin,
        f"{_reads(read)}, and nobody before it writes that; what is there: {known}",
        near or _hint(read),
        severity=_severity(read, world),
    )


def _inner_key(read: Read, keys: list[str]) -> str:
    """A hint for `{state.plan}` and `{user.lang}`: the path names a key; or for `{PLAN}`."""
    path = [*map(str, read.path)]
    around = ("state", "ctx", "context", "session", "inputs", "input", "vars")
    inner = next((one for one in path if one in keys), "") if read.key in around else ""
    scoped = f"{read.key}:{path[0]}" if path else ""
    right = inner or (scoped if scoped in keys else "")
    if right and read.how == "template":
        return f"write {{{right}}}"
    cased = next((one for one in keys if one.lower() == read.key.lower()), "")
    return f"did you mean `{cased}`?" if cased else ""


def _report_removed(read: Read, gone: Removal) -> Diagnostic:
    """A read of a key that was written and then removed."""
    if gone.by.kind == "gate":
        what = f"{_what(read)} is not kept while `{gone.by.name}` waits for its answer"
        bare = read.key.removeprefix("temp:")
        return report("WEFT107", read.origin, what, f"write and read `{bare}`, without temp:")
    how = f"renamed to `{gone.to}`" if gone.to else "dropped"
    renamed = _what(read._replace(key=gone.to, typed=""))
    return report(
        "WEFT107",
        read.origin,
        f"{_what(read)} was {how} by `{_spell_writer(gone.by)}` before",
        f"read {renamed}" if gone.to else "keep it, or write it again before this",
    )


def _spell_writer(writer: Writer) -> str:
    """The writer as its author wrote it, with double quotes."""
    written = writer.written
    return (written if '"' in written else written.replace("'", '"')) or writer.name


def _severity(read: Read, world: World) -> Severity | None:
    """The severity: a key that another run may have stored is not an error, unless misspelt."""
    # another session may have stored it
    if scope_of(read.key) in ("app", "user"):
        near = find_near(read.key, world.facts, cutoff=0.85)
        return Severity.WARNING if near else Severity.INFO
    return Severity.WARNING if read.optional else None


def _any_turn(record: WalkRecord, site: Site, read: Read) -> Iterator[Diagnostic]:
    """A key that code reads, or a note: it may come from any turn, but from somewhere."""
    if read.key in site.world.facts or read.key in record.everywhere or site.world.opaque:
        return
    if read.guarded or scope_of(read.key) in ("app", "user"):
        return
    words = f"the {read.how} `{read.origin.name}` reads `{read.key}` from the state"
    yield report(
        "WEFT105",
        read.origin,
        f"{_reads(read) if read.how == 'policy' else words}, and nobody writes it",
        suggest_names(read.key, record.everywhere) or _hint(read),
    )


def _report_sibling(site: Site, read: Read) -> Diagnostic:
    return report(
        "WEFT111",
        read.origin,
        f"{_reads(read)}, which a parallel branch writes: it may not be there yet",
        "read it after the branches: (a | b) >> c; `a | b >> c` is a | (b >> c)",
    )


def _hint(read: Read) -> str:
    if read.how == "template":
        return (
            f'let an agent before it write it: .writes("{read.key}"), declare it:'
            f' inputs={{"{read.key}": str}}, or write {{{read.key}?}}'
        )
    return f'let an agent before it write it: .writes("{read.key}"), or declare it as an input'


def _reads(read: Read) -> str:
    """A clause that names the key and the channel it is read through."""
    match read.how:
        case "template":
            return f"the template reads {_what(read)} from the state"
        case "policy":
            return f"the policy shows {_what(read)} of the state"
        case "route":
            return f"the route decides by {_what(read)} of the state"
        case "map":
            return f"the map goes over {_what(read)} of the state"
        case _:
            return f"{_what(read)} is read from the state here"


def _what(read: Read) -> str:
    """The variable as its author wrote it."""
    if read.typed:
        return f"`{read.typed}`"
    name = spell_path(read.key, read.path)
    return f"`{{{name}}}`" if read.how == "template" else f"`{name}`"


def _format_writers(writers: Iterable[Writer]) -> str:
    return " and ".join(f"`{name}`" for name in dict.fromkeys(w.name for w in writers))


def torn_read(record: WalkRecord) -> Iterator[Diagnostic]:
    """A key that one branch reads while another removes it."""
    for read, by in record.removed_by_sibling:
        yield report(
            "WEFT111",
            read.origin,
            f"{_reads(read)}, which `{by.name}` takes away in a parallel branch: it may be gone",
            "take it away after the branches: (a | b) >> S.drop(...)",
        )


def parallel_writers(record: WalkRecord) -> Iterator[Diagnostic]:
    """Branches that run at once and write one key."""
    for node, key, writers in record.conflicts:
        assert isinstance(node, Parallel | Sequence)
        yield report(
            "WEFT110",
            writers[-1].origin,
            f"`{key}` is written in two branches at once, by {_format_writers(writers)}",
            "let each branch write a key of its own, and combine them afterwards",
        )


def dead_key(record: WalkRecord) -> Iterator[Diagnostic]:
    """Keys that are written, and that nothing after them reads."""
    final = {site.node.name for site in record.sites if site.last}
    lost = _LostOutputs(record)
    asked = {  # who asks whether a key is there may find it on the next turn
        read.key
        for site in record.sites
        for read in site.reads
        if (read.optional or read.guarded) and scope_of(read.key) != "temp"
    }
    later: set[tuple[str, Writer]] | None = None
    for key, writer in record.written:
        # an input is the application's: it may give more than is read
        if (key, writer) in record.used or writer.kind == "input" or key in asked:
            continue
        if writer.name in final or writer.origin.agent in final:
            continue
        later = _read_next_turn(record) if later is None else later
        if (key, writer) in later:
            continue
        wholly = lost(key, writer)
        yield report(
            "WEFT112",
            writer.origin,
            f"`{key}` is written by `{writer.name}`, and nothing after it reads it"
            + (" before it is written again" if any(key == k for k, _ in record.used) else "")
            + ("; no other agent sees its words either" if wholly else ""),
            f'read {{{key}}} after it, or leave it out; allow=["WEFT112"] if the application'
            " reads it"
            if wholly
            else "read it, or leave it out",
            severity=Severity.WARNING if wholly else None,
        )


def _read_next_turn(record: WalkRecord) -> set[tuple[str, Writer]]:
    """The keys that are left at the end of a turn and read in the next, with their writers."""
    return {
        (read.key, writer)
        for site in record.sites
        for read in site.reads
        if (fact := site.world.facts.get(read.key)) is not None
        and fact.is_carried
        and (end := record.end.facts.get(read.key)) is not None
        and scope_of(read.key) != "temp"
        for writer in end.writers
    }


def _is_rewritten(fact: Fact | None) -> bool:
    """Whether a node writes the key on every run, unlike a tool or a callback."""
    if fact is None:
        return False
    steps = ("step", "transform")
    return all(one.kind in steps or one.origin.name == "output_key" for one in fact.writers)


class _LostOutputs:
    """Knows whether a key that nobody reads is all that its agent says.

    What a step takes away was looked at, and found of no use. An agent that acts has done its work.
    """

    def __init__(self, record: WalkRecord) -> None:
        self._record = record
        self._agents = {agent.name: agent for agent in record.survey.agents}
        self._read = {
            read.key
            for site in record.sites
            for read in site.reads
            if not _is_rewritten(site.world.facts.get(read.key))
        }
        self._in_maps = {
            node.name: agents_of(node.body)
            for node, _ in record.survey.nodes
            if isinstance(node, Map)
        }
        self._dropped: set[str] = set()
        self._keeps: list[frozenset[str]] = []
        for node, _ in record.survey.nodes:
            if isinstance(node, Step):
                keys, change = keys_of(node.function), node.change
                self._dropped |= {*change.drops, *keys.drops, *keys.may_drop}
                if change.keeps is not None:
                    self._keeps.append(frozenset(change.keeps))

    def __call__(self, key: str, writer: Writer) -> bool:
        """Whether what the writer says under the key is wholly lost."""
        speakers: tuple[Agent | None, ...]
        if writer.kind == "map":
            speakers = self._in_maps.get(writer.name, ())
        elif writer.kind == "agent" and writer.origin.name == "output_key":
            speakers = (self._agents.get(writer.name),)
        else:
            return False
        if scope_of(key) in ("app", "user"):
            return False
        if key in self._read or key in self._dropped:
            return False  # what stands before it may read it on the next turn
        if any(key not in keys for keys in self._keeps):
            return False
        for agent in speakers:
            if agent is None or agent.name in self._record.heard:
                return False
            if agent.sub_agents or acts(agent):
                return False
        return (
            bool(speakers)
            and key not in self._misnamed_keys
            and not find_near(key, self._missing_keys, cutoff=0.6)
        )

    @cached_property
    def _misnamed_keys(self) -> set[str]:
        """The keys that a text names wrongly; another rule reports them."""
        return {key for key, _, _ in lookalike_keys(self._record)}

    @cached_property
    def _missing_keys(self) -> list[str]:
        """The keys that are read and not there; another rule reports a misspelt one."""
        missed = (
            read.key
            for site in self._record.sites
            for read in site.reads
            if read.key not in site.world.facts
        )
        return [*dict.fromkeys(missed)]


def wrong_type(record: WalkRecord) -> Iterator[Diagnostic]:
    """A map over what is not a list, and a predicate that compares text with a number."""
    for site in record.sites:
        for read in site.reads:
            fact = site.world.facts.get(read.key)
            if fact is None:
                continue
            shape, problem = follow(fact.schema, read.path)
            kind = kind_of(shape)
            if problem or not kind:
                continue
            who = f"`{fact.writers[-1].name}` writes {spell_kind(kind)} there"
            if read.how == "map" and isinstance(site.node, Map) and kind != "array":
                yield report(
                    "WEFT109",
                    read.origin,
                    f"`{site.node.items}` is not a list: {who}",
                    f"give `{fact.writers[-1].name}` an output_schema that is a list, such as"
                    " list[str], or make one with a step",
                )
            wanted = kind_of(read.shape)
            if wanted and wanted != kind and {wanted, kind} != {"integer", "number"}:
                yield report(
                    "WEFT109",
                    read.origin,
                    f"the input `{read.key}` is {spell_kind(wanted)}: {who}",
                    f"let `{fact.writers[-1].name}` write that, or declare the type that it writes",
                )
            if read.number and kind in ("string", "array", "object"):
                name = spell_path(read.key, read.path)
                spelled = "".join(f"[{json.dumps(step)}]" for step in (read.key, *read.path))
                yield report(
                    "WEFT109",
                    read.origin,
                    f"`{name}` is compared with a number: {who}",
                    f"let `{fact.writers[-1].name}` return a number: agent @ Schema, or write"
                    f" float(state{spelled})",
                )


# --- artifacts


def unsaved_artifact(record: WalkRecord) -> Iterator[Diagnostic]:
    """An artifact that nothing saves, where one of nearly that name is saved."""
    names, _ = names_saved_by(record.survey.agents)
    if not names:
        return
    for agent in record.survey.agents:
        for name, place in files_read_by(agent):
            bare = name.removeprefix("user:")
            if bare in names:
                continue
            known = [one for one in names if _differs(one, bare)]
            near = suggest_names(bare, known, most=1, cutoff=0.65)
            if near:
                yield report(
                    "WEFT115",
                    place,
                    f"the artifact `{name}` is read here, and nothing saves it; what is saved:"
                    f" {', '.join(sorted(names))}",
                    near,
                )


def _differs(one: str, other: str) -> bool:
    """Whether two names differ in more than a number or an ending."""
    (stem, dot, _), (other_stem, other_dot, _) = one.rpartition("."), other.rpartition(".")
    if dot and other_dot and stem == other_stem:
        return False
    return re.sub(r"\d+", "", one) != re.sub(r"\d+", "", other)


_SAVES = "save_artifact"


class SavedArtifacts(NamedTuple):
    """The names that a function saves artifacts under, and whether those are all."""

    names: frozenset[str] = frozenset()
    complete: bool = False


def names_saved_by(agents: Iterable[Agent]) -> tuple[frozenset[str], bool]:
    """The names of artifacts that the code of these agents saves, and whether those are all."""
    saves = [artifacts_saved_by(function) for agent in agents for function in _functions_of(agent)]
    names = frozenset[str]().union(*(one.names for one in saves))
    return names, all(one.complete for one in saves)


@cache_by_function
def artifacts_saved_by(function: Callable[..., object]) -> SavedArtifacts:
    """What one function saves; its source is read, nothing is run."""
    source = open_source(function)
    if source is None:
        return SavedArtifacts()
    names = source.names()
    saved: set[str] = set()
    complete = True
    for node in ast.walk(source.node):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr != _SAVES:
            continue
        named = [one.value for one in node.keywords if one.arg in ("name", "filename")]
        text = text_of(next(iter((*node.args[:1], *named)), None), names)
        complete = complete and text is not None
        if text is not None:
            saved.add(text.removeprefix("user:"))
    return SavedArtifacts(frozenset(saved), complete)


def _functions_of(agent: Agent) -> Iterator[Callable[..., object]]:
    """The functions of its tools and callbacks that may save something."""
    for tool in agent.tools:
        if tool.function is not None and tool.context_parameter is not None:
            yield tool.function
    for name in CALLBACKS:
        yield from functions_in(cast("object", getattr(agent, name)))


def files_read_by(agent: Agent) -> Iterator[tuple[str, Origin]]:
    """The artifacts that an agent's texts and policy name, with their places."""
    for field in ("instruction", "global_instruction"):
        text = agent.instruction if field == "instruction" else agent.global_instruction
        for one in template.parse(text).variables if isinstance(text, str) else ():
            if one.artifact:
                yield one.artifact, Origin("field", field, agent.name, one.start, one.end)
    place = Origin("field", "context", agent.name)
    for selector in selectors_in(agent.policy):
        if isinstance(selector, ArtifactText):
            yield selector.name, place


# --- agents that do more than answer, whose keys need no reader

_LOOKING = frozenset(
    (
        "analyse", "analyze", "browse", "calculate", "classify", "compare", "compute", "count",
        "describe", "detect", "extract", "fetch", "find", "get", "google", "grep", "inspect",
        "list", "lookup", "parse", "query", "read", "retrieve", "search", "summarise", "summarize",
        "translate", "view",
    )
)  # fmt: skip
"""First words of tools that only look something up; not those that also do: `open_ticket`."""

_LOOKUPS = frozenset(("lookup", "query", "retrieval", "retriever", "search"))
"""Last words of such tools: `web_search`."""


def acts(agent: Agent) -> bool:
    """Whether it may do more than answer: a tool of it does more than look."""
    return bool(agent.tool_sources) or any(map(_may_act, agent.tools))


def _may_act(tool: Tool) -> bool:
    """Whether a tool may do more than look: its declaration decides, then its code and its name."""
    if tool.effect == "pure":
        return False
    declared = tool.effect != "idempotent" or tool.confirm or tool.long_running
    if declared or tool.writes or uses_of_tool(tool).writes:
        return True
    first, *others = tool.name.lower().replace("-", "_").split("_")
    looks = first in _LOOKING or (bool(others) and others[-1] in _LOOKUPS)
    return not looks or "and" in others
