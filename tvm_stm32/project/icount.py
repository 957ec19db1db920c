"""Instruction counts of inferences: a QEMU plugin built on the spot, or SysTick under ``-icount``.

The plugin counts exactly. Without a host compiler or plugins in QEMU, SysTick ticks are converted: under
``-icount shift=s`` an instruction takes 2^s ns of virtual time and SysTick runs at the machine's clock f, so
instructions = ticks * 1e9 / (f * 2^s). Counts are instructions, not cycles.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

from ..boards import Emulator
from ..errors import ToolchainError
from ..toolchain import find_host_cc, first_lines, qemu_major, run_tool

BEGIN_SYMBOL = "bench_begin"
END_SYMBOL = "bench_end"


def build_plugin(qemu: Path, cache_dir: Path, name: str = "icount") -> Path:
    """The plugin of that name for this QEMU, compiled into ``cache_dir`` when it is not there yet.

    Its name holds a hash of source, compiler and flags, so a changed plugin never meets an old file. Raises
    :class:`ToolchainError` when there is no host compiler or it fails.
    """
    source = Path(__file__).with_name(f"{name}_plugin.c")
    compiler = find_host_cc()
    # QEMU 9 dropped API version 1; the functions used here are in every version.
    api = 2 if qemu_major(qemu) >= 9 else 1
    command = [str(compiler), "-O2", f"-DICOUNT_API={api}", "-shared", "-fPIC"]
    if sys.platform == "darwin":
        command += ["-undefined", "dynamic_lookup"]
    text = source.read_bytes() + source.with_name("plugin_api.h").read_bytes()
    digest = hashlib.sha256(text + repr(command).encode()).hexdigest()[:16]
    plugin = cache_dir / f"{name}-{digest}.so"
    if plugin.is_file():
        return plugin.resolve()
    cache_dir.mkdir(parents=True, exist_ok=True)
    temporary = cache_dir / f".{plugin.name}.{os.getpid()}"
    try:
        done = run_tool([*command, source, "-o", temporary], timeout_s=60)
        if done.returncode != 0:
            raise ToolchainError(f"the {name} plugin does not compile", why=first_lines(done.stderr))
        temporary.replace(plugin)
    finally:
        temporary.unlink(missing_ok=True)
    return plugin.resolve()


def plugin_arguments(plugin: Path, begin: int, end: int, output: Path) -> list[str]:
    """QEMU arguments that load the plugin; ``begin`` and ``end`` are function addresses without the Thumb bit."""
    # A comma ends an option's value in QEMU; a doubled one is a comma.
    path, out = (str(item).replace(",", ",,") for item in (plugin, output))
    return ["-plugin", f"{path},begin={begin:#x},end={end:#x},out={out}"]


def read_counts(output: Path) -> tuple[int, ...]:
    """Instructions of each inference, as the plugin wrote them; empty when it wrote nothing."""
    if not output.is_file():
        return ()
    return tuple(int(line) for line in output.read_text(encoding="ascii").split())


def systick_arguments(emulator: Emulator) -> list[str]:
    """QEMU arguments that make virtual time follow instructions."""
    return ["-icount", f"shift={emulator.icount_shift},sleep=off"]


def instructions_from_ticks(ticks: int, emulator: Emulator) -> int:
    """Instructions that took ``ticks`` SysTick ticks under :func:`systick_arguments`."""
    return round(ticks * 1e9 / (emulator.clock_hz * (1 << emulator.icount_shift)))
