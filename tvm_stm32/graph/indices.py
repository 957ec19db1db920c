"""Indices stay inside their tensor: those known now are checked, those computed while the model runs are clamped.

The loops TVM makes of gathers and scatters read and write wherever an index points.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from ..errors import ModelError
from .dialect import name_of
from .fixed_point import const
from .qdq import Emit
from .ssa import Function, constant, dtype_of, shape_of

# Operators by where their indices are; scatter_elements counts negative ones from the end, the rest take none.
_ALONG_AXIS = {"relax.take": 0, "relax.gather_elements": 0, "relax.scatter_elements": 1}
_VECTORS = ("relax.gather_nd", "relax.scatter_nd")


class IndexGuard:
    """A rewriter of one function; ``file`` names the model in errors."""

    def __init__(self, view: Function, emit: Emit, file: str) -> None:
        self.view, self.emit, self.file = view, emit, file

    def rewrite(self, value: relax.Expr) -> relax.Expr | None:
        """The operator with guarded indices, or None when they need none."""
        name = name_of(value)
        if name not in _ALONG_AXIS and name not in _VECTORS:
            return None
        extents = self._extents(value, name)
        known = constant(self.view.value(value.args[1]))
        least = -extents if name == "relax.scatter_elements" else np.zeros_like(extents)
        if known is not None:
            outside = ((known < least) | (known >= extents)) if known.size else np.zeros(1, bool)
            if outside.any():
                index = int(known[outside][0])
                raise ModelError(
                    f"{self.file}: an index of '{self._label(value)}' is outside its tensor",
                    why=f"index {index}, and the dimension has {int(np.broadcast_to(extents, known.shape)[outside][0])}"
                    " elements",
                    hint="export the model again",
                )
            return None
        return relax.Call(value.op, [value.args[0], self._clamped(value.args[1], least, extents), *value.args[2:]],
                          value.attrs, value.ty_args)  # fmt: skip

    def _label(self, value: relax.Call) -> str:
        return next(
            (binding.var.name for binding in self.view.bindings if binding.value.same_as(value)), name_of(value)
        )

    def _extents(self, value: relax.Call, name: str) -> np.ndarray:
        """The extent each index runs in: one number, or one for each element of a vector of indices."""
        data = shape_of(value.args[0])
        if name in _ALONG_AXIS:
            axis = value.attrs.axis
            return np.array(int(np.prod(data)) if axis is None else data[int(axis) % len(data)])
        # The last dimension of the indices holds one index for each dimension of the data, from the first behind the
        # batches on.
        start = int(value.attrs.batch_dims) if name == "relax.gather_nd" else 0
        return np.array(data[start : start + shape_of(value.args[1])[-1]])

    def _clamped(self, indices: relax.Expr, least: np.ndarray, extents: np.ndarray) -> relax.Expr:
        dtype = dtype_of(indices)
        limits = np.iinfo(dtype)
        raised = indices
        if limits.min < 0:
            raised = self.emit(relax.op.maximum(indices, const(least, dtype)))
        if limits.max < extents.max():
            return raised
        return self.emit(relax.op.minimum(raised, const(extents - 1, dtype)))
