"""What the float32 kernels promise, in numpy: sums of fused multiply-adds in a fixed order, every byte of them."""

from __future__ import annotations

import numpy as np


def fma(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """``x * y + z`` of float32, rounded once.

    The product is exact in double precision; the sum is rounded to odd there, so rounding it to single is the only
    rounding that counts (Boldo and Melquiond, 2008).
    """
    product, addend = x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)
    product, addend = np.broadcast_arrays(product, addend)
    total = np.array(product + addend)
    # What the sum lost, exactly (Knuth's TwoSum).
    part = total - product
    lost = (product - (total - part)) + (addend - part)
    bits = total.view(np.int64)
    inexact = (lost != 0) & (bits & 1 == 0)
    toward = np.where((lost > 0) == (total > 0), 1, -1)
    return np.where(inexact, bits + toward, bits).view(np.float64).astype(np.float32)


def bounded(sums: np.ndarray, low: float, high: float) -> np.ndarray:
    """Sums between bounds; -0 becomes 0 where 0 is the lower one."""
    result = np.minimum(np.maximum(sums, np.float32(low)), np.float32(high))
    return np.where(result == 0, np.float32(0), result) if low == 0 else result


def dense(data: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """``data`` [.., K] times ``weight`` [units, K]: a sum begins with its bias, then k = 0, 1, .."""
    sums = np.broadcast_to(bias, (*data.shape[:-1], len(weight))).astype(np.float32)
    for k in range(weight.shape[1]):
        sums = fma(data[..., k : k + 1], weight[:, k], sums)
    return sums


def conv2d(data, weight, bias, strides, padding, dilation, groups) -> np.ndarray:
    """NHWC data, OHWI weights; padding top, left, bottom, right. Order: kernel row, kernel column, input channel."""
    batch, height, width, _ = data.shape
    channels, kernel_h, kernel_w, group_in = weight.shape
    top, left, bottom, right = padding
    out_h = (height + top + bottom - dilation[0] * (kernel_h - 1) - 1) // strides[0] + 1
    out_w = (width + left + right - dilation[1] * (kernel_w - 1) - 1) // strides[1] + 1
    padded = np.pad(data, ((0, 0), (top, bottom), (left, right), (0, 0)))
    sums = np.broadcast_to(bias, (batch, out_h, out_w, channels)).astype(np.float32)
    first = np.arange(channels) // (channels // groups) * group_in
    for ky in range(kernel_h):
        for kx in range(kernel_w):
            y, x = ky * dilation[0], kx * dilation[1]
            seen = padded[:, y : y + (out_h - 1) * strides[0] + 1 : strides[0]]
            seen = seen[:, :, x : x + (out_w - 1) * strides[1] + 1 : strides[1]]
            for k in range(group_in):
                sums = fma(seen[..., first + k], weight[:, ky, kx, k], sums)
    return sums
