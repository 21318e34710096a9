"""A policy that somebody typed: `C.window(5).compact()` as text becomes the policy itself.

Nothing is evaluated: the text is read as an expression of `C`, its words, literals, `+` and `|`.
"""

import ast
import difflib
import inspect
from typing import NoReturn, cast

from weft.declare import C, Policy
from weft.errors import DeclarationError

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
    made = _made(tree.body, text)
    if not isinstance(made, Policy):
        raise DeclarationError(
            f"`{text}` is no policy: it says what to do, but not with which items",
            where="policy",
            hint=f"begin with a selector: C.default().{text.strip().removeprefix('C.')}",
        )
    return made


def _made(node: ast.expr, text: str) -> object:
    """The value of one part of the expression."""
    if isinstance(node, ast.Name) and node.id == "C":
        return C
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return _called(node, node.func, text)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.BitOr):
        left, right = _made(node.left, text), _made(node.right, text)
        if left is C or right is C:
            _refuse(node, text)
        joins = cast("Policy", left)
        return joins + cast("Policy", right) if isinstance(node.op, ast.Add) else joins | right
    _refuse(node, text)


def _called(node: ast.Call, function: ast.Attribute, text: str) -> object:
    """What a word of `C`, or a verb of a policy, gives with these options."""
    held, word = _made(function.value, text), function.attr
    if word.startswith("_"):
        _refuse(node, text)
    verb = cast("object", getattr(held, word, None))
    if not inspect.ismethod(verb) and not inspect.isfunction(verb):
        known = [name for name in dir(held) if not name.startswith("_")]
        near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
        raise DeclarationError(
            f"there is no `{word}` in `{ast.unparse(node)}`",
            where="policy",
            hint=f"did you mean `{near[0]}`?" if near else f"there are: {', '.join(known)}",
        )
    if any(keyword.arg is None for keyword in node.keywords):
        _refuse(node, text)
    given = [_argument(one, text) for one in node.args]
    named = {one.arg or "": _argument(one.value, text) for one in node.keywords}
    return verb(*given, **named)


def _argument(node: ast.expr, text: str) -> object:
    """An option: a literal, or a policy of its own."""
    if isinstance(node, ast.Call):
        return _made(node, text)
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
