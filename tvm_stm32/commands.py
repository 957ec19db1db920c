"""What the subcommands do, without the command line around it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from .boards import Board, load_board
from .capacity import check_capacity
from .emit import emit
from .emit.report import report, report_text
from .errors import Error, ModelError, TargetError
from .files import check_model_file, write_atomically
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
    "include/ai_tvm_shim.h",
    "src/ai_runtime.c",
)


@dataclass(frozen=True)
class Choice:
    """A model and what to compile it for: a board, or a CPU without one (default: cortex-m4)."""

    file: Path
    board: str | None = None
    cpu: str | None = None
    level: str = "time"
    params: Path | None = None
    name: str = ""
    input_layout: str = "file"
    input_shapes: tuple[str, ...] = ()
    module: str = ""
    storage: str = "planned"


def _compile(choice: Choice) -> tuple[Library, Board | None]:
    if choice.board is not None and choice.cpu is not None:
        raise TargetError("--board and --cpu are given both", why="a board says which CPU it has", hint="give one")
    chosen = load_board(choice.board) if choice.board is not None else None
    target = chosen.target if chosen is not None else Target.for_cpu(choice.cpu or DEFAULT_CPU)
    for path in (choice.file, *([choice.params] if choice.params is not None else [])):
        check_model_file(path)
    detect_format(choice.file)
    from .compiler import CompileOptions, compile_model

    with quiet():
        shapes = dict(_input_shape(text) for text in choice.input_shapes)
        if len(shapes) != len(choice.input_shapes):
            raise Error("--input-shape is there twice for one input", hint="give each input one shape")
        options = CompileOptions(
            target, choice.level, choice.name, choice.input_layout, shapes, choice.module, choice.storage
        )
        library = compile_model(choice.file, options, choice.params)
    if chosen is not None:
        check_capacity(library, chosen)
    return library, chosen


def _input_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """``name:1,49,10,1`` as name and shape; names may hold colons."""
    name, _, extents = text.rpartition(":")
    try:
        shape = tuple(int(extent) for extent in extents.split(","))
    except ValueError:
        shape = ()
    if not name or not shape or min(shape) < 1:
        raise Error(
            f"--input-shape '{text}' is no NAME:EXTENT,EXTENT,...",
            hint="for example input:1,49,10,1; extents start at 1",
        )
    return name, shape


def compile_to_folder(choice: Choice, folder: Path, *, with_runtime: bool) -> Library:
    """Compile a model and write its files (and the runtime's) into ``folder``."""
    library, _ = _compile(choice)
    emit(library, folder)
    if with_runtime:
        runtime = resource_dir("runtime")
        write_atomically({folder / Path(name).name: (runtime / name).read_bytes() for name in RUNTIME_FILES})
    return library


def emit_archive(choice: Choice, folder: Path, *, with_runtime: bool) -> Library:
    """:func:`compile_to_folder` for a Model Library Format archive, and nothing else."""
    kind = detect_format(choice.file)
    if kind != "mlf":
        raise ModelError(
            f"'{choice.file.name}' is a {kind} file, not a Model Library Format archive",
            hint="tvm-stm32 compile turns it into C",
        )
    return compile_to_folder(choice, folder, with_runtime=with_runtime)


def inspect_model(choice: Choice, html: Path | None = None) -> str:
    """The report of a model as text; ``html`` gets it as a page. An archive of single operators is listed."""
    if detect_format(choice.file) == "mlf":
        from .mlf import describe_operators

        listed = describe_operators(choice.file)
        if listed is not None:
            return listed
    library, _ = _compile(choice)
    text = report_text(report(library))
    if html is not None:
        from .emit.page import html_page

        write_atomically({html: html_page(library)})
        text += f"page -> {html}\n"
    return text


def run_model(choice: Choice, inputs: Path | None, outputs: Path | None, time_limit: float) -> str:
    """Compile, build, run; writes ``outputs`` and returns a summary."""
    from .project.emulator import CountMethod
    from .project.evaluation import first_outputs, summary
    from .project.firmware import build_image
    from .project.inference import run_samples
    from .project.samples import read_samples, write_outputs

    if outputs is not None and not outputs.absolute().parent.is_dir():
        raise Error(f"the folder of the outputs '{outputs}' does not exist", hint="make it first")
    library, chosen = _compile(choice)
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
