"""Programs for the tests: a hand-written network, and small applications that go wrong on purpose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tvm_stm32.boards import Board
from tvm_stm32.project.firmware import build_image

FAKE_NETWORK = Path(__file__).resolve().parent.parent / "runtime" / "fake_network"
"""Folder of a network that adds 1 to each of its 16 input bytes, one stack-hungry variant behind FAKE_STACK."""


def build_program(text: str, board: Board, folder: Path, **options: Any) -> Path:
    """An image whose application is the C program ``text`` (with port.h included)."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "program.c"
    source.write_text('#include "port.h"\n' + text, encoding="utf-8")
    return build_image([source], [], board, folder, "program", **options)


def build_fake(board: Board, folder: Path, **options: Any) -> Path:
    """The runner with the fake network."""
    sources = sorted(FAKE_NETWORK.glob("*.c"))
    return build_image(
        sources,
        [FAKE_NETWORK],
        board,
        folder,
        "fake",
        network="fake",
        warnings_as_errors=True,
        **options,
    )
