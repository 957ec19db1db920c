"""Channels nobody needs: constant ones become part of the biases behind them, unread ones go, with what they cost.

Training leaves channels whose code is the same for every input (an activation that never opens) and channels whose
weights are zero wherever they are read. A class of channels (:mod:`.channels`) is removed when every product that reads
one of its members can do without: the weights are zero, or the channel is a known constant whose share of the sum is
the same at every position, so that it can be added to the bias. Sums stay equal, and so does every byte.

Kernels work on four channels at once, Helium's of depthwise convolutions on eight: where a number of channels had that
factor it keeps it. The channels that fill up are dead as well: nothing reads them and their weights are zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tvm import relax

from .channel_removal import Removal, without_channels
from .channels import Channels, Product
from .ranges import Range, Ranges
from .ssa import Function, shape_of
from .taps import Linear, accumulator_range, linear_codes, linear_of

_INT32 = 1 << 31


@dataclass(frozen=True)
class Report:
    """What was left out: channels of convolutions and dense layers, multiply-accumulates of an inference."""

    channels: int
    macs: int


def remove_dead_channels(function: relax.Function, *, by_eights: bool = True) -> tuple[relax.Function, Report]:
    """``function`` without its dead channels; its parameters and results stay as they are.

    ``by_eights``: whether the channels of depthwise convolutions stay a multiple of eight (else of four).
    """
    view = Function(function)
    ranges, channels = Ranges(view), Channels(view)
    stuck = {b.var: settled for b in view.bindings if (settled := _settled(ranges, b.value)) is not None}
    uses = [_use(ranges, product, stuck) for product in channels.products]
    dead = _dead(channels, uses)
    kept = ~dead
    _fill_up(channels, dead, kept, by_eights)
    removal = Removal(channels, dead, kept, stuck, {use.product.variable: use.constant for use in uses})
    smaller = without_channels(view, removal)
    return smaller, Report(removal.count, _macs(view) - _macs(Function(smaller)))


def _macs(view: Function) -> int:
    total = 0
    for binding in view.bindings:
        linear = linear_of(binding.value)
        if linear is not None:
            total += int(np.prod(shape_of(binding.var)[:-1])) * linear.weight.size
    return total


def _settled(ranges: Ranges, value: relax.Expr) -> Linear | None:
    """A product with zero weights where the result is constant: its bias alone gives the code. None if nowhere."""
    linear = linear_of(value)
    if linear is None or 0 in shape_of(value):
        return None
    data = ranges.of(value.args[0])
    ends = data.along(data.low.ndim - 1, shape_of(value.args[0])[-1])
    low, high = linear_codes(value, linear, *ends)
    constant = (low == high) & linear.weight.any(axis=(1, 2))
    # Requantization never decreases, so any sum between the smallest and the largest gives the same code.
    sums, _ = accumulator_range(linear, *ends)
    constant &= np.abs(sums) < _INT32
    if not constant.any():
        return None
    weight = np.where(constant[:, None, None], 0, linear.weight)
    bias = np.where(constant, sums, linear.bias)
    return Linear(weight, bias, linear.sources, linear.inside, linear.outside, linear.zero_point, linear.groups)


@dataclass(frozen=True)
class _Use:
    """A product that reads channels: which are constant, and what they are without the zero point."""

    product: Product
    linear: Linear
    constant: np.ndarray
    known: np.ndarray


def _use(ranges: Ranges, product: Product, stuck: dict[relax.Var, Linear]) -> _Use:
    found: Range = ranges.of(product.call.args[0])
    low, high = found.along(found.low.ndim - 1, len(product.inputs))
    known = low == high
    linear = stuck.get(product.variable, product.linear)
    return _Use(product, linear, np.where(known, low - linear.zero_point, 0), known)


def _dead(channels: Channels, uses: list[_Use]) -> np.ndarray:
    """Whether each member may go: from all that are not pinned, those that are needed are taken back."""
    members = np.arange(len(channels.classes.parents))
    roots = channels.classes.roots(members)
    gone = ~np.array(channels.classes.pinned, bool)
    while True:
        before = int(gone.sum())
        for use in reversed(uses):
            inputs, rows = roots[use.product.inputs], ~gone[roots[use.product.outputs]]
            gone[inputs[_needed(use, rows)]] = False
        if int(gone.sum()) == before:
            overflowing = [_overflowing(use, roots, gone) for use in uses]
            if not any(members.size for members in overflowing):
                return np.asarray(gone[roots])
            gone[np.concatenate(overflowing)] = False


def _needed(use: _Use, rows: np.ndarray) -> np.ndarray:
    """Input channels that the given rows of a product cannot do without."""
    read: np.ndarray = use.linear.weight[rows] != 0
    read[:, use.linear.outside] = False
    # A constant equal to the zero point adds nothing; another adds the same everywhere unless a tap meets the padding.
    foldable = use.known & ((use.constant == 0) | ~read[:, ~use.linear.inside].any(axis=(0, 1)))
    return np.asarray(read.any(axis=(0, 1)) & ~foldable)


def _overflowing(use: _Use, roots: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """Classes whose share takes a bias out of int32."""
    inputs = roots[use.product.inputs]
    shares = use.linear.weight[:, ~use.linear.outside].sum(axis=1, dtype=np.int64) * np.where(
        gone[inputs], use.constant, 0
    )
    total = use.linear.bias + shares.sum(axis=1)
    beyond = ((total < -_INT32) | (total >= _INT32)) & ~gone[roots[use.product.outputs]]
    return np.asarray(inputs[(shares[beyond] != 0).any(axis=0)])


def _fill_up(channels: Channels, dead: np.ndarray, kept: np.ndarray, by_eights: bool) -> None:
    """Keep the first dead channels of a tensor (in ``kept``) until their number has the factor the tensor's had."""
    roots = channels.classes.roots(np.arange(len(dead)))
    eights = np.zeros(len(dead), bool)
    for ids in channels.depthwise if by_eights else ():
        eights[roots[ids]] = len(ids) % 8 == 0
    for ids in channels.sources:
        mine = roots[ids]
        factors = (8, 4, 2, 1) if eights[mine].any() else (4, 2, 1)
        factor = next(factor for factor in factors if len(ids) % factor == 0)
        count = int(kept[mine].sum())
        missing = max(factor, -(-count // factor) * factor) - count
        kept[mine[~kept[mine]][:missing]] = True
    kept[:] = kept[roots]
