"""Operators of ATen that TVM's importer of exported programs gets wrong."""

from __future__ import annotations

from typing import Any

from tvm import relax

from .binding import bind


def _elu(node: Any, importer: Any) -> relax.Var:
    """ELU with its scale and input scale, which the importer leaves out; SELU is one of those."""
    op, emit = relax.op, importer.block_builder.emit
    data = importer.env[node.args[0]]
    alpha, scale, input_scale = ([*map(float, node.args[1:4]), 1.0, 1.0, 1.0][:3]) if len(node.args) > 1 else (1.0,) * 3
    dtype = str(data.ty.dtype)

    def times(value: relax.Expr, factor: float) -> relax.Expr:
        return value if factor == 1.0 else emit(op.multiply(value, relax.const(factor, dtype)))

    below = emit(op.subtract(relax.const(1.0, dtype), emit(op.exp(times(data, input_scale)))))
    whole = emit(op.subtract(emit(op.nn.relu(data)), times(emit(op.nn.relu(below)), alpha)))
    return bind(importer.block_builder, op.multiply(whole, relax.const(scale, dtype)), node.name)


OPERATORS = {"elu.default": _elu}
