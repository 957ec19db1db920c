"""Integer intrinsics that C has no operator for, as portable C99 statements and a result expression."""

from __future__ import annotations

from collections.abc import Callable

from tvm import ir, tirx

from ...errors import UnsupportedOperatorError
from .literals import c_type, size_of
from .writer import Writer


def bits_of(dtype: str) -> int:
    """Width of an element type."""
    return 8 * size_of(dtype)


def popcount(writer: Writer, value: str, dtype: str) -> str:
    """Number of one bits."""
    if bits_of(dtype) == 64:
        wide = writer.fresh("t")
        writer.line(f"const uint64_t {wide} = (uint64_t){value};")
        low = popcount(writer, f"({wide} & 0xFFFFFFFFU)", "uint32")
        high = popcount(writer, f"({wide} >> 32)", "uint32")
        return f"({low} + {high})"
    name = writer.fresh("t")
    writer.line(f"uint32_t {name} = (uint{bits_of(dtype)}_t){value};")
    writer.line(f"{name} -= ({name} >> 1) & 0x55555555U;")
    writer.line(f"{name} = ({name} & 0x33333333U) + (({name} >> 2) & 0x33333333U);")
    writer.line(f"{name} = ((({name} + ({name} >> 4)) & 0x0F0F0F0FU) * 0x01010101U) >> 24;")
    return f"(int32_t){name}"


def count_leading_zeros(writer: Writer, value: str, dtype: str) -> str:
    """Zero bits above the highest one bit (the width for 0)."""
    width = max(bits_of(dtype), 32)
    rest, count = writer.fresh("t"), writer.fresh("t")
    writer.line(f"uint{width}_t {rest} = (uint{bits_of(dtype)}_t){value};")
    writer.line(f"int32_t {count} = {bits_of(dtype)};")
    with writer.block(f"while ({rest} != 0)"):
        writer.line(f"{rest} >>= 1;")
        writer.line(f"--{count};")
    return count


def reinterpret(writer: Writer, value: str, source: str, target: str) -> str:
    """The same bits as another type of the same size."""
    if bits_of(source) != bits_of(target):
        raise UnsupportedOperatorError(f"bits of {source} cannot be read as {target}")
    name = writer.fresh("u")
    writer.line(f"union {{ {c_type(source)} from; {c_type(target)} to; }} {name};")
    writer.line(f"{name}.from = {value};")
    return f"{name}.to"


def multiply_shift(call: ir.Call, text: Callable[[object], str]) -> str:
    """``tirx.q_multiply_shift(x, y, q, s)``: x * y * 2^(s-q), rounded half up, in 64 bits."""
    x, y, q, s = call.args
    if not isinstance(q, tirx.IntImm) or not isinstance(s, tirx.IntImm):
        raise UnsupportedOperatorError("q_multiply_shift with a variable shift cannot be written in C")
    left, right = max(int(s.value), 0), int(q.value) + max(-int(s.value), 0)
    product = f"(int64_t){text(x)} * {text(y)}"
    if left:
        product = f"((int64_t){text(x)} * {1 << left}) * {text(y)}"
    if right == 0:
        return f"(int32_t)({product})"
    return f"(int32_t)(({product} + (INT64_C(1) << {right - 1})) >> {right})"
