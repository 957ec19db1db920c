"""``tvm-stm32 boards`` and ``board new``: what boards there are, and a file for one more from a pack's device."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Literal

import click

from .boards import Board, list_boards, load_board
from .chips import chip_of
from .errors import TargetError
from .project.board_config import has_uart
from .sizes import size_text

_HEADINGS = ("board", "device", "core", "clock", "flash", "RAM", "emulated as")


@click.command("boards")
@click.argument("name", default="")
def boards_command(name: str) -> None:
    """List the boards, or show one (a NAME, or a board file) in full."""
    click.echo(board_text(load_board(name)) if name else list_text(), nl=False)


@click.group("board")
def board_group() -> None:
    """Make board files."""


@board_group.command("new")
@click.argument("name")
@click.option("--pdsc", type=click.Path(path_type=Path), help="PDSC file of a CMSIS pack, instead of packs.lock.")
@click.option(
    "--file",
    "packs",
    type=click.Path(path_type=Path),
    default=Path("packs.yaml"),
    show_default=True,
    help="Whose installed packs have the chip.",
)
@click.option("--device", required=True, help="The chip, as the pack names it: STM32F405RGTx.")
@click.option("--processor", default="", help="Its processor, when it has several: CM7.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The board file (default: NAME.yaml).")
def new_command(name: str, pdsc: Path | None, packs: Path, device: str, processor: str, output: Path | None) -> None:
    """Write the board file NAME.yaml of a chip; clock, console and LEDs of the board are yours to add."""
    from .board_from_pack import board_yaml
    from .files import write_atomically

    file = output or Path(f"{name}.yaml")
    if file.exists():
        raise TargetError(f"'{file}' exists", hint="another name, or -o FILE")
    pdsc = _pdsc_of(packs, device) if pdsc is None else pdsc
    text = board_yaml(name, pdsc, device, processor)
    with tempfile.TemporaryDirectory(prefix="tvm-stm32-") as folder:
        trial = Path(folder) / f"{name}.yaml"
        trial.write_text(text, encoding="utf-8")
        try:
            board = load_board(trial)
        except TargetError as error:
            what = error.message.replace(f"{trial}: ", "")
            raise TargetError(f"{pdsc}: device '{device}' makes no board file: {what}", hint=error.hint) from error
    write_atomically({file: text})
    click.echo(f"{file}: {board.device}, {size_text(board.flash.size)} flash, {size_text(board.ram.size)} RAM")


def _pdsc_of(packs: Path, device: str) -> Path:
    """The PDSC file of the locked pack that has a device."""
    from cmsis_packs.installed import installed

    lock = packs.with_suffix(".lock")
    if not lock.is_file():
        raise TargetError(
            f"'{lock}' does not exist", hint="tvm-stm32 packs add Vendor::Pack, or --pdsc with the file of a pack"
        )
    return installed(lock, device)[0].description


@click.command("board-config", hidden=True)
@click.option("--board", required=True)
@click.option("--console", type=click.Choice(("semihosting", "uart")), required=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
def config_command(board: str, console: Literal["semihosting", "uart"], output: Path) -> None:
    """Write a board's board_config.h (used by the SCons builders)."""
    from .files import write_atomically
    from .project.board_config import board_config

    write_atomically({output: board_config(load_board(board), console)})


def list_text() -> str:
    """The table of all boards."""
    rows = [_HEADINGS, *(_row(load_board(name)) for name in list_boards())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    return "".join(
        "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() + "\n" for row in rows
    )


def _row(board: Board) -> tuple[str, ...]:
    return (
        board.name,
        board.device or "-",
        board.target.cpu.removeprefix("cortex-").upper().replace("PLUS", "+"),
        f"{board.clock_hz / 1e6:g} MHz",
        size_text(board.flash.size),
        size_text(board.ram.size),
        board.emulator.machine if board.emulator is not None else "-",
    )


def board_text(board: Board) -> str:
    """Everything a board file says, a line each."""
    if board.is_host:
        return f"{board.name}: {board.title}\n"
    lines = [f"{board.name}: {board.title}"]
    lines += [f"  {key:<10}{value}" for key, value in _facts(board) if value]
    roles = {board.memory("flash").name: "flash", board.memory("ram").name: "RAM, stack " + size_text(board.stack_size)}
    roles.setdefault(board.memory("weights").name, "weights")
    lines += ["  memories"]
    for memory in board.memories:
        role = f"  {roles[memory.name]}" if memory.name in roles else ""
        lines.append(
            f"    {memory.name:<10}{memory.origin:#010x}  {size_text(memory.size):>5}  {memory.access:<3}{role}"
        )
    for pool in board.pools:
        holds = f" holds {', '.join(pool.holds)}" if pool.holds else ""
        lines.append(f"    pool {pool.name}: a word costs {pool.read:g} to read, {pool.write:g} to write{holds}")
    return "\n".join(lines) + "\n"


def _facts(board: Board) -> list[tuple[str, str]]:
    target, probe, console, emulator = board.target, board.probe, board.console, board.emulator
    features = [*(["DSP"] if target.dsp else []), *(["Helium"] if target.mve else []), f"FPU {target.fpu}"]
    tools = [] if probe is None else [
        f"pyOCD --target {probe.pyocd}" if probe.pyocd else "",
        f"OpenOCD target/{probe.openocd}.cfg" if probe.openocd else "",
        f"STM32_Programmer_CLI -c {probe.cubeprogrammer}" if probe.cubeprogrammer else "",
    ]  # fmt: skip
    where = {"emulated": "in the emulator, not on hardware", "hardware": "on hardware", "nowhere": "nowhere"}
    return [
        ("device", board.device),
        ("core", f"{target.cpu} ({', '.join(features)})"),
        ("clock", _clock_text(board)),
        ("console", "semihosting" if console is None or not has_uart(board) else _console_text(board)),
        ("LEDs", ", ".join(f"{name} {pin}" for name, pin in board.leds.items())),
        ("probe", "" if probe is None else ", ".join([probe.interface, *(tool for tool in tools if tool)])),
        ("emulator", "" if emulator is None else _emulator_text(board)),
        ("tried", where[board.tried]),
        ("source", ", ".join(board.source)),
        ("note", board.note),
    ]


def _console_text(board: Board) -> str:
    console = board.console
    assert console is not None
    return f"{console.uart}, TX {console.tx}, RX {console.rx}, {console.baud} baud"


def _clock_text(board: Board) -> str:
    clocks = board.clocks
    chip = chip_of(board.device)
    if chip is not None and chip.fixed:
        return f"{board.clock_hz / 1e6:g} MHz (the start-up goes back to the oscillator of the reset; no PLL)"
    if clocks is None or chip is None:
        return f"{board.clock_hz / 1e6:g} MHz" + ("; not set up, the clock of the reset stays" if board.device else "")
    source = clocks.source + (f" {clocks.source_hz / 1e6:g} MHz" if clocks.source_hz else "")
    divide = f" / {clocks.divide}" if clocks.divide_key else ""
    return f"{board.clock_hz / 1e6:g} MHz ({source} / {clocks.m} * {clocks.n}{divide})"


def _emulator_text(board: Board) -> str:
    emulator = board.emulator
    assert emulator is not None
    text = f"QEMU machine {emulator.machine}"
    if emulator.machine == "mps2-an385" and board.target.cpu.startswith("cortex-m0"):
        text += " (its Cortex-M3 runs the code of an M0+; it does not fault on unaligned accesses)"
    return text
