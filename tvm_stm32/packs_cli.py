"""``tvm-stm32 packs``: CMSIS packs of a project, pinned in packs.lock."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .columns import aligned
from .device_cli import merged_command
from .errors import PackError

if TYPE_CHECKING:
    from cmsis_packs.install import Job
    from cmsis_packs.lock import Lock


def _yaml_file(_context: click.Context, _option: click.Parameter, file: Path) -> Path:
    if file.suffix not in (".yaml", ".yml"):
        raise click.BadParameter(f"'{file}' is no .yaml file.")
    return file


_Command = TypeVar("_Command", bound=Callable[..., Any])
_FILE = click.option(
    "--file",
    "file",
    type=click.Path(path_type=Path),
    default=Path("packs.yaml"),
    callback=_yaml_file,
    show_default=True,
    help="What the project wants; the lock lies beside it.",
)
_DOWNLOAD_OPTIONS = (
    click.option(
        "--jobs", type=click.IntRange(1, 32), default=4, show_default=True, help="How many files are fetched at a time."
    ),
    click.option(
        "--time-limit",
        type=click.FloatRange(min=0.1),
        default=600.0,
        show_default=True,
        help="Seconds one file may take.",
    ),
    click.option("--offline", is_flag=True, help="Use what is in the cache, and no network."),
    _FILE,
)


def _download_options(command: _Command) -> _Command:
    for option in _DOWNLOAD_OPTIONS:
        command = option(command)
    return command


@click.group("packs")
def packs() -> None:
    """CMSIS packs: device descriptions, start-up code and components, in versions that packs.lock pins."""


@packs.command("add")
@click.argument("names", nargs=-1, required=True, metavar="PACK...")
@click.option(
    "--source", "sources", multiple=True, help="Also look here: URL of an index, folder of .pack files, .pack file."
)
@_download_options
def add_command(names: tuple[str, ...], sources: tuple[str, ...], file: Path, **options: Any) -> None:
    """Add PACK (Vendor::Name, with @1.2.3, @>=1.2.3, @^1.2.3 or @~1.2.3) to packs.yaml and install it."""
    from cmsis_packs.install import lock_anew
    from cmsis_packs.lock import read_lock
    from cmsis_packs.manifest import with_wishes, write_text
    from cmsis_packs.names import parse_wish

    wishes = tuple(map(parse_wish, names))
    text, manifest = with_wishes(file, wishes, tuple(_from_folder(source, file.parent) for source in sources))
    with _Job(file, **options) as job:
        old = read_lock(job.lock) if job.lock.is_file() else None
        lock = lock_anew(job, manifest, old)
    write_text(file, text)
    _summary(lock)


@packs.command("install")
@click.option("--frozen", is_flag=True, help="Fail when packs.lock does not fit packs.yaml; choose no versions.")
@_download_options
def install_command(frozen: bool, file: Path, **options: Any) -> None:
    """Bring the packs of packs.lock into the cache; make the lock first when packs.yaml asks for other packs."""
    from cmsis_packs.install import install

    with _Job(file, **options) as job:
        lock = install(job, frozen=frozen)
    _summary(lock)


@packs.command("update")
@click.argument("names", nargs=-1, metavar="[PACK]...")
@_download_options
def update_command(names: tuple[str, ...], file: Path, **options: Any) -> None:
    """Take the newest versions that packs.yaml allows, of all packs or of PACK (Vendor::Name)."""
    from cmsis_packs.install import lock_anew
    from cmsis_packs.lock import read_lock
    from cmsis_packs.manifest import read_manifest

    with _Job(file, **options) as job:
        manifest = read_manifest(file)
        old = read_lock(job.lock) if job.lock.is_file() else None
        free = [_locked(old, name).pack for name in names] if old is not None else []
        before = {item.pack: item.version for item in old.packs} if old is not None else {}
        lock = lock_anew(job, manifest, old if names else None, free)
    for item in lock.packs:
        if before.get(item.pack) != item.version:
            click.echo(f"{item.pack}: {before.get(item.pack, 'new')} -> {item.version}")
    _summary(lock)


@packs.command("list")
@_FILE
def list_command(file: Path) -> None:
    """Show the packs of packs.lock, and whether they are in the cache."""
    from cmsis_packs.cache import Cache

    lock, cache = _read(file), Cache.of_environment()
    rows = [("pack", "version", "bytes", "licence", "state")]
    for item in lock.packs:
        state = "installed" if cache.folder(item) is not None else "missing"
        rows.append((str(item.pack), item.version, f"{item.size:,}", ", ".join(item.licence) or "-", state))
    for line in aligned(rows, "llrll", 60):
        click.echo(line)


@packs.command("why")
@click.argument("name", metavar="PACK")
@_FILE
def why_command(name: str, file: Path) -> None:
    """Show who asks for PACK (Vendor::Name), up to packs.yaml."""
    from cmsis_packs.names import USER

    lock = _read(file)
    item = _locked(lock, name)
    todo, seen = [(item, 0)], set()
    while todo:
        item, depth = todo.pop()
        click.echo("  " * depth + str(item))
        if item in seen:
            continue
        seen.add(item)
        for text in item.asked_by:
            asker, _, wanted = text.partition(": ")
            click.echo("  " * (depth + 1) + f"{asker} asks for {wanted}")
            if asker != USER:
                todo += [(other, depth + 2) for other in lock.packs if str(other) == asker]


@packs.command("verify")
@_FILE
def verify_command(file: Path) -> None:
    """Compare packs in the cache with the lock: sums of archives, and every extracted file."""
    from cmsis_packs.cache import Cache
    from cmsis_packs.install import verify

    lock = _read(file)
    problems = verify(lock, Cache.of_environment())
    if problems:
        more = f"\n  and {len(problems) - 20} more" if len(problems) > 20 else ""
        raise PackError(
            "packs in the cache are not as the lock says:\n  " + "\n  ".join(problems[:20]) + more,
            hint="delete the folders of these versions, then tvm-stm32 packs install",
        )
    click.echo(f"{len(lock.packs)} packs are as the lock says")


@packs.command("devices")
@click.argument("pattern", default="*")
@_FILE
def devices_command(pattern: str, file: Path) -> None:
    """List devices of the installed packs, those that PATTERN (STM32F4*) fits."""
    from cmsis_packs.installed import devices, installed

    rows = [("device", "core", "memory", "pack")]
    for item, device in devices(installed(_read(file))):
        if fnmatchcase(device.name.casefold(), pattern.casefold()):
            cores = " + ".join(processor.core for processor in device.processors)
            memory = ", ".join(f"{m.name} {m.size // 1024:,}K" for m in device.memories if m.default)
            rows.append((device.name, cores, memory or "-", str(item.locked)))
    if len(rows) == 1:
        raise PackError(f"no device of the installed packs is like '{pattern}'", hint="tvm-stm32 packs list")
    for line in aligned(rows, "llll", 100):
        click.echo(line)


packs.add_command(merged_command)


class _Job:
    """A job with what the user sees of it: a bar on a terminal, else lines; all goes to standard error."""

    def __init__(self, file: Path, jobs: int, time_limit: float, offline: bool) -> None:
        from cmsis_packs.cache import Cache
        from cmsis_packs.install import Job
        from cmsis_packs.web import Limits, Transfer

        self._progress = progress_on_terminal()
        limits = Limits(seconds=time_limit)
        self._job = Job(file, Cache.of_environment(), Transfer(limits, self._progress, offline), jobs)

    def __enter__(self) -> Job:
        return self._job

    def __exit__(self, *_: object) -> None:
        self._progress.close()


def progress_on_terminal() -> Any:
    """A :class:`cmsis_packs.progress.Progress` with click's bar."""
    from cmsis_packs.progress import Progress

    class Bar(Progress):
        def __init__(self) -> None:
            self._lock = threading.Lock()
            self._bar: Any = None
            self._shown = sys.stderr.isatty()

        def say(self, text: str) -> None:
            with self._lock:
                if self._bar is not None:
                    click.echo("\r\033[K", nl=False, err=True)
                click.echo(text, err=True)

        def expect(self, count: int) -> None:
            with self._lock:
                if self._shown and self._bar is None and count > 0:
                    self._bar = click.progressbar(length=0, label="fetching", file=sys.stderr, width=30)
                    self._bar.__enter__()
                if self._bar is not None:
                    self._bar.length += count

        def advance(self, count: int) -> None:
            with self._lock:
                if self._bar is not None:
                    self._bar.update(count)

        def close(self) -> None:
            if self._bar is not None:
                self._bar.__exit__(None, None, None)

    return Bar()


def _from_folder(source: str, folder: Path) -> str:
    """A source given on the command line as packs.yaml in ``folder`` names it."""
    if "://" in source or Path(source).is_absolute():
        return source
    try:
        return Path(os.path.relpath(source, folder)).as_posix()
    except ValueError:  # on another drive
        return str(Path(source).absolute())


def _read(file: Path) -> Lock:
    from cmsis_packs.lock import read_lock

    return read_lock(file.with_suffix(".lock"))


def _locked(lock: Lock, name: str) -> Any:
    from cmsis_packs.names import parse_wish

    item = lock.find(parse_wish(name).pack)
    if item is None:
        names = ", ".join(str(other.pack) for other in lock.packs)
        raise PackError(f"the lock has no pack '{name}'", hint=f"one of: {names}" if names else "packs add")
    return item


def _summary(lock: Lock) -> None:
    click.echo(f"{len(lock.packs)} packs installed: " + ", ".join(map(str, lock.packs)))
