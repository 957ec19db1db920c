"""QEMU machines that stand in for boards QEMU does not have: one for each core.

A board's memories are laid out in the machine's, each with its own size, so that an image that runs in the emulator
fits the chip. Source: QEMU's documentation of the Arm MPS2 and MPS3 boards, and ``info mtree`` of QEMU 7.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .errors import TargetError

_Region = tuple[int, int]
_GAP = 32
_M = 1 << 20


@dataclass(frozen=True)
class Machine:
    """``code`` and ``ram`` are regions (address, bytes), the first of ``code`` where the core reads its vectors.

    ``clock_hz`` is SysTick's clock, ``icount_shift`` the ``-icount`` shift of :class:`~tvm_stm32.boards.Emulator`.
    """

    core: str
    clock_hz: int
    icount_shift: int
    code: tuple[_Region, ...]
    ram: tuple[_Region, ...]


MACHINES = {
    "mps2-an385": Machine("Cortex-M3", 25_000_000, 6, ((0, 4 * _M),), ((0x20000000, 4 * _M), (0x21000000, 16 * _M))),
    "mps2-an386": Machine("Cortex-M4", 25_000_000, 6, ((0, 4 * _M),), ((0x20000000, 4 * _M), (0x21000000, 16 * _M))),
    "mps2-an500": Machine("Cortex-M7", 25_000_000, 6, ((0, 4 * _M),), ((0x20000000, 4 * _M), (0x60000000, 16 * _M))),
    "mps2-an505": Machine(
        "Cortex-M33", 20_000_000, 6, ((0x10000000, 4 * _M),), ((0x38000000, 4 * _M), (0x80000000, 16 * _M))
    ),
    "mps3-an547": Machine(
        "Cortex-M55",
        32_000_000,
        6,
        ((0, _M // 2), (0x01000000, 2 * _M)),
        ((0x21000000, 4 * _M), (0x20000000, _M // 2)),
    ),
}
"""Machines by QEMU's name."""


def place(machine: str, blocks: Sequence[tuple[str, int, bool]]) -> dict[str, int]:
    """Addresses of ``blocks`` (name, bytes, whether code rather than data) in the machine's memories, first fit.

    Raises :class:`TargetError` for an unknown machine, or a block that fits nowhere.
    """
    if machine not in MACHINES:
        raise TargetError(f"no machine '{machine}' stands in for boards", hint="one of: " + ", ".join(MACHINES))
    room = {True: [*MACHINES[machine].code], False: [*MACHINES[machine].ram]}
    places: dict[str, int] = {}
    for name, size, code in blocks:
        for index, (start, free) in enumerate(room[code]):
            if size <= free:
                places[name] = start
                taken = -(-size // _GAP) * _GAP
                room[code][index] = (start + taken, max(free - taken, 0))
                break
        else:
            raise TargetError(f"memory '{name}' ({size:,} bytes) does not fit {machine}")
    return places
