"""Firmware(HARDWARE=True) and CONSOLE: images for the board itself beside those for its emulator."""

from __future__ import annotations

from pathlib import Path

from scons_support import HEAD, Project, copy_tools, require_tools

from tvm_stm32.boards import load_board
from tvm_stm32.project.image import Image

SCONSTRUCT = (
    HEAD.replace("mps2-an386", "nucleo-f446re")
    + """
runtime = env.TvmRuntime("build/runtime")
env.Firmware("build/emulated.elf", ["main.c"], BOARD=board, RUNTIME=runtime)
env.Firmware("build/chip.elf", ["main.c"], BOARD=board, RUNTIME=runtime, CONSOLE="uart")
env.Firmware("build/debug.elf", ["main.c"], BOARD=board, RUNTIME=runtime, HARDWARE=True, CONSOLE="semihosting")
"""
)

MAIN = """
#include "port.h"

int main(void)
{
    port_print("status=ok\\n");
    return 0;
}
"""


def write(folder: Path) -> Project:
    require_tools("arm-none-eabi-gcc")
    project = Project(folder)
    folder.mkdir(parents=True)
    copy_tools(folder / "tools")
    project.write("SConstruct", SCONSTRUCT)
    project.write("main.c", MAIN)
    return project


def test_an_image_for_the_board_is_at_its_addresses_with_its_start_up(tmp_path: Path) -> None:
    project = write(tmp_path / "project")
    project.scons()
    board = load_board("nucleo-f446re")
    emulated, chip, debug = (Image(project.path(f"build/{name}.elf")) for name in ("emulated", "chip", "debug"))
    assert emulated.words(board.memory("flash", emulated=True).origin, 1) == [0x20020000]
    assert "port_board_start" not in emulated.symbols
    for image in (chip, debug):
        assert image.words(board.flash.origin, 1) == [0x20020000]
        assert {"port_board_start", "port_clock_start"} <= set(image.symbols)
    assert "port_console_start" in chip.symbols
    assert project.scons().is_null
    # The board file decides the header, and the header what is compiled.
    text = project.path("tools/boards/nucleo-f446re.yaml").read_text()
    project.path("mine.yaml").write_text(text)
    assert project.scons("BOARD=mine.yaml").returncode == 0
    project.edit("mine.yaml", "n: 360, p: 2", "n: 180, p: 2")
    project.edit("mine.yaml", "clock_hz: 180000000", "clock_hz: 90000000")
    build = project.scons("BOARD=mine.yaml")
    assert {"clock_f4.o", "port_board.o", "port_uart.o"} <= set(build.of("CC"))
    assert "emulated.elf" not in build.of("LINK")
    assert "PORT_CORE_HZ 90000000UL" in project.path("build/chip.elf.board/board_config.h").read_text()
    # A number the chip does not take stops the build with its key.
    project.edit("mine.yaml", "m: 8", "m: 2")
    assert "clocks.m: the PLL's input would be 4 MHz" in project.scons("BOARD=mine.yaml", fails=True).output


def test_mistakes_are_said(tmp_path: Path) -> None:
    project = write(tmp_path / "project")
    assert "no UART of the board 'mps2-an386' is known" in project.scons("BOARD=mps2-an386", fails=True).output
    project.edit("SConstruct", 'CONSOLE="uart"', 'CONSOLE="usart"')
    assert "CONSOLE is 'usart'" in project.scons(fails=True).output
