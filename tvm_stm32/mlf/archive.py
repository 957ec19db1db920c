"""The members of a Model Library Format archive, read into memory and nowhere else.

An archive may come from anywhere: no member is believed before it is checked, none is written to disk, and members
nothing here needs (copies of a runtime, object files) are never read.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import ModelError, quoted

MOST_MEMBERS = 8192
LARGEST_MEMBER = 256 << 20
LARGEST_ARCHIVE = 1 << 30
"""Bytes; far above what a Cortex-M can hold, small enough for the computer that reads them."""

_BLOCK = 512
# What carries a model. The rest of an archive is for build systems of the tool that wrote it.
_WANTED = re.compile(
    r"metadata\.json|relay\.txt|src/.*|parameters/.*|(runtime|executor)-config/.*|codegen/.*\.(c|cc|cpp|h)"
)
_COMPRESSED = {b"\x1f\x8b": "gzip", b"BZ": "bzip2", b"\xfd7": "xz", b"\x28\xb5": "zstd", b"PK": "zip"}


class Archive:
    """An archive's members by normal name (``metadata.json``, ``codegen/host/src/lib0.c``).

    ``name`` is the file's name for errors. Raises :class:`ModelError` for a file that is no sound archive.
    """

    def __init__(self, path: Path, data: bytes) -> None:
        self.name = path.name
        self.names: set[str] = set()
        self._members: dict[str, bytes] = {}
        self._read(data)

    def _read(self, data: bytes) -> None:
        kind = _COMPRESSED.get(data[:2])
        if kind is not None:
            raise ModelError(
                f"{self.name}: the archive is compressed ({kind})",
                why="a Model Library Format archive is a plain tar file",
                hint="unpack it to a plain .tar first",
            )
        end = 0
        for member, start in self._headers(data):
            name = self._checked(member)
            end = -(-(start + (0 if member.isdir() else member.size)) // _BLOCK) * _BLOCK
            if member.isdir():
                continue
            if name in self.names:
                raise ModelError(f"{self.name}: member {quoted(name)} is there twice", hint="export the archive again")
            self.names.add(name)
            if member.size > len(data) - start:
                raise ModelError(
                    f"{self.name}: member {quoted(name)} is cut off",
                    why=f"its header says {member.size:,} bytes, and {max(0, len(data) - start):,} follow",
                    hint="copy the archive again",
                )
            if _WANTED.fullmatch(name):
                self._members[name] = data[start : start + member.size]
        # The library takes a header it cannot read for the end.
        if data[end : end + _BLOCK] != bytes(_BLOCK):
            raise ModelError(
                f"{self.name}: the archive is cut off, or damaged behind {quoted(name)}",
                why="a block of zeros marks the end of a tar file",
                hint="copy the archive again",
            )

    def _headers(self, data: bytes) -> Iterator[tuple[tarfile.TarInfo, int]]:
        """Each member's header with the offset of its data."""
        count = 0
        try:
            with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
                for member in tar:
                    count += 1
                    if count > MOST_MEMBERS:
                        raise ModelError(f"{self.name}: more than {MOST_MEMBERS} members", why="no exporter makes them")
                    yield member, member.offset_data
        except (tarfile.TarError, ValueError, OverflowError, EOFError, OSError, RecursionError) as error:
            raise ModelError(
                f"{self.name}: not a readable tar archive", why=str(error), hint="copy or export the archive again"
            ) from error
        if not count:
            raise ModelError(f"{self.name}: the archive is empty")

    def _checked(self, member: tarfile.TarInfo) -> str:
        """The normal name of a member that may be read."""
        name = member.name
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if name.startswith("/") or "\\" in name or "\0" in name or ".." in parts or re.match("[A-Za-z]:", name):
            raise ModelError(
                f"{self.name}: member {quoted(name)} points outside the archive",
                why="names of members are relative paths without '..'",
                hint="do not use this file",
            )
        if member.isdir():
            return "/".join(parts)
        if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.sparse is not None or not parts:
            kind = "a link" if member.islnk() or member.issym() else "no ordinary file"
            raise ModelError(
                f"{self.name}: member {quoted(name)} is {kind}",
                why="an archive of a model holds files and folders",
                hint="do not use this file",
            )
        if not 0 <= member.size <= LARGEST_MEMBER:
            raise ModelError(
                f"{self.name}: member {quoted(name)} has {member.size:,} bytes",
                why=f"at most {LARGEST_MEMBER:,} can belong to a model for a microcontroller",
            )
        return "/".join(parts)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def find(self, pattern: str) -> list[str]:
        """Names of the readable members that match a regular expression as a whole, sorted."""
        return sorted(name for name in self._members if re.fullmatch(pattern, name))

    def data(self, name: str) -> bytes:
        """A member's bytes. Raises :class:`ModelError` when it is absent."""
        if name not in self._members:
            raise ModelError(
                f"{self.name}: there is no {quoted(name)}", hint="the archive is incomplete: export it again"
            )
        return self._members[name]

    def text(self, name: str) -> str:
        """A member's UTF-8 text."""
        try:
            return self.data(name).decode("utf-8")
        except UnicodeDecodeError as error:
            raise ModelError(f"{self.name}: {name} is no text", why=f"byte {error.start} is not UTF-8") from error

    def json(self, name: str) -> Any:
        """A member's JSON document."""
        try:
            return json.loads(self.text(name))
        except (ValueError, RecursionError) as error:
            raise ModelError(
                f"{self.name}: {name} is no sound JSON", why=str(error), hint="export the archive again"
            ) from error


def read_archive(path: Path) -> tuple[Archive, bytes]:
    """The archive at ``path`` and the file's bytes. Raises :class:`ModelError`."""
    try:
        if path.stat().st_size > LARGEST_ARCHIVE:
            raise ModelError(f"{path.name}: the archive is larger than {LARGEST_ARCHIVE:,} bytes")
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path.name}: cannot read the archive", why=error.strerror or str(error)) from error
    return Archive(path, data), data
