"""float32 convolution, depthwise convolution and dense layers.

One description for every target: the blocks of ``ai_kernels_float.h`` (FPU, Helium, portable C) add up in the same
order, so kernels and packed weights are the same everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from ..graph import dialect
from ..graph.ssa import constant, shape_of
from .context import KernelContext, constant_argument, tensor_argument
from .tir.literals import float_literal
from .window import detail_text, geometry_of


@dataclass(frozen=True)
class _FloatKernel:
    """A kernel: stem of its name, C source, packed weights and biases, scratch memory in floats."""

    stem: str
    source: str
    weights: np.ndarray
    bias: np.ndarray
    workspace: int = 0


def lower_float_dense(ctx: KernelContext, call: relax.Call, node: str, data: str, output: str) -> None:
    """``f.dense``: rows of the input are the pixels of a pointwise convolution."""
    weight, bias = _constants(call)
    units, depth = weight.shape
    rows = int(np.prod(shape_of(call), dtype=np.int64)) // units
    source = ctx.render(
        "float_conv2d.c.j2",
        title="Dense layer",
        **_flat(rows, depth, units),
        **_bounds(call),
    )
    chosen = _FloatKernel(f"dense_f32_{depth}_{units}", source, _pack(weight), _padded(bias))
    _add_call(ctx, "dense", node, data, output, chosen, rows * units * depth, _form(ctx))


def lower_float_conv2d(ctx: KernelContext, call: relax.Call, node: str, data: str, output: str) -> None:
    """``f.conv2d``: windows are read where they lie; where their rows are not contiguous, patches are gathered."""
    weight, bias = _constants(call)
    attrs = dialect.attributes(call)
    geometry, groups = geometry_of(call, weight), int(attrs["groups"])
    macs = geometry["batch"] * geometry["out_h"] * geometry["out_w"] * weight.size
    detail = detail_text(geometry, weight, groups, _form(ctx))
    if groups > 1 and groups == weight.shape[0] and weight.shape[3] == 1:
        chosen = _depthwise(ctx, call, geometry, weight, bias)
        _add_call(ctx, "depthwise_conv2d", node, data, output, chosen, macs, detail)
    else:
        chosen = _convolution(ctx, call, geometry, weight, bias, groups)
        _add_call(ctx, "conv2d", node, data, output, chosen, macs, detail)


def _convolution(
    ctx: KernelContext, call: relax.Call, geometry: dict[str, Any], weight: np.ndarray, bias: np.ndarray, groups: int
) -> _FloatKernel:
    channels, kernel_h, kernel_w, group_in = weight.shape
    group_out = channels // groups
    if kernel_w == 1:
        geometry = {**geometry, "dilation_w": 1}
    sides = _reaches_out(geometry, "w")
    ends = _reaches_out(geometry, "h")
    gathered = groups > 1 or geometry["dilation_w"] > 1
    ones = (kernel_h, kernel_w, geometry["stride_h"], geometry["stride_w"]) == (1, 1, 1, 1)
    if ones and not (sides or ends or gathered):
        pixels = geometry["batch"] * geometry["out_h"] * geometry["out_w"]
        values = _flat(pixels, group_in, channels)
    else:
        inside = _inside(geometry)
        values = {
            **geometry,
            "flat": False,
            "gathered": gathered,
            "sides": sides,
            "ends": ends,
            "inside_from": inside[0],
            "inside_to": inside[1],
            "groups": groups,
            "group_in": group_in,
            "group_out": group_out,
            "group_weights": -(-group_out // 4) * 4 * kernel_h * kernel_w * group_in,
            "group_bias": -(-group_out // 4) * 4,
            # A row of the window to the next.
            "x_skip": 0 if gathered else (geometry["dilation_h"] * geometry["width"] - kernel_w) * group_in,
            "x_step": geometry["stride_w"] * group_in,
        }
    source = ctx.render("float_conv2d.c.j2", title="Convolution", **values, **_bounds(call))
    parts = [slice(group * group_out, (group + 1) * group_out) for group in range(groups)]
    weights = np.concatenate([_pack(weight[part].reshape(group_out, -1)) for part in parts])
    biases = np.concatenate([_padded(bias[part]) for part in parts])
    stem = f"conv2d_f32_{kernel_h}x{kernel_w}_{geometry['channels_in']}_{channels}"
    workspace = kernel_h * kernel_w * group_in if gathered else 0
    return _FloatKernel(stem, source, weights, biases, workspace)


def _depthwise(
    ctx: KernelContext, call: relax.Call, geometry: dict[str, Any], weight: np.ndarray, bias: np.ndarray
) -> _FloatKernel:
    geometry["padded"] = _reaches_out(geometry, "w") or _reaches_out(geometry, "h")
    source = ctx.render("float_depthwise.c.j2", **geometry, **_bounds(call))
    channels, kernel_h, kernel_w, _ = weight.shape
    taps = weight.reshape(channels, -1)
    blocks, start = [], 0
    while start < channels:
        lanes = next(lanes for lanes in (16, 8, 1) if lanes <= channels - start)
        blocks.append(taps[start : start + lanes].T.reshape(-1))
        start += lanes
    return _FloatKernel(f"depthwise_f32_{kernel_h}x{kernel_w}_{channels}", source, np.concatenate(blocks), bias)


def _flat(rows: int, depth: int, channels: int) -> dict[str, Any]:
    """Template values of a product of ``rows`` contiguous rows."""
    return {
        "flat": True,
        "gathered": False,
        "pixels": rows,
        "channels_in": depth,
        "group_in": depth,
        "groups": 1,
        "kernel_h": 1,
        "kernel_w": 1,
        "inside_from": 0,
        "inside_to": rows,
        "channels": channels,
        "x_skip": 0,
        "x_step": depth,
    }


def _reaches_out(geometry: dict[str, Any], axis: str) -> bool:
    """Whether windows lie partly or wholly outside the input along ``axis`` (h, w)."""
    extent = geometry["height" if axis == "h" else "width"]
    before = geometry["pad_top" if axis == "h" else "pad_left"]
    last = (geometry[f"out_{axis}"] - 1) * geometry[f"stride_{axis}"] - before
    return bool(before) or last + geometry[f"dilation_{axis}"] * (geometry[f"kernel_{axis}"] - 1) >= extent


def _inside(geometry: dict[str, Any]) -> tuple[int, int]:
    """Range of output columns whose windows lie inside the input."""
    stride, left = geometry["stride_w"], geometry["pad_left"]
    first = -(-left // stride)
    end = (geometry["width"] + left - geometry["kernel_w"]) // stride + 1
    return first, min(end, geometry["out_w"])


def _constants(call: relax.Call) -> tuple[np.ndarray, np.ndarray]:
    weight, bias = constant(call.args[1]), constant(call.args[2])
    assert weight is not None and bias is not None
    return weight, bias


def _bounds(call: relax.Call) -> dict[str, str]:
    """Template values of what follows the sums."""
    attrs = dialect.attributes(call)
    low, high = float(attrs["low"]), float(attrs["high"])
    if low == 0 and high == math.inf:
        return {"activation": "AI_FLOAT_RELU", "high": "0.0f", "low": "0.0f"}
    if (low, high) == (-math.inf, math.inf):
        return {"activation": "AI_FLOAT_LINEAR", "high": "0.0f", "low": "0.0f"}
    if low == 0 and high > 0:
        return {"activation": "AI_FLOAT_BOUNDED", "high": float_literal(high), "low": "0.0f"}
    return {"activation": "AI_FLOAT_CLIP", "high": float_literal(high), "low": float_literal(low)}


def _pack(rows: np.ndarray) -> np.ndarray:
    """Weights [channels, depth]: those of four channels for each input value in turn; padded with zeros."""
    padded = np.pad(rows, ((0, -len(rows) % 4), (0, 0)))
    return np.ascontiguousarray(padded.reshape(-1, 4, rows.shape[1]).transpose(0, 2, 1)).reshape(-1)


def _padded(bias: np.ndarray) -> np.ndarray:
    return np.pad(bias, (0, -len(bias) % 4))


def _form(ctx: KernelContext) -> str:
    """How the header's blocks will be compiled."""
    if ctx.target.fpu == "none":
        return "portable"
    return "Helium" if ctx.target.mve else "FPU"


def _add_call(
    ctx: KernelContext, operator: str, node: str, data: str, output: str, chosen: _FloatKernel, macs: int, detail: str
) -> None:
    """Add a kernel's constants and its call: (input, weights, bias, output[, patch])."""
    kernel = ctx.kernel(
        chosen.stem,
        chosen.source,
        headers=("ai_kernels_float.h",),
        libm=("fmaf",) if ctx.target.cpu == "host" else (),
        uses_float=True,
    )
    stem = f"{operator}_{len(ctx.library.calls)}"
    arguments = [
        tensor_argument(data, "float32"),
        constant_argument(ctx.constant(f"{stem}_weights", chosen.weights), "float32"),
        constant_argument(ctx.constant(f"{stem}_bias", chosen.bias), "float32"),
        tensor_argument(output, "float32"),
    ]
    ctx.add_kernel_call(
        operator,
        node,
        kernel,
        arguments,
        data,
        output,
        macs=macs,
        detail=detail,
        workspace=4 * chosen.workspace,
        workspace_ctype="float",
    )
    ctx.library.float_operators.append(f"{operator} at '{node}'")
