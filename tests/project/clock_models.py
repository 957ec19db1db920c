"""Registers of STM32 chips as their reference manuals describe them: what a start-up's writes make of the clocks.

Written apart from the start-up, and compared with ST's CMSIS headers: bits and dividers are decoded here from the
registers alone.
Ready bits follow what they wait for, unless they are held back.
"""

# ruff: noqa: RUF012 - the models' tables are never changed
from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from dataclasses import dataclass, field

MHZ = 1_000_000

Bit = tuple[int, int]


@dataclass
class Registers:
    """A register file with ready bits: ``follow`` maps a ready bit to the bit it follows, ``switch`` is the
    register, width and distance of SW and SWS, ``fields`` are the places of SW, ``twins`` are two places of one bit."""

    follow: dict[Bit, Bit]
    switch: tuple[int, int, int]
    reset: dict[int, int] = field(default_factory=dict)
    stuck: set[Bit] = field(default_factory=set)
    stuck_switch: bool = False
    fields: tuple[int, ...] = (0,)
    twins: tuple[Bit, ...] = ()
    reads: int = 0

    def __post_init__(self) -> None:
        self.values: defaultdict[int, int] = defaultdict(int, self.reset)
        self.order: list[tuple[int, int]] = []

    def write(self, address: int, value: int) -> None:
        self.values[address] = value
        for bit, (other, place) in zip(self.twins, reversed(self.twins), strict=True):
            if bit[0] == address:
                self.values[other] = self.values[other] & ~(1 << place) | (value >> bit[1] & 1) << place
        self.order.append((address, value))

    def read(self, address: int) -> int:
        self.reads += 1
        value = self.values[address]
        for (ready_address, ready), (cause_address, cause) in self.follow.items():
            if ready_address == address:
                on = self.values[cause_address] >> cause & 1 and (ready_address, ready) not in self.stuck
                value = value & ~(1 << ready) | on << ready
        switch_address, width, shift = self.switch
        if address == switch_address and not self.stuck_switch:
            for place in self.fields:
                mask = (1 << width) - 1 << place
                value = value & ~(mask << shift) | (value & mask) << shift
        return value

    def bits(self, address: int, high: int, low: int) -> int:
        return self.values[address] >> low & (1 << high - low + 1) - 1


def ahb(code: int) -> int:
    return {8: 2, 9: 4, 10: 8, 11: 16, 12: 64, 13: 128, 14: 256, 15: 512}.get(code, 1)


def apb(code: int) -> int:
    return 1 << code - 3 if code & 4 else 1


@dataclass(frozen=True)
class Clocks:
    """What the registers say: all in Hz; ``wait_states`` is the field of FLASH_ACR."""

    core: float
    apb1: float
    apb2: float
    wait_states: int


class Chip:
    """A family's registers. ``hse`` is the board's external clock."""

    follow: dict[Bit, Bit]
    switch: tuple[int, int, int]
    reset: dict[int, int] = {}
    fields: tuple[int, ...] = (0,)
    twins: tuple[Bit, ...] = ()
    sw_reset = 0
    reset_hz = 16 * MHZ
    sw_pll = 3

    def __init__(self, hse: int = 0) -> None:
        self.hse = hse
        self.registers = Registers(self.follow, self.switch, dict(self.reset), fields=self.fields, twins=self.twins)

    def on_pll(self) -> bool:
        address, width, shift = self.switch
        return self.registers.read(address) >> shift & (1 << width) - 1 == self.sw_pll


class Model(Chip, ABC):
    """A family whose clocks can be read out of the registers."""

    @abstractmethod
    def clocks(self) -> Clocks:
        """The clocks the registers stand for."""


class F4(Model):
    """RM0090 and its siblings: RCC at 0x40023800, FLASH at 0x40023C00, PWR at 0x40007000."""

    RCC, FLASH, PWR = 0x40023800, 0x40023C00, 0x40007000
    follow = {
        (RCC, 1): (RCC, 0), (RCC, 17): (RCC, 16), (RCC, 25): (RCC, 24),
        (PWR + 4, 14): (RCC, 24), (PWR + 4, 16): (PWR, 16), (PWR + 4, 17): (PWR, 17),
    }  # fmt: skip
    switch = (RCC + 8, 2, 2)
    sw_pll = 2
    reset = {RCC: 0x83, RCC + 4: 0x24003010, PWR: 0x4000}

    def clocks(self) -> Clocks:
        r, rcc = self.registers, self.RCC
        core: float = 16 * MHZ
        if self.on_pll():
            source = self.hse if r.bits(rcc + 4, 22, 22) else 16 * MHZ
            core = source / r.bits(rcc + 4, 5, 0) * r.bits(rcc + 4, 14, 6) / (2 * r.bits(rcc + 4, 17, 16) + 2)
        bus = core / ahb(r.bits(rcc + 8, 7, 4))
        return Clocks(
            bus, bus / apb(r.bits(rcc + 8, 12, 10)), bus / apb(r.bits(rcc + 8, 15, 13)), r.bits(self.FLASH, 3, 0)
        )


class F1(Model):
    """RM0041: RCC at 0x40021000. PLLXTPRE of CFGR is the lowest bit of PREDIV1 in CFGR2."""

    RCC = 0x40021000
    follow = {(RCC, 1): (RCC, 0), (RCC, 17): (RCC, 16), (RCC, 25): (RCC, 24)}
    switch = (RCC + 4, 2, 2)
    sw_pll = 2
    reset = {RCC: 0x83}
    twins = ((RCC + 4, 17), (RCC + 0x2C, 0))
    reset_hz = 8 * MHZ

    def clocks(self) -> Clocks:
        r, rcc = self.registers, self.RCC
        core: float = 8 * MHZ
        if self.on_pll():
            source = self.hse / (r.bits(rcc + 0x2C, 3, 0) + 1) if r.bits(rcc + 4, 16, 16) else 4 * MHZ
            core = source * (r.bits(rcc + 4, 21, 18) + 2)
        bus = core / ahb(r.bits(rcc + 4, 7, 4))
        return Clocks(bus, bus / apb(r.bits(rcc + 4, 10, 8)), bus / apb(r.bits(rcc + 4, 13, 11)), 0)


class L4(Model):
    """RM0351, RM0432: RCC at 0x40021000, FLASH at 0x40022000, PWR at 0x40007000; MSI at 4 MHz after a reset."""

    RCC, FLASH, PWR = 0x40021000, 0x40022000, 0x40007000
    follow = {(RCC, 10): (RCC, 8), (RCC, 17): (RCC, 16), (RCC, 25): (RCC, 24)}
    switch = (RCC + 8, 2, 2)
    reset = {RCC: 0x63, FLASH: 0x600, PWR: 0x200, PWR + 0x80: 0x100}
    reset_hz = 4 * MHZ

    def divider(self) -> int:
        assert self.registers.bits(self.RCC + 0xC, 24, 24), "PLLREN"
        return 2 * self.registers.bits(self.RCC + 0xC, 26, 25) + 2

    def clocks(self) -> Clocks:
        r, rcc = self.registers, self.RCC
        core: float = self.reset_hz
        if self.on_pll():
            source = {2: 16 * MHZ, 3: self.hse}[r.bits(rcc + 0xC, 1, 0)]
            core = source / (r.bits(rcc + 0xC, 7, 4) + 1) * r.bits(rcc + 0xC, 14, 8) / self.divider()
        bus = core / ahb(r.bits(rcc + 8, 7, 4))
        return Clocks(
            bus, bus / apb(r.bits(rcc + 8, 10, 8)), bus / apb(r.bits(rcc + 8, 13, 11)), r.bits(self.FLASH, 3, 0)
        )


class G4(L4):
    """RM0440: the same with HSI16 as SYSCLK (SW = 1) after a reset."""

    reset = {L4.RCC: 0x500, L4.RCC + 8: 5, L4.FLASH: 0x40600, L4.PWR + 0x80: 0x100}
    sw_reset = 1
    reset_hz = 16 * MHZ


class WB(L4):
    """RM0434: RCC at 0x58000000, FLASH at 0x58004000; R counts from 1 at another place."""

    RCC, FLASH = 0x58000000, 0x58004000
    follow = {(RCC, 10): (RCC, 8), (RCC, 17): (RCC, 16), (RCC, 25): (RCC, 24)}
    switch = (RCC + 8, 2, 2)
    reset = {RCC: 0x61, FLASH: 0x600}

    def divider(self) -> int:
        assert self.registers.bits(self.RCC + 0xC, 28, 28), "PLLREN"
        return self.registers.bits(self.RCC + 0xC, 31, 29) + 1


class G0(Model):
    """RM0444: one APB."""

    RCC, FLASH = 0x40021000, 0x40022000
    follow = {(RCC, 10): (RCC, 8), (RCC, 17): (RCC, 16), (RCC, 25): (RCC, 24)}
    switch = (RCC + 8, 3, 3)
    sw_pll = 2
    reset = {RCC: 0x500, FLASH: 0x40600}

    def clocks(self) -> Clocks:
        r, rcc = self.registers, self.RCC
        core: float = 16 * MHZ
        if self.on_pll():
            assert r.bits(rcc + 0xC, 28, 28), "PLLREN"
            source = {2: 16 * MHZ, 3: self.hse}[r.bits(rcc + 0xC, 1, 0)]
            core = source / (r.bits(rcc + 0xC, 6, 4) + 1) * r.bits(rcc + 0xC, 14, 8) / (r.bits(rcc + 0xC, 31, 29) + 1)
        bus = core / ahb(r.bits(rcc + 8, 11, 8))
        return Clocks(
            bus, bus / apb(r.bits(rcc + 8, 14, 12)), bus / apb(r.bits(rcc + 8, 14, 12)), r.bits(self.FLASH, 2, 0)
        )


WIDE_INPUTS = ((0, 0), (2, 4), (4, 8), (8, 16))
"""Inputs in MHz of the wide oscillator, by the code of the range (0 is for the narrow one)."""


class H7(Model):
    """RM0433, RM0399, RM0455: RCC at 0x58024400, PWR at 0x58024800, FLASH at 0x52002000."""

    RCC, FLASH, PWR = 0x58024400, 0x52002000, 0x58024800
    VOS_ON = (PWR + 0x18, 14)
    follow = {
        (RCC, 2): (RCC, 0), (RCC, 8): (RCC, 7), (RCC, 17): (RCC, 16), (RCC, 25): (RCC, 24),
        (PWR + 4, 13): (RCC, 0), (PWR + 0x18, 13): VOS_ON,
    }  # fmt: skip
    switch = (RCC + 0x10, 3, 3)
    reset = {
        RCC: 0x25,
        RCC + 0x28: 0x02020200,
        RCC + 0x2C: 0x01FF0000,
        RCC + 0x30: 0x01010280,
        PWR + 0xC: 6,
        FLASH: 0x37,
    }
    reset_hz = 64 * MHZ

    def clocks(self) -> Clocks:
        r, rcc = self.registers, self.RCC
        core: float = 64 * MHZ
        if self.on_pll():
            assert r.bits(rcc + 0x2C, 16, 16), "DIVP1EN"
            source = {0: 64 * MHZ, 1: 4 * MHZ, 2: self.hse}[r.bits(rcc + 0x28, 1, 0)]
            given = source / r.bits(rcc + 0x28, 9, 4)
            low, high = WIDE_INPUTS[r.bits(rcc + 0x2C, 3, 2)]
            assert low * MHZ <= given <= high * MHZ, "PLL1RGE"
            assert r.bits(rcc + 0x2C, 1, 0) == 0, "the wide oscillator without a fraction"
            core = given * (r.bits(rcc + 0x30, 8, 0) + 1) / (r.bits(rcc + 0x30, 15, 9) + 1)
        core /= ahb(r.bits(rcc + 0x18, 11, 8))
        bus = core / ahb(r.bits(rcc + 0x18, 3, 0))
        for name, address, low_bit in (("D1PPRE", rcc + 0x18, 4), ("D3PPRE", rcc + 0x20, 4)):
            assert bus / apb(r.bits(address, low_bit + 2, low_bit)) <= 140 * MHZ, name
        return Clocks(
            core, bus / apb(r.bits(rcc + 0x1C, 6, 4)), bus / apb(r.bits(rcc + 0x1C, 10, 8)), r.bits(self.FLASH, 3, 0)
        )


class U5(Model):
    """RM0456: RCC at 0x46020C00, PWR at 0x46020800, FLASH at 0x40022000; MSIS at 4 MHz after a reset."""

    RCC, FLASH, VOSR = 0x46020C00, 0x40022000, 0x4602080C
    follow = {
        (RCC, 2): (RCC, 0), (RCC, 10): (RCC, 8), (RCC, 17): (RCC, 16), (RCC, 25): (RCC, 24),
        (VOSR, 15): (VOSR, 16), (VOSR, 14): (VOSR, 18),
    }  # fmt: skip
    switch = (RCC + 0x1C, 2, 2)
    reset = {RCC: 0x35, RCC + 0x34: 0x01010280}
    reset_hz = 4 * MHZ
    ranges = ((4, 8), (0, 0), (0, 0), (8, 16))

    def internal(self) -> int:
        return self.reset_hz

    def source(self) -> tuple[int, int]:
        r = self.registers
        assert r.bits(self.RCC + 0x28, 18, 18), "PLL1REN"
        return {1: 4 * MHZ, 2: 16 * MHZ, 3: self.hse}[r.bits(self.RCC + 0x28, 1, 0)], r.bits(self.RCC + 0x28, 11, 8) + 1

    def divider(self) -> int:
        return self.registers.bits(self.RCC + 0x34, 30, 24) + 1

    def clocks(self) -> Clocks:
        r, rcc = self.registers, self.RCC
        core: float = self.internal()
        if self.on_pll():
            source, m = self.source()
            low, high = self.ranges[r.bits(rcc + 0x28, 3, 2)]
            assert low * MHZ <= source / m <= high * MHZ, "PLL1RGE"
            core = source / m * (r.bits(rcc + 0x34, 8, 0) + 1) / self.divider()
        bus = core / ahb(r.bits(rcc + 0x20, 3, 0))
        return Clocks(
            bus, bus / apb(r.bits(rcc + 0x20, 6, 4)), bus / apb(r.bits(rcc + 0x20, 10, 8)), r.bits(self.FLASH, 3, 0)
        )


class H5(U5):
    """RM0481: RCC at 0x44020C00, PWR at 0x44020800; HSI of 64 MHz, here not divided after a reset: sources disagree."""

    RCC, VOSCR, VOSSR = 0x44020C00, 0x44020810, 0x44020814
    follow = {
        (RCC, 1): (RCC, 0), (RCC, 9): (RCC, 8), (RCC, 17): (RCC, 16), (RCC, 25): (RCC, 24), (VOSSR, 3): (VOSCR, 4),
    }  # fmt: skip
    switch = (RCC + 0x1C, 2, 3)
    reset = {RCC: 0x23, RCC + 0x34: 0x01010280, U5.FLASH: 0x13}
    reset_hz = 32 * MHZ
    ranges = WIDE_INPUTS

    def internal(self) -> int:
        return 64 * MHZ >> self.registers.bits(self.RCC, 4, 3)

    def source(self) -> tuple[int, int]:
        r = self.registers
        assert r.bits(self.RCC + 0x28, 16, 16), "PLL1PEN"
        assert r.bits(self.RCC + 0x28, 5, 4) == 0, "the wide oscillator without a fraction"
        sources = {1: self.internal(), 2: 4 * MHZ, 3: self.hse}
        return sources[r.bits(self.RCC + 0x28, 1, 0)], r.bits(self.RCC + 0x28, 13, 8)

    def divider(self) -> int:
        return self.registers.bits(self.RCC + 0x34, 15, 9) + 1


class N6(Chip):
    """RM0486: RCC at 0x56028000 (secure). The boot ROM's PLL feeds core and buses, which are divided."""

    RCC = 0x56028000
    follow = {(RCC + 4, 3): (RCC, 3)}
    switch = (RCC + 0x20, 2, 4)
    fields = (16, 24)
    reset = {RCC: 0x100, RCC + 0x20: 0x33330000, RCC + 0x24: 0x00111011, RCC + 0x48: 0x80}

    def bus(self) -> float:
        """The clock of APB2, when core and buses run from the HSI."""
        r, rcc = self.registers, self.RCC
        assert r.bits(rcc, 3, 3) and r.bits(rcc + 0x20, 17, 16) == r.bits(rcc + 0x20, 25, 24) == 0
        assert r.bits(rcc + 0x174, 2, 0) == 0
        hsi = 64 * MHZ >> r.bits(rcc + 0x48, 8, 7)
        return hsi / 2 ** r.bits(rcc + 0x24, 22, 20) / 2 ** r.bits(rcc + 0x24, 6, 4)
