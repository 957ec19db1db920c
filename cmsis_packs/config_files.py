"""Configuration files of components: copied into the project once, never overwritten; an update shows what changed.

Names are those of CMSIS-Toolbox: ``RTE/<Cclass>/<device>/<file>``, and ``<file>.base@<version>`` beside it is the file
as the pack had it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tvm_stm32.errors import Error, PackError, quoted
from tvm_stm32.files import make_folder, write_atomically

from .safe_xml import read_bytes

_MARK = ".base@"
_VERSION = re.compile(r"[0-9][0-9A-Za-z.+_-]{0,99}")
_LONGEST_DIFFERENCE = 400


@dataclass(frozen=True)
class ConfigFile:
    """A file ``source`` of a ``pack`` (Vendor::Name) in a version, which the project has as ``target``."""

    source: Path
    target: Path
    version: str
    pack: str = ""

    def __post_init__(self) -> None:
        if not _VERSION.fullmatch(self.version):
            raise Error(f"{quoted(self.version)} is no version of a pack", hint="such as 1.2.3")

    @property
    def base(self) -> Path:
        """The file as it was in the pack when it was copied, for the version at hand."""
        return self.target.with_name(f"{self.target.name}{_MARK}{self.version}")

    def copy_once(self) -> bool:
        """Copy it unless the project has it; whether it was copied."""
        if self.target.exists() or self.target.is_symlink():
            return False
        content = read_bytes(self.source)
        make_folder(self.target.parent)
        write_atomically({self.target: content, self.base: content})
        return True

    def copied_from(self) -> Path | None:
        """What the project's copy was made from: the newest base beside it; None when there is none."""
        prefix = f"{self.target.name}{_MARK}"
        if self.base.is_file():
            return self.base
        found = [path for path in _siblings(self.target) if path.name.startswith(prefix) and path.is_file()]
        return max(found, key=lambda path: (path.stat().st_mtime_ns, path.name), default=None)

    def is_outdated(self) -> bool:
        """Whether the pack now has another content than that the project's copy was made from."""
        base = self.copied_from()
        return self.target.is_file() and base is not None and read_bytes(base) != read_bytes(self.source)

    def difference(self) -> str:
        """What changed in the pack since the file was copied, as a patch for the project's copy; "" for nothing."""
        base = self.copied_from()
        if base is None or not self.target.is_file():
            return ""
        old, new = _lines(base), _lines(self.source)
        name = self.target.as_posix()
        lines = list(difflib.unified_diff(old, new, f"a/{name}", f"b/{name}"))
        more = (
            [f"... and {len(lines) - _LONGEST_DIFFERENCE:,} lines more\n"] if len(lines) > _LONGEST_DIFFERENCE else []
        )
        return "".join([*lines[:_LONGEST_DIFFERENCE], *more])

    def mark_merged(self) -> None:
        """The project's copy has what changed: the pack's file of today is its base from here on."""
        if not self.target.is_file():
            raise PackError(f"{quoted(str(self.target))} is not there", hint="a build copies it")
        write_atomically({self.base: read_bytes(self.source)})
        for path in _siblings(self.target):
            if path.name.startswith(f"{self.target.name}{_MARK}") and path != self.base and path.is_file():
                path.unlink()


def _siblings(target: Path) -> Iterator[Path]:
    return target.parent.iterdir() if target.parent.is_dir() else iter(())


def _lines(path: Path) -> list[str]:
    try:
        text = read_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        text = read_bytes(path).decode("latin-1")
    return [line if line.endswith("\n") else f"{line}\n" for line in text.splitlines(keepends=True)]


def target_of(folder: Path, class_: str, device: str, name: str) -> Path:
    """Where a project keeps the config file ``name`` of a component class; ``device`` "" where it suits any."""
    parts = [_folder(class_), *([_folder(device)] if device else []), name]
    if any(part in ("", ".", "..") or "/" in part or "\\" in part for part in parts):
        raise Error(f"{quoted('/'.join(parts))} is no place for a config file")
    return folder.joinpath(*parts)


def _folder(name: str) -> str:
    """A folder's name, as CMSIS-Toolbox makes it of a class or a device."""
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name)
