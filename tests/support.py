"""Shared by the tests: where test data lies, and running a network on a board."""

from __future__ import annotations

import functools
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from tvm_stm32.boards import load_board
from tvm_stm32.emit import emit
from tvm_stm32.emit.report import SCHEMA_FILE, report
from tvm_stm32.library import Library
from tvm_stm32.project.emulator import RunResult
from tvm_stm32.project.firmware import build_image
from tvm_stm32.project.inference import run_samples
from tvm_stm32.target import Target

ROOT = Path(__file__).resolve().parent.parent
# Models and fixtures too large for the repository; the tests that need them say what is absent.
SHARED = Path(os.environ.get("TVM_STM32_TEST_DATA", ROOT.parent / "shared"))
MLPERF_TINY = SHARED / "models" / "mlperf_tiny"

# A board for each core the project promises the same bytes on.
CORE_BOARDS = {
    "cortex-m3": "mps2-an385",
    "cortex-m4": "mps2-an386",
    "cortex-m7": "mps2-an500",
    "cortex-m33": "mps2-an505",
    "cortex-m55": "mps3-an547",
}


def shared(path: Path) -> Path:
    """``path`` below the shared test data; skips the test, naming the path, where it is absent."""
    if not path.exists():
        pytest.skip(f"test data is absent: {path}")
    return path


def need_board(board: str) -> None:
    """Skip, naming the tool, when ``board`` cannot be built for and emulated here."""
    tools = ["cc"] if board == "host" else ["arm-none-eabi-gcc", "qemu-system-arm"]
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")


def _closed(schema: Any) -> Any:
    """The schema with keys it does not name forbidden: what we write is all described."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _closed(value) for key, value in schema.items()}
    if isinstance(found.get("properties"), dict) and "additionalProperties" not in found:
        found["additionalProperties"] = False
    return found


@functools.cache
def _report_validator() -> Any:
    return jsonschema.Draft202012Validator(_closed(json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))))


def checked_report(library: Library) -> dict[str, Any]:
    """The report of ``library`` as a reader of its JSON has it; it keeps its schema."""
    facts = json.loads(json.dumps(report(library), allow_nan=False))
    _report_validator().validate(facts)
    return dict(facts)


def build_and_run(
    library: Library,
    board_name: str,
    samples: list[bytes],
    folder: Path,
    *,
    count: bool = False,
    optimize: str = "-O2",
    cpu: str = "",
) -> tuple[list[bytes], RunResult]:
    """Emit, compile (warnings are errors), link and run; the packed outputs of each sample.

    Code is for the core ``cpu`` where that is not the board's: an M3 also runs code for the M0+.
    """
    need_board(board_name)
    board = load_board(board_name)
    if cpu:
        board = replace(board, target=Target.for_cpu(cpu))
    emit(library, folder)
    checked_report(library)
    sources = [folder / f"{library.name}.c", folder / f"{library.name}_data.c"]
    image = build_image(
        sources,
        [folder],
        board,
        folder,
        "test",
        network=library.name,
        optimize=optimize,
        defines=["AI_USE_SECTIONS"],
        warnings_as_errors=True,
    )
    method = "plugin" if count and not board.is_host else "none"
    return run_samples(image, board, samples, count=method, cache_dir=folder, timeout_s=120)


def random_bytes(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Codes of the whole int8 range."""
    return generator.integers(-128, 128, shape).astype(np.int8)
