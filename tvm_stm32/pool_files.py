"""Pools of memory from a YAML file or a board: what ``--pools`` means."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import cast

from .boards import Board, Memory, PoolEntry, board_schema, pool_entries, pool_section
from .errors import Error, TargetError
from .library import ARENA_SECTION, WEIGHTS_SECTION, Content, Pool, PoolKind
from .limits import ADDRESSES
from .yaml_files import read_checked

OF_BOARD, OF_ARCHIVE = "board", "archive"
"""Instead of a file: the pools the board's file has, or those a Model Library Format archive was built with."""

# Sections that linker scripts put into flash.
_CODE = (".text", ".rodata", ".isr_vector", ".init", ".fini", ".ARM.")
_EXAMPLE = "pools: [{name: SRAM, section: .sram1, size: 96K, holds: [activations, io]}]"
# A word of a flash nobody has described.
_FLASH_CYCLES = 2.0
_DEFAULT: dict[PoolKind, tuple[Content, ...]] = {"ram": ("activations",), "flash": ("constants",)}


def load_pools(choice: str, board: Board | None) -> list[Pool]:
    """The pools of a YAML file, or of ``board``. Raises :class:`TargetError` naming the file and the key."""
    if choice == OF_BOARD:
        if board is None or not board.pools:
            raise TargetError(
                f"--pools {OF_BOARD}: " + (f"the board {board.name} has no pools" if board else "there is no board"),
                hint=f"describe them in a file: {_EXAMPLE}",
            )
        return _pools(board.pools, board, board.name)
    path = Path(choice)
    if not os.path.isfile(path):  # noqa: PTH113 - Path.is_file raises where a path cannot exist
        what = "is a folder" if os.path.isdir(path) else "does not exist"  # noqa: PTH112 - likewise
        raise TargetError(f"pool file '{choice}' {what}", hint=f"or '{OF_BOARD}': the pools of the board")
    whole = board_schema()
    schema = {
        "type": "object",
        "required": ["pools"],
        "additionalProperties": False,
        "properties": {"pools": {"$ref": "#/$defs/pools"}},
        "$defs": whole["$defs"],
    }
    return _pools(pool_entries(read_checked(path, "pool file", schema)["pools"]), board, str(path))


def parse_pins(texts: tuple[str, ...]) -> dict[str, str]:
    """``tensor=pool`` as tensors and pools; names of tensors may hold equals signs."""
    pins: dict[str, str] = {}
    for text in texts:
        name, _, pool = text.rpartition("=")
        if not name or not pool:
            raise Error(f"--pin '{text}' is no TENSOR=POOL", hint="for example input=SRAM; the report lists tensors")
        if pins.setdefault(name, pool) != pool:
            raise Error(f"--pin is there twice for '{name}'", hint="give one pool")
    return pins


def _pools(entries: tuple[PoolEntry, ...], board: Board | None, where: str) -> list[Pool]:
    pools: list[Pool] = []
    for number, entry in enumerate(entries):
        place = f"{where}: pools[{number}]"
        pool = _pool(entry, board, place)
        for other in pools:
            if other.key == pool.key:
                raise TargetError(f"{place}.name: a second pool named '{pool.name}'")
            if pool.section and other.section == pool.section:
                raise TargetError(f"{place}: '{pool.name}' and '{other.name}' are one memory", hint="give it one pool")
        pools.append(pool)
    if not any(pool.kind == "ram" and "activations" in pool.holds for pool in pools):
        raise TargetError(
            f"{where}: pools: none is RAM that holds activations", hint="the first such pool is the arena"
        )
    if any("constants" in pool.holds for pool in pools) and not any(pool.kind == "flash" for pool in pools):
        # What is not copied stays with the other weights.
        taken = {pool.key for pool in pools}
        name = next(name for number in range(len(pools) + 1) if (name := f"FLASH{number or ''}") not in taken)
        pools.append(Pool(name, WEIGHTS_SECTION, kind="flash", holds=_DEFAULT["flash"], read_cycles=_FLASH_CYCLES))
    return pools


def _pool(entry: PoolEntry, board: Board | None, place: str) -> Pool:
    memory = _memory(entry.memory, board, place) if entry.memory else None
    kind = cast(PoolKind, entry.kind or ("flash" if memory is not None and "w" not in memory.access else "ram"))
    if kind == "ram" and memory is not None and "w" not in memory.access:
        raise TargetError(f"{place}.kind: ram, and {memory.name} cannot be written")
    if kind == "ram" and entry.section.startswith(_CODE):
        raise TargetError(
            f"{place}.section: '{entry.section}' is one of code and constants", hint="a section in RAM, or kind: flash"
        )
    holds = cast(tuple[Content, ...], entry.holds) or _DEFAULT[kind]
    if kind == "flash" and holds != ("constants",):
        raise TargetError(f"{place}.holds: flash holds constants only")
    if not (math.isfinite(entry.read) and math.isfinite(entry.write)):
        raise TargetError(f"{place}: read and write are numbers of cycles")
    size, section = entry.size, entry.section
    if size > ADDRESSES:
        raise TargetError(f"{place}.size: {size:,} bytes are more than a Cortex-M addresses")
    if memory is not None and board is not None:
        is_ram = memory == board.ram
        # The stack lies there as well.
        room = memory.size - (board.stack_size if is_ram else 0)
        if size > room:
            raise TargetError(f"{place}.size: {size:,} bytes, and {memory.name} has room for {room:,}")
        size = size or room
        section = section or _section(memory, board, kind)
    return Pool(entry.name, section, size, kind, holds, float(entry.read), float(entry.write), entry.alignment)


def _memory(name: str, board: Board | None, place: str) -> Memory:
    if board is None or board.is_host:
        raise TargetError(f"{place}.memory: '{name}' is a board's", hint="give --board, or size and section instead")
    for memory in board.memories:
        if memory.name == name:
            return memory
    raise TargetError(
        f"{place}.memory: board '{board.name}' has no memory '{name}'",
        hint="one of: " + ", ".join(memory.name for memory in board.memories),
    )


def _section(memory: Memory, board: Board, kind: PoolKind) -> str:
    """The section that the board's linker script puts into a memory."""
    if memory == board.ram and kind == "ram":
        return ARENA_SECTION
    if memory == board.weights:
        return WEIGHTS_SECTION
    return f".rodata{pool_section(memory.name)}" if memory == board.flash else pool_section(memory.name)
