"""Pieces of C text: an expression and how tightly its outermost operator binds."""

from __future__ import annotations

from typing import NamedTuple

from tvm import ir

from .walk import Expr

ATOM, UNARY, MUL, ADD, SHIFT, COMPARE, EQUAL, BIT, AND, OR, TERNARY = range(15, 4, -1)


class Text(NamedTuple):
    """C text and the precedence of its outermost operator."""

    text: str
    level: int

    def within(self, level: int) -> str:
        """The text as an operand of an operator that needs at least ``level``."""
        return self.text if self.level >= level else f"({self.text})"


def atom(text: str) -> Text:
    """A name, literal, call or subscript; literals may be negative."""
    return Text(text, UNARY if text.startswith("-") else ATOM)


def as_byte(result: Text, dtype: str) -> str:
    """The right side of an assignment: truth values (int in C) become bytes."""
    return f"(uint8_t)({result.text})" if dtype == "bool" else result.text


def dtype_of(expr: Expr) -> str:
    """Element type of an expression."""
    return str(expr.ty.dtype)


def intrinsic(expr: Expr) -> str:
    """Name of the intrinsic an expression calls, without its dialect (``exp``, ``if_then_else``), or ``""``."""
    return str(expr.op.name).rpartition(".")[2] if isinstance(expr, ir.Call) and isinstance(expr.op, ir.Op) else ""
