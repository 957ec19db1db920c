"""What the subcommands do, without the command line around it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from .boards import Board, load_board
from .capacity import check_capacity
from .emit import emit
from .emit.report import report, report_text
from .errors import Error, TargetError
from .files import write_atomically
from .frontends import detect_format
from .library import Library
from .quiet import quiet
from .resources import resource_dir
from .target import Target

DEFAULT_CPU = "cortex-m4"
RUNTIME_FILES = (
    "include/ai_runtime.h",
    "include/ai_kernels.h",
    "include/ai_kernels_dsp.h",
    "include/ai_kernels_mve.h",
    "src/ai_runtime.c",
)


def _compile(
    file: Path, board: str | None, cpu: str | None, level: str, params: Path | None, name: str
) -> tuple[Library, Board | None]:
    if board is not None and cpu is not None:
        raise TargetError("--board and --cpu are given both", why="a board says which CPU it has", hint="give one")
    chosen = load_board(board) if board is not None else None
    target = chosen.target if chosen is not None else Target.for_cpu(cpu or DEFAULT_CPU)
    detect_format(file)
    from .compiler import CompileOptions, compile_model

    with quiet():
        library = compile_model(file, CompileOptions(target, level, name), params)
    if chosen is not None:
        check_capacity(library, chosen)
    return library, chosen


def compile_to_folder(
    file: Path,
    folder: Path,
    board: str | None,
    cpu: str | None,
    level: str,
    params: Path | None,
    name: str,
    *,
    with_runtime: bool,
) -> Library:
    """Compile a model and write its files (and the runtime's) into ``folder``."""
    library, _ = _compile(file, board, cpu, level, params, name)
    emit(library, folder)
    if with_runtime:
        runtime = resource_dir("runtime")
        write_atomically({folder / Path(name).name: (runtime / name).read_bytes() for name in RUNTIME_FILES})
    return library


def inspect_model(file: Path, board: str | None, cpu: str | None, level: str, params: Path | None, name: str) -> str:
    """The report of a model as text."""
    library, _ = _compile(file, board, cpu, level, params, name)
    return report_text(report(library))


def run_model(
    file: Path,
    board: str,
    inputs: Path | None,
    outputs: Path | None,
    time_limit: float,
    level: str,
    params: Path | None,
    name: str,
) -> str:
    """Compile, build, run; writes ``outputs`` and returns a summary."""
    from .project.emulator import CountMethod
    from .project.evaluation import first_outputs, summary
    from .project.firmware import build_image
    from .project.inference import run_samples
    from .project.samples import read_samples, write_outputs

    if outputs is not None and not outputs.absolute().parent.is_dir():
        raise Error(f"the folder of the outputs '{outputs}' does not exist", hint="make it first")
    library, chosen = _compile(file, board, None, level, params, name)
    assert chosen is not None
    samples = read_samples(inputs, library.inputs)
    with tempfile.TemporaryDirectory(prefix="tvm-stm32-") as scratch:
        folder = Path(scratch)
        emit(library, folder)
        sources = [folder / f"{library.name}.c", folder / f"{library.name}_data.c"]
        image = build_image(
            sources, [folder], chosen, folder, "firmware", network=library.name, defines=["AI_USE_SECTIONS"]
        )
        count: CountMethod = "none" if chosen.is_host else "auto"
        results, run = run_samples(image, chosen, samples.packed, timeout_s=time_limit, count=count, cache_dir=folder)
        text = summary(image, chosen, library.name, library.macs, run)
        text += first_outputs(library.outputs, results)
    if outputs is not None:
        write_outputs(outputs, library.outputs, results, samples.stacked)
        text += f"outputs -> {outputs}\n"
    return text
