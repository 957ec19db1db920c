"""Where packs come from: an index on the web, a folder of archives, one archive."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Protocol
from urllib.parse import urljoin

from tvm_stm32.errors import PackError
from tvm_stm32.files import write_atomically

from .archive import read_description
from .cache import Cache
from .download import fetch_bytes
from .manager import fetch_descriptions
from .model import Pack
from .names import PackName, parse_archive_name
from .pdsc import parse_pdsc, read_pdsc
from .safe_xml import LARGEST_FILE, parse_xml
from .values import word
from .versions import version_key
from .web import Transfer

_LARGEST_INDEX = 16 << 20
_LONGEST_FETCH = 120.0


@dataclass(frozen=True)
class Release:
    """A version of a pack and where its archive is: a URL, or a path from the folder of packs.yaml."""

    pack: PackName
    version: str
    place: str

    def __str__(self) -> str:
        return f"{self.pack}@{self.version}"


class Source(Protocol):
    """Something that has packs."""

    def releases(self, pack: PackName) -> list[Release]:
        """The versions of a pack it has, newest first."""

    def names(self) -> Collection[PackName]:
        """All packs it has."""


def open_sources(sources: tuple[str, ...], folder: Path, cache: Cache, transfer: Transfer) -> list[Source]:
    """The sources of a packs.yaml in ``folder``. Nothing is fetched yet."""
    return [
        Index(text, cache, transfer) if text.startswith(("https://", "http://")) else Archives(text, folder)
        for text in sources
    ]


class Archives:
    """A ``.pack`` file, or a folder of them named ``Vendor.Name.Version.pack``."""

    def __init__(self, text: str, folder: Path) -> None:
        self._text = text
        self._folder = folder
        self._known: list[Release] | None = None

    def releases(self, pack: PackName) -> list[Release]:
        """See :class:`Source`."""
        if self._known is None:
            self._known = self._read()
        return newest_first([release for release in self._known if release.pack == pack])

    def names(self) -> Collection[PackName]:
        """See :class:`Source`."""
        return {release.pack for release in self._known or ()}

    def _read(self) -> list[Release]:
        path = self._folder / self._text
        text = self._text.replace("\\", "/")
        if path.is_file():
            found = read_description(path)
            return [Release(PackName(found.vendor, found.name), found.version, text)]
        if not path.is_dir():
            raise PackError(f"sources: there is no '{path}'", hint="a folder of .pack files, a .pack file, or a URL")
        named = [(parse_archive_name(file.name), file.name) for file in sorted(path.iterdir())]
        return [Release(*name, posixpath.join(text, file)) for name, file in named if name is not None]


class Index:
    """An index file (``index.pidx``) on a server; what is fetched stays in the cache for work without a network."""

    def __init__(self, url: str, cache: Cache, transfer: Transfer) -> None:
        self._url = url
        self._transfer = transfer
        self._folder = cache.own("index", sha256(url.encode()).hexdigest()[:16])
        self._entries: Mapping[PackName, tuple[str, str]] | None = None
        self._described: dict[PackName, Pack] = {}
        self._trouble = ""

    def releases(self, pack: PackName) -> list[Release]:
        """See :class:`Source`. Raises :class:`PackError` that says which file of the server is missing or wrong."""
        if self._entries is None:
            self._entries = self._read()
        if pack not in self._entries:
            return []
        if pack not in self._described:
            self._described[pack] = self._description(pack, *self._entries[pack])
        found = self._described[pack]
        base = _folder(found.url or self._entries[pack][0])
        places = {version: found.release_urls.get(version, "") for version in found.versions}
        return newest_first(
            [
                Release(pack, version, place if "://" in place else urljoin(base, pack.file(version, "pack")))
                for version, place in places.items()
            ]
        )

    def names(self) -> Collection[PackName]:
        """See :class:`Source`."""
        return (self._entries or {}).keys()

    def _read(self) -> Mapping[PackName, tuple[str, str]]:
        """The packs of the index: the folder of their PDSC file, and their newest version."""
        what = "the index of packs"
        saved = self._folder / "index.pidx"
        if self._transfer.offline:
            if not saved.is_file():
                raise PackError(f"{what} {self._url} is not in the cache", hint="once without --offline")
            return _entries(saved.read_bytes(), self._url)
        data = fetch_bytes(self._url, what, self._transfer, _LARGEST_INDEX)
        entries = _entries(data, self._url)
        self._folder.mkdir(parents=True, exist_ok=True)
        # What was missing last time as well is on a server that is gone; waiting for it each time helps nobody.
        tried: Mapping[PackName, tuple[str, str]] = {}
        if saved.is_file():
            with suppress(PackError):
                tried = _entries(saved.read_bytes(), self._url)
        new = [(pack, *entry) for pack, entry in entries.items() if tried.get(pack) != entry]
        new = [entry for entry in new if not self._saved(entry[0], entry[2]).is_file()]
        if new:
            self._transfer.progress.say(f"fetching {len(new)} descriptions of {self._url}")
            seconds = min(self._transfer.limits.seconds, _LONGEST_FETCH)
            self._trouble = fetch_descriptions(new, self._folder, seconds)
        write_atomically({saved: data})
        return entries

    def _saved(self, pack: PackName, version: str) -> Path:
        return self._folder / pack.file(version, "pdsc")

    def _description(self, pack: PackName, base: str, version: str) -> Pack:
        """A pack's description, of those that cmsis-pack-manager brought, or fetched by itself where it did not."""
        saved = self._saved(pack, version)
        if saved.is_file():
            try:
                return _checked(read_pdsc(saved), pack, saved.name)
            except PackError:
                # An ended or broken download of it; the server's file may be sound, or tells what is wrong.
                if self._transfer.offline:
                    raise
        if self._trouble:
            self._transfer.progress.say(f"cmsis-pack-manager: {self._trouble}; {pack} is fetched without it")
            self._trouble = ""
        url = urljoin(base, f"{pack.vendor}.{pack.name}.pdsc")
        data = fetch_bytes(url, f"the description of {pack}", self._transfer, LARGEST_FILE)
        found = _checked(parse_pdsc(data, url), pack, url)
        write_atomically({saved: data})
        return found


def newest_first(releases: list[Release]) -> list[Release]:
    """Sorted by version."""
    return sorted(releases, key=lambda release: version_key(release.version), reverse=True)


def _checked(found: Pack, pack: PackName, place: str) -> Pack:
    if (found.vendor, found.name) != (pack.vendor, pack.name):
        raise PackError(f"{place} does not describe {pack}", why=f"it describes {found.vendor}::{found.name}")
    return found


def _entries(data: bytes, url: str) -> Mapping[PackName, tuple[str, str]]:
    root = parse_xml(data, url)
    if root.tag != "index":
        raise root.problem("this is no index of packs", hint="an index such as https://server/folder/index.pidx")
    entries: dict[PackName, tuple[str, str]] = {}
    for element in root.each("pindex", "pdsc"):
        vendor, name, version = (word(element, key) for key in ("vendor", "name", "version"))
        parsed = parse_archive_name(f"{vendor}.{name}.{version}.pack")
        if parsed is None or (parsed[0].vendor, parsed[0].name) != (vendor, name):
            continue  # no name a pack can have; nobody can ask for it
        entries.setdefault(parsed[0], (_folder(word(element, "url")), version))
    if not entries:
        raise root.problem("the index lists no packs")
    return entries


def _folder(url: str) -> str:
    return url if url.endswith("/") else f"{url}/"
