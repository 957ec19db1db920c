"""How linear operators end: tables of bias, multiplier and shift, and when the fast requantization is exact."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tvm import relax

from ..graph import dialect
from ..graph.ssa import constant, shape_of
from ..graph.taps import linear_codes, linear_of

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
    codes = _codes(call)
    fixed = codes[0] == codes[1]
    biases = bias.astype(np.int64)
    if rounding in ("tflm", "upward"):
        # With multiplier 2^30 and shift -1 an accumulator of 4 * (code - zero point) gives the code by either rule.
        weight = np.where(fixed.reshape(-1, *[1] * (weight.ndim - 1)), 0, weight).astype(np.int8)
        biases = np.where(fixed, 4 * (codes[0] - zero_point), biases)
        multiplier, shift = np.where(fixed, 1 << 30, multiplier), np.where(fixed, -1, shift)
    right = -shift
    # y + 2^(right-1) + (zero_point << right) must fit 32 bits and the accumulator must not have wrapped.
    bound = accumulator_bound(weight, biases)
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


def _codes(call: relax.Call) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest code of each output channel over all int8 inputs."""
    linear = linear_of(call)
    assert linear is not None
    channels_in = shape_of(call.args[0])[-1]
    return linear_codes(call, linear, np.full(channels_in, -128), np.full(channels_in, 127))


def accumulator_bound(weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Largest magnitude an accumulator of each channel can take, |x - zero point| being at most 255."""
    absolute = np.abs(weight.astype(np.int64)).sum(axis=tuple(range(1, weight.ndim)))
    return np.asarray(absolute * 255 + np.abs(bias.astype(np.int64)))


def dsp_stage(stage: OutputStage) -> OutputStage:
    """Tables of the DSP kernels: multipliers doubled modulo 2**32 where the fast form uses them."""
    if not stage.fast:
        return stage
    params = stage.params.copy()
    params[:, 1] = (params[:, 1].astype(np.int64) << 1).astype(np.uint32).view(np.int32)
    return replace(stage, params=params)


def mve_stage(stage: OutputStage, weight: np.ndarray, zero_point: int) -> OutputStage:
    """Tables of the Helium matrix product: zero point folded in, channels in fours (biases, then multipliers)."""
    folded = _fold_input_zero_point(stage, weight, zero_point)
    channels = len(folded.params)
    params = np.pad(folded.params, ((0, -channels % 4), (0, 0)))
    blocks = params.reshape(-1, 4, 2).transpose(0, 2, 1)
    shifts = np.pad(-folded.shifts, (0, -channels % 4))
    return replace(folded, params=np.ascontiguousarray(blocks).reshape(-1, 4), shifts=shifts)


# Where the channels of a block stand after widening even and odd lanes (ai_depthwise_16ch_mve and _8ch_mve).
_WIDENED_ORDER = {16: [0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15], 8: [0, 2, 4, 6, 1, 3, 5, 7]}


def mve_depthwise_stage(stage: OutputStage, weight: np.ndarray, zero_point: int) -> OutputStage:
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
