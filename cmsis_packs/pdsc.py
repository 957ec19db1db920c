"""PDSC files (Open-CMSIS-Pack descriptions in XML, schema 1.2 to 1.7) become a :class:`~cmsis_packs.model.Pack`.

What is wrong in one raises :class:`~tvm_stm32.errors.PackError` with file, line and element. Elements the schema may
grow are passed over; boards, examples, generators and debug sequences are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tvm_stm32.errors import quoted

from .model import Pack, Requirement
from .pdsc_components import read_apis, read_components, read_conditions
from .pdsc_devices import read_devices
from .safe_xml import Element, parse_xml, read_bytes
from .values import checked, inside_pack, word

_SKIPPED = frozenset(
    {
        "boards",
        "examples",
        "csolution",
        "generators",
        "taxonomy",
        "keywords",
        "repository",
        "debugvars",
        "sequences",
        "trace",
        "flashinfo",
    }
)
_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
# A version is a folder's name in the cache.
_VERSION = re.compile(r"[0-9][0-9A-Za-z.+_-]{0,99}")
_RANGE = re.compile(rf"(?:{_VERSION.pattern})?(?::{_VERSION.pattern})?")


def read_pdsc(path: str | Path) -> Pack:
    """The pack a PDSC file describes."""
    path = Path(path)
    return parse_pdsc(read_bytes(path), path.name)


def parse_pdsc(data: bytes, file: str) -> Pack:
    """The pack that the content of a PDSC file describes; messages call it ``file``."""
    root = parse_xml(data, file, _SKIPPED)
    if root.tag != "package":
        raise root.problem("this is no pack description", hint="its root element must be <package>")
    vendor = _name(root, "vendor")
    releases = _releases(root)
    return Pack(
        vendor=vendor,
        name=_name(root, "name"),
        versions=tuple(version for version, _ in releases),
        url=_text(root, "url"),
        licences=_licences(root),
        devices=read_devices(root),
        components=read_components(root, vendor),
        conditions=read_conditions(root),
        apis=read_apis(root, vendor),
        requirements=tuple(_requirements(root)),
        release_urls={version: url for version, url in releases if url},
        spdx=_spdx(root),
    )


def _text(root: Element, tag: str) -> str:
    element = next(root.each(tag), None)
    return checked(element, tag, element.text) if element is not None else ""


def _name(root: Element, tag: str) -> str:
    name = _text(root, tag)
    if not _NAME.fullmatch(name):
        raise next(root.each(tag), root).problem(
            f"{tag} is {quoted(name)}" if name else f"<{tag}> is missing or empty",
            why="the vendor and the name of a pack are made of letters, digits, - and _",
        )
    return name


def _releases(root: Element) -> list[tuple[str, str]]:
    """Versions, and where their archives are when not in the pack's usual place."""
    releases = []
    for release in root.each("releases", "release"):
        version = word(release, "version", required=True)
        if not _VERSION.fullmatch(version):
            raise release.problem(f"version {quoted(version)} is none", hint="such as 1.2.3")
        releases.append((version, word(release, "url")))
    if not releases:
        raise root.problem("the pack has no <release>")
    return releases


def _requirements(root: Element) -> Iterator[Requirement]:
    for element in root.each("requirements", "packages", "package"):
        vendor, name = word(element, "vendor", required=True), word(element, "name", required=True)
        versions = word(element, "version")
        if not _NAME.fullmatch(vendor) or not _NAME.fullmatch(name):
            raise element.problem(f"{quoted(f'{vendor}::{name}')} is no name of a pack")
        if versions and not _RANGE.fullmatch(versions):
            raise element.problem(f"version={quoted(versions)} is no range", hint="such as 1.2.3 or 1.2.3:1.9.9")
        yield Requirement(vendor, name, versions)


def _licences(root: Element) -> tuple[str, ...]:
    paths = [(element, element.text) for element in root.each("license")]
    paths += [(element, word(element, "name")) for element in root.each("licenseSets", "licenseSet", "license")]
    # Some name a page on the web.
    found = [inside_pack(element, "name", text) for element, text in paths if text and "://" not in text]
    return tuple(dict.fromkeys(found))


def _spdx(root: Element) -> tuple[str, ...]:
    names = (word(element, "spdx") for element in root.each("licenseSets", "licenseSet", "license"))
    return tuple(dict.fromkeys(name for name in names if name))
