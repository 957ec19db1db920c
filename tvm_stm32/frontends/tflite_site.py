"""One TFLite operator as its rule sees it: operands with quantization and constant values, options, errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tflite
from tvm import relax

from ..errors import UnsupportedOperatorError
from ..graph.fixed_point import FixedPoint
from ..graph.ssa import shape_of
from ..model import StateInfo
from ..numerics import quantize_activation
from .tflite_variables import Variables

_LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767)}


@dataclass(frozen=True)
class Operand:
    """A tensor an operator reads or writes. ``scales`` widens the file's float32; empty: not quantized."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    scales: np.ndarray
    zero_points: np.ndarray
    axis: int
    value: np.ndarray | None = None
    expr: relax.Expr | None = None

    @property
    def scale(self) -> float:
        """The scale of a tensor quantized as a whole."""
        return float(self.scales[0])

    @property
    def zero_point(self) -> int:
        """The zero point of a tensor quantized as a whole; 0 when it has none."""
        return int(self.zero_points[0]) if self.zero_points.size else 0

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest code."""
        return _LIMITS[self.dtype]

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def codes(self) -> relax.Expr:
        """The tensor in the graph; a constant as one."""
        if self.expr is not None:
            return self.expr
        assert self.value is not None
        return relax.const(np.array(self.value, order="C"), self.dtype)

    def same_quantization(self, other: Operand) -> bool:
        """Whether codes mean the same in both tensors."""
        return bool(np.array_equal(self.scales, other.scales) and np.array_equal(self.zero_points, other.zero_points))


class _Defaults:
    """Options of an operator that has none in the file."""

    def __getattr__(self, _name: str) -> Callable[[], int]:
        return lambda: 0


@dataclass(frozen=True)
class Site:
    """An operator of the file; ``unsigned``: of a legacy model, whose uint8 codes are read as int8."""

    code: str
    where: str
    inputs: Sequence[Operand | None]
    outputs: Sequence[Operand]
    builder: relax.BlockBuilder
    table: Any
    variables: Variables
    unsigned: bool = False

    def state(self, position: int, initial: float) -> relax.Expr:
        """The variable tensor ``position`` as a state of the model; kernels move it on in place."""
        operand = self.data(position)
        key = ("", operand.name)
        if key in self.variables.parameters:
            raise self.refused(f"'{operand.name}' is the state of two operators")
        variable = relax.Var(operand.name, relax.TensorType(operand.shape, operand.dtype))
        self.variables.parameters[key] = self.variables.current[key] = variable
        self.variables.states[key] = StateInfo(operand.name, operand.shape, operand.dtype, initial)
        return variable

    def emit(self, value: relax.Expr) -> relax.Expr:
        """``value`` bound to a variable, unless it is one or a constant."""
        return self.builder.emit(value) if isinstance(value, relax.Call) else value

    def shaped(self, value: relax.Expr) -> relax.Expr:
        """``value`` in the shape the file declares for the output, where it has as many elements."""
        bound = self.emit(value)
        fits = math.prod(shape_of(bound)) == math.prod(self.output.shape)
        same = shape_of(bound) == self.output.shape
        return bound if same or not fits else relax.op.reshape(bound, self.output.shape)

    @property
    def math(self) -> FixedPoint:
        """The reference kernels' arithmetic in plain operators."""
        return FixedPoint(self.emit)

    def data(self, position: int) -> Operand:
        """Input ``position``, which the operator cannot do without."""
        operand = self.inputs[position] if position < len(self.inputs) else None
        if operand is None:
            raise self.refused(f"it has no input {position}")
        return operand

    def optional(self, position: int) -> Operand | None:
        """Input ``position`` if it is there."""
        return self.inputs[position] if position < len(self.inputs) else None

    def constant(self, position: int) -> np.ndarray:
        """The value of an input that must be known now."""
        operand = self.data(position)
        if operand.value is None:
            raise self.refused(f"'{operand.name}' is computed while the model runs", "make it a constant of the model")
        return operand.value

    def integers(self, position: int) -> list[int]:
        """A constant input as a flat list of integers: axes, sizes."""
        return [int(value) for value in self.constant(position).reshape(-1)]

    @property
    def output(self) -> Operand:
        """The first output."""
        return self.outputs[0]

    def options(self, name: str) -> Any:
        """The operator's options, read as table ``name`` + ``Options``."""
        if self.table is None:
            return _Defaults()
        options = getattr(tflite, f"{name}Options")()
        options.Init(self.table.Bytes, self.table.Pos)
        return options

    def clamp(self, activation: int) -> tuple[int, int]:
        """Bounds of a fused activation in the output's codes (spec 1.4); any other activation does nothing."""
        low, high = self.output.limits
        bounds = _ACTIVATIONS.get(activation, (None, None))
        real = [
            None if b is None else quantize_activation(b, self.output.scale, self.output.zero_point) for b in bounds
        ]
        return (low if real[0] is None else max(low, real[0])), (high if real[1] is None else min(high, real[1]))

    def refused(self, why: str, hint: str = "") -> UnsupportedOperatorError:
        """The error for a variant no rule covers."""
        return UnsupportedOperatorError(f"{self.where} is not supported", why=why, hint=hint)

    def require_quantized(self, *operands: Operand) -> None:
        """Raise unless every operand is quantized as a whole."""
        for operand in operands:
            if operand.scales.size != 1:
                state = "is not quantized" if not operand.scales.size else "has a scale for each channel"
                raise self.refused(f"'{operand.name}' {state}", "quantize the model again, one scale a tensor")


_ACTIVATIONS: Mapping[int, tuple[float | None, float | None]] = {
    tflite.ActivationFunctionType.RELU: (0.0, None),
    tflite.ActivationFunctionType.RELU_N1_TO_1: (-1.0, 1.0),
    tflite.ActivationFunctionType.RELU6: (0.0, 6.0),
}

Convert = Callable[[Site], "relax.Expr | list[relax.Expr]"]


@dataclass(frozen=True)
class Rule:
    """How an operator is translated, and by what it is computed for each element type of its input ``subject``.

    ``forms`` maps an element type to ``kernel``, ``table``, ``TIR`` or ``move``; ``remark`` goes to the documentation.
    """

    convert: Convert
    forms: Mapping[str, str]
    subject: int = 0
    remark: str = ""
    reference: Mapping[str, str] = field(default_factory=dict)
