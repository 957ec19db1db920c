"""From packs.yaml to a lock and to packs in the cache."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from tvm_stm32.errors import PackError

from .archive import check_identity, differences, read_description
from .cache import Cache
from .download import copy_file, fetch_file, sha256_of
from .lock import Lock, LockedPack, lock_text, read_lock
from .manifest import Manifest, read_manifest, write_text
from .model import Pack
from .names import PackName, Wish, required_by
from .solve import solve
from .sources import Release, open_sources
from .web import Transfer

_Result = TypeVar("_Result")
_WAIT = 1800.0


@dataclass(frozen=True)
class Job:
    """What the commands have in common: the files, the cache, how to download, and how many files at a time."""

    manifest: Path
    cache: Cache
    transfer: Transfer
    parallel: int = 4

    @property
    def lock(self) -> Path:
        """The packs.lock beside the packs.yaml."""
        return self.manifest.with_suffix(".lock")


def install(job: Job, *, frozen: bool = False) -> Lock:
    """Bring all packs into the cache, in the versions of the lock, which is made anew when packs.yaml asks for others.

    ``frozen``: a lock that does not fit is an error.
    """
    manifest = read_manifest(job.manifest)
    old = read_lock(job.lock) if frozen or job.lock.is_file() else None
    problem = old.mismatch(manifest) if old is not None else ""
    if old is None or problem:
        if frozen:
            raise PackError(
                f"'{job.lock}' does not fit '{job.manifest.name}'",
                why=problem,
                hint="tvm-stm32 packs install, without --frozen, and commit the lock",
            )
        return lock_anew(job, manifest, old)
    missing = [item for item in old.packs if job.cache.folder(item) is None]
    if missing:
        with _alone(job):
            _bring(job, missing)
    return old


def lock_anew(job: Job, manifest: Manifest, old: Lock | None = None, free: Collection[PackName] = ()) -> Lock:
    """Choose versions for ``manifest``, bring them into the cache, and write the lock, after all went well.

    Packs of ``old`` keep their version where they may, but not those in ``free``.
    """
    if old is not None:
        # A source that was taken out gives nothing any more.
        same = set(old.sources) <= set(manifest.sources)
        kept = [item for item in old.packs if same and item.pack not in free]
        old = Lock(old.wanted, old.sources, tuple(kept))
    with _alone(job):
        chooser = _Chooser(job, manifest, old)
        chosen = solve(manifest.wishes, chooser.sources, chooser.needs, old)
        packs = _in_parallel(job, [partial(chooser.entry, release, wishes) for release, wishes in chosen])
        lock = Lock(manifest.wanted, manifest.sources, tuple(packs))
        _bring(job, [item for item in packs if job.cache.folder(item) is None])
        write_text(job.lock, lock_text(lock))
    return lock


def verify(lock: Lock, cache: Cache) -> list[str]:
    """What is wrong with the packs of a lock in the cache, a text a finding: sums of archives, files of folders."""
    problems = []
    for item in lock.packs:
        folder = cache.folder(item)
        if folder is None:
            problems.append(f"{item} is not installed")
        archive = _sound_archive(cache, item)
        if archive is None:
            problems.append(f"{item} has no archive with the lock's sum, so its files cannot be compared")
        elif folder is not None:
            problems += [f"{item}: {text}" for text in differences(archive, folder)]
    return problems


class _Chooser:
    """Answers what the solver asks, with descriptions out of the archives themselves."""

    def __init__(self, job: Job, manifest: Manifest, old: Lock | None) -> None:
        self._job = job
        self._folder = manifest.folder
        self._old = old
        self.sources = open_sources(manifest.sources, manifest.folder, job.cache, job.transfer)
        self._known: dict[Release, tuple[Path, Pack]] = {}

    def needs(self, releases: Collection[Release]) -> list[Wish]:
        """The packs that releases require; they are downloaded for it, since the lock needs their sums anyway."""
        described = _in_parallel(self._job, [partial(self._described, release) for release in releases])
        return [
            required_by(requirement, str(release))
            for release, (_, pack) in zip(releases, described, strict=True)
            for requirement in pack.requirements
        ]

    def entry(self, release: Release, wishes: tuple[Wish, ...]) -> LockedPack:
        """The lock's entry for a release."""
        archive, pack = self._described(release)
        return LockedPack(
            release.pack,
            release.version,
            sha256_of(archive),
            archive.stat().st_size,
            release.place,
            pack.spdx or pack.licences,
            tuple(wish.request for wish in wishes),
        )

    def _described(self, release: Release) -> tuple[Path, Pack]:
        if release not in self._known:
            locked = self._old.find(release.pack) if self._old is not None else None
            if locked is not None and locked.version == release.version:
                archive = _obtain_locked(self._job, self._folder, locked)
            else:
                archive = next(self._job.cache.archives(release.pack, release.version), None) or _obtain(
                    self._job, self._folder, release
                )
            pack = read_description(archive)
            check_identity(pack, release.pack, release.version, f"the archive from {release.place}")
            self._known[release] = archive, pack
        return self._known[release]


def _bring(job: Job, items: Sequence[LockedPack]) -> None:
    """Download what is missing, several at a time, then extract."""
    folder = job.manifest.parent
    archives = _in_parallel(job, [partial(_obtain_locked, job, folder, item) for item in items])
    for item, archive in zip(items, archives, strict=True):
        if job.cache.adopt(item, archive) is None:
            check_identity(read_description(archive), item.pack, item.version, f"the archive from {item.source}")
            job.cache.install(item, archive)
            job.transfer.progress.say(f"installed {item}")


def _obtain_locked(job: Job, folder: Path, item: LockedPack) -> Path:
    """The archive with the lock's sum: one that is here, or from where the lock says."""
    return _sound_archive(job.cache, item) or _obtain(
        job, folder, Release(item.pack, item.version, item.source), sha256=item.sha256, size=item.size
    )


def _sound_archive(cache: Cache, item: LockedPack) -> Path | None:
    for archive in cache.archives(item.pack, item.version):
        if archive.stat().st_size == item.size and sha256_of(archive) == item.sha256:
            return archive
    return None


def _obtain(job: Job, folder: Path, release: Release, *, sha256: str = "", size: int = 0) -> Path:
    target = job.cache.new_archive(release.pack, release.version)
    if "://" in release.place:
        if release.place.startswith("http://") and not sha256:
            job.transfer.progress.say(f"note: {release} comes over a connection without encryption")
        fetch_file(release.place, target, str(release), job.transfer, sha256=sha256, size=size)
    else:
        copy_file(folder / release.place, target, str(release), job.transfer, sha256=sha256)
    try:
        check_identity(read_description(target), release.pack, release.version, f"the archive from {release.place}")
    except PackError:
        target.unlink()
        raise
    job.transfer.progress.say(f"fetched {release}, {target.stat().st_size:,} bytes")
    return target


def _in_parallel(job: Job, tasks: Iterable[Callable[[], _Result]]) -> list[_Result]:
    """Results in order. The first task that fails ends the others, and its error is raised."""
    with ThreadPoolExecutor(max_workers=job.parallel) as pool:
        futures = [pool.submit(task) for task in tasks]
        try:
            done, rest = wait(futures, return_when=FIRST_EXCEPTION)
            for future in done if rest else ():
                future.result()
            return [future.result() for future in futures]
        except BaseException:
            job.transfer.end()
            for future in futures:
                future.cancel()
            raise


def _alone(job: Job) -> AbstractContextManager[None]:
    def waiting() -> None:
        job.transfer.progress.say(f"another process is at work in '{job.cache.home}'; waiting for it")

    return job.cache.locked(_WAIT, waiting)
