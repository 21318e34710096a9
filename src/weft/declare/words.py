"""`C`: the policies by name, in code and in a text that somebody typed.

A word that selects items begins a policy: `C.window(5)`. A verb without items is a transform:
`policy | C.compact()`.
"""

import ast
import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING, NoReturn, cast

from weft.declare.functions import check_choice, is_model
from weft.declare.hints import OneLetter, explain_policy_calls
from weft.declare.policy import Policy, Stage, Transforms, Verbs
from weft.declare.policy_parts import (
    ArtifactText,
    Auto,
    Budget,
    Everything,
    FromAgents,
    Kind,
    Matching,
    Memories,
    MemoryScorer,
    Notes,
    NotesFormat,
    Nothing,
    Recent,
    Relevant,
    Scorer,
    Selector,
    StateKeys,
    ThisTurn,
    Transform,
    UserWords,
    When,
    Which,
    Window,
    WithoutAgents,
    require_amount,
    require_count,
    require_names,
)
from weft.errors import DeclarationError
from weft.misuse import suggest_names

if TYPE_CHECKING:
    from weft.declare.functions import StateFunction


class Vocabulary(OneLetter, Verbs[Transforms]):
    """The policies by name; `C.default()` is what an agent gets without one."""

    __slots__ = ()

    _letter = "C"

    def _then(self, step: Transform | Budget) -> Transforms:
        if isinstance(step, Budget):
            return Transforms((), step)
        return Transforms((step,))

    @explain_policy_calls
    def default(self, *, data: bool = True) -> Policy:
        """The whole visible log, each value once.

        Without `data` it leaves out the words of agents whose output is data for others: they
        write a key, and somebody comes after them. That is what an agent without a policy sees.
        """
        if not isinstance(cast("object", data), bool):
            raise DeclarationError(f"data={data!r}", where="C.default", hint="pass True or False")
        return _of(Everything(data=data))

    @explain_policy_calls
    def none(self) -> Policy:
        """The current turn: the user's message and the agent's own traffic of this invocation."""
        return _of(ThisTurn())

    @explain_policy_calls
    def nothing(self) -> Policy:
        """No conversation at all, not even the user's message."""
        return _of(Nothing())

    @explain_policy_calls
    def auto(self, *, careful: bool = False, lossless: bool = False, fold: bool = True) -> Policy:
        """The whole log, large things reduced when they arrive, old steps folded when that pays.

        If `careful`, each result is shown whole once, and reduced when the next one arrives. That
        hides nothing that is used at once, and costs more. If `lossless`, nothing is hidden at all,
        so no tool is needed to get it back: what stands above is said by reference, and records
        become tables. `fold=False` leaves old steps as they are; `.fold(keep=8)` after it says how
        many of the newest are never folded.
        """
        for name, value in (("careful", careful), ("lossless", lossless), ("fold", fold)):
            if not isinstance(cast("object", value), bool):
                raise DeclarationError(
                    f"{name}={value!r}", where="C.auto", hint="pass True or False"
                )
        if careful and lossless:
            raise DeclarationError(
                "careful=True hides results later, and lossless=True never does",
                where="C.auto",
                hint="pass one of them",
            )
        return _of(Auto(careful=careful, lossless=lossless, fold=fold))

    @explain_policy_calls
    def user(self, which: Which = "all") -> Policy:
        """What the user said: "all", the "first", the "last", or both ends, "bookend"."""
        check_choice("C.user", "which", which, Which)
        return _of(UserWords(which))

    @explain_policy_calls
    def window(self, n: int) -> Policy:
        """The last `n` turns: each a user's message with all that follows it."""
        require_count("window", "n", n)
        return _of(Window(n))

    @explain_policy_calls
    def agents(self, *names_: str) -> Policy:
        """What these agents said and did."""
        return _of(FromAgents(require_names("agents", names_, "agent names")))

    @explain_policy_calls
    def without_agents(self, *names_: str) -> Policy:
        """Everything but what these agents said and did."""
        return _of(WithoutAgents(require_names("without_agents", names_, "agent names")))

    @explain_policy_calls
    def select(
        self,
        *,
        author: str | Iterable[str] = (),
        kind: Kind | Iterable[Kind] = (),
        tag: str | Iterable[str] = (),
    ) -> Policy:
        """Items by author, kind and tag; each that is given must fit."""
        kinds = require_names("select", kind, "kinds", least=0)
        for one in kinds:
            check_choice("C.select", "kind", one, Kind)
        selector = Matching(
            author=require_names("select", author, "authors", least=0),
            kind=kinds,
            tag=require_names("select", tag, "tags", least=0),
        )
        if selector == Matching():
            raise DeclarationError(
                "it says nothing to select by",
                where="C.select",
                hint='write C.select(author="user"), or C.default() for everything',
            )
        return _of(selector)

    @explain_policy_calls
    def recent(
        self,
        *,
        half_life: float | None = None,
        decay: float | None = None,
        min_score: float = 0.1,
    ) -> Policy:
        """Items whose worth is still at least `min_score`; it fades with every turn.

        `half_life` is the turns in which it halves, `decay` what is left of it after each.
        """
        if (half_life is None) == (decay is None):
            raise DeclarationError(
                "it needs half_life= or decay=, and only one of them",
                where="C.recent",
                hint="write C.recent(half_life=5)",
            )
        if half_life is not None:
            require_amount("recent", "half_life", half_life)
        if decay is not None:
            require_amount("recent", "decay", decay, most=1)
        require_amount("recent", "min_score", min_score, most=1)
        return _of(Recent(half_life=half_life, decay=decay, min_score=min_score))

    @explain_policy_calls
    def relevant(
        self,
        query: str | None = None,
        *,
        from_state: str | None = None,
        top_k: int | None = None,
        scorer: Scorer = "bm25",
        model: object = None,
    ) -> Policy:
        """Items that have to do with a query: given, in state, or what the user said last."""
        check_choice("C.relevant", "scorer", scorer, Scorer)
        if query is not None and from_state is not None:
            raise DeclarationError(
                "query= and from_state= both say what to look for",
                where="C.relevant",
                hint="keep one of them",
            )
        for name, value in (("query", query), ("from_state", from_state)):
            if value is not None and not (isinstance(cast("object", value), str) and value.strip()):
                raise DeclarationError(
                    f"{name}={value!r} is not a text", where="C.relevant", hint="pass a text"
                )
        if top_k is not None:
            require_count("relevant", "top_k", top_k)
        if model is not None and (scorer != "model" or not is_model(model)):
            raise DeclarationError(
                f"model={model!r} is asked by nobody"
                if scorer != "model"
                else f"{model!r} is not a model",
                where="C.relevant.model",
                hint='write scorer="model", model="NAME"',
            )
        if scorer == "embedding":
            _require_vectors("C.relevant")
        selector = Relevant(
            query=query, from_state=from_state, top_k=top_k, scorer=scorer, model=model
        )
        return _of(selector)

    @explain_policy_calls
    def state(self, *keys: str) -> Policy:
        """The values of state keys, as items of their own."""
        return _of(StateKeys(require_names("state", keys, "state keys")))

    @explain_policy_calls
    def notes(self, key: str, *, format: NotesFormat = "list") -> Policy:
        """What was noted under `key`."""
        check_choice("C.notes", "format", format, NotesFormat)
        return _of(Notes(require_names("notes", key, "state keys")[0], format=format))

    @explain_policy_calls
    def artifact(self, name: str) -> Policy:
        """The newest text of an artifact."""
        return _of(ArtifactText(require_names("artifact", name, "artifact names")[0]))

    @explain_policy_calls
    def memory(
        self,
        query: str | None = None,
        *,
        from_state: str | None = None,
        top_k: int = 5,
        scorer: MemoryScorer = "bm25",
    ) -> Policy:
        """What the user's memory has on a query; without one, on what the user says now.

        The memory is searched once a turn, before compiling, and what it gives is in the log.
        """
        check_choice("C.memory", "scorer", scorer, MemoryScorer)
        if query is not None and from_state is not None:
            raise DeclarationError(
                "the query is both given and in state", where="C.memory", hint="leave one out"
            )
        for name, value in (("query", query), ("from_state", from_state)):
            if value is not None and (not isinstance(cast("object", value), str) or not value):
                raise DeclarationError(
                    f"{name}={value!r} is not a text", where="C.memory", hint="pass a text"
                )
        require_count("memory", "top_k", top_k)
        if scorer == "embedding":
            _require_vectors("C.memory")
        return _of(Memories(query=query, from_state=from_state, top_k=top_k, scorer=scorer))

    @explain_policy_calls
    def when(self, predicate: "StateFunction", policy: Policy) -> Policy:
        """What the policy selects, while the predicate of the state holds."""
        from weft.declare.checks import check_predicate

        check_predicate(predicate, where="C.when")
        if not isinstance(cast("object", policy), Policy):
            raise DeclarationError(
                f"{policy!r} is not a policy",
                where="C.when",
                hint='write C.when(lambda state: state["vip"], C.window(20))',
            )
        if policy.limit is not None:
            raise DeclarationError(
                f"{policy} has a budget, which covers the whole request",
                where="C.when",
                hint="write (C.when(...) + other).budget(8000)",
            )
        return _of(When(predicate, policy))


def _require_vectors(where: str) -> None:
    from weft.meaning import is_installed

    if not is_installed():
        raise DeclarationError(
            'scorer="embedding" needs word vectors, and none are installed',
            where=where,
            hint="pip install 'weft[embedding]', or leave scorer out",
        )


def _of(selector: Selector) -> Policy:
    return Policy((Stage(selector),))


C = Vocabulary()
"""The policies by name; `C.default()` is what an agent gets without one."""

_HINT = 'write a policy as in code, such as "C.auto()" or "C.window(5).compact()"'


def policy_from(text: str) -> Policy:
    """The policy that a text says, or an error that says what is wrong with it."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise DeclarationError(
            f"`{text}` is not an expression: {reason}", where="policy", hint=_HINT
        ) from None
    except (RecursionError, MemoryError):
        raise DeclarationError("it nests too deep", where="policy", hint=_HINT) from None
    policy = _evaluate(tree.body, text)
    if not isinstance(policy, Policy):
        raise DeclarationError(
            f"`{text}` is not a policy: it says what to do, but not with which items",
            where="policy",
            hint=f"begin with a selector: C.default().{text.strip().removeprefix('C.')}",
        )
    return policy


def _evaluate(node: ast.expr, text: str) -> object:
    """The value of one part of the expression."""
    if isinstance(node, ast.Name) and node.id == "C":
        return C
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return _apply_call(node, node.func, text)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.BitOr):
        one, other = _evaluate(node.left, text), _evaluate(node.right, text)
        if one is C or other is C:
            _refuse(node, text)
        joins = cast("Policy", one)
        return joins + cast("Policy", other) if isinstance(node.op, ast.Add) else joins | other
    _refuse(node, text)


def _apply_call(node: ast.Call, function: ast.Attribute, text: str) -> object:
    """What a word of `C`, or a verb of a policy, gives with these options."""
    value, word = _evaluate(function.value, text), function.attr
    if word.startswith("_"):
        _refuse(node, text)
    verb = cast("object", getattr(value, word, None))
    if not inspect.ismethod(verb) and not inspect.isfunction(verb):
        known = [name for name in dir(value) if not name.startswith("_")]
        raise DeclarationError(
            f"there is no `{word}` in `{ast.unparse(node)}`",
            where="policy",
            hint=suggest_names(word, known, most=1, cutoff=0.5) or f"there are: {', '.join(known)}",
        )
    if any(keyword.arg is None for keyword in node.keywords):
        _refuse(node, text)
    arguments = [_argument(one, text) for one in node.args]
    named = {one.arg or "": _argument(one.value, text) for one in node.keywords}
    return verb(*arguments, **named)


def _argument(node: ast.expr, text: str) -> object:
    """An option: a literal, or a policy of its own."""
    if isinstance(node, ast.Call):
        return _evaluate(node, text)
    try:
        return cast("object", ast.literal_eval(node))
    except (ValueError, TypeError):
        _refuse(node, text)


def _refuse(node: ast.expr, text: str) -> NoReturn:
    part = ast.get_source_segment(text.strip(), node) or ast.unparse(node)
    raise DeclarationError(
        f"`{part}` cannot stand in a policy that is typed: only C, its words and plain values can",
        where="policy",
        hint=_HINT,
    )
