"""Compile and link a program for a board or for this computer, without a build system.

``build_image`` is what ``tvm-stm32 run``, validation and benchmarks use; firmware repositories build with SCons or
CMake. Every source is compiled on every call.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ..boards import Board
from ..errors import CapacityError, FirmwareError, ToolchainError
from ..resources import resource_dir
from ..toolchain import find_gcc, find_host_cc, first_lines, run_tool
from .board_config import Console, board_config, chosen_console, port_files
from .image import check_image
from .linker import linker_script

WARNING_FLAGS = (
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Wdouble-promotion",
    "-Wmissing-prototypes",
    "-Wstrict-prototypes",
    "-Wshadow",
    "-Wundef",
    "-Wcast-qual",
    "-Wcast-align=strict",
    "-pedantic",
)
"""The warnings every C file of the project, generated or not, is free of (GCC's names)."""

# Warnings only GCC knows, left out for other host compilers.
_GCC_ONLY = frozenset({"-Wcast-align=strict"})

_SECTION_FLAGS = ("-ffunction-sections", "-fdata-sections")


@dataclass(frozen=True)
class _Unit:
    source: Path
    object: Path
    flags: tuple[str, ...]


def runtime_include_dirs() -> list[Path]:
    """Folders of the runtime's headers, for the compiler's ``-I``."""
    runtime = resource_dir("runtime")
    return [runtime / "include", runtime / "port"]


def runtime_sources(board: Board, *, hardware: bool = False, console: Console = "semihosting") -> list[Path]:
    """The C files of the ai_* runtime and of the port for ``board`` (start-up included)."""
    runtime = resource_dir("runtime")
    files = port_files(board, hardware=hardware, console=console)
    return [runtime / "src" / "ai_runtime.c", *(runtime / file for file in files)]


def runner_source() -> Path:
    """The application that runs any network on samples from a file."""
    return resource_dir("runtime") / "app" / "runner.c"


def runner_defines(network: str) -> list[str]:
    """What the runner needs defined for the network of that C name (as in ``ai_<name>_network``): ``NAME=VALUE``."""
    return [f"AI_RUNNER_NETWORK=ai_{network}_network", f'AI_RUNNER_HEADER="{network}.h"']


def build_image(
    sources: Sequence[Path],
    include_dirs: Iterable[Path],
    board: Board,
    out_dir: Path,
    name: str,
    *,
    network: str = "",
    optimize: str = "-O2",
    defines: Iterable[str] = (),
    flags: Iterable[str] = (),
    warnings_as_errors: bool = False,
    runtime: bool = True,
    jobs: int | None = None,
    hardware: bool = False,
    console: Console | None = None,
) -> Path:
    """Compile ``sources`` and link them with the runtime; returns ``out_dir/name.elf`` (host: ``out_dir/name``).

    ``network`` (a C name) adds the runner as the application and builds it for that network, whose header
    ``<network>.h`` is in ``include_dirs``; without it one of the sources has the ``main``. ``optimize`` is GCC's level,
    ``defines`` are ``NAME`` or ``NAME=VALUE``, ``flags`` more compiler flags, ``jobs`` compilers at a time (default:
    one a core). ``runtime=False`` leaves the ai_* runtime and the port out. The map file is beside the image, ``.map``.

    Images are for the board's emulator: its addresses, no clocks, a console through semihosting. ``hardware`` makes one
    for the board itself, whose start-up sets up clocks and caches; its ``console`` is the board's UART where it is
    known, or ``semihosting`` for a debugger. ``console="uart"`` implies ``hardware``.

    Raises :class:`ToolchainError` with the command and the first lines of its output, :class:`CapacityError` when the
    image does not fit, :class:`FirmwareError` when it is malformed. Image and map appear whole or not at all.
    """
    compiler = find_host_cc() if board.is_host else find_gcc()
    hardware = hardware or console == "uart"
    console = chosen_console(board, hardware=hardware, console=console)
    common = _common_flags(board, compiler, optimize, [*include_dirs, *runtime_include_dirs()], warnings_as_errors)
    common += [*flags, *(f"-D{define}" for define in defines)]
    objects = out_dir / "obj" / name
    objects.mkdir(parents=True, exist_ok=True)
    if hardware:
        (objects / "board_config.h").write_text(board_config(board, console), encoding="utf-8")
        common += ["-DPORT_BOARD=1", f"-I{objects}"]
    groups: list[tuple[str, list[Path], list[str]]] = [("network", list(sources), [])]
    # The runtime does nothing per element, so it is built for size; the last -O counts.
    if runtime:
        files = runtime_sources(board, hardware=hardware, console=console)
        groups.append(("runtime", files, ["-Os"]))
    if network:
        extra = ["-Os", *(f"-D{define}" for define in runner_defines(network))]
        groups.append(("runner", [runner_source()], extra))
    units = [
        _Unit(source, objects / f"{prefix}_{index}_{source.stem}.o", (*common, *unit_flags))
        for prefix, files, unit_flags in groups
        for index, source in enumerate(files)
    ]
    with ThreadPoolExecutor(max_workers=jobs or os.cpu_count() or 1) as pool:
        # list() takes the first failure out of the pool; the others finish unseen.
        list(pool.map(lambda unit: _compile(compiler, unit), units))
    image = out_dir / (name if board.is_host else f"{name}.elf")
    _link(compiler, [unit.object for unit in units], board, image, emulated=not hardware)
    return image


def _common_flags(
    board: Board, compiler: Path, optimize: str, include_dirs: Iterable[Path], warnings_as_errors: bool
) -> list[str]:
    is_gcc = not board.is_host or "clang" not in run_tool([compiler, "--version"], timeout_s=30).stdout
    warnings = [flag for flag in WARNING_FLAGS if is_gcc or flag not in _GCC_ONLY]
    return [
        *board.target.compile_flags,
        "-std=c99",
        optimize,
        "-g",
        *_SECTION_FLAGS,
        *warnings,
        *(["-Werror"] if warnings_as_errors else []),
        *(f"-I{folder}" for folder in include_dirs),
    ]


def _compile(compiler: Path, unit: _Unit) -> None:
    unit.object.unlink(missing_ok=True)
    _run([compiler, *unit.flags, "-c", unit.source, "-o", unit.object], f"{unit.source.name} does not compile")


def _link(compiler: Path, objects: list[Path], board: Board, image: Path, *, emulated: bool) -> None:
    map_file = image.with_name(f"{image.name.removesuffix('.elf')}.map")
    temporary = image.with_name(f".{image.name}.part")
    temporary_map = map_file.with_name(f".{map_file.name}.part")
    command: list[str | Path] = [compiler, *board.target.compile_flags, *objects, "-o", temporary]
    if board.is_host:
        command += ["-lm"]
    else:
        script = objects[0].parent / "image.ld"
        script.write_text(linker_script(board, emulated=emulated), encoding="utf-8")
        command += ["-nostartfiles", "--specs=nano.specs", "-Wl,--gc-sections"]
        # Else the first segment begins at a page of 64K, before a flash (or RAM) that begins elsewhere.
        command += [] if emulated else ["-Wl,-z,max-page-size=1024"]
        # Not -Wl, which splits a path at its commas.
        command += ["-T", script, "-Xlinker", f"-Map={temporary_map}", "-lm"]
    try:
        _run(command, f"{image.name} does not link")
        if not board.is_host:
            check_image(temporary, board, emulated=emulated)
            temporary_map.replace(map_file)
        temporary.replace(image)
    finally:
        temporary.unlink(missing_ok=True)
        temporary_map.unlink(missing_ok=True)


def _run(command: Sequence[str | Path], problem: str) -> None:
    done = run_tool(command)
    if done.returncode == 0:
        return
    output = done.stderr or done.stdout
    overflow = re.findall(r"region `\w+' overflowed by \d+ bytes|no room for the stack: [\w ]+", output)
    if overflow:
        raise CapacityError(f"{problem}: the image is larger than the board's memories", why="; ".join(overflow))
    if "vector table" in output:
        raise FirmwareError(f"{problem}: " + next(line for line in output.splitlines() if "vector table" in line))
    raise ToolchainError(
        f"{problem} (exit code {done.returncode})",
        why=first_lines(output),
        hint="the command was: " + " ".join(str(word) for word in command),
    )
