"""``tvm-stm32 resident``: which processes stay for this user's builds, and their end."""

from __future__ import annotations

import os
from pathlib import Path

import click

from . import VARIABLE
from .client import connect
from .wire import PROCESS, STOP, address, send_request


@click.command("resident")
@click.option("--stop", is_flag=True, help="End them, once the commands they run have ended.")
def resident_command(stop: bool) -> None:
    """Show the processes that keep TVM imported for builds (TVM_STM32_RESIDENT=0: builds do without)."""
    place = address()
    if place is None:
        click.echo("none: this system has no fork or no local sockets, or its folder for them is not this user's alone")
        return
    found = 0
    for path in sorted(Path(place).parent.iterdir()):
        connection = connect(str(path)) if path.suffix == "" else None
        if connection is None:
            continue
        with connection, connection.makefile("rb") as answer:
            send_request(connection, [STOP if stop else PROCESS])
            number = answer.readline().decode().strip()
        found += 1
        click.echo(f"process {number} {'ends' if stop else 'stays'}")
    if not found:
        left_out = f"; {VARIABLE} is {os.environ[VARIABLE]}" if VARIABLE in os.environ else ""
        click.echo(f"none{left_out}")
