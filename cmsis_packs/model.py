"""What a pack describes, as frozen values: devices with everything they inherit, components, conditions."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import Literal

from tvm_stm32.errors import PackError, quoted

Rule = Literal["require", "accept", "deny"]


@dataclass(frozen=True)
class Memory:
    """An address range: ``origin`` and ``size`` in bytes.

    ``access`` are letters: r, w, x, p (peripheral), s (secure), n (non-secure), c (non-secure callable). ``processor``
    is "" when all may use it, ``alias`` the name of another memory that is the same one. ``default`` memories are for
    general use, ``startup`` ones hold the vectors, ``uninit`` ones keep their content at a reset.
    """

    name: str
    origin: int
    size: int
    access: str
    default: bool = False
    startup: bool = False
    uninit: bool = False
    processor: str = ""
    alias: str = ""

    @property
    def end(self) -> int:
        """The address after the last byte."""
        return self.origin + self.size

    @property
    def secure(self) -> bool:
        """Whether only secure code may use it."""
        return "s" in self.access or "c" in self.access

    @property
    def non_secure(self) -> bool:
        """Whether it is an address of the non-secure world."""
        return "n" in self.access


@dataclass(frozen=True)
class Algorithm:
    """A program for a flash memory: ``path`` in the pack, the range it writes, and the RAM it needs (0: not said)."""

    path: str
    origin: int
    size: int
    ram_origin: int = 0
    ram_size: int = 0
    default: bool = False
    style: str = "Keil"
    processor: str = ""


@dataclass(frozen=True)
class Feature:
    """A feature such as ``Timer``; what the texts ``n`` and ``m`` say depends on ``kind``."""

    kind: str
    n: str = ""
    m: str = ""
    name: str = ""
    processor: str = ""


@dataclass(frozen=True)
class Processor:
    """A processor of a device, with what the compiler and the debugger need for it.

    ``name`` is "" where a device has one only. ``fpu`` is NO_FPU, SP_FPU or DP_FPU, ``mve`` NO_MVE, MVE or FP_MVE;
    ``clock_hz`` is the highest clock (0: not said). ``header`` and ``svd`` are paths in the pack.
    """

    name: str
    core: str
    core_revision: str = ""
    fpu: str = "NO_FPU"
    mpu: bool = False
    trustzone: bool = False
    dsp: bool = False
    mve: str = "NO_MVE"
    pacbti: bool = False
    big_endian: bool = False
    clock_hz: int = 0
    units: int = 1
    header: str = ""
    defines: tuple[str, ...] = ()
    svd: str = ""


@dataclass(frozen=True)
class Device:
    """A device, or a variant of one: then ``base`` is the name of the device. ``vendor_id`` is 0 when not said."""

    name: str
    base: str
    vendor: str
    vendor_id: int
    family: str
    subfamily: str
    processors: tuple[Processor, ...]
    memories: tuple[Memory, ...] = ()
    algorithms: tuple[Algorithm, ...] = ()
    features: tuple[Feature, ...] = ()

    @property
    def header(self) -> str:
        """The device header of the first processor."""
        return self.processors[0].header

    @property
    def defines(self) -> tuple[str, ...]:
        """Macros of the first processor."""
        return self.processors[0].defines

    @property
    def svd(self) -> str:
        """The register description of the first processor."""
        return self.processors[0].svd

    def processor(self, name: str = "") -> Processor:
        """The processor of that name, or the only one. Raises :class:`PackError` when there is no such or a choice."""
        if not name and len(self.processors) == 1:
            return self.processors[0]
        for processor in self.processors:
            if name and processor.name == name:
                return processor
        what = f"has no processor {quoted(name)}" if name else "has several processors"
        raise PackError(
            f"device {quoted(self.name)} {what}",
            hint="one of: " + ", ".join(processor.name or processor.core for processor in self.processors),
        )

    def memories_of(self, processor: str) -> tuple[Memory, ...]:
        """Memories a processor may use."""
        return tuple(memory for memory in self.memories if memory.processor in ("", processor))


@dataclass(frozen=True)
class Filter:
    """A line of a condition: all of ``attributes`` (and the condition named, unless "") must hold for it to hold."""

    rule: Rule
    attributes: tuple[tuple[str, str], ...]
    condition: str = ""

    def __str__(self) -> str:
        attributes = [*self.attributes, *([("condition", self.condition)] if self.condition else [])]
        return " ".join([self.rule, *(f"{name}={quoted(value)}" for name, value in attributes)])


@dataclass(frozen=True)
class Condition:
    """Holds when all ``require``, at least one ``accept`` (if there are any) and no ``deny`` hold."""

    name: str
    filters: tuple[Filter, ...] = ()


@dataclass(frozen=True)
class File:
    """A file or folder (category ``include``) of a component. ``attr`` is "", config, template, copy or interface."""

    path: str
    category: str
    attr: str = ""
    condition: str = ""
    version: str = ""
    select: str = ""
    language: str = ""
    scope: str = ""
    include_folder: str = ""


@dataclass(frozen=True)
class Component:
    """A component as a condition or a user names it; ``rte_components_h`` is text for RTE_Components.h."""

    vendor: str
    class_: str
    group: str
    sub: str = ""
    variant: str = ""
    bundle: str = ""
    version: str = ""
    api_version: str = ""
    condition: str = ""
    is_default_variant: bool = False
    rte_components_h: str = ""
    files: tuple[File, ...] = ()

    @property
    def identity(self) -> tuple[str, ...]:
        """What two versions of a component have in common."""
        return (self.vendor, self.class_, self.bundle, self.group, self.sub, self.variant)

    def __str__(self) -> str:
        """``Vendor::Class&Bundle:Group:Sub&Variant@version``, as CMSIS-Toolbox writes it."""
        bundle = f"&{self.bundle}" if self.bundle else ""
        sub = f":{self.sub}" if self.sub else ""
        variant = f"&{self.variant}" if self.variant else ""
        version = f"@{self.version}" if self.version else ""
        return f"{self.vendor}::{self.class_}{bundle}:{self.group}{sub}{variant}{version}"


@dataclass(frozen=True)
class Requirement:
    """Another pack that a pack needs; ``versions`` is a range as in conditions ("": any)."""

    vendor: str
    name: str
    versions: str = ""


@dataclass(frozen=True)
class Pack:
    """A pack: who made it, its releases (newest first, as the file has them), and what is in it.

    ``url`` is the folder its archives are in, ``release_urls`` are archives that lie elsewhere, by version. ``spdx``
    are names of its licences, ``licences`` files with their texts. ``apis`` are interfaces that components of their
    class and group implement; their version is the interface's.
    """

    vendor: str
    name: str
    versions: tuple[str, ...]
    url: str = ""
    licences: tuple[str, ...] = ()
    devices: tuple[Device, ...] = ()
    components: tuple[Component, ...] = ()
    conditions: dict[str, Condition] = field(default_factory=dict, hash=False)
    apis: tuple[Component, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    release_urls: dict[str, str] = field(default_factory=dict, hash=False)
    spdx: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """The release the file describes."""
        return self.versions[0]

    def __str__(self) -> str:
        return f"{self.vendor}::{self.name}@{self.version}"

    def device(self, name: str) -> Device:
        """The device or variant of that name, in any case. Raises :class:`PackError` naming similar ones."""
        for device in self.devices:
            if device.name.casefold() == name.casefold():
                return device
        close = difflib.get_close_matches(name[:100].upper(), [device.name for device in self.devices], n=5, cutoff=0.5)
        raise PackError(f"{self} has no device {quoted(name)}", hint="one of: " + ", ".join(close) if close else "")
