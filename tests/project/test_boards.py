"""Board files load into boards, and wrong ones are named with file and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from tvm_stm32.boards import HOST, list_boards, load_board
from tvm_stm32.errors import TargetError

GOOD = """\
name: mine
title: My board
cpu: cortex-m7
clock_hz: 400000000
memories:
  - {name: FLASH, origin: 0x08000000, size: 2M, access: rx}
  - {name: QSPI, origin: 0x90000000, size: 64M, access: rx}
  - {name: AXI, origin: 0x24000000, size: 512K, access: rwx}
image: {flash: FLASH, weights: QSPI, ram: AXI, stack: 8K}
emulator:
  machine: mps2-an500
  clock_hz: 25000000
  icount_shift: 6
  memories:
    - {name: CODE, origin: 0x00000000, size: 4M, access: rx}
    - {name: SRAM, origin: 0x20000000, size: 4M, access: rwx}
  image: {flash: CODE, weights: CODE, ram: SRAM}
"""


def board_file(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_boards_that_come_with_the_project() -> None:
    assert list_boards() == [
        "mps2-an385", "mps2-an386", "mps2-an500", "mps2-an505", "mps3-an547", "netduino2", "stm32f405",
    ]  # fmt: skip


@pytest.mark.parametrize("name", list_boards())
def test_every_board_loads_under_its_file_name(name: str) -> None:
    board = load_board(name)
    assert board.name == name
    assert board.emulator is not None
    for role in ("flash", "weights", "ram"):
        assert board.memory(role, emulated=True).size <= board.memory(role).size  # type: ignore[arg-type]


def test_the_stm32f405_uses_the_chips_main_ram_in_the_emulator_too() -> None:
    board = load_board("stm32f405")
    assert board.target.cpu == "cortex-m4"
    assert (board.flash.origin, board.flash.size) == (0x08000000, 1024 * 1024)
    assert board.ram.size == board.memory("ram", emulated=True).size == 128 * 1024
    assert [memory.name for memory in board.memories] == ["FLASH", "SRAM", "CCM"]


def test_host_is_a_board_without_memories() -> None:
    assert load_board("host") is HOST
    assert HOST.is_host
    with pytest.raises(TargetError, match="has no memory"):
        _ = HOST.flash


def test_a_board_of_ones_own_keeps_its_sizes_at_the_emulators_addresses(tmp_path: Path) -> None:
    board = load_board(board_file(tmp_path, GOOD))
    assert (board.weights.name, board.weights.origin) == ("QSPI", 0x90000000)
    assert board.stack_size == 8192
    flash, ram = board.memory("flash", emulated=True), board.memory("ram", emulated=True)
    assert (flash.name, flash.origin, flash.size) == ("CODE", 0, 2 * 1024 * 1024)
    assert (ram.name, ram.origin, ram.size) == ("SRAM", 0x20000000, 512 * 1024)


def test_features_replace_the_cores_usual_ones(tmp_path: Path) -> None:
    text = GOOD.replace("cpu: cortex-m7\n", "cpu: cortex-m33\nfeatures: {dsp: false, fpu: none}\n")
    target = load_board(board_file(tmp_path, text)).target
    assert (target.cpu, target.dsp, target.fpu) == ("cortex-m33", False, "none")


def test_an_unknown_board_lists_the_known_ones() -> None:
    with pytest.raises(TargetError, match=r"unknown board 'stm32f999'[\s\S]*host, mps2-an385.*stm32f405"):
        load_board("stm32f999")


def test_a_missing_board_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"'.*nothing\.yaml' does not exist"):
        load_board(tmp_path / "nothing.yaml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("clock_hz: 400000000\n", "clock_hz: fast\n", r"mine\.yaml: clock_hz: 'fast' is not of type 'integer'"),
        ("title: My board\n", "", r"mine\.yaml: file: 'title' is a required property"),
        ("title: My board\n", "title: x\ncolour: red\n", r"mine\.yaml: file: unknown key 'colour'; one of: clock_hz, "),
        ("access: rwx}\nimage", "access: w}\nimage", r"mine\.yaml: memories\[2\]\.access: 'w' is not one of"),
        ("cpu: cortex-m7", "cpu: cortex-m99", r"mine\.yaml: cpu: unknown CPU 'cortex-m99'"),
        ("ram: AXI", "ram: DTCM", r"mine\.yaml: image\.ram: .*no memory 'DTCM'[\s\S]*FLASH, QSPI, AXI"),
        ("ram: AXI", "ram: QSPI", r"mine\.yaml: image\.ram: memory 'QSPI' is 'rx', without 'w'"),
        ("ram: SRAM", "ram: DRAM", r"mine\.yaml: emulator\.image\.ram: .*no memory 'DRAM'"),
        ("weights: QSPI", "weights: NOR", r"mine\.yaml: image\.weights: .*no memory 'NOR'"),
        ("0x90000000", "0x08100000", r"mine\.yaml: memories\[1\]: 'QSPI' overlaps 'FLASH'"),
        ("0x90000000", "0xFFFFF000", r"mine\.yaml: memories\[1\]: 'QSPI' ends beyond"),
        ("name: QSPI", "name: FLASH", r"mine\.yaml: memories\[1\]: a second memory named 'FLASH'"),
        ("stack: 8K", "stack: 1M", r"mine\.yaml: image\.stack: 1048576 bytes do not fit AXI"),
        ("name: mine", "name: [", r"cannot read board file .*mine\.yaml"),
    ],
)
def test_a_wrong_board_file_is_named_with_its_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(TargetError, match=message):
        load_board(board_file(tmp_path, GOOD.replace(old, new, 1)))
