"""Parameter files: ``relay.save_param_dict`` binaries and numpy archives keyed by parameter name."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..errors import ModelError
from . import ndarray

MAGIC = 0xF7E58D4F05049CB7
_ZIP_MAGIC = b"PK\x03\x04"


def load(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a ``.params``/``.bin`` or ``.npz`` file by name.

    Raises ``ModelError`` for a file that cannot be read, is truncated, or is no parameter file.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path.name}: cannot read the parameter file", why=error.strerror or str(error)) from error
    return _read_archive(data, path.name) if data[:4] == _ZIP_MAGIC else read(data, path.name)


def read(data: bytes, name: str) -> dict[str, np.ndarray]:
    """The arrays of a ``save_param_dict`` binary by name; ``name`` is the file's name for errors."""
    view = memoryview(data)
    if len(data) < 24 or struct.unpack_from("<Q", data)[0] != MAGIC:
        raise ModelError(
            f"{name}: not a parameter file",
            why=f"it does not start with the magic number {MAGIC:#x} of relay.save_param_dict",
            hint="write one with relay.save_param_dict(params), or numpy.savez keyed by parameter name",
        )
    names, offset = _read_names(view, name)
    if len(data) - offset < 8:
        raise ModelError(f"{name}: truncated parameter file", why="it ends behind the names")
    (count,) = struct.unpack_from("<Q", data, offset)
    offset += 8
    if count != len(names):
        raise ModelError(f"{name}: {len(names)} parameter names but {count} arrays")
    arrays: dict[str, np.ndarray] = {}
    for parameter in names:
        if parameter in arrays:
            raise ModelError(f"{name}: parameter '{parameter}' occurs twice")
        arrays[parameter], offset = ndarray.read(view, offset, f"{name}: parameter '{parameter}'")
    if offset != len(data):
        raise ModelError(f"{name}: {len(data) - offset} bytes behind the last parameter")
    return arrays


def write(arrays: Mapping[str, np.ndarray]) -> bytes:
    """The arrays as a ``save_param_dict`` binary, in the order of the mapping."""
    names = [name.encode("utf-8") for name in arrays]
    parts = [struct.pack("<QQQ", MAGIC, 0, len(names))]
    parts += [struct.pack("<Q", len(name)) + name for name in names]
    parts.append(struct.pack("<Q", len(names)))
    return b"".join([*parts, *(ndarray.write(array) for array in arrays.values())])


def _read_names(view: memoryview, file_name: str) -> tuple[list[str], int]:
    (count,) = struct.unpack_from("<Q", view, 16)
    offset = 24
    # A name takes at least the 8 bytes of its length, so a count the file cannot hold is caught before the loop.
    if count > (len(view) - offset) // 8:
        raise ModelError(f"{file_name}: truncated parameter file", why=f"it announces {count} parameters")
    names = []
    for _ in range(count):
        if len(view) - offset < 8:
            raise ModelError(f"{file_name}: truncated parameter file", why="it ends within the names")
        (length,) = struct.unpack_from("<Q", view, offset)
        offset += 8
        if length > len(view) - offset:
            raise ModelError(f"{file_name}: truncated parameter file", why=f"it announces a name of {length} bytes")
        try:
            names.append(bytes(view[offset : offset + length]).decode("utf-8"))
        except UnicodeDecodeError as error:
            raise ModelError(f"{file_name}: a parameter name is not UTF-8") from error
        offset += length
    return names, offset


def _read_archive(data: bytes, name: str) -> dict[str, np.ndarray]:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            return {key: np.ascontiguousarray(archive[key]) for key in archive.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, NotImplementedError) as error:
        raise ModelError(f"{name}: not a readable numpy archive", why=str(error)) from error
