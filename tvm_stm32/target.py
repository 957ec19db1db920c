"""What the code generator knows about a CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .errors import TargetError

Fpu = Literal["none", "sp", "dp"]

# CPU -> (DSP extension, MVE, FPU, -mcpu, -mfpu). Source: Arm Cortex-M technical reference manuals, the STM32 line-up's
# usual configuration of each core (an M33 or M55 without DSP/MVE is described by a board file).
_CPUS: dict[str, tuple[bool, bool, Fpu, str, str]] = {
    "cortex-m0": (False, False, "none", "cortex-m0", ""),
    "cortex-m0plus": (False, False, "none", "cortex-m0plus", ""),
    "cortex-m3": (False, False, "none", "cortex-m3", ""),
    "cortex-m4": (True, False, "sp", "cortex-m4", "fpv4-sp-d16"),
    "cortex-m7": (True, False, "dp", "cortex-m7", "fpv5-d16"),
    "cortex-m33": (True, False, "sp", "cortex-m33", "fpv5-sp-d16"),
    "cortex-m55": (True, True, "dp", "cortex-m55", "auto"),
}


@dataclass(frozen=True)
class Target:
    """A CPU and the instruction-set features kernels may use; ``cpu="host"`` is the portable C build."""

    cpu: str
    dsp: bool = False
    mve: bool = False
    fpu: Fpu = "none"

    def __post_init__(self) -> None:
        if self.cpu != "host" and self.cpu not in _CPUS:
            raise TargetError(
                f"unknown CPU '{self.cpu}'",
                hint="one of: host, " + ", ".join(_CPUS),
            )

    @classmethod
    def for_cpu(cls, cpu: str) -> Target:
        """The usual configuration of a core. Raises :class:`TargetError` for an unknown name."""
        if cpu == "host" or cpu not in _CPUS:
            return cls(cpu)
        dsp, mve, fpu, _, _ = _CPUS[cpu]
        return cls(cpu, dsp, mve, fpu)

    @property
    def compile_flags(self) -> list[str]:
        """GCC machine flags (compile and link) of this core."""
        if self.cpu == "host":
            return []
        dsp, mve, fpu, mcpu, mfpu = _CPUS[self.cpu]
        if self.cpu not in ("cortex-m4", "cortex-m7"):  # those always have the DSP extension
            mcpu += "+nomve" if mve and not self.mve else ""
            mcpu += "+nodsp" if dsp and not self.dsp else ""
        flags = [f"-mcpu={mcpu}", "-mthumb"]
        if self.fpu == "none":
            return [*flags, "-mfloat-abi=soft"]
        if fpu == "dp" and self.fpu == "sp" and mfpu == "fpv5-d16":
            mfpu = "fpv5-sp-d16"
        return [*flags, "-mfloat-abi=hard", f"-mfpu={mfpu}"]


def known_cpus() -> list[str]:
    """CPU names accepted by ``--cpu``."""
    return ["host", *_CPUS]
