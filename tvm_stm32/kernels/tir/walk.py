"""Reading TIR: children of expressions and statements, buffers they touch. TVM offers no visitor in Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tvm import ir, tirx

Expr = Any  # TVM's classes carry no type information
Stmt = Any


def operands(expr: Expr) -> list[Expr]:
    """Direct operands of an expression; those of a load are its indices."""
    if isinstance(expr, ir.TensorLoad):
        return list(expr.indices)
    if isinstance(expr, ir.Call):
        return list(expr.args)
    if isinstance(expr, tirx.Cast | tirx.Broadcast):
        return [expr.value]
    if isinstance(expr, tirx.Select):
        return [expr.condition, expr.true_value, expr.false_value]
    if isinstance(expr, tirx.Let):
        return [expr.value, expr.body]
    if isinstance(expr, tirx.Not | tirx.BitwiseNot):
        return [expr.a]
    if hasattr(expr, "a") and hasattr(expr, "b"):
        return [expr.a, expr.b]
    return []


def expressions(expr: Expr) -> Iterator[Expr]:
    """The expression and everything below it, parents first."""
    yield expr
    for operand in operands(expr):
        yield from expressions(operand)


def loads(expr: Expr) -> list[ir.TensorLoad]:
    """Every load below an expression, in the order of evaluation of its text."""
    return [node for node in expressions(expr) if isinstance(node, ir.TensorLoad)]


def uses(expr: Expr, variable: ir.Var) -> bool:
    """Whether an expression mentions a variable."""
    return any(isinstance(node, ir.Var) and node.same_as(variable) for node in expressions(expr))


def statements(stmt: Stmt) -> list[Stmt]:
    """Direct child statements."""
    if isinstance(stmt, tirx.SeqStmt):
        return list(stmt.seq)
    if isinstance(stmt, tirx.IfThenElse):
        return [stmt.then_case] if stmt.else_case is None else [stmt.then_case, stmt.else_case]
    if isinstance(stmt, tirx.For | tirx.While | tirx.AttrStmt):
        return [stmt.body]
    return []


def all_statements(stmt: Stmt) -> Iterator[Stmt]:
    """The statement and everything below it, in program order."""
    yield stmt
    for child in statements(stmt):
        yield from all_statements(child)


def statement_expressions(stmt: Stmt) -> list[Expr]:
    """Expressions a statement evaluates itself, without those of its children."""
    if isinstance(stmt, tirx.BufferStore):
        return [*stmt.indices, stmt.value]
    if isinstance(stmt, tirx.For):
        return [stmt.min, stmt.extent]
    if isinstance(stmt, tirx.IfThenElse | tirx.While):
        return [stmt.condition]
    if isinstance(stmt, tirx.Bind | tirx.Evaluate):
        return [stmt.value]
    if isinstance(stmt, tirx.DeclBuffer):
        return [stmt.data]
    return []


def accesses(stmt: Stmt) -> Iterator[tuple[ir.Var, list[Expr]]]:
    """Buffer and indices of every load and store below a statement, and buffers whose address is taken (no indices)."""
    for inner in all_statements(stmt):
        if isinstance(inner, tirx.BufferStore):
            yield inner.buffer, list(inner.indices)
        for root in statement_expressions(inner):
            for node in expressions(root):
                if isinstance(node, ir.TensorLoad):
                    yield node.source, list(node.indices)
                elif tirx.is_buffer_var(node):
                    yield node, []
