"""How packs are named: ``Vendor::Name``, with a version, or with a range of versions somebody asks for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tvm_stm32.errors import PackError, quoted

from .model import Requirement
from .versions import in_range, satisfies

_PART = "[A-Za-z0-9_][A-Za-z0-9_-]{0,99}"
_VERSION = "[0-9][0-9A-Za-z.+_-]{0,99}"
_WISH = re.compile(rf"({_PART})::({_PART})(?:@((?:>=|\^|~)?{_VERSION}))?")
_ARCHIVE = re.compile(rf"({_PART})\.({_PART})\.({_VERSION})\.pack")
_EXACT = re.compile(rf"({_PART})::({_PART})@({_VERSION})")
USER = "packs.yaml"
"""Who asked, when it was the user."""


@dataclass(frozen=True, order=True)
class PackName:
    """A pack of any version."""

    vendor: str
    name: str

    def __str__(self) -> str:
        return f"{self.vendor}::{self.name}"

    def file(self, version: str, extension: str) -> str:
        """The name of a version's archive (pack) or description (pdsc)."""
        return f"{self.vendor}.{self.name}.{version}.{extension}"


@dataclass(frozen=True)
class Wish:
    """A pack that ``asker`` wants: ``wanted`` is "", ``1.2.3``, ``>=1.2.3``, ``^1.2.3``, ``~1.2.3`` or ``low:high``."""

    pack: PackName
    wanted: str = ""
    asker: str = USER

    def allows(self, version: str) -> bool:
        """Whether this version will do."""
        if ":" in self.wanted:
            return in_range(version, self.wanted)
        return not self.wanted or satisfies(version, self.wanted)

    def __str__(self) -> str:
        """As users write it."""
        return f"{self.pack}@{self.wanted}" if self.wanted else str(self.pack)

    @property
    def request(self) -> str:
        """Who wants what, for messages and the lock file."""
        return f"{self.asker}: {self}"


def parse_wish(text: str) -> Wish:
    """What a user asks for: ``Vendor::Name``, with ``@1.2.3``, ``@>=1.2.3``, ``@^1.2.3`` or ``@~1.2.3``."""
    found = _WISH.fullmatch(text.strip())
    if found is None:
        raise PackError(
            f"{quoted(text)} names no pack", hint="such as ARM::CMSIS, ARM::CMSIS@6.1.0 or Keil::STM32F4xx_DFP@^3.0"
        )
    return Wish(PackName(found[1], found[2]), found[3] or "")


def required_by(requirement: Requirement, asker: str) -> Wish:
    """What a pack's PDSC file asks for; there a version alone is the least."""
    versions = requirement.versions
    wanted = versions if not versions or ":" in versions else f">={versions}"
    return Wish(PackName(requirement.vendor, requirement.name), wanted, asker)


def parse_exact(text: str) -> tuple[PackName, str]:
    """The pack and the version of ``Vendor::Name@1.2.3``."""
    found = _EXACT.fullmatch(text)
    if found is None:
        raise PackError(f"{quoted(text)} names no version of a pack", hint="such as ARM::CMSIS@6.1.0")
    return PackName(found[1], found[2]), found[3]


def parse_archive_name(file: str) -> tuple[PackName, str] | None:
    """The pack and the version of ``Vendor.Name.1.2.3.pack``; None for files of other names."""
    found = _ARCHIVE.fullmatch(file)
    return (PackName(found[1], found[2]), found[3]) if found else None
