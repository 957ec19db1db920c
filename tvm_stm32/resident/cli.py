"""``tvm-stm32 resident``: which processes stay for this user's builds, and their end."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import click

from . import VARIABLE
from .client import LONGEST_LINE, connect
from .wire import PROCESS, STOP, address, send_request

_PATIENCE_S = 15.0
"""Seconds a process has to answer; it may be importing."""


@click.command("resident")
@click.option("--stop", is_flag=True, help="End them, once the commands they run have ended.")
def resident_command(stop: bool) -> None:
    """Show the processes that keep TVM imported for builds (TVM_STM32_RESIDENT=0: builds do without)."""
    place = address()
    if place is None:
        click.echo("none: this system has no fork or no local sockets, or the folder for them is not this user's alone")
        return
    found = 0
    for path in sorted(Path(place).parent.iterdir()):
        if path.suffix:
            continue
        connection = connect(str(path), _PATIENCE_S)
        if connection is None:
            continue
        found += 1
        number = b""
        with connection, connection.makefile("rb") as answer, contextlib.suppress(OSError):
            send_request(connection, [STOP if stop else PROCESS])
            number = answer.readline(LONGEST_LINE).strip()
        if number.isdigit():
            click.echo(f"process {number.decode()} {'ends' if stop else 'stays'}")
        else:
            click.echo(f"{path}: no answer within {_PATIENCE_S:.0f} s", err=True)
    if not found:
        left_out = f"; {VARIABLE} is {os.environ[VARIABLE]}" if VARIABLE in os.environ else ""
        click.echo(f"none{left_out}")
