"""``packs.lock``: exact versions and sums of a project's packs, and who asked for each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm_stm32.errors import PackError
from tvm_stm32.yaml_files import read_checked

from .manifest import Manifest, schema
from .names import USER, PackName, parse_exact

_LONGEST = 1 << 20
_HEAD = "# Made by 'tvm-stm32 packs'; keep it under version control, do not edit it.\n"


@dataclass(frozen=True)
class LockedPack:
    """A pack in one version: ``sha256`` and ``size`` (bytes) are the archive's.

    ``source`` is its URL or its path from packs.yaml, ``asked_by`` are texts such as ``packs.yaml: ARM::CMSIS@^6.0``.
    """

    pack: PackName
    version: str
    sha256: str
    size: int
    source: str
    licence: tuple[str, ...] = ()
    asked_by: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.pack}@{self.version}"

    @property
    def archive(self) -> str:
        """The name of its archive."""
        return self.pack.file(self.version, "pack")


@dataclass(frozen=True)
class Lock:
    """All packs of a project, sorted, and the packs.yaml they were chosen for."""

    wanted: tuple[str, ...]
    sources: tuple[str, ...]
    packs: tuple[LockedPack, ...]

    def find(self, pack: PackName) -> LockedPack | None:
        """The locked version of a pack, if any."""
        return next((item for item in self.packs if item.pack == pack), None)

    def mismatch(self, manifest: Manifest) -> str:
        """Why this lock is not one for ``manifest``; "" when it is."""
        added = [text for text in manifest.wanted if text not in self.wanted]
        dropped = [text for text in self.wanted if text not in manifest.wanted]
        if added or dropped:
            texts = [f"{', '.join(added)} not in the lock"] if added else []
            texts += [f"{', '.join(dropped)} no longer asked for"] if dropped else []
            return "; ".join(texts)
        if self.sources != manifest.sources:
            return "the sources are others"
        for wish in manifest.wishes:
            locked = self.find(wish.pack)
            if locked is None or not wish.allows(locked.version):
                return f"{wish} is asked for, {locked or 'nothing of it'} is in the lock"
        return ""


def read_lock(path: Path) -> Lock:
    """Read a packs.lock. Raises :class:`PackError` naming the file and the key."""
    if not path.is_file():
        raise PackError(f"there is no '{path}'", hint="tvm-stm32 packs install makes it from packs.yaml")
    data = read_checked(path, "lock of packs", schema("lock"), error=PackError, longest=_LONGEST)
    try:
        packs = tuple(map(_pack, data["packs"]))
    except PackError as error:
        raise PackError(f"{path}: packs: {error.message}", hint=error.hint) from error
    names = [item.pack for item in packs]
    if len(set(names)) < len(names):
        raise PackError(f"{path}: packs: one pack has two versions", hint="tvm-stm32 packs update")
    return Lock(tuple(data["wanted"]), tuple(data["sources"]), packs)


def lock_text(lock: Lock) -> str:
    """The text of a packs.lock: the same bytes for the same content."""
    import yaml

    data = {
        "lock": 1,
        "wanted": sorted(lock.wanted),
        "sources": list(lock.sources),
        "packs": [
            {
                "pack": str(item),
                "sha256": item.sha256,
                "size": item.size,
                "licence": list(item.licence),
                "source": item.source,
                "asked_by": sorted(item.asked_by, key=lambda text: (not text.startswith(USER), text)),
            }
            for item in sorted(lock.packs, key=lambda item: item.pack)
        ],
    }
    return _HEAD + yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=1000)


def _pack(item: dict[str, Any]) -> LockedPack:
    pack, version = parse_exact(item["pack"])
    return LockedPack(
        pack, version, item["sha256"], item["size"], item["source"], tuple(item["licence"]), tuple(item["asked_by"])
    )
