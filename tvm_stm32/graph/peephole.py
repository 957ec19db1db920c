"""Local simplifications of the integer graph: clamps and pads move into their neighbours, transposes cancel."""

from __future__ import annotations

import numpy as np
from tvm import relax

from . import dialect, operators
from .activation import activation_bounds
from .moves import pad_fill, permutation
from .qdq import Emit
from .ssa import Function, constant, dtype_of, shape_of

# Operators whose result is clamped by attributes.
CLAMPED = {"q.conv2d", "q.dense", "q.add", "q.sub", "q.mul", "q.avg_pool2d", "q.max_pool2d"}
# Operators that work element by element, whatever the axes mean.
_ELEMENTWISE = {"q.table", "q.add", "q.sub", "q.mul"}


class Peephole:
    """Rewrites one binding at a time, in order; ``emit`` binds an extra value before it."""

    def __init__(self, view: Function, emit: Emit) -> None:
        self.view = view
        self.emit = emit

    def rewrite(self, value: relax.Expr) -> relax.Expr | None:
        """The simpler value of a binding, or None to leave it."""
        name = dialect.name_of(value)
        if name == "q.table":
            composed = self._composed(value)
            return self._hoist_transpose(value) if composed is None else composed
        if name == "relax.clip":
            return self._clip(value)
        if name == "q.conv2d":
            return self._padded_convolution(value)
        if name == "relax.permute_dims":
            return self._transpose(value)
        if name == "relax.nn.max_pool2d" and dtype_of(value) == "int8":
            return self._max_pool(value)
        if name in _ELEMENTWISE:
            return self._hoist_transpose(value)
        return None

    def _clip(self, value: relax.Call) -> relax.Expr | None:
        producer = self.view.match(value.args[0], *CLAMPED)
        limits = activation_bounds(value)
        if dtype_of(value) != "int8" or limits is None or limits[1] is None:
            return None
        low, high = (max(-128, min(127, int(bound))) for bound in (limits[0], limits[1]))
        if producer is None or self.view.uses.get(value.args[0], 0) != 1:
            return value.args[0] if (low, high) == (-128, 127) else None
        attrs = dialect.attributes(producer)
        clamps = [max(low, min(high, int(attrs[key]))) for key in ("clamp_min", "clamp_max")]
        return operators.changed(producer, producer.args, clamp_min=clamps[0], clamp_max=clamps[1])

    def _composed(self, value: relax.Call) -> relax.Expr | None:
        """A table of a table is one table."""
        inner = self.view.match(value.args[0], "q.table")
        if inner is None or self.view.uses.get(value.args[0], 0) != 1:
            return None
        first, second = constant(inner.args[1]), constant(value.args[1])
        if first is None or second is None:
            return None
        label = str(dialect.attributes(value)["label"])
        return operators.table(inner.args[0], second[first.astype(np.int64) + 128], label)

    def _padded_convolution(self, value: relax.Call) -> relax.Expr | None:
        """A constant pad with the convolution's own zero point is padding of the convolution."""
        pad = self.view.match(value.args[0], "relax.nn.pad")
        attrs = dialect.attributes(value)
        if pad is None or pad_fill(pad) != attrs["input_zero_point"]:
            return None
        width = [int(w) for w in pad.attrs.pad_width]
        if len(width) != 8 or any(width[:2]) or any(width[6:]):
            return None
        top, left, bottom, right = attrs["padding"]
        padding = [top + width[2], left + width[4], bottom + width[3], right + width[5]]
        return operators.changed(value, [pad.args[0], *value.args[1:]], padding=padding)

    def _max_pool(self, value: relax.Call) -> relax.Expr | None:
        attrs = value.attrs
        if any(int(d) != 1 for d in attrs.dilation):
            return None
        source, layout = value.args[0], str(attrs.layout)
        if layout not in ("NHWC", "NCHW"):
            return None
        shape = shape_of(value)
        if layout == "NCHW":
            source = self.emit(relax.op.permute_dims(source, [0, 2, 3, 1]))
            shape = (shape[0], shape[2], shape[3], shape[1])
        result = dialect.call(
            "q.max_pool2d",
            [source],
            shape,
            "int8",
            pool=[int(extent) for extent in attrs.pool_size],
            strides=[int(stride) for stride in attrs.strides],
            padding=[int(p) for p in attrs.padding],
            clamp_min=-128,
            clamp_max=127,
        )
        return relax.op.permute_dims(self.emit(result), [0, 3, 1, 2]) if layout == "NCHW" else result

    def _transpose(self, value: relax.Call) -> relax.Expr | None:
        axes = permutation(value)
        shape = shape_of(value.args[0])
        if [axis for axis in axes if shape[axis] != 1] == sorted(axis for axis in axes if shape[axis] != 1):
            # Only extents of 1 move: the memory order stays.
            same = axes == list(range(len(axes)))
            return value.args[0] if same else relax.op.reshape(value.args[0], shape_of(value))
        inner = self.view.match(value.args[0], "relax.permute_dims")
        if inner is None:
            return None
        combined = [permutation(inner)[axis] for axis in axes]
        if combined == list(range(len(combined))):
            return inner.args[0]
        return relax.op.permute_dims(inner.args[0], combined)

    def _hoist_transpose(self, value: relax.Call) -> relax.Expr | None:
        """elementwise(transpose(a), ..) becomes transpose(elementwise(a, ..))."""
        if any(shape_of(argument) != shape_of(value) for argument in _data_arguments(value)):
            return None
        matches = [self.view.match(argument, "relax.permute_dims") for argument in _data_arguments(value)]
        inner = [call for call in matches if call is not None]
        if len(inner) < len(matches):
            return None
        axes = permutation(inner[0])
        if any(permutation(call) != axes for call in inner):
            return None
        arguments = [call.args[0] for call in inner] + list(value.args[len(inner) :])
        result = operators.changed(value, arguments, out_shape=list(shape_of(inner[0].args[0])))
        return relax.op.permute_dims(self.emit(result), axes)


def _data_arguments(value: relax.Call) -> list[relax.Expr]:
    return list(value.args[:1] if dialect.name_of(value) == "q.table" else value.args[:2])
