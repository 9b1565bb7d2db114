"""The places of a file that `tests.simulation.guards` changes, by kind, with the new code.

`condition`: a comparison becomes its neighbour (`<` becomes `<=`, `==` becomes `!=`), a condition and an operand of
`and` and `or` its opposite, `and` becomes `or`, `not x` becomes `x`. `assignment`: an assignment to an attribute, an
item or a name with a value is left out, and so is a field of `replace(...)`. `argument`: two adjacent arguments are
swapped, or a keyword is left out. `order`: a call that is a statement is left out, or swapped with the next call.

Asserts, log lines and prints are no places. All kinds but conditions are looked for in functions only.
"""

import ast
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

KINDS = ("condition", "assignment", "argument", "order")
SWAPS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
LEFT_OUT = "left out"
_NO_PLACES = ("log", "print")
_SAME_EITHER_WAY = ("min", "max")
_Bound = frozenset[str] | None  # the names with a value in this function; None = outside of functions


class Place(NamedTuple):
    """Old and new code, as text and as a part of the tree: `holder[at]` becomes `new`."""

    kind: str
    line: int
    text: str
    changed: str
    holder: Any
    at: str | int | slice
    new: Any

    def change(self) -> None:
        self.holder[self.at] = self.new


def places(tree: ast.Module) -> list[Place]:
    """Return all places of a file; any single place can be changed on this tree."""
    return list(_inside(tree, None))


def _inside(node: ast.AST, outer: _Bound) -> Iterator[Place]:
    for field, value in ast.iter_fields(node):
        bound = _bound_in(node, field, outer)
        holder = value if isinstance(value, list) else vars(node)
        for at, child in list(enumerate(value)) if isinstance(value, list) else [(field, value)]:
            if not isinstance(child, ast.AST) or _is_none(child):
                continue
            yield from _inside(child, bound)
            if isinstance(child, ast.expr):
                for kind, new in _changes(child):
                    if kind == "condition" or bound is not None:
                        yield Place(kind, child.lineno, ast.unparse(child), ast.unparse(new), holder, at, new)
                if field in ("test", "ifs") and not _is_changed_itself(child):
                    texts = f"if {ast.unparse(child)}", f"if {ast.unparse(_not(child))}"
                    yield Place("condition", child.lineno, *texts, holder, at, _not(child))
            elif isinstance(child, ast.stmt) and bound is not None:
                yield from _statement(holder, int(at), bound)
                bound |= _binds(child)


def _bound_in(node: ast.AST, field: str, outer: _Bound) -> _Bound:
    """Return the names with a value where this field of the node begins."""
    if isinstance(node, ast.ClassDef):
        return None
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        return (
            frozenset(one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)) if field == "body" else outer
        )
    if outer is None:
        return None
    if isinstance(node, (ast.For, ast.AsyncFor)):
        return outer | _stored(node.target) if field == "body" else outer
    return outer | _with(node) if isinstance(node, (ast.With, ast.AsyncWith)) else outer


def _binds(statement: ast.stmt) -> frozenset[str]:
    """Return the names that surely have a value after it."""
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        return _with(statement).union(*map(_binds, statement.body))
    has_value = isinstance(statement, ast.Assign) or (isinstance(statement, ast.AnnAssign) and statement.value)
    return _stored(statement) if has_value else frozenset()


def _with(node: ast.With | ast.AsyncWith) -> frozenset[str]:
    return frozenset().union(*(_stored(one.optional_vars) for one in node.items if one.optional_vars))


def _stored(node: ast.AST) -> frozenset[str]:
    return frozenset(one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))


def _statement(block: list[ast.stmt], at: int, bound: frozenset[str]) -> Iterator[Place]:
    one = block[at]
    text = ast.unparse(one)
    # A condition that never holds: a function keeps all names and free variables.
    nothing = ast.If(ast.Constant(False), [one], [])
    if _is_left_out(one, bound):
        yield Place("assignment", one.lineno, text, LEFT_OUT, block, at, nothing)
    if _is_call(one):
        yield Place("order", one.lineno, text, LEFT_OUT, block, at, nothing)
        for other in block[at + 1 : at + 2]:
            if _is_call(other) and not _is_none(other) and ast.dump(one) != ast.dump(other):
                texts = f"{text}; {ast.unparse(other)}", f"{ast.unparse(other)}; {text}"
                yield Place("order", one.lineno, *texts, block, slice(at, at + 2), [other, one])


def _is_left_out(statement: ast.stmt, bound: frozenset[str]) -> bool:
    """Return whether the statement assigns, and all names have a value without it."""
    if isinstance(statement, ast.AugAssign):
        return True
    if isinstance(statement, ast.AnnAssign) and statement.value is None:
        return False
    return isinstance(statement, (ast.Assign, ast.AnnAssign)) and _stored(statement) <= bound


def _is_call(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)


def _is_none(node: ast.AST) -> bool:
    """An assert, a log line or a print."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return ast.unparse(node.value.func).split(".")[0] in _NO_PLACES
    return isinstance(node, ast.Assert)


def _not(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


def _changes(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Compare):
        for at, op in enumerate(node.ops):
            ops = [*node.ops[:at], SWAPS[type(op)](), *node.ops[at + 1 :]]
            yield "condition", ast.Compare(node.left, ops, node.comparators)
    elif isinstance(node, ast.BoolOp):
        yield "condition", ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        for at, value in enumerate(node.values):
            if not _is_changed_itself(value):
                yield "condition", ast.BoolOp(node.op, [*node.values[:at], _not(value), *node.values[at + 1 :]])
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "condition", node.operand
    elif isinstance(node, ast.Call):
        yield from _calls(node)


def _calls(node: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    for at, (one, other) in enumerate(pairwise(node.args)):
        if ast.dump(one) != ast.dump(other) and name not in _SAME_EITHER_WAY:
            swapped = [*node.args[:at], other, one, *node.args[at + 2 :]]
            yield "argument", ast.Call(node.func, swapped, node.keywords)
    for at, keyword in enumerate(node.keywords):
        if keyword.arg is not None:
            left = [*node.keywords[:at], *node.keywords[at + 1 :]]
            yield "assignment" if name == "replace" else "argument", ast.Call(node.func, node.args, left)


def _is_changed_itself(test: ast.expr) -> bool:
    return isinstance(test, (ast.Compare, ast.BoolOp)) or (
        isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    )
