"""Operators of Relay that Relax lacks: dialect calls that TVM's LegalizeOps turns into TIR.

Each function of :data:`FUNCTIONS` takes the tensors and attributes of a call and gives the result as a tensor
expression.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from tvm import ir, relax, te, tirx, topi

from . import dialect

Attrs = dict[str, Any]


def _u32(value: int) -> tirx.PrimExpr:
    return tirx.const(value, "uint32")


def round_half(data: te.Tensor, _attrs: Attrs) -> te.Tensor:
    """float32 rounded to the nearest float16, ties to even, with halves' infinities and denormals."""

    def element(*index: tirx.Var) -> tirx.PrimExpr:
        bits = tirx.reinterpret("uint32", data(*index))
        size = bits & _u32(0x7FFFFFFF)
        # 13 bits of the mantissa go; below 2**-14 what is left is a multiple of 2**-24.
        kept = (size + _u32(0xFFF) + ((size >> _u32(13)) & _u32(1))) & _u32(0xFFFFE000)
        mantissa = (size & _u32(0x7FFFFF)) | _u32(0x800000)
        shift = tirx.Max(_u32(126) - tirx.Min(size >> _u32(23), _u32(112)), _u32(14))
        shift = tirx.Min(shift, _u32(26))
        even = (mantissa >> shift) & _u32(1)
        units = (mantissa + (_u32(1) << (shift - _u32(1))) - _u32(1) + even) >> shift
        small = tirx.reinterpret("uint32", units.astype("float32") * tirx.const(2.0**-24, "float32"))
        finite = tirx.Select(size < _u32(0x38800000), small, kept)
        large = tirx.Select(size > _u32(0x7F800000), size, _u32(0x7F800000))
        magnitude = tirx.Select(size >= _u32(0x477FF000), large, finite)
        return tirx.reinterpret("float32", magnitude | (bits & _u32(0x80000000)))

    return te.compute(data.shape, element, name="round_half")


def reinterpreted(data: te.Tensor, attrs: Attrs) -> te.Tensor:
    """The same bits as another dtype of the same size."""
    dtype = str(attrs["out_dtype"])
    return te.compute(data.shape, lambda *index: tirx.reinterpret(dtype, data(*index)), name="reinterpret")


def steps(data: te.Tensor, thresholds: te.Tensor, attrs: Attrs) -> te.Tensor:
    """``lowest`` plus the number of thresholds that are not above the element."""
    dtype, lowest = str(attrs["out_dtype"]), int(attrs["lowest"])
    step = te.reduce_axis((0, int(thresholds.shape[0])), name="step")
    count = te.compute(
        data.shape,
        lambda *index: te.sum((data(*index) >= thresholds[step]).astype("int32"), axis=step),
        name="count",
    )
    return te.compute(data.shape, lambda *index: (count(*index) + lowest).astype(dtype), name="steps")


def crop_and_resize(data: te.Tensor, boxes: te.Tensor, images: te.Tensor, attrs: Attrs) -> te.Tensor:
    """Regions given by relative corners, resized."""
    size, method = [int(extent) for extent in attrs["size"]], str(attrs["method"])
    outside, dtype = float(attrs["extrapolation"]), str(attrs["out_dtype"])
    return topi.image.crop_and_resize(data, boxes, images, size, str(attrs["layout"]), method, outside, dtype)


def deformable_conv2d(data: te.Tensor, offset: te.Tensor, weight: te.Tensor, attrs: Attrs) -> te.Tensor:
    """Convolution of moved windows."""
    nchw = str(attrs["layout"]) == "NCHW"
    function = topi.nn.deformable_conv2d_nchw if nchw else topi.nn.deformable_conv2d_nhwc
    options = [[int(value) for value in attrs[key]] for key in ("strides", "padding", "dilation")]
    groups = (int(attrs["deformable_groups"]), int(attrs["groups"]))
    return function(data, offset, weight, *options, *groups, str(attrs["out_dtype"]))


def batched_take(data: te.Tensor, indices: te.Tensor, attrs: Attrs) -> te.Tensor:
    """Elements by index along an axis, with indices of their own for each index of the leading axes."""
    return topi.take(data, indices, int(attrs["axis"]), int(attrs["batch_dims"]), str(attrs["mode"]))


def adaptive_max_pool2d(data: te.Tensor, attrs: Attrs) -> te.Tensor:
    """Maxima of windows floor(i * H / O) .. ceil((i + 1) * H / O)."""
    return topi.nn.adaptive_pool(data, [int(extent) for extent in attrs["size"]], "max", str(attrs["layout"]))


FUNCTIONS: dict[str, Callable[..., te.Tensor]] = {
    "relay.round_half": round_half,
    "relay.reinterpret": reinterpreted,
    "relay.crop_and_resize": crop_and_resize,
    "relay.deformable_conv2d": deformable_conv2d,
    "relay.take": batched_take,
    "relay.adaptive_max_pool2d": adaptive_max_pool2d,
    "qnn.steps": steps,
}
"""Dialect operator name -> tensor expression."""


def call(
    name: str, args: Sequence[relax.Expr], out_shape: Sequence[int], out_dtype: str, **attributes: Any
) -> relax.Call:
    """A call of an operator of :data:`FUNCTIONS`."""
    result = dialect.call(name, args, out_shape, out_dtype, **attributes)
    _make_legalizable(name)
    return result


@cache
def _make_legalizable(name: str) -> None:
    def rule(builder: relax.BlockBuilder, expr: relax.Call) -> relax.Expr:
        attrs = dialect.attributes(expr)
        return builder.call_te(FUNCTIONS[name], *expr.args, attrs, primfunc_name_hint=name.split(".")[-1])

    ir.op.register_op_attr(name, "FLegalize", rule)
