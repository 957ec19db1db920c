"""Folding of element-wise operators on constants: importers leave scales as products, weights behind a cast."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .operator import Application
from .ops_elementwise import clip_bounds
from .values import Constant

_MAX_ELEMENTS = 1 << 22


def _divide(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    if left.dtype.kind == "f":
        return np.asarray(left / right)
    if not right.all():
        raise ValueError("division by zero")
    quotient = np.abs(left) // np.abs(right)
    return np.asarray(np.where((left < 0) != (right < 0), -quotient, quotient), left.dtype)


_BINARY: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": _divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "greater": np.greater,
    "less": np.less,
    "equal": np.equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
}
_UNARY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "negative": np.negative,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "logical_not": np.logical_not,
}


def fold(app: Application) -> Constant | None:
    """The value of an operator whose arguments are all constants, or ``None`` when it is not one of those folded."""
    arrays = [arg.array for arg in app.args if isinstance(arg, Constant)]
    if not arrays or len(arrays) != len(app.args) or any(array.size > _MAX_ELEMENTS for array in arrays):
        return None
    with np.errstate(all="ignore"):
        result = _fold(app, arrays)
    if result is None:
        return None
    app.emitter.reserve(app.at, int(result.size))
    return Constant(np.asarray(result))


def _fold(app: Application, arrays: list[np.ndarray]) -> np.ndarray | None:
    first = arrays[0]
    if app.name in _BINARY and len(arrays) == 2 and first.dtype == arrays[1].dtype:
        if np.broadcast(first, arrays[1]).size > _MAX_ELEMENTS:
            return None
        return np.asarray(_BINARY[app.name](first, arrays[1]))
    if len(arrays) != 1:
        return None
    if app.name in _UNARY and (first.dtype.kind != "b" or app.name == "logical_not"):
        return np.asarray(_UNARY[app.name](first))
    if app.name == "cast":
        return first.astype(app.declared_dtype("dtype", ""))
    if app.name == "clip" and first.dtype.kind != "b":
        low, high = clip_bounds(app.attrs.real("a_min"), app.attrs.real("a_max"), str(first.dtype))
        return np.asarray(np.clip(first, low, high), first.dtype)
    return None
