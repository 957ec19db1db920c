"""Costly work that does not change inside a loop is done before it: the C compiler may not move calls with errno."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir, tirx

from .intrinsics import EXPENSIVE
from .text import intrinsic
from .walk import Expr, Stmt, all_statements, loads, operands, statement_expressions, statements, uses


def hoist_invariants(stmt: Stmt) -> Stmt:
    """The statement with invariant calls of costly intrinsics bound to variables before their loops."""
    if isinstance(stmt, tirx.SeqStmt):
        return tirx.SeqStmt([hoist_invariants(child) for child in stmt.seq])
    if isinstance(stmt, tirx.AttrStmt):
        return tirx.AttrStmt(stmt.node, stmt.attr_key, stmt.value, hoist_invariants(stmt.body))
    if isinstance(stmt, tirx.IfThenElse):
        otherwise = None if stmt.else_case is None else hoist_invariants(stmt.else_case)
        return tirx.IfThenElse(stmt.condition, hoist_invariants(stmt.then_case), otherwise)
    if isinstance(stmt, tirx.For):
        return _loop(stmt, hoist_invariants(stmt.body))
    return stmt


def _loop(loop: Any, body: Stmt) -> Stmt:
    bindings: list[Stmt] = []
    runs = isinstance(loop.extent, tirx.IntImm) and int(loop.extent) > 0
    for call in _candidates(body) if runs else []:
        if not _is_invariant(call, loop.loop_var, body) or any(_same(call, known.value) for known in bindings):
            continue
        variable = tirx.Var("invariant", str(call.ty.dtype))
        bindings.append(tirx.Bind(variable, call))
        body = _replace(body, call, variable)
    result = tirx.For(
        loop.loop_var, loop.min, loop.extent, loop.kind, body, loop.thread_binding, loop.annotations, loop.step
    )
    return tirx.SeqStmt([*bindings, result]) if bindings else result


def _same(first: Expr, second: Expr) -> bool:
    return bool(tvm_ffi.structural_equal(first, second))


def _candidates(stmt: Stmt) -> list[ir.Call]:
    """Costly calls a loop body evaluates in every iteration: not below conditions, which must stay lazy."""
    if isinstance(stmt, tirx.IfThenElse | tirx.While):
        return []
    found: list[ir.Call] = []
    for root in statement_expressions(stmt):
        _collect(root, found)
    for child in statements(stmt):
        found.extend(_candidates(child))
    return found


def _collect(expr: Expr, found: list[ir.Call]) -> None:
    if intrinsic(expr) == "if_then_else" or isinstance(expr, tirx.Select | tirx.And | tirx.Or):
        return
    if intrinsic(expr) in EXPENSIVE:
        found.append(expr)
    for operand in operands(expr):
        _collect(operand, found)


def _is_invariant(call: ir.Call, variable: ir.Var, body: Stmt) -> bool:
    """Nothing the call reads is defined or stored inside the loop."""
    if uses(call, variable):
        return False
    sources = [load.source for load in loads(call)]
    for stmt in all_statements(body):
        if isinstance(stmt, tirx.BufferStore | tirx.AllocBuffer) and any(stmt.buffer.same_as(item) for item in sources):
            return False
        if isinstance(stmt, tirx.Bind) and uses(call, stmt.var):
            return False
        if isinstance(stmt, tirx.For) and uses(call, stmt.loop_var):
            return False
    return True


def _replace(body: Stmt, call: ir.Call, variable: ir.Var) -> Stmt:
    def replace(candidate: ir.Call) -> Expr:
        return variable if _same(candidate, call) else candidate

    return tvm_ffi.structural_map(body, (ir.Call, replace))
