"""Weights of 4 and 2 bits: stored as such where blocks unpack them (of 4 bits only on Helium), else as int8."""

from __future__ import annotations

import numpy as np

from .blocks.matmul import wrapped
from .blocks.product import product_records
from .blocks.product_vector import product_vector_records
from .blocks.requantize import Requantizer
from .context import KernelContext
from .stage import OutputStage, accumulator_bound


def weight_bits(ctx: KernelContext, weight: np.ndarray, stage: OutputStage) -> int:
    """Bits a weight of a convolution or dense layer takes in flash: 8, 4 or 2, the fewest that hold all its values.

    Sums of packed lanes must fit 32 bits beside their neighbours.
    """
    if not weight.size:
        return 8
    if ctx.target.mve:
        return 4 if weight.min() >= -8 and weight.max() < 8 else 8
    bits = next((n for n in (2, 4) if weight.min() >= -(1 << (n - 1)) and weight.max() < 1 << (n - 1)), 8)
    bound = 2 * accumulator_bound(weight, stage.params[:, 0])
    return bits if bits < 8 and (bound < 1 << (31 - bits)).all() else 8


def bits_text(bits: int) -> str:
    """Words of the report about weights that are not bytes."""
    return "" if bits == 8 else f", {bits}-bit weights"


def nibble_records(
    rows: np.ndarray,
    stage: OutputStage,
    zero_point: int,
    bits: int,
    requantizer: Requantizer | None,
    *,
    vector: bool = False,
) -> np.ndarray:
    """Weights and parameters of :mod:`.blocks.product` on the tile of :mod:`.blocks.matmul`, as int32 words.

    Biases are those of :func:`.blocks.matmul.matmul_records`.
    """
    biases = stage.params[:, 0].astype(np.int64) - (zero_point + 128) * rows.astype(np.int64).sum(axis=1)
    make = product_vector_records if vector else product_records
    own = requantizer is not None and not requantizer.common
    records = make(
        rows,
        wrapped(2 * biases if requantizer else biases),
        stage.params[:, 1] if own else None,
        stage.shifts.astype(np.int32) - 1 if own else None,
        bits=bits,
    )
    return np.concatenate([requantizer.common_head(stage), records]) if requantizer else records
