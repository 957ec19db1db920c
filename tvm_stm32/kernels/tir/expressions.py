"""Printing TIR expressions as C99.

An expression becomes one C expression; what C cannot express without evaluating an operand twice (max, floor division)
goes into ``const`` temporaries written before the statement. Branches stay lazy: an operand of a conditional that needs
temporaries turns the conditional into an ``if`` statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import tvm_ffi
from tvm import ir, tirx

from ...errors import UnsupportedOperatorError
from .bounds import Bounds
from .calls import call
from .intrinsics import LIBM
from .literals import PROMOTED, c_type, float_literal, int_literal
from .text import (
    ADD,
    AND,
    ATOM,
    BIT,
    COMPARE,
    EQUAL,
    MUL,
    OR,
    SHIFT,
    TERNARY,
    UNARY,
    Text,
    as_byte,
    atom,
    dtype_of,
    intrinsic,
)
from .walk import Expr, operands
from .walk import expressions as all_nodes
from .writer import Buffer, Writer

_LITERAL = re.compile(r"-?[\w.]+|INT64_C\(-?\d+\)")
_SHORT = 20  # characters of an operand that may be repeated in the text

_ARITHMETIC = {tirx.Add: ("+", ADD), tirx.Sub: ("-", ADD), tirx.Mul: ("*", MUL)}
_COMPARISONS = {
    tirx.LT: ("<", COMPARE),
    tirx.LE: ("<=", COMPARE),
    tirx.GT: (">", COMPARE),
    tirx.GE: (">=", COMPARE),
    tirx.EQ: ("==", EQUAL),
    tirx.NE: ("!=", EQUAL),
}
_BITWISE = {tirx.BitwiseAnd: "&", tirx.BitwiseOr: "|", tirx.BitwiseXor: "^", tirx.LShift: "<<", tirx.RShift: ">>"}


# Exact in int32 when all operands are: see ExpressionPrinter._narrow.
_NARROWABLE = (tirx.Min, tirx.Max, tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod, tirx.Select, tirx.Cast)


class ExpressionPrinter:
    """Turns expressions into text; temporaries go to the writer."""

    def __init__(self, writer: Writer, bounds: Bounds) -> None:
        self.writer = writer
        self.bounds = bounds
        self.variables: dict[ir.Var, Text] = {}
        self.narrowed: set[ir.Var] = set()  # int64 variables kept in an int32_t
        self.buffers: dict[ir.Var, Buffer] = {}
        self._narrowing = False  # int64 index arithmetic is being written in int32
        self._temporaries: dict[tuple[str, str], str] = {}  # of the current statement: (text, type) -> name
        self._repeated: set[int] = set()  # calls the current statement makes more than once

    def begin_statement(self, expressions: list[Expr]) -> None:
        """Forget temporaries of the previous statement; note which calls this one would make twice."""
        self._temporaries.clear()
        seen: set[int] = set()
        self._repeated.clear()
        for root in expressions:
            for node in all_nodes(root):
                if isinstance(node, ir.Call) and intrinsic(node) in LIBM:
                    key = tvm_ffi.structural_hash(node, map_free_vars=False)
                    (self._repeated if key in seen else seen).add(key)

    def value(self, expr: Expr) -> str:
        """Text of a value of the expression's type, as the right side of an assignment."""
        return self._boolean_as_byte(expr) if dtype_of(expr) == "bool" else self.text(expr).text

    def condition(self, expr: Expr) -> Text:
        """Text of a truth value."""
        result = self.text(expr)
        if isinstance(expr, ir.TensorLoad | ir.Var):
            return Text(f"{result.text} != 0", EQUAL)
        return result

    def _boolean_as_byte(self, expr: Expr) -> str:
        result = self.text(expr)
        return result.text if isinstance(expr, ir.TensorLoad | ir.Var) else f"(uint8_t)({result.text})"

    def index(self, expr: Expr) -> str:
        """Text of an index, in int32 arithmetic wherever that cannot overflow."""
        return self._narrow(expr).text

    def text(self, expr: Expr) -> Text:
        """Text and precedence of an expression."""
        dtype = dtype_of(expr)
        if dtype == "int64" and self._narrowing:
            return self._narrow(expr)
        return self._switch(False, expr, dtype)

    def _switch(self, narrowing: bool, expr: Expr, dtype: str) -> Text:
        """Text of an expression computed in ``dtype``, with or without narrowing its operands."""
        kept, self._narrowing = self._narrowing, narrowing
        try:
            return self._text(expr, dtype)
        finally:
            self._narrowing = kept

    def _text(self, expr: Expr, dtype: str) -> Text:
        if dtype == "float32":
            self.writer.uses_float = True
        kind = type(expr)
        if isinstance(expr, tirx.IntImm):
            return atom(int_literal(int(expr.value), dtype))
        if isinstance(expr, tirx.FloatImm):
            c_type(dtype)
            return atom(float_literal(float(expr.value)))
        if isinstance(expr, ir.Var):
            return self.variables[expr]
        if isinstance(expr, ir.TensorLoad):
            return self._load(expr)
        if isinstance(expr, tirx.Cast):
            return self._cast(expr.value, dtype)
        if kind in _ARITHMETIC:
            return self._arithmetic(expr, dtype)
        if kind in _COMPARISONS:
            return self._comparison(expr)
        if kind in _BITWISE:
            return self._bitwise(expr, dtype)
        if isinstance(expr, tirx.Min | tirx.Max):
            return self._extremum(expr, dtype)
        if isinstance(expr, tirx.And | tirx.Or):
            return self._logical(expr)
        if isinstance(expr, tirx.Not):
            return Text(f"!({self.condition(expr.a).text})", UNARY)
        if isinstance(expr, tirx.BitwiseNot):
            return self.wrapped(Text(f"~{self.text(expr.a).within(UNARY)}", UNARY), dtype)
        if isinstance(expr, tirx.Div | tirx.Mod | tirx.FloorDiv | tirx.FloorMod):
            return self._division(expr, dtype)
        if isinstance(expr, tirx.Select):
            return self._conditional(expr.condition, expr.true_value, expr.false_value, dtype)
        if isinstance(expr, tirx.Let):
            self.bind(expr.var, expr.value)
            return self.text(expr.body)
        if isinstance(expr, ir.Call):
            return self._call(expr, dtype)
        raise UnsupportedOperatorError(f"expression '{kind.__name__}' cannot be written in C")

    def bind(self, variable: ir.Var, value: Expr) -> None:
        """Write ``const T name = value;`` and let the variable stand for it."""
        self.begin_statement([value])
        dtype = dtype_of(value)
        if dtype == "int64" and self.bounds.fits_int32(value):
            self.narrowed.add(variable)
            dtype = "int32"
        text = self._narrow(value) if dtype == "int32" and dtype_of(value) == "int64" else self.text(value)
        if dtype == "bool":
            text = Text(self._boolean_as_byte(value), UNARY)
        plain = text.text.isalnum() and isinstance(value, ir.Var | tirx.Cast | ir.Constant)
        self.variables[variable] = text if plain else self.temporary(text.text, dtype)
        self.bounds.define(variable, value)

    def temporary(self, text: str, dtype: str) -> Text:
        """A ``const`` variable holding the text's value; the same one for the same text within a statement."""
        key = (text, dtype)
        if key not in self._temporaries:
            name = self.writer.fresh("at" if dtype in ("int32", "int64") else "t")
            self.writer.line(f"const {c_type(dtype)} {name} = {text};")
            self._temporaries[key] = name
        return atom(self._temporaries[key])

    @contextmanager
    def _branch(self) -> Iterator[list[str]]:
        """Lines of a lazily evaluated operand; its temporaries are not visible afterwards."""
        kept = dict(self._temporaries)
        with self.writer.captured(1) as lines:
            yield lines
        self._temporaries = kept

    def repeatable(self, result: Text, dtype: str) -> Text:
        """The text itself when it is short and plain, otherwise a temporary holding it."""
        plain = bool(_LITERAL.fullmatch(result.text))
        plain = plain or (result.level == ATOM and len(result.text) <= _SHORT and "(" not in result.text)
        return result if plain else self.temporary(result.text, dtype)

    def _load(self, expr: ir.TensorLoad) -> Text:
        buffer = self.buffers[expr.source]
        self.writer.used.add(buffer.name)
        if buffer.elements:
            return atom(buffer.elements[int(expr.indices[0])])
        return atom(f"{buffer.name}[{self.index(expr.indices[0])}]")

    def _cast(self, value: Expr, dtype: str) -> Text:
        source = dtype_of(value)
        if source == "int64" and dtype == "int32":
            return (
                self._narrow(value)
                if self.bounds.fits_int32(value)
                else Text(f"(int32_t){self.text(value).within(UNARY)}", UNARY)
            )
        inner = self.condition(value) if source == "bool" else self.text(value)
        if source == dtype:
            return inner
        if dtype == "bool":
            zero = "0.0f" if source == "float32" else "0"
            return Text(f"{inner.within(EQUAL + 1)} != {zero}", EQUAL)
        return Text(f"({c_type(dtype)}){inner.within(UNARY)}", UNARY)

    def wrapped(self, result: Text, dtype: str) -> Text:
        """Bring an int result back to a type smaller than int."""
        if dtype not in PROMOTED or dtype == "bool":
            return result
        return Text(f"({c_type(dtype)}){result.within(ATOM)}", UNARY)

    def _operand(self, expr: Expr) -> Text:
        """An operand of arithmetic: int64 loop variables are held in int32_t and widened here."""
        result = self.text(expr)
        if isinstance(expr, ir.Var) and expr in self.narrowed and not self._narrowing:
            return Text(f"(int64_t){result.text}", UNARY)
        return result

    def _arithmetic(self, expr: Expr, dtype: str) -> Text:
        sign, level = _ARITHMETIC[type(expr)]
        left, right = self._operand(expr.a), self._operand(expr.b)
        text = f"{left.within(level)} {sign} {_subtrahend(right, level)}"
        return self.wrapped(Text(text, level), dtype)

    def _comparison(self, expr: Expr) -> Text:
        sign, level = _COMPARISONS[type(expr)]
        if dtype_of(expr.a) == "bool":
            left, right = self.condition(expr.a), self.condition(expr.b)
        elif dtype_of(expr.a) in ("int32", "int64"):
            left, right = self._comparand(expr.a), self._comparand(expr.b)
        else:
            left, right = self.text(expr.a), self.text(expr.b)
        return Text(f"{left.within(SHIFT + 1)} {sign} {right.within(SHIFT + 1)}", level)

    def _comparand(self, expr: Expr) -> Text:
        return self._narrow(expr) if self.bounds.fits_int32(expr) else self.text(expr)

    def _bitwise(self, expr: Expr, dtype: str) -> Text:
        left, right = self._operand(expr.a), self._operand(expr.b)
        if dtype == "bool":
            left, right = self.condition(expr.a), self.condition(expr.b)
        if isinstance(expr, tirx.LShift) and dtype in ("int8", "int16", "int32", "int64"):
            # C leaves the left shift of a negative number undefined.
            kind = c_type(f"u{dtype}" if dtype == "int64" else "uint32")
            return Text(f"({c_type(dtype)})(({kind}){left.within(UNARY)} << {right.within(UNARY)})", UNARY)
        result = Text(f"{left.within(UNARY)} {_BITWISE[type(expr)]} {right.within(UNARY)}", BIT)
        return self.wrapped(result, dtype)

    def _extremum(self, expr: Expr, dtype: str) -> Text:
        left = self.repeatable(self.text(expr.a), dtype)
        right = self.repeatable(self.text(expr.b), dtype)
        sign = ">" if isinstance(expr, tirx.Max) else "<"
        choice = f"{left.within(SHIFT)} {sign} {right.within(SHIFT)} ? {left.text} : {right.text}"
        return self.wrapped(Text(choice, TERNARY), dtype)

    def _logical(self, expr: Expr) -> Text:
        sign, level = ("&&", AND) if isinstance(expr, tirx.And) else ("||", OR)
        left = self.condition(expr.a)
        with self._branch() as before:
            right = self.condition(expr.b)
        if before:
            name = self.writer.fresh("t")
            self.writer.line(f"uint8_t {name} = (uint8_t)({left.text});")
            with self.writer.block(f"if ({name} {'!=' if level == AND else '=='} 0)"):
                self.writer.lines.extend(before)
                self.writer.line(f"{name} = (uint8_t)({right.text});")
            return Text(f"{name} != 0", EQUAL)
        sides = [
            side.text if side.level in (level, *range(BIT + 1, 16)) else f"({side.text})" for side in (left, right)
        ]
        return Text(f"{sides[0]} {sign} {sides[1]}", level)

    def _division(self, expr: Expr, dtype: str) -> Text:
        remainder = isinstance(expr, tirx.Mod | tirx.FloorMod)
        left, right = self._operand(expr.a), self._operand(expr.b)
        if dtype == "float32" and not remainder:
            return Text(f"{left.within(MUL)} / {right.within(MUL + 1)}", MUL)
        if dtype == "float32" and isinstance(expr, tirx.Mod):
            self.writer.libm.add("fmodf")
            return atom(f"fmodf({left.text}, {right.text})")
        sign = "%" if remainder else "/"
        truncating = isinstance(expr, tirx.Div | tirx.Mod) or dtype.startswith("uint")
        positive = isinstance(expr.b, tirx.IntImm) and int(expr.b.value) > 0
        if truncating or (positive and self._minimum(expr.a) >= 0):
            return self.wrapped(Text(f"{left.within(MUL)} {sign} {right.within(MUL + 1)}", MUL), dtype)
        return self._floor_division(left, right, remainder, positive, dtype)

    def _floor_division(self, left: Text, right: Text, remainder: bool, positive: bool, dtype: str) -> Text:
        wide = "int64" if dtype == "int64" else "int32"  # what C computes in
        left, right = self.repeatable(left, wide), self.repeatable(right, wide)
        rest = self.temporary(f"{left.text} % {right.text}", wide).text
        crossed = f"{rest} < 0" if positive else f"{rest} != 0 && ({rest} < 0) != ({right.text} < 0)"
        if remainder:
            result = Text(f"{rest} + ({crossed} ? {right.text} : 0)", ADD)
        else:
            result = Text(f"{left.text} / {right.text} - ({crossed} ? 1 : 0)", ADD)
        return self.wrapped(result, dtype)

    def _minimum(self, expr: Expr) -> float:
        """The least value an integer expression can have."""
        return 0 if dtype_of(expr).startswith("uint") else self.bounds.interval(expr).low

    def _conditional(self, condition: Expr, true: Expr, false: Expr, dtype: str) -> Text:
        test = self.condition(condition)
        with self._branch() as first:
            left = self.text(true)
        with self._branch() as second:
            right = self.text(false)
        if not first and not second:
            choice = f"{test.within(BIT)} ? {left.within(BIT)} : {right.within(TERNARY)}"
            return self.wrapped(Text(choice, TERNARY), dtype)
        name = self.writer.fresh("t")
        self.writer.line(f"{c_type(dtype)} {name};")
        with self.writer.block(f"if ({test.text})", "} else {"):
            self.writer.lines.extend(first)
            self.writer.line(f"{name} = {as_byte(left, dtype)};")
        self.writer.lines.extend(second)
        self.writer.line(f"    {name} = {as_byte(right, dtype)};")
        self.writer.line("}")
        return atom(name) if dtype != "bool" else Text(f"{name} != 0", EQUAL)

    def _narrow(self, expr: Expr) -> Text:
        """An int64 index in int32 arithmetic; other types as they are.

        An index addresses memory, so it fits; sums and products of its parts agree modulo 2^32. Other operations (and
        comparisons, which come here when both sides fit) are done in int32 only where every operand fits.
        """
        if dtype_of(expr) != "int64":
            return self.text(expr)
        if isinstance(expr, ir.Var) and expr in self.narrowed:
            return self.variables[expr]
        if isinstance(expr, tirx.IntImm):
            return atom(int_literal(int(expr.value), "int32"))
        if isinstance(expr, tirx.Cast) and dtype_of(expr.value) in PROMOTED | {"int32"}:
            return self.text(expr.value)
        conditional = isinstance(expr, ir.Call) and intrinsic(expr) == "if_then_else"
        exact = isinstance(expr, _NARROWABLE) or conditional
        fits = exact and all(self.bounds.fits_int32(operand) for operand in operands(expr))
        if type(expr) in _ARITHMETIC or fits:
            return self._switch(True, expr, "int32")
        return Text(f"(int32_t){self._switch(False, expr, 'int64').within(UNARY)}", UNARY)

    def _call(self, expr: ir.Call, dtype: str) -> Text:
        if intrinsic(expr) == "if_then_else":
            return self._conditional(expr.args[0], expr.args[1], expr.args[2], dtype)
        if intrinsic(expr) == "likely":
            return self.condition(expr.args[0]) if dtype == "bool" else self.text(expr.args[0])
        result = call(self, expr, dtype)
        return (
            self.temporary(result.text, dtype)
            if tvm_ffi.structural_hash(expr, map_free_vars=False) in self._repeated
            else result
        )


def _subtrahend(right: Text, level: int) -> str:
    """The right operand: parenthesized at the same level, too, so that floating point keeps its order."""
    return right.within(level + 1)
