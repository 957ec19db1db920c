"""Weights in the order and width the matrix-product blocks read them."""

from __future__ import annotations

import numpy as np

from .stage import accumulator_bound


def can_pack_lanes(weight: np.ndarray, bias: np.ndarray) -> bool:
    """Whether two channels may share halfwords as 256 * w1 + w0: |w1| <= 127 and |acc1| < 2**23 for odd channels."""
    odd, odd_bias = weight[1::2], bias[1::2]
    return bool((odd > -128).all() and (accumulator_bound(odd, odd_bias) < (1 << 23)).all())


def pack_dsp(rows: np.ndarray, packed: bool) -> np.ndarray:
    """Weights [channels, depth] (depth even) as bytes for two channels at a time; see ``ai_kernels_dsp.h``."""
    channels, depth = rows.shape
    if channels % 2:
        rows = np.concatenate([rows, np.zeros((1, depth), np.int8)])
    low, high = rows[0::2].astype(np.int16), rows[1::2].astype(np.int16)
    if packed:
        return np.ascontiguousarray((256 * high + low).astype("<i2")).view(np.int8).reshape(-1)
    return np.ascontiguousarray(np.stack([low, high], axis=-1).astype(np.int8)).reshape(-1)


def pack_mve(rows: np.ndarray) -> np.ndarray:
    """Weights [channels, depth] for four channels at a time: 16 codes of each in turn; padded with zeros to both."""
    channels, depth = rows.shape
    padded = np.pad(rows, ((0, -channels % 4), (0, -depth % 16)))
    blocks = padded.reshape(-1, 4, padded.shape[1] // 16, 16)
    return np.ascontiguousarray(blocks.transpose(0, 2, 1, 3)).reshape(-1)


def dsp_order(run: int, interleave: bool) -> list[int]:
    """Order in which the DSP tile holds a run of codes: 0, 2, 1, 3 of each four when widened word by word."""
    if not interleave:
        return list(range(run))
    whole = run - run % 4
    order = [base + offset for base in range(0, whole, 4) for offset in (0, 2, 1, 3)]
    return order + list(range(whole, run))
