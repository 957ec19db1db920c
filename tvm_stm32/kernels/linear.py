"""int8 convolution, depthwise convolution and dense: packing of weights and parameters, choice of the block.

Three forms share one structure (gather a tile of input patches, multiply it with the weights, requantize):

* scalar: portable C, two pixels by two channels, int16 tile;
* dsp: SMLAD, four pixels by two channels, int16 tile, weights of two channels in one word;
* mve: VMLADAVA, two pixels by four channels, int8 tile, rows padded to 16 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tvm import relax

from ..graph import dialect
from ..graph.ssa import constant, shape_of
from ..library import Argument, Call
from ..numerics import MULTIPLY
from .context import KernelContext, constant_argument, tensor_argument, workspace_argument

ROUNDING = {
    "tflm": "AI_ROUNDING_TFLM",
    "upward": "AI_ROUNDING_UPWARD",
    "tonearest": "AI_ROUNDING_TONEAREST",
    "even": "AI_ROUNDING_EVEN",
}


@dataclass(frozen=True)
class OutputStage:
    """How accumulators become codes: constants of the C ``ai_output_stage`` and its tables."""

    params: np.ndarray
    shifts: np.ndarray
    zero_point: int
    clamp_min: int
    clamp_max: int
    rounding: str
    fast: bool

    @property
    def values(self) -> dict[str, Any]:
        """Template values."""
        return {
            "zero_point": self.zero_point,
            "clamp_min": self.clamp_min,
            "clamp_max": self.clamp_max,
            "rounding": ROUNDING[self.rounding],
            "fast": int(self.fast),
        }


def output_stage(call: relax.Call, weight: np.ndarray, bias: np.ndarray) -> tuple[OutputStage, np.ndarray]:
    """``(stage, weight)`` of a linear operator with ``weight`` [channels, ...].

    A channel whose code is the same for every input gets zero weights and parameters that give this code; the bounds
    of the other accumulators decide whether the fast requantization is exact.
    """
    attrs = dialect.attributes(call)
    multiplier, shift = (np.array(constant(argument), np.int64) for argument in call.args[3:5])
    zero_point, rounding = int(attrs["output_zero_point"]), str(attrs["rounding"])
    low, high = _accumulator_range(weight, bias, int(attrs["input_zero_point"]))
    codes = [
        np.clip(MULTIPLY[rounding](acc, multiplier, shift) + zero_point, attrs["clamp_min"], attrs["clamp_max"])
        for acc in (low, high)
    ]
    fits = (low >= -(1 << 31)) & (high < (1 << 31)) & (multiplier >= 0)
    fixed = fits & (codes[0] == codes[1])
    biases = bias.astype(np.int64)
    if rounding in ("tflm", "upward"):
        # With multiplier 2^30 and shift -1 an accumulator of 4 * (code - zero point) gives the code by either rule.
        weight = np.where(fixed.reshape(-1, *[1] * (weight.ndim - 1)), 0, weight).astype(np.int8)
        biases = np.where(fixed, 4 * (codes[0] - zero_point), biases)
        multiplier, shift = np.where(fixed, 1 << 30, multiplier), np.where(fixed, -1, shift)
    right = -shift
    # y + 2^(right-1) + (zero_point << right) must fit 32 bits and the accumulator must not have wrapped.
    bound = _accumulator_bound(weight, biases)
    total = bound + (np.abs(zero_point) + 1) * (np.int64(1) << np.clip(right, 0, 31))
    fast = bool(
        rounding in ("tflm", "upward")
        and (right >= 1).all()
        and (total < (1 << 31)).all()
        and (multiplier >= 1 << 30).all()
    )
    stage = OutputStage(
        np.stack([biases, multiplier], axis=1).astype(np.int32),
        (right if fast else shift).astype(np.int8),
        zero_point,
        int(attrs["clamp_min"]),
        int(attrs["clamp_max"]),
        rounding,
        fast,
    )
    return stage, weight


def _accumulator_range(weight: np.ndarray, bias: np.ndarray, zero_point: int) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest accumulator of each channel over all int8 inputs; padding counts as the zero point."""
    wide = weight.reshape(weight.shape[0], -1).astype(np.int64)
    ends = wide * (-128 - zero_point), wide * (127 - zero_point)
    low, high = np.minimum(*ends), np.maximum(*ends)
    return bias + np.minimum(low, 0).sum(axis=1), bias + np.maximum(high, 0).sum(axis=1)


def _accumulator_bound(weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Largest magnitude an accumulator of each channel can take, |x - zero point| being at most 255."""
    absolute = np.abs(weight.astype(np.int64)).sum(axis=tuple(range(1, weight.ndim)))
    return np.asarray(absolute * 255 + np.abs(bias.astype(np.int64)))


def can_pack_lanes(weight: np.ndarray, bias: np.ndarray) -> bool:
    """Whether two channels may share halfwords as 256 * w1 + w0: |w1| <= 127 and |acc1| < 2**23 for odd channels."""
    odd, odd_bias = weight[1::2], bias[1::2]
    return bool((odd > -128).all() and (_accumulator_bound(odd, odd_bias) < (1 << 23)).all())


def pack_dsp(rows: np.ndarray, packed: bool) -> np.ndarray:
    """Weights [channels, depth] (depth even) as bytes for two channels at a time; see ``ai_kernels_dsp.h``."""
    channels, depth = rows.shape
    if channels % 2:
        rows = np.concatenate([rows, np.zeros((1, depth), np.int8)])
    low, high = rows[0::2].astype(np.int16), rows[1::2].astype(np.int16)
    if packed:
        return np.ascontiguousarray((256 * high + low).astype("<i2")).view(np.int8).reshape(-1)
    return np.ascontiguousarray(np.stack([low, high], axis=-1).astype(np.int8)).reshape(-1)


def dsp_order(run: int, interleave: bool) -> list[int]:
    """Order in which the DSP tile holds a run of codes: 0, 2, 1, 3 of each four when widened word by word."""
    if not interleave:
        return list(range(run))
    whole = run - run % 4
    order = [base + offset for base in range(0, whole, 4) for offset in (0, 2, 1, 3)]
    return order + list(range(whole, run))


@dataclass(frozen=True)
class LinearArguments:
    """Names of the constants every linear kernel takes."""

    weights: str
    params: str
    shifts: str

    @property
    def arguments(self) -> list[Argument]:
        """C arguments in the order of the kernels' parameters."""
        return [
            constant_argument(self.weights, "int8"),
            constant_argument(self.params, "int32"),
            constant_argument(self.shifts, "int8"),
        ]


def add_constants(ctx: KernelContext, weights: np.ndarray, stage: OutputStage, stem: str) -> LinearArguments:
    """Put a linear operator's weights and tables into the library."""
    # The DSP blocks read the parameters of channel pairs: an odd last channel gets an unused partner.
    params = np.pad(stage.params, ((0, len(stage.params) % 2), (0, 0)))
    return LinearArguments(
        ctx.constant(f"{stem}_weights", weights.astype(np.int8)),
        ctx.constant(f"{stem}_params", params),
        ctx.constant(f"{stem}_shifts", stage.shifts),
    )


def form_of(ctx: KernelContext, stage: OutputStage) -> str:
    """scalar, dsp or mve for this target."""
    if ctx.target.mve and stage.fast:
        return "mve"
    return "dsp" if ctx.target.dsp else "scalar"


def _conv_form(ctx: KernelContext, stage: OutputStage, groups: int, group_out: int) -> str:
    """Form of a convolution; Helium tables come in fours, so groups must too."""
    form = form_of(ctx, stage)
    return "dsp" if form == "mve" and groups > 1 and group_out % 4 else form


HEADERS = {
    "scalar": ("ai_kernels.h",),
    "dsp": ("ai_kernels_dsp.h",),
    "mve": ("ai_kernels_mve.h",),
}


def lower_conv2d(ctx: KernelContext, call: relax.Call, node: str, data: str, output: str) -> None:
    """``q.conv2d``: depthwise when every group has one input channel, else a tiled matrix product a group."""
    attrs = dialect.attributes(call)
    weight, bias = constant(call.args[1]), constant(call.args[2])
    assert weight is not None and bias is not None
    groups, channels_in = int(attrs["groups"]), shape_of(call.args[0])[3]
    if groups == channels_in and groups > 1:
        _lower_depthwise(ctx, call, node, data, output, weight, bias)
    else:
        _lower_convolution(ctx, call, node, data, output, weight, bias)


def _geometry(call: relax.Call, weight: np.ndarray) -> dict[str, Any]:
    attrs = dialect.attributes(call)
    batch, height, width, channels_in = shape_of(call.args[0])
    _, out_h, out_w, channels = shape_of(call)
    top, left, bottom, right = attrs["padding"]
    return {
        "batch": batch,
        "height": height,
        "width": width,
        "channels_in": channels_in,
        "out_h": out_h,
        "out_w": out_w,
        "channels": channels,
        "kernel_h": weight.shape[1],
        "kernel_w": weight.shape[2],
        "stride_h": attrs["strides"][0],
        "stride_w": attrs["strides"][1],
        "dilation_h": attrs["dilation"][0],
        "dilation_w": attrs["dilation"][1],
        "pad_top": top,
        "pad_left": left,
        "padded": any((top, left, bottom, right)),
        "input_zero_point": attrs["input_zero_point"],
    }


def _lower_convolution(
    ctx: KernelContext,
    call: relax.Call,
    node: str,
    data: str,
    output: str,
    weight: np.ndarray,
    bias: np.ndarray,
) -> None:
    geometry = _geometry(call, weight)
    groups = int(dialect.attributes(call)["groups"])
    group_in, group_out = weight.shape[3], weight.shape[0] // groups
    stage, weight = output_stage(call, weight, bias)
    form = _conv_form(ctx, stage, groups, group_out)
    # A run of codes that lies contiguously in the input: a kernel row, unless dilation or groups break it up.
    contiguous = groups == 1 and geometry["dilation_w"] == 1
    run = weight.shape[2] * group_in if contiguous else group_in
    depth = weight.shape[1] * weight.shape[2] * group_in
    rows = weight.reshape(weight.shape[0], -1)
    interleave = form == "dsp" and group_in % 4 == 0
    packed = False
    if form == "dsp":
        order = [base + k for base in range(0, depth, run) for k in dsp_order(run, interleave)]
        rows = rows[:, order]
        row_length = depth + depth % 2
        rows = np.pad(rows, ((0, 0), (0, row_length - depth)))
        packed = all(
            can_pack_lanes(
                weight[g * group_out : (g + 1) * group_out], stage.params[g * group_out : (g + 1) * group_out, 0]
            )
            for g in range(groups)
        )
        weights = np.concatenate([pack_dsp(rows[g * group_out : (g + 1) * group_out], packed) for g in range(groups)])
        pixels, tile_bytes = 4, 4 * row_length * 2
    elif form == "mve":
        row_length = -(-depth // 16) * 16
        rows = np.pad(rows, ((0, 0), (0, row_length - depth)))
        rows = np.pad(rows, ((0, -len(rows) % 4), (0, 0)))
        stage = _mve_stage(stage, weight, geometry["input_zero_point"])
        weights, pixels, tile_bytes = rows.reshape(-1), 2, 2 * row_length
    else:
        row_length, weights, pixels = depth, rows.reshape(-1), 2
        tile_bytes = pixels * row_length * 2
    total = geometry["batch"] * geometry["out_h"] * geometry["out_w"]
    pointwise = (weight.shape[1], weight.shape[2], geometry["stride_h"], geometry["stride_w"], groups) == (
        1,
        1,
        1,
        1,
        1,
    ) and not geometry["padded"]
    direct = form == "mve" and pointwise and row_length == depth
    source = ctx.render(
        "conv2d.c.j2",
        **geometry,
        form=form,
        groups=groups,
        group_in=group_in,
        group_out=group_out,
        run=run,
        contiguous=contiguous,
        depth=depth,
        row_length=row_length,
        group_weight_bytes=len(weights) // groups,
        interleave=interleave,
        packed=int(packed),
        pixels=pixels,
        total_pixels=total,
        pointwise=pointwise,
        direct=direct,
        **stage.values,
    )
    shape = f"{weight.shape[1]}x{weight.shape[2]}_{group_in}_{weight.shape[0]}"
    workspace = 0 if direct else tile_bytes
    kernel = ctx.kernel(f"conv2d_{shape}", source, workspace=workspace, headers=HEADERS[form])
    names = add_constants(ctx, weights, stage, f"conv2d_{len(ctx.library.calls)}")
    macs = total * weight.shape[0] * depth
    arguments = [tensor_argument(data, "int8"), *names.arguments, tensor_argument(output, "int8")]
    if workspace:
        arguments.append(workspace_argument("int8_t" if form == "mve" else "int16_t"))
    ctx.add_call(
        Call(
            "conv2d",
            node,
            kernel.name,
            tuple(arguments),
            (data,),
            (output,),
            macs=macs,
            workspace=workspace,
            detail=_detail(geometry, weight, groups, form),
        )
    )


def _detail(geometry: dict[str, Any], weight: np.ndarray, groups: int, form: str) -> str:
    text = f"{weight.shape[1]}x{weight.shape[2]} stride {geometry['stride_h']}x{geometry['stride_w']}"
    return text + (f" groups {groups}" if groups > 1 else "") + f", {form}"


def _mve_stage(stage: OutputStage, weight: np.ndarray, zero_point: int) -> OutputStage:
    """Tables of the Helium matrix product: zero point folded in, channels in fours (biases, then multipliers)."""
    folded = _fold_input_zero_point(stage, weight, zero_point)
    channels = len(folded.params)
    params = np.pad(folded.params, ((0, -channels % 4), (0, 0)))
    blocks = params.reshape(-1, 4, 2).transpose(0, 2, 1)
    shifts = np.pad(-folded.shifts, (0, -channels % 4))
    return replace(folded, params=np.ascontiguousarray(blocks).reshape(-1, 4), shifts=shifts)


# Where the channels of a block stand after widening even and odd lanes (ai_depthwise_16ch_mve and _8ch_mve).
_WIDENED_ORDER = {16: [0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15], 8: [0, 2, 4, 6, 1, 3, 5, 7]}


def _mve_depthwise_stage(stage: OutputStage, weight: np.ndarray, zero_point: int) -> OutputStage:
    """Tables of the Helium depthwise kernels: blocks of 16 channels (a last one of 8) in the order of their lanes."""
    folded = _fold_input_zero_point(stage, weight, zero_point)
    params, shifts = [], []
    for start in range(0, len(folded.params), 16):
        block = folded.params[start : start + 16]
        order = _WIDENED_ORDER[len(block)]
        params.append(block[order].T.reshape(-1))
        shifts.append(-folded.shifts[start : start + 16][order])
    return replace(folded, params=np.concatenate(params).reshape(-1, 8), shifts=np.concatenate(shifts))


def _fold_input_zero_point(stage: OutputStage, weight: np.ndarray, zero_point: int) -> OutputStage:
    """Biases for kernels that multiply raw codes: sum w * (x - z) = sum w * x - z * sum w (exact modulo 2**32)."""
    sums = weight.reshape(weight.shape[0], -1).astype(np.int64).sum(axis=1)
    params = stage.params.astype(np.int64)
    params[:, 0] -= zero_point * sums
    return replace(stage, params=params.astype(np.int32))


def _lower_depthwise(
    ctx: KernelContext,
    call: relax.Call,
    node: str,
    data: str,
    output: str,
    weight: np.ndarray,
    bias: np.ndarray,
) -> None:
    geometry = _geometry(call, weight)
    stage, weight = output_stage(call, weight, bias)
    multiplier = weight.shape[0] // geometry["channels_in"]
    channels = weight.shape[0]
    form = "scalar"
    if multiplier == 1 and channels % 4 == 0:
        form = form_of(ctx, stage)
    if form == "mve" and (channels % 8 or weight.min() == -128):
        form = "dsp"
    weights = np.ascontiguousarray(weight[..., 0].transpose(1, 2, 0))  # taps by channels
    workspace = 0
    if form == "mve":
        stage = _mve_depthwise_stage(stage, weight, geometry["input_zero_point"])
        workspace = 16 * weight.shape[1] * weight.shape[2] if geometry["padded"] else 0
    elif form == "dsp":
        workspace = weights.size if geometry["padded"] else 0
    source = ctx.render("depthwise.c.j2", **geometry, multiplier=multiplier, form=form, **stage.values)
    kernel = ctx.kernel(
        f"depthwise_{weight.shape[1]}x{weight.shape[2]}_{channels}",
        source,
        workspace=workspace,
        headers=HEADERS[form],
    )
    names = add_constants(ctx, weights, stage, f"depthwise_{len(ctx.library.calls)}")
    arguments = [tensor_argument(data, "int8"), *names.arguments, tensor_argument(output, "int8")]
    if workspace:
        arguments.append(workspace_argument("int8_t"))
    macs = (
        geometry["batch"]
        * geometry["out_h"]
        * geometry["out_w"]
        * weight.shape[0]
        * weights.shape[0]
        * weights.shape[1]
    )
    ctx.add_call(
        Call(
            "depthwise_conv2d",
            node,
            kernel.name,
            tuple(arguments),
            (data,),
            (output,),
            macs=macs,
            workspace=workspace,
            detail=_detail(geometry, weight, 1, form),
        )
    )


def lower_dense(ctx: KernelContext, call: relax.Call, node: str, data: str, output: str) -> None:
    """``q.dense``: one row of the input at a time, widened once."""
    attrs = dialect.attributes(call)
    weight, bias = constant(call.args[1]), constant(call.args[2])
    assert weight is not None and bias is not None
    units, depth = weight.shape
    batch = int(np.prod(shape_of(call))) // units
    stage, weight = output_stage(call, weight, bias)
    form = form_of(ctx, stage)
    packed = False
    if form == "dsp":
        rows = weight[:, dsp_order(depth, True)]
        row_length = depth + depth % 2
        rows = np.pad(rows, ((0, 0), (0, row_length - depth)))
        packed = can_pack_lanes(weight, stage.params[:, 0])
        weights, workspace = pack_dsp(rows, packed), row_length * 2
    elif form == "mve":
        row_length = -(-depth // 16) * 16
        weights = np.pad(weight, ((0, -units % 4), (0, row_length - depth))).reshape(-1)
        stage = _mve_stage(stage, weight, attrs["input_zero_point"])
        workspace = 0 if row_length == depth else row_length
    else:
        row_length, weights, workspace = depth, weight.reshape(-1), depth * 2
    source = ctx.render(
        "dense.c.j2",
        form=form,
        batch=batch,
        units=units,
        depth=depth,
        row_length=row_length,
        packed=int(packed),
        direct=workspace == 0,
        input_zero_point=attrs["input_zero_point"],
        **stage.values,
    )
    kernel = ctx.kernel(f"dense_{depth}_{units}", source, workspace=workspace, headers=HEADERS[form])
    names = add_constants(ctx, weights, stage, f"dense_{len(ctx.library.calls)}")
    arguments = [tensor_argument(data, "int8"), *names.arguments, tensor_argument(output, "int8")]
    if workspace:
        arguments.append(workspace_argument("int8_t" if form == "mve" else "int16_t"))
    ctx.add_call(
        Call(
            "dense",
            node,
            kernel.name,
            tuple(arguments),
            (data,),
            (output,),
            macs=batch * units * depth,
            workspace=workspace,
            detail=form,
        )
    )
