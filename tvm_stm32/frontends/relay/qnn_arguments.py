"""Scales and zero points of quantized operators, read and checked."""

from __future__ import annotations

import numpy as np

from ...model import Quantization
from ...numerics import quantize_multipliers
from .operator import Application
from .values import Constant, Tensor

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32")
"""Dtypes quantized tensors may have."""

_MAX_SHIFT = 30


def scales_of(app: Application, index: int) -> np.ndarray:
    """A scale argument as a vector of positive float32."""
    array = app.constant(index).astype(np.float32).reshape(-1)
    if not array.size or not np.isfinite(array).all() or (array <= 0).any():
        raise app.fail(f"argument {index + 1} has scales that are not positive and finite")
    return array


def scale_of(app: Application, index: int) -> np.float32:
    """A scale argument that must be one number."""
    array = scales_of(app, index)
    if (array != array[0]).any():
        raise app.unsupported(f"argument {index + 1} has one scale a channel, only one a tensor is supported")
    return np.float32(array[0])


def zero_points_of(app: Application, index: int) -> list[int]:
    """A zero point argument as a list of integers."""
    array = app.constant(index)
    if array.dtype.kind not in "iu" or not array.size:
        raise app.fail(f"argument {index + 1} is no zero point but {array.dtype}")
    return [int(value) for value in array.reshape(-1)]


def zero_point_of(app: Application, index: int) -> int:
    """A zero point argument that must be one number."""
    values = zero_points_of(app, index)
    if len(set(values)) > 1:
        raise app.unsupported(f"argument {index + 1} has one zero point a channel, only one a tensor is supported")
    return values[0]


def integer_tensor(app: Application, index: int, allowed: tuple[str, ...] = INTEGERS) -> Tensor | Constant:
    """Argument ``index``, which must have one of the ``allowed`` dtypes."""
    value = app.tensor(index)
    if value.dtype not in allowed:
        raise app.fail(f"argument {index + 1} is {value.dtype}, not one of {', '.join(allowed)}")
    return value


def note_input(app: Application, index: int, scale: np.ndarray, zero_point: list[int], axis: int = -1) -> None:
    """Remember how argument ``index`` is quantized if it is an input of the model."""
    value = app.tensor(index)
    if isinstance(value, Tensor) and value.origin:
        app.emitter.input_quantization.setdefault(value.origin, quantization_of(scale, zero_point, axis))


def quantization_of(scale: np.ndarray, zero_point: list[int], axis: int = -1) -> Quantization:
    """The model's description of a quantization; ``axis`` counts only when there are several values."""
    per_channel = max(scale.size, len(zero_point)) > 1
    return Quantization(tuple(float_list(scale)), tuple(zero_point), axis if per_channel else -1)


def multipliers_of(app: Application, real: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Multipliers and shifts of real factors; raises when one is too large to shift by."""
    multiplier, shift = quantize_multipliers(np.asarray(real, np.float64))
    if (shift > _MAX_SHIFT).any():
        raise app.fail("the output scale is more than 2**30 times smaller than the input scale")
    return multiplier, shift


def float_list(array: np.ndarray) -> list[float]:
    """A vector as plain numbers, for attributes."""
    return [float(value) for value in array]


def channel_axis(app: Application, data: Tensor | Constant, *sizes: int) -> int:
    """The axis of per-channel values, non-negative; a scalar tensor has none, and axis 0 stands for it."""
    rank = len(data.shape)
    axis = app.axis(app.attrs.integer("axis", -1), rank) if rank else 0
    if any(size not in (1, data.shape[axis] if rank else 1) for size in sizes):
        raise app.fail(
            f"scales and zero points do not have the {data.shape[axis] if rank else 1} elements of axis {axis}"
        )
    return axis


def quantized(
    real: np.ndarray, scale: np.ndarray | np.float32, zero_point: np.ndarray | np.float32, dtype: str
) -> np.ndarray:
    """Relay's quantize, all in float32, ties away from zero; NaN, which is undefined there, becomes the zero point."""
    limits = np.iinfo(dtype)
    scaled = real.astype(np.float32) / scale
    whole = np.trunc(scaled)
    away = np.abs(scaled - whole) >= np.float32(0.5)
    moved = np.where(away, whole + np.sign(scaled), whole) + zero_point
    moved = np.where(np.isnan(moved), zero_point, moved)
    # float32 cannot hold 2**31 - 1; the largest value below keeps the cast defined.
    return np.asarray(np.clip(moved, limits.min, min(limits.max, 2147483520)), dtype)


def along_axis(values: np.ndarray, axis: int, rank: int) -> np.ndarray:
    """One value, or a vector shaped to broadcast along ``axis`` of an array of ``rank``."""
    return values.reshape(()) if values.size == 1 else values.reshape((-1,) + (1,) * (rank - 1 - axis))
