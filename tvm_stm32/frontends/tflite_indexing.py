"""TFLite operators that read or write at indices, on any element type: GATHER, GATHER_ND, SCATTER_ND, EMBEDDING_LOOKUP.

The importer turns vectors of indices the wrong way round and checks few of them.
"""

from __future__ import annotations

import math

import numpy as np
from tvm import relax

from ..graph.fixed_point import const
from ..graph.ssa import shape_of
from .tflite_moves import ALL, move
from .tflite_site import Operand, Site

op = relax.op


def _gather(site: Site) -> relax.Expr:
    options, data, indices = site.options("Gather"), site.data(0), site.data(1)
    axis, batch = int(options.Axis()) % data.rank, int(options.BatchDims())
    if batch < 0 or batch > min(axis, indices.rank):
        raise site.refused(f"it has {batch} batch dimensions, axis {axis} and indices of rank {indices.rank}")
    if indices.value is not None and not ((indices.value >= 0) & (indices.value < data.shape[axis])).all():
        raise site.refused(f"an index is outside dimension {axis}, which has {data.shape[axis]} elements")
    codes = data.codes if data.expr is None else site.emit(data.codes)
    if batch:
        return _batched_gather(site, codes, indices, axis, batch)
    return op.take(codes, indices.codes, axis, mode="fast" if indices.value is not None else "clip")


def _batched_gather(site: Site, codes: relax.Expr, indices: Operand, axis: int, batch: int) -> relax.Expr:
    """One look-up along a dimension that holds all batches: the indices of each are moved on to its own part."""
    shape = shape_of(codes)
    batches, extent = math.prod(shape[:batch]), shape[axis]
    order = [*range(batch), axis, *(i for i in range(batch, len(shape)) if i != axis)]
    moved = site.emit(op.permute_dims(codes, order)) if axis != batch else codes
    rest = [shape[i] for i in order[batch + 1 :]]
    flat = site.emit(op.reshape(moved, [batches * extent, *rest]))
    inner = math.prod(indices.shape[batch:])
    starts = np.arange(batches, dtype=np.int32)[:, None] * extent
    if indices.value is not None:
        places = relax.const((indices.value.reshape(batches, inner).astype(np.int32) + starts).ravel())
    else:
        own = op.clip(site.math.cast(op.reshape(indices.codes, [batches, inner]), "int32"), 0, extent - 1)
        places = site.emit(op.reshape(site.emit(op.add(own, relax.const(starts))), [batches * inner]))
    taken = site.emit(op.take(flat, places, 0, mode="fast"))
    result = site.emit(op.reshape(taken, [*indices.shape, *rest]))
    # Dimensions between the batches and the axis come before those of the indices.
    between, rank = axis - batch, len(indices.shape)
    back = [*range(batch), *range(rank, rank + between), *range(batch, rank)]
    return op.permute_dims(result, [*back, *range(rank + between, rank + len(rest))]) if between else result


def _vectors(site: Site, operand: Operand) -> relax.Expr:
    """Vectors of indices along the last dimension."""
    if operand.value is not None:
        return const(operand.value, "int64")
    return site.math.cast(operand.codes, "int64")


def _gather_nd(site: Site) -> relax.Expr:
    data = site.data(0)
    codes = data.codes if data.expr is None else site.emit(data.codes)
    return op.gather_nd(codes, _vectors(site, site.data(1)))


def _scatter_nd(site: Site) -> relax.Expr:
    """Zeros, and the sum of the updates wherever one goes."""
    updates = site.data(1)
    shape = site.integers(2)
    if tuple(shape) != site.output.shape:
        raise site.refused(f"it makes {shape} and the file declares {list(site.output.shape)}")
    zeros = site.emit(op.zeros(shape, updates.dtype))
    return op.scatter_nd(zeros, _vectors(site, site.data(0)), updates.codes, "add")


def _embedding_lookup(site: Site) -> relax.Expr:
    return op.take(site.data(1).codes, site.data(0).codes, 0, mode="fast")


RULES = {
    "GATHER": move(_gather, *ALL),
    "GATHER_ND": move(_gather_nd, *ALL),
    "SCATTER_ND": move(_scatter_nd, *ALL, subject=1),
    "EMBEDDING_LOOKUP": move(_embedding_lookup, *ALL, subject=1),
}
