"""What the SCons builder ``CmsisDevice`` runs: files of a device, copies of config files."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

_FILE = click.Path(path_type=Path)


@click.command("device-files", hidden=True)
@click.option("--lock", type=_FILE, required=True)
@click.option("--device", default="")
@click.option("--board", default="")
@click.option("--processor", default="")
@click.option("--component", "components", multiple=True)
@click.option("--security", default="TZ-disabled")
@click.option("--compiler", required=True, help="A C compiler, whose preprocessor reads the device's header.")
@click.option("-o", "--output", "folder", type=_FILE, required=True)
def device_files_command(compiler: str, folder: Path, **choice: Any) -> None:
    """Write what is made for a device: board file, interrupts, start-up, linker script, RTE_Components.h."""
    from .device_files import DeviceChoice, DeviceFiles
    from .files import make_folder, write_atomically

    files = DeviceFiles.of(DeviceChoice(**choice))
    texts = files.generated(shlex.split(compiler))
    make_folder(folder)
    write_atomically({folder / name: text for name, text in texts.items()})


@click.command("board-files", hidden=True)
@click.option("--board", required=True)
@click.option("-o", "--output", "folder", type=_FILE, required=True)
def board_files_command(board: str, folder: Path) -> None:
    """Write start-up code and linker script of a board, with its own addresses."""
    from .boards import load_board
    from .device_files import board_files
    from .files import make_folder, write_atomically

    texts = board_files(load_board(board))
    make_folder(folder)
    write_atomically({folder / name: text for name, text in texts.items()})


@click.command("config-file", hidden=True)
@click.argument("source", type=_FILE)
@click.option("--version", required=True)
@click.option("-o", "--output", type=_FILE, required=True)
def config_file_command(source: Path, version: str, output: Path) -> None:
    """Copy a config file of a pack into the project, unless it is there."""
    from cmsis_packs.config_files import ConfigFile

    ConfigFile(source, output, version).copy_once()


@click.command("merged")
@click.argument("file", type=_FILE)
@click.option("--source", type=_FILE, required=True, help="The pack's file.")
@click.option("--version", required=True, help="The pack's version.")
def merged_command(file: Path, source: Path, version: str) -> None:
    """Say that a config FILE of the project has what an update of its pack changed; builds show it no more."""
    from cmsis_packs.config_files import ConfigFile

    ConfigFile(source, file, version).mark_merged()
    click.echo(f"{file}: as of {version}")
