"""Conditions of packs, evaluated for a device, a compiler and a choice of components."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from tvm_stm32.errors import PackError, quoted

from .model import Component, Condition, Device, Filter
from .pdsc_devices import FPU
from .versions import in_range

Security = Literal["TZ-disabled", "Secure", "Non-secure", "Secure-only"]

_DEEPEST = 64
_MOST_REASONS = 8
_COMPONENT = {
    "Cvendor": "vendor",
    "Cbundle": "bundle",
    "Cclass": "class_",
    "Cgroup": "group",
    "Csub": "sub",
    "Cvariant": "variant",
}
_RANGES = {"Cversion": "version", "Capiversion": "api_version"}
_OLD_SECURITY = {"0": "Non-secure", "1": "Secure", "2": "TZ-disabled"}
_YES = {"Dmpu": "MPU", "Dtz": "TZ", "Ddsp": "DSP", "Dpacbti": "PACBTI"}


@dataclass(frozen=True)
class Environment:
    """What conditions ask about besides components: attribute -> value."""

    device: Device
    attributes: Mapping[str, str]

    @classmethod
    def of(
        cls, device: Device, *, processor: str = "", compiler: str = "GCC", security: Security = "TZ-disabled"
    ) -> Environment:
        """The environment of a build for one processor of a device.

        ``security`` says which world of a processor with TrustZone the build is for; it has no meaning for others.
        """
        cpu = device.processor(processor)
        attributes = {
            "Dfamily": device.family,
            "DsubFamily": device.subfamily,
            "Pname": cpu.name,
            "Dcore": cpu.core,
            "Dfpu": cpu.fpu,
            "Dmve": cpu.mve,
            "Dmpu": "MPU" if cpu.mpu else "NO_MPU",
            "Dtz": "TZ" if cpu.trustzone else "NO_TZ",
            "Ddsp": "DSP" if cpu.dsp else "NO_DSP",
            "Dpacbti": "PACBTI" if cpu.pacbti else "NO_PACBTI",
            "Dendian": "Big-endian" if cpu.big_endian else "Little-endian",
            "Tcompiler": compiler,
        }
        if cpu.trustzone:
            attributes["Dsecure"] = security
        return cls(device, attributes)

    def matches(self, name: str, wanted: str) -> bool:
        """Whether an attribute of a filter (not one of components) holds."""
        if name == "Dname":
            return fnmatchcase(self.device.name, wanted) or fnmatchcase(self.device.base, wanted)
        if name == "Dvariant":
            return fnmatchcase(self.device.name, wanted)
        if name == "Dvendor":
            return self._is_vendor(wanted)
        if name not in self.attributes:
            return False
        mine = self.attributes[name]
        if name == "Dfpu":
            if wanted in ("FPU", "1"):  # of any precision
                return mine != "NO_FPU"
            wanted = FPU.get(wanted, wanted)
        elif name == "Dsecure":
            wanted = _OLD_SECURITY.get(wanted, wanted)
        elif name in _YES and wanted in ("0", "1"):
            wanted = ("NO_" if wanted == "0" else "") + _YES[name]
        return fnmatchcase(mine, wanted)

    def _is_vendor(self, wanted: str) -> bool:
        name, _, number = wanted.partition(":")
        if self.device.vendor_id and re.fullmatch("[0-9]{1,9}", number):
            return self.device.vendor_id == int(number)
        return fnmatchcase(self.device.vendor, name)


class Evaluator:
    """Evaluates the conditions of one pack.

    ``selected`` are all components of the build; with None every wish for a component counts as fulfilled, which tells
    what depends on the device alone.
    """

    def __init__(
        self, conditions: Mapping[str, Condition], environment: Environment, selected: Sequence[Component] | None
    ) -> None:
        self._conditions = conditions
        self._environment = environment
        self._selected = selected
        self._known: dict[tuple[str, bool], tuple[str, ...]] = {}
        self._open: list[str] = []
        # Attributes of components that were looked for and not found.
        self.wishes: list[list[tuple[str, str]]] = []

    def unmet(self, name: str) -> tuple[str, ...]:
        """Why a condition does not hold, a line a reason; empty when it does, and for the condition "".

        Raises :class:`PackError` for a condition the pack does not have, and for one that depends on itself.
        """
        return self._unmet(name, True) if name else ()

    def _unmet(self, name: str, wish: bool) -> tuple[str, ...]:
        if (name, wish) in self._known:
            return self._known[name, wish]
        if name not in self._conditions:
            raise PackError(f"condition {quoted(name)} is not in the pack")
        if name in self._open or len(self._open) >= _DEEPEST:
            how = "depends on itself" if name in self._open else f"nests deeper than {_DEEPEST}"
            raise PackError(f"condition {quoted(name)} {how}", why=" -> ".join(map(quoted, self._open[-8:])))
        self._open.append(name)
        reasons = self._reasons(self._conditions[name], wish)
        self._open.pop()
        self._known[name, wish] = reasons
        return reasons

    def _reasons(self, condition: Condition, wish: bool) -> tuple[str, ...]:
        where = f"condition {quoted(condition.name)}: "
        reasons: list[str] = []
        accepts = [item for item in condition.filters if item.rule == "accept"]
        for item in condition.filters:
            if item.rule == "require":
                reasons += self._fails(item, where, wish)
            elif item.rule == "deny" and not self._fails(item, where, not wish):
                reasons.append(where + str(item))
        if accepts and all(self._fails(item, where, wish) for item in accepts):
            more = f"; and {len(accepts) - 6} more" if len(accepts) > 6 else ""
            reasons.append(f"{where}none of: " + "; ".join(map(str, accepts[:6])) + more)
        return tuple(reasons[:_MOST_REASONS])

    def _fails(self, item: Filter, where: str, wish: bool) -> tuple[str, ...]:
        """What of a filter does not hold: the filter itself, or the reasons of the condition it names."""
        component = [(name, value) for name, value in item.attributes if name in _COMPONENT or name in _RANGES]
        others = [pair for pair in item.attributes if pair not in component]
        if not all(self._environment.matches(name, value) for name, value in others):
            return (where + str(item),)
        if component and not self._has(component, wish):
            if wish:
                self.wishes.append(component)
            return (f"{where}{item}, and no such component is chosen",)
        return self._unmet(item.condition, wish) if item.condition else ()

    def _has(self, attributes: list[tuple[str, str]], wish: bool) -> bool:
        if self._selected is None:
            return wish
        return any(component_matches(component, attributes) for component in self._selected)


def component_matches(component: Component, attributes: Sequence[tuple[str, str]]) -> bool:
    """Whether a component has all the attributes of a filter; those not given do not matter."""
    for name, wanted in attributes:
        if name in _RANGES:
            if not in_range(getattr(component, _RANGES[name]), wanted):
                return False
        elif name in _COMPONENT and not fnmatchcase(getattr(component, _COMPONENT[name]), wanted):
            return False
    return True
