"""Families of a PDSC file become devices: a level inherits from the one above and overrides it attribute by attribute.

Properties with the same key (a memory's name, a processor's Pname) are one property. A property without Pname holds
for all processors.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain

from tvm_stm32.errors import quoted

from .model import Algorithm, Device, Feature, Memory, Processor
from .safe_xml import Element
from .values import choice, flag, number, pack_path, word

# A device inherits all of its family: files that multiply many devices with many properties are refused.
_MOST_PROPERTIES = 1_000_000
_HIGHEST_CLOCK = 100_000_000_000
_MOST_UNITS = 256

FPU = {"NO_FPU": "NO_FPU", "FPU": "SP_FPU", "SP_FPU": "SP_FPU", "DP_FPU": "DP_FPU"} | {
    "0": "NO_FPU",
    "1": "SP_FPU",
    "2": "DP_FPU",
}
MVE = {"NO_MVE": "NO_MVE", "MVE": "MVE", "FP_MVE": "FP_MVE", "0": "NO_MVE", "1": "MVE"}
# Cores whose DSP extension is no option.
DSP_CORES = frozenset({"Cortex-M4", "Cortex-M7", "Cortex-M52", "Cortex-M55", "Cortex-M85"})
_ENDIAN = {"Little-endian": "", "Configurable": "", "Big-endian": "big"}
_ACCESS = re.compile(r"[rwxpsnc]{1,16}")
_DEFINE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(=[A-Za-z0-9_.+-]*)?")
_VENDOR = re.compile(r"([^:]+)(?::([0-9]{1,9}))?")

_Key = tuple[str, ...]
_Properties = dict[str, dict[_Key, Element]]


@dataclass(frozen=True)
class _Level:
    """What holds at a level of a family: its names and its properties, merged with those above."""

    vendor: str
    vendor_id: int
    family: str
    subfamily: str
    properties: _Properties


class _Budget:
    """Counts the properties of all levels and devices of a file."""

    def __init__(self) -> None:
        self._left = _MOST_PROPERTIES

    def take(self, element: Element, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise element.problem(f"the devices of this pack inherit more than {_MOST_PROPERTIES:,} properties")


def read_devices(root: Element) -> tuple[Device, ...]:
    """All devices of a <package>, those with variants and the variants. Two of one name raise."""
    devices: dict[str, Device] = {}
    budget = _Budget()
    for family in root.each("devices", "family"):
        vendor, vendor_id = _vendor(family)
        level = _Level(vendor, vendor_id, word(family, "Dfamily", required=True), "", {})
        for element, here in _descend(family, level, budget):
            name = word(element, "Dvariant" if element.tag == "variant" else "Dname", required=True)
            if name in devices:
                raise element.problem("a second device of this name")
            base = here.properties[""][()].attributes["Dname"].strip()
            devices[name] = _device(element, name, base, here)
    return tuple(devices.values())


def _descend(element: Element, above: _Level, budget: _Budget) -> chain[tuple[Element, _Level]]:
    """Devices and variants from ``element`` down, each with the level it is at."""
    properties = _merged(element, above.properties)
    subfamily = word(element, "DsubFamily", required=True) if element.tag == "subFamily" else above.subfamily
    if element.tag == "device":
        word(element, "Dname", required=True)
        properties[""] = {(): element}
    budget.take(element, 1 + sum(len(items) for items in properties.values()))
    level = _Level(above.vendor, above.vendor_id, above.family, subfamily, properties)
    here = [(element, level)] if element.tag in ("device", "variant") else []
    below = {"family": ("subFamily", "device"), "subFamily": ("device",), "device": ("variant",)}.get(element.tag, ())
    return chain(here, *(_descend(child, level, budget) for child in element.children if child.tag in below))


def _merged(element: Element, above: _Properties) -> _Properties:
    properties = {kind: dict(items) for kind, items in above.items()}
    for child in element.children:
        key = _key(child)
        if key is not None:
            items = properties.setdefault(child.tag, {})
            items[key] = child.over(items[key]) if key in items else child
    return properties


def _key(element: Element) -> _Key | None:
    """What makes two properties the same one; None for elements that are none."""
    processor = word(element, "Pname")
    match element.tag:
        case "processor" | "compile" | "debug":
            return (processor,)
        case "memory":
            return (processor, word(element, "name") or word(element, "id", required=True))
        case "algorithm":
            return (processor, word(element, "name", required=True), word(element, "start"))
        case "feature":
            return (str(id(element)),)  # a device has several timers of one type
    return None


def _device(element: Element, name: str, base: str, level: _Level) -> Device:
    def items(kind: str) -> list[Element]:
        return list(level.properties.get(kind, {}).values())

    return Device(
        name=name,
        base=base,
        vendor=level.vendor,
        vendor_id=level.vendor_id,
        family=level.family,
        subfamily=level.subfamily,
        processors=_processors(element, level.properties),
        memories=tuple(_memory(item) for item in items("memory")),
        algorithms=tuple(_algorithm(item) for item in items("algorithm")),
        features=tuple(_feature(item) for item in items("feature")),
    )


def _vendor(family: Element) -> tuple[str, int]:
    text = word(family, "Dvendor", required=True)
    found = _VENDOR.fullmatch(text)
    if found is None:
        raise family.problem(f"Dvendor={quoted(text)} is no vendor", hint="such as STMicroelectronics:13")
    return found[1].strip(), int(found[2] or 0)


def _processors(element: Element, properties: _Properties) -> tuple[Processor, ...]:
    """Processors by Pname; one without a name says what those with names have in common."""
    found = {key[0]: item for key, item in properties.get("processor", {}).items()}
    common = found.get("")
    named = {name: item.over(common) if common else item for name, item in found.items() if name}
    if not found:
        raise element.problem("the device has no <processor>")
    return tuple(_processor(item, name, properties) for name, item in (named or found).items())


def _processor(element: Element, name: str, properties: _Properties) -> Processor:
    core = word(element, "Dcore", required=True)
    compiles = [properties.get("compile", {}).get((key,)) for key in dict.fromkeys((name, ""))]
    debugs = [properties.get("debug", {}).get((key,)) for key in dict.fromkeys((name, ""))]
    header = next((pack_path(item, "header") for item in compiles if item and word(item, "header")), "")
    defines: list[str] = []
    for attribute in ("define", "Pdefine"):
        defines += next((_defines(item, attribute) for item in compiles if item and word(item, attribute)), [])
    return Processor(
        name=name,
        core=core,
        core_revision=word(element, "DcoreVersion"),
        fpu=choice(element, "Dfpu", FPU, "NO_FPU"),
        mpu=_has(element, "Dmpu", "MPU"),
        trustzone=_has(element, "Dtz", "TZ"),
        dsp=_has(element, "Ddsp", "DSP") or core in DSP_CORES,
        mve=choice(element, "Dmve", MVE, "NO_MVE"),
        pacbti=_has(element, "Dpacbti", "PACBTI"),
        big_endian=bool(choice(element, "Dendian", _ENDIAN, "")),
        clock_hz=number(element, "Dclock", 0, below=_HIGHEST_CLOCK),
        units=number(element, "Punits", 1, below=_MOST_UNITS),
        header=header,
        defines=tuple(dict.fromkeys(defines)),
        svd=next((pack_path(item, "svd") for item in debugs if item and word(item, "svd")), ""),
    )


def _has(element: Element, name: str, what: str) -> bool:
    return bool(choice(element, name, {f"NO_{what}": "", what: "yes", "0": "", "1": "yes"}, ""))


def _defines(element: Element, attribute: str) -> list[str]:
    names = re.split(r"[\s,;]+", word(element, attribute))
    for name in names:
        if not _DEFINE.fullmatch(name):
            raise element.problem(f"{attribute} names the macro {quoted(name)}", why="that is no C macro")
    return names


def _memory(element: Element) -> Memory:
    name = word(element, "name") or word(element, "id")
    access = word(element, "access") or _access_by_name(word(element, "id"))
    if not _ACCESS.fullmatch(access):
        raise element.problem(f"access={quoted(access)} is unknown", hint="letters out of r, w, x, p, s, n, c")
    memory = Memory(
        name=name,
        origin=number(element, "start"),
        size=number(element, "size"),
        access="".join(dict.fromkeys(access)),
        default=flag(element, "default"),
        startup=flag(element, "startup"),
        uninit=flag(element, "uninit") or flag(element, "init"),
        processor=word(element, "Pname"),
        alias=word(element, "alias"),
    )
    if memory.end > 1 << 64:
        raise element.problem("the memory ends beyond the 64-bit address space")
    return memory


def _access_by_name(identifier: str) -> str:
    """The access of IROM1, IRAM2 ...: the ids of packs older than the access attribute."""
    if "ROM" in identifier:
        return "rx"
    return "rwx" if "RAM" in identifier else "r"


def _algorithm(element: Element) -> Algorithm:
    return Algorithm(
        path=pack_path(element, "name", required=True),
        origin=number(element, "start", 0),
        size=number(element, "size", 0),
        ram_origin=number(element, "RAMstart", 0),
        ram_size=number(element, "RAMsize", 0),
        default=flag(element, "default"),
        style=word(element, "style") or "Keil",
        processor=word(element, "Pname"),
    )


def _feature(element: Element) -> Feature:
    return Feature(
        kind=word(element, "type", required=True),
        n=word(element, "n"),
        m=word(element, "m"),
        name=word(element, "name"),
        processor=word(element, "Pname"),
    )
