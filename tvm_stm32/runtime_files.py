"""The ai_* runtime as commands write it into a folder; without the packages that generate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .c_api import runtime_files
from .depfile import Record, package_dependencies
from .files import make_folder, write_atomically
from .resources import resource_dir

RUNTIME_FILES = (
    "include/ai_runtime.h",
    "include/ai_runtime.hpp",
    "include/ai_blocks.h",
    "include/ai_kernels.h",
    "include/ai_kernels_dsp.h",
    "include/ai_kernels_float.h",
    "include/ai_kernels_mve.h",
    "include/ai_tvm_shim.h",
    "src/ai_runtime.c",
    "src/ai_nolibc.c",
)


def runtime_sources(c_apis: Sequence[str]) -> list[Path]:
    """Our files of the runtime, and those that C interfaces add."""
    names = dict.fromkeys([*RUNTIME_FILES, *(name for c_api in c_apis for name in runtime_files(c_api))])
    return [resource_dir("runtime") / name for name in names]


def copy_runtime(folder: Path, c_apis: Sequence[str], *, keep_unchanged: bool) -> None:
    """Write them into ``folder``, which is there."""
    contents = {folder / source.name: source.read_bytes() for source in runtime_sources(c_apis)}
    write_atomically(contents, keep_unchanged=keep_unchanged)


def runtime_to_folder(folder: Path, c_apis: Sequence[str], made: Record) -> None:
    """:func:`copy_runtime` as a command of its own."""
    make_folder(folder)
    copy_runtime(folder, c_apis, keep_unchanged=bool(made))
    own = package_dependencies("c_api.py", "runtime_files.py")
    made.write(folder / "ai_runtime.c", lambda: [*runtime_sources(c_apis), *own])
