"""Where packs lie on this computer: the folders of CMSIS-Toolbox, so that its packs are found and ours by it.

``ROOT/Vendor/Name/Version/`` is an extracted pack, ``ROOT/.Download/Vendor.Name.Version.pack`` its archive; what only
this program needs is in ``ROOT/.tvm-stm32/``.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from tvm_stm32.errors import PackError
from tvm_stm32.files import write_atomically

from .archive import UnsoundArchiveError, differences, extract
from .lock import LockedPack
from .names import PackName

ROOT, TOOLBOX_ROOT, SHARED_ROOTS = "TVM_STM32_PACK_ROOT", "CMSIS_PACK_ROOT", "TVM_STM32_SHARED_PACKS"
"""Environment variables: the cache; CMSIS-Toolbox's; caches that are read only (several, as in PATH)."""

_OWN = ".tvm-stm32"


@dataclass(frozen=True)
class Cache:
    """The cache that is written, and those that are only read; looked through in this order."""

    home: Path
    shared: tuple[Path, ...] = ()

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] = os.environ) -> Cache:
        """The caches the variables name; without any, CMSIS-Toolbox's default folder."""
        toolbox = environment.get(TOOLBOX_ROOT, "")
        home = environment.get(ROOT, "") or toolbox
        others = [toolbox, *environment.get(SHARED_ROOTS, "").split(os.pathsep)]
        place = Path(home) if home else _default(environment)
        shared = [Path(text) for text in dict.fromkeys(others) if text and Path(text) != place]
        return cls(place.absolute(), tuple(path.absolute() for path in shared))

    @property
    def roots(self) -> tuple[Path, ...]:
        """All caches, the one that is written first."""
        return (self.home, *self.shared)

    def own(self, *parts: str) -> Path:
        """A path in this program's part of the cache."""
        return self.home.joinpath(_OWN, *parts)

    def archives(self, pack: PackName, version: str) -> Iterator[Path]:
        """The archives there are of a version."""
        for root in self.roots:
            path = root / ".Download" / pack.file(version, "pack")
            if path.is_file():
                yield path

    def new_archive(self, pack: PackName, version: str) -> Path:
        """Where a download of a version goes; its folder is made."""
        path = self.home / ".Download" / pack.file(version, "pack")
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def folder(self, item: LockedPack) -> Path | None:
        """The extracted pack of a lock's entry, when it is known to be the content of that archive. Reads only."""
        for root in self.roots:
            folder = _folder(root, item)
            try:
                if folder.is_dir() and self._note(root, item).read_text(encoding="ascii").strip() == item.sha256:
                    return folder
            except (OSError, ValueError):
                continue
        return None

    def adopt(self, item: LockedPack, archive: Path) -> Path | None:
        """Compare folders that another program extracted with the archive; the first that is equal is noted as sound.

        Raises :class:`PackError` for one in the cache that is written, since nothing can be put in its place.
        """
        for root in self.roots:
            folder = _folder(root, item)
            if not folder.is_dir():
                continue
            changes = differences(archive, folder)
            if not changes:
                self._remember(root, item)
                return folder
            if root == self.home:
                more = f"; and {len(changes) - 5} more" if len(changes) > 5 else ""
                raise PackError(
                    f"the installed {item} in '{folder}' is not the one in the lock",
                    why="; ".join(changes[:5]) + more,
                    hint="delete that folder and install again",
                )
        return None

    def install(self, item: LockedPack, archive: Path) -> Path:
        """Extract an archive; the folder appears complete or not at all. The caller holds the cache's lock."""
        folder = _folder(self.home, item)
        scratch = self.own("tmp")
        scratch.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=scratch, prefix="x", ignore_cleanup_errors=True) as temporary:
            content = Path(temporary) / "p"
            content.mkdir()
            try:
                extract(archive, content)
            except UnsoundArchiveError:
                if archive.is_relative_to(self.home):
                    archive.unlink()
                raise
            folder.parent.mkdir(parents=True, exist_ok=True)
            content.rename(folder)
        self._remember(self.home, item)
        return folder

    @contextmanager
    def locked(self, wait: float, waiting: Callable[[], None]) -> Iterator[None]:
        """Alone in this cache, among processes; ``waiting`` is called when another one is at it.

        Raises :class:`PackError` after ``wait`` seconds, and when the cache cannot be written.
        """
        import filelock

        try:
            self.own().mkdir(parents=True, exist_ok=True)
            lock = filelock.FileLock(self.own("lock"))
            try:
                lock.acquire(timeout=0.5)
            except filelock.Timeout:
                waiting()
                lock.acquire(timeout=wait)
        except filelock.Timeout as error:
            raise PackError(
                f"the pack cache '{self.home}' is in use",
                why=f"another process has held its lock for more than {wait:g} seconds",
                hint="wait for it, or end it",
            ) from error
        except OSError as error:
            raise PackError(
                f"the pack cache '{self.home}' cannot be written",
                why=error.strerror or str(error),
                hint=f"name a folder of yours in {ROOT}; a cache that others fill can be in {SHARED_ROOTS}",
            ) from error
        try:
            # Nobody else is here: what lies in the scratch folder is of processes that were ended.
            shutil.rmtree(self.own("tmp"), ignore_errors=True)
            yield
        finally:
            lock.release()

    def _remember(self, root: Path, item: LockedPack) -> None:
        note = self._note(root, item)
        note.parent.mkdir(parents=True, exist_ok=True)
        write_atomically({note: item.sha256 + "\n"})

    def _note(self, root: Path, item: LockedPack) -> Path:
        """The file with the sum of the archive whose content a folder is; for shared caches it lies in ours."""
        if root == self.home:
            return self.own("installed", item.archive)
        inside = root / _OWN / "installed" / item.archive
        if inside.is_file():
            return inside
        return self.own("shared", sha256(str(root).encode()).hexdigest()[:16], item.archive)


def _folder(root: Path, item: LockedPack) -> Path:
    return root / item.pack.vendor / item.pack.name / item.version


def _default(environment: Mapping[str, str]) -> Path:
    """The folder CMSIS-Toolbox uses when nobody names one."""
    if sys.platform == "win32":
        return Path(environment.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "Arm" / "Packs"
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "arm" / "packs"
