"""``tvm-stm32 sbom``: the bill of materials of an image."""

from __future__ import annotations

import os
from pathlib import Path

import click

_File = click.Path(path_type=Path)


@click.command("sbom")
@click.argument("image", type=_File)
@click.option(
    "--report", "reports", type=_File, multiple=True, help="NAME_report.json of a network in the image; several times."
)
@click.option("--map", "map_file", type=_File, help="The linker's map: names libraries that are in the image.")
@click.option("--packs", "lock", type=_File, help="packs.lock of the CMSIS packs the image was built with.")
@click.option("--pack", "packs", multiple=True, metavar="VENDOR::NAME@VERSION", help="Only these packs of the lock.")
@click.option("--image-version", "version", default="", help="The version of the image.")
@click.option("-o", "--output", type=_File, help="Write it here (default: print it).")
def sbom_command(
    image: Path,
    reports: tuple[Path, ...],
    map_file: Path | None,
    lock: Path | None,
    packs: tuple[str, ...],
    version: str,
    output: Path | None,
) -> None:
    """Write what an IMAGE was made of as CycloneDX JSON: models, runtime, packs, libraries, compiler, generator.

    It has no time in it unless SOURCE_DATE_EPOCH says one.
    """
    from .files import write_atomically
    from .project.sbom import Parts, sbom_text

    text = sbom_text(Parts(image, version, reports, map_file, lock, packs), os.environ)
    if output is None:
        click.echo(text, nl=False)
    else:
        write_atomically({output: text})
