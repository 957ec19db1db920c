"""The operators this project adds to Relax.

Three groups, all plain Relax calls whose attributes are a dictionary and whose result type is stored in it:

* ``qnn.*``: one source operator each, as a front end meets it (Relay's ``qnn`` operators).
* ``q.*``: one kernel each, fused with bias, requantization and clamp; made by the graph stage, consumed by the kernels.
* ``f.*``: the same on float32, fused with bias and bounds.

Scales never appear: they are turned into int32 multipliers and shifts by :mod:`tvm_stm32.numerics`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import tvm.ir._ffi_api as _ir_api
from tvm import ir, relax


def _result_type(call: relax.Call, _context: object) -> relax.TensorType:
    shape = [int(extent) for extent in call.attrs["out_shape"]]
    return relax.TensorType(shape, str(call.attrs["out_dtype"]))


@cache
def _operator(name: str) -> ir.Op:
    _ir_api.RegisterOp(name, "tvm-stm32 operator")
    ir.op.register_op_attr(name, "FPurity", True)
    ir.op.register_op_attr(name, "FInferType", _result_type)
    return ir.Op.get(name)


def call(
    name: str, args: Sequence[relax.Expr], out_shape: Sequence[int], out_dtype: str, **attributes: Any
) -> relax.Call:
    """A call of operator ``name`` (``q.conv2d``, ``qnn.requantize``, ...).

    ``attributes`` hold numbers, strings, bools and lists of those; read them back with :func:`attributes`.
    """
    attrs = ir.make_node("ir.DictAttrs", out_shape=list(out_shape), out_dtype=out_dtype, **attributes)
    return relax.Call(_operator(name), list(args), attrs)


def name_of(expr: relax.Expr) -> str:
    """Operator name of a call (``relax.add``, ``q.conv2d``), or ``""`` for anything else."""
    if isinstance(expr, relax.Call) and isinstance(expr.op, ir.Op):
        return str(expr.op.name)
    return ""


def attributes(expr: relax.Call) -> dict[str, Any]:
    """The attributes of such an operator as plain Python values."""
    return {str(key): _plain(value) for key, value in expr.attrs.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, bool | int | float | str) or value is None:
        return value
    if hasattr(value, "value"):
        return value.value
    return [_plain(item) for item in value]
