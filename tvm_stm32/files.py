"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from .errors import Error


def write_atomically(contents: Mapping[Path, str | bytes]) -> list[Path]:
    """Write all files under temporary names, then rename them into place; on failure none of them changes.

    Raises :class:`Error` (full disk, no permission) naming the folder.
    """
    staged: list[tuple[str, Path]] = []
    path = Path()
    try:
        for path, content in contents.items():
            descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            staged.append((temporary, path))
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content.encode() if isinstance(content, str) else content)
            Path(temporary).chmod(0o666 & ~_umask())
        for temporary, path in staged:
            Path(temporary).replace(path)
    except OSError as error:
        raise Error(f"cannot write '{path}': {error.strerror}", hint="check free space and permissions") from error
    finally:
        for temporary, _ in staged:
            Path(temporary).unlink(missing_ok=True)
    return [path for _, path in staged]


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
