"""The ai_* API behaves as its header says, on this computer and on each core."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tvm_stm32.boards import load_board
from tvm_stm32.project.emulator import run_image
from tvm_stm32.project.firmware import build_image
from tvm_stm32.resources import resource_dir
from tvm_stm32.toolchain import run_tool

HERE = Path(__file__).resolve().parent
NETWORK = HERE / "fake_network"


@pytest.mark.parametrize("board", ["host", "mps2-an385", "stm32f405", "mps2-an500", "mps2-an505", "mps3-an547"])
@pytest.mark.parametrize("optimize", ["-O0", "-O2"])
def test_every_function_and_error_text(board: str, optimize: str, tmp_path: Path) -> None:
    sources = [HERE / "api_checks.c", *sorted(NETWORK.glob("*.c"))]
    image = build_image(
        sources, [NETWORK], load_board(board), tmp_path, "checks", optimize=optimize, warnings_as_errors=True
    )
    run_image(image, load_board(board), timeout_s=20)


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
def test_header_is_clean_cpp(tmp_path: Path) -> None:
    source = tmp_path / "use.cpp"
    source.write_text(
        '#include "fake.h"\n#include "port.h"\nai_status use(ai_handle *h);\n'
        "ai_status use(ai_handle *h) { return ai_create(&ai_fake_network, nullptr, h); }\n",
        encoding="utf-8",
    )
    runtime = resource_dir("runtime")
    folders = [f"-I{folder}" for folder in (runtime / "include", NETWORK)]
    done = run_tool(
        ["g++", "-std=c++11", "-Wall", "-Wextra", "-Wundef", "-Werror", *folders, f"-I{runtime / 'port'}",
         "-fsyntax-only", source]
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
