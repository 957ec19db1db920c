"""``tvm-stm32 flash``: an image into a board's flash."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("flash")
@click.argument("image", type=click.Path(path_type=Path))
@click.option("--board", required=True, help="A name from boards/, or a board file.")
@click.option(
    "--tool",
    default="",
    help="pyocd, openocd, STM32_Programmer_CLI or st-flash, by name or path (default: the variable TVM_STM32_FLASHER, "
    "or the first of them that is installed and knows the board).",
)
@click.option("--serial", default="", help="Serial number of the debug probe, where several are connected.")
@click.option("--semihosting", is_flag=True, help="Also an image that needs a debugger when it runs.")
@click.option("--time-limit", type=float, default=300.0, show_default=True, help="Seconds flashing may take.")
def flash_command(image: Path, board: str, tool: str, serial: str, semihosting: bool, time_limit: float) -> None:
    """Write an ELF IMAGE into the flash of a board, and reset the board."""
    from .boards import load_board
    from .project.flash import flash_image

    loaded = load_board(board)
    click.echo(flash_image(image, loaded, tool=tool, serial=serial, semihosting=semihosting, timeout_s=time_limit))
