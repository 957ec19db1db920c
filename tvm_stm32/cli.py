"""The ``tvm-stm32`` command. Each subcommand imports what it needs when it runs, so ``--help`` is quick."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from . import __version__
from .boards_cli import board_group, boards_command, config_command
from .c_api import C_APIS
from .choices import ALIGNMENTS, KERNELS, LEVELS, WEIGHTS
from .device_cli import board_files_command, config_file_command, device_files_command
from .errors import Error
from .flash_cli import flash_command
from .own_process import claim, release
from .packs_cli import packs
from .resident.cli import resident_command
from .sbom_cli import sbom_command
from .sizes import is_size, parse_bytes
from .target import known_cpus

if TYPE_CHECKING:
    from .library import Library

_File = click.Path(path_type=Path)
_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
_REFUSALS = _FULL | {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO, errno.ENOENT, errno.ENOTDIR, errno.EISDIR),
    *(errno.ENAMETOOLONG, errno.EMFILE, errno.ENFILE, errno.EEXIST),
}
_Command = TypeVar("_Command", bound=Callable[..., Any])


class _Bytes(click.ParamType[int]):
    """A number of bytes, with K (1024) or M (1048576) if wanted, as in files of pools."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if not is_size(str(value)):
            self.fail(f"{str(value)!r} is no number of bytes from 1, such as 32768, 32K or 1M.", param, ctx)
        return parse_bytes(str(value))


def _show_cmake_dir(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from .resources import resource_dir

        click.echo(resource_dir("cmake").as_posix())
        context.exit()


def _show_platformio_script(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        click.echo(Path(__file__).resolve().with_name("platformio").joinpath("extra_script.py").as_posix())
        context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="tvm-stm32", message="%(prog)s %(version)s")
@click.option(
    "--cmake-dir",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_cmake_dir,
    help="Print the folder of the CMake package (-Dtvm_stm32_DIR=...) and exit.",
)
@click.option(
    "--platformio-script",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_platformio_script,
    help="Print the path of the extra script for PlatformIO (extra_scripts = pre:...) and exit.",
)
def cli() -> None:
    """Neural networks as ordinary C in STM32 firmware builds."""


_ARCHIVE_OPTIONS = (
    click.option(
        "--name",
        default="",
        help="C name of the network (default: from the name of the file, or of the archive's module).",
    ),
    click.option("--module", default="", help="Module of a Model Library Format archive (.tar) that has several."),
    click.option(
        "--storage",
        type=click.Choice(("planned", "archive")),
        default="planned",
        show_default=True,
        help="Whose memory plan a graph-executor archive (.tar) gets: this tool's, or its own.",
    ),
)
_C_API_OPTION = click.option(
    "--c-api",
    type=click.Choice(C_APIS),
    default="ai",
    show_default=True,
    help="The C interface applications see: our own, or one of ST's.",
)
_COMPILE_OPTIONS = (
    click.option(
        "-O", "level", type=click.Choice(LEVELS), default="time", show_default=True, help="What to optimise for."
    ),
    click.option(
        "--kernels",
        type=click.Choice(KERNELS),
        default="asm",
        show_default=True,
        help="Inner kernels as GNU assembly, or as C with the same bytes for other compilers.",
    ),
    click.option(
        "--set",
        "forms",
        multiple=True,
        metavar="OPERATOR=FORM",
        help="Form of one operator's kernel, by its node or #number in the report: #2=winograd.",
    ),
    click.option(
        "--max-ram",
        type=_Bytes(),
        default=None,
        metavar="BYTES",
        help="The arena may have so many bytes (or 32K, 1M): operators take other kernels, and run in bands of rows, "
        "until it has. With --pools: what all tensors and workspaces need together.",
    ),
    click.option("--params", type=_File, help="Weights of a Relay model (.params)."),
    click.option(
        "--input-shape", "input_shapes", multiple=True, help="NAME:1,49,10,1 fixes the shape of a dynamic input."
    ),
    click.option(
        "--input-layout",
        type=click.Choice(("file", "nhwc")),
        default="file",
        show_default=True,
        help="Take NCHW inputs as NHWC.",
    ),
)


_POOL_OPTIONS = (
    click.option(
        "--pools",
        default="",
        metavar="FILE",
        help="Memories the network may lie in, of a YAML file, 'board': those of the board's file, or 'archive'.",
    ),
    click.option(
        "--pin", "pins", multiple=True, metavar="TENSOR=POOL", help="The pool of one tensor, input, output or constant."
    ),
)


# Options that make up commands.Choice, beside FILE, --board and --cpu.
def _model_options(command: _Command) -> _Command:
    for option in (*_ARCHIVE_OPTIONS, *_POOL_OPTIONS, *_COMPILE_OPTIONS):
        command = option(command)
    return command


def _archive_options(command: _Command) -> _Command:
    for option in (*_ARCHIVE_OPTIONS, *_POOL_OPTIONS):
        command = option(command)
    return command


# About the files that compile writes, beside how it compiles.
_PLACEMENT_OPTIONS = (
    click.option(
        "--weights",
        type=click.Choice(WEIGHTS),
        default="array",
        show_default=True,
        help="Weights as C text, as a binary file the assembler includes, or as one the application places.",
    ),
    click.option(
        "--external-io",
        multiple=True,
        metavar="NAME",
        help="An input or output without a place in the arena: the application gives its memory ('all': every one).",
    ),
    click.option(
        "--alignment",
        type=click.Choice([str(alignment) for alignment in ALIGNMENTS]),
        default="8",
        show_default=True,
        callback=lambda _context, _option, value: int(value),
        help="Bytes to which the arena and all tensors in it are aligned.",
    ),
    click.option(
        "--shared-arena",
        default="",
        metavar="NAME",
        help="Networks that do not run at once share the arena of this C name (see the command arena).",
    ),
)


# What commands.Record is made of, for build tools.
_RECORD_OPTIONS = (
    click.option(
        "--depfile",
        type=_File,
        help="Write what the outputs were made from, as a rule of make; outputs whose content stays keep their times.",
    ),
    click.option("--stamp", type=_File, help="An empty file, written last: what the depfile is about."),
    click.option("--one-rule", is_flag=True, help="The depfile has no empty rules for files that may go (CMake)."),
)


def _record_options(command: _Command) -> _Command:
    for option in reversed(_RECORD_OPTIONS):
        command = option(command)
    return command


def _placement_options(command: _Command) -> _Command:
    for option in _PLACEMENT_OPTIONS:
        command = option(command)
    return command


@cli.command("compile")
@click.argument("file", type=_File)
@click.option("-o", "--output", "folder", type=_File, help="Folder for the generated files (or an archive FILE.tar).")
@click.option("--archive", type=_File, help="Also (or only) write a Model Library Format archive here, for emit.")
@click.option("--archive-module", default="", help="Name of the archive's module (default: that of the network).")
@click.option("--board", help="Board to compile for (a name or a board file).")
@click.option("--cpu", help=f"CPU to compile for, without a board: {', '.join(known_cpus())} (default: cortex-m4).")
@click.option("--no-runtime", is_flag=True, help="Leave the ai_* runtime's files out of the folder.")
@_record_options
@_C_API_OPTION
@_placement_options
@_model_options
def compile_command(
    folder: Path | None, archive: Path | None, archive_module: str, no_runtime: bool, depfile: Path | None,
    stamp: Path | None, one_rule: bool, **choice: Any,
) -> None:  # fmt: skip
    """Turn a model FILE into C: kernels, a network with static memory, weights and a report."""
    if folder is not None and archive is None and folder.suffix == ".tar" and not folder.is_dir():
        folder, archive = None, folder
    if folder is None and archive is None:
        raise click.UsageError("Missing option '-o' / '--output' or '--archive'.")
    if archive_module and archive is None:
        raise click.UsageError("--archive-module goes with --archive.")
    from .commands import Choice, board_text, compile_to_folder
    from .depfile import Record

    network = compile_to_folder(
        Choice(**choice), folder, with_runtime=not no_runtime, archive=archive, archive_module=archive_module,
        made=Record(depfile, stamp, one_rule),
    )  # fmt: skip
    _show_remarks(network.notes)
    click.echo(
        f"{network.name}: {len(network.calls)} operators, {network.macs:,} MACs, {network.constant_bytes:,} bytes of "
        f"constants, {network.arena_size:,} bytes of arena{_other_pools(network)} -> "
        + ", ".join(str(place) for place in (folder, archive) if place is not None)
    )
    # Below the line it belongs to, also in the output of a build.
    click.echo(indent(board_text(network, choice["board"]), "  "), nl=False)


@cli.command("emit")
@click.argument("file", type=_File)
@click.option("-o", "--output", "folder", type=_File, required=True, help="Folder for the generated files.")
@click.option("--board", help="Board to emit for (a name or a board file).")
@click.option("--cpu", help="CPU to emit for, without a board (default: the archive's, or cortex-m4).")
@click.option("--no-runtime", is_flag=True, help="Leave the ai_* runtime's files out of the folder.")
@_C_API_OPTION
@_archive_options
def emit_command(folder: Path, no_runtime: bool, **choice: Any) -> None:
    """Turn a Model Library Format archive FILE, of compile or of TVM up to 0.18, into a network behind the ai_* API."""
    from .commands import Choice, emit_archive

    network = emit_archive(Choice(**choice), folder, with_runtime=not no_runtime)
    _show_remarks(network.notes)
    click.echo(
        f"{network.name}: {len(network.calls)} calls, {network.constant_bytes:,} bytes of constants, "
        f"{network.arena_size:,} bytes of arena{_other_pools(network)} -> {folder}"
    )


@cli.command("inspect")
@click.argument("file", type=_File)
@click.option("--board", help="Board to look at the model for.")
@click.option("--cpu", help="CPU to look at the model for (default: cortex-m4).")
@click.option("--html", type=_File, help="Also write a page with the graph and the memory map here.")
@_placement_options
@_model_options
def inspect_command(html: Path | None, **choice: Any) -> None:
    """Show a model's operators, shapes, quantization, MACs, weights and RAM, before any C compiler runs."""
    from .commands import Choice, inspect_model

    text, misfit = inspect_model(Choice(**choice), html)
    click.echo(text, nl=False)
    if misfit is not None:
        raise misfit


@cli.command("diff")
@click.argument("a", type=_File)
@click.argument("b", type=_File)
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def diff_command(a: Path, b: Path, as_json: bool) -> None:
    """Compare two reports (NAME_report.json): totals, settings, and operators by their nodes."""
    from .commands import diff_reports

    click.echo(_printable(diff_reports(a, b, as_json=as_json)), nl=False)


@cli.command("run")
@click.argument("file", type=_File)
@click.option("--board", required=True, help="'host', or a board: its emulator runs the firmware.")
@click.option("--inputs", type=_File, help="Arrays by the model's input names (.npz); generated when absent.")
@click.option("--outputs", type=_File, help="Write the outputs here (.npz), in the model's order.")
@click.option("--time-limit", type=float, default=60.0, show_default=True, help="Seconds the emulator may take.")
@_model_options
def run_command(inputs: Path | None, outputs: Path | None, time_limit: float, **choice: Any) -> None:
    """Compile a model FILE, build it for a board and run it on inputs."""
    from .commands import Choice, run_model

    click.echo(run_model(Choice(**choice), inputs, outputs, time_limit), nl=False)


@cli.command("doctor")
def doctor_command() -> None:
    """List the tools this program needs, their versions, and how to get what is missing."""
    from .doctor import run_doctor

    raise SystemExit(run_doctor())


cli.add_command(packs)


@cli.command("arena")
@click.argument("name")
@click.argument("networks", nargs=-1, required=True)
@click.option("-o", "--output", "file", type=_File, required=True, help="The C file.")
@_record_options
def arena_command(name: str, networks: tuple[str, ...], file: Path, **made: Any) -> None:
    """Write the C of an arena NAME for NETWORKS compiled with --shared-arena NAME: as large as the largest needs."""
    from .commands import arena_to_file
    from .depfile import Record

    arena_to_file(name, networks, file, Record(**made))
    click.echo(f"{name}: arena of {', '.join(networks)} -> {file}")


@cli.command("runtime")
@click.option("-o", "--output", "folder", type=_File, required=True, help="Folder for the files.")
@click.option("--c-api", "c_apis", type=click.Choice(C_APIS), multiple=True, help="What an interface of ST adds, too.")
@_record_options
def runtime_command(folder: Path, c_apis: tuple[str, ...], **made: Any) -> None:
    """Write the ai_* runtime's C files, which all networks of a program share."""
    from .depfile import Record
    from .runtime_files import runtime_to_folder

    runtime_to_folder(folder, c_apis, Record(**made))
    click.echo(f"ai_runtime -> {folder}")


@cli.command("linker-script", hidden=True)
@click.option("--board", required=True)
@click.option("-o", "--output", type=_File, required=True)
@click.option("--hardware", is_flag=True, help="The board's own addresses, not its emulator's.")
def linker_script_command(board: str, output: Path, hardware: bool) -> None:
    """Write a board's linker script (used by the SCons builders)."""
    from .boards import load_board
    from .files import write_atomically
    from .project.linker import linker_script

    write_atomically({output: linker_script(load_board(board), emulated=not hardware)})


@cli.command("check-image", hidden=True)
@click.argument("image", type=_File)
@click.option("--board", required=True)
@click.option("--hardware", is_flag=True, help="Against the board's own addresses, not its emulator's.")
@click.option("--map", "map_file", type=_File, help="The linker's map: names interrupt handlers that were left out.")
@click.option("--keep", type=_File, help="Copy an image that is right here.")
def check_image_command(image: Path, board: str, hardware: bool, map_file: Path | None, keep: Path | None) -> None:
    """Check a linked image: vector table, entry, memories (used by the SCons builders)."""
    from .boards import load_board
    from .project.image import check_image, lost_handlers

    check_image(image, load_board(board), emulated=not hardware)
    for name in lost_handlers(map_file) if map_file is not None else ():
        click.echo(f"note: {name} is in no vector of {image.name}, and left out", err=True)
    if keep is not None:
        from .files import write_atomically

        write_atomically({keep: image.read_bytes()})
        keep.chmod(image.stat().st_mode & 0o777)


@cli.command("run-image", hidden=True)
@click.argument("image", type=_File)
@click.option("--board", required=True)
@click.option("--report", "report_file", type=_File, required=True, help="NAME_report.json of the network.")
@click.option("--reference", type=_File, help="The same network as a host program: outputs are compared.")
@click.option("--inputs", type=_File, help="Arrays by input names (.npz); may hold 'labels'.")
@click.option("--min-accuracy", type=float, default=0.0, help="Least share of samples whose largest output is right.")
@click.option("--time-limit", type=float, default=60.0, show_default=True)
def run_image_command(
    image: Path,
    board: str,
    report_file: Path,
    reference: Path | None,
    inputs: Path | None,
    min_accuracy: float,
    time_limit: float,
) -> None:
    """Run a built image on samples and show what came out (used by the SCons builders)."""
    from .project.evaluation import evaluate

    result = evaluate(image, board, report_file, reference, inputs, min_accuracy, time_limit)
    click.echo(result.text, nl=False)
    if not result.passed:
        raise SystemExit(1)


cli.add_command(resident_command)
cli.add_command(boards_command)
cli.add_command(flash_command)
cli.add_command(board_group)
cli.add_command(config_command)
cli.add_command(device_files_command)
cli.add_command(board_files_command)
cli.add_command(config_file_command)
cli.add_command(sbom_command)


def _other_pools(network: Library) -> str:
    """RAM beside the arena."""
    used = sum(pool.used for pool in network.static_pools)
    return f" and {used:,} in other pools" if used else ""


def _show_remarks(notes: list[str]) -> None:
    """What a user should know although it worked: an archive that was not read as it was written."""
    for note in notes:
        if note.startswith(("read as ", "written for ")):
            click.echo(f"note: {_printable(note)}", err=True)


def main() -> None:
    """Entry point: a user's error is printed as one block and exits with 1; a bug keeps its traceback."""
    # As an exception, so that temporary files go when a build system ends this program.
    with contextlib.suppress(ValueError):  # only a main thread may
        signal.signal(signal.SIGTERM, _end)
    _open_streams()
    claim()
    try:
        cli.main(prog_name="tvm-stm32")
    except Error as error:
        _fail(error)
    except ImportError as error:
        _fail(_missing_package(error))
    except OSError as error:
        _fail(_system_error(error))
    except MemoryError:
        _fail(Error("this computer has not enough memory for it", hint="a smaller model, or fewer samples"))
    finally:
        release()


def _open_streams() -> None:
    """Standard streams that the caller closed lead nowhere. Else the next files to be opened would become them."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            # It gets the lowest number that is free.
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - to stay


def _end(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def _fail(error: Error) -> NoReturn:
    click.echo(f"error: {_printable(str(error))}", err=True)
    sys.exit(1)


def _printable(text: str) -> str:
    """Names out of a model may hold control characters, which a terminal would obey."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


def _missing_package(error: ImportError) -> Error:
    """The message for a package that is not installed; anything else is a bug, raised again."""
    from .doctor import missing_package

    found = missing_package(error)
    if found is None:
        raise error
    return found


def _system_error(error: OSError) -> Error:
    """What the system refuses where no better message is made; anything that is no matter of files is a bug."""
    if error.errno not in _REFUSALS:
        raise error
    place = f"'{error.filename}'" if error.filename is not None else "a file"
    hint = "check free space" if error.errno in _FULL else "check the path, its permissions and the free space"
    return Error(f"cannot read or write {place}: {error.strerror}", hint=hint)
