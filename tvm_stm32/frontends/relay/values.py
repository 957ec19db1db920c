"""What Relay expressions evaluate to while a model is translated."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
from tvm import relax, runtime

from ...model import Quantization
from . import ast

MAX_ELEMENTS = 1 << 31
"""Elements a tensor may have; more cannot be meant for a microcontroller and would overflow 32-bit offsets."""


def constant_expr(array: np.ndarray) -> relax.Expr:
    """A Relax constant with exactly the dtype of ``array`` (``relax.const`` narrows 64-bit scalars)."""
    return relax.const(runtime.tensor(np.ascontiguousarray(array).reshape(array.shape)))


@dataclass(eq=False)
class Tensor:
    """A tensor known when the model runs.

    ``origin`` names the input it is, give or take a reshape; ``quantization`` is known behind quantizing operators.
    """

    expr: relax.Expr
    shape: tuple[int, ...]
    dtype: str
    origin: str = ""
    quantization: Quantization | None = None


@dataclass(eq=False)
class Constant:
    """A tensor known now."""

    array: np.ndarray
    name: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def dtype(self) -> str:
        return str(self.array.dtype)

    @cached_property
    def expr(self) -> relax.Expr:
        """The Relax constant, made once."""
        return constant_expr(self.array)


@dataclass
class Scope:
    """Names and their values; looked up outward. The latest binding of a name counts."""

    outer: Scope | None = None
    names: dict[str, Value] = field(default_factory=dict)

    def find(self, name: str) -> Value | None:
        """The value of ``name``, or ``None``."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return None


@dataclass(eq=False)
class Closure:
    """A function and the names it sees."""

    function: ast.Function
    scope: Scope


@dataclass(frozen=True)
class OperatorValue:
    """An operator that is not applied yet."""

    name: str


Value: TypeAlias = Tensor | Constant | tuple["Value", ...] | Closure | OperatorValue


def describe(value: Value) -> str:
    """A value's type for messages: ``Tensor[(1, 8), int8]``, ``a tuple of 2``, ``a function``."""
    if isinstance(value, Tensor | Constant):
        return f"Tensor[({', '.join(map(str, value.shape))}), {value.dtype}]"
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return "a function"


def elements(shape: tuple[int, ...]) -> int:
    """Number of elements."""
    return math.prod(shape)
