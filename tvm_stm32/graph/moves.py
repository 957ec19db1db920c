"""Reading operators that move codes: transposes, reshapes, pads and the windows of pools."""

from __future__ import annotations

from typing import Any

from tvm import relax

from ..numerics import INT8_MAX, INT8_MIN
from . import dialect
from .ssa import constant, shape_of

RESHAPES = {"relax.reshape", "relax.squeeze", "relax.expand_dims", "relax.flatten"}


def permutation(call: relax.Call) -> list[int]:
    """The axes of a ``permute_dims``."""
    rank = len(shape_of(call))
    if call.attrs.axes is None:
        return list(reversed(range(rank)))
    return [int(axis) % rank for axis in call.attrs.axes]


def pad_fill(call: relax.Call) -> int | None:
    """The code a constant ``pad`` fills an int8 tensor with, or None for other pads."""
    value = pad_value(call)
    return int(value) if value is not None and INT8_MIN <= value <= INT8_MAX else None


def pad_value(call: relax.Call) -> float | None:
    """The number a constant ``pad`` fills a tensor with, or None for other pads."""
    if str(call.attrs.pad_mode) != "constant" or any(int(w) < 0 for w in call.attrs.pad_width):
        return None
    expr = call.args[1] if len(call.args) > 1 else getattr(call.attrs, "pad_value", None)
    array = constant(expr) if isinstance(expr, relax.Expr) else None
    value: Any = getattr(expr, "value", expr) if array is None else array.item() if array.size == 1 else None
    return value if isinstance(value, float | int) else None


def windows_filled(pool: relax.Call) -> bool:
    """Whether every window of a pool holds an element that is no padding."""
    attrs, data, out = dialect.attributes(pool), shape_of(pool.args[0]), shape_of(pool)
    starts = zip(attrs["padding"][:2], attrs["pool"], attrs["strides"], data[1:3], out[1:3], strict=True)
    return all(before < size and (n - 1) * step - before < extent for before, size, step, extent, n in starts)
