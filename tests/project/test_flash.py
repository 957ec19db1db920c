"""``tvm-stm32 flash``: which program is run with which arguments, and what is refused before any runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT, need_board

from tvm_stm32.boards import load_board
from tvm_stm32.project import flash

BOARD = "nucleo-f446re"

# Vectors, code, and a literal that looks like the instruction.
PROGRAM = """
    .syntax unified
    .cpu cortex-m4
    .thumb
    .word 0x20020000
    .word start + 1
    .thumb_func
    .global start
    .type start, %function
start:
    CALL
    ldr r0, =0xbeabbeab
    movw r1, #0xbeab
    b start
    .size start, . - start
    .ltorg
"""


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A computer on which only the programs in the folder returned are installed."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setattr(flash, "_FOLDERS", ())
    monkeypatch.delenv(flash.FLASHER_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def program(folder: Path, name: str, output: str = "", code: int = 0) -> Path:
    """A program that notes its arguments, one a line, and copies the files among them."""
    path = folder / name
    path.write_text(
        f"#!{sys.executable}\nimport os, shutil, sys\n"
        f"with open({str(folder / 'arguments')!r}, 'w') as stream:\n    stream.write('\\n'.join(sys.argv[1:]))\n"
        f"for word in sys.argv[1:]:\n    if os.path.isfile(word): shutil.copy(word, {str(folder / 'flashed')!r})\n"
        f"print({output!r})\nsys.exit({code})\n",
        encoding="utf-8",
    )
    path.chmod(0o755)
    return path


def image_at(folder: Path, address: int = 0x08000000, call: str = "nop", data: int | None = None) -> Path:
    """An image linked for an address; ``data`` is one of four bytes more."""
    path = os.environ["PATH"]
    os.environ["PATH"] = os.defpath + ":/usr/local/bin"
    try:
        need_board(BOARD)
        text = PROGRAM.replace("CALL", call)
        text += '\n    .section .more, "a"\n    .word 1\n' if data is not None else ""
        (folder / "program.s").write_text(text, encoding="utf-8")
        options = ["-nostdlib", "-mcpu=cortex-m4", f"-Wl,-Ttext={address:#x}", "-Wl,-estart", "-Wl,-n"]
        options += [f"-Wl,--section-start=.more={data:#x}"] if data is not None else []
        image = folder / "app.elf"
        subprocess.run(["arm-none-eabi-gcc", *options, folder / "program.s", "-o", image], check=True, timeout=60)
    finally:
        os.environ["PATH"] = path
    return image


def run(image: Path, *arguments: str, board: str = BOARD) -> tuple[int, str]:
    """Exit code and output of the command, in this process's PATH."""
    # Known folders of this machine must not decide what a test finds.
    start = (
        "import sys; from tvm_stm32.project import flash; flash._FOLDERS = (); from tvm_stm32.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", start, "flash", str(image), "--board", board, *arguments],
        capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


def arguments(folder: Path) -> list[str]:
    """What the program was called with."""
    return (folder / "arguments").read_text(encoding="utf-8").splitlines()


def test_pyocd_gets_the_target_of_the_board_file(bare: Path, tmp_path: Path) -> None:
    program(bare, "pyocd")
    program(bare, "openocd")
    image = image_at(tmp_path)
    code, output = run(image, "--serial", "066DFF")
    assert (code, output) == (0, "app.elf: 24 bytes at 0x08000000 of nucleo-f446re, by pyocd\n")
    expected = ["load", "--no-wait", "--target", "stm32f446retx", "--probe", "066DFF", "--format", "elf", str(image)]
    assert arguments(bare) == expected


def test_openocd_gets_interface_target_and_a_program_command(bare: Path, tmp_path: Path) -> None:
    program(bare, "openocd")
    folder = tmp_path / "with blanks"
    folder.mkdir()
    image = image_at(folder)
    assert run(image, "--serial", "1")[0] == 0
    assert arguments(bare) == [
        "-f", "interface/stlink.cfg", "-c", "adapter serial 1", "-f", "target/stm32f4x.cfg",
        "-c", f"program {{{image}}} verify reset exit",
    ]  # fmt: skip


def test_cubeprogrammer_verifies_and_resets(bare: Path, tmp_path: Path) -> None:
    program(bare, "STM32_Programmer_CLI")
    image = image_at(tmp_path)
    assert run(image, "--serial", "1")[0] == 0
    words = arguments(bare)
    assert words[:5] == ["-c", "port=SWD", "mode=UR", "sn=1", "-w"]
    assert (Path(words[5]).suffix, words[6:]) == (".elf", ["-v", "-rst"])
    assert (bare / "flashed").read_bytes() == image.read_bytes()


def test_st_flash_gets_the_bytes_with_gaps_as_erased_flash(bare: Path, tmp_path: Path) -> None:
    program(bare, "st-flash")
    image = image_at(tmp_path, 0x08004000, data=0x08004100)
    assert run(image, "--serial", "1")[0] == 0
    words = arguments(bare)
    assert words[:4] == ["--reset", "--serial", "1", "write"]
    assert words[5] == "0x08004000"
    content = (bare / "flashed").read_bytes()
    assert len(content) == 0x104
    assert content[24:0x100] == b"\xff" * (0x100 - 24)
    assert content[0x100:] == b"\x01\0\0\0"


def test_the_option_and_the_variable_choose_the_program(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = image_at(tmp_path)
    program(bare, "pyocd")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    own = program(elsewhere, "my-openocd")
    assert run(image, "--tool", str(own))[0] == 0
    assert arguments(elsewhere)[0] == "-f"
    monkeypatch.setenv(flash.FLASHER_VARIABLE, str(own))
    (elsewhere / "arguments").unlink()
    assert run(image)[0] == 0
    assert (elsewhere / "arguments").exists()
    assert "--tool is 'dfu-util'" in run(image, "--tool", "dfu-util")[1]
    code, output = run(image, "--tool", "st-flash")
    assert code == 1
    assert "--tool is 'st-flash', which was not found\n  try: apt-get install stlink-tools" in output


def test_a_program_that_does_not_know_the_board_is_passed_over(bare: Path, tmp_path: Path) -> None:
    image = image_at(tmp_path)
    program(bare, "openocd")
    program(bare, "st-flash")
    assert not load_board("nucleo-h563zi").probe.openocd  # type: ignore[union-attr] - the board file has one
    assert "by st-flash" in run(image, board="nucleo-h563zi")[1]
    code, output = run(image, "--tool", "openocd", board="nucleo-h563zi")
    assert code == 1
    assert "openocd cannot flash nucleo-h563zi\n  because: the board file has no probe.openocd" in output


def test_without_a_program_each_is_named_with_how_to_get_it(tmp_path: Path) -> None:
    code, output = run(image_at(tmp_path))
    assert code == 1
    assert output.startswith(
        f"error: there is no program to flash {BOARD} with\n  because: pyocd: not found (pip install"
    )
    for name in ("openocd", "STM32_Programmer_CLI", "st-flash", "TVM_STM32_FLASHER"):
        assert name in output


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pyocd", "0000321 E No available debug probes are connected [probe]"),
        ("openocd", "Info : clock speed 2000 kHz\nError: open failed"),
        ("STM32_Programmer_CLI", "Error: No debug probe detected."),
        ("st-flash", "Couldn't find any ST-Link devices"),
    ],
)
def test_no_probe_is_said_in_the_same_words(bare: Path, tmp_path: Path, name: str, said: str) -> None:
    program(bare, name, said, 1)
    code, output = run(image_at(tmp_path))
    assert code == 1
    assert output.startswith(f"error: {name} found no debug probe for {BOARD} (st-link)\n  because: ")
    assert said.splitlines()[-1] in output
    assert "try: connect the board by USB" in output


def test_a_failure_shows_what_the_program_said(bare: Path, tmp_path: Path) -> None:
    program(bare, "openocd", "Error: flash write failed at 0x08000000\nError: verify mismatch", 3)
    code, output = run(image_at(tmp_path))
    assert code == 1
    assert output.startswith(f"error: openocd could not flash app.elf onto {BOARD} (exit code 3)\n  because: ")
    assert "verify mismatch" in output


def test_an_image_of_the_emulator_is_refused(bare: Path, tmp_path: Path) -> None:
    program(bare, "pyocd")
    code, output = run(image_at(tmp_path, 0x0))
    assert code == 1
    assert "loaded at 0x00000000, outside FLASH (0x08000000, 512 KiB)" in output
    assert f"linked for the emulator of {BOARD}" in output
    assert not (bare / "arguments").exists()
    output = run(image_at(tmp_path, 0x0807FFF0))[1]
    assert "outside FLASH" in output
    assert "emulator" not in output


def test_a_semihosting_image_needs_a_word_for_it(bare: Path, tmp_path: Path) -> None:
    program(bare, "pyocd")
    image = image_at(tmp_path, call="bkpt 0xab")
    code, output = run(image)
    assert code == 1
    assert "app.elf talks to a debugger by semihosting (in start" in output
    assert not (bare / "arguments").exists()
    assert run(image, "--semihosting")[0] == 0
    # Another breakpoint is none of it.
    assert run(image_at(tmp_path, call="bkpt 0xac"))[0] == 0


def test_boards_and_files_that_cannot_be_flashed(bare: Path, tmp_path: Path) -> None:
    program(bare, "pyocd")
    image = image_at(tmp_path)
    code, output = run(image, board="mps2-an386")
    assert code == 1
    assert output.startswith(
        "error: board 'mps2-an386' has no debug probe to flash it with\n  because: it is emulated only"
    )
    assert "has no debug probe" in run(image, board="host")[1]
    assert "unknown board 'nucleo'" in run(image, board="nucleo")[1]
    assert "cannot read image" in run(tmp_path / "none.elf")[1]
    (tmp_path / "text.elf").write_text("no image", encoding="utf-8")
    code, output = run(tmp_path / "text.elf")
    assert (code, "is not a sound ELF file" in output) == (1, True)


def test_every_board_with_a_probe_is_known_to_a_program() -> None:
    from tvm_stm32.boards import list_boards

    probes = [board.probe for board in map(load_board, list_boards()) if board.probe is not None]
    assert len(probes) > 15
    for probe in probes:
        assert any(not flasher.cannot(probe) for flasher in flash.FLASHERS)
