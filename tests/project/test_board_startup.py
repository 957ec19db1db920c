"""The start-up of images for boards, run on this computer against models of the chips' registers."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from clock_models import F1, F4, G0, G4, H5, H7, L4, MHZ, N6, U5, WB, Model
from support import need_board

from tvm_stm32.boards import Board, list_boards, load_board
from tvm_stm32.project.board_config import board_config, chosen_console, port_files
from tvm_stm32.resources import resource_dir
from tvm_stm32.toolchain import find_host_cc

LIMIT = 40
"""PORT_WAIT_LIMIT of these tests."""


@dataclass(frozen=True)
class Expected:
    """What the manuals ask for: core and APB clocks in MHz, wait states, and the UART (base, kind, bus)."""

    model: type[Model]
    core: float
    apb1: float
    apb2: float
    wait_states: int
    uart: int
    bus: int = 1
    kind: int = 2


BOARDS = {
    "stm32vldiscovery": Expected(F1, 24, 24, 24, 0, 0x40013800, 2, 1),
    "netduino2": Expected(F4, 120, 30, 60, 3, 0x40011400, 2, 1),
    "stm32f405": Expected(F4, 168, 42, 84, 5, 0x40011400, 2, 1),
    "stm32f4-discovery": Expected(F4, 168, 42, 84, 5, 0x40004400, 1, 1),
    "nucleo-f401re": Expected(F4, 84, 42, 84, 2, 0x40004400, 1, 1),
    "nucleo-f412zg": Expected(F4, 100, 50, 100, 3, 0x40004800, 1, 1),
    "nucleo-f446re": Expected(F4, 180, 45, 90, 5, 0x40004400, 1, 1),
    "nucleo-f746zg": Expected(F4, 216, 54, 108, 7, 0x40004800),
    "nucleo-l476rg": Expected(L4, 80, 80, 80, 4, 0x40004400),
    "nucleo-l4r5zi": Expected(L4, 120, 120, 120, 5, 0x40008000, kind=3),
    "nucleo-g474re": Expected(G4, 170, 170, 170, 4, 0x40008000, kind=3),
    "nucleo-wb55rg": Expected(WB, 64, 64, 64, 3, 0x40013800, 2),
    "nucleo-g071rb": Expected(G0, 64, 64, 64, 2, 0x40004400),
    "nucleo-h743zi2": Expected(H7, 400, 100, 100, 2, 0x40004800),
    "stm32h747i-disco": Expected(H7, 400, 100, 100, 2, 0x40011000, 2),
    "nucleo-h7a3zi-q": Expected(H7, 280, 140, 140, 6, 0x40004800),
    "nucleo-u575zi-q": Expected(U5, 160, 160, 160, 4, 0x40013800, 2),
    "b-u585i-iot02a": Expected(U5, 160, 160, 160, 4, 0x40013800, 2),
    "nucleo-h563zi": Expected(H5, 250, 250, 250, 5, 0x40004800),
}

# Register, highest and lowest bit: the manual's value for the board's clock. Of F4, F7: voltage scale and over-drive
# (PWR_CR), prefetch and caches (FLASH_ACR); and so on.
_F4_FLASH = {(0x40023C00, 10, 8): 7}
_F7_FLASH = {(0x40023C00, 11, 8): 3}
_L4_FLASH = {(0x40022000, 10, 8): 7}
_ICACHE = {(0x40022000, 8, 8): 1, (0x40030400, 0, 0): 1}
_H7_SCALE = {(0x58024818, 15, 14): 3}
SUPPLY: dict[str, dict[tuple[int, int, int], int]] = {
    "stm32vldiscovery": {},
    "netduino2": _F4_FLASH,
    "stm32f405": {**_F4_FLASH, (0x40007000, 14, 14): 1},
    "stm32f4-discovery": {**_F4_FLASH, (0x40007000, 14, 14): 1},
    "nucleo-f401re": {**_F4_FLASH, (0x40007000, 15, 14): 2},
    "nucleo-f412zg": {**_F4_FLASH, (0x40007000, 15, 14): 3},
    "nucleo-f446re": {**_F4_FLASH, (0x40007000, 17, 14): 0xF},
    "nucleo-f746zg": {**_F7_FLASH, (0x40007000, 17, 14): 0xF},
    "nucleo-l476rg": {**_L4_FLASH, (0x40007004, 9, 9): 0},
    # Boost mode is R1MODE = 0; IOSV for the console on port G.
    "nucleo-l4r5zi": {**_L4_FLASH, (0x40007080, 8, 8): 0, (0x40007004, 9, 9): 1},
    "nucleo-g474re": {**_L4_FLASH, (0x40007080, 8, 8): 0},
    # The radio's processor at half the clock, shared memories at the whole one.
    "nucleo-wb55rg": {(0x58004000, 10, 8): 7, (0x58000108, 7, 0): 0x80},
    "nucleo-g071rb": {(0x40022000, 9, 8): 3, (0x40022000, 18, 18): 1},
    # Supply, scale 1 (scale 0 of the H7A3 has the same code), programming delay, RAM of the second domain.
    "nucleo-h743zi2": {**_H7_SCALE, (0x5802480C, 2, 0): 2, (0x52002000, 5, 4): 2, (0x580244DC, 31, 29): 7},
    "stm32h747i-disco": {**_H7_SCALE, (0x5802480C, 2, 0): 4, (0x52002000, 5, 4): 2, (0x580244DC, 31, 29): 7},
    "nucleo-h7a3zi-q": {
        **_H7_SCALE,
        (0x5802480C, 2, 0): 4,
        (0x52002000, 5, 4): 3,
        (0x5802453C, 31, 29): 3,
        (0x58024540, 29, 29): 1,
    },
    # Range 1 with the booster, its clock not divided.
    "nucleo-u575zi-q": {**_ICACHE, (0x4602080C, 18, 16): 7, (0x46020C28, 15, 12): 0},
    "b-u585i-iot02a": {**_ICACHE, (0x4602080C, 18, 16): 7, (0x46020C28, 15, 12): 0},
    "nucleo-h563zi": {**_ICACHE, (0x44020810, 5, 4): 3, (0x40022000, 5, 4): 2},
}

# Clock enable of the console and of its pins' port: register and bit.
ENABLED: dict[str, tuple[tuple[int, int], tuple[int, int]]] = {
    "stm32vldiscovery": ((0x40021018, 14), (0x40021018, 2)),
    "netduino2": ((0x40023844, 5), (0x40023830, 2)),
    "stm32f405": ((0x40023844, 5), (0x40023830, 2)),
    "stm32f4-discovery": ((0x40023840, 17), (0x40023830, 0)),
    "nucleo-f401re": ((0x40023840, 17), (0x40023830, 0)),
    "nucleo-f412zg": ((0x40023840, 18), (0x40023830, 3)),
    "nucleo-f446re": ((0x40023840, 17), (0x40023830, 0)),
    "nucleo-f746zg": ((0x40023840, 18), (0x40023830, 3)),
    "nucleo-l476rg": ((0x40021058, 17), (0x4002104C, 0)),
    "nucleo-l4r5zi": ((0x4002105C, 0), (0x4002104C, 6)),
    "nucleo-g474re": ((0x4002105C, 0), (0x4002104C, 0)),
    "nucleo-wb55rg": ((0x58000060, 14), (0x5800004C, 1)),
    "nucleo-g071rb": ((0x4002103C, 17), (0x40021034, 0)),
    "nucleo-h743zi2": ((0x580244E8, 18), (0x580244E0, 3)),
    "stm32h747i-disco": ((0x580244F0, 4), (0x580244E0, 0)),
    "nucleo-h7a3zi-q": ((0x58024548, 18), (0x58024540, 3)),
    "nucleo-u575zi-q": ((0x46020CA4, 14), (0x46020C8C, 0)),
    "b-u585i-iot02a": ((0x46020CA4, 14), (0x46020C8C, 0)),
    "nucleo-h563zi": ((0x44020C9C, 18), (0x44020C8C, 3)),
}

_READ = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32)
_WRITE = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32)
_MOCK = """
#include <stdint.h>
static uint32_t (*read_register)(uint32_t);
static void (*write_register)(uint32_t, uint32_t);
uint32_t reg_read(uint32_t address) { return read_register(address); }
void reg_write(uint32_t address, uint32_t value) { write_register(address, value); }
void set_mock(uint32_t (*r)(uint32_t), void (*w)(uint32_t, uint32_t)) { read_register = r; write_register = w; }
"""


class StartUp:
    """The start-up of a board as a library of this computer."""

    def __init__(self, board: Board, folder: Path) -> None:
        need_board("host")
        folder.mkdir(parents=True)
        (folder / "mock.c").write_text(_MOCK)
        runtime = resource_dir("runtime")
        console = chosen_console(board, hardware=True, console=None)
        (folder / "board_config.h").write_text(board_config(board, console))
        files = [runtime / file for file in port_files(board, hardware=True, console=console)]
        files = [file for file in files if file.stem not in ("port_common", "port_startup", "port_system")]
        library = folder / "startup.so"
        command = [find_host_cc(), "-shared", "-fPIC", "-O1", "-DPORT_MOCK", f"-DPORT_WAIT_LIMIT={LIMIT}"]
        command += [f"-I{folder}", f"-I{runtime / 'port'}", f"-I{runtime / 'include'}", *files, folder / "mock.c"]
        subprocess.run([*map(str, command), "-o", str(library)], check=True, capture_output=True)
        self.library = ctypes.CDLL(str(library))

    def run(self, model: Model) -> int:
        """Starts the board on the model's registers; the clock port_core_hz tells."""
        read, write = _READ(model.registers.read), _WRITE(model.registers.write)
        self.library.set_mock(read, write)
        self.library.port_board_start()
        return ctypes.c_uint32.in_dll(self.library, "port_core_hz").value

    def print(self, model: Model, text: str) -> None:
        read, write = _READ(model.registers.read), _WRITE(model.registers.write)
        self.library.set_mock(read, write)
        self.library.port_print(text.encode())


def started(name: str, folder: Path) -> tuple[StartUp, Expected, Board]:
    return StartUp(load_board(name), folder / "startup"), BOARDS[name], load_board(name)


def model_of(expected: Expected, board: Board) -> Model:
    assert board.clocks is not None
    return expected.model(board.clocks.source_hz)


def baud(model: Model, expected: Expected) -> float:
    clocks = model.clocks()
    hz = clocks.apb1 if expected.bus == 1 else clocks.apb2
    divider = model.registers.values[expected.uart + (8 if expected.kind == 1 else 0xC)]
    return (256 if expected.kind == 3 else 1) * hz / divider


def test_every_board_with_clocks_is_tried_here() -> None:
    assert set(BOARDS) == {name for name in list_boards() if load_board(name).clocks is not None}


@pytest.mark.parametrize("name", BOARDS)
def test_clocks_wait_states_and_baud_rate_are_those_of_the_manuals(name: str, tmp_path: Path) -> None:
    start, expected, board = started(name, tmp_path)
    model = model_of(expected, board)
    assert start.run(model) == expected.core * MHZ == board.clock_hz
    clocks = model.clocks()
    assert (clocks.core, clocks.apb1, clocks.apb2) == (
        expected.core * MHZ, expected.apb1 * MHZ, expected.apb2 * MHZ
    )  # fmt: skip
    assert clocks.wait_states == expected.wait_states
    assert baud(model, expected) == pytest.approx(115200, rel=0.0025)
    _assert_order(model)
    for (register, high, low), value in SUPPLY[name].items():
        assert model.registers.bits(register, high, low) == value, (hex(register), high, low)


def _assert_order(model: Model) -> None:
    """The switch to the PLL comes after its lock and the wait states, and nothing raises the clock before."""
    address, width, _ = model.switch
    order = model.registers.order
    switched = next(
        i for i, (where, value) in enumerate(order) if where == address and value & (1 << width) - 1 == model.sw_pll
    )
    flash = getattr(model, "FLASH", None)
    assert all(where != flash for where, _ in order[switched:])
    assert flash is None or any(where == flash for where, _ in order[:switched])


@pytest.mark.parametrize("name", BOARDS)
def test_whatever_never_gets_ready_leaves_the_reset_clock_and_a_console(name: str, tmp_path: Path) -> None:
    start, expected, board = started(name, tmp_path)
    model = model_of(expected, board)
    start.run(model)
    waited = [ready for ready in model.follow if ready != (expected.uart, 7)]
    falls = 0
    for stuck in [*[{bit} for bit in waited], set(waited), None]:
        model = model_of(expected, board)
        model.registers.stuck = stuck or set()
        model.registers.stuck_switch = stuck is None
        reached = start.run(model)
        assert model.registers.reads < 12 * LIMIT + 300, "a wait without an end"
        if reached != board.clock_hz:
            falls += 1
            address, width, _ = model.switch
            assert model.registers.values[address] & (1 << width) - 1 == model.sw_reset
            model.registers.stuck_switch = False
            assert reached == model.reset_hz == model.clocks().core == model.clocks().apb1 == model.clocks().apb2
            # 4 MHz is 34.7 times the rate: a UART is up to 1 % off.
            assert baud(model, expected) == pytest.approx(115200, rel=0.02)
    assert falls >= 4  # oscillator, PLL, both together with the rest, the switch


def test_caches_of_a_cortex_m7_are_emptied_before_they_are_on(tmp_path: Path) -> None:
    ccr, clidr, ccsidr, iciallu, dcisw = (0xE000E000 + low for low in (0xD14, 0xD78, 0xD80, 0xF50, 0xF60))
    start, expected, board = started("nucleo-h743zi2", tmp_path)
    model = model_of(expected, board)
    # 16 KB of 4 ways with 32 bytes a line: 128 sets.
    model.registers.values.update({clidr: 0x09000003, ccsidr: 0xF01FE019 & ~(0x80 << 13)})
    start.run(model)
    order = model.registers.order
    lines = [value for where, value in order if where == dcisw]
    assert sorted(lines) == sorted(way << 30 | line << 5 for way in range(4) for line in range(128))
    on = next(i for i, (where, value) in enumerate(order) if where == ccr and value >> 16 & 1)
    assert max(i for i, (where, _) in enumerate(order) if where in (dcisw, iciallu)) < on
    assert model.registers.bits(ccr, 17, 16) == 3
    # Once more, as after a jump from a boot loader: what is in the cache by then is not thrown away.
    model.registers.order.clear()
    start.run(model)
    assert all(where != dcisw for where, _ in model.registers.order)


def test_an_n6_goes_back_to_its_oscillator_whatever_the_boot_rom_left(tmp_path: Path) -> None:
    start = StartUp(load_board("nucleo-n657x0-q"), tmp_path / "startup")
    model = N6()
    assert start.run(model) == 64 * MHZ
    assert model.bus() == 64 * MHZ
    registers = model.registers
    assert registers.bits(0x5200100C, 15, 0) == round(64 * MHZ / 115200)
    assert (registers.bits(model.RCC + 0x25C, 4, 4), registers.bits(model.RCC + 0x26C, 4, 4)) == (1, 1)
    for pin in (5, 6):
        assert registers.bits(0x56021000, 2 * pin + 1, 2 * pin) == 2
        assert registers.bits(0x56021020, 4 * pin + 3, 4 * pin) == 7
    for stuck in (True, False):
        model = N6()
        model.registers.stuck = {(model.RCC + 4, 3)} if stuck else set()
        model.registers.stuck_switch = not stuck
        start.run(model)
        assert model.registers.reads < 12 * LIMIT + 300


@pytest.mark.parametrize("name", BOARDS)
def test_the_console_gives_characters_to_its_pins(name: str, tmp_path: Path) -> None:
    start, expected, board = started(name, tmp_path)
    model = model_of(expected, board)
    start.run(model)
    registers, console = model.registers, board.console
    assert console is not None
    for register, bit in ENABLED[name]:
        assert registers.bits(register, bit, bit) == 1, hex(register)
    for pin in (console.tx, console.rx):
        number = int(pin[2:])
        if isinstance(model, F1):
            port = 0x40010800 + 0x400 * (ord(pin[1]) - ord("A"))
            low = 4 * (number % 8)
            wanted = 0xB if pin == console.tx else 4
            assert registers.bits(port + (4 if number > 7 else 0), low + 3, low) == wanted
            continue
        base = {F4: 0x40020000, G0: 0x50000000, H7: 0x58020000, U5: 0x42020000, H5: 0x42020000}.get(
            type(model), 0x48000000
        )
        port = base + 0x400 * (ord(pin[1]) - ord("A"))
        assert registers.bits(port, 2 * number + 1, 2 * number) == 2, "alternate function"
        low = 4 * (number % 8)
        assert registers.bits(port + (0x24 if number > 7 else 0x20), low + 3, low) == console.af
    status = expected.uart + (0 if expected.kind == 1 else 0x1C)
    registers.values[status] = 0xC0
    registers.order.clear()
    start.print(model, "ok\n")
    sent = expected.uart + (4 if expected.kind == 1 else 0x28)
    assert bytes(value for where, value in registers.order if where == sent) == b"ok\r\n"
    # A transmitter that is never empty loses text, and no more.
    registers.values[status] = 0
    registers.reads = 0
    start.print(model, "lost")
    assert registers.reads <= 4 * LIMIT
