"""Which pool each buffer and constant lies in, so that the modelled time of memory accesses is least.

Pools have a capacity and a cost of each word read and written. What a run touches most for its size goes where words
are cheap, as long as everything else still fits: by several orders, then by moves and swaps, then by a search over all
assignments with a bound, which proves the result for small networks and gives up on large ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..errors import CapacityError, Error, quoted
from ..library import WEIGHTS_SECTION, Library, Pool
from ..library.pins import numbered_pins
from .lifetimes import Buffer, constant_buffer, constant_name, lifetimes, workspace_name
from .planner import lower_bound, place
from .traffic import Traffic, traffic

# Assignments looked at by the search that proves, and moves and swaps tried before it.
_NODES = 4000
_TRIALS = 2000
# Effort of a placement where the quick one does not fit (see `planner`), and how many there may be.
_EFFORT = 2000
_CAREFUL = 60


@dataclass(frozen=True)
class Item:
    """A buffer, or a constant, with what each pool it may lie in costs, in cycles a run: the preferred pool first."""

    buffer: Buffer
    costs: dict[int, float] = field(hash=False)

    @property
    def name(self) -> str:
        """That of the buffer."""
        return self.buffer.name

    @property
    def gain(self) -> float:
        """Cycles a byte that the cheapest pool saves over the dearest."""
        costs = self.costs.values()
        return (max(costs) - min(costs)) / max(1, self.buffer.size)


def assign(library: Library, pins: Mapping[str, str] | None = None) -> None:
    """Give every tensor, workspace and constant of ``library`` its pool and place, and pools what is used of them.

    ``pins`` maps names (of tensors, inputs, outputs, constants, ``workspace of call 3``) to pools. Raises
    :class:`CapacityError` when something does not fit, :class:`Error` for a pin that names nothing.
    """
    pools = library.pools
    for pool in pools:
        if taken := pool.names(library.name) & {*library.kernels, *library.constants}:
            raise Error(
                f"pool {pool.name}: {min(taken)} is a name of the network's own", hint="call the pool otherwise"
            )
    items = _items(library, _resolved(library, pins or {}))
    alignments = [max(library.arena_alignment, pool.alignment) for pool in pools]
    homes = Assignment(items, pools, alignments).best()
    if homes is None:
        raise _too_large(library, items, alignments)
    _place(library, items, homes, alignments)


def cycles(library: Library) -> float:
    """Modelled cycles a run spends on accesses beyond those of the fastest memory, as ``library`` is placed."""
    flash = next((pool for pool in library.pools if pool.kind == "flash"), None)
    total = 0.0
    for name, touched in traffic(library).items():
        constant = library.constants.get(name.removeprefix(constant_name("")))
        if constant is not None and name == constant_name(constant.name):
            pool = library.pool(constant.pool) if constant.pool or constant.offset >= 0 else flash
        elif name in library.tensors:
            pool = library.pool(library.tensors[name].pool) if library.tensors[name].offset >= 0 else None
        else:
            step = next(step for step in range(len(library.calls)) if workspace_name(step) == name)
            pool = library.pool(library.calls[step].workspace_pool)
        total += _cost(pool, touched) if pool is not None else 0.0
    return total


def cycles_in_arena(library: Library) -> float:
    """:func:`cycles` with all activations in the arena and no copies of constants."""
    plain = replace(
        library,
        tensors={name: replace(tensor, pool="") for name, tensor in library.tensors.items()},
        calls=[replace(call, workspace_pool="") for call in library.calls],
        constants={name: replace(c, pool="", offset=-1) for name, c in library.constants.items()},
    )
    return cycles(plain)


def pool_notes(library: Library) -> list[str]:
    """What lies where and what it saves, for the report; nothing without pools."""
    if not library.pools:
        return []
    limits = [f" of {pool.size:,}" if pool.size else "" for pool in library.pools]
    used = (f"{pool.name} {pool.used:,}{limit} bytes" for pool, limit in zip(library.pools, limits, strict=True))
    notes = [f"pools: {', '.join(used)} ({library.pool('').name} is the arena)"]
    if any(pool.read_cycles or pool.write_cycles for pool in library.pools):
        notes.append(
            f"modelled cycles of a run beyond those of the fastest memory: {cycles(library):,.0f}; "
            f"{cycles_in_arena(library):,.0f} with all activations in {library.pool('').name} and no copies of "
            "constants"
        )
    if library.static_pools:
        notes.append("pools beside the arena belong to all instances together: one run at a time")
    return notes


def _cost(pool: Pool, touched: Traffic) -> float:
    return touched.reads * pool.read_cycles + touched.writes * pool.write_cycles


def _items(library: Library, pins: Mapping[str, int]) -> list[Item]:
    """Buffers and constants with the pools they may lie in."""
    pools, touched = library.pools, traffic(library)
    arena = next(number for number, pool in enumerate(pools) if pool is library.arena_pool)
    activations = [arena, *(n for n, pool in enumerate(pools) if "activations" in pool.holds and n != arena)]
    for_io = [number for number, pool in enumerate(pools) if "io" in pool.holds] or [arena]
    # A copy is made where it saves something only.
    constants = [n for n, pool in enumerate(pools) if "constants" in pool.holds]
    constants.sort(key=lambda n: (pools[n].kind == "ram", n == arena))
    kept = {state.tensor for state in library.states}
    names = [*library.input_tensors, *library.output_tensors]
    ends = {library.root(name) for name in names}
    fixed = {library.root(name) for name in names if not library.movable(name)} | kept
    items = []

    def add(buffer: Buffer, allowed: Sequence[int]) -> None:
        names = buffer.tensors or [buffer.name]
        numbers = {pins[name] for name in names if name in pins}
        if len(numbers) > 1:
            raise Error(f"--pin: {' and '.join(map(quoted, names))} are in one place", hint="give them one pool")
        number = next(iter(numbers), None)
        if number is not None and number not in allowed:
            raise Error(
                f"{quoted(buffer.name)} cannot lie in pool {pools[number].name}",
                why="it holds " + ", ".join(pools[number].holds),
                hint="one of: " + ", ".join(pools[n].name for n in allowed),
            )
        chosen = allowed if number is None else [number]
        each = [touched.get(name, Traffic()) for name in names]
        words = Traffic(sum(part.reads for part in each), sum(part.writes for part in each))
        items.append(Item(buffer, {n: _cost(pools[n], words) for n in chosen}))

    for buffer in lifetimes(library):
        if fixed.intersection(buffer.tensors):
            add(buffer, [arena])
        else:
            add(buffer, for_io if ends.intersection(buffer.tensors) else activations)
    if constants:
        for constant in library.constants.values():
            only_flash = [n for n in constants if pools[n].kind == "flash"]
            usable = constants if constant.data.size else only_flash
            if library.weights == "external":
                usable = [n for n in usable if n not in only_flash[1:]]
            if usable:
                add(constant_buffer(library, constant), usable)
    return items


def _resolved(library: Library, pins: Mapping[str, str]) -> dict[str, int]:
    """Pins by names of buffers and numbers of pools."""
    numbers = numbered_pins(pins, library.pools)
    names = {name: library.root(name) for name in library.tensors}
    for infos, tensors in ((library.inputs, library.input_tensors), (library.outputs, library.output_tensors)):
        for info, tensor in zip(infos, tensors, strict=True):
            names.setdefault(info.name, library.root(tensor))
    for constant in library.constants:
        names.setdefault(constant, constant_name(constant))
        names.setdefault(constant.removeprefix(f"{library.name}_"), constant_name(constant))
    for step, call in enumerate(library.calls):
        if call.workspace:
            names.setdefault(workspace_name(step), workspace_name(step))
    result: dict[str, int] = {}
    for name, number in numbers.items():
        if name not in names:
            raise Error(
                f"--pin {quoted(name)}: {library.provenance.file_name} has no such tensor, constant or workspace",
                hint="inputs and outputs: "
                + ", ".join(quoted(info.name) for info in [*library.inputs, *library.outputs][:8])
                + "; the report names tensors, NAME_data.h constants; an operator's scratch memory is "
                "'workspace of call NUMBER'",
            )
        if result.setdefault(names[name], number) != number:
            raise Error(f"--pin {quoted(name)}: it shares memory with a tensor that is pinned to another pool")
    return result


class Assignment:
    """A search for the pools of ``items``: a list of pool numbers, one for each."""

    def __init__(self, items: Sequence[Item], pools: Sequence[Pool], alignments: Sequence[int]) -> None:
        self.items, self.pools, self.alignments = items, pools, alignments
        self._fits: dict[tuple[int, frozenset[int]], bool] = {}
        self._careful = 0

    def best(self) -> list[int] | None:
        """The cheapest assignment found; None when none fits."""
        best: list[int] | None = None
        least = sum(min(item.costs.values()) for item in self.items)
        for self._careful in (0, _CAREFUL):
            if best is not None and self.cost(best) <= least + 1e-9:
                break
            self._fits = {key: fits for key, fits in self._fits.items() if fits}
            # Cheap pools first, and only where nothing fits so, roomy ones.
            for choose in (self._by_cost, self._by_room):
                found = [homes for order in self._orders() if (homes := self._greedy(order, choose)) is not None]
                if best is not None or found:
                    break
            candidates = [*([best] if best is not None else []), *found]
            start = self._improved(min(candidates, key=self.cost)) if candidates else None
            best = self._proved(start)
        return best

    def cost(self, homes: Sequence[int]) -> float:
        """Cycles a run."""
        return sum(item.costs[home] for item, home in zip(self.items, homes, strict=True))

    def fits(self, pool: int, members: frozenset[int]) -> bool:
        """Whether items fit a pool together."""
        limit = self.pools[pool].size
        if not limit:
            return True
        key = (pool, members)
        if key not in self._fits:
            self._fits[key] = self._placeable([self.items[i].buffer for i in sorted(members)], pool, limit)
        return self._fits[key]

    def _placeable(self, buffers: list[Buffer], pool: int, limit: int) -> bool:
        alignment = self.alignments[pool]
        if sum(-(-buffer.size // alignment) * alignment for buffer in buffers) <= limit:
            return True
        if self.pools[pool].kind == "flash" or lower_bound(buffers, alignment) > limit:
            return False
        copies = [replace(buffer) for buffer in buffers]
        if place(copies, alignment, capacity=limit, effort=0).size <= limit:
            return True
        self._careful -= 1
        return self._careful >= 0 and place(copies, alignment, capacity=limit, effort=_EFFORT).size <= limit

    def _orders(self) -> Iterator[list[int]]:
        """Orders in which items choose. Those with one choice come first."""
        items, numbers = self.items, range(len(self.items))

        def ordered(key: Callable[[Item], tuple[float, ...]]) -> list[int]:
            return sorted(numbers, key=lambda i: (len(items[i].costs) > 1, *key(items[i]), i))

        yield ordered(lambda item: (-item.gain,))
        yield ordered(lambda item: (-item.buffer.size,))
        yield ordered(lambda item: (-item.buffer.size * (item.buffer.last - item.buffer.first + 1),))
        yield ordered(lambda item: (-item.gain * item.buffer.size,))

    def _greedy(self, order: Sequence[int], choose: Callable[[int], list[tuple[int, float]]]) -> list[int] | None:
        homes = [-1] * len(self.items)
        members: list[frozenset[int]] = [frozenset()] * len(self.pools)
        for i in order:
            for pool, _ in choose(i):
                if self.fits(pool, members[pool] | {i}):
                    homes[i] = pool
                    members[pool] |= {i}
                    break
            else:
                return None
        return homes

    def _by_cost(self, item: int) -> list[tuple[int, float]]:
        return sorted(self.items[item].costs.items(), key=lambda pair: pair[1])

    def _by_room(self, item: int) -> list[tuple[int, float]]:
        limits = [pool.size or 1 << 62 for pool in self.pools]
        return sorted(self.items[item].costs.items(), key=lambda pair: -limits[pair[0]])

    def _members(self, homes: Sequence[int]) -> list[frozenset[int]]:
        return [frozenset(i for i, home in enumerate(homes) if home == pool) for pool in range(len(self.pools))]

    def _improved(self, homes: list[int]) -> list[int]:
        """With moves and swaps that save cycles, until there is none or the limit."""
        trials, changed = 0, True
        while changed and trials < _TRIALS:
            changed = False
            for changes in self._changes(homes):
                trials += 1
                if trials >= _TRIALS:
                    break
                other = list(homes)
                for i, pool in changes:
                    other[i] = pool
                members = self._members(other)
                if all(self.fits(pool, members[pool]) for pool in {pool for _, pool in changes}):
                    homes, changed = other, True
                    break
        return homes

    def _changes(self, homes: Sequence[int]) -> Iterator[list[tuple[int, int]]]:
        """One item elsewhere, or two in each other's place, where that saves cycles."""
        worse = [i for i, item in enumerate(self.items) if item.costs[homes[i]] > min(item.costs.values())]
        for i in sorted(worse, key=lambda i: min(self.items[i].costs.values()) - self.items[i].costs[homes[i]]):
            here = homes[i]
            for pool, cost in self._by_cost(i):
                saved = self.items[i].costs[here] - cost
                if saved <= 0:
                    break
                yield [(i, pool)]
                for j, item in enumerate(self.items):
                    if homes[j] == pool and here in item.costs and item.costs[here] - item.costs[pool] < saved:
                        yield [(i, pool), (j, here)]

    def _proved(self, start: list[int] | None) -> list[int] | None:
        """The best of all assignments, or of as many as there is time for; ``start`` where none is better."""
        order = next(self._orders())
        least = [min(self.items[i].costs.values()) for i in order]
        rest = [sum(least[position:]) for position in range(len(order) + 1)]
        best, limit = start, self.cost(start) if start is not None else float("inf")
        homes = [-1] * len(self.items)
        members: list[frozenset[int]] = [frozenset()] * len(self.pools)
        stack = [(0, iter(self._by_cost(order[0])), 0.0)] if order else []
        nodes = 0
        while stack and nodes < _NODES and limit > rest[0] + 1e-9:
            position, choices, spent = stack[-1]
            i = order[position]
            if homes[i] >= 0:
                members[homes[i]] -= {i}
                homes[i] = -1
            pool, cost = next(choices, (-1, 0.0))
            if pool < 0 or spent + cost + rest[position + 1] >= limit - 1e-9:
                stack.pop()
                continue
            nodes += 1
            if not self.fits(pool, members[pool] | {i}):
                continue
            homes[i] = pool
            members[pool] |= {i}
            if position + 1 < len(order):
                stack.append((position + 1, iter(self._by_cost(order[position + 1])), spent + cost))
            else:
                best, limit = list(homes), spent + cost
        return best if order else []


def _too_large(library: Library, items: Sequence[Item], alignments: Sequence[int]) -> CapacityError:
    """The error, with the need of each pool when what does not fit is put into the largest it may lie in."""
    pools = library.pools
    assignment = Assignment(items, pools, alignments)
    members: list[frozenset[int]] = [frozenset()] * len(pools)
    for i in sorted(range(len(items)), key=lambda i: (len(items[i].costs) > 1, -items[i].buffer.size)):
        allowed = sorted(items[i].costs, key=lambda n: pools[n].size or 1 << 62, reverse=True)
        fitting = (pool for pool in allowed if assignment.fits(pool, members[pool] | {i}))
        members[next(fitting, allowed[0])] |= {i}
    needs = []
    for pool, inside, alignment in zip(pools, members, alignments, strict=True):
        buffers = [replace(items[i].buffer) for i in sorted(inside)]
        need = sum(b.size for b in buffers) if pool.kind == "flash" else place(buffers, alignment, effort=_EFFORT).size
        has = f"{pool.size:,}" if pool.size else "no limit"
        needs.append(f"{pool.name} needs {need:,} bytes and has {has}")
    largest = max(items, key=lambda item: item.buffer.size).buffer
    return CapacityError(
        f"{library.provenance.file_name} does not fit its pools",
        why="; ".join(needs),
        hint=f"larger pools, less in them, or less pinned; the largest part is {quoted(largest.name)} with "
        f"{largest.size:,} bytes"
        + ("; --max-ram makes operators need less RAM in all" if "max-ram" not in library.settings else ""),
    )


def _add_copied(library: Library, pool: Pool, alignment: int) -> None:
    """Count what copies in RAM are made of, which lies with the other weights."""
    copied = (constant.data.nbytes for constant in library.constants.values() if constant.offset >= 0)
    pool.used += sum(-(-size // alignment) * alignment for size in copied)
    if pool.size and pool.used > pool.size:
        raise CapacityError(
            f"{library.provenance.file_name} does not fit its pools",
            why=f"{pool.name} needs {pool.used:,} bytes, those included of which copies in RAM are made, and has "
            f"{pool.size:,}",
        )


def _place(library: Library, items: Sequence[Item], homes: Sequence[int], alignments: Sequence[int]) -> None:
    """Offsets in each pool, written into the library."""
    places: dict[str, tuple[str, int]] = {}
    for number, (pool, alignment) in enumerate(zip(library.pools, alignments, strict=True)):
        buffers = [item.buffer for item, home in zip(items, homes, strict=True) if home == number]
        name = "" if pool is library.arena_pool else pool.name
        if pool.kind == "flash":
            pool.used = sum(-(-buffer.size // alignment) * alignment for buffer in buffers)
            name = "" if _is_for_weights(pool) else name
            places |= {buffer.name: (name, -1) for buffer in buffers}
            continue
        pool.used = place(buffers, alignment).size if buffers else 0
        if pool.size and pool.used > pool.size:
            place(buffers, alignment, capacity=pool.size)
            pool.used = max(buffer.offset + buffer.size for buffer in buffers)
        for buffer in buffers:
            # Tensors that take each other's place are one buffer.
            places |= dict.fromkeys(buffer.tensors or [buffer.name], (name, buffer.offset))
        if pool is library.arena_pool:
            # Instances bring an arena even where nothing needs one: C has no empty arrays.
            library.arena_size, library.arena_alignment = max(pool.used, alignment), alignment
    for name, tensor in library.tensors.items():
        tensor.pool, start = places.get(library.root(name), ("", -1))
        tensor.offset = start + library.root_offset(name) if start >= 0 else -1
    for step, call in enumerate(library.calls):
        call.workspace_pool, call.workspace_offset = places.get(workspace_name(step), ("", -1))
    for name, constant in library.constants.items():
        pool_name, offset = places.get(constant_name(name), ("", -1))
        library.constants[name] = replace(constant, pool=pool_name, offset=offset)
    for pool, alignment in zip(library.pools, alignments, strict=True):
        if _is_for_weights(pool):
            _add_copied(library, pool, alignment)


def _is_for_weights(pool: Pool) -> bool:
    """Whether it is the section of all weights that have no pool."""
    return pool.kind == "flash" and pool.section in ("", WEIGHTS_SECTION)
