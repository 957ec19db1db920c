"""Every board: the demo is built for its emulator and run, and built for the chip itself at its own addresses."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from support import ROOT, need_board

from tvm_stm32.boards import list_boards, load_board
from tvm_stm32.commands import Choice, compile_to_folder
from tvm_stm32.project.firmware import build_image
from tvm_stm32.project.image import Image
from tvm_stm32.project.inference import run_samples

DEMO = ROOT / "examples" / "digits"
_FOLDER = tempfile.TemporaryDirectory(prefix="tvm-stm32-boards-")


@cache
def demo(cpu: str) -> Path:
    """The digits network for a CPU, in the smallest form: it fits 8 KB of RAM."""
    folder = Path(_FOLDER.name) / cpu
    compile_to_folder(Choice(DEMO / "digits_int8.relay", cpu=cpu, level="size"), folder, with_runtime=False)
    return folder


def build(name: str, folder: Path, **options: bool) -> Path:
    board = load_board(name)
    network = demo(board.target.cpu)
    sources = sorted(network.glob("*.c"))
    return build_image(
        sources,
        [network],
        board,
        folder,
        "demo",
        network="digits_int8",
        optimize="-O1",
        warnings_as_errors=True,
        **options,  # type: ignore[arg-type]
    )


@cache
def samples() -> list[bytes]:
    with np.load(DEMO / "digits_test.npz") as data:
        name = next(key for key in data.files if key != "labels")
        return [array.tobytes() for array in data[name][:2]]


@cache
def expected() -> list[bytes]:
    return run_samples(build("host", Path(_FOLDER.name) / "reference"), load_board("host"), samples())[0]


@pytest.mark.parametrize("name", list_boards())
def test_the_demo_runs_in_its_emulator_and_links_for_the_chip(name: str, tmp_path: Path) -> None:
    need_board(name)
    board = load_board(name)
    assert board.tried == "emulated"
    outputs, _ = run_samples(build(name, tmp_path / "emulated"), board, samples())
    assert outputs == expected()
    # build_image() checks every section against the chip's memories.
    image = Image(build(name, tmp_path / "chip", hardware=True))
    stack, reset = image.words(board.flash.origin, 2) or [0, 0]
    assert stack == board.ram.end and board.flash.contains(reset)
