"""Real functions of one int8 tensor's elements, evaluated for each of its 256 codes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tvm import relax

from . import dialect, operators
from .activation import activation_bounds
from .affine import Quantized, dequantized
from .ssa import Function, constant

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


# In float64: a code of the result then differs from a float32 runtime's only within about 1e-7 of a tie.
_FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "relax.abs": np.abs,
    "relax.add": np.add,
    "relax.divide": np.divide,
    "relax.erf": _erf,
    "relax.exp": np.exp,
    "relax.greater": np.greater,
    "relax.less": np.less,
    "relax.log": np.log,
    "relax.maximum": np.maximum,
    "relax.minimum": np.minimum,
    "relax.multiply": np.multiply,
    "relax.negative": np.negative,
    "relax.nn.gelu": lambda x: 0.5 * x * (1.0 + _erf(x / math.sqrt(2.0))),
    "relax.nn.gelu_tanh": lambda x: 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))),
    "relax.nn.silu": lambda x: x * _sigmoid(x),
    "relax.nn.softplus": lambda x: np.logaddexp(0.0, x),
    "relax.power": np.power,
    "relax.rsqrt": lambda x: 1.0 / np.sqrt(x),
    "relax.sigmoid": _sigmoid,
    "relax.sqrt": np.sqrt,
    "relax.square": np.square,
    "relax.subtract": np.subtract,
    "relax.tanh": np.tanh,
    "relax.where": np.where,
}


@dataclass(frozen=True)
class RealFunction:
    """``values[code + 128]`` is the real result for each code of ``data``."""

    data: Quantized
    values: np.ndarray

    def codes(self, scale: float, zero_point: int) -> np.ndarray:
        """The results as int8 codes, ties to even as frameworks round them."""
        return np.asarray(np.clip(np.rint(self.values / scale) + zero_point, -128, 127).astype(np.int64))


def real_function(view: Function, expr: relax.Expr) -> RealFunction | None:
    """The function of one dequantized int8 tensor that ``expr`` computes element by element, if it is one."""
    found = _Evaluator(view)
    with np.errstate(all="ignore"):
        values = found.value(expr)
    if values is None or found.data is None or values.shape != (256,) or not np.isfinite(values).all():
        return None
    return RealFunction(found.data, values)


class _Evaluator:
    def __init__(self, view: Function) -> None:
        self.view = view
        self.data: Quantized | None = None
        self.known: dict[relax.Expr, np.ndarray | None] = {}

    def value(self, expr: relax.Expr) -> np.ndarray | None:
        """Reals for all codes, or one real; None when it is no such function."""
        if isinstance(expr, relax.Var) and expr in self.known:
            return self.known[expr]
        result = self._value(expr)
        if isinstance(expr, relax.Var):
            self.known[expr] = result
        return result

    def _value(self, expr: relax.Expr) -> np.ndarray | None:
        fixed = constant(self.view.value(expr))
        if fixed is not None:
            return fixed.astype(np.float64).reshape(()) if fixed.size == 1 else None
        leaf = dequantized(self.view, expr)
        if leaf is not None:
            return self._leaf(leaf)
        call = self.view.value(expr)
        if not isinstance(call, relax.Call):
            return None
        name = dialect.name_of(call)
        if name in ("relax.nn.relu", "relax.nn.relu6", "relax.clip", "relax.nn.leakyrelu"):
            return self._piecewise(call, name)
        function = _FUNCTIONS.get(name)
        if function is None:
            return None
        arguments = [self.value(argument) for argument in call.args]
        return None if any(argument is None for argument in arguments) else np.asarray(function(*arguments))

    def _leaf(self, leaf: Quantized) -> np.ndarray | None:
        if leaf.dtype != "int8":
            return None
        if self.data is None:
            self.data = leaf
        elif not (self.data.data.same_as(leaf.data) and self.data.same_parameters(leaf)):
            return None
        return (operators.identity_codes() - leaf.zero_point).astype(np.float64) * leaf.scale

    def _piecewise(self, call: relax.Call, name: str) -> np.ndarray | None:
        x = self.value(call.args[0])
        if x is None:
            return None
        if name == "relax.nn.leakyrelu":
            return np.asarray(np.where(x < 0.0, x * float(call.attrs.alpha), x))
        bounds = activation_bounds(call)
        return None if bounds is None else np.clip(x, bounds[0], np.inf if bounds[1] is None else bounds[1])
