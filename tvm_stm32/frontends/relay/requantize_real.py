"""``qnn.requantize`` that asks for real arithmetic (``compute_dtype`` float32 or float64).

It rounds after adding the output zero point. A function of 8-bit codes becomes a table, one with 8-bit results the
thresholds at which it steps, both computed here in the precision asked for: the model computes with integers alone.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from .operator import Application
from .ops_elementwise import round_half_away
from .ops_nn import along
from .values import Constant, Tensor, constant_expr

_EIGHT_BIT = ("int8", "uint8")


def real_requantize(
    app: Application,
    data: Tensor | Constant,
    ratio: np.ndarray,
    zero_points: tuple[int, int],
    axis: int,
    *,
    rounding: str,
    dtype: str,
    compute: str,
) -> Tensor:
    """``ratio`` holds input scale / output scale, one or one for each index of ``axis``."""
    rule = _Rule(ratio.astype(compute), zero_points, rounding, dtype)
    app.emitter.integer = True
    if ratio.size == 1 and data.dtype in _EIGHT_BIT and dtype == data.dtype:
        limits = np.iinfo(dtype)
        table = rule.apply(np.arange(limits.min, limits.max + 1, dtype=np.int64))
        entries = constant_expr(table.astype(dtype))
        return app.dialect("qnn.table", [data.expr, entries], data.shape, dtype, label="requantize")
    if ratio.size == 1 and dtype in _EIGHT_BIT:
        lowest, thresholds = rule.thresholds()
        wide = data.expr if data.dtype == "int32" else app.emit(relax.op.astype(data.expr, "int32")).expr
        return app.dialect("qnn.steps", [wide, constant_expr(thresholds)], data.shape, dtype, lowest=lowest)
    if compute == "float64":
        raise app.unsupported(
            "compute_dtype=float64 is only supported for one scale a tensor and 8-bit results",
            hint='leave compute_dtype out, or set it to "int64"',
        )
    return _computed(app, data, ratio.astype(np.float32), zero_points, axis, rounding, dtype)


class _Rule:
    """The function of one integer, as numpy computes it."""

    def __init__(self, ratio: np.ndarray, zero_points: tuple[int, int], rounding: str, dtype: str) -> None:
        self.ratio = ratio.reshape(-1)[0]
        self.zero_points = zero_points
        self.rounding = rounding
        self.limits = np.iinfo(dtype)

    def apply(self, codes: np.ndarray) -> np.ndarray:
        """Results of int64 ``codes``, clipped."""
        kind = self.ratio.dtype
        with np.errstate(all="ignore"):
            real = (codes - self.zero_points[0]).astype(kind) * self.ratio + kind.type(self.zero_points[1])
            if self.rounding == "TONEAREST":
                whole = np.trunc(real)
                whole += np.where(np.abs(real - whole) >= 0.5, np.sign(real), 0)
            else:
                whole = np.floor(real + kind.type(0.5))
        return np.asarray(np.clip(whole.astype(np.float64), self.limits.min, self.limits.max), np.int64)

    def thresholds(self) -> tuple[int, np.ndarray]:
        """The result of the lowest int32, and for each higher result the first int32 that gives it, by bisection."""
        first, last = -(1 << 31), (1 << 31) - 1
        lowest, highest = (int(self.apply(np.array([end], np.int64))[0]) for end in (first, last))
        wanted = np.arange(lowest + 1, highest + 1, dtype=np.int64)
        if not wanted.size:
            return lowest - 1, np.array([first], np.int32)
        low, high = np.full(wanted.size, first, np.int64), np.full(wanted.size, last, np.int64)
        for _ in range(32):
            middle = (low + high) >> 1
            reached = self.apply(middle) >= wanted
            low, high = np.where(reached, low, middle + 1), np.where(reached, middle, high)
        return lowest, high.astype(np.int32)


def _computed(
    app: Application,
    data: Tensor | Constant,
    ratio: np.ndarray,
    zero_points: tuple[int, int],
    axis: int,
    rounding: str,
    dtype: str,
) -> Tensor:
    app.emitter.note(
        f"{app.emitter.source.where(app.at)}: requantize asks for float32, so it is not integer arithmetic"
    )
    factor = Constant(ratio)
    factors = along(app, factor, axis, len(data.shape)) if ratio.size > 1 else constant_expr(ratio.reshape(()))
    offset = relax.op.subtract(relax.op.astype(data.expr, "int32"), constant_expr(np.array(zero_points[0], np.int32)))
    real = app.emit(relax.op.multiply(relax.op.astype(offset, "float32"), factors))
    moved = app.emit(relax.op.add(real.expr, constant_expr(np.array(zero_points[1], np.float32))))
    if rounding == "TONEAREST":
        whole = app.emit(round_half_away(moved.expr, "float32"))
    else:
        whole = app.emit(relax.op.floor(relax.op.add(moved.expr, constant_expr(np.array(0.5, np.float32)))))
    integer = app.emit(relax.op.astype(whole.expr, "int32"))
    limits = np.iinfo(dtype)
    if dtype == "int32":
        return integer
    return app.emit(relax.op.astype(relax.op.clip(integer.expr, int(limits.min), int(limits.max)), dtype))
