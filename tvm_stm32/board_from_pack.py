"""A board file from the device of a CMSIS pack: core, memories, names of tools. The rest is not the chip's."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cmsis_packs.model import Device, Memory, Processor
from cmsis_packs.pdsc import read_pdsc

from .errors import PackError, TargetError
from .machines import MACHINES, place
from .sizes import size_text
from .target import Target, known_cpus

_FPU = {"NO_FPU": "none", "SP_FPU": "sp", "DP_FPU": "dp"}
_STAND_INS = {machine.core: name for name, machine in MACHINES.items()}
_STAND_INS["Cortex-M0+"] = _STAND_INS["Cortex-M0"] = "mps2-an385"
_MOST_POOLS = 15
_LARGEST_RAM = 8 << 20
# RAM beside the core, which has no wait states.
_COUPLED = re.compile(r"TCM|CCM|TIGHT")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")


def board_yaml(name: str, pdsc: Path, device_name: str, processor_name: str = "") -> str:
    """The text of a board file ``name`` for a device of the pack ``pdsc``: see :func:`device_board`."""
    pack = read_pdsc(pdsc)
    head = f"# From {_plain(pack.vendor)}.{_plain(pack.name)} {_plain(pack.versions[0])}.\n"
    return head + device_board(name, pack.device(device_name), processor_name)


def device_board(name: str, device: Device, processor_name: str = "", *, secure: bool = False) -> str:
    """The text of a board file ``name`` for a device; the same for all packs that describe it alike. ``secure`` takes
    the secure addresses of memories.

    The flash is the memory that holds the vectors, with what follows it directly; the RAM is the largest memory for
    general use. Of memories with a secure and a non-secure address the non-secure one is taken. Raises
    :class:`TargetError` and :class:`PackError`.
    """
    if not _NAME.fullmatch(name):
        raise TargetError(f"'{name}' is no name of a board", hint="small letters, digits, - and _")
    processor = device.processor(processor_name)
    if processor.big_endian:
        raise TargetError(f"{device.name} is big-endian", why="STM32 are little-endian, and so are our kernels")
    cpu = processor.core.lower().replace("+", "plus")
    if cpu not in known_cpus():
        raise TargetError(
            f"{device.name} has a core that is not known: {processor.core}",
            hint="one of: " + ", ".join(known_cpus()[1:]),
        )
    memories, flash, ram = _choose(device, processor, secure)
    features = _features(cpu, processor)
    machine = _stand_in(processor, memories, flash)
    lines = [
        f"name: {name}",
        f"title: {json.dumps(f'{device.name} ({processor.core})')}",
        f"device: {json.dumps(device.name)}",
        "tried: nowhere",
        f"cpu: {cpu}",
        *([f"features: {{{', '.join(features)}}}"] if features else []),
        "# The highest clock of the chip; without 'clocks' it stays that of the reset.",
        f"clock_hz: {processor.clock_hz or 1_000_000}",
        f"probe: {{interface: st-link, pyocd: {json.dumps(device.name.lower())}}}",
        "memories:",
        *(
            f"  - {{name: {n}, origin: {m.origin:#010x}, size: {size_text(m.size)}, access: {a}}}"
            for n, m, a in memories
        ),
        "# Cycles of a word are guesses from the kind of memory: measure, and see --pools.",
        "pools:",
        *_pools(memories, flash, ram),
        f"image: {{flash: {flash}, ram: {ram}, stack: {_stack(memories, ram)}}}",
        *([f"emulator: {{stand_in: {machine}}}"] if machine else []),
    ]
    return "\n".join(lines) + "\n"


def _pools(memories: Sequence[tuple[str, Memory, str]], flash: str, ram: str) -> list[str]:
    """The memories as pools: the RAM of the image is the arena; windows of external memory are left out."""
    others = [
        (name, access) for name, memory, access in memories if name not in (flash, ram) and memory.size <= _LARGEST_RAM
    ]
    lines = [_pool(ram, "activations, io")]
    lines += [_pool(name, "activations, constants") for name, access in others if "w" in access]
    return [*lines[:_MOST_POOLS], f"  - {{name: {flash}, memory: {flash}, read: 2}}"]


def _pool(name: str, holds: str) -> str:
    cost = "" if _COUPLED.search(name) else "read: 1, write: 1, "
    return f"  - {{name: {name}, memory: {name}, {cost}holds: [{holds}]}}"


def _stand_in(processor: Processor, memories: Sequence[tuple[str, Memory, str]], flash: str) -> str:
    """The machine of the core, "" when it has no room for all memories."""
    machine = _STAND_INS.get(processor.core, "")
    try:
        if machine:
            place(machine, [(name, memory.size, name == flash or access == "rx") for name, memory, access in memories])
    except TargetError:
        return ""
    return machine


def _plain(text: str) -> str:
    return re.sub(r"[^!-~]", "_", text)


def _features(cpu: str, processor: Processor) -> list[str]:
    """What the processor has otherwise than its core usually has."""
    usual = Target.for_cpu(cpu)
    has_dsp = processor.dsp or cpu in ("cortex-m4", "cortex-m7")
    features = [] if has_dsp == usual.dsp else [f"dsp: {str(has_dsp).lower()}"]
    has_mve = processor.mve != "NO_MVE"
    features += [] if has_mve == usual.mve else [f"mve: {str(has_mve).lower()}"]
    fpu = _FPU[processor.fpu]
    return features + ([] if fpu == usual.fpu else [f"fpu: {fpu}"])


def _choose(device: Device, processor: Processor, secure: bool) -> tuple[list[tuple[str, Memory, str]], str, str]:
    """Memories with a name and an access the schema takes, and the names of flash and RAM."""
    # Neither peripherals nor bytes that are only read, such as one-time programmable ones.
    found = [
        memory for memory in device.memories_of(processor.name) if set("wx") & {*memory.access} and memory.size > 0
    ]
    found = [memory for memory in found if "p" not in memory.access]
    other_world = {memory.name for memory in found if memory.secure and any(_same(memory, m) for m in found)}
    if secure and any(memory.secure for memory in found):
        other_world = {memory.name for memory in found if memory.non_secure and not memory.secure}
    found = sorted((memory for memory in found if memory.name not in other_world), key=lambda memory: memory.origin)
    found = [memory for memory in found if not memory.alias or all(m.name != memory.alias for m in found)]
    code = [memory for memory in found if "x" in memory.access or memory.startup]
    starts = [memory for memory in code if memory.startup] or [memory for memory in code if "w" not in memory.access]
    data = [memory for memory in found if "w" in memory.access and memory not in starts]
    if not starts or not data:
        raise PackError(f"device '{device.name}' has no memory for {'data' if starts else 'vectors and code'}")
    flash = _merged(starts[0], [memory for memory in found if "w" not in memory.access])
    # Windows of megabytes are external memory, or none at all.
    data = [memory for memory in data if not flash.origin <= memory.origin < flash.end]
    if not data:
        raise PackError(f"device '{device.name}' has no memory for data outside its {flash.name}")
    ram = max(data, key=lambda memory: (memory.size <= _LARGEST_RAM, memory.default, memory.size))
    kept = [flash, *(m for m in found if m is not starts[0] and not flash.origin <= m.origin < flash.end)]
    names: dict[int, str] = {}
    for memory in kept:
        base = re.sub(r"\W", "_", memory.name.upper()).strip("_") or "MEMORY"
        base = base if base[0].isalpha() else f"M_{base}"
        name, number = base, 2
        while name in names.values():
            name, number = f"{base}_{number}", number + 1
        names[id(memory)] = name
    entries = [(names[id(memory)], memory, _access(memory)) for memory in kept]
    return entries, names[id(flash)], names[id(ram)]


def _same(memory: Memory, other: Memory) -> bool:
    """Whether ``other`` is the non-secure face of ``memory``."""
    return other.non_secure and not other.secure and (memory.alias == other.name or other.alias == memory.name)


def _merged(first: Memory, others: Sequence[Memory]) -> Memory:
    """``first`` with the memories for general use that follow it without a gap."""
    end = first.end
    for memory in sorted(others, key=lambda memory: memory.origin):
        if memory.origin == end and memory.default:
            end = memory.end
    return replace(first, size=end - first.origin)


def _access(memory: Memory) -> str:
    if "w" not in memory.access:
        return "rx"
    return "rwx" if "x" in memory.access else "rw"


def _stack(memories: Sequence[tuple[str, Memory, str]], ram: str) -> str:
    size = next(memory.size for name, memory, _ in memories if name == ram)
    return "4K" if size >= 16 << 10 else "1K"
