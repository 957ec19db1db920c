"""What the subcommands do, without the command line around it."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .boards import Board, board_file, load_board
from .c_api import core_name
from .capacity import check_capacity, elsewhere, fit_text
from .cnames import check_arena_name, network_name
from .depfile import NO_RECORD, Record, generator_dependencies, package_dependencies
from .emit import emit
from .emit.report import report, report_text
from .errors import CapacityError, Error, ModelError, TargetError, quoted
from .files import check_model_file, make_folder, write_atomically
from .frontends import detect_format
from .frontends.onnx_locations import external_locations
from .library import Library, Pool
from .library.pins import numbered_pins
from .own_process import leave_out_torch, need_torch
from .pool_files import OF_ARCHIVE, OF_BOARD, load_pools, parse_pins
from .quiet import quiet
from .runtime_files import copy_runtime, runtime_sources
from .target import Target

if TYPE_CHECKING:
    from .compiler import CompileOptions

DEFAULT_CPU = "cortex-m4"


@dataclass(frozen=True)
class Choice:
    """A model and what to compile it for: a board, or a CPU without one (default: cortex-m4)."""

    file: Path
    board: str | None = None
    cpu: str | None = None
    level: str = "time"
    kernels: str = "asm"
    forms: tuple[str, ...] = ()
    max_ram: int | None = None
    params: Path | None = None
    name: str = ""
    input_layout: str = "file"
    input_shapes: tuple[str, ...] = ()
    module: str = ""
    storage: str = "planned"
    weights: str = "array"
    external_io: tuple[str, ...] = ()
    alignment: int = 8
    c_api: str = "ai"
    pools: str = ""
    pins: tuple[str, ...] = ()
    shared_arena: str = ""


def _compile(choice: Choice) -> tuple[Library, Board | None]:
    """The library, which fits the board if there is one."""
    library, board, misfit = _compiled(choice)
    if misfit is not None:
        raise misfit
    return library, board


def _compiled(choice: Choice) -> tuple[Library, Board | None, CapacityError | None]:
    """The library, the board, and what is wrong when it does not fit that."""
    if choice.board is not None and choice.cpu is not None:
        raise TargetError("--board and --cpu are given both", why="a board says which CPU it has", hint="give one")
    chosen = load_board(choice.board) if choice.board is not None else None
    if choice.shared_arena:
        check_arena_name(choice.shared_arena, "--shared-arena")
    target = chosen.target if chosen is not None else Target.for_cpu(choice.cpu or DEFAULT_CPU)
    for path in (choice.file, *([choice.params] if choice.params is not None else [])):
        check_model_file(path)
    kind = detect_format(choice.file)
    if kind == "mlf" and choice.board is None and choice.cpu is None:
        from .mlf import archive_cpu

        target = Target.for_cpu(archive_cpu(choice.file) or DEFAULT_CPU)
    if kind == "pytorch":
        need_torch()
    else:
        leave_out_torch()
    from .compiler import CompileOptions, compile_model

    with quiet():
        shapes = dict(_input_shape(text) for text in choice.input_shapes)
        if len(shapes) != len(choice.input_shapes):
            raise Error("--input-shape is there twice for one input", hint="give each input one shape")
        options = CompileOptions(
            target, choice.level, _network_name(choice), choice.input_layout, shapes, choice.module, choice.storage,
            choice.weights, choice.external_io, choice.alignment, choice.kernels,
            _forms(choice.forms), choice.max_ram or 0, _pools(choice, chosen),
            parse_pins(choice.pins), choice.shared_arena, choice.pools == OF_ARCHIVE,
        )  # fmt: skip
        try:
            library = compile_model(choice.file, options, choice.params)
        except CapacityError as error:
            _propose_less_ram(error, choice, options)
            raise
    if chosen is not None:

        def again(**changes: Any) -> Library:
            with quiet():
                return compile_model(choice.file, replace(options, **changes), choice.params)

        try:
            check_capacity(library, chosen, again if kind != "mlf" else None)
        except CapacityError as error:
            return library, chosen, error
    return library, chosen, None


def _propose_less_ram(error: CapacityError, choice: Choice, options: CompileOptions) -> None:
    """Where a network does not fit its pools: say so when ``-O ram`` would."""
    from .compiler import compile_model

    if not options.pools or options.level == "ram" or options.max_ram or detect_format(choice.file) == "mlf":
        return
    try:
        compile_model(choice.file, replace(options, level="ram"), choice.params)
    except CapacityError:
        return
    error.hint = f"-O ram, with which it fits; or {error.hint}"


def _pools(choice: Choice, board: Board | None) -> list[Pool]:
    if choice.pins and not choice.pools:
        raise Error("--pin goes with --pools", hint="--pools board, or a file of pools")
    if choice.shared_arena and choice.c_api != "ai":
        raise Error("--shared-arena goes with our own C interface", why="applications of ST's bring the arena")
    pools = load_pools(choice.pools, board) if choice.pools not in ("", OF_ARCHIVE) else []
    if pools:
        numbered_pins(parse_pins(choice.pins), pools)
    return pools


def _network_name(choice: Choice) -> str:
    """The C name of the network itself, which an interface of ST gets in front of; empty: from the file's name."""
    if choice.c_api == "ai":
        return choice.name
    name = network_name(choice.name or choice.file.stem)
    if choice.c_api == "st-ai" and name in ("debug", "events"):
        raise ModelError(f"stai_{name}.h is a header of ST's interface", hint="give the network another --name")
    return core_name(name, choice.c_api)


def _form(text: str) -> tuple[str, str]:
    """``node=form`` as node and form; nodes may hold equals signs."""
    node, _, form = text.rpartition("=")
    if not node or not form:
        raise Error(f"--set {quoted(text)} is no OPERATOR=FORM", hint="for example #2=winograd; the report lists both")
    return node, form


def _forms(texts: tuple[str, ...]) -> dict[str, str]:
    forms: dict[str, str] = {}
    for node, form in map(_form, texts):
        if node in forms:
            raise Error(f"--set is there twice for {quoted(node)}", hint="give each operator one form")
        forms[node] = form
    return forms


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


def compile_to_folder(
    choice: Choice,
    folder: Path | None,
    *,
    with_runtime: bool,
    archive: Path | None = None,
    archive_module: str = "",
    made: Record = NO_RECORD,
) -> Library:
    """Compile a model and write its files (and the runtime's) into ``folder``, and all of it into ``archive``.

    ``archive_module`` names the archive's module. With ``made``, files whose content stays keep their times.
    """
    if made and choice.name and network_name(choice.name) != choice.name:
        # Whoever asks for a record knows the names of the outputs beforehand.
        raise Error(f"--name: {quoted(choice.name)} is no C name of a network", hint=network_name(choice.name))
    library, _ = _compile(choice)
    if archive is not None:
        from .mlf import write_archive

        make_folder(archive.parent)
        write_archive(library, archive, archive_module)
    if folder is not None:
        emit(library, folder, choice.c_api, keep_unchanged=bool(made))
        if with_runtime:
            copy_runtime(folder, (choice.c_api,), keep_unchanged=bool(made))
    if made:
        first = folder / f"{library.name}.c" if folder is not None else archive
        assert first is not None
        with_it = runtime_sources((choice.c_api,)) if with_runtime else []
        made.write(first, lambda: [*_dependencies(choice), *with_it])
    return library


def _dependencies(choice: Choice) -> list[Path]:
    """Files that decide what ``choice`` becomes: the model, those it names, those of the board and the generator."""
    found = [choice.file]
    if choice.file.is_dir():
        found = sorted(path for path in choice.file.rglob("*") if path.is_file())
    elif choice.file.suffix == ".onnx":
        found += [choice.file.parent / place for place in external_locations(choice.file)]
    found += [choice.params] if choice.params is not None else []
    found += [Path(choice.pools)] if choice.pools not in ("", OF_BOARD, OF_ARCHIVE) else []
    board = board_file(choice.board) if choice.board is not None else None
    found += [board, board.parent / "board.schema.json"] if board is not None else []
    return [path for path in found if path.exists()] + generator_dependencies()


def arena_to_file(name: str, networks: tuple[str, ...], file: Path, made: Record = NO_RECORD) -> None:
    """Write the C of an arena for ``networks``."""
    from .emit.arena import arena_text

    text = arena_text(name, networks)
    make_folder(file.parent)
    write_atomically({file: text})
    if made:
        made.write(file, lambda: package_dependencies("emit/arena.py", "cnames.py", "commands.py"))


def board_text(library: Library, board: str | None) -> str:
    """What a network needs of a board's memories, as a table; empty without a board."""
    return fit_text(library, load_board(board)) if board is not None else ""


def emit_archive(choice: Choice, folder: Path, *, with_runtime: bool) -> Library:
    """:func:`compile_to_folder` for a Model Library Format archive, and nothing else."""
    kind = detect_format(choice.file)
    if kind != "mlf":
        raise ModelError(
            f"'{choice.file.name}' is a {kind} file, not a Model Library Format archive",
            hint="tvm-stm32 compile turns it into C",
        )
    return compile_to_folder(choice, folder, with_runtime=with_runtime)


def inspect_model(choice: Choice, html: Path | None = None) -> tuple[str, CapacityError | None]:
    """The report of a model as text, and the error of one that does not fit its board; ``html`` gets it as a page.

    An archive of single operators is listed.
    """
    if html is not None and (html == Path() or html.is_dir()):
        raise Error(f"--html: '{html}' is a folder", hint="name a file, for example page.html")
    if detect_format(choice.file) == "mlf":
        from .mlf import describe_operators

        listed = describe_operators(choice.file)
        if listed is not None:
            return listed, None
    library, chosen, misfit = _compiled(choice)
    text = report_text(report(library))
    # The error has the table.
    if chosen is not None and misfit is None and (table := fit_text(library, chosen)):
        text += f"\n{table}"
    if html is not None:
        from .emit.page import html_page

        write_atomically({html: html_page(library)})
        text += f"page -> {html}\n"
    return text, misfit


def diff_reports(a: Path, b: Path, *, as_json: bool = False) -> str:
    """What differs between two reports, as text or JSON."""
    from .emit.diff import compare, diff_text, read_report

    found = compare(read_report(a), read_report(b))
    return json.dumps(found, indent=2) + "\n" if as_json else diff_text(found, (str(a), str(b)))


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
    for what, section, size in elsewhere(library, chosen) if not chosen.is_host else ():
        raise TargetError(
            f"{what} ({size:,} bytes) is to lie in section '{section}'",
            why=f"the linker script made for {chosen.name} has no such section",
            hint="a pool with 'memory', one of: " + ", ".join(memory.name for memory in chosen.memories),
        )
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
        table = fit_text(library, chosen)
        text = (f"{table}\n" if table else "") + summary(image, chosen, library.name, library.macs, run)
        text += first_outputs(library.outputs, results)
    if outputs is not None:
        write_outputs(outputs, library.outputs, results, samples.stacked)
        text += f"outputs -> {outputs}\n"
    return text
