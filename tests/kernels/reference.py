"""The integer operators in numpy, written from the references' arithmetic."""

from __future__ import annotations

import numpy as np

from tvm_stm32.numerics import MULTIPLY, gemmlowp


def finish(acc, multiplier, shift, zero_point, rounding, low, high):
    """Accumulators to codes."""
    return np.clip(MULTIPLY[rounding](acc, multiplier, shift) + zero_point, low, high).astype(np.int8)


def conv_accumulate(x, weight, bias, strides, padding, dilation, groups, input_zero_point):
    """int32 sums of w * (x - zero point), NHWC by OHWI; padding counts as the zero point."""
    top, left, bottom, right = padding
    wide = np.pad(x.astype(np.int64) - input_zero_point, ((0, 0), (top, bottom), (left, right), (0, 0)))
    channels, kernel_h, kernel_w, group_in = weight.shape
    out_h = (wide.shape[1] - dilation[0] * (kernel_h - 1) - 1) // strides[0] + 1
    out_w = (wide.shape[2] - dilation[1] * (kernel_w - 1) - 1) // strides[1] + 1
    acc = np.zeros((x.shape[0], out_h, out_w, channels), np.int64) + bias
    group_out = channels // groups
    for ky in range(kernel_h):
        for kx in range(kernel_w):
            patch = wide[
                :,
                ky * dilation[0] : ky * dilation[0] + (out_h - 1) * strides[0] + 1 : strides[0],
                kx * dilation[1] : kx * dilation[1] + (out_w - 1) * strides[1] + 1 : strides[1],
            ]
            for group in range(groups):
                taps = weight[group * group_out : (group + 1) * group_out, ky, kx].astype(np.int64)
                part = patch[..., group * group_in : (group + 1) * group_in] @ taps.T
                acc[..., group * group_out : (group + 1) * group_out] += part
    return acc


def pool(x, size, strides, padding, out_shape, combine):
    """``combine`` of the codes inside each window, over the axes (1, 2)."""
    out = np.zeros(out_shape, np.int64)
    for oy in range(out_shape[1]):
        for ox in range(out_shape[2]):
            y, left = oy * strides[0] - padding[0], ox * strides[1] - padding[1]
            window = x[:, max(0, y) : y + size[0], max(0, left) : left + size[1]].astype(np.int64)
            out[:, oy, ox] = combine(window)
    return out


def softmax_tflm(x, multiplier, shift, smallest):
    """TFLM's int8 softmax of each row of a matrix, element by element; differences below ``smallest`` count as none."""
    out = np.full(x.shape, -128, np.int8)
    for row, result in zip(x.astype(np.int64), out, strict=True):
        exponentials = [
            gemmlowp.exp_on_negative_values(gemmlowp.high_multiply(int(d) << shift, multiplier), 5)
            if d >= smallest
            else None
            for d in row - row.max()
        ]
        total = sum(gemmlowp.divide_by_pot(e, 12) for e in exponentials if e is not None)
        scale, places = gemmlowp.reciprocal(total)
        for index, exponential in enumerate(exponentials):
            if exponential is not None:
                quotient = gemmlowp.divide_by_pot(gemmlowp.high_multiply(scale, exponential), places + 4)
                result[index] = min(127, quotient - 128)
    return out
