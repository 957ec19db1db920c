"""Board files load into boards, and wrong ones are named with file and key."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest

from tvm_stm32.boards import HOST, list_boards, load_board
from tvm_stm32.errors import TargetError
from tvm_stm32.resources import resource_dir

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
    names = list_boards()
    assert {"mps2-an385", "mps2-an386", "mps2-an500", "mps2-an505", "mps3-an547", "netduino2", "stm32f405"} < set(names)
    assert len(names) >= 25
    # The families of the STM32 line-up that a network fits, each at least once.
    families = {load_board(name).device[5:7] for name in names} - {""}
    assert families == {"F1", "F2", "F4", "F7", "G0", "G4", "H5", "H7", "L4", "N6", "U5", "WB"}


@pytest.mark.parametrize("name", list_boards())
def test_every_board_fits_the_schema(name: str, tmp_path: Path) -> None:
    # Files of others are checked; boards that come with the project are taken as they are.
    copy = tmp_path / f"{name}.yaml"
    shutil.copy(resource_dir("boards") / copy.name, copy)
    assert load_board(copy) == load_board(name)


@pytest.mark.parametrize("name", list_boards())
def test_every_board_loads_under_its_file_name(name: str) -> None:
    board = load_board(name)
    assert board.name == name
    assert board.emulator is not None
    for role in ("flash", "weights", "ram"):
        assert board.memory(role, emulated=True).size <= board.memory(role).size  # type: ignore[arg-type]
    assert board.source and (not board.device or board.probe is not None)
    # Every memory of the chip has a place of its own in the emulator.
    if board.emulator.memories:
        places = sorted(board.emulator.memories, key=lambda memory: memory.origin)
        assert {memory.name for memory in places} == {memory.name for memory in board.memories}
        assert all(low.end <= high.origin for low, high in itertools.pairwise(places))


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
    with pytest.raises(TargetError, match=r"unknown board 'stm32f999'[\s\S]*host, b-u585i.*mps2-an385.*stm32f405"):
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


NUCLEO = """\
name: mine
title: My board
device: STM32F446RETx
cpu: cortex-m4
clock_hz: 180000000
clocks: {source: hse, source_hz: 8000000, m: 8, n: 360, p: 2, apb1: 4, apb2: 2}
console: {uart: USART2, tx: PA2, rx: PA3, af: 7}
memories:
  - {name: FLASH, origin: 0x08000000, size: 512K, access: rx}
  - {name: SRAM, origin: 0x20000000, size: 128K, access: rwx}
image: {flash: FLASH, ram: SRAM}
emulator: {stand_in: mps2-an386}
"""


NUCLEO_CLOCK = "180000000\nclocks: {source: hse, source_hz: 8000000, m: 8, n: 360"
FAST_CLOCK = NUCLEO_CLOCK.replace("18", "20", 1).replace("360", "400")


def test_a_stand_in_has_the_boards_memories_at_the_machines_addresses(tmp_path: Path) -> None:
    board = load_board(board_file(tmp_path, NUCLEO))
    assert board.emulator is not None and board.emulator.machine == "mps2-an386"
    assert [(m.name, m.origin, m.size) for m in board.emulator.memories] == [
        ("FLASH", 0, 512 << 10), ("SRAM", 0x20000000, 128 << 10),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("m: 8", "m: 1", r"clocks\.m: 1 is not within 2 to 63 \(RM0390\)"),
        ("m: 8", "m: 2", r"clocks\.m: the PLL's input would be 4 MHz; the chip takes 0\.95 to 2\.1"),
        ("n: 360", "n: 433", r"clocks\.n: 433 is not within 50 to 432"),
        ("n: 360", "n: 80", r"clocks\.n: the PLL's oscillator would be 80 MHz; the chip takes 100 to 432"),
        ("p: 2", "p: 3", r"clocks\.p: 3 is not one of 2, 4, 6, 8"),
        ("p: 2", "r: 2", r"clocks\.r: the PLL of this chip has 'p' as its divider"),
        ("n: 360", "n: 336", r"clock_hz: the PLL gives 168 MHz, not 180"),
        (NUCLEO_CLOCK, FAST_CLOCK, r"clocks\.n: the core's clock would be 200 MHz; the chip takes at most 180"),
        ("apb1: 4", "apb1: 2", r"clocks\.apb1: the clock of APB1 would be 90 MHz; the chip takes at most 45"),
        ("apb2: 2", "apb2: 3", r"clocks\.apb2: 3 is not one of \[1, 2, 4, 8, 16\]"),
        ("source_hz: 8000000, ", "", r"clocks\.source_hz: 'hse' needs its frequency"),
        ("source: hse, source_hz: 8000000", "source: csi", r"clocks\.source: the PLL takes hse, hse-bypass, hsi"),
        ("apb2: 2}", "apb2: 2, ahb: 2}", r"clocks\.ahb: this chip's bus runs at the core's clock"),
        ("apb2: 2}", "apb2: 2, supply: smps}", r"clocks\.supply: this chip has no choice of it"),
        ("STM32F446RETx", "STM32F999ZZ", r"clocks: nothing is known of the clocks of 'STM32F999ZZ'"),
        ("uart: USART2", "uart: UART9", r"console\.uart: 'UART9' is not known[\s\S]*USART1, USART2, USART3, USART6"),
        ("tx: PA2", "tx: PA16", r"console\.tx: 'PA16' does not match"),
        (", af: 7", "", r"console\.af: it is needed"),
        ("stand_in: mps2-an386", "stand_in: mps2-an999", r"emulator\.stand_in: no machine 'mps2-an999'[\s\S]*an385"),
        ("size: 512K", "size: 8M", r"emulator\.stand_in: memory 'FLASH' \(8,388,608 bytes\) does not fit mps2-an386"),
    ],
)  # fmt: skip
def test_clocks_the_chip_does_not_take_are_refused_with_their_key(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in NUCLEO
    with pytest.raises(TargetError, match=r"mine\.yaml: " + message):
        load_board(board_file(tmp_path, NUCLEO.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("nucleo-wb55rg", "source: hsi, m: 1, n: 8", "source: hse-bypass, source_hz: 32000000, m: 2, n: 8",
         r"clocks\.source: the HSE of this chip takes a crystal"),
        ("nucleo-h743zi2", "p: 2", "p: 1", r"clocks\.p: 1 is not one of 2, 4"),
        ("nucleo-h7a3zi-q", "n: 280", "n: 421", r"clocks\.n: 421 is not within 8 to 420"),
        ("nucleo-g071rb", "m: 1", "m: 2", r"clocks\.n: .* 64 MHz; the chip takes 96 to 344"),
    ],
)  # fmt: skip
def test_limits_that_only_some_families_have(tmp_path: Path, name: str, old: str, new: str, message: str) -> None:
    text = Path(resource_dir("boards") / f"{name}.yaml").read_text(encoding="utf-8")
    assert old in text
    with pytest.raises(TargetError, match=message):
        load_board(board_file(tmp_path, text.replace(old, new, 1)))


def test_the_core_supply_of_an_h7_is_not_guessed(tmp_path: Path) -> None:
    text = Path(resource_dir("boards") / "nucleo-h743zi2.yaml").read_text(encoding="utf-8")
    for old, new in ((", supply: ldo", ""), ("supply: ldo", "supply: smps")):
        with pytest.raises(TargetError, match=r"clocks\.supply: the board's supply of the core is needed: ldo"):
            load_board(board_file(tmp_path, text.replace(old, new)))
