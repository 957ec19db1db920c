"""Packs as builds see them: what the lock names and the cache has. Reads only; nothing here reaches a network."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tvm_stm32.errors import PackError, quoted

from .cache import Cache
from .lock import Lock, LockedPack, read_lock
from .model import Device, Pack
from .pdsc import read_pdsc


@dataclass(frozen=True)
class InstalledPack:
    """A pack of the lock, extracted in ``folder``."""

    locked: LockedPack
    folder: Path

    @property
    def description(self) -> Path:
        """Its PDSC file."""
        found = sorted(path for path in self.folder.iterdir() if path.suffix.lower() == ".pdsc")
        if len(found) != 1:
            raise PackError(f"{self.locked} in '{self.folder}' has {len(found)} PDSC files", hint="packs verify")
        return found[0]

    @cached_property
    def pack(self) -> Pack:
        """Its description, read when it is first asked for."""
        return read_pdsc(self.description)


def installed(lock: Lock | Path, device: str = "", cache: Cache | None = None) -> tuple[InstalledPack, ...]:
    """The packs of a lock (or of a packs.lock file); the one that has ``device`` comes first, when it is given.

    Raises :class:`PackError` that names packs which are not in the cache, and one for a device that no pack has.
    """
    lock = read_lock(lock) if isinstance(lock, Path) else lock
    cache = cache or Cache.of_environment()
    folders = {item: cache.folder(item) for item in lock.packs}
    missing = [str(item) for item, folder in folders.items() if folder is None]
    if missing:
        raise PackError(
            "not installed: " + ", ".join(missing),
            why=f"the lock names them, the cache '{cache.home}' does not have them",
            hint="tvm-stm32 packs install",
        )
    packs = tuple(InstalledPack(item, folder) for item, folder in folders.items() if folder is not None)
    if not device:
        return packs
    owner, _ = find_device(packs, device)
    return (owner, *(item for item in packs if item is not owner))


def find_device(packs: Sequence[InstalledPack], name: str) -> tuple[InstalledPack, Device]:
    """The pack that has a device (or variant) of that name, in any case of letters, and the device."""
    names: list[str] = []
    for item, device in devices(packs):
        if name.casefold() == device.name.casefold():
            return item, device
        names.append(device.name)
    close = difflib.get_close_matches(name.upper(), names, 5, 0.5)
    raise PackError(
        f"no installed pack has the device {quoted(name)}",
        hint="one of: " + ", ".join(close) if close else "tvm-stm32 packs add the pack of its family",
    )


def devices(packs: Sequence[InstalledPack]) -> Iterator[tuple[InstalledPack, Device]]:
    """All devices of packs, with their pack."""
    for item in packs:
        for device in item.pack.devices:
            yield item, device
