"""What a report says of memory: pools, each buffer's time and place, and who makes the peak."""

from __future__ import annotations

from typing import Any

from ..library import Call, Library
from ..memory.lifetimes import Buffer, constant_name, live_bytes, placed
from ..memory.pools import cycles, cycles_in_arena

ARENA = "arena"


def memory_facts(library: Library) -> dict[str, Any]:
    """Pools, buffers and peak of a planned library.

    A buffer is in use from step ``first`` to step ``last``, both included: -1 is before the first operator, the number
    of operators after the last one. ``over`` are buffers that are read for the last time where this one begins, and the
    bytes it shares with them. The peak's buffers add up to it: ``adds`` is what a buffer needs beside those before it.
    """
    buffers = placed(library)
    steps = len(library.calls)
    in_use: list[list[Buffer]] = [[] for _ in range(steps)]
    for buffer in buffers:
        for step in range(max(0, buffer.first), min(steps - 1, buffer.last) + 1):
            in_use[step].append(buffer)
    return {
        "pools": _pools(library),
        "buffers": [
            {
                "name": buffer.name,
                "pool": buffer.pool or _arena_name(library),
                "kind": _kind(library, buffer),
                "first": buffer.first,
                "last": buffer.last,
                "offset": buffer.offset,
                "bytes": buffer.size,
                "over": _over(buffer, in_use[buffer.first] if 0 <= buffer.first < steps else []),
            }
            for buffer in buffers
        ],
        "peak": _peak(library, buffers, in_use),
        **_extra_cycles(library),
    }


def _extra_cycles(library: Library) -> dict[str, Any]:
    """Modelled cycles that slow memory costs, and what it would cost without pools; nothing without any."""
    if not library.pools:
        return {}
    return {"extra_cycles": {"run": round(cycles(library)), "without": round(cycles_in_arena(library))}}


def _arena_name(library: Library) -> str:
    arena = library.arena_pool
    return arena.name if arena is not None else ARENA


def _pools(library: Library) -> list[dict[str, Any]]:
    """The arena, then the other pools in RAM; ``limit`` is what a pool may have (0: nothing said)."""
    arena = library.arena_pool
    limit = arena.size if arena is not None else 0
    first = {"bytes": library.arena_size, "alignment": library.arena_alignment, "limit": limit}
    return [
        {"name": _arena_name(library), **first},
        *(
            {
                "name": pool.name,
                "bytes": pool.used,
                "alignment": max(pool.alignment, library.arena_alignment),
                "limit": pool.size,
            }
            for pool in library.static_pools
        ),
    ]


def _kind(library: Library, buffer: Buffer) -> str:
    names = set(buffer.tensors)
    if not names:
        copies = {constant_name(constant.name) for constant in library.constants.values() if constant.offset >= 0}
        return "constant" if buffer.name in copies else "workspace"
    if names & {state.tensor for state in library.states}:
        return "state"
    if names & {library.root(name) for name in library.input_tensors}:
        return "input"
    if names & {library.root(name) for name in library.output_tensors}:
        return "output"
    return "activation"


def _shared(one: Buffer, other: Buffer) -> int:
    """Bytes at the same addresses."""
    return min(one.offset + one.size, other.offset + other.size) - max(one.offset, other.offset)


def _over(buffer: Buffer, others: list[Buffer]) -> list[dict[str, Any]]:
    return [
        {"name": other.name, "bytes": _shared(buffer, other)}
        for other in others
        if other.first < buffer.first and other.pool == buffer.pool and _shared(buffer, other) > 0
    ]


def _peak(library: Library, buffers: list[Buffer], in_use: list[list[Buffer]]) -> dict[str, Any]:
    live = live_bytes(buffers, len(library.calls))
    if not live:
        return {"step": None, "bytes": 0, "buffers": []}
    step = live.index(max(live))
    call = library.calls[step]
    order = ("input", "kept", "result", "workspace")
    roles = sorted(((_role(library, call, buffer), buffer) for buffer in in_use[step]), key=lambda r: order.index(r[0]))
    parts, before = [], 0
    for number, (role, buffer) in enumerate(roles, start=1):
        # Of one step: what the first so many buffers cover.
        first = [Buffer(b.name, b.size, 0, 0, offset=b.offset, pool=b.pool) for _, b in roles[:number]]
        covered = live_bytes(first, 1)[0]
        parts.append({"name": buffer.name, "role": role, "bytes": buffer.size, "adds": covered - before})
        before = covered
    return {"step": step, "bytes": live[step], "buffers": parts}


def _role(library: Library, call: Call, buffer: Buffer) -> str:
    """What a buffer is to an operator; ``kept`` is for another one."""
    names = set(buffer.tensors)
    if not names:
        return "kept" if _kind(library, buffer) == "constant" else "workspace"
    if names & {library.root(name) for name in call.inputs}:
        return "input"
    return "result" if names & {library.root(name) for name in call.outputs} else "kept"


def peak_text(facts: dict[str, Any]) -> str:
    """Who makes the peak, in words; empty for a network without operators."""
    peak = facts["memory"]["peak"]
    if peak["step"] is None:
        return ""
    row = facts["operators"][peak["step"]]
    over = {buffer["name"] for buffer in facts["memory"]["buffers"] if buffer["over"]}
    copies = {buffer["name"] for buffer in facts["memory"]["buffers"] if buffer["kind"] == "constant"}
    parts: dict[str, list[int]] = {}
    for part in peak["buffers"]:
        text = {"kept": "kept for later"}.get(part["role"], part["role"])
        if part["name"] in copies:
            text = "copies of weights"
        elif part["role"] == "result" and part["name"] in over:
            text = f"result {part['bytes']:,} over it"
            parts[f"{text} ({part['adds']:,} more)" if part["adds"] else text] = []
            continue
        parts.setdefault(text, []).append(part["bytes"])
    texts = (f"{text} {_sum(sizes)}" if sizes else text for text, sizes in parts.items())
    where = " in all pools" if len(facts["memory"]["pools"]) > 1 else ""
    return f"operator {row['index']}, {row['operator']}, needs {peak['bytes']:,} bytes{where}: {', '.join(texts)}"


def _sum(sizes: list[int]) -> str:
    """One size, or what several make up."""
    return f"{sum(sizes):,}" if len(sizes) < 2 else f"{sum(sizes):,} ({len(sizes)} buffers)"
