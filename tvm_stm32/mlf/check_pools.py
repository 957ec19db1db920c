"""What must hold in the memory pools of a Library that was read from an archive, and in what says it lies there."""

from __future__ import annotations

import math
import re

from ..cnames import is_reserved
from ..errors import ModelError, quoted
from ..library import Library, Pool
from ..limits import ADDRESSES, MOST_POOLS, POOL_ALIGNMENTS, POOL_NAME, SECTION_NAME, SLOWEST


def check_pools(library: Library) -> None:
    """Raise :class:`ModelError` when pools are not sound, or something lies in one that is not there."""
    if len(library.pools) > MOST_POOLS:
        raise ModelError(f"there are {len(library.pools)} pools")
    for pool in library.pools:
        _check_pool(pool)
    if len({pool.key for pool in library.pools}) != len(library.pools):
        raise ModelError("two pools have one name")
    if library.pools and library.arena_pool is None:
        raise ModelError("none of the pools can be the arena")
    for pool in library.pools:
        if taken := pool.names(library.name) & {*library.kernels, *library.constants}:
            raise ModelError(f"{quoted(min(taken))} is the name of a pool's variable, too")
    static = {"", *(pool.name for pool in library.static_pools)}
    flash = {"", *(pool.name for pool in library.pools if pool.kind == "flash")}
    for tensor in library.tensors.values():
        if tensor.pool not in static or (tensor.pool and tensor.offset < 0):
            raise ModelError(f"the tensor {quoted(tensor.name)} lies in the pool {quoted(tensor.pool)}")
    for index, call in enumerate(library.calls):
        if call.workspace_pool not in static:
            raise ModelError(f"the workspace of call {index} lies in the pool {quoted(call.workspace_pool)}")
    for constant in library.constants.values():
        known = static if constant.offset >= 0 else flash
        if constant.pool not in known or not -1 <= constant.offset <= ADDRESSES:
            raise ModelError(f"the constant {quoted(constant.name)} lies in the pool {quoted(constant.pool)}")
    _check_kept(library)


def room(library: Library, pool: str) -> int:
    """Bytes of a static pool, or of the arena."""
    return library.pool(pool).used if pool else library.arena_size


def _check_pool(pool: Pool) -> None:
    where = f"the pool {quoted(pool.name)}"
    if not re.fullmatch(POOL_NAME, pool.name):
        raise ModelError(f"{where} has no C name")
    if pool.section and not re.fullmatch(SECTION_NAME, pool.section):
        raise ModelError(f"{where} lies in {quoted(pool.section)}, which is no section")
    if not 0 <= pool.size <= ADDRESSES or not 0 <= pool.used <= (pool.size or ADDRESSES):
        raise ModelError(f"{where} has {pool.size:,} bytes, of which {pool.used:,} are used")
    if pool.alignment not in POOL_ALIGNMENTS:
        raise ModelError(f"{where} is aligned to {pool.alignment} bytes")
    if any(not math.isfinite(cycles) or not 0 <= cycles <= SLOWEST for cycles in (pool.read_cycles, pool.write_cycles)):
        raise ModelError(f"{where} has a speed that is none")
    if pool.kind == "flash" and pool.holds != ("constants",):
        raise ModelError(f"{where} is flash and holds more than constants")


def _check_kept(library: Library) -> None:
    """What lives between runs is in the arena of its instance; ends elsewhere are whole buffers."""
    for state in library.states:
        if library.tensors[state.tensor].pool:
            raise ModelError(f"the variable {quoted(state.name)} is not in the arena")
    for name in (*library.input_tensors, *library.output_tensors):
        if library.tensors[name].pool and not library.movable(name):
            raise ModelError(f"{quoted(name)} is a part of what lies in a pool")
    if not library.shared_arena:
        return
    if not re.fullmatch(r"[A-Za-z]\w{0,99}", library.shared_arena, re.ASCII) or is_reserved(library.shared_arena):
        raise ModelError(f"{quoted(library.shared_arena)} is no C name of an arena")
    if library.states or any(c.offset >= 0 and not c.pool for c in library.constants.values()):
        raise ModelError("the arena is shared, and holds what lives between runs")
