"""Memory pools an old build named (``WorkspaceMemoryPools``, ``ConstantMemoryPools``), as pools of a Library.

:mod:`.aot_network` makes a tensor of each such pool in RAM and a constant of each in flash, by the pool's name; here
that name leads to the pool of this tool.
"""

from __future__ import annotations

import re

from ..boards import pool_section
from ..errors import ModelError
from ..library import Library, Pool
from ..limits import MOST_POOLS, POOL_NAME

_TENSOR = "pool "


def archive_pools(library: Library) -> list[Pool]:
    """The pools the archive's build had, with their sizes, each in a section of its name; the arena comes first.

    A pool that holds inputs and outputs is the arena. Raises :class:`ModelError` when there are none.
    """
    ram, flash = _ram(library), _flash(library)
    ends = {library.root(name) for name in (*library.input_tensors, *library.output_tensors)}
    if not ram and not flash:
        raise ModelError(
            f"{library.provenance.file_name} has no memory pools of its build",
            why="it was built without WorkspaceMemoryPools and ConstantMemoryPools",
            hint="a file of pools says what there is",
        )
    arena = next((name for name, tensor in ram.items() if tensor in ends), "")
    pools = [Pool(arena or "arena", pool_section(arena) if arena else "")]
    for name, tensor in ram.items():
        if name != arena:
            pools.append(Pool(name, pool_section(name), library.tensors[tensor].size, alignment=16))
    for name, constant in flash.items():
        size = library.constants[constant].data.nbytes
        pools.append(Pool(name, pool_section(name), -(-size // 16) * 16, "flash", ("constants",), alignment=16))
    if len({pool.key for pool in pools}) != len(pools) or len(pools) > MOST_POOLS:
        raise ModelError(f"{library.provenance.file_name}: pools of one name, or more than {MOST_POOLS}")
    return pools


def archive_pins(library: Library) -> dict[str, str]:
    """What lay in a pool of the archive lies in the library's pool of that name, if there is one that takes it."""
    ends = {library.root(name) for name in (*library.input_tensors, *library.output_tensors)}
    pools = {pool.key: pool for pool in library.pools}
    pins = {}
    for name, tensor in _ram(library).items():
        pool = pools.get(name.upper())
        if pool is not None and "activations" in pool.holds and tensor not in ends:
            pins[tensor] = pool.name
    for name, constant in _flash(library).items():
        pool = pools.get(name.upper())
        if pool is not None and "constants" in pool.holds:
            pins[constant] = pool.name
    return pins


def _ram(library: Library) -> dict[str, str]:
    """Tensors by the names of the pools they are."""
    names = (name for name in library.tensors if name.startswith(_TENSOR) and name not in library.aliases)
    return {name.removeprefix(_TENSOR): name for name in names if re.fullmatch(POOL_NAME, name.removeprefix(_TENSOR))}


def _flash(library: Library) -> dict[str, str]:
    """Constants by the names of the pools they are; the pool of a module without named ones is none."""
    prefix = f"{library.name}_pool_"
    names = (name.removeprefix(prefix) for name in library.constants if name.startswith(prefix))
    return {
        name: f"{prefix}{name}"
        for name in names
        if re.fullmatch(POOL_NAME, name) and not name.startswith("global_const_workspace")
    }
