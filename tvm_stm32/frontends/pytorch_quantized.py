"""pt2e's quantize and dequantize operators for TVM's importer of exported programs."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from .binding import bind

_UNSIGNED = 128


def _shift(node: Any) -> int:
    """What to subtract from the codes of a value: 128 makes uint8 codes int8 where only dequantize sees them."""
    if "quantize_per_tensor" not in str(node.target) or "dequantize" in str(node.target):
        return 0
    whole = [int(limit) for limit in node.args[3:5]] == [0, 255] and str(node.args[5]) == "torch.uint8"
    inside = all("dequantize_per_tensor" in str(user.target) for user in node.users)
    return _UNSIGNED if whole and inside else 0


def _quantize(node: Any, importer: Any) -> relax.Var:
    data, shift = importer.env[node.args[0]], _shift(node)
    scale, zero_point = float(node.args[1]), int(node.args[2]) - shift
    low, high, dtype = int(node.args[3]) - shift, int(node.args[4]) - shift, str(node.args[5]).removeprefix("torch.")
    dtype = "int8" if shift else dtype
    call = relax.op.quantize(data, relax.const(scale, "float32"), relax.const(zero_point, "int32"), 0, dtype)
    limits = np.iinfo(dtype)
    codes = bind(importer.block_builder, call, node.name)
    if (low, high) == (limits.min, limits.max):
        return codes
    return bind(importer.block_builder, relax.op.clip(codes, low, high), node.name)


def _dequantize(node: Any, importer: Any) -> relax.Var:
    data = importer.env[node.args[0]]
    scale, zero_point = float(node.args[1]), int(node.args[2]) - _shift(node.args[0])
    call = relax.op.dequantize(data, relax.const(scale, "float32"), relax.const(zero_point, "int32"), 0)
    return bind(importer.block_builder, call, node.name)


def _dequantize_channels(node: Any, importer: Any) -> relax.Var:
    # The scales are a buffer, bound to its value once the whole program is read; zero points are 0 (checked before).
    data, scales = importer.env[node.args[0]], importer.env[node.args[1]]
    call = relax.op.dequantize(data, scales, relax.const(0, "int32"), int(node.args[3]))
    return bind(importer.block_builder, call, node.name)


QUANTIZE_OPERATORS = {
    "quantize_per_tensor.default": _quantize,
    "dequantize_per_tensor.default": _dequantize,
    "dequantize_per_channel.default": _dequantize_channels,
}
