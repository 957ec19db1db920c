"""TFLite operators that only move codes: quantization is not read, element types do not matter (spec 2.13)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import tflite
from tvm import relax

from ..graph.ssa import shape_of
from .tflite_site import Operand, Rule, Site

op = relax.op


def _reshape(site: Site) -> relax.Expr:
    return op.reshape(site.data(0).codes, site.output.shape)


def _transpose(site: Site) -> relax.Expr:
    return op.permute_dims(site.data(0).codes, site.integers(1))


def _concatenation(site: Site) -> relax.Expr:
    options, out = site.options("Concatenation"), site.output
    parts = [site.data(position) for position in range(len(site.inputs))]
    if options.FusedActivationFunction():
        raise site.refused("it has a fused activation, which the reference kernel does not compute")
    if out.dtype == "int8" and not all(part.same_quantization(out) for part in parts):
        raise site.refused(
            "its inputs and its output are quantized differently, which the reference kernel refuses",
            "quantize the model again with a current converter, which gives them one scale",
        )
    if len(parts) == 1:
        return op.reshape(parts[0].codes, out.shape)
    return op.concat([part.codes for part in parts], int(options.Axis()))


def _pack(site: Site) -> relax.Expr:
    axis = int(site.options("Pack").Axis()) % site.output.rank
    shape = [1 if i == axis else extent for i, extent in enumerate(site.output.shape)]
    parts = [site.emit(op.reshape(site.data(i).codes, shape)) for i in range(len(site.inputs))]
    return op.concat(parts, axis) if len(parts) > 1 else op.reshape(parts[0], shape)


def slices(site: Site, codes: relax.Expr, ranges: Sequence[range]) -> relax.Expr:
    """``codes`` at the indices of each axis' range; ranges that walk backwards are turned round."""
    shape = shape_of(codes)
    forward = [indices if indices.step > 0 else indices[::-1] for indices in ranges]
    axes = [axis for axis, indices in enumerate(forward) if indices != range(shape[axis])]
    if axes:
        begin = [forward[axis].start for axis in axes]
        end = [forward[axis][-1] + 1 if len(forward[axis]) else forward[axis].start for axis in axes]
        steps = [forward[axis].step for axis in axes]
        codes = site.emit(op.strided_slice(codes, axes, begin, end, steps))
    for axis, indices in enumerate(ranges):
        if indices.step < 0 and len(indices) > 1:
            codes = site.emit(op.flip(codes, axis))
    return codes


def _parts(site: Site, data: Operand, axis: int, sizes: Sequence[int]) -> list[relax.Expr]:
    """Pieces of ``data`` along ``axis``, in the shapes of the outputs."""
    pieces, start = [], 0
    for size, out in zip(sizes, site.outputs, strict=True):
        ranges = [range(extent) for extent in data.shape]
        ranges[axis] = range(start, start + size)
        piece = slices(site, data.codes, ranges)
        pieces.append(site.shaped(piece) if out.rank != data.rank else piece)
        start += size
    return pieces


def _unpack(site: Site) -> list[relax.Expr]:
    data = site.data(0)
    return _parts(site, data, int(site.options("Unpack").Axis()) % data.rank, [1] * len(site.outputs))


def _split(site: Site) -> list[relax.Expr]:
    data, count = site.data(1), len(site.outputs)
    axis = site.integers(0)[0] % data.rank
    return _parts(site, data, axis, [data.shape[axis] // count] * count)


def _split_v(site: Site) -> list[relax.Expr]:
    data = site.data(0)
    axis = site.integers(2)[0] % data.rank
    sizes = site.integers(1)
    if -1 in sizes:
        sizes[sizes.index(-1)] = data.shape[axis] - sum(sizes) - 1
    return _parts(site, data, axis, sizes)


def _slice(site: Site) -> relax.Expr:
    data = site.data(0)
    starts, sizes = site.integers(1), site.integers(2)
    ends = [
        start + size if size >= 0 else extent for start, size, extent in zip(starts, sizes, data.shape, strict=True)
    ]
    return slices(site, data.codes, [range(start, end) for start, end in zip(starts, ends, strict=True)])


def _strided_slice(site: Site) -> relax.Expr:
    options, data = site.options("StridedSlice"), site.data(0)
    if options.EllipsisMask() or options.NewAxisMask():
        raise site.refused("it has an ellipsis or new-axis mask", "export the model with plain slices")
    begin, end, steps = (site.integers(position) for position in (1, 2, 3))
    ranges = []
    for axis, extent in enumerate(data.shape):
        if axis >= len(begin):
            ranges.append(range(extent))
            continue
        bit = 1 << axis
        if options.ShrinkAxisMask() & bit:
            index = begin[axis] % extent
            ranges.append(range(index, index + 1))
            continue
        first = None if options.BeginMask() & bit else begin[axis]
        last = None if options.EndMask() & bit else end[axis]
        ranges.append(range(extent)[slice(first, last, steps[axis])])
    if not all(len(indices) for indices in ranges):
        raise site.refused("its result is empty")
    return site.shaped(slices(site, data.codes, ranges))


def _tile(site: Site) -> relax.Expr:
    return op.tile(site.data(0).codes, site.integers(1))


def _reverse(site: Site) -> relax.Expr:
    data = site.data(0)
    axes = {axis % data.rank for axis in site.integers(1)}
    return slices(site, data.codes, [range(e)[::-1] if axis in axes else range(e) for axis, e in enumerate(data.shape)])


def _space_to_depth(site: Site) -> relax.Expr:
    block, (batch, height, width, channels) = int(site.options("SpaceToDepth").BlockSize()), site.data(0).shape
    split = [batch, height // block, block, width // block, block, channels]
    moved = op.permute_dims(site.emit(op.reshape(site.data(0).codes, split)), [0, 1, 3, 2, 4, 5])
    return site.shaped(moved)


def _depth_to_space(site: Site) -> relax.Expr:
    block, (batch, height, width, channels) = int(site.options("DepthToSpace").BlockSize()), site.data(0).shape
    split = [batch, height, width, block, block, channels // block**2]
    moved = op.permute_dims(site.emit(op.reshape(site.data(0).codes, split)), [0, 1, 3, 2, 4, 5])
    return site.shaped(moved)


def _pad(site: Site) -> relax.Expr:
    data, out = site.data(0), site.output
    width = site.integers(1)
    code = out.zero_point if data.dtype in ("int8", "uint8") else 0
    fill = site.optional(2)
    if fill is not None:
        if not fill.same_quantization(out):
            raise site.refused("its constant and its output are quantized differently")
        code = site.integers(2)[0]
    return op.nn.pad(data.codes, width, "constant", float(code))


def _mirror_pad(site: Site) -> relax.Expr:
    data, symmetric = site.data(0), int(site.options("MirrorPad").Mode()) == tflite.MirrorPadMode.SYMMETRIC
    codes = data.codes
    for axis, width in enumerate(site.constant(1).reshape(-1, 2).tolist()):
        if any(width):
            indices = np.pad(
                np.arange(data.shape[axis], dtype=np.int32), width, mode="symmetric" if symmetric else "reflect"
            )
            codes = site.emit(op.take(site.emit(codes), relax.const(indices), axis, mode="fast"))
    return codes


def _broadcast_to(site: Site) -> relax.Expr:
    return op.broadcast_to(site.data(0).codes, site.output.shape)


def _select(site: Site) -> relax.Expr:
    chosen, other = site.data(1), site.data(2)
    condition = site.data(0).codes
    if site.code == "SELECT" and site.data(0).rank == 1 and chosen.rank > 1:
        condition = site.emit(op.reshape(condition, [-1] + [1] * (chosen.rank - 1)))
    return op.where(condition, chosen.codes, other.codes)


def _resize_nearest(site: Site) -> relax.Expr:
    options, data = site.options("ResizeNearestNeighbor"), site.data(0)
    align, half = bool(options.AlignCorners()), bool(options.HalfPixelCenters())
    codes = data.codes
    for axis in (1, 2):
        extent, target = data.shape[axis], site.output.shape[axis]
        indices = _nearest(extent, target, align, half)
        if indices != list(range(extent)):
            codes = site.emit(op.take(site.emit(codes), relax.const(np.array(indices, np.int32)), axis, mode="fast"))
    return codes


def _nearest(extent: int, target: int, align: bool, half: bool) -> list[int]:
    """Source index of each target index, in float32 as the reference kernel (spec 2.12)."""
    single = np.float32
    aligned = align and target > 1
    scale = single(extent - 1) / single(target - 1) if aligned else single(extent) / single(target)
    found = []
    for index in range(target):
        place = single((single(index) + single(0.5 if half else 0.0)) * scale)
        nearest = math.floor(float(place) + 0.5) if align else math.floor(float(place))
        nearest = min(nearest, extent - 1)
        found.append(max(0, nearest) if half else nearest)
    return found


def _batch_to_space(site: Site) -> relax.Expr:
    data, block, crops = site.data(0), site.integers(1), site.constant(2).reshape(-1, 2).tolist()
    space = len(block)
    spatial, rest = list(data.shape[1 : 1 + space]), list(data.shape[1 + space :])
    batch = data.shape[0] // math.prod(block)
    apart = site.emit(op.reshape(data.codes, [*block, batch, *spatial, *rest]))
    order = [space]
    for axis in range(space):
        order += [space + 1 + axis, axis]
    moved = site.emit(op.permute_dims(apart, [*order, *range(2 * space + 1, 2 * space + 1 + len(rest))]))
    joined = [extent * factor for extent, factor in zip(spatial, block, strict=True)]
    whole = site.emit(op.reshape(moved, [batch, *joined, *rest]))
    ranges = [range(before, extent - after) for extent, (before, after) in zip(joined, crops, strict=True)]
    return slices(site, whole, [range(batch), *ranges, *(range(extent) for extent in rest)])


def _space_to_batch(site: Site) -> relax.Expr:
    data, block, pads = site.data(0), site.integers(1), site.constant(2).reshape(-1, 2).tolist()
    space = len(block)
    spatial, rest = list(data.shape[1 : 1 + space]), list(data.shape[1 + space :])
    codes = data.codes
    if any(sum(pair) for pair in pads):
        width = [0, 0, *(side for pair in pads for side in pair), *[0, 0] * len(rest)]
        codes = site.emit(op.nn.pad(codes, width, "constant", float(site.output.zero_point)))
        spatial = [extent + sum(pair) for extent, pair in zip(spatial, pads, strict=True)]
    split = [data.shape[0]]
    for extent, factor in zip(spatial, block, strict=True):
        split += [extent // factor, factor]
    apart = site.emit(op.reshape(codes, [*split, *rest]))
    order = [*range(2, 2 * space + 1, 2), 0, *range(1, 2 * space + 1, 2)]
    moved = op.permute_dims(apart, [*order, *range(2 * space + 1, 2 * space + 1 + len(rest))])
    return site.shaped(moved)


def move(convert: Callable[[Site], relax.Expr | list[relax.Expr]], *dtypes: str, subject: int = 0) -> Rule:
    return Rule(convert, dict.fromkeys(dtypes or ("int8", "uint8", "int16"), "move"), subject)


# Of the operators the importer reads on codes only, or wrongly.
ALL = ("int8", "uint8", "int16", "int32", "int64", "bool", "float32")

RULES = {
    "RESHAPE": move(_reshape),
    "SQUEEZE": move(_reshape),
    "EXPAND_DIMS": move(_reshape, *ALL),
    "TRANSPOSE": move(_transpose),
    "CONCATENATION": move(_concatenation),
    "PACK": move(_pack),
    "UNPACK": move(_unpack),
    "SPLIT": move(_split, subject=1),
    "SPLIT_V": move(_split_v),
    "SLICE": move(_slice),
    "STRIDED_SLICE": move(_strided_slice),
    "TILE": move(_tile),
    "REVERSE_V2": move(_reverse),
    "SPACE_TO_DEPTH": move(_space_to_depth),
    "DEPTH_TO_SPACE": move(_depth_to_space),
    "PAD": move(_pad),
    "PADV2": move(_pad),
    "MIRROR_PAD": move(_mirror_pad, "int8", "uint8", "int16", "float32"),
    "BROADCAST_TO": move(_broadcast_to),
    "SELECT": move(_select, subject=1),
    "SELECT_V2": move(_select, subject=1),
    "RESIZE_NEAREST_NEIGHBOR": move(_resize_nearest),
    "BATCH_TO_SPACE_ND": move(_batch_to_space),
    "SPACE_TO_BATCH_ND": move(_space_to_batch),
}
