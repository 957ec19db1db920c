"""Padding guards: skip what adds nothing, as early as possible.

An inlined padding makes a reduction accumulate ``inside ? input : 0`` times a weight. Adding nothing when outside is
the same, without loading the weight, and most of the condition belongs to an outer loop::

    for rx { for rc { acc += (0 <= x + rx && x + rx < 8 ? in[..] : 0) * w[..]; } }
    for rx { if (0 <= x + rx && x + rx < 8) { for rc { acc += in[..] * w[..]; } } }

Sums start at +0, so that leaving out a term of +0 or -0 does not change them. (A padded weight of infinity or NaN would
differ: the reference kernels of all source frameworks skip the padding, too.)
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir, tirx

from .text import intrinsic
from .walk import Expr, Stmt, loads, uses


def hoist_guards(stmt: Stmt) -> Stmt:
    """The statement with guarded accumulations turned into ``if`` statements around as much as they govern."""
    if isinstance(stmt, tirx.SeqStmt):
        return _sequence([hoist_guards(child) for child in stmt.seq])
    if isinstance(stmt, tirx.For):
        return _loop(stmt, hoist_guards(stmt.body))
    if isinstance(stmt, tirx.AttrStmt):
        return tirx.AttrStmt(stmt.node, stmt.attr_key, stmt.value, hoist_guards(stmt.body))
    if isinstance(stmt, tirx.IfThenElse):
        otherwise = None if stmt.else_case is None else hoist_guards(stmt.else_case)
        return tirx.IfThenElse(stmt.condition, hoist_guards(stmt.then_case), otherwise)
    if isinstance(stmt, tirx.BufferStore):
        return _store(stmt)
    return stmt


def _sequence(children: list[Stmt]) -> Stmt:
    """Join neighbouring ``if`` statements of the same condition."""
    joined: list[Stmt] = []
    for child in children:
        previous: Any = joined[-1] if joined else None
        if _is_guard(child) and _is_guard(previous) and _same(child.condition, previous.condition):
            body = tirx.SeqStmt([*_flat(previous.then_case), *_flat(child.then_case)])
            joined[-1] = tirx.IfThenElse(child.condition, body, None)
        else:
            joined.append(child)
    return joined[0] if len(joined) == 1 else tirx.SeqStmt(joined)


def _flat(stmt: Stmt) -> list[Stmt]:
    return list(stmt.seq) if isinstance(stmt, tirx.SeqStmt) else [stmt]


def _is_guard(stmt: Stmt) -> bool:
    return isinstance(stmt, tirx.IfThenElse) and stmt.else_case is None and not loads(stmt.condition)


def _same(first: Expr, second: Expr) -> bool:
    return bool(tvm_ffi.structural_equal(first, second))


def _loop(loop: Any, body: Stmt) -> Stmt:
    inside: list[Expr] = []
    outside: list[Expr] = []
    if _is_guard(body):
        for term in _conjuncts(body.condition):
            (inside if uses(term, loop.loop_var) else outside).append(term)
    if outside:
        body = body.then_case if not inside else tirx.IfThenElse(_all(inside), body.then_case, None)
    result = tirx.For(
        loop.loop_var, loop.min, loop.extent, loop.kind, body, loop.thread_binding, loop.annotations, loop.step
    )
    return tirx.IfThenElse(_all(outside), result, None) if outside else result


def _conjuncts(condition: Expr) -> list[Expr]:
    if isinstance(condition, tirx.And):
        return [*_conjuncts(condition.a), *_conjuncts(condition.b)]
    return [condition]


def _all(terms: list[Expr]) -> Expr:
    condition = terms[0]
    for term in terms[1:]:
        condition = tirx.And(condition, term)
    return condition


def _store(store: Any) -> Stmt:
    """``acc = acc + guarded`` as ``if (guard) acc = acc + value``, and likewise for max and min."""
    value = store.value
    if not isinstance(value, tirx.Add | tirx.Max | tirx.Min):
        return store
    if _is_load_of(value.a, store):
        accumulator, term = value.a, value.b
    elif _is_load_of(value.b, store):
        accumulator, term = value.b, value.a
    else:
        return store
    found = _neutral(term, type(value))
    if found is None or loads(found[0]):
        return store
    condition, rest = found
    update = tirx.BufferStore(store.buffer, type(value)(accumulator, rest), store.indices)
    return tirx.IfThenElse(condition, update, None)


def _is_load_of(expr: Expr, store: Any) -> bool:
    return (
        isinstance(expr, ir.TensorLoad)
        and expr.source.same_as(store.buffer)
        and all(_same(left, right) for left, right in zip(expr.indices, store.indices, strict=True))
    )


def _neutral(term: Expr, combiner: type) -> tuple[Expr, Expr] | None:
    """Condition without which a term changes nothing, and the term when it holds."""
    if intrinsic(term) == "if_then_else":
        condition, value, otherwise = term.args
        return (condition, value) if _is_identity(otherwise, combiner) else None
    if combiner is tirx.Add and isinstance(term, tirx.Mul):
        for position, factor in enumerate((term.a, term.b)):
            found = _neutral(factor, combiner)
            if found is not None:
                rest = (found[1], term.b) if position == 0 else (term.a, found[1])
                return found[0], tirx.Mul(*rest)
    if combiner is tirx.Add and isinstance(term, tirx.Cast):
        found = _neutral(term.value, combiner)
        return None if found is None else (found[0], tirx.Cast(term.ty, found[1]))
    return None


def _is_identity(value: Expr, combiner: type) -> bool:
    if not isinstance(value, tirx.IntImm | tirx.FloatImm):
        return False
    if combiner is tirx.Add:
        return float(value.value) == 0.0
    dtype = str(value.ty.dtype)
    limit = tirx.min_value(dtype) if combiner is tirx.Max else tirx.max_value(dtype)
    return bool(value.value == limit.value)
