"""How linear operators end: tables of bias, multiplier and shift, and when the fast requantization is exact."""

from __future__ import annotations

from dataclasses import dataclass
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
