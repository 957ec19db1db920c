"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from .errors import Error, ModelError

LARGEST_FILE = 512 << 20
"""Bytes of a model or parameter file; more than any Cortex-M addresses as flash, and it is read as a whole."""


def check_model_file(path: Path) -> None:
    """Raise :class:`ModelError` for a device, a pipe or a file too large to read; an absent one is not looked at."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise ModelError(f"model file '{path}' is no plain file", hint="copy its content to a file")
    if stat.S_ISREG(status.st_mode) and status.st_size > LARGEST_FILE:
        raise ModelError(
            f"model file '{path}' has {status.st_size:,} bytes",
            why=f"at most {LARGEST_FILE:,} are read; no Cortex-M has memory for more",
        )


def write_atomically(contents: Mapping[Path, str | bytes], *, keep_unchanged: bool = False) -> list[Path]:
    """Write all files under temporary names, then rename them into place; on failure none of them changes.

    ``keep_unchanged`` leaves files that have their content already as they are, times too: a build that goes by times
    makes nothing of them again. A process killed between two renames leaves files missing, never old beside new.
    Raises :class:`Error` (full disk, no permission) naming the file.
    """
    encoded = {
        path: content.encode("utf-8", "replace") if isinstance(content, str) else content
        for path, content in contents.items()
    }
    changed = {path: data for path, data in encoded.items() if not (keep_unchanged and _holds(path, data))}
    staged: list[tuple[str, Path]] = []
    path = Path()
    try:
        for path, data in changed.items():
            descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".tvm-stm32-")
            staged.append((temporary, path))
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(data)
            Path(temporary).chmod(0o666 & ~_umask())
            if path.is_dir():
                raise IsADirectoryError(0, "a folder of that name is in the way")
        for path in changed if len(staged) > 1 else ():
            # A set that is half old and half new would build; one with files missing does not.
            path.unlink(missing_ok=True)
        for temporary, path in staged:
            Path(temporary).replace(path)
    except OSError as error:
        raise Error(
            f"cannot write '{path}': {error.strerror}", hint="check the folder, its free space and permissions"
        ) from error
    finally:
        for temporary, _ in staged:
            Path(temporary).unlink(missing_ok=True)
    return list(contents)


def make_folder(folder: Path) -> None:
    """Make ``folder`` and those above it when absent. Raises :class:`Error` naming it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Error(f"cannot make the folder '{folder}': {error.strerror}", hint="give another folder") from error


def _holds(path: Path, data: bytes) -> bool:
    try:
        return path.stat().st_size == len(data) and path.read_bytes() == data
    except OSError:
        return False


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
