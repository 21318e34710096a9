"""The JSON type of an expression of a function, where it can be seen."""

import ast

_CALLS = {
    "str": "string", "len": "number", "int": "number", "float": "number", "round": "number",
    "list": "array", "sorted": "array", "bool": "boolean", "dict": "object",
}  # fmt: skip


def kind_of(node: ast.AST | None) -> str:
    """The JSON type of an expression, or nothing where it cannot be seen."""
    match node:
        case ast.Constant(value=bool()):
            return "boolean"
        case ast.Constant(value=str()) | ast.JoinedStr():
            return "string"
        case ast.Constant(value=int() | float()):
            return "number"
        case ast.List() | ast.ListComp():
            return "array"
        case ast.Dict() | ast.DictComp():
            return "object"
        case ast.Call(func=ast.Name(id=name)):
            return _CALLS.get(name, "")
        case ast.Call(func=ast.Attribute(attr="split" | "splitlines")):
            return "array"
        case ast.Call(func=ast.Attribute(attr="join" | "strip" | "lower" | "upper" | "title")):
            return "string"
        case ast.Compare():
            return "boolean"
        case _:
            return ""


def texts_of(node: ast.AST | None) -> frozenset[str]:
    """The texts of which an expression is one, where they stand there; none where they do not."""
    match node:
        case ast.Constant(value=str() as text):
            return frozenset((text,))
        case ast.IfExp(body=body, orelse=orelse):
            one, other = texts_of(body), texts_of(orelse)
            return one | other if one and other else frozenset()
        case _:
            return frozenset()


def is_none(node: ast.AST) -> bool:
    """Whether an expression is None as it stands there."""
    return isinstance(node, ast.Constant) and node.value is None


def is_number(node: ast.AST) -> bool:
    """Whether an expression is a number as it stands there."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
    )
