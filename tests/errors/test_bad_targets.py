"""Boards that are wrong or too small, and tools that are missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT, need_board
from tflite_builder import dense

DIGITS = ROOT / "examples" / "digits" / "digits_int8.onnx"
BOARD = """
name: tiny
title: A board of the tests
cpu: cortex-m4
clock_hz: 16000000
memories:
  - {name: FLASH, origin: 0x00000000, size: %(flash)s, access: rx}
  - {name: RAM, origin: 0x20000000, size: %(ram)s, access: rwx}
image: {flash: FLASH, ram: RAM, stack: %(stack)s}
emulator: {machine: mps2-an386, clock_hz: 25000000, icount_shift: 5}
"""


def board_file(folder: Path, text: str = BOARD, **sizes: str) -> Path:
    path = folder / "tiny.yaml"
    path.write_text(text % {"flash": "4M", "ram": "4M", "stack": "2K", **sizes} if text == BOARD else text)
    return path


def test_model_larger_than_the_flash(refused, tmp_path):
    message = refused("compile", DIGITS, "-o", tmp_path / "out", "--board", board_file(tmp_path, flash="8K"))
    assert "digits_int8.onnx does not fit tiny" in message
    assert "bytes of flash and the board has 8,192" in message
    assert not (tmp_path / "out").exists()


def test_model_larger_than_the_ram(refused, tmp_path):
    message = refused("run", DIGITS, "--board", board_file(tmp_path, ram="4K"))
    assert "the arena needs 2,112 bytes of RAM beside 2,048 of stack and the board has 4,096 (64 too many)" in message


@pytest.mark.parametrize(("sizes", "region"), [({"flash": "12K"}, "FLASH"), ({"ram": "4320"}, "RAM|stack")])
def test_program_that_only_the_linker_finds_too_large(sizes, region, refused, tmp_path):
    need_board("stm32f405")
    message = refused("run", DIGITS, "--board", board_file(tmp_path, **sizes))
    assert "larger than the board's memories" in message
    assert any(word in message for word in region.split("|"))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (("size: 4M", "size: -4"), "memories[0].size"),
        (("size: 4M", "size: 0"), "memories[0].size"),
        (("size: 4M", "size: 99999999M"), "memories[0]"),
        (("size: 4M", "size: 1.5"), "memories[0].size"),
        (("clock_hz: 16000000", "clock_hz: fast"), "clock_hz"),
        (("title: A", "colour: red\ntitle: A"), "colour"),
        (("cortex-m4", "cortex-m99"), "cpu"),
        (("image: {flash: FLASH", "image: {flash: ROM"), "image.flash"),
        (("stack: 2K", "stack: 8M"), "image.stack"),
        (("title: A", "title: !!python/object/apply:os.system ['touch pwned'] #"), "cannot read board file"),
        (("title: A", "title: [[["), "cannot read board file"),
        (("title: A", "title: 2024-99-99 #"), "cannot read board file"),
        (("title: A board", "title: &a board\nother: *a"), "aliases"),
        (("name: tiny", "1: 2\nname: tiny"), "1"),
    ],
)
def test_board_file_with_a_mistake(change, text, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    good = BOARD % {"flash": "4M", "ram": "2M", "stack": "2K"}
    message = refused("inspect", DIGITS, "--board", board_file(tmp_path, good.replace(*change)))
    assert "tiny.yaml" in message and text in message
    assert not (tmp_path / "pwned").exists()


def test_board_file_of_ten_lines_that_stands_for_gigabytes(refused, tmp_path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    assert "aliases" in refused("inspect", DIGITS, "--board", board_file(tmp_path, "\n".join(lines)))


def test_board_file_nested_deeply(refused, tmp_path):
    assert "tiny.yaml" in refused("inspect", DIGITS, "--board", board_file(tmp_path, "[" * 20000))


def test_whole_numbers_may_be_written_with_a_point(command, tmp_path):
    good = BOARD % {"flash": "4194304.0", "ram": "2M", "stack": "2048.0"}
    assert command("inspect", DIGITS, "--board", board_file(tmp_path, good)).code == 0


@pytest.mark.parametrize("name", ["none", "../../etc/passwd", "/etc/passwd", "..", "", "x" * 300, "stm32f405\n"])
def test_board_name_that_is_none(name, refused):
    message = refused("inspect", DIGITS, "--board", name)
    assert "board" in message
    assert "root:" not in message


def test_title_cannot_reach_the_linker(command, tmp_path):
    need_board("stm32f405")
    text = BOARD.replace("A board of the tests", "'*/ garbage {'") % {"flash": "4M", "ram": "4M", "stack": "2K"}
    board = board_file(tmp_path, text)
    assert command("linker-script", "--board", board, "-o", tmp_path / "image.ld").code == 0
    assert "*/ garbage" not in (tmp_path / "image.ld").read_text()


def test_no_compiler(refused, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    for variable in ("ARM_NONE_EABI_GCC", "CC"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("tvm_stm32.toolchain._GCC_FOLDERS", ())
    message = refused("run", DIGITS, "--board", "stm32f405")
    assert "arm-none-eabi-gcc was not found" in message and "install" in message
    assert "no C compiler for this computer" in refused("run", DIGITS, "--board", "host")


def test_no_emulator(refused, tmp_path, monkeypatch):
    need_board("stm32f405")
    monkeypatch.setenv("QEMU_SYSTEM_ARM", str(tmp_path / "none"))
    assert "QEMU_SYSTEM_ARM is" in refused("run", DIGITS, "--board", "stm32f405")


@pytest.mark.parametrize(
    ("module", "package", "model"),
    [("tflite", "tflite", "m.tflite"), ("onnx", "onnx", "m.onnx"), ("tvm", "apache-tvm", "m.tflite")],
)
def test_missing_python_package(module, package, model, tmp_path):
    blocked = tmp_path / "blocked" / module
    blocked.mkdir(parents=True)
    (blocked / "__init__.py").write_text(
        f"raise ModuleNotFoundError(\"No module named '{module}'\", name='{module}')\n"
    )
    (tmp_path / "m.tflite").write_bytes(dense().build())
    (tmp_path / "m.onnx").write_bytes(DIGITS.read_bytes())
    done = subprocess.run(
        [sys.executable, "-m", "tvm_stm32", "compile", tmp_path / model, "-o", tmp_path / "out"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(blocked.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"error: the Python package '{package}' cannot be imported" in done.stderr
    assert f"pip install '{package}" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
