"""``qnn.simulated_*``: the effect of quantization, computed in float."""

from __future__ import annotations

import numpy as np
from tvm import relax

from .operator import Application, operator
from .ops_elementwise import round_half_away
from .qnn_arguments import along_axis, scales_of, zero_points_of
from .values import Value, constant_expr

# The codes of topi.nn.qnn: 0 switches the operator off.
_RANGES = {1: "int8", 2: "uint8", 3: "int32"}


def _parameters(app: Application) -> tuple[int, np.ndarray, np.ndarray]:
    """The dtype code, and scale and zero point as they broadcast."""
    app.expect_args(4)
    data = app.tensor(0)
    if data.dtype != "float32":
        raise app.fail(f"data is {data.dtype}, not float32")
    rank = len(data.shape)
    axis = app.axis(app.attrs.integer("axis", -1), rank) if rank else 0
    scale = scales_of(app, 2)
    zero_point = np.array(
        [float(value) for value in app.constant(3).reshape(-1)]
        if app.constant(3).dtype.kind == "f"
        else zero_points_of(app, 3),
        np.float32,
    )
    if any(values.size not in (1, data.shape[axis] if rank else 1) for values in (scale, zero_point)):
        raise app.fail(f"{scale.size} scales and {zero_point.size} zero points along axis {axis}")
    code = int(app.scalar(1))
    if code not in (0, *_RANGES):
        raise app.fail(f"dtype code {code}", why="0 is off, 1 int8, 2 uint8, 3 int32")
    return code, along_axis(scale, axis, rank), along_axis(zero_point, axis, rank)


@operator("qnn.simulated_quantize")
def simulated_quantize(app: Application) -> Value:
    """clip(round(x / scale) + zero point), still float."""
    code, scale, zero_point = _parameters(app)
    data = app.tensor(0)
    if code == 0:
        return data
    limits = np.iinfo(_RANGES[code])
    scaled = app.emit(relax.op.divide(data.expr, constant_expr(scale)))
    moved = app.emit(relax.op.add(round_half_away(scaled.expr, "float32"), constant_expr(zero_point)))
    return app.emit(relax.op.clip(moved.expr, float(limits.min), float(limits.max)))


@operator("qnn.simulated_dequantize")
def simulated_dequantize(app: Application) -> Value:
    """(q - zero point) * scale, of float codes."""
    code, scale, zero_point = _parameters(app)
    data = app.tensor(0)
    if code == 0:
        return data
    offset = app.emit(relax.op.subtract(data.expr, constant_expr(zero_point)))
    return app.emit(relax.op.multiply(offset.expr, constant_expr(scale)))
