"""Images for the chip itself, on the three machines QEMU has that are such chips: their console is the UART.

Clock registers are not modelled there and read 0, so nothing gets ready: the start-up has to go on without.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from firmware_support import build_program
from support import need_board

from tvm_stm32.boards import load_board
from tvm_stm32.errors import TargetError
from tvm_stm32.project.emulator import run_image
from tvm_stm32.toolchain import find_qemu

# Which of the machine's serial ports the board's console is.
PORTS = {"stm32f405": 5, "netduino2": 5, "stm32vldiscovery": 0}


def console_of(name: str, program: str, folder: Path, end: str, **options: object) -> str:
    """What the program's image for the chip prints on the board's UART until ``end``."""
    need_board(name)
    board = load_board(name)
    image = build_program(program, board, folder, console="uart", warnings_as_errors=True, **options)
    output = folder / "uart.txt"
    assert board.emulator is not None
    serial = [word for _ in range(PORTS[name]) for word in ("-serial", "null")]
    command = [str(find_qemu()), "-M", board.emulator.machine, "-display", "none", "-monitor", "none", *serial]
    command += ["-serial", f"file:{output}", "-kernel", str(image)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    with process:
        try:
            deadline = time.monotonic() + 20
            text = ""
            while not text.endswith(end) and time.monotonic() < deadline:
                time.sleep(0.05)
                text = output.read_bytes().decode("latin-1") if output.is_file() else ""
        finally:
            process.kill()
    return text


@pytest.mark.parametrize("name", PORTS)
def test_the_console_prints_and_time_passes_without_a_cycle_counter(name: str, tmp_path: Path) -> None:
    program = """
#include "port_board.h"
int main(void) {
    uint64_t start;
    volatile unsigned i;
    port_ticks_start();
    start = port_ticks();
    for (i = 0U; i < 10000U; i++) { }
    port_print("hz=");
    port_print_unsigned(port_core_hz);
    port_print((port_ticks() - start > 1000U) ? "\\npassed=1" : "\\npassed=0");
    port_print((port_open("x", PORT_READ) == PORT_NO_FILE) ? "\\nstatus=ok\\n" : "\\n");
    return 0;
}
"""
    text = console_of(name, program, tmp_path, "status=ok\r\n")
    hz = 8_000_000 if name == "stm32vldiscovery" else 16_000_000
    assert text == f"hz={hz}\r\npassed=1\r\nstatus=ok\r\n"


def test_ticks_are_those_of_a_cycle_counter_that_counts(tmp_path: Path) -> None:
    """No emulator has one; timer 2 of this machine counts up likewise, and is enabled by the same bit."""
    program = """
int main(void) {
    uint64_t ticks, start;
    volatile unsigned i;
    uint32_t first, last;
    port_ticks_start();
    for (i = 0U; i < 100U; i++) { }
    start = port_ticks();
    first = *(volatile uint32_t *)0x40000024U;
    for (i = 0U; i < 200000U; i++) { }
    last = *(volatile uint32_t *)0x40000024U;
    ticks = port_ticks() - start;
    port_print((ticks >= last - first && ticks < 2U * (last - first)) ? "passed=1" : "passed=0");
    port_print("\\nstatus=ok\\n");
    return 0;
}
"""
    registers = ["DWT_CTRL=(*(volatile uint32_t *)0x40000000U)", "DWT_CYCCNT=(*(volatile uint32_t *)0x40000024U)"]
    text = console_of("stm32f405", program, tmp_path, "status=ok\r\n", defines=registers)
    assert text == "passed=1\r\nstatus=ok\r\n"


@pytest.mark.parametrize("name", ["mps2-an385", "mps2-an386", "mps2-an500", "mps2-an505", "mps3-an547"])
def test_the_start_up_of_boards_runs_on_every_core(name: str, tmp_path: Path) -> None:
    """These machines have neither clocks nor caches; test_board_startup.py has models of both."""
    need_board(name)
    board = load_board(name)
    program = """
int main(void) {
    const uint32_t levels = *(volatile uint32_t *)0xE000ED78U & 3U;
    const uint32_t control = (*(volatile uint32_t *)0xE000ED14U >> 16) & 3U;
    port_print("levels=");
    port_print_unsigned(levels);
    port_print("\\ncaches=");
    port_print_unsigned(control);
    port_print("\\nstatus=ok\\n");
    return 0;
}
"""
    image = build_program(program, board, tmp_path, hardware=True, warnings_as_errors=True)
    values = run_image(image, board).values
    assert values == {"levels": "0", "caches": "0", "status": "ok"}


def test_a_fault_is_reported_on_the_uart(tmp_path: Path) -> None:
    program = """
int main(void) {
    __asm__ volatile("udf #0");
    return 0;
}
"""
    text = console_of("stm32f405", program, tmp_path, "status=error fault\r\n")
    assert "fault exception=hardfault pc=0x0800" in text and " cfsr=0x00010000" in text


def test_a_board_without_a_known_uart_says_so(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"mps2-an386' has no UART that is known[\s\S]*semihosting"):
        build_program("int main(void) { return 0; }\n", load_board("mps2-an386"), tmp_path, console="uart")
