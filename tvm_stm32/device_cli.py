"""What the SCons builder ``CmsisDevice`` runs: files of a device, copies of config files."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

_FILE = click.Path(path_type=Path)


@click.command("device-files", hidden=True)
@click.option("--lock", type=_FILE, required=True)
@click.option("--device", required=True)
@click.option("--processor", default="")
@click.option("--component", "components", multiple=True)
@click.option("--security", default="TZ-disabled")
@click.option("--compiler", required=True, help="A C compiler, whose preprocessor reads the device's header.")
@click.option("-o", "--output", "folder", type=_FILE, required=True)
def device_files_command(compiler: str, folder: Path, **choice: Any) -> None:
    """Write a device's board file, interrupts and RTE_Components.h."""
    from .device_files import COMPONENTS_HEADER, VECTORS, DeviceChoice, DeviceFiles
    from .files import make_folder, write_atomically

    files = DeviceFiles.of(DeviceChoice(**choice))
    vectors = files.vectors(shlex.split(compiler))
    make_folder(folder)
    write_atomically(
        {
            folder / f"{files.board_name}.yaml": files.board_text(),
            folder / VECTORS: vectors,
            folder / COMPONENTS_HEADER: files.components_header(),
        }
    )


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
