"""PDSC files (Open-CMSIS-Pack descriptions in XML, schema 1.2 to 1.7) become a :class:`~cmsis_packs.model.Pack`.

What is wrong in one raises :class:`~tvm_stm32.errors.PackError` with file, line and element. Elements the schema may
grow are passed over; boards, examples, generators and debug sequences are not read.
"""

from __future__ import annotations

import re
from pathlib import Path

from tvm_stm32.errors import quoted

from .model import Pack
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
    return Pack(
        vendor=vendor,
        name=_name(root, "name"),
        versions=_versions(root),
        url=_text(root, "url"),
        licences=_licences(root),
        devices=read_devices(root),
        components=read_components(root, vendor),
        conditions=read_conditions(root),
        apis=read_apis(root, vendor),
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


def _versions(root: Element) -> tuple[str, ...]:
    versions = []
    for release in root.each("releases", "release"):
        version = word(release, "version", required=True)
        if not _VERSION.fullmatch(version):
            raise release.problem(f"version {quoted(version)} is none", hint="such as 1.2.3")
        versions.append(version)
    if not versions:
        raise root.problem("the pack has no <release>")
    return tuple(versions)


def _licences(root: Element) -> tuple[str, ...]:
    paths = [(element, element.text) for element in root.each("license")]
    paths += [(element, word(element, "name")) for element in root.each("licenseSets", "licenseSet", "license")]
    # Some name a page on the web.
    found = [inside_pack(element, "name", text) for element, text in paths if text and "://" not in text]
    return tuple(dict.fromkeys(found))
