"""``qnn.*`` calls without a kernel of their own -> plain Relax operators, exact to the last bit.

The general fallback: what comes out goes through TVM's LegalizeOps. Formulas: Relay's ``qnn`` lowering (int64
fixed-point path); the attributes are those documented in :mod:`tvm_stm32.frontends.relay.translate`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import IRModule, ir, relax, runtime
from tvm.relax.expr_functor import PyExprMutator, mutator

from . import dialect

op = relax.op
Rule = Callable[[relax.Call, dict[str, Any]], relax.Expr]


def legalize_qnn(module: IRModule) -> IRModule:
    """``module`` with every ``qnn.*`` call replaced; all other operators stay. The argument is not changed."""
    rewriter = _Legalizer(module)
    for variable, function in module.functions.items():
        if isinstance(function, relax.Function):
            rewriter.builder_.update_func(variable, rewriter.visit_expr(function))
    return rewriter.builder_.get()


@mutator
class _Legalizer(PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        rule = _RULES.get(dialect.name_of(call))
        return call if rule is None else rule(call, dialect.attributes(call))


def _const(value: Any, dtype: str) -> relax.Expr:
    # relax.const would narrow a 64-bit scalar.
    return relax.const(runtime.tensor(np.array(value, dtype)))


def _shape(expr: relax.Expr) -> tuple[int, ...]:
    return tuple(int(extent) for extent in expr.ty.shape)


def _dtype(expr: relax.Expr) -> str:
    return str(expr.ty.dtype)


def _along(values: np.ndarray, dtype: str, axis: int, rank: int) -> relax.Expr:
    """One value, or one for each index of ``axis``, shaped to broadcast against a tensor of ``rank``."""
    array = values.reshape(()) if values.size == 1 else values.reshape((-1,) + (1,) * (rank - 1 - axis))
    return _const(array, dtype)


def _offset(expr: relax.Expr, zero_point: int, dtype: str = "int32") -> relax.Expr:
    """``expr - zero_point``, computed in ``dtype``."""
    wide = expr if _dtype(expr) == dtype else op.astype(expr, dtype)
    return op.subtract(wide, _const(zero_point, dtype)) if zero_point else wide


def _saturated(expr: relax.Expr, dtype: str) -> relax.Expr:
    """An int32 expression in the range of ``dtype``."""
    if dtype == "int32":
        return expr
    limits = np.iinfo(dtype)
    return op.astype(op.clip(expr, int(limits.min), int(limits.max)), dtype)


def _scaled(
    expr: relax.Expr, multiplier: np.ndarray, shift: np.ndarray, axis: int, rank: int, rounding: str
) -> relax.Expr:
    """int32 ``expr`` times multiplier * 2**(shift - 31), rounded once in 64 bits, truncated to int32."""
    left = np.maximum(shift.astype(np.int64), 0)
    total = 31 + np.maximum(-shift.astype(np.int64), 0)
    wide = op.astype(expr, "int64")
    if left.any():
        wide = op.left_shift(wide, _along(left, "int64", axis, rank))
    product = op.multiply(wide, _along(multiplier.astype(np.int64), "int64", axis, rank))
    half = np.left_shift(np.int64(1), total - 1)
    rounded = op.add(product, _along(half, "int64", axis, rank))
    if rounding == "tonearest":
        negative = op.astype(op.less(product, _const(0, "int64")), "int64")
        rounded = op.subtract(rounded, negative)
    return op.astype(op.right_shift(rounded, _along(total, "int64", axis, rank)), "int32")


def _requantized(
    expr: relax.Expr, multiplier: int, shift: int, zero_points: tuple[int, int], identity: bool = False
) -> relax.Expr:
    """A whole tensor requantized to int32, not clipped."""
    if identity:
        return op.astype(expr, "int32")
    moved = _scaled(_offset(expr, zero_points[0]), np.array([multiplier]), np.array([shift]), 0, 0, "upward")
    return op.add(moved, _const(zero_points[1], "int32"))


def _narrow(zero_points: list[int], *exprs: relax.Expr) -> str:
    """The type in which 8-bit operands minus their zero points fit: int16, which halves the weights of an int32."""
    small = all(_dtype(expr) in ("int8", "uint8") for expr in exprs)
    return "int16" if small and all(abs(value) <= 255 for value in zero_points) else "int32"


def _weight(expr: relax.Expr, zero_point: int, dtype: str, change: Callable[[np.ndarray], np.ndarray]) -> relax.Expr:
    """Constant weights minus their zero point, after ``change``."""
    return _const(change(expr.value.numpy().astype(np.int64) - zero_point).astype(dtype), dtype)


def _conv2d(call: relax.Call, attrs: dict[str, Any]) -> relax.Expr:
    data, weight = call.args
    zero_points = (int(attrs["input_zero_point"]), int(attrs["kernel_zero_point"]))
    dtype = _narrow(list(zero_points), data, weight)
    layout, kernel_layout = str(attrs["data_layout"]), str(attrs["kernel_layout"])
    shape = _shape(weight)
    groups = int(attrs["groups"])
    if kernel_layout == "HWOI" and groups == shape[2] == _shape(data)[layout.index("C")]:
        shape = (shape[0], shape[1], shape[2] * shape[3], 1)
    if isinstance(weight, ir.GenericConst):
        kernel: relax.Expr = _weight(weight, zero_points[1], dtype, lambda array: array.reshape(shape))
    else:
        kernel = op.reshape(_offset(weight, zero_points[1], dtype), shape)
    return op.nn.conv2d(
        _offset(data, zero_points[0], dtype),
        kernel,
        strides=attrs["strides"],
        padding=attrs["padding"],
        dilation=attrs["dilation"],
        groups=groups,
        data_layout=layout,
        kernel_layout=kernel_layout,
        out_dtype="int32",
    )


def _dense(call: relax.Call, attrs: dict[str, Any]) -> relax.Expr:
    data, weight = call.args
    zero_points = (int(attrs["input_zero_point"]), int(attrs["kernel_zero_point"]))
    dtype = _narrow(list(zero_points), data, weight)
    if isinstance(weight, ir.GenericConst):
        kernel: relax.Expr = _weight(weight, zero_points[1], dtype, lambda array: np.ascontiguousarray(array.T))
    else:
        kernel = op.permute_dims(_offset(weight, zero_points[1], dtype), [1, 0])
    return op.matmul(_offset(data, zero_points[0], dtype), kernel, out_dtype="int32")


def _batch_matmul(call: relax.Call, attrs: dict[str, Any]) -> relax.Expr:
    sides = []
    zero_points = [int(attrs["lhs_zero_point"]), int(attrs["rhs_zero_point"])]
    dtype = _narrow(zero_points, *call.args)
    for expr, zero_point, flip in zip(
        call.args, zero_points, (attrs["transpose_a"], attrs["transpose_b"]), strict=True
    ):
        side = _offset(expr, zero_point, dtype)
        sides.append(op.permute_dims(side, [0, 2, 1]) if flip else side)
    return op.matmul(sides[0], sides[1], out_dtype="int32")


def _requantize(call: relax.Call, attrs: dict[str, Any]) -> relax.Expr:
    data, multiplier, shift = call.args
    moved = _scaled(
        _offset(data, int(attrs["input_zero_point"])),
        multiplier.value.numpy(),
        shift.value.numpy(),
        int(attrs["axis"]),
        len(_shape(data)),
        str(attrs["rounding"]),
    )
    zero_point = int(attrs["output_zero_point"])
    result = op.add(moved, _const(zero_point, "int32")) if zero_point else moved
    return _saturated(result, str(attrs["out_dtype"]))


def _round_half_away(expr: relax.Expr) -> relax.Expr:
    whole = op.trunc(expr)
    away = op.greater_equal(op.abs(op.subtract(expr, whole)), _const(0.5, "float32"))
    return op.where(away, op.add(whole, op.sign(expr)), whole)


def _quantize(call: relax.Call, attrs: dict[str, Any]) -> relax.Expr:
    (data,) = call.args
    rank, axis, dtype = len(_shape(data)), int(attrs["axis"]), str(attrs["out_dtype"])
    scale = _along(np.array(attrs["scale"], np.float32), "float32", axis, rank)
    zero_point = _along(np.array(attrs["zero_point"], np.float32), "float32", axis, rank)
    moved = op.add(_round_half_away(op.divide(data, scale)), zero_point)
    limits = np.iinfo(dtype)
    # float32 cannot hold 2**31 - 1; the largest value below keeps the cast defined.
    high = min(float(limits.max), 2147483520.0)
    return op.astype(op.clip(moved, float(limits.min), high), dtype)


def _dequantize(call: relax.Call, attrs: dict[str, Any]) -> relax.Expr:
    (data,) = call.args
    rank, axis = len(_shape(data)), int(attrs["axis"])
    zero_point = _along(np.array(attrs["zero_point"], np.int32), "int32", axis, rank)
    scale = _along(np.array(attrs["scale"], np.float32), "float32", axis, rank)
    return op.multiply(op.astype(op.subtract(op.astype(data, "int32"), zero_point), "float32"), scale)


def _sum(call: relax.Call, attrs: dict[str, Any]) -> relax.Expr:
    zero_point = int(attrs["output_zero_point"])
    sides = [
        _requantized(
            expr,
            int(attrs[f"{side}_multiplier"]),
            int(attrs[f"{side}_shift"]),
            (int(attrs[f"{side}_zero_point"]), zero_point),
            bool(attrs[f"{side}_identity"]),
        )
        for side, expr in zip(("lhs", "rhs"), call.args, strict=True)
    ]
    if dialect.name_of(call) == "qnn.add":
        result = op.subtract(op.add(sides[0], sides[1]), _const(zero_point, "int32"))
    else:
        result = op.add(op.subtract(sides[0], sides[1]), _const(zero_point, "int32"))
    return _saturated(result, str(attrs["out_dtype"]))


def _mul(call: relax.Call, attrs: dict[str, Any]) -> relax.Expr:
    left = _offset(call.args[0], int(attrs["lhs_zero_point"]))
    right = _offset(call.args[1], int(attrs["rhs_zero_point"]))
    multiplier, shift = np.array([attrs["multiplier"]]), np.array([attrs["shift"]])
    moved = _scaled(op.multiply(left, right), multiplier, shift, 0, 0, "upward")
    return _saturated(op.add(moved, _const(attrs["output_zero_point"], "int32")), str(attrs["out_dtype"]))


def _concatenate(call: relax.Call, attrs: dict[str, Any]) -> relax.Expr:
    zero_point, dtype = int(attrs["output_zero_point"]), str(attrs["out_dtype"])
    parts = []
    for index, expr in enumerate(call.args):
        if bool(attrs["identities"][index]):
            parts.append(expr)
            continue
        zero_points = (int(attrs["zero_points"][index]), zero_point)
        moved = _requantized(expr, int(attrs["multipliers"][index]), int(attrs["shifts"][index]), zero_points)
        parts.append(_saturated(moved, dtype))
    return op.concat(parts, int(attrs["axis"]))


def _table(call: relax.Call, _attrs: dict[str, Any]) -> relax.Expr:
    data, table = call.args
    lowest = int(np.iinfo(_dtype(data)).min)
    return op.take(table, _offset(data, lowest), axis=0, mode="fast")


_RULES: dict[str, Rule] = {
    "qnn.conv2d": _conv2d,
    "qnn.dense": _dense,
    "qnn.batch_matmul": _batch_matmul,
    "qnn.requantize": _requantize,
    "qnn.quantize": _quantize,
    "qnn.dequantize": _dequantize,
    "qnn.add": _sum,
    "qnn.subtract": _sum,
    "qnn.mul": _mul,
    "qnn.concatenate": _concatenate,
    "qnn.table": _table,
}
