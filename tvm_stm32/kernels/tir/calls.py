"""Printing calls of TIR intrinsics as C99."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from tvm import ir, tirx

from ...errors import UnsupportedOperatorError
from .bits import count_leading_zeros, multiply_shift, popcount, reinterpret
from .intrinsics import COMPOSED, LIBM
from .literals import c_type
from .text import EQUAL, MUL, TERNARY, UNARY, Text, atom, dtype_of, intrinsic

if TYPE_CHECKING:
    from .expressions import ExpressionPrinter


def call(printer: ExpressionPrinter, expr: ir.Call, dtype: str) -> Text:
    """Text of an intrinsic call whose result is a ``dtype``.

    Raises :class:`UnsupportedOperatorError` naming the intrinsic when C has nothing for it.
    """
    name = intrinsic(expr)
    if name in _HANDLERS:
        return _HANDLERS[name](printer, expr, dtype)
    if name in LIBM and dtype == "float32":
        return _libm(printer, LIBM[name], expr)
    if name in COMPOSED and dtype == "float32":
        pattern, function = COMPOSED[name]
        printer.writer.libm.add(function)
        argument = printer.text(expr.args[0])
        operand = f"({argument.text})" if argument.text.startswith("-") else argument.within(UNARY)
        return Text(pattern.format(argument.text, operand), MUL)
    raise UnsupportedOperatorError(
        f"intrinsic '{getattr(expr.op, 'name', expr.op)}' on {dtype} cannot be written in C",
        hint="replace the operator in the model, or give it to an external compiler",
    )


def _libm(printer: ExpressionPrinter, function: str, expr: ir.Call) -> Text:
    printer.writer.libm.add(function)
    return atom(f"{function}({', '.join(printer.text(argument).text for argument in expr.args)})")


def _absolute(printer: ExpressionPrinter, expr: ir.Call, dtype: str) -> Text:
    if dtype == "float32":
        return _libm(printer, "fabsf", expr)
    short = printer.repeatable(printer.text(expr.args[0]), dtype)
    return printer.wrapped(Text(f"{short.text} < 0 ? -{short.text} : {short.text}", TERNARY), dtype)


def _power(printer: ExpressionPrinter, expr: ir.Call, dtype: str) -> Text:
    base, exponent = expr.args
    if isinstance(exponent, tirx.FloatImm | tirx.IntImm) and float(exponent.value) == 2.0:
        short = printer.repeatable(printer.text(base), dtype)
        return printer.wrapped(Text(f"{short.within(UNARY)} * {short.within(UNARY)}", MUL), dtype)
    if dtype != "float32":
        raise UnsupportedOperatorError("a power of integers cannot be written in C")
    return _libm(printer, "powf", expr)


def _classify(printer: ExpressionPrinter, expr: ir.Call, _dtype: str) -> Text:
    macro = intrinsic(expr)
    if dtype_of(expr.args[0]) != "float32":
        return atom("1" if macro == "isfinite" else "0")
    return Text(f"{macro}({printer.text(expr.args[0]).text}) != 0", EQUAL)


def _popcount(printer: ExpressionPrinter, expr: ir.Call, dtype: str) -> Text:
    operand = expr.args[0]
    count = popcount(printer.writer, printer.text(operand).within(UNARY), dtype_of(operand))
    return Text(f"({c_type(dtype)}){count}", UNARY)


def _leading_zeros(printer: ExpressionPrinter, expr: ir.Call, dtype: str) -> Text:
    operand = expr.args[0]
    count = count_leading_zeros(printer.writer, printer.text(operand).within(UNARY), dtype_of(operand))
    return Text(f"({c_type(dtype)}){count}", UNARY)


def _reinterpret(printer: ExpressionPrinter, expr: ir.Call, dtype: str) -> Text:
    operand = expr.args[0]
    if np.dtype(dtype_of(operand)).kind in "iu" and np.dtype(dtype).kind in "iu":
        return Text(f"({c_type(dtype)}){printer.text(operand).within(UNARY)}", UNARY)
    return atom(reinterpret(printer.writer, printer.text(operand).text, dtype_of(operand), dtype))


def _multiply_shift(printer: ExpressionPrinter, expr: ir.Call, _dtype: str) -> Text:
    return Text(multiply_shift(expr, lambda operand: printer.text(operand).within(UNARY)), UNARY)


def _ldexp(printer: ExpressionPrinter, expr: ir.Call, _dtype: str) -> Text:
    return _libm(printer, "ldexpf", expr)


def _extern(printer: ExpressionPrinter, expr: ir.Call, _dtype: str) -> Text:
    function, *arguments = expr.args
    return atom(f"{function.value}({', '.join(printer.text(argument).text for argument in arguments)})")


def _address(printer: ExpressionPrinter, expr: ir.Call, _dtype: str) -> Text:
    return Text(f"&{printer.text(expr.args[0]).text}", UNARY)


_HANDLERS: dict[str, Callable[[ExpressionPrinter, ir.Call, str], Text]] = {
    "address_of": _address,
    "call_extern": _extern,
    "call_pure_extern": _extern,
    "clz": _leading_zeros,
    "fabs": _absolute,
    "isfinite": _classify,
    "isinf": _classify,
    "isnan": _classify,
    "ldexp": _ldexp,
    "popcount": _popcount,
    "pow": _power,
    "q_multiply_shift": _multiply_shift,
    "reinterpret": _reinterpret,
}
