"""Convolutions on int16 activations and on floats with int8 weights: plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from ..graph import dialect
from ..graph.ssa import constant, dtype_of
from ..library import Call
from ..numerics import reduce_multiplier
from .choice import lower_best
from .context import KernelContext, constant_argument, tensor_argument, workspace_argument
from .linear import form_of
from .wide_block import WideOperator, lower_wide_block
from .wide_depthwise import lower_wide_depthwise
from .window import detail_text, geometry_of

# Products of int16 and int8 whose sum an int32 holds.
_MOST_PRODUCTS = 511


def lower_conv2d16(ctx: KernelContext, call: relax.Call, node: str, data: str, output: str) -> None:
    """``q.conv2d16``(data, weight OHWI, bias, multiplier, shift); the bias' type is that of the accumulator."""
    attrs = dialect.attributes(call)
    weight, bias, multiplier, shift = (constant(argument) for argument in call.args[1:])
    assert weight is not None and bias is not None and multiplier is not None and shift is not None
    geometry, groups, wide = geometry_of(call, weight), int(attrs["groups"]), attrs["accumulator"] == "int64"
    operator = WideOperator(call, weight, bias, multiplier, shift)
    if wide:
        multiplier = np.array([reduce_multiplier(int(value)) for value in multiplier])
    scales = np.stack([multiplier, shift], axis=1).astype(np.int32)
    depthwise = groups == geometry["channels_in"] and groups > 1
    form = form_of(ctx)
    if form != "scalar" and not depthwise:
        lower_best(
            ctx,
            node,
            {"product": lambda trial: lower_wide_block(trial, operator, node, data, output, scales, form)},
        )
        return
    if form != "scalar" and lower_wide_depthwise(ctx, operator, node, data, output, form):
        return
    group_in = weight.shape[3]
    source = ctx.render(
        "conv2d16.c.j2",
        **_loops(geometry, weight, groups),
        wide=wide,
        accumulator=attrs["accumulator"],
        partial="int32" if group_in <= _MOST_PRODUCTS else attrs["accumulator"],
        clamp_min=attrs["clamp_min"],
        clamp_max=attrs["clamp_max"],
    )
    shape = f"{weight.shape[1]}x{weight.shape[2]}_{group_in}_{weight.shape[0]}"
    kernel = ctx.kernel(f"conv2d16_{shape}", source, headers=("ai_kernels.h",))
    stem = f"conv2d16_{len(ctx.library.calls)}"
    constants = {"weights": weight, "bias": bias, "scales": scales}
    arguments = [constant_argument(ctx.constant(f"{stem}_{k}", v), v.dtype.name) for k, v in constants.items()]
    pixels = geometry["batch"] * geometry["out_h"] * geometry["out_w"]
    ctx.add_call(
        Call(
            "conv2d",
            node,
            kernel.name,
            (tensor_argument(data, dtype_of(call.args[0])), *arguments, tensor_argument(output, "int16")),
            (data,),
            (output,),
            macs=pixels * int(np.prod(weight.shape)),
            detail=detail_text(geometry, weight, groups, "int16"),
        )
    )


def _loops(geometry: dict[str, Any], weight: np.ndarray, groups: int) -> dict[str, Any]:
    """Template values of plain loops over groups."""
    channels, group_in = weight.shape[0], weight.shape[3]
    return {**geometry, "channels_out": channels, "groups": groups, "group_in": group_in,
            "group_out": channels // groups}  # fmt: skip


def lower_hybrid(ctx: KernelContext, call: relax.Call, node: str, data: str, output: str) -> None:
    """``q.hybrid``(data float32, weight OHWI int8, scales, bias): dynamic-range quantization."""
    attrs = dialect.attributes(call)
    weight, scales, bias = (constant(argument) for argument in call.args[1:])
    assert weight is not None and scales is not None and bias is not None
    geometry, groups = geometry_of(call, weight), int(attrs["groups"])
    group_in = weight.shape[3]
    source = ctx.render(
        "hybrid.c.j2",
        **_loops(geometry, weight, groups),
        symmetric=attrs["symmetric"],
        low=_bound(attrs["low"]),
        high=_bound(attrs["high"]),
    )
    workspace = 2 * geometry["height"] * geometry["width"] * geometry["channels_in"]
    shape = f"{weight.shape[1]}x{weight.shape[2]}_{group_in}_{weight.shape[0]}"
    kernel = ctx.kernel(f"hybrid_{shape}", source, headers=("ai_kernels.h",), uses_float=True, workspace=workspace)
    stem = f"hybrid_{len(ctx.library.calls)}"
    constants = {"weights": weight, "scales": scales, "bias": bias}
    arguments = [constant_argument(ctx.constant(f"{stem}_{k}", v), v.dtype.name) for k, v in constants.items()]
    ctx.library.float_operators.append(f"results of the int8 sums at '{node}'")
    ctx.add_call(
        Call(
            "conv2d"
            if weight.shape[1] * weight.shape[2] > 1 or geometry["height"] * geometry["width"] > 1
            else "dense",
            node,
            kernel.name,
            (
                tensor_argument(data, "float32"),
                *arguments,
                tensor_argument(output, "float32"),
                workspace_argument("int16_t"),
            ),
            (data,),
            (output,),
            macs=geometry["batch"] * geometry["out_h"] * geometry["out_w"] * int(np.prod(weight.shape)),
            workspace=workspace,
            detail=detail_text(geometry, weight, groups, "int8 weights, floats rounded to int8"),
        )
    )


def _bound(value: float) -> str:
    return f"{value!r}f" if np.isfinite(value) else ""
