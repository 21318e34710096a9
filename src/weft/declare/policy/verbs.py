"""The verbs of a policy: COMPRESS, WRITE, BUDGET and PROTECT, checked where they are written."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Generic, Literal, TypeVar, cast

from weft.declare.choices import check_choice
from weft.declare.model_like import is_model
from weft.declare.policy import transforms as t
from weft.declare.policy.written import amount, count, hinted, names, no_such_word
from weft.errors import DeclarationError

Made = TypeVar("Made")
_MARKS = re.compile(r"[\\()\[\]{}^$*+?|]")


class Verbs(Generic[Made]):
    """What can be done with items; each verb gives a new value with one more step."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Say which verb is meant; type checkers know better."""
            from weft.declare.policy.vocabulary import Vocabulary

            if name.startswith("_"):
                raise AttributeError(name)
            if name in vars(Vocabulary):
                words = f"`{name}` chooses items: begin with C.{name}(...), or add + C.{name}(...)"
                raise AttributeError(words, name=name, obj=self)
            verbs = [verb for verb in vars(Verbs) if not verb.startswith("_")]
            raise no_such_word("policy", name, verbs)

    def _then(self, step: "t.Transform | t.Budget") -> Made:
        raise NotImplementedError

    @hinted
    def compact(
        self,
        *,
        results: int | None = 800,
        texts: int | None = 4000,
        media: int | None = 2000,
        to: int | None = None,
    ) -> Made:
        """Large results, texts and media become a handle with a digest; `recall` gets them back.

        `results`, `texts` and `media` are the tokens from which on that is done (None: never),
        `to` the most tokens of a digest with its handle: 300, or half of a lower limit.
        """
        for name, value, least in (
            ("results", results, 64),
            ("texts", texts, 64),
            ("media", media, 1),
        ):
            if value is not None:
                count("compact", name, value, least)
        if to is None:
            to = max(64, min(300, (results or 600) // 2, (texts or 600) // 2))
        count("compact", "to", to, 64)
        for name, value in (("results", results), ("texts", texts)):
            if value is not None and to > value:
                raise DeclarationError(
                    f"a digest of {to} tokens for {name} of {value} saves nothing",
                    where="C.compact",
                    hint=f"write to={value // 2 or 1} or less, or {name}={to * 2}",
                )
        return self._then(t.Compact(results=results, texts=texts, media=media, to=to))

    @hinted
    def dedupe(self, how: t.DedupeHow = "exact") -> Made:
        """The same large value once; "superseded": only the newest of the same call or file."""
        check_choice("C.dedupe", "how", how, t.DedupeHow)
        return self._then(t.Dedupe(how))

    @hinted
    def project(
        self,
        *,
        fields: str | Iterable[str] = (),
        exclude: str | Iterable[str] = (),
        tools: str | Iterable[str] = (),
    ) -> Made:
        """Only these fields of JSON results, or all but those; `tools` narrows whose."""
        kept = names("project", fields, "field names", least=0)
        gone = names("project", exclude, "field names", least=0)
        if bool(kept) == bool(gone):
            raise DeclarationError(
                "it needs fields= or exclude=, and only one of them",
                where="C.project",
                hint='write C.default().project(fields=["id", "status"])',
            )
        for path in (*kept, *gone):
            if not re.fullmatch(r"(?:\[\]\.?)*[^.\[\]]+(?:\[\])*(?:\.[^.\[\]]+(?:\[\])*)*", path):
                raise DeclarationError(
                    f"{path!r} is no path of fields",
                    where="C.project",
                    hint='write "status", "order.id" or "rows[].id"',
                )
        whose = names("project", tools, "tool names", least=0)
        return self._then(t.Project(fields=kept, exclude=gone, tools=whose))

    @hinted
    def truncate(self, tokens: int, *, keep: t.Keep = "head") -> Made:
        """At most so many tokens of each text and result: its head, its tail, or both ends."""
        count("truncate", "tokens", tokens)
        check_choice("C.truncate", "keep", keep, t.Keep)
        return self._then(t.Truncate(tokens=tokens, keep=keep))

    @hinted
    def summarize(
        self,
        *,
        before: int = 5,
        every: int | None = None,
        scope: t.Scope = "all",
        schema: object = None,
        prompt: str | None = None,
        model: object = None,
    ) -> Made:
        """What lies before the last `before` turns as a summary that a model writes, once.

        One summary stands for `every` so many turns: the more, the less often what was sent
        before changes. `scope` narrows it to "results" or to what other "agents" said.
        """
        count("summarize", "before", before, 0)
        if every is not None:
            count("summarize", "every", every)
        check_choice("C.summarize", "scope", scope, t.Scope)
        if schema is not None:
            from weft import schema as schemas

            schemas.of_type(schema, where="C.summarize.schema")
        _check_model("summarize", model)
        if prompt is not None and not (isinstance(cast("object", prompt), str) and prompt.strip()):
            raise DeclarationError(
                f"prompt={prompt!r} is no text", where="C.summarize", hint="pass what to ask for"
            )
        step = t.Summarize(
            before=before, every=every, scope=scope, schema=schema, prompt=prompt, model=model
        )
        return self._then(step)

    @hinted
    def priority(self, tier: int) -> Made:
        """Who survives a budget: 1 always, 2 is usual, 4 is the first to go."""
        if type(cast("object", tier)) is not int or tier not in (1, 2, 3, 4):
            raise DeclarationError(
                f"tier={tier!r} is none of 1, 2, 3, 4", where="C.priority", hint="pass 1 to 4"
            )
        return self._then(t.Priority(tier))

    @hinted
    def fit(self, tokens: int) -> Made:
        """So many tokens of these items, the best first, else the newest."""
        count("fit", "tokens", tokens)
        return self._then(t.Fit(tokens))

    @hinted
    def budget(
        self, tokens: int, *, overflow: t.Overflow = "degrade", reserve: int | None = None
    ) -> Made:
        """The whole request within so many tokens, `reserve` of them for the answer; the last."""
        count("budget", "tokens", tokens)
        check_choice("C.budget", "overflow", overflow, t.Overflow)
        if reserve is not None:
            count("budget", "reserve", reserve, 0)
            if reserve >= tokens:
                raise DeclarationError(
                    f"a reserve of {reserve} leaves nothing of {tokens} tokens",
                    where="C.budget",
                    hint=f"pass less than {tokens}",
                )
        return self._then(t.Budget(tokens, overflow=overflow, reserve=reserve))

    @hinted
    def fresh(
        self,
        *,
        turns: int | None = None,
        seconds: float | None = None,
        stale: t.Stale = "drop",
    ) -> Made:
        """Results older than so many turns or seconds are dropped, marked, or compacted."""
        check_choice("C.fresh", "stale", stale, t.Stale)
        if turns is None and seconds is None:
            raise DeclarationError(
                "it needs an age", where="C.fresh", hint="write C.default().fresh(turns=3)"
            )
        if turns is not None:
            count("fresh", "turns", turns)
        if seconds is not None:
            amount("fresh", "seconds", seconds)
        return self._then(t.Fresh(turns=turns, seconds=seconds, stale=stale))

    @hinted
    def redact(
        self,
        *kinds: "str | re.Pattern[str]",
        patterns: str | Iterable[str] = (),
        fields: str | Iterable[str] = (),
        restore: Literal["tools", "answer"] | Iterable[Literal["tools", "answer"]] | bool = (),
    ) -> Made:
        """What these detectors, patterns and field names find is replaced in all that is sent.

        A regular expression, compiled or as text, may stand among the detectors.
        `restore` puts it back where it is safe: in "tools" arguments, in the "answer", or True.
        """
        from weft.detect import check_kinds, check_patterns, spelled

        written = tuple(
            spelled(kind) if isinstance(kind, re.Pattern) else kind
            for kind in kinds
            if _is_pattern(kind)
        )
        plain = tuple(kind for kind in kinds if not _is_pattern(kind))
        found = names("redact", plain, "detectors", least=0)
        regexes = (*names("redact", patterns, "regular expressions", least=0), *written)
        named = names("redact", fields, "field names", least=0)
        if not (found or regexes or named):
            raise DeclarationError(
                "it says nothing to look for",
                where="C.redact",
                hint='write C.default().redact("email", "card"), or .redact("pii")',
            )
        check_kinds(found, where="C.redact")
        check_patterns(regexes, where="C.redact")
        wanted: object = ("tools", "answer") if restore is True else restore or ()
        back = names("redact", wanted, "places", least=0)
        for place in back:
            check_choice("C.redact", "restore", place, t.Restore)
        places = cast("tuple[t.Restore, ...]", back)
        return self._then(t.Redact(found, patterns=regexes, fields=named, restore=places))

    @hinted
    def validate(self, *what: t.Quality, model: object = None) -> Made:
        """Look whether a request is complete, contradicts itself, or says little in many words.

        Contradictions are found by rules, and by a model if one is given.
        """
        for one in what:
            check_choice("C.validate", "what", one, t.Quality)
        _check_model("validate", model)
        if model is not None and "contradictions" not in what:
            raise DeclarationError(
                f"model={model!r} is asked by nobody",
                where="C.validate.model",
                hint='write .validate("contradictions", model="NAME")',
            )
        return self._then(t.Validate(tuple(dict.fromkeys(what)) or ("completeness",), model=model))

    @hinted
    def label(
        self,
        name: str,
        *keys: str,
        tools: str | Iterable[str] = (),
        artifacts: str | Iterable[str] = (),
    ) -> Made:
        """A label on state keys, tools' results and artifacts; only who is cleared sees them."""
        if not isinstance(cast("object", name), str) or not re.fullmatch(r"[A-Za-z][\w-]*", name):
            raise DeclarationError(
                f"{name!r} is no label", where="C.label", hint='write C.default().label("secret")'
            )
        marked = names("label", keys, "state keys", least=0)
        whose = names("label", tools, "tool names", least=0)
        files = names("label", artifacts, "artifact names", least=0)
        if not (marked or whose or files):
            raise DeclarationError(
                f"the label `{name}` is on nothing",
                where="C.label",
                hint=f'write .label("{name}", "state_key", tools=["lookup"])',
            )
        return self._then(t.Label(name, keys=marked, tools=whose, artifacts=files))

    @hinted
    def fence(self, *what: t.Untrusted) -> Made:
        """Results, files and other agents' words stand between marks that they cannot close."""
        for one in what:
            check_choice("C.fence", "what", one, t.Untrusted)
        return self._then(t.Fence(tuple(dict.fromkeys(what)) or ("results", "files", "agents")))

    @hinted
    def capture(self, key: str) -> Made:
        """The user's message goes into state under `key` before the agent runs."""
        return self._then(t.Capture(_key("capture", key)))

    @hinted
    def note(self, key: str, *, strategy: t.Strategy = "append") -> Made:
        """The agent's answer is noted under `key`; `C.notes(key)` shows it later."""
        check_choice("C.note", "strategy", strategy, t.Strategy)
        return self._then(t.NoteDown(_key("note", key), strategy=strategy))

    @hinted
    def extract(self, schema: object, key: str, *, model: object = None) -> Made:
        """What the schema asks for is read out of the conversation into state, by a model."""
        from weft import schema as schemas

        schemas.of_type(schema, where="C.extract.schema")
        _check_model("extract", model)
        return self._then(t.Extract(schema, _key("extract", key), model=model))

    @hinted
    def distill(self, key: str, *, model: object = None) -> Made:
        """The conversation as single facts with their sources, in state, by a model."""
        _check_model("distill", model)
        return self._then(t.Distill(_key("distill", key), model=model))


def _is_pattern(kind: object) -> bool:
    """Whether it is a regular expression: no detector's name has any of its marks."""
    return isinstance(kind, re.Pattern) or (isinstance(kind, str) and bool(_MARKS.search(kind)))


def _key(word: str, key: object) -> str:
    if not isinstance(key, str) or not key:
        raise DeclarationError(
            f"{key!r} is no state key", where=f"C.{word}", hint=f'write C.default().{word}("key")'
        )
    return key


def _check_model(word: str, model: object) -> None:
    if model is not None and not is_model(model):
        raise DeclarationError(
            f"{model!r} is not a model",
            where=f"C.{word}.model",
            hint='write model="NAME", or pass an object with `name` and `dialect`',
        )
