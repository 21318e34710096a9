"""Rules on placeholders: texts that look like one and are none, and artifacts that nobody saves."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from weft.checker.files import files_read_by, saved_names
from weft.checker.near import close
from weft.checker.rules.declarations import everybody
from weft.checker.sites import Record, Site
from weft.codes import report
from weft.declare import Agent, Gate, template
from weft.diagnostics import Diagnostic, Origin

_NAME = r"[^\W\d]\w*"
_BRACES = re.compile(r"\{\{?(?P<inner>[^{}\n]{1,100})\}\}?")
_INNER = tuple(
    re.compile(form)
    for form in (
        rf"(?P<key>{_NAME})[!?.,;/#@$%&*+=~^:>-]+",  # {plan!}, {plan:}, {plan??}
        rf"(?P<key>{_NAME})-[\w-]+",  # {plan-x}
        rf"(?P<key>{_NAME})![rsa]",  # {plan!r}
        rf"(?P<key>{_NAME}):(?:[<>=^+,.-][\w<>=^+,.-]*%?|[0-9]+[defgnsx%])",  # {plan:>10}
        rf"(?P<key>{_NAME})\s*\|\s*{_NAME}(?:\([^()]*\))?",  # {plan | upper}
        rf"(?P<key>{_NAME})\[(?:'[^']*'|\"[^\"]*\"|{_NAME})\]",  # {plan['title']}
        rf"(?P<key>{_NAME})\.get\(.*\)",
        rf"{_NAME}:(?P<key>{_NAME})\??",  # {usr:plan}
        rf"(?:{_NAME}\.)*state\[\s*['\"](?P<key>[\w:]+)['\"]\s*\].*",  # {state['plan']}
        rf"(?:{_NAME}\.)*state\.get\(\s*['\"](?P<key>[\w:]+)['\"].*\)",
        rf"[$#@<](?P<key>{_NAME})>?|%\s*(?P<late>{_NAME})\s*%",  # {$plan}, {<plan>}, {%plan%}
    )
)
"""What stands in braces and is no placeholder, though somebody may take it for one."""
_SPACED = re.compile(
    rf"\{{\{{[ \t]+(?P<key>{_NAME})[ \t]*\}}\}}|\{{\{{(?P<late>{_NAME})[ \t]+\}}\}}"
)
_OTHER = tuple(
    re.compile(form)
    for form in (
        # $plan, and no formula such as $n$ or $x_1$
        r"(?<![\w$\\])\$(?P<key>[^\W\d]\w+)(?![\w$^_\\({])",
        rf"%\((?P<key>{_NAME})\)[sdr]",  # %(plan)s
        rf"(?<![\w%])%(?P<key>{_NAME})%",  # %plan%
        # {plan without its end
        rf"\{{[ \t]*(?P<key>{_NAME})(?=[^\w{{}}:\"'\[(|=-][^{{}}]*(?:\{{|$)|$)",
        rf"(?<![{{\w\"'.:])(?P<key>{_NAME})\}}(?!\}})",  # plan} without its beginning
    )
)
"""What other template languages write, and braces of which one is missing."""


class Lookalike(NamedTuple):
    """A text that looks like a placeholder: the key that it names, and where it stands."""

    key: str
    text: str
    start: int


def lookalikes(source: str) -> Iterator[Lookalike]:
    """What in a text looks like a placeholder and is none; escapes are none on purpose."""
    pieces = template.parse(source).pieces
    for piece in pieces:
        if not isinstance(piece, template.Literal):
            continue
        written = source[piece.start : piece.end]
        if written != piece.text:
            continue  # an escape: the braces are meant
        spaced = [*_SPACED.finditer(written)]
        for match in spaced:
            key = match["key"] or match["late"]
            yield Lookalike(key, match[0], piece.start + match.start())
        inside = [*_BRACES.finditer(written)]
        for match in inside:
            inner = match["inner"].strip()
            for form in _INNER:  # more than one may fit: the state decides which key is meant
                if found := form.fullmatch(inner):
                    key = found["key"] or found.groupdict().get("late") or ""
                    yield Lookalike(key, match[0], piece.start + match.start())
        for form in _OTHER:
            for match in form.finditer(written):
                within = (one.start() <= match.start() < one.end() for one in (*inside, *spaced))
                if not any(within):
                    yield Lookalike(match["key"], match[0], piece.start + match.start())


def lookalike_placeholder(record: Record) -> Iterator[Diagnostic]:
    """A text that names a key of the state as no template does, so that the text is sent."""
    for key, place, one in lookalike_keys(record):
        yield report(
            "WEFT114",
            Origin("field", place.name, place.agent, one.start, one.start + len(one.text)),
            f"`{one.text}` is no placeholder and is sent as it stands there; the state has `{key}`",
            f"write {{{key}}}, or {{{{{key}}}}} if the braces themselves are meant",
        )


def lookalike_keys(record: Record) -> Iterator[tuple[str, Origin, Lookalike]]:
    """The keys of the state that texts seem to name, with the text and the place."""
    for site in record.sites:
        for place, source in _texts(site):
            if not any(mark in source for mark in "{}$%"):
                continue
            read = {one.key for one in site.reads if one.how in ("template", "policy")}
            places: set[int] = set()
            for one in lookalikes(source):
                key = _key_of(one.key, site)
                if not key or key in read or one.start in places:
                    continue  # who reads it as well shows how a key is written, or quotes code
                places.add(one.start)
                yield key, place, one


def _key_of(name: str, site: Site) -> str:
    """The key of the state that a name stands for; one in a scope may be named without it."""
    facts = site.world.facts
    return next((key for key in (name, f"user:{name}", f"app:{name}") if key in facts), "")


def _texts(site: Site) -> Iterator[tuple[Origin, str]]:
    """The templates that are filled in at a site."""
    node = site.node
    if isinstance(node, Gate):
        yield Origin("field", "question", node.name), node.question
    elif isinstance(node, Agent):
        for name, text in (
            ("instruction", node.instruction),
            ("global_instruction", node.global_instruction),
        ):
            if isinstance(text, str):
                yield Origin("field", name, node.name), text


def unsaved_artifact(record: Record) -> Iterator[Diagnostic]:
    """An artifact that nothing saves, where one of nearly that name is saved."""
    names, _ = saved_names(everybody(record.root))
    if not names:
        return
    for agent in everybody(record.root):
        for name, place in files_read_by(agent):
            bare = name.removeprefix("user:")
            if bare in names:
                continue
            near = close(bare, [one for one in names if _differs(one, bare)], cutoff=0.65)
            if near:
                yield report(
                    "WEFT115",
                    place,
                    f"the artifact `{name}` is read here, and nothing saves it; what is saved:"
                    f" {', '.join(sorted(names))}",
                    f"did you mean `{near[0]}`?",
                )


def _differs(one: str, other: str) -> bool:
    """Whether two names differ in more than a number or an ending: such ones are two things."""
    (stem, dot, _), (other_stem, other_dot, _) = one.rpartition("."), other.rpartition(".")
    if dot and other_dot and stem == other_stem:
        return False
    return re.sub(r"\d+", "", one) != re.sub(r"\d+", "", other)
