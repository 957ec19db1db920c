"""Data types, ``match`` and reference cells: they fold away while a model is translated, or end in an error."""

from __future__ import annotations

from . import ast
from .source import Source
from .values import Cell, Data, Value, describe


def constructed(source: Source, constructor: str, wanted: int, args: list[Value], at: int) -> Data:
    """A constructor applied to its fields."""
    if len(args) != wanted:
        raise source.error(at, f"constructor {constructor} has {len(args)} fields where {wanted} should be")
    return Data(constructor, tuple(args))


def chosen(source: Source, match: ast.Match, value: Value) -> tuple[dict[str, Value], ast.Expr]:
    """The first clause of a match that fits ``value``: the names it binds and its expression.

    Raises ``ModelError`` when none does, or when it depends on a value the model computes.
    """
    for pattern, expr in match.clauses:
        names: dict[str, Value] = {}
        if _fits(source, pattern, value, names):
            return names, expr
    raise source.error(match.at, f"no clause of the match fits {describe(value)}")


def _fits(source: Source, pattern: ast.Pattern, value: Value, names: dict[str, Value]) -> bool:
    if isinstance(pattern, ast.AnyPattern):
        if pattern.name:
            names[pattern.name] = value
        return True
    if pattern.constructor:
        if not isinstance(value, Data) or value.fields is None:
            raise source.error(
                pattern.at,
                f"match cannot be compiled: {describe(value)} is compared with constructor {pattern.constructor}",
                why="a match folds away when the constructor is known; data types have no form in memory",
            )
        fields: tuple[Value, ...] = value.fields
        if value.constructor != pattern.constructor:
            return False
    elif isinstance(value, tuple):
        fields = value
    else:
        raise source.error(pattern.at, f"match cannot be compiled: {describe(value)} is compared with a tuple")
    if len(fields) != len(pattern.fields):
        raise source.error(pattern.at, f"a pattern of {len(pattern.fields)} fields for {describe(value)}")
    pairs = zip(pattern.fields, fields, strict=True)
    return all(_fits(source, inner, field, names) for inner, field in pairs)


def reference(source: Source, expr: ast.Reference, args: list[Value], level: int) -> Value:
    """``ref``, ``ref_read`` or ``ref_write``; ``level`` counts the undecided branches around it.

    The order of evaluation is that of the file, so a cell is its latest value, and only a write that may not happen
    cannot be followed.
    """
    wanted = 2 if expr.what == "ref_write" else 1
    if len(args) != wanted:
        raise source.error(expr.at, f"{expr.what} has {len(args)} arguments where {wanted} should be")
    if expr.what == "ref":
        return Cell(args[0], level)
    cell = args[0]
    if not isinstance(cell, Cell):
        raise source.error(expr.at, f"{expr.what} of {describe(cell)}", why="its first argument is a reference cell")
    if expr.what == "ref_read":
        return cell.value
    if cell.level < level:
        raise source.error(
            expr.at,
            "ref_write cannot be compiled in a branch whose condition the model computes",
            why="reference cells fold away, and whether this write happens is not known",
            hint="let the branches return the new value, and write it behind them",
        )
    cell.value = args[1]
    return ()
