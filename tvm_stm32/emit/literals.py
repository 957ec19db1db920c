"""Arrays as C initialisers, exact to the bit."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from ..errors import ModelError
from ..library.ctypes import CTYPES

_WIDTH = 116


def float_literal(value: float, *, double: bool = False) -> str:
    """A C literal with exactly this value: hexadecimal, or INFINITY / NAN."""
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    if value == int(value) and abs(value) < 1e6:
        text = f"{int(value)}.0"
        text = f"-{text}" if value == 0 and math.copysign(1, value) < 0 else text
    else:
        mantissa, exponent = value.hex().split("p")
        if "." in mantissa:
            mantissa = mantissa.rstrip("0").rstrip(".")
        text = f"{mantissa}p{exponent}"
    return text if double else f"{text}f"


def initialiser(array: np.ndarray) -> str:
    """The lines between the braces of an array's initialiser, wrapped."""
    kind = str(array.dtype)
    if kind not in CTYPES:
        raise ModelError(f"constants of element type {kind} have no C form")
    flat = array.reshape(-1)
    texts: Iterable[str]
    if kind in ("float32", "float64"):
        texts = [float_literal(float(value), double=kind == "float64") for value in flat]
    elif kind == "int64":
        texts = ["(-INT64_C(9223372036854775807) - 1)" if v == -(1 << 63) else f"INT64_C({v})" for v in flat.tolist()]
    elif kind == "uint64":
        texts = [f"UINT64_C({v})" for v in flat.tolist()]
    elif kind == "uint32":
        texts = [f"{v}U" for v in flat.tolist()]
    elif kind == "int32":
        texts = ["INT32_MIN" if v == -(1 << 31) else str(v) for v in flat.tolist()]
    else:
        texts = [str(int(v)) for v in flat.tolist()]
    lines: list[str] = []
    line = "   "
    for text in texts:
        if len(line) + len(text) + 2 > _WIDTH:
            lines.append(line)
            line = "   "
        line += f" {text},"
    lines.append(line)
    return "\n".join(lines)
