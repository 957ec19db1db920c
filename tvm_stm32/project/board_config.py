"""``board_config.h`` of an image for a real board: the numbers its start-up and console need, as macros."""

from __future__ import annotations

from typing import Literal

from ..boards import Board, Clocks
from ..boards import Console as Uart
from ..chips import Chip, chip_of, family_of, source_hz, wait_states
from ..cnames import comment_text
from ..errors import TargetError

Console = Literal["semihosting", "uart"]

# Highest input of the PLL, in MHz, for each code of its range. Below 2 MHz the wide oscillator is not allowed; of an U5
# only the codes 0 and 3 are named.
_INPUT_RANGES = {"h7": (0, 4, 8, 16), "h5": (0, 4, 8, 16), "u5": (8, 8, 8, 16)}
_PRESCALER = {1: 0, 2: 4, 4: 5, 8: 6, 16: 7}
_AHB_PRESCALER = {1: 0, 2: 8, 4: 9}


def has_uart(board: Board) -> bool:
    """Whether images for the board itself can print on its UART."""
    return board.console is not None and chip_of(board.device) is not None


def chosen_console(board: Board, *, hardware: bool, console: Console | None) -> Console:
    """The console of an image: the one asked for, or the board's UART on hardware, or semihosting.

    Raises :class:`TargetError` when a UART is asked for of which nothing is known.
    """
    if console == "uart" and not has_uart(board):
        raise TargetError(
            f"the board '{board.name}' has no UART that is known",
            why="its file has no 'console'" if board.console is None else f"nothing is known of '{board.device}'",
            hint="a console through semihosting, with a debugger",
        )
    return console or ("uart" if hardware and has_uart(board) else "semihosting")


def port_files(board: Board, *, hardware: bool, console: Console) -> list[str]:
    """The port's C files, below the runtime's folder."""
    if board.is_host:
        return ["port/port_common.c", "port/port_host.c"]
    family = family_of(chip_of(board.device), board.clocks is not None)
    return board_port_files(family, hardware=hardware, console=console)


def board_port_files(family: str, *, hardware: bool, console: Console) -> list[str]:
    """The same, of a board whose clocks the file of ``family`` sets up ("": none does)."""
    files = ["port/port_common.c", "port/port_startup.c", f"port/port_{console}.c", "port/port_system.c"]
    if hardware:
        files.append("port/port_board.c")
        files += [f"port/families/clock_{family}.c"] if family else []
    return files


def board_config(board: Board, console: Console) -> str:
    """The text of the header of an image with that console. Raises :class:`TargetError` for the host."""
    if board.is_host:
        raise TargetError("the host board has no registers to set up")
    chip = chip_of(board.device)
    macros: dict[str, str] = {"PORT_HAS_CLOCK": "0", "PORT_HAS_UART": "0"}
    if chip is not None:
        macros |= _clock_macros(board, chip)
        if console == "uart" and board.console is not None:
            macros |= _uart_macros(board, chip, board.console)
    macros.setdefault("PORT_RESET_HZ", _number(chip.reset_hz if chip is not None else board.clock_hz))
    macros.setdefault("PORT_CORE_HZ", macros["PORT_RESET_HZ"])
    lines = [f"#define {name} {value}" for name, value in macros.items()]
    title = comment_text(f"{board.title}: numbers of its start-up, from the board file {board.name}.yaml.")
    guard = "#ifndef BOARD_CONFIG_H\n#define BOARD_CONFIG_H\n"
    return f"/* {title} */\n{guard}\n" + "\n".join(lines) + "\n\n#endif /* BOARD_CONFIG_H */\n"


def _number(value: int) -> str:
    return f"{value}UL"


def _address(value: int) -> str:
    return f"0x{value:08X}UL"


def _clock_macros(board: Board, chip: Chip) -> dict[str, str]:
    macros = {name: _address(value) if value > 1 else str(value) for name, value in chip.defines.items()}
    clocks = board.clocks
    if clocks is None:
        return macros | {"PORT_HAS_CLOCK": str(int(chip.fixed))}
    source = source_hz(chip, clocks)
    bus = board.clock_hz // clocks.ahb
    macros |= {
        "PORT_HAS_CLOCK": "1",
        "PORT_RESET_HZ": _number(chip.reset_hz),
        "PORT_CORE_HZ": _number(board.clock_hz),
        "PORT_USE_HSE": str(int(clocks.source.startswith("hse"))),
        "PORT_HSE_BYPASS": str(int(clocks.source == "hse-bypass")),
        "PORT_USE_CSI": str(int(clocks.source == "csi")),
        "PORT_PLL_M": _number(clocks.m),
        "PORT_PLL_N": _number(clocks.n),
        "PORT_PLL_DIVIDE": _number(clocks.divide),
        "PORT_HPRE": _number(_AHB_PRESCALER[clocks.ahb]),
        "PORT_PPRE1": _number(_PRESCALER[clocks.apb1]),
        "PORT_PPRE2": _number(_PRESCALER[clocks.apb2]),
        "PORT_WAIT_STATES": _number(wait_states(chip, bus)),
        "PORT_OVERDRIVE": str(int(0 < chip.overdrive_hz < board.clock_hz)),
    }
    return macros | _family_macros(board, chip, clocks, source)


def _family_macros(board: Board, chip: Chip, clocks: Clocks, source: int) -> dict[str, str]:
    if chip.family == "l4":
        core2 = bool(chip.defines["PORT_CORE2"])
        output = 1 << 28 | (clocks.divide - 1) << 29 if core2 else 1 << 24 | (clocks.divide // 2 - 1) << 25
        on_port_g = board.console is not None and board.console.tx.startswith("PG") and not core2
        return {
            "PORT_PLL_OUTPUT": _address(output),
            "PORT_HALF_CLOCK": str(int(board.clock_hz > 80_000_000)),
            "PORT_VDDIO2": str(int(on_port_g)),
        }
    if chip.family in ("h7", "u5"):
        ranges = _INPUT_RANGES["h5" if chip.defines.get("PORT_H5") else chip.family]
        given = source / clocks.m / 1e6
        macros = {"PORT_PLL_INPUT_RANGE": _number(next(i for i, high in enumerate(ranges) if given <= high))}
        if chip.supplies:
            macros["PORT_SUPPLY"] = _number(chip.supplies[clocks.supply])
        return macros
    return {}


def _uart_macros(board: Board, chip: Chip, console: Uart) -> dict[str, str]:
    uart = chip.uarts[console.uart]
    clocks = board.clocks
    divider = 1 if clocks is None else clocks.ahb * (clocks.apb1 if uart.bus == 1 else clocks.apb2)
    hz = chip.reset_hz if clocks is None else board.clock_hz // divider
    ports = {pin[1] for pin in (console.tx, console.rx)}
    pins = sum(1 << (ord(port) - ord("A") + chip.gpio_first_bit) for port in ports)
    return {
        "PORT_HAS_UART": "1",
        "PORT_UART": _address(uart.base),
        "PORT_UART_KIND": str(chip.uart_kind),
        "PORT_UART_LOW_POWER": str(int(console.uart.startswith("LP"))),
        "PORT_UART_ENABLE": _address(chip.rcc + uart.enable),
        "PORT_UART_ENABLE_BIT": _number(uart.bit),
        "PORT_UART_HZ": _number(hz),
        "PORT_UART_RESET_HZ": _number(chip.reset_hz),
        "PORT_UART_BAUD": _number(console.baud),
        "PORT_GPIO_KIND": str(chip.gpio_kind),
        "PORT_PINS_ENABLE": _address(chip.rcc + chip.gpio_enable),
        "PORT_PINS_ENABLE_BITS": _address(pins),
        "PORT_TX_PORT": _address(_pin_port(chip, console.tx)),
        "PORT_TX_PIN": _number(int(console.tx[2:])),
        "PORT_RX_PORT": _address(_pin_port(chip, console.rx)),
        "PORT_RX_PIN": _number(int(console.rx[2:])),
        "PORT_PIN_FUNCTION": _number(max(console.af, 0)),
    }


def _pin_port(chip: Chip, pin: str) -> int:
    return chip.gpio + 0x400 * (ord(pin[1]) - ord("A"))
