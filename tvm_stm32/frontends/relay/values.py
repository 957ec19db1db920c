"""What Relay expressions evaluate to while a model is translated."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
from tvm import relax, runtime

from ...model import Quantization
from ..limits import LARGEST_TENSOR
from . import ast

MAX_ELEMENTS = LARGEST_TENSOR
"""Elements a tensor may have, if each were a byte."""


_COMPUTED = {"float64": "float32", "float16": "float32"}


def computed_dtype(dtype: str) -> str:
    """The dtype a value of ``dtype`` is computed in: generated C has no double and no half.

    Values of float16 are float32 rounded to half precision behind each operator.
    """
    return _COMPUTED.get(dtype, dtype)


def constant_expr(array: np.ndarray) -> relax.Expr:
    """A Relax constant of the dtype ``array`` is computed in (``relax.const`` would narrow 64-bit scalars)."""
    with np.errstate(over="ignore"):
        array = array.astype(computed_dtype(str(array.dtype)), copy=False)
    return relax.const(runtime.tensor(np.ascontiguousarray(array).reshape(array.shape)))


@dataclass(eq=False)
class Tensor:
    """A tensor known when the model runs.

    ``origin`` names the input it is, give or take a reshape; ``quantization`` is known behind quantizing operators;
    ``half`` says that the file has it in float16.
    """

    expr: relax.Expr
    shape: tuple[int, ...]
    dtype: str
    origin: str = ""
    quantization: Quantization | None = None
    half: bool = False


@dataclass(eq=False)
class Constant:
    """A tensor known now, in the precision of the file."""

    array: np.ndarray
    name: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def dtype(self) -> str:
        return computed_dtype(str(self.array.dtype))

    @property
    def half(self) -> bool:
        return self.array.dtype == np.float16

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


@dataclass(frozen=True)
class Data:
    """A value of a data type whose constructor is known; ``fields`` is ``None`` while it is not applied yet."""

    constructor: str
    fields: tuple[Value, ...] | None


@dataclass(eq=False)
class Cell:
    """A reference cell; ``level`` counts the undecided branches around the place it was made at."""

    value: Value
    level: int


Value: TypeAlias = Tensor | Constant | tuple["Value", ...] | Closure | OperatorValue | Data | Cell


def describe(value: Value) -> str:
    """A value's type for messages: ``Tensor[(1, 8), int8]``, ``a tuple of 2``, ``a function``."""
    if isinstance(value, Tensor | Constant):
        return f"Tensor[({', '.join(map(str, value.shape))}), {value.dtype}]"
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    if isinstance(value, Data) and value.fields is not None:
        return f"a {value.constructor}"
    return "a reference" if isinstance(value, Cell) else "a function"


def elements(shape: tuple[int, ...]) -> int:
    """Number of elements."""
    return math.prod(shape)
