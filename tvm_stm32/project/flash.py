"""Writes an image into the flash of a board, with whichever flashing program is installed.

One small class a program says what it is called, which boards it can flash, and its command line. A program that fails
is an error with its own last lines, and one that finds no debug probe says so in the same words whichever it is.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..boards import Board, Memory, Probe
from ..errors import FirmwareError, TargetError, ToolchainError
from ..toolchain import first_lines, run_tool
from .image import Image, Segment
from .semihosting import semihosting_call

FLASHER_VARIABLE = "TVM_STM32_FLASHER"

_CUBE = "STMicroelectronics/STM32Cube/STM32CubeProgrammer"
_FOLDERS = (
    # Packages of the Python that runs this.
    str(Path(sys.executable).parent),
    "/usr/local/bin",
    "/opt/homebrew/bin",
    f"/usr/local/{_CUBE}/bin",
    f"/opt/{_CUBE.rpartition('/')[2].lower()}/bin",
    f"~/{_CUBE}/bin",
    f"/Applications/{_CUBE}/STM32CubeProgrammer.app/Contents/MacOs/bin",
    f"C:/Program Files/{_CUBE}/bin",
)
# What they say without a probe: pyOCD, OpenOCD, STM32CubeProgrammer, stlink.
_NO_PROBE = re.compile(
    r"no available debug probes|no target device available|no connected|unable to find.*(probe|device)|open failed"
    r"|no device found|no debug probe|no st-?link detected|couldn.t find any st-?link|unable to open|no j-?link",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Job:
    """What is to be flashed: the image, the board's probe, the probe's serial number ("": the only one there is)."""

    image: Path
    probe: Probe
    serial: str
    segments: tuple[Segment, ...]
    folder: Path

    def binary(self) -> tuple[Path, int]:
        """The image's bytes as a file, gaps as erased flash (0xFF), and the address of the first."""
        chunks = Image(self.image).load_chunks()
        start = min(address for address, _ in chunks)
        end = max(address + len(data) for address, data in chunks)
        content = bytearray(b"\xff" * (end - start))
        for address, data in chunks:
            content[address - start : address - start + len(data)] = data
        file = self.folder / "image.bin"
        file.write_bytes(content)
        return file, start


@dataclass(frozen=True)
class Flasher:
    """A flashing program: its name, why it cannot flash a board ("": it can), its arguments, and how to get it."""

    name: str
    cannot: Callable[[Probe], str]
    arguments: Callable[[Job], list[str]]
    install: str


def _pyocd(job: Job) -> list[str]:
    # Without --no-wait it waits for a probe for ever.
    chosen = ["--probe", job.serial] if job.serial else []
    return ["load", "--no-wait", "--target", job.probe.pyocd, *chosen, "--format", "elf", str(job.image)]


def _openocd(job: Job) -> list[str]:
    interface = {"st-link": "stlink", "cmsis-dap": "cmsis-dap", "j-link": "jlink"}[job.probe.interface]
    words = ["-f", f"interface/{interface}.cfg"]
    words += ["-c", f"adapter serial {job.serial}"] if job.serial else []
    words += ["-c", "transport select swd"] if interface == "jlink" else []
    # Braces are Tcl's quotes.
    program = f"program {{{job.image.as_posix()}}} verify reset exit"
    return [*words, "-f", f"target/{job.probe.openocd}.cfg", "-c", program]


def _cube(job: Job) -> list[str]:
    serial = [f"sn={job.serial}"] if job.serial else []
    # It tells formats by suffixes.
    image = job.folder / "image.elf"
    shutil.copyfile(job.image, image)
    return ["-c", *job.probe.cubeprogrammer.split(), *serial, "-w", str(image), "-v", "-rst"]


def _stlink(job: Job) -> list[str]:
    file, address = job.binary()
    serial = ["--serial", job.serial] if job.serial else []
    return ["--reset", *serial, "write", str(file), f"0x{address:08x}"]


def _unless(name: str, key: str) -> str:
    return "" if name else f"the board file has no probe.{key}"


def _only_st_link(probe: Probe) -> str:
    return "" if probe.interface == "st-link" else f"it knows no {probe.interface}"


FLASHERS = (
    Flasher("pyocd", lambda probe: _unless(probe.pyocd, "pyocd"), _pyocd, "pip install pyocd"),
    Flasher("openocd", lambda probe: _unless(probe.openocd, "openocd"), _openocd, "apt-get install openocd"),
    Flasher(
        "STM32_Programmer_CLI",
        lambda probe: _unless(probe.cubeprogrammer, "cubeprogrammer") or _only_st_link(probe),
        _cube,
        "STM32CubeProgrammer, from st.com",
    ),
    Flasher("st-flash", _only_st_link, _stlink, "apt-get install stlink-tools"),
)
"""In order of preference."""


def flash_image(
    image: Path, board: Board, *, tool: str = "", serial: str = "", semihosting: bool = False, timeout_s: float = 300.0
) -> str:
    """Flash an ELF image onto a board and reset it; returns one line that says what was written where, and by what.

    ``tool`` is the name or path of a program (default: the variable TVM_STM32_FLASHER, else the first that is installed
    and knows the board), ``serial`` the probe's where there are several, ``semihosting`` accepts an image that talks to
    a debugger. Raises :class:`TargetError` for a board without probe, :class:`FirmwareError` for an image that is not
    for it, :class:`ToolchainError` when there is no program, no probe, or flashing failed.
    """
    if board.probe is None:
        raise TargetError(
            f"board '{board.name}' has no debug probe to flash it with",
            why="it is emulated only" if board.emulator is not None else "",
            hint="a board with 'probe' in its file: tvm-stm32 boards",
        )
    segments = check_for_hardware(image, board, semihosting=semihosting)
    flasher, program = choose_flasher(board, tool)
    with tempfile.TemporaryDirectory(prefix="tvm-stm32-") as folder:
        job = Job(image, board.probe, serial, tuple(segments), Path(folder))
        done = run_tool([program, *flasher.arguments(job)], timeout_s=timeout_s)
    if done.returncode != 0:
        raise _failure(flasher, board, image, f"{done.stdout}\n{done.stderr}", done.returncode)
    size = sum(segment.file_size for segment in segments)
    first = min(segment.load_address for segment in segments)
    return f"{image.name}: {size:,} bytes at 0x{first:08x} of {board.name}, by {flasher.name}"


def check_for_hardware(image: Path, board: Board, *, semihosting: bool = False) -> list[Segment]:
    """What the image loads. Raises :class:`FirmwareError` unless all of it goes into lasting memory of the board."""
    parsed = Image(image)
    segments = [segment for segment in parsed.segments if segment.file_size]
    if not segments:
        raise FirmwareError(f"{image.name} has nothing to flash")
    homes = _lasting(board, emulated=False)
    for segment in segments:
        if any(home.contains(segment.load_address, segment.file_size) for home in homes):
            continue
        places = ", ".join(f"{home.name} (0x{home.origin:08x}, {home.size // 1024} KiB)" for home in homes)
        emulated = _lasting(board, emulated=True) if board.emulator is not None else []
        is_for_emulator = any(home.contains(segment.load_address, segment.file_size) for home in emulated)
        raise FirmwareError(
            f"{image.name}: {segment.file_size} bytes are loaded at 0x{segment.load_address:08x}, outside {places}",
            why=f"the image is linked for the emulator of {board.name}" if is_for_emulator else "",
            hint='an image for the board itself: Firmware(..., CONSOLE="uart"), or HARDWARE=True',
        )
    place = "" if semihosting else semihosting_call(parsed)
    if place:
        raise FirmwareError(
            f"{image.name} talks to a debugger by semihosting (in {place})",
            why="without one the first output stops the core for good",
            hint='an image with CONSOLE="uart"; or --semihosting, and a debugger attached when it runs',
        )
    return segments


def _lasting(board: Board, *, emulated: bool) -> list[Memory]:
    """Memories images are loaded into: that of vectors and code, that of weights, and all that cannot be written."""
    homes = {memory.name: memory for memory in (board.memory(role, emulated=emulated) for role in ("flash", "weights"))}
    for memory in board.other_memories(emulated=emulated):
        if "w" not in memory.access:
            homes.setdefault(memory.name, memory)
    return list(homes.values())


def choose_flasher(board: Board, tool: str = "") -> tuple[Flasher, Path]:
    """The program to flash a board with, and where it is. Raises :class:`ToolchainError`."""
    assert board.probe is not None
    wanted, source = (tool, "--tool") if tool else (os.environ.get(FLASHER_VARIABLE, ""), FLASHER_VARIABLE)
    if wanted:
        return _wanted(board.probe, board.name, wanted, source)
    notes = []
    for flasher in FLASHERS:
        program, refused = _find(flasher.name), flasher.cannot(board.probe)
        if program is not None and not refused:
            return flasher, program
        notes.append(f"{flasher.name}: {refused or f'not found ({flasher.install})'}")
    raise ToolchainError(
        f"there is no program to flash {board.name} with",
        why="; ".join(notes),
        hint=f"install one of them; or set {FLASHER_VARIABLE} (or --tool) to its path",
    )


def _wanted(probe: Probe, board: str, wanted: str, source: str) -> tuple[Flasher, Path]:
    stem = Path(wanted).name.lower().removesuffix(".exe")
    flasher = next((known for known in FLASHERS if known.name.lower() in stem), None)
    if flasher is None:
        names = ", ".join(known.name for known in FLASHERS)
        raise ToolchainError(f"{source} is '{wanted}', which is no program this tool knows", hint=f"one of: {names}")
    refused = flasher.cannot(probe)
    if refused:
        raise ToolchainError(f"{flasher.name} cannot flash {board}", why=refused, hint="leave the choice to this tool")
    program = _find(wanted)
    if program is None:
        raise ToolchainError(
            f"{source} is '{wanted}', which was not found", hint=f"{flasher.install}; or the program's path"
        )
    return flasher, program


def _find(name: str) -> Path | None:
    found = shutil.which(name)
    for folder in _FOLDERS if found is None else ():
        found = shutil.which(name, path=str(Path(folder).expanduser()))
        if found is not None:
            break
    return Path(found) if found is not None else None


def _failure(flasher: Flasher, board: Board, image: Path, output: str, code: int) -> ToolchainError:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    reason = next((line for line in lines if _NO_PROBE.search(line)), "")
    assert board.probe is not None
    if reason:
        return ToolchainError(
            f"{flasher.name} found no debug probe for {board.name} ({board.probe.interface})",
            why=reason,
            hint="connect the board by USB, end other debuggers, and check that this user may open the device",
        )
    return ToolchainError(
        f"{flasher.name} could not flash {image.name} onto {board.name} (exit code {code})",
        why=first_lines("\n".join(lines[-8:])) or "it said nothing",
        hint=f"another program: --tool {next(f.name for f in FLASHERS if f is not flasher)}",
    )
