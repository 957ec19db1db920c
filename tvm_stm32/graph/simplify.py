"""Exact rewrites of the integer graph that follow from the codes its values can take (:mod:`.ranges`)."""

from __future__ import annotations

import numpy as np
from tvm import relax

from ..numerics import INT8_MAX, INT8_MIN
from . import dialect, operators
from .activation import activation_bounds
from .channels import BINARY
from .moves import pad_fill, windows_filled
from .peephole import CLAMPED
from .qdq import Emit
from .ranges import Range, Ranges
from .ssa import Function, constant, dtype_of, shape_of

# Tensors with fewer elements than a table has entries gain nothing from one.
_LEAST_ELEMENTS = 256
# A value that is always the same becomes a constant unless that needs more flash than this.
_MOST_CONSTANT_BYTES = 4096


class Simplify:
    """Rewrites one binding at a time, in order; ``emit`` binds an extra value before it."""

    def __init__(self, view: Function, emit: Emit) -> None:
        self.view = view
        self.emit = emit
        self.ranges = Ranges(view)

    def rewrite(self, value: relax.Expr) -> relax.Expr | None:
        """The simpler value of a binding, or None to leave it."""
        if not isinstance(value, relax.Call) or not isinstance(value.ty, relax.TensorType) or dtype_of(value) != "int8":
            return None
        folded = self._folded(value)
        if folded is not None:
            return folded
        name = dialect.name_of(value)
        if name == "relax.clip":
            return self._needless_clip(value)
        if name in BINARY:
            return self._as_table(value)
        if name == "q.table":
            return self._table(value)
        if name == "q.max_pool2d":
            padded = self._padded_pool(value)
            return self._pooled_table(value) if padded is None else padded
        return None

    def _folded(self, value: relax.Call) -> relax.Expr | None:
        """A value that no input changes."""
        found = self.ranges.of_call(value)
        if not (found.low == found.high).all() or 0 in shape_of(value):
            return None
        if np.prod(shape_of(value)) > _MOST_CONSTANT_BYTES and not self._of_constants(value):
            return None
        return operators.const(np.broadcast_to(found.low, shape_of(value)), "int8")

    def _of_constants(self, value: relax.Call) -> bool:
        return all(
            constant(self.view.value(argument)) is not None
            for argument in value.args
            if isinstance(argument, relax.Var | relax.Tuple)
        )

    def _needless_clip(self, value: relax.Call) -> relax.Expr | None:
        limits = activation_bounds(value)
        low, high = self.ranges.of(value.args[0]).hull()
        needless = limits is not None and limits[1] is not None and limits[0] <= low and high <= limits[1]
        return value.args[0] if needless else None

    def _as_table(self, value: relax.Call) -> relax.Expr | None:
        """A sum or product with one number is a function of each code."""
        left, right = value.args
        if left.same_as(right):
            data, sides = left, {0, 1}
        else:
            fixed = [len({*self.ranges.of(side).hull()}) == 1 for side in (left, right)]
            if not any(fixed):
                return None
            data, sides = (right, {1}) if fixed[0] else (left, {0})
        if shape_of(data) != shape_of(value) or np.prod(shape_of(value)) < _LEAST_ELEMENTS:
            return None
        codes = operators.identity_codes()
        ends = [
            Range.of(codes, codes) if side in sides else Range.everything(1, *self.ranges.of(expr).hull())
            for side, expr in enumerate((left, right))
        ]
        found = self.ranges.binary(value, *ends)
        if not (found.low == found.high).all():
            return None  # a multiplication that may wrap
        return operators.table(data, np.broadcast_to(found.low, (256,)), dialect.name_of(value).removeprefix("q."))

    def _table(self, value: relax.Call) -> relax.Expr | None:
        """A table that changes no code it meets goes; one that clamps becomes the clamp of what it reads."""
        entries = constant(value.args[1])
        if entries is None:
            return None
        source = value.args[0]
        low, high = self.ranges.of(source).hull()
        codes = np.arange(low, high + 1)
        met = entries[codes + 128]
        if (met == codes).all():
            return source
        bounds = int(met[0]), int(met[-1])
        producer = self.view.match(source, *CLAMPED)
        if producer is None or not self._read_once(source) or not (met == codes.clip(*bounds)).all():
            return None
        attrs = dialect.attributes(producer)
        limits = np.clip([attrs.get("clamp_min", INT8_MIN), attrs.get("clamp_max", INT8_MAX)], *bounds).tolist()
        return operators.changed(producer, producer.args, clamp_min=limits[0], clamp_max=limits[1])

    def _read_once(self, expr: relax.Expr | None) -> bool:
        """Whether a value has one reader, whatever names it goes by."""
        while isinstance(expr, relax.Var):
            if self.view.uses.get(expr, 0) != 1:
                return False
            expr = self.view.definitions.get(expr)
        return True

    def _pooled_table(self, value: relax.Call) -> relax.Expr | None:
        """The largest of table entries that never decrease is the entry of the largest: pool first, there is less."""
        attrs = dialect.attributes(value)
        inner = self.view.match(value.args[0], "q.table")
        if inner is None or not self._read_once(value.args[0]) or not windows_filled(value):
            return None
        entries = constant(inner.args[1])
        if entries is None or np.prod(shape_of(value)) >= np.prod(shape_of(inner)):
            return None
        low, high = self.ranges.of(inner.args[0]).hull()
        if (np.diff(entries[low + 128 : high + 129].astype(np.int64)) < 0).any():
            return None
        pooled = operators.changed(value, [inner.args[0]], clamp_min=INT8_MIN, clamp_max=INT8_MAX)
        clamped = np.clip(entries, attrs.get("clamp_min", INT8_MIN), attrs.get("clamp_max", INT8_MAX))
        return operators.table(self.emit(pooled), clamped, str(dialect.attributes(inner)["label"]))

    def _padded_pool(self, value: relax.Call) -> relax.Expr | None:
        """A pad with a code below all others is padding, which a maximum never counts."""
        pad = self.view.match(value.args[0], "relax.nn.pad")
        fill = pad_fill(pad) if pad is not None else None
        if pad is None or fill is None or fill > self.ranges.of(pad.args[0]).hull()[0]:
            return None
        width = [int(w) for w in pad.attrs.pad_width]
        if len(width) != 8 or any(width[:2]) or any(width[6:]):
            return None
        top, left, bottom, right = dialect.attributes(value)["padding"]
        padding = [top + width[2], left + width[4], bottom + width[3], right + width[5]]
        padded = operators.changed(value, [pad.args[0]], padding=padding)
        return padded if windows_filled(padded) else None
