"""Writes a function again without some of its channels: smaller weights, biases with the constants' shares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tvm import relax

from . import dialect, operators
from .channels import BINARY, POOLS, Axis, Channels
from .moves import RESHAPES, pad_fill
from .naming import substituted
from .ssa import Function, constant, dtype_of, normalized, rebuilt, shape_of
from .taps import Linear, linear_of


@dataclass
class Removal:
    """Channels by member of their class: ``dead`` ones have no meaning, those not ``kept`` leave the tensors.

    ``stuck`` are products with other weights and biases, ``shares`` the constants (without zero point) that the input
    channels of a product have when they are dead. ``count`` is the number of channels left out.
    """

    channels: Channels
    dead: np.ndarray
    kept: np.ndarray
    stuck: dict[relax.Var, Linear]
    shares: dict[relax.Var, np.ndarray]
    count: int = field(default=0)


def without_channels(view: Function, removal: Removal) -> relax.Function:
    """The function without the channels that are not kept; variables of unchanged shape keep their identity."""
    return _Writer(view, removal).write()


class _Writer:
    def __init__(self, view: Function, removal: Removal) -> None:
        self.view = view
        self.removal = removal
        self.axes = removal.channels.axes
        self.replaced: dict[relax.Expr, relax.Expr] = {}

    def write(self) -> relax.Function:
        bindings = []
        for binding in self.view.bindings:
            value = self._rewritten(binding.var, binding.value)
            value = normalized(value) if isinstance(value, relax.Call) else value
            variable = binding.var
            if isinstance(variable.ty, relax.TensorType) and shape_of(value) != shape_of(variable):
                variable = relax.DataflowVar(variable.name, value.ty)
                self.replaced[binding.var] = variable
            bindings.append(relax.VarBinding(variable, value))
        return rebuilt(self.view.function, bindings)

    def _kept(self, expr: relax.Expr) -> np.ndarray:
        return np.asarray(self.removal.kept[self.axes[expr].ids])

    def _rewritten(self, variable: relax.Var, value: relax.Expr) -> relax.Expr:
        axis = self.axes.get(variable)
        if not isinstance(value, relax.Call) or axis is None:
            return substituted(value, self.replaced)
        name = dialect.name_of(value)
        linear = linear_of(value)
        if linear is not None:
            return self._linear(variable, value, self.removal.stuck.get(variable, linear))
        kept = self._kept(variable)
        if kept.all():
            return substituted(value, self.replaced)
        shape = list(shape_of(variable))
        shape[axis.axis] = int(kept.sum())
        if name in BINARY:
            arguments = [self._operand(argument, shape_of(variable), axis, kept) for argument in value.args]
            return operators.changed(value, arguments, out_shape=shape)
        arguments = [substituted(argument, self.replaced) for argument in value.args]
        if name == "q.table" or name in POOLS:
            return operators.changed(value, arguments, out_shape=shape)
        if name in RESHAPES:
            return relax.op.reshape(arguments[0], shape)
        if name == "relax.nn.pad":
            return self._pad(variable, value, axis)
        if name == "relax.concat":
            return self._concatenation(variable, value, axis)
        return relax.Call(value.op, arguments, value.attrs, value.ty_args)

    def _operand(self, argument: relax.Expr, shape: tuple[int, ...], axis: Axis, kept: np.ndarray) -> relax.Expr:
        codes = constant(self.view.value(argument))
        if codes is None:
            return substituted(argument, self.replaced)
        own = axis.axis + codes.ndim - len(shape)
        if own < 0 or codes.shape[own] == 1:
            return argument
        return operators.const(codes.compress(kept, own), dtype_of(argument))

    def _pad(self, variable: relax.Var, value: relax.Call, axis: Axis) -> relax.Expr:
        width = [int(w) for w in value.attrs.pad_width]
        for side in (0, 1):
            ids = self.removal.channels.extra.get((variable, side))
            if ids is not None:
                width[2 * axis.axis + side] = int(self.removal.kept[ids].sum())
        data = substituted(value.args[0], self.replaced)
        return relax.op.nn.pad(data, width, "constant", float(pad_fill(value) or 0))

    def _concatenation(self, variable: relax.Var, value: relax.Call, axis: Axis) -> relax.Expr:
        parts = []
        for position, part in enumerate(value.args[0].fields):
            codes = constant(part)
            if codes is None:
                parts.append(substituted(part, self.replaced))
                continue
            ids = self.removal.channels.extra.get((variable, position), axis.ids)
            parts.append(operators.const(codes.compress(self.removal.kept[ids], axis.axis), dtype_of(part)))
        return relax.op.concat(parts, int(value.attrs.axis))

    def _linear(self, variable: relax.Var, value: relax.Call, linear: Linear) -> relax.Expr:
        source = value.args[0]
        data = self.axes[source] if isinstance(source, relax.Var) else None
        dead_rows = self.removal.dead[self.axes[variable].ids]
        rows = self._kept(variable)
        # Channels along another axis than the operator's own, and those of grouped convolutions, all stay.
        every = data is None or data.axis != len(shape_of(source)) - 1
        inputs = np.ones(shape_of(source)[-1], bool) if every else self._kept(source)
        weight, bias = np.where(dead_rows[:, None, None], 0, linear.weight), np.where(dead_rows, 0, linear.bias)
        groups = linear.groups
        if linear.depthwise:
            groups = int(inputs.sum())
        elif data is not None and not every and groups == 1:
            dead = self.removal.dead[data.ids]
            shares = np.where(dead, self.removal.shares[variable], 0)
            bias = bias + weight[:, ~linear.outside].sum(axis=1, dtype=np.int64) @ shares
            weight = np.where(dead, 0, weight)[:, :, inputs]
        if (
            weight.shape == linear.weight.shape
            and rows.all()
            and variable not in self.removal.stuck
            and np.array_equal(weight, linear.weight)
            and np.array_equal(bias, linear.bias)
        ):
            return substituted(value, self.replaced)
        self.removal.count += int((~rows).sum())
        spatial = shape_of(value.args[1])[1:-1]
        weight = weight[rows].reshape(-1, *spatial, weight.shape[-1])
        multiplier, shift = (np.asarray(constant(argument))[rows] for argument in value.args[3:5])
        arguments = [
            substituted(source, self.replaced),
            operators.const(weight, "int8"),
            operators.const(bias[rows], "int32"),
            operators.const(multiplier, "int32"),
            operators.const(shift, "int32"),
        ]
        changes: dict[str, Any] = {"out_shape": [*shape_of(value)[:-1], int(rows.sum())]}
        if "groups" in dialect.attributes(value):
            changes["groups"] = groups
        if not (rows.all() and inputs.all()):
            changes["source_channels"] = [len(inputs), len(rows)]
        return operators.changed(value, arguments, **changes)
