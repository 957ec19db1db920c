"""The cycle model of each core."""

from __future__ import annotations

from ...errors import FirmwareError
from .cortex_m0plus import CortexM0Plus
from .cortex_m4 import CortexM3, CortexM4
from .cortex_m7 import CortexM7
from .cortex_m33 import CortexM33
from .cortex_m55 import CortexM55
from .pipeline import Pipeline

_CORES: dict[str, type[Pipeline]] = {
    "cortex-m0plus": CortexM0Plus,
    "cortex-m3": CortexM3,
    "cortex-m4": CortexM4,
    "cortex-m7": CortexM7,
    "cortex-m33": CortexM33,
    "cortex-m55": CortexM55,
}


def has_model(cpu: str) -> bool:
    """Whether there is a cycle model of that core."""
    return cpu in _CORES


def pipeline_of(cpu: str) -> Pipeline:
    """An empty pipeline of that core. Raises :class:`FirmwareError` when there is no model of it."""
    if cpu not in _CORES:
        raise FirmwareError(f"there is no cycle model of {cpu}", hint="one of: " + ", ".join(_CORES))
    return _CORES[cpu]()
