"""What the start-up of images for real boards knows about chips: limits of clocks, addresses of UARTs and pins.

The numbers were first written down from knowledge of the reference manuals (``manual``), then checked one by one
against what is public: base addresses and bits of enable registers against ST's CMSIS headers, PLL limits and wait
states (2.7 to 3.6 V, the highest voltage scale) against the tables in ST's HAL and LL drivers and in Embassy's clock
code. Where these disagree the row has the narrower limit. A chip is found by the start of its name; of others nothing
is set up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .boards import Clocks

_MHZ = 1_000_000


@dataclass(frozen=True)
class Uart:
    """Base address, its bit in an RCC enable register (an offset), and the peripheral bus (1 or 2) that clocks it."""

    base: int
    enable: int
    bit: int
    bus: int


@dataclass(frozen=True)
class Chip:
    """One row: frequencies in Hz, limits inclusive.

    ``family`` names the start-up's C file, ``reset_hz`` is the core's clock after a reset. ``wait_states`` are the
    highest clocks of the flash's bus for 0, 1, 2 ... wait states. ``defines`` are macros of the family's C file.
    ``fixed`` clocks are made certain, not faster: a board has no ``clocks``. ``uart_kind`` 1 has a data register for
    both directions, 2 has one each. ``gpio_kind`` 1 is that of the STM32F1. ``hse_bypass`` is whether HSE takes a clock
    instead of a crystal.
    """

    family: str
    manual: str
    reset_hz: int
    oscillators: dict[str, int]
    pll_input: tuple[int, int]
    vco: tuple[int, int]
    m: tuple[int, int]
    n: tuple[int, int]
    divide_key: str
    divide: tuple[int, ...]
    core_hz: int
    ahb_hz: int
    apb_hz: tuple[int, int]
    wait_states: tuple[int, ...]
    rcc: int
    gpio: int
    gpio_enable: int
    uarts: dict[str, Uart]
    uart_kind: int = 2
    gpio_kind: int = 2
    gpio_first_bit: int = 0
    hse_hz: tuple[int, int] = (4 * _MHZ, 26 * _MHZ)
    hse_bypass: bool = True
    supplies: dict[str, int] = field(default_factory=dict)
    overdrive_hz: int = 0
    fixed: bool = False
    defines: dict[str, int] = field(default_factory=dict)


def _mhz(*numbers: float) -> tuple[int, ...]:
    return tuple(round(number * _MHZ) for number in numbers)


def _span(low: float, high: float) -> tuple[int, int]:
    return round(low * _MHZ), round(high * _MHZ)


_F4_UARTS = {
    "USART1": Uart(0x40011000, 0x44, 4, 2),
    "USART2": Uart(0x40004400, 0x40, 17, 1),
    "USART3": Uart(0x40004800, 0x40, 18, 1),
    "USART6": Uart(0x40011400, 0x44, 5, 2),
}
_F405 = Chip(
    family="f4",
    manual="RM0090",
    reset_hz=16 * _MHZ,
    oscillators={"hsi": 16 * _MHZ},
    pll_input=_span(0.95, 2.1),
    vco=_span(100, 432),
    m=(2, 63),
    n=(50, 432),
    divide_key="p",
    divide=(2, 4, 6, 8),
    core_hz=168 * _MHZ,
    ahb_hz=168 * _MHZ,
    apb_hz=_span(42, 84),
    wait_states=_mhz(30, 60, 90, 120, 150, 168),
    rcc=0x40023800,
    gpio=0x40020000,
    gpio_enable=0x30,
    uarts=_F4_UARTS,
    uart_kind=1,
    defines={"PORT_FLASH_FEATURES": 0x700, "PORT_VOLTAGE_MASK": 0x4000, "PORT_VOLTAGE": 0x4000},
)
_SCALES = {"PORT_FLASH_FEATURES": 0x700, "PORT_VOLTAGE_MASK": 0xC000, "PORT_VOLTAGE": 0xC000}
_F446 = replace(
    _F405,
    manual="RM0390",
    core_hz=180 * _MHZ,
    ahb_hz=180 * _MHZ,
    apb_hz=_span(45, 90),
    wait_states=_mhz(30, 60, 90, 120, 150, 180),
    overdrive_hz=168 * _MHZ,
    defines=_SCALES,
)
_F401 = replace(
    _F405,
    manual="RM0368",
    vco=_span(192, 432),
    n=(192, 432),
    core_hz=84 * _MHZ,
    ahb_hz=84 * _MHZ,
    apb_hz=_span(42, 84),
    wait_states=_mhz(30, 60, 84),
    uarts={name: uart for name, uart in _F4_UARTS.items() if name != "USART3"},
    defines={**_SCALES, "PORT_VOLTAGE": 0x8000},
)
_F412 = replace(
    _F405,
    manual="RM0402",
    core_hz=100 * _MHZ,
    ahb_hz=100 * _MHZ,
    apb_hz=_span(50, 100),
    wait_states=_mhz(30, 64, 90, 100),
    defines=_SCALES,
)
_F205 = replace(
    _F405,
    manual="RM0033",
    vco=_span(192, 432),
    n=(192, 432),
    core_hz=120 * _MHZ,
    ahb_hz=120 * _MHZ,
    apb_hz=_span(30, 60),
    wait_states=_mhz(30, 60, 90, 120),
    defines={"PORT_FLASH_FEATURES": 0x700, "PORT_VOLTAGE_MASK": 0, "PORT_VOLTAGE": 0},
)
_F746 = replace(
    _F405,
    manual="RM0385",
    core_hz=216 * _MHZ,
    ahb_hz=216 * _MHZ,
    apb_hz=_span(54, 108),
    wait_states=_mhz(30, 60, 90, 120, 150, 180, 210, 216),
    uart_kind=2,
    overdrive_hz=180 * _MHZ,
    defines={**_SCALES, "PORT_FLASH_FEATURES": 0x300},
)
_F100 = Chip(
    family="f1",
    manual="RM0041",
    reset_hz=8 * _MHZ,
    oscillators={"hsi": 8 * _MHZ},
    pll_input=_span(1, 24),
    vco=_span(16, 24),
    m=(1, 16),
    n=(2, 16),
    divide_key="",
    divide=(1,),
    core_hz=24 * _MHZ,
    ahb_hz=24 * _MHZ,
    apb_hz=_span(24, 24),
    wait_states=_mhz(24),
    rcc=0x40021000,
    gpio=0x40010800,
    gpio_enable=0x18,
    gpio_first_bit=2,
    gpio_kind=1,
    uarts={"USART1": Uart(0x40013800, 0x18, 14, 2), "USART2": Uart(0x40004400, 0x1C, 17, 1)},
    uart_kind=1,
    hse_hz=_span(4, 24),
)
_L4_UARTS = {
    "USART1": Uart(0x40013800, 0x60, 14, 2),
    "USART2": Uart(0x40004400, 0x58, 17, 1),
    "USART3": Uart(0x40004800, 0x58, 18, 1),
    "LPUART1": Uart(0x40008000, 0x5C, 0, 1),
}
_L476 = Chip(
    family="l4",
    manual="RM0351",
    reset_hz=4 * _MHZ,
    oscillators={"hsi": 16 * _MHZ},
    pll_input=_span(4, 16),
    vco=_span(64, 344),
    m=(1, 8),
    n=(8, 86),
    divide_key="r",
    divide=(2, 4, 6, 8),
    core_hz=80 * _MHZ,
    ahb_hz=80 * _MHZ,
    apb_hz=_span(80, 80),
    wait_states=_mhz(16, 32, 48, 64, 80),
    rcc=0x40021000,
    gpio=0x48000000,
    gpio_enable=0x4C,
    uarts=_L4_UARTS,
    hse_hz=_span(4, 48),
    defines={
        "PORT_RCC": 0x40021000,
        "PORT_PWR": 0x40007000,
        "PORT_FLASH_ACR": 0x40022000,
        "PORT_FLASH_FEATURES": 0x700,
        "PORT_HAS_PWREN": 1,
        "PORT_BOOST": 0,
        "PORT_CORE2": 0,
        "PORT_SW_RESET": 0,
    },
)
_L4R5 = replace(
    _L476,
    manual="RM0432",
    pll_input=_span(2.66, 16),
    m=(1, 16),
    n=(8, 127),
    core_hz=120 * _MHZ,
    ahb_hz=120 * _MHZ,
    apb_hz=_span(120, 120),
    wait_states=_mhz(20, 40, 60, 80, 100, 120),
    defines={**_L476.defines, "PORT_BOOST": 1},
)
_G474 = replace(
    _L476,
    manual="RM0440",
    reset_hz=16 * _MHZ,
    pll_input=_span(2.66, 16),
    vco=_span(96, 344),
    m=(1, 16),
    n=(8, 127),
    core_hz=170 * _MHZ,
    ahb_hz=170 * _MHZ,
    apb_hz=_span(170, 170),
    wait_states=_mhz(34, 68, 102, 136, 170),
    defines={**_L476.defines, "PORT_BOOST": 1, "PORT_SW_RESET": 1},
)
_WB55 = replace(
    _L476,
    manual="RM0434",
    pll_input=_span(2.66, 16),
    vco=_span(96, 344),
    n=(6, 127),
    divide=(2, 3, 4, 5, 6, 7, 8),
    core_hz=64 * _MHZ,
    ahb_hz=64 * _MHZ,
    apb_hz=_span(64, 64),
    wait_states=_mhz(18, 36, 54, 64),
    rcc=0x58000000,
    uarts={name: _L4_UARTS[name] for name in ("USART1", "LPUART1")},
    hse_hz=_span(32, 32),
    hse_bypass=False,
    defines={
        **_L476.defines,
        "PORT_RCC": 0x58000000,
        "PORT_PWR": 0x58000400,
        "PORT_FLASH_ACR": 0x58004000,
        "PORT_HAS_PWREN": 0,
        "PORT_CORE2": 1,
    },
)
_G071 = Chip(
    family="g0",
    manual="RM0444",
    reset_hz=16 * _MHZ,
    oscillators={"hsi": 16 * _MHZ},
    pll_input=_span(2.66, 16),
    vco=_span(96, 344),
    m=(1, 8),
    n=(8, 86),
    divide_key="r",
    divide=(2, 3, 4, 5, 6, 7, 8),
    core_hz=64 * _MHZ,
    ahb_hz=64 * _MHZ,
    apb_hz=_span(64, 64),
    wait_states=_mhz(24, 48, 64),
    rcc=0x40021000,
    gpio=0x50000000,
    gpio_enable=0x34,
    uarts={
        "USART1": Uart(0x40013800, 0x40, 14, 1),
        "USART2": Uart(0x40004400, 0x3C, 17, 1),
        "LPUART1": Uart(0x40008000, 0x3C, 20, 1),
    },
    hse_hz=_span(4, 48),
    defines={"PORT_FLASH_FEATURES": 0x300},
)
_H743 = Chip(
    family="h7",
    manual="RM0433",
    reset_hz=64 * _MHZ,
    oscillators={"hsi": 64 * _MHZ, "csi": 4 * _MHZ},
    pll_input=_span(2, 16),
    vco=_span(192, 836),
    m=(1, 63),
    n=(4, 512),
    divide_key="p",
    divide=tuple(range(2, 129, 2)),
    core_hz=400 * _MHZ,
    ahb_hz=200 * _MHZ,
    apb_hz=_span(100, 100),
    wait_states=_mhz(70, 140, 210),
    rcc=0x58024400,
    gpio=0x58020000,
    gpio_enable=0xE0,
    uarts={
        "USART1": Uart(0x40011000, 0xF0, 4, 2),
        "USART2": Uart(0x40004400, 0xE8, 17, 1),
        "USART3": Uart(0x40004800, 0xE8, 18, 1),
        "USART6": Uart(0x40011400, 0xF0, 5, 2),
    },
    hse_hz=_span(4, 48),
    supplies={"ldo": 2},
    defines={
        "PORT_FLASH_DELAY": 2,
        "PORT_RAM_ENABLE": 0x580244DC,
        "PORT_RAM_CLOCKS": 0xE0000000,
        "PORT_SRD_ENABLE": 0,
        "PORT_SRD_CLOCKS": 0,
    },
)
_H747 = replace(_H743, manual="RM0399", supplies={"ldo": 2, "smps": 4})
# Its enable registers lie 0x60 above those of the others.
_H7A3 = replace(
    _H747,
    manual="RM0455",
    vco=_span(128, 560),
    n=(8, 420),
    core_hz=280 * _MHZ,
    ahb_hz=280 * _MHZ,
    apb_hz=_span(140, 140),
    wait_states=_mhz(42, 84, 126, 168, 210, 252, 280),
    gpio_enable=0x140,
    uarts={name: replace(uart, enable=uart.enable + 0x60) for name, uart in _H743.uarts.items()},
    defines={
        "PORT_FLASH_DELAY": 3,
        "PORT_RAM_ENABLE": 0x5802453C,
        "PORT_RAM_CLOCKS": 0x60000000,
        "PORT_SRD_ENABLE": 0x58024540,
        "PORT_SRD_CLOCKS": 0x20000000,
    },
)
_U5 = Chip(
    family="u5",
    manual="RM0456",
    reset_hz=4 * _MHZ,
    oscillators={"hsi": 16 * _MHZ},
    pll_input=_span(4, 16),
    vco=_span(128, 544),
    m=(1, 16),
    n=(4, 512),
    divide_key="r",
    divide=(1, *range(2, 129, 2)),
    core_hz=160 * _MHZ,
    ahb_hz=160 * _MHZ,
    apb_hz=_span(160, 160),
    wait_states=_mhz(32, 64, 96, 128, 160),
    rcc=0x46020C00,
    gpio=0x42020000,
    gpio_enable=0x8C,
    uarts={
        "USART1": Uart(0x40013800, 0xA4, 14, 2),
        "USART2": Uart(0x40004400, 0x9C, 17, 1),
        "USART3": Uart(0x40004800, 0x9C, 18, 1),
    },
    # The booster takes the same input, which is not divided for it.
    hse_hz=_span(4, 16),
    defines={"PORT_RCC": 0x46020C00, "PORT_H5": 0},
)
_H5 = replace(
    _U5,
    manual="RM0481",
    reset_hz=32 * _MHZ,
    oscillators={"hsi": 32 * _MHZ, "csi": 4 * _MHZ},
    pll_input=_span(2, 16),
    vco=_span(192, 836),
    m=(1, 63),
    divide_key="p",
    divide=tuple(range(2, 129, 2)),
    core_hz=250 * _MHZ,
    ahb_hz=250 * _MHZ,
    apb_hz=_span(250, 250),
    wait_states=_mhz(42, 84, 126, 168, 210, 250),
    rcc=0x44020C00,
    hse_hz=_span(4, 50),
    defines={"PORT_RCC": 0x44020C00, "PORT_H5": 1, "PORT_FLASH_DELAY": 2},
)

# Secure addresses: the boot ROM starts secure code.
_N6 = Chip(
    family="n6",
    manual="RM0486",
    reset_hz=64 * _MHZ,
    oscillators={"hsi": 64 * _MHZ},
    pll_input=(0, 0),
    vco=(0, 0),
    m=(0, 0),
    n=(0, 0),
    divide_key="",
    divide=(1,),
    core_hz=64 * _MHZ,
    ahb_hz=64 * _MHZ,
    apb_hz=_span(64, 64),
    wait_states=(),
    rcc=0x56028000,
    gpio=0x56020000,
    gpio_enable=0x25C,
    uarts={"USART1": Uart(0x52001000, 0x26C, 4, 2)},
    fixed=True,
)

CHIPS: dict[str, Chip] = {
    "STM32F100": _F100,
    "STM32F205": _F205,
    "STM32F401": _F401,
    "STM32F405": _F405,
    "STM32F407": _F405,
    "STM32F412": _F412,
    "STM32F446": _F446,
    "STM32F746": _F746,
    "STM32G071": _G071,
    "STM32G474": _G474,
    "STM32H563": _H5,
    "STM32H743": _H743,
    "STM32H747": _H747,
    "STM32H7A3": _H7A3,
    "STM32L476": _L476,
    "STM32L4R5": _L4R5,
    "STM32N657": _N6,
    "STM32U575": _U5,
    "STM32U585": _U5,
    "STM32WB55": _WB55,
}
"""Chips by the start of their names."""


def chip_of(device: str) -> Chip | None:
    """The row of a device (``STM32F405RGTx``), None when its family is not known."""
    return CHIPS.get(device.upper()[:9])


def family_of(chip: Chip | None, has_clocks: bool) -> str:
    """The family whose C file sets up a board's clocks, "" when none does."""
    return chip.family if chip is not None and (has_clocks or chip.fixed) else ""


def clock_problems(chip: Chip, clocks: Clocks, core_hz: int) -> Iterator[tuple[str, str]]:
    """What is wrong with a board's clocks: a key of ``clocks`` (or ``clock_hz``) and why, causes before effects."""
    yield from _source_problems(chip, clocks)
    source = source_hz(chip, clocks)
    for key, value, (low, high) in (("m", clocks.m, chip.m), ("n", clocks.n, chip.n)):
        if not low <= value <= high:
            yield key, f"{value} is not within {low} to {high}"
    if clocks.divide_key != chip.divide_key:
        wanted = f"'{chip.divide_key}'" if chip.divide_key else "none"
        yield clocks.divide_key or chip.divide_key, f"the PLL of this chip has {wanted} as its divider"
    elif clocks.divide not in chip.divide:
        yield clocks.divide_key, f"{clocks.divide} is not one of {', '.join(map(str, chip.divide[:8]))}"
    yield from _outside("m", "the PLL's input", source / clocks.m, chip.pll_input)
    yield from _outside("n", "the PLL's oscillator", source / clocks.m * clocks.n, chip.vco)
    real = source * clocks.n / clocks.m / clocks.divide
    if real != core_hz:
        yield "clock_hz", f"the PLL gives {real / _MHZ:g} MHz, not {core_hz / _MHZ:g}"
    yield from _outside("n", "the core's clock", real, (0, chip.core_hz))
    if clocks.ahb != 1 and chip.family != "h7":
        yield "ahb", "this chip's bus runs at the core's clock"
    yield from _outside("ahb", "the bus clock", real / clocks.ahb, (0, chip.ahb_hz))
    for key, divider, limit in (("apb1", clocks.apb1, chip.apb_hz[0]), ("apb2", clocks.apb2, chip.apb_hz[1])):
        yield from _outside(key, f"the clock of {key.upper()}", real / clocks.ahb / divider, (0, limit))


def _source_problems(chip: Chip, clocks: Clocks) -> Iterator[tuple[str, str]]:
    external = clocks.source.startswith("hse")
    if external and not clocks.source_hz:
        yield "source_hz", f"'{clocks.source}' needs its frequency"
    elif external and clocks.source == "hse-bypass" and not chip.hse_bypass:
        yield "source", "the HSE of this chip takes a crystal"
    elif external:
        yield from _outside("source_hz", "the external clock", clocks.source_hz, chip.hse_hz)
    elif clocks.source not in chip.oscillators:
        yield "source", f"the PLL takes hse, hse-bypass, {', '.join(chip.oscillators)}"
    elif clocks.source_hz:
        yield "source_hz", f"'{clocks.source}' has {chip.oscillators[clocks.source] / _MHZ:g} MHz"
    if chip.family == "f1" and not external and clocks.m != 2:
        yield "m", "hsi is always divided by 2"
    if chip.supplies and clocks.supply not in chip.supplies:
        yield "supply", "the board's supply of the core is needed: " + ", ".join(chip.supplies)
    if clocks.supply and not chip.supplies:
        yield "supply", "this chip has no choice of it"


def _outside(key: str, what: str, value: float, limits: tuple[int, int]) -> Iterator[tuple[str, str]]:
    if not limits[0] <= value <= limits[1]:
        low = f"{limits[0] / _MHZ:g} to " if limits[0] else "at most "
        yield key, f"{what} would be {value / _MHZ:g} MHz; the chip takes {low}{limits[1] / _MHZ:g}"


def source_hz(chip: Chip, clocks: Clocks) -> int:
    """Frequency of the PLL's source."""
    return clocks.source_hz or chip.oscillators.get(clocks.source, 0)


def wait_states(chip: Chip, bus_hz: float) -> int:
    """Wait states the flash needs at a bus clock the chip takes."""
    return next(count for count, highest in enumerate(chip.wait_states) if bus_hz <= highest)
