"""C types and literals of TIR values."""

from __future__ import annotations

import math

import numpy as np

from ...errors import UnsupportedOperatorError

_C_TYPES = {
    "bool": "uint8_t",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
    "float32": "float",
}

# C computes these as int: results are cast back.
PROMOTED = frozenset({"bool", "int8", "int16", "uint8", "uint16"})


def c_type(dtype: str) -> str:
    """C type that stores an element of ``dtype`` (booleans are bytes of 0 and 1).

    Raises :class:`UnsupportedOperatorError` for types Cortex-M code should not use (float16, float64, vectors).
    """
    try:
        return _C_TYPES[dtype]
    except KeyError:
        raise UnsupportedOperatorError(
            f"element type '{dtype}' has no C type here",
            hint=f"convert the model to one of: {', '.join(_C_TYPES)}",
        ) from None


def size_of(dtype: str) -> int:
    """Bytes of an element."""
    c_type(dtype)
    return int(np.dtype(dtype).itemsize)


def float_literal(value: float) -> str:
    """A float32 constant, exactly: the shortest decimal that reads back as the same bits, or a macro of math.h."""
    single = np.float32(value)
    if math.isnan(single):
        return "NAN"
    if math.isinf(single):
        return "INFINITY" if single > 0 else "-INFINITY"
    text = np.format_float_positional(single, unique=True, trim="0")
    if len(text) > 16:
        text = np.format_float_scientific(single, unique=True, trim="0", exp_digits=1)
    return text + "f"


def int_literal(value: int, dtype: str) -> str:
    """An integer constant whose type is at least ``dtype`` (after promotion)."""
    if dtype == "uint64":
        return f"UINT64_C({value})"
    if dtype == "uint32":
        return f"{value}U"
    if dtype == "int64":
        return f"INT64_C({value})" if value > -(1 << 63) else "(-INT64_C(9223372036854775807) - 1)"
    return str(int(value)) if value > -(1 << 31) else "(-2147483647 - 1)"
