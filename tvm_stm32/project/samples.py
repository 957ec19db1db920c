"""Samples for a network: from a user's .npz, or generated; and its outputs back as .npz."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import Error, quoted
from ..files import write_atomically
from ..model import TensorInfo
from .arrays import load_arrays

GENERATED = 4
"""Samples made up when the user gives none."""

LABELS = "labels"
"""The array of right classes that may lie beside the inputs."""


@dataclass(frozen=True)
class Samples:
    """``packed``: the bytes of all inputs in the model's order, one entry a sample.

    ``stacked`` says that the user's arrays had a leading sample axis. ``labels`` are the right classes, when known.
    """

    packed: list[bytes]
    stacked: bool
    labels: np.ndarray | None = None


def read_samples(path: Path | None, inputs: Sequence[TensorInfo]) -> Samples:
    """Samples from ``path`` (arrays by input name, each of the input's shape or with a sample axis in front).

    Without a path :data:`GENERATED` samples of a fixed pattern. Raises :class:`Error` naming file and array.
    """
    if path is None:
        return Samples([b"".join(generated(info, seed) for info in inputs) for seed in range(1, GENERATED + 1)], True)
    names = array_names(inputs)
    arrays = load_arrays(path, {*names, LABELS})
    missing = [name for name in names if arrays.get(name) is None]
    if missing:
        raise Error(
            f"{path.name} has no array for input {', '.join(quoted(name) for name in missing)}",
            why=f"it holds {', '.join(quoted(name) for name in list(arrays)[:20]) or 'nothing'}",
            hint="name each array as the model names its input",
        )
    columns = [_column(path, arrays[name], name, info) for name, info in zip(names, inputs, strict=True)]
    counts = {len(column) for column, _ in columns}
    if len(counts) > 1:
        raise Error(f"{path.name}: the inputs have different numbers of samples: {sorted(counts)}")
    packed = [b"".join(row.tobytes() for row in rows) for rows in zip(*(column for column, _ in columns), strict=True)]
    if not inputs:
        packed = [b""]
    if not packed:
        raise Error(f"{path.name} holds no samples", why="an array's first dimension is 0")
    labels = arrays.get(LABELS) if LABELS not in names else None
    if labels is not None and labels.shape != (len(packed),):
        raise Error(f"{path.name}: 'labels' has shape {labels.shape} for {len(packed)} samples")
    return Samples(packed, any(stacked for _, stacked in columns), labels)


def generated(info: TensorInfo, seed: int) -> bytes:
    """One sample of an input: bytes of the generator s = s * 1664525 + 1013904223 (top byte), as codes or reals.

    Integers take the bytes as they are; floats are (byte - 128) / 128, in [-1, 1).
    """
    dtype = np.dtype(info.dtype)
    elements = int(np.prod(info.shape, dtype=np.int64))
    count = elements * (1 if dtype.kind in "fb" else dtype.itemsize)
    data = bytearray()
    for _ in range(count):
        seed = (seed * 1664525 + 1013904223) & 0xFFFFFFFF
        data.append(seed >> 24)
    if dtype.kind == "f":
        return ((np.frombuffer(data, np.uint8).astype(dtype) - 128) / 128).astype(dtype).tobytes()
    return bytes(byte & 1 for byte in data) if dtype.kind == "b" else bytes(data)


def array_names(infos: Sequence[TensorInfo]) -> list[str]:
    """Names of the arrays: the model's, made unique with ``#2`` where a model gives one name (or one tensor) twice."""
    names: list[str] = []
    for info in infos:
        name, number = info.name, 2
        while name in names:
            name, number = f"{info.name}#{number}", number + 1
        names.append(name)
    return names


def write_outputs(path: Path, outputs: Sequence[TensorInfo], results: Sequence[bytes], stacked: bool) -> None:
    """Write outputs by name, in the model's order; with a sample axis when the inputs had one."""
    arrays: dict[str, np.ndarray] = {}
    for name, column in zip(array_names(outputs), unpack(outputs, results), strict=True):
        arrays[name] = column if stacked else column[0]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            entry = io.BytesIO()
            np.lib.format.write_array(entry, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), entry.getvalue())
    write_atomically({path: buffer.getvalue()})


def unpack(infos: Sequence[TensorInfo], results: Sequence[bytes]) -> list[np.ndarray]:
    """One array a tensor, [samples, *shape], from the packed bytes of each sample."""
    columns = []
    offset = 0
    for info in infos:
        dtype = np.dtype(info.dtype).newbyteorder("<")
        size = int(np.prod(info.shape, dtype=np.int64)) * dtype.itemsize
        rows = [np.frombuffer(result, dtype, count=size // dtype.itemsize, offset=offset) for result in results]
        columns.append(np.stack(rows).reshape(len(results), *info.shape))
        offset += size
    return columns


def _column(path: Path, array: np.ndarray | None, name: str, info: TensorInfo) -> tuple[np.ndarray, bool]:
    dtype = np.dtype(info.dtype)
    assert array is not None
    if array.dtype != dtype:
        raise Error(
            f"{path.name}: array {quoted(name)} has element type {array.dtype}, the model's input is {dtype}",
            hint="convert (and quantize) the array first; tvm-stm32 inspect shows scale and zero point",
        )
    ordered = np.ascontiguousarray(array.astype(dtype.newbyteorder("<")))
    if array.shape == info.shape:
        return ordered[np.newaxis], False
    # With a sample axis in front; extents of 1 (a batch, the one channel of NCHW and NHWC) do not matter.
    if array.ndim > 0 and _without_ones(array.shape[1:]) == _without_ones(info.shape):
        return ordered.reshape(len(array), *info.shape), True
    raise Error(
        f"{path.name}: array {quoted(name)} has shape {array.shape}, the model's input is {info.shape}",
        hint=f"give one sample of that shape, or (samples, {', '.join(str(e) for e in info.shape)})",
    )


def _without_ones(shape: tuple[int, ...]) -> list[int]:
    return [extent for extent in shape if extent != 1]
