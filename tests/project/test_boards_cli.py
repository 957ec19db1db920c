"""``tvm-stm32 boards`` lists and shows boards, ``board new`` writes one from a device of a CMSIS pack."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from firmware_support import build_program
from support import ROOT, need_board

from tvm_stm32.boards import list_boards, load_board
from tvm_stm32.cli import cli
from tvm_stm32.errors import Error

PDSC = """<?xml version="1.0" encoding="utf-8"?>
<package schemaVersion="1.7.36">
  <vendor>Acme</vendor><name>Toy_DFP</name><url>https://acme.example/</url>
  <releases><release version="1.2.0"/></releases>
  <devices><family Dfamily="Toy" Dvendor="Acme:7">
    <device Dname="TOY4">
      <processor Dcore="Cortex-M4" Dfpu="SP_FPU" Dendian="Little-endian" Dclock="168000000"/>
      <memory name="Flash" access="rx" start="0x08000000" size="0x80000" default="1" startup="1"/>
      <memory name="Flash2" access="rx" start="0x08080000" size="0x80000" default="1"/>
      <memory name="OTP" access="r" start="0x1FFF7800" size="0x210"/>
      <memory name="SRAM 1" access="rwx" start="0x20000000" size="0x20000" default="1"/>
      <memory name="CCM" access="rw" start="0x10000000" size="0x10000"/>
    </device>
    <device Dname="TOY33">
      <processor Dcore="Cortex-M33" Dfpu="NO_FPU" Ddsp="NO_DSP" Dtz="TZ" Dendian="Little-endian"/>
      <memory name="Flash_NS" access="rxn" start="0x08000000" size="0x40000" default="1" startup="1"/>
      <memory name="Flash_S" access="rxs" start="0x0C000000" size="0x40000" alias="Flash_NS"/>
      <memory name="SRAM_NS" access="rwxn" start="0x20000000" size="0x8000" default="1"/>
      <memory name="SRAM_S" access="rwxs" start="0x30000000" size="0x8000" alias="SRAM_NS"/>
    </device>
    <device Dname="TOY7">
      <processor Pname="CM7" Dcore="Cortex-M7" Dfpu="DP_FPU" Dendian="Little-endian"/>
      <processor Pname="CM4" Dcore="Cortex-M4" Dfpu="SP_FPU" Dendian="Little-endian"/>
      <memory name="Flash" access="rx" start="0x08000000" size="0x40000" default="1" startup="1"/>
      <memory Pname="CM7" name="AXI" access="rwx" start="0x24000000" size="0x8000" default="1"/>
      <memory Pname="CM4" name="SRAM" access="rwx" start="0x10000000" size="0x4000" default="1"/>
    </device>
    <device Dname="TOY64"><processor Dcore="Cortex-M4" Dendian="Little-endian"/>
      <memory name="Flash" access="rx" start="0" size="0x40000" startup="1"/>
      <memory name="Far" access="rw" start="0x100000000" size="0x40000"/></device>
    <device Dname="TOY23"><processor Dcore="Cortex-M23" Dendian="Little-endian"/>
      <memory name="Flash" access="rx" start="0" size="0x40000" startup="1"/></device>
  </family></devices>
</package>
"""


def run(*words: str | Path) -> str:
    result = CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def new(folder: Path, device: str, *more: str) -> Path:
    (folder / "toy.pdsc").write_text(PDSC)
    run("board", "new", "toy", "--pdsc", folder / "toy.pdsc", "--device", device, "-o", folder / "toy.yaml", *more)
    return folder / "toy.yaml"


def test_the_list_has_every_board_in_a_line() -> None:
    lines = run("boards").splitlines()
    assert [line.split()[0] for line in lines[1:]] == list_boards()
    (line,) = (line for line in lines if line.startswith("nucleo-f746zg"))
    assert line.split() == ["nucleo-f746zg", "STM32F746ZGTx", "M7", "216", "MHz", "1M", "256K", "mps2-an500"]


def test_a_board_is_shown_in_full() -> None:
    text = run("boards", "nucleo-g071rb")
    for words in (
        "STM32G071RBTx", "cortex-m0plus (FPU none)", "64 MHz (hsi / 1 * 8 / 2)", "USART2, TX PA2, RX PA3, 115200 baud",
        "LD4 PA5", "pyOCD --target stm32g071rbtx", "OpenOCD target/stm32g0x.cfg",
        "QEMU machine mps2-an385 (its Cortex-M3",
        "in the emulator, not on hardware", "DS12232, RM0444, UM2324", "36K  rwx  RAM, stack 2K",
    ):  # fmt: skip
        assert words in text
    assert "64 MHz (the start-up goes back to the oscillator of the reset" in run("boards", "nucleo-n657x0-q")
    assert run("boards", "host").startswith("host: ")
    for name in list_boards():
        assert run("boards", name).startswith(f"{name}: ")


def test_the_table_of_the_documentation_is_the_list() -> None:
    text = (ROOT / "docs" / "boards.md").read_text(encoding="utf-8")
    table = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    listed = [line.split("  ") for line in run("boards").splitlines()[1:]]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in listed]
    for row, cell in zip(table, cells, strict=True):
        assert row[0].strip(" `") == cell[0]
        assert [row[1], row[2], row[3].removesuffix(" (reset)"), row[4], row[5], row[7].strip()] == cell[1:]


def test_lists_import_no_compiler() -> None:
    program = "import sys; from tvm_stm32.boards_cli import list_text; list_text(); print('tvm' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_board_from_a_pack_has_the_devices_core_and_memories(tmp_path: Path) -> None:
    board = load_board(new(tmp_path, "TOY4"))
    assert (board.name, board.device, board.target.cpu, board.target.fpu) == ("toy", "TOY4", "cortex-m4", "sp")
    assert (board.clock_hz, board.tried) == (168_000_000, "nowhere")
    # Two banks of flash that follow each other are one; OTP memory is none for an image.
    assert [(m.name, m.origin, m.size, m.access) for m in board.memories] == [
        ("FLASH", 0x08000000, 1 << 20, "rx"),
        ("CCM", 0x10000000, 64 << 10, "rw"),
        ("SRAM_1", 0x20000000, 128 << 10, "rwx"),
    ]
    assert (board.flash.name, board.ram.name) == ("FLASH", "SRAM_1")
    assert board.emulator is not None and board.emulator.machine == "mps2-an386"
    need_board("toy")
    build_program("int main(void) { return 0; }\n", board, tmp_path / "emulated")
    build_program("int main(void) { return 0; }\n", board, tmp_path / "chip", hardware=True)


def test_of_a_secure_and_a_non_secure_address_the_latter_is_taken(tmp_path: Path) -> None:
    board = load_board(new(tmp_path, "TOY33"))
    assert [memory.origin for memory in board.memories] == [0x08000000, 0x20000000]
    assert (board.target.dsp, board.target.fpu) == (False, "none")


def test_a_device_of_several_processors_needs_one_named(tmp_path: Path) -> None:
    with pytest.raises(Error, match=r"has several processors[\s\S]*CM7, CM4"):
        new(tmp_path, "TOY7")
    board = load_board(new(tmp_path, "TOY7", "--processor", "CM7"))
    assert board.target.cpu == "cortex-m7" and board.ram.name == "AXI"
    assert len(board.memories) == 2


def test_what_cannot_be_made_is_said(tmp_path: Path) -> None:
    with pytest.raises(Error, match=r"core that is not known: Cortex-M23[\s\S]*cortex-m33"):
        new(tmp_path, "TOY23")
    with pytest.raises(Error, match=r"no device .*TOY9"):
        new(tmp_path, "TOY9")
    with pytest.raises(
        Error, match=r"toy\.pdsc: device 'TOY64' makes no board file: memories\[1\]\.origin: 4294967296"
    ):
        new(tmp_path, "TOY64")
    assert not (tmp_path / "toy.yaml").exists()
    new(tmp_path, "TOY4")
    with pytest.raises(Error, match=r"toy\.yaml' exists"):
        new(tmp_path, "TOY4")
    with pytest.raises(Error, match=r"'Toy Board' is no name"):
        run("board", "new", "Toy Board", "--pdsc", tmp_path / "toy.pdsc", "--device", "TOY4", "-o", tmp_path / "x.yaml")
