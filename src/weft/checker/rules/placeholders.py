"""Rules on text that looks like a placeholder but is not one, or is one by accident.

People bring the syntax of other template languages along. What they write is sent as it stands
there, and the value of the state is not; or the value is sent with a sign of the other language.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from weft.checker.schemas import follow, kind_of
from weft.checker.world import Site, WalkRecord
from weft.declare import Agent, Gate, template
from weft.diagnostics import Diagnostic, Origin, Severity, report
from weft.late import late_pattern

_NAME = r"[^\W\d]\w*"

_BRACES = late_pattern(r"\{\{?(?P<inner>[^{}]{1,100})\}\}?")

_INNER = tuple(
    map(
        late_pattern,
        (
            rf"(?P<key>{_NAME})",  # {plan} over several lines, or {{plan }}
            rf"(?P<key>{_NAME})\s*[!?.,;/#@$%&*+=~^:>-]+",  # {plan!}, {plan:}, {plan ?}
            rf"(?P<key>{_NAME})-[\w-]+",  # {plan-x}
            rf"(?P<key>{_NAME})![rsa]",  # {plan!r}
            rf"(?P<key>{_NAME}):(?:[<>=^+,.-][\w<>=^+,.-]*%?|[0-9]*[defgnsx%])",  # {plan:>10}
            rf"(?P<key>{_NAME})\s*\|\s*{_NAME}(?:\([^()]*\))?",  # {plan | upper}
            rf"(?P<key>{_NAME})\[(?:'[^']*'|\"[^\"]*\"|{_NAME})\]",  # {plan['title']}
            rf"(?P<key>{_NAME})(?:\.{_NAME})*\(.*\)",  # {plan.get("title")}, {plan.upper()}
            rf"(?:len|str|int|repr|json\.dumps)\((?P<key>{_NAME})\)",  # {len(plan)}
            rf"(?P<key>{_NAME})\s+or\s+['\"].*",  # {plan or "none"}
            rf"{_NAME}:(?P<key>{_NAME})\??",  # {usr:plan}
            rf"(?:user|app|temp|state|session)\s*:\s*(?P<key>{_NAME})\??",  # {user: plan}
            rf"(?:{_NAME}\.)*state\[\s*['\"](?P<key>[\w:]+)['\"]\s*\].*",  # {state['plan']}
            rf"(?:{_NAME}\.)*state\.get\(\s*['\"](?P<key>[\w:]+)['\"].*\)",
            rf"[$#@<&>^/](?:if|each|with|unless)?\s*(?P<key>{_NAME})>?",  # {$plan}, {{#if plan}}
            # {%plan%}, {% for step in plan %}
            rf"%-?\s*(?:(?:el)?if|unless|for\s+{_NAME}\s+in|=)?\s*(?P<key>{_NAME})\s*-?%",
        ),
    )
)
"""What stands in braces and is not a placeholder, though somebody may take it for one."""

_OTHER = tuple(
    map(
        late_pattern,
        (
            # $plan, and no formula such as $n$ or $x_1$
            r"(?<![\w$\\])\$(?P<key>[^\W\d]\w+)(?![\w$^_\\({])",
            rf"(?<![\w$\\])\$\((?P<key>{_NAME})\)",  # $(plan)
            rf"%\((?P<key>{_NAME})\)[sdrif]",  # %(plan)s
            rf"(?<![\w%])%(?P<key>{_NAME})%",  # %plan%
            rf"<%=?\s*(?P<key>{_NAME})\s*%>",  # <%= plan %>
            rf"<<\s*(?P<key>{_NAME})\s*>>|\[\[\s*(?P<late>{_NAME})\s*\]\]",  # <<plan>>, [[plan]]
            rf"(?<![{{\w\"'.:])(?P<key>{_NAME})\}}(?!\}})",  # plan} without its beginning
        ),
    )
)
"""What other template languages write."""

_SCOPE = late_pattern(rf"(?P<scope>{_NAME}):(?P<key>{_NAME})\??")

_SCOPES = {
    **dict.fromkeys(("usr", "uesr", "usre", "ueser", "User", "USER", "Usr", "USR"), "user"),
    **dict.fromkeys(("ap", "aap", "app_", "App", "APP"), "app"),
    **dict.fromkeys(("tmp", "tem", "temps", "tmep", "Temp", "TEMP", "TMP"), "temp"),
}
"""Words that are only meant for a scope, and the scope."""


class Lookalike(NamedTuple):
    """A text that looks like a placeholder: the key that it names, and where it stands."""

    key: str
    text: str
    start: int
    how: str = "foreign"
    """`foreign` syntax, a misspelt `scope`, `escaped` or `unclosed` braces; or, of a placeholder,
    a `sign` before it or blanks in it: `spaced`."""

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.start + len(self.text)


@lru_cache(maxsize=1024)
def find_lookalikes(source: str) -> tuple[Lookalike, ...]:
    """Text that looks like a placeholder but is not one, and placeholders that may be text.

    More than one may stand in one place: the state decides which key is meant.
    """
    return tuple(_lookalikes(source)) if _has_mark(source) else ()


def _lookalikes(source: str) -> Iterator[Lookalike]:
    # in a text whose braces are in pairs, one that lacks its other is code, or names a key
    half = "unclosed" if source.count("{") > source.count("}") else "foreign"
    for piece in template.parse(source).pieces:
        written = source[piece.start : piece.end]
        if isinstance(piece, template.Variable):
            yield from _odd_variable(piece, source)
        elif written != piece.text:
            key = template.parse(piece.text).variables[0].key
            yield Lookalike(key, written, piece.start, "escaped")
        elif _has_mark(written):
            yield from _foreign(written, piece.start, half)


def _odd_variable(variable: template.Variable, source: str) -> Iterator[Lookalike]:
    """A placeholder after a sign of another language, or with blanks in its braces."""
    if variable.artifact:
        return
    at = variable.start
    far, before = source[max(0, at - 2) : max(0, at - 1)], source[max(0, at - 1) : at]
    written = source[variable.start : variable.end]
    # US${price}, and {share}%{unit}, are meant
    signed = before in ("$", "#", "%") and not far.isalnum() and far != "}"
    if signed and source[variable.end : variable.end + 1] not in ("%", "^", "_"):
        yield Lookalike(variable.key, before + written, variable.start - 1, "sign")
    elif written[1].isspace() or written[-2].isspace():
        yield Lookalike(variable.key, written, variable.start, "spaced")


def _foreign(written: str, at: int, half: str) -> Iterator[Lookalike]:
    """What other template languages write, in a text without placeholders; `half` of a pair."""
    inside = [*_BRACES.finditer(written)]
    for match in inside:
        inner, start = match["inner"].strip(), at + match.start()
        for form in _INNER:
            if placeholder := form.fullmatch(inner):
                yield Lookalike(placeholder["key"], match[0], start)
        scoped = _SCOPE.fullmatch(match[0][1:-1])
        if scoped is not None and scoped["scope"] in _SCOPES:
            key = f"{_SCOPES[scoped['scope']]}:{scoped['key']}"
            yield Lookalike(key, match[0], start, "scope")
    for how, forms in (("foreign", _OTHER), (half, (template.UNCLOSED,))):
        for form in forms:
            for match in form.finditer(written):
                if not any(one.start() <= match.start() < one.end() for one in inside):
                    key = match["key"] or match["late"]
                    yield Lookalike(key, match[0], at + match.start(), how)


def _has_mark(text: str) -> bool:
    """Whether a text has a mark of a placeholder. Most have none, which saves the patterns."""
    return any(mark in text for mark in "{}$%") or "<<" in text or "[[" in text


def lookalike_placeholder(record: WalkRecord) -> Iterator[Diagnostic]:
    """A text that names a key in a way that no template reads, so the text itself is sent."""
    for key, place, one in lookalike_keys(record):
        what, hint, severity = _explain(key, one)
        where = Origin("field", place.name, place.agent, one.start, one.end)
        yield report("WEFT114", where, what, hint, severity=severity)


def _explain(key: str, one: Lookalike) -> tuple[str, str, Severity | None]:
    """What is wrong with a text, what to type instead, and how bad it is."""
    match one.how:
        case "sign":
            sign = one.text[0]
            return (
                f"`{one.text}` is sent as `{sign}` and the value of `{key}`",
                f"write {one.text[1:]}, without the {sign}",
                None,
            )
        case "spaced":
            return (
                f"`{one.text}` is filled in with the value of `{key}`: blanks in the braces do not"
                " count",
                f"write {{{{{key}}}}} if the braces themselves are meant",
                Severity.INFO,
            )
        case "scope":
            return (
                f"`{one.text}` is not a placeholder and is sent as it stands there: the scopes are"
                " user:, app: and temp:",
                f"write {{{key}}}",
                None,
            )
        case "unclosed":
            return (
                f"`{one.text}` has no closing brace and is sent as it stands there",
                f"write {{{key}}}",
                None,
            )
        case "escaped":
            return (
                f"`{one.text}` is sent as {{{key}}}, and the value is not: doubled braces stand for"
                " themselves",
                f'write {{{key}}}, or allow=["WEFT114"] if the braces themselves are meant',
                None,
            )
        case _:
            return (
                f"`{one.text}` is not a placeholder and is sent as it stands there; the state has"
                f" `{key}`",
                f"write {{{key}}}, or {{{{{key}}}}} if the braces themselves are meant",
                None,
            )


def lookalike_keys(record: WalkRecord) -> Iterator[tuple[str, Origin, Lookalike]]:
    """The keys of the state that texts seem to name, with the text and the place."""
    known: set[str] | None = None
    visible: set[str] = set()
    for site in record.sites:
        for place, source in _texts(site):
            spots = find_lookalikes(source)
            if not spots:
                continue
            if known is None:
                known = _known_keys(record)
                visible = _shown_keys(record)
            read = {one.key for one in site.reads if one.how in ("template", "policy")}
            places: set[int] = set()
            for one in spots:
                key = _key_of(one.key, site, known)
                if one.start in places or not _is_meant(key, one, source, site, read):
                    continue
                # a key that others are shown is known to who writes about placeholders
                if one.how == "escaped" and key in visible and _is_example(one, source):
                    continue
                key = key or one.key
                places.add(one.start)
                yield key, place, one


def _is_meant(key: str, one: Lookalike, source: str, site: Site, read: set[str]) -> bool:
    """Whether the author meant the value of the key, not the text."""
    match one.how:
        case "scope" | "unclosed":
            return True
        case "spaced":
            return bool(key)
        case "sign":
            return bool(key) and not _is_signed(one, source, site)
        case _:
            pass
    # who reads it as well shows how a key is written, or quotes code
    return bool(key) and key not in read


def _known_keys(record: WalkRecord) -> set[str]:
    """The keys that anything in the program writes, or that a text of it reads."""
    return {*record.everywhere, *_shown_keys(record)}


def _shown_keys(record: WalkRecord) -> set[str]:
    """The keys that a text of the program reads."""
    reads = (read for site in record.sites for read in site.reads if read.how == "template")
    return {read.key for read in reads}


def _key_of(name: str, site: Site, known: set[str]) -> str:
    """The key of the state that a name stands for; one in a scope may be named without it."""
    names = (name, f"user:{name}", f"app:{name}", f"temp:{name}")
    facts = site.world.facts
    there = (key for key in names if key in facts)
    return next(there, "") or next((key for key in names if key in known), "")


FAR = 300
"""How many letters of a sentence are looked at, on each side."""

_SENTENCE = re.compile(r"[.!?;]\s|\n")

_EXAMPLE = late_pattern(
    r"placeholders?|templates?|literal(?:ly)?|verbatim|braces|curly|handlebars|mustache|jinja"
    r"|variables?|syntax|fields?|fill(?:s|ed)? in|replaced?|substitut\w+|interpolat\w+|merge"
    r"|such as|e\.g|for example|like|unchanged|as is|escap\w+"
)
"""Words of a sentence that talks about a placeholder instead of using it."""


def _sentence(one: Lookalike, source: str) -> str:
    """The sentence around a text, without the text."""
    before, after = source[max(0, one.start - FAR) : one.start], source[one.end : one.end + FAR]
    start = max((match.end() for match in _SENTENCE.finditer(before)), default=0)
    return f"{before[start:]} {_SENTENCE.split(after, maxsplit=1)[0]}".lower()


def _is_example(one: Lookalike, source: str) -> bool:
    """Whether a text is about escaped braces: then they are meant."""
    quoted = source[one.start - 1 : one.start] == "`" == source[one.end : one.end + 1]
    return quoted or _EXAMPLE.search(_sentence(one, source)) is not None


_MONEY = (
    r"price|cost|amount|total|budget|fee|balance|salary|wage|income|revenue|pay|paid|payment|usd"
    r"|dollar|money|cash|worth|refund|charge|spend|spent|discount|tax|bill|debt|loan|profit|sale"
    r"|savings|credit|fund|buy|sell|bid|deposit|expensive|under|below|at most|up to"
    r"|less than|more than|maximum|minimum|limit|ticker|\w*(?:price|amount|total|payment|balance)"
)
_NUMBERED = (
    r"id|number|num|issue|ticket|order|pr|pull|tag|hashtag|channel|case|room|track|index|rank"
    r"|color|colour|hex|heading|invoice|chapter|job|build|post|tweet|caption|social"
)
_SENSES = {
    sign: late_pattern(rf"(?<![a-z])(?:{words})(?:s|es|ed|d|ing)?(?![a-z])")
    for sign, words in (("$", _MONEY), ("#", _NUMBERED), ("%", "percent|percentage|like|share"))
}
"""By sign: words that say that it belongs to the value."""


def _is_signed(one: Lookalike, source: str, site: Site) -> bool:
    """Whether a sign before a placeholder belongs to the value: a price, or a number."""
    variable = template.parse(one.text[1:]).variables[0]
    fact = site.world.facts.get(variable.key)
    shape, _ = follow(fact.schema, variable.path) if fact is not None else (None, "")
    if kind_of(shape) in ("number", "integer") or len(variable.key) == 1:
        return True
    words = variable.name.replace("_", " ").lower()
    # a field that is declared as a text has no sign, whatever the sentence is about
    if not variable.path or kind_of(shape) != "string":
        words += f" {_sentence(one, source)}"
    return _SENSES[one.text[0]].search(words) is not None


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
