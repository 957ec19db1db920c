"""Which channels of which tensors stand or fall together.

Every int8 tensor has at most one axis along which elements may be left out: its channels, wherever transposes and
reshapes put them. Each position of that axis belongs to a class; operators that work channel by channel give their
result the classes of their operands, so removing a class removes the same channel from all tensors on its way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from tvm import relax

from . import dialect
from .moves import RESHAPES, pad_fill, permutation
from .ssa import Function, constant, dtype_of, operands, shape_of
from .taps import Linear, linear_of

BINARY = {"q.add", "q.sub", "q.mul"}
POOLS = {"q.avg_pool2d", "q.max_pool2d"}
SAME = {"q.table", "relax.clip"}


@dataclass(frozen=True)
class Axis:
    """The axis of a tensor that has channels, and the class of each of its positions."""

    axis: int
    ids: np.ndarray


@dataclass
class Classes:
    """Classes of channels: sets that only grow, some of which have to stay as they are."""

    parents: list[int] = field(default_factory=list)
    pinned: list[bool] = field(default_factory=list)

    def fresh(self, count: int, *, pinned: bool = False) -> np.ndarray:
        """New classes of one channel each."""
        start = len(self.parents)
        self.parents.extend(range(start, start + count))
        self.pinned.extend([pinned] * count)
        return np.arange(start, start + count)

    def root(self, member: int) -> int:
        """The number a class goes by."""
        while self.parents[member] != member:
            self.parents[member] = self.parents[self.parents[member]]
            member = self.parents[member]
        return member

    def roots(self, members: np.ndarray) -> np.ndarray:
        """The numbers of many classes."""
        return np.array([self.root(int(member)) for member in members], np.int64)

    def join(self, left: np.ndarray, right: np.ndarray) -> None:
        """Make one class of each pair."""
        for one, other in zip(left.tolist(), right.tolist(), strict=True):
            first, second = self.root(one), self.root(other)
            if first != second:
                self.parents[second] = first
                self.pinned[first] = self.pinned[first] or self.pinned[second]

    def pin(self, members: np.ndarray) -> None:
        """Classes that must stay."""
        for member in set(members.tolist()):
            self.pinned[self.root(member)] = True


@dataclass(frozen=True)
class Product:
    """A convolution (not depthwise) or dense layer: each result needs all channels of its operand."""

    variable: relax.Var
    call: relax.Call
    linear: Linear
    inputs: np.ndarray
    outputs: np.ndarray


class Channels:
    """The channels of a function's tensors: ``axes`` by variable, ``products`` and where new channels come from."""

    def __init__(self, view: Function) -> None:
        self.view = view
        self.classes = Classes()
        self.axes: dict[relax.Var, Axis] = {}
        self.products: list[Product] = []
        self.depthwise: list[np.ndarray] = []
        self.sources: list[np.ndarray] = []
        # Channels that an operator adds on its own: those of a pad or of constant parts of a concatenation.
        self.extra: dict[tuple[relax.Var, int], np.ndarray] = {}
        for parameter in view.function.params:
            self._declare(parameter)
        for binding in view.bindings:
            found = self._visit(binding.var, binding.value)
            if found is None:
                self._pin(*operands(binding.value))
                self._declare(binding.var)
            else:
                self.axes[binding.var] = found
        self._pin(view.function.body.body)

    def _declare(self, variable: relax.Var) -> None:
        if isinstance(variable.ty, relax.TensorType) and len(shape_of(variable)):
            extent = shape_of(variable)[-1]
            self.axes[variable] = Axis(len(shape_of(variable)) - 1, self.classes.fresh(extent, pinned=True))

    def _pin(self, *values: relax.Expr) -> None:
        for value in values:
            if isinstance(value, relax.Tuple):
                self._pin(*value.fields)
            elif isinstance(value, relax.Var) and value in self.axes:
                self.classes.pin(self.axes[value].ids)

    def _visit(self, variable: relax.Var, value: relax.Expr) -> Axis | None:
        """The channels of a binding's result, None when the operator has no rule (everything it touches stays)."""
        if isinstance(value, relax.Var):
            return self.axes.get(value)
        if not isinstance(value, relax.Call) or not isinstance(variable.ty, relax.TensorType):
            return None
        name = dialect.name_of(value)
        if name == "relax.concat":
            return self._concatenated(variable, value)
        if name in BINARY:
            return self._binary(value)
        data = self.axes.get(value.args[0]) if value.args and isinstance(value.args[0], relax.Var) else None
        if data is None or dtype_of(variable) != dtype_of(value.args[0]):
            return None
        rules: dict[str, Callable[[relax.Var, relax.Call, Axis], Axis | None]] = {
            **dict.fromkeys(("q.conv2d", "q.dense"), self._linear),
            **dict.fromkeys(POOLS, lambda _var, _call, axis: axis if axis.axis == 3 else None),
            **dict.fromkeys(SAME, lambda _var, _call, axis: axis),
            **dict.fromkeys(RESHAPES, self._reshaped),
            "relax.permute_dims": lambda _, call, axis: Axis(permutation(call).index(axis.axis), axis.ids),
            "relax.nn.pad": self._padded,
        }
        rule = rules.get(name)
        return rule(variable, value, data) if rule is not None else None

    def _linear(self, variable: relax.Var, value: relax.Call, data: Axis) -> Axis | None:
        linear = linear_of(value)
        last = len(shape_of(value.args[0])) - 1
        if linear is None or data.axis != last:
            return None
        if linear.depthwise:
            self.depthwise.append(data.ids)
            return Axis(3, np.repeat(data.ids, len(linear.bias) // len(data.ids)))
        if linear.groups > 1:
            return None
        outputs = self.classes.fresh(len(linear.bias))
        self.products.append(Product(variable, value, linear, data.ids, outputs))
        self.sources.append(outputs)
        return Axis(len(shape_of(value)) - 1, outputs)

    def _binary(self, value: relax.Call) -> Axis | None:
        shape = shape_of(value)
        found: Axis | None = None
        for argument in value.args[:2]:
            if constant(self.view.value(argument)) is not None:
                continue
            mine = self.axes.get(argument) if isinstance(argument, relax.Var) else None
            if mine is None:
                return None
            axis = mine.axis + len(shape) - len(shape_of(argument))
            if len(mine.ids) != shape[axis] or (found is not None and found.axis != axis):
                return None
            if found is not None:
                self.classes.join(found.ids, mine.ids)
            found = Axis(axis, mine.ids)
        return found

    def _reshaped(self, _variable: relax.Var, value: relax.Call, data: Axis) -> Axis | None:
        shape, result = shape_of(value.args[0]), shape_of(value)
        spread = [1] * len(shape)
        spread[data.axis] = -1
        ids = np.broadcast_to(data.ids.reshape(spread), shape).reshape(result)
        varying = [axis for axis in range(ids.ndim) if (ids != np.take(ids, [0], axis)).any()] if ids.size else []
        if len(varying) != 1:
            return None
        first = tuple(slice(None) if axis == varying[0] else 0 for axis in range(ids.ndim))
        return Axis(varying[0], ids[first])

    def _padded(self, variable: relax.Var, value: relax.Call, data: Axis) -> Axis | None:
        if pad_fill(value) is None:
            return None
        width = [int(w) for w in value.attrs.pad_width]
        parts = [data.ids]
        for side in (0, 1):
            count = width[2 * data.axis + side]
            if count:
                ids = self.extra[variable, side] = self._source(count)
                parts.insert(0 if side == 0 else len(parts), ids)
        return Axis(data.axis, np.concatenate(parts))

    def _concatenated(self, variable: relax.Var, value: relax.Call) -> Axis | None:
        # Only a tuple written at the call: one of its own is an operand, and so stays.
        whole = value.args[0]
        if not isinstance(whole, relax.Tuple) or value.attrs.axis is None or dtype_of(variable) != "int8":
            return None
        along = int(value.attrs.axis) % len(shape_of(value))
        known = [self.axes.get(field) for field in whole.fields if isinstance(field, relax.Var)]
        axes = {axis.axis for axis in known if axis is not None}
        if len(axes) != 1 or None in known:
            return None
        axis = axes.pop()
        parts = []
        for position, part in enumerate(whole.fields):
            if isinstance(part, relax.Var):
                parts.append(self.axes[part].ids)
            elif axis == along:
                ids = self.extra[variable, position] = self._source(shape_of(part)[axis])
                parts.append(ids)
        if axis == along:
            return Axis(axis, np.concatenate(parts))
        for part in parts[1:]:
            self.classes.join(parts[0], part)
        return Axis(axis, parts[0])

    def _source(self, count: int) -> np.ndarray:
        ids = self.classes.fresh(count)
        self.sources.append(ids)
        return ids
