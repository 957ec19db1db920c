"""Archives of packs: zip files of strangers, looked over before the first byte of them is written."""

from __future__ import annotations

import shutil
import stat
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tvm_stm32.errors import PackError, quoted

from .model import Pack
from .names import PackName
from .pdsc import parse_pdsc
from .safe_xml import LARGEST_FILE

_CHUNK = 1 << 20
_FORBIDDEN = frozenset('<>:"|?*')
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", *(f"com{n}" for n in range(1, 10)), *(f"lpt{n}" for n in range(1, 10))}
)
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class UnsoundArchiveError(PackError):
    """An archive that is damaged or that nobody should extract."""


@dataclass(frozen=True)
class ArchiveLimits:
    """What an archive may hold: files, bytes in all, and bytes for each byte of the archive (of large ones)."""

    files: int = 50_000
    size: int = 4 << 30
    ratio: int = 200
    small: int = 64 << 20
    longest_name: int = 200
    longest_path: int = 400


LIMITS = ArchiveLimits()


def read_description(archive: Path) -> Pack:
    """The PDSC file in an archive. Raises :class:`PackError` when there is none, or it is not sound."""
    with _opened(archive, LIMITS) as (bundle, members):
        name = _description(archive, members)
        info = members[name]
        if info.file_size > LARGEST_FILE:
            raise PackError(f"{archive.name}: {name} is too large", why=f"it has more than {LARGEST_FILE:,} bytes")
        return parse_pdsc(bundle.read(info), f"{archive.name}: {name}")


def check_identity(pack: Pack, name: PackName, version: str, place: str) -> None:
    """Raise :class:`PackError` unless a description is that of the pack and version an archive was taken for."""
    if (pack.vendor, pack.name, pack.version) != (name.vendor, name.name, version):
        raise PackError(
            f"{place} is not {name}@{version}",
            why=f"its PDSC file describes {pack}",
            hint="tell the maker of the pack or of the index; another version may be sound",
        )


def extract(archive: Path, folder: Path, limits: ArchiveLimits = LIMITS) -> None:
    """Write all files of a sound archive below ``folder``, which is empty. What fails raises :class:`PackError`."""
    with _opened(archive, limits) as (bundle, members):
        _description(archive, members)
        for name, info in members.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with bundle.open(info) as stream, target.open("xb") as file:
                shutil.copyfileobj(stream, file, _CHUNK)


def differences(archive: Path, folder: Path) -> list[str]:
    """In what a folder is not the archive's content, a text a file; sorted."""
    found = []
    with _opened(archive, LIMITS) as (_, members):
        here = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if not path.is_dir()}
        found += [f"{name} is not in the archive" for name in here.keys() - members.keys()]
        for name, info in members.items():
            path = here.get(name)
            if path is None or path.is_symlink():
                found.append(f"{name} is missing" if path is None else f"{name} is a link")
            elif path.stat().st_size != info.file_size or _crc(path) != info.CRC:
                found.append(f"{name} was changed")
    return sorted(found)


@contextmanager
def _opened(archive: Path, limits: ArchiveLimits) -> Iterator[tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]]:
    """An archive that was looked over, and its files by their path with slashes."""
    try:
        with zipfile.ZipFile(archive) as bundle:
            yield bundle, _members(bundle, archive, limits)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, KeyError) as error:
        raise UnsoundArchiveError(
            f"{archive.name} is no sound pack",
            why=" ".join(str(error).split())[:200] or "the archive is damaged",
            hint="fetch it again; if that does not help, tell its maker",
        ) from error
    except OSError as error:
        place = error.filename or archive
        raise PackError(
            f"cannot read or write '{place}': {error.strerror or error}", hint="check free space"
        ) from error


def _members(bundle: zipfile.ZipFile, archive: Path, limits: ArchiveLimits) -> dict[str, zipfile.ZipInfo]:
    infos = bundle.infolist()
    if len(infos) > limits.files:
        raise _refused(archive, f"it holds {len(infos):,} files, at most {limits.files:,} are taken")
    size = sum(info.file_size for info in infos)
    allowed = min(limits.size, max(limits.small, limits.ratio * archive.stat().st_size))
    if size > allowed:
        raise _refused(archive, f"its files have {size:,} bytes, at most {allowed:,} are taken of an archive so small")
    members: dict[str, zipfile.ZipInfo] = {}
    spellings: dict[str, str] = {}
    for info in infos:
        name = _path(archive, info, limits)
        _check_kind(archive, info)
        parts = name.split("/")
        for depth in range(1, len(parts) + 1):
            prefix = "/".join(parts[:depth])
            folded = unicodedata.normalize("NFC", prefix).casefold()
            if spellings.setdefault(folded, prefix) != prefix:
                raise _refused(
                    archive, f"{quoted(prefix)} and {quoted(spellings[folded])} are one file on Windows and macOS"
                )
        if not info.is_dir() and not info.filename.endswith("\\"):
            if name in members:
                raise _refused(archive, f"{quoted(name)} is in it twice")
            members[name] = info
    for name in members:
        parent, _, _ = name.rpartition("/")
        while parent:
            if parent in members:
                raise _refused(archive, f"{quoted(parent)} is a file and a folder")
            parent, _, _ = parent.rpartition("/")
    return members


def _path(archive: Path, info: zipfile.ZipInfo, limits: ArchiveLimits) -> str:
    """The path of a member, with slashes and none at the end; one that could lead elsewhere raises."""
    text = info.orig_filename.replace("\\", "/").removesuffix("/")
    if len(text.encode("utf-8", "replace")) > limits.longest_path:
        raise _refused(archive, f"the path {quoted(text)} is too long")
    if text.startswith("/"):
        raise _refused(archive, f"the path {quoted(text)} leads out of the pack's folder")
    for part in text.split("/"):
        if part.strip(" .") == "":
            raise _refused(archive, f"the path {quoted(text)} leads out of the pack's folder")
        if not part.isprintable() or _FORBIDDEN & set(part) or part != part.rstrip(" ."):
            raise _refused(archive, f"the name {quoted(part)} cannot exist on every system")
        if part.split(".")[0].casefold().strip() in _DEVICES:
            raise _refused(archive, f"{quoted(part)} is a device on Windows")
        if len(part.encode("utf-8", "replace")) > limits.longest_name:
            raise _refused(archive, f"the name {quoted(part)} is too long")
    return text


def _check_kind(archive: Path, info: zipfile.ZipInfo) -> None:
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise _refused(archive, f"{quoted(info.filename)} is a link or a device, packs have files and folders")
    if info.flag_bits & 1:
        raise _refused(archive, f"{quoted(info.filename)} is encrypted")
    if info.compress_type not in _METHODS:
        raise _refused(archive, f"{quoted(info.filename)} is compressed by method {info.compress_type}, not by deflate")


def _description(archive: Path, members: dict[str, zipfile.ZipInfo]) -> str:
    names = [name for name in members if "/" not in name and name.lower().endswith(".pdsc")]
    if len(names) != 1:
        raise _refused(archive, f"it has {len(names)} PDSC files at its top, a pack has one")
    return names[0]


def _refused(archive: Path, why: str) -> UnsoundArchiveError:
    return UnsoundArchiveError(f"{archive.name} is refused", why=why, hint="nothing of it was written; tell its maker")


def _crc(path: Path) -> int:
    value = 0
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            value = zlib.crc32(chunk, value)
    return value
