"""Run an image on the board's QEMU machine (or a host program on this computer) and tell what became of it.

A run is a success only when the program exits with code 0 *and* its console ends with ``status=ok``: the emulator's
plain semihosting exit always gives 0, exit codes wrap at 256, and a program that aborts may do either.
"""

from __future__ import annotations

import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from ..boards import Board, Emulator
from ..errors import Error, FirmwareError, ToolchainError
from ..toolchain import find_qemu, first_lines
from .icount import (
    BEGIN_SYMBOL,
    END_SYMBOL,
    build_plugin,
    instructions_from_ticks,
    plugin_arguments,
    read_counts,
    systick_arguments,
)
from .image import Image
from .trace import Cache, Trace, read_trace, trace_arguments

CountMethod = Literal["none", "auto", "plugin", "systick", "trace"]

DEFAULT_TIMEOUT_S = 60.0

# Configurable fault status bits: Arm v7-M and v8-M architecture reference manuals, B3.2.15 and D1.2.
_FAULT_BITS = {
    0: "instruction fetch from memory that is not executable",
    1: "data access violation",
    4: "stacking for an exception failed",
    8: "instruction bus error",
    9: "precise data bus error",
    10: "imprecise data bus error",
    12: "bus error while stacking for an exception",
    16: "undefined instruction",
    17: "jump to an address without the Thumb bit",
    18: "bad exception return",
    19: "use of a coprocessor or FPU that is off or absent",
    20: "stack overflow",
    24: "unaligned access",
    25: "division by zero",
}


@dataclass(frozen=True)
class RunResult:
    """A successful run. ``instructions`` has one count for each inference (only the last one's from SysTick).

    ``values`` are the console's key=value lines, ``count_method`` says where the counts come from, ``guest_errors`` is
    QEMU's log of accesses that no device answered, ``trace`` what the last inference executed when it was asked for.
    """

    console: str
    exit_code: int
    values: dict[str, str] = field(default_factory=dict)
    instructions: tuple[int, ...] = ()
    count_method: CountMethod = "none"
    guest_errors: str = ""
    trace: Trace | None = None


@dataclass(frozen=True)
class _Ended:
    """How a process ended; ``registers`` is the emulator's register dump of a program that had to be stopped."""

    code: int
    console: str
    messages: str
    timed_out: bool = False
    registers: str = ""


def run_image(
    image: Path,
    board: Board,
    arguments: Sequence[str] = (),
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    cwd: Path | None = None,
    count: CountMethod = "none",
    cache_dir: Path | None = None,
    caches: tuple[Cache, Cache] | None = None,
) -> RunResult:
    """Run ``image`` with ``arguments`` (the program's own, without its name) and wait for its end.

    ``cwd`` is the folder relative file names of the program mean. ``count`` asks for instructions per inference:
    ``plugin`` and ``systick`` insist on a method, ``auto`` takes the plugin when it works here; programs on this
    computer have no counts. SysTick needs the runner application, which then gets the further argument ``ticks``; it
    adds about 30 instructions of its own. ``trace`` is ``plugin`` with the executed blocks and data accesses of the
    last inference, with ``caches`` (instructions, data) in front of its flash. ``cache_dir`` keeps the built plugin
    (default: beside the image).

    Raises :class:`FirmwareError` when the program hangs (time limit in seconds, place), faults (place, symbol), reports
    an error, or ends without ``status=ok``; :class:`ToolchainError` when the emulator is missing or does not start.
    """
    image = image.resolve()
    if not image.is_file():
        raise FirmwareError(f"image {image} does not exist")
    if board.is_host:
        ended = _wait([str(image), *arguments], cwd, timeout_s, None)
        return _judge(ended, image, board, timeout_s)
    emulator = board.emulator
    if emulator is None:
        raise FirmwareError(f"board '{board.name}' has no emulator", hint="add an 'emulator' section to its board file")
    if count == "trace":
        return _run_traced(image, board, emulator, arguments, timeout_s, cwd, cache_dir or image.parent, caches)
    if count in ("auto", "plugin"):
        try:
            return _run_counted(image, board, emulator, arguments, timeout_s, cwd, cache_dir or image.parent)
        except ToolchainError:
            if count == "plugin":
                raise
            count = "systick"
    if count == "systick":
        more = systick_arguments(emulator)
        result = _run_qemu(image, board, emulator, [*arguments, "ticks"], more, timeout_s, cwd)
        ticks = int(result.values.get("ticks", "0"))
        return _with_counts(result, (instructions_from_ticks(ticks, emulator),), "systick")
    return _run_qemu(image, board, emulator, arguments, [], timeout_s, cwd)


def _run_counted(
    image: Path,
    board: Board,
    emulator: Emulator,
    arguments: Sequence[str],
    timeout_s: float,
    cwd: Path | None,
    cache_dir: Path,
) -> RunResult:
    plugin = build_plugin(find_qemu(), cache_dir)
    symbols = Image(image)
    begin, end = symbols.function_address(BEGIN_SYMBOL), symbols.function_address(END_SYMBOL)
    with tempfile.TemporaryDirectory(prefix="tvm-stm32-") as folder:
        output = Path(folder) / "counts"
        more = plugin_arguments(plugin, begin, end, output)
        result = _run_qemu(image, board, emulator, arguments, more, timeout_s, cwd)
        return _with_counts(result, read_counts(output), "plugin")


def _run_traced(
    image: Path,
    board: Board,
    emulator: Emulator,
    arguments: Sequence[str],
    timeout_s: float,
    cwd: Path | None,
    cache_dir: Path,
    caches: tuple[Cache, Cache] | None,
) -> RunResult:
    plugin = build_plugin(find_qemu(), cache_dir, "trace")
    symbols = Image(image)
    begin, end = symbols.function_address(BEGIN_SYMBOL), symbols.function_address(END_SYMBOL)
    with tempfile.TemporaryDirectory(prefix="tvm-stm32-") as folder:
        output = Path(folder) / "trace"
        more = trace_arguments(plugin, begin, end, output, board, caches)
        result = _run_qemu(image, board, emulator, arguments, more, timeout_s, cwd)
        trace = read_trace(output)
    return replace(result, instructions=(trace.instructions,), count_method="trace", trace=trace)


def _with_counts(result: RunResult, counts: tuple[int, ...], method: CountMethod) -> RunResult:
    return replace(result, instructions=counts, count_method=method)


def _run_qemu(
    image: Path,
    board: Board,
    emulator: Emulator,
    arguments: Sequence[str],
    more: list[str],
    timeout_s: float,
    cwd: Path | None,
) -> RunResult:
    for argument in arguments:
        if not argument or argument.split() != [argument]:
            raise FirmwareError(
                f"argument '{argument}' cannot be handed to a program on the emulator",
                why="its command line is one text, split at blanks",
                hint="use file names without blanks, relative to the working folder",
            )
    with tempfile.TemporaryDirectory(prefix="tvm-stm32-") as folder:
        log, monitor = Path(folder) / "guest_errors", Path(folder) / "monitor"
        command = [str(find_qemu()), "-M", emulator.machine, *emulator.arguments, "-display", "none", "-serial", "null"]
        command += ["-d", "guest_errors", "-D", str(log), *_monitor_arguments(monitor)]
        command += ["-chardev", "stdio,id=console,signal=off", "-semihosting-config", _semihosting(image, arguments)]
        command += [*more, "-kernel", str(image)]
        ended = _wait(command, cwd, timeout_s, monitor)
        errors = _guest_errors(log, board.memory("flash", emulated=True).origin)
    # QEMU begins its own complaints with its name; a program that fails has no say on that stream.
    if ended.code == 1 and not ended.console and f"{Path(command[0]).name}: " in ended.messages:
        raise ToolchainError(
            f"the emulator does not start the machine {emulator.machine}", why=first_lines(ended.messages, 3)
        )
    return _judge(ended, image, board, timeout_s, errors)


def _guest_errors(log: Path, vectors: int) -> str:
    """The log without the two reads some machines make of the vector table before the image is loaded."""
    if not log.is_file():
        return ""
    early = {f"Invalid read at addr {address:#x}, size 4," for address in (vectors, vectors + 4)}
    lines = log.read_text(encoding="utf-8", errors="replace").lower().splitlines()
    kept = [line for line in lines if not any(line.startswith(start.lower()) for start in early)]
    return "\n".join(kept)


def _semihosting(image: Path, arguments: Sequence[str]) -> str:
    words = [image.stem, *arguments]
    given = ",".join("arg=" + word.replace(",", ",,") for word in words)
    return f"enable=on,target=native,chardev=console,{given}"


def _monitor_arguments(path: Path) -> list[str]:
    if not hasattr(socket, "AF_UNIX"):
        return ["-monitor", "none"]
    return ["-chardev", f"socket,id=monitor,path={path},server=on,wait=off", "-mon", "chardev=monitor,mode=readline"]


def _wait(command: list[str], cwd: Path | None, timeout_s: float, monitor: Path | None) -> _Ended:
    try:
        process = subprocess.Popen(
            command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except OSError as error:
        raise ToolchainError(f"cannot run {command[0]}", why=error.strerror or str(error)) from error
    registers, timed_out = "", False
    with process:
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
            registers = _ask_registers(monitor) if monitor is not None else ""
            process.kill()
            out, err = process.communicate()
        except BaseException:
            process.kill()
            raise
    code = process.returncode
    return _Ended(code, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"), timed_out, registers)


def _ask_registers(monitor: Path, patience_s: float = 2.0) -> str:
    """The monitor's ``info registers``, empty when it does not answer in time."""
    if not hasattr(socket, "AF_UNIX"):
        return ""
    text = b""
    deadline = time.monotonic() + patience_s
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            link.settimeout(patience_s)
            link.connect(str(monitor))
            link.sendall(b"info registers\n")
            while not re.search(rb"R15=[0-9a-f]{8}", text) and time.monotonic() < deadline:
                part = link.recv(4096)
                if not part:
                    break
                text += part
    except OSError:
        pass
    return text.decode("ascii", "replace")


def _judge(ended: _Ended, image: Path, board: Board, timeout_s: float, errors: str = "") -> RunResult:
    """The result of a success; raises for everything else."""
    where = "this computer" if board.is_host else f"{board.name}'s emulator"
    if ended.timed_out:
        raise FirmwareError(
            f"{image.name} did not end on {where} within {timeout_s:g} s" + _place(image, ended.registers),
            why=", ".join([*_stack_reason(ended.registers, board), _tail(ended.console)]),
            hint="the firmware hangs, or the time limit is too short for this model",
        )
    fault = re.search(r"^fault exception=(\w+)(.*)$", ended.console, re.MULTILINE)
    if fault is not None:
        reasons = (_fault_reason(fault[2], board), fault[2].strip(), errors.strip()[-400:])
        raise FirmwareError(
            f"{image.name} faulted on {where} ({fault[1]})" + _place(image, fault[2]),
            why="; ".join(reason for reason in reasons if reason),
        )
    if "Lockup" in ended.messages:
        raise FirmwareError(
            f"{image.name} faulted on {where}, and again while that fault was handled (lockup)"
            + _place(image, ended.messages),
            why=", ".join(_stack_reason(ended.messages, board)) or "the vector table is bad",
        )
    lines = ended.console.split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    last = lines[-1].strip() if lines else ""
    reported = re.search(r"^status=error ?(.*)$", ended.console, re.MULTILINE)
    if reported is not None:
        raise FirmwareError(f"{image.name} reported an error on {where}: {reported[1]}", why=_tail(ended.console))
    if ended.code != 0 or last != "status=ok":
        raise FirmwareError(
            f"{image.name} ended on {where} with exit code {ended.code} "
            + ("after status=ok" if last == "status=ok" else "without status=ok"),
            why=_tail(ended.console) or first_lines(ended.messages, 5),
            hint="the program aborted or left main early",
        )
    values = dict(re.findall(r"^([a-z][a-z0-9_]*)=(.*?)\r?$", ended.console, re.MULTILINE))
    return RunResult(ended.console, ended.code, values, guest_errors=errors)


def _place(image: Path, text: str) -> str:
    """`` at 0x... : function (file:line)`` for the pc in a fault line or register dump."""
    match = re.search(r"(?:\bpc=0x|R15=)([0-9a-fA-F]{8})", text)
    if match is None:
        return ""
    address = int(match[1], 16)
    try:
        name = Image(image).describe(address)
    except Error:
        name = "an image without symbols"
    return f" at 0x{address:08x}: {name}"


def _fault_reason(text: str, board: Board) -> str:
    status = re.search(r"cfsr=0x([0-9a-f]{8})", text)
    bits = int(status[1], 16) if status is not None else 0
    reasons = [reason for bit, reason in _FAULT_BITS.items() if bits >> bit & 1]
    return ", ".join([*reasons, *_stack_reason(text, board)])


def _stack_reason(text: str, board: Board) -> list[str]:
    """What the stack pointer in a fault line or register dump tells, if anything."""
    match = re.search(r"(?:\bsp=0x|R13=)([0-9a-fA-F]{8})", text)
    if match is None:
        return []
    ram = board.memory("ram", emulated=True)
    if ram.origin <= int(match[1], 16) <= ram.end:
        return []
    return [f"the stack pointer is outside {ram.name}, as after a stack overflow"]


def _tail(console: str, count: int = 5) -> str:
    lines = [line for line in console.splitlines() if line.strip()]
    return "its last output was: " + " | ".join(lines[-count:]) if lines else "it printed nothing"
