"""TVM's serialized NDArray (little endian), as parameter files and metadata sections hold it."""

from __future__ import annotations

import math
import struct

import numpy as np

from ..errors import ModelError

MAGIC = 0xDD5E40F096B4A13F
_HEADER = struct.Struct("<QQiiiBBH")
_MAX_RANK = 32
_DTYPES = {
    (0, 8): "int8",
    (0, 16): "int16",
    (0, 32): "int32",
    (0, 64): "int64",
    (1, 1): "bool",
    (1, 8): "uint8",
    (1, 16): "uint16",
    (1, 32): "uint32",
    (1, 64): "uint64",
    (2, 16): "float16",
    (2, 32): "float32",
    (2, 64): "float64",
}


def read(data: memoryview, offset: int, where: str) -> tuple[np.ndarray, int]:
    """The array whose blob starts at ``offset`` of ``data``, and the offset behind it.

    Every size is checked against the bytes that are there before anything is allocated. Raises ``ModelError``;
    ``where`` names the file or entry in it.
    """
    if len(data) - offset < _HEADER.size:
        raise ModelError(f"{where}: truncated array", why=f"{len(data) - offset} bytes are left, its header has 32")
    magic, _, _, _, rank, code, bits, lanes = _HEADER.unpack_from(data, offset)
    if magic != MAGIC:
        raise ModelError(f"{where}: not a serialized array", why=f"its magic number is {magic:#018x}, not {MAGIC:#x}")
    if not 0 <= rank <= _MAX_RANK:
        raise ModelError(f"{where}: array of rank {rank}", why=f"at most {_MAX_RANK} dimensions can be real")
    dtype = _DTYPES.get((code, bits))
    if dtype is None or lanes != 1:
        raise ModelError(
            f"{where}: array of unsupported dtype (code {code}, {bits} bits, {lanes} lanes)",
            why="bool, int8 to int64, uint8 to uint64 and float16 to float64 can be read",
        )
    offset += _HEADER.size
    if len(data) - offset < 8 * rank + 8:
        raise ModelError(f"{where}: truncated array", why="the data end within its shape")
    *shape, size = struct.unpack_from(f"<{rank + 1}q", data, offset)
    offset += 8 * rank + 8
    if any(extent < 0 for extent in shape):
        raise ModelError(f"{where}: array with a negative extent", why=f"its shape is {tuple(shape)}")
    expected = math.prod(shape) * np.dtype(dtype).itemsize
    if size != expected:
        raise ModelError(f"{where}: array of {size} bytes", why=f"shape {tuple(shape)} of {dtype} takes {expected}")
    if size > len(data) - offset:
        raise ModelError(f"{where}: truncated array", why=f"it has {size} bytes, {len(data) - offset} are left")
    little_endian = np.dtype(dtype).newbyteorder("<")
    array = np.frombuffer(data[offset : offset + size], dtype=little_endian).reshape(shape)
    return array.astype(dtype), offset + size


def write(array: np.ndarray) -> bytes:
    """The blob of an array, as :func:`read` takes it. Raises :class:`ModelError` for an element type without a code."""
    found = next((key for key, dtype in _DTYPES.items() if dtype == str(array.dtype)), None)
    if found is None:
        raise ModelError(f"arrays of element type {array.dtype} cannot be written to a parameter file")
    data = array.astype(array.dtype.newbyteorder("<")).tobytes()
    header = _HEADER.pack(MAGIC, 0, 1, 0, array.ndim, *found, 1)
    return header + struct.pack(f"<{array.ndim + 1}q", *array.shape, len(data)) + data
