"""Arrays out of a user's .npz file, without trust in it: no pickle, no more memory than the data it really holds."""

from __future__ import annotations

import io
import tokenize
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path

import numpy as np

from ..errors import Error, quoted

LARGEST_ARRAYS = 256 << 20
"""Bytes of all arrays of a file."""

# What zipfile (encryption and unknown methods too) and numpy's header reader raise.
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError),
    *(ValueError, SyntaxError, tokenize.TokenError),
)


def load_arrays(path: Path, wanted: Collection[str]) -> dict[str, np.ndarray | None]:
    """The arrays of ``path`` by name, in its order; those that are not ``wanted`` are not read: None.

    Raises :class:`Error` naming file and array.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
            # The size is checked while reading, too: the directory may lie.
            total = sum(entry.file_size for name, entry in entries.items() if name in wanted)
            if total > LARGEST_ARRAYS:
                raise Error(
                    f"'{path.name}' holds {total:,} bytes of arrays",
                    why=f"more than {LARGEST_ARRAYS:,} are not read at once",
                    hint="run fewer samples at a time",
                )
            return {
                name: _array(path, archive, entry, name) if name in wanted else None for name, entry in entries.items()
            }
    except OSError as error:
        raise Error(f"cannot read inputs '{path}': {error.strerror or error}") from None
    except _DAMAGE as error:
        raise Error(
            f"'{path.name}' is no sound .npz file",
            why=str(error).splitlines()[0] if str(error) else "",
            hint="write it with numpy.savez",
        ) from None


def _array(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, name: str) -> np.ndarray:
    with archive.open(entry) as stream:
        content = stream.read(entry.file_size)
        if stream.read(1):
            raise zipfile.BadZipFile(f"{quoted(name)} is longer than its directory says")
    data = io.BytesIO(content)
    version = np.lib.format.read_magic(data)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read_header(data)
    if dtype.hasobject:
        raise Error(
            f"{path.name}: array {quoted(name)} holds Python objects",
            why="they are pickled, and a pickle can run any program when it is loaded",
            hint="save plain numbers: array.astype(...)",
        )
    count = 1
    for extent in shape:
        count *= extent
    if count * dtype.itemsize != len(content) - data.tell() or any(extent < 0 for extent in shape):
        raise Error(
            f"{path.name}: array {quoted(name)} is damaged",
            why=f"shape {shape} of {dtype} needs {count * dtype.itemsize:,} bytes and {len(content) - data.tell():,} "
            "are there",
            hint="write it again with numpy.savez",
        )
    array = np.frombuffer(content, dtype, count=count, offset=data.tell())
    return array.reshape(shape, order="F" if fortran else "C")
