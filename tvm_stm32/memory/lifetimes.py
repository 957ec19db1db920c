"""When each buffer of a network is in use, in steps of its ordered calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..library import Constant, Library


@dataclass
class Buffer:
    """Memory in use from step ``first`` to step ``last``, both included; ``size`` in bytes. ``pool`` "" is the arena.

    Several tensors share one buffer where a kernel's result takes exactly its input's place. Step -1 is before the
    first call. ``below`` names buffers that are used for the last time where this one begins, by a kernel that lets its
    result lie over them: this buffer must then start so many bytes below the other's start at least.
    """

    name: str
    size: int
    first: int
    last: int
    tensors: list[str] = field(default_factory=list)
    offset: int = -1
    below: dict[str, int] = field(default_factory=dict)
    pool: str = ""

    def overlaps(self, other: Buffer) -> bool:
        """Whether both are in use at one step."""
        return self.first <= other.last and other.first <= self.last

    def room_below(self, other: Buffer) -> int:
        """Bytes from this buffer's start to that of ``other`` at least, where this one lies below."""
        return min(self.size, self.below.get(other.name, self.size))


def lifetimes(library: Library) -> list[Buffer]:
    """Buffers of a library: tensors (aliases and results in the place of inputs share one) and workspaces of calls.

    Inputs are in use from the start, outputs to the end; an input's memory serves other tensors after its last use.
    Tensors that the application places have no buffer.
    """
    last_step = len(library.calls)
    first: dict[str, int] = dict.fromkeys((library.root(name) for name in library.input_tensors), -1)
    last: dict[str, int] = dict(first)
    for step, call in enumerate(library.calls):
        for name in call.inputs:
            last[library.root(name)] = step
        for name in call.outputs:
            first.setdefault(library.root(name), step)
            last.setdefault(library.root(name), step)
    for name in library.output_tensors:
        last[library.root(name)] = last_step
    for state in library.states:
        # In use between runs, too: nothing else may have this memory at any time.
        first[state.tensor], last[state.tensor] = -1, last_step
    buffers: dict[str, Buffer] = {}
    outside = {library.root(name) for name in library.external}
    for name in first:
        if name in outside:
            continue
        buffers[name] = Buffer(name, library.tensors[name].size, first[name], last[name], [name])
    _merge_same_places(library, buffers)
    _let_overlap(library, buffers)
    result = list({id(buffer): buffer for buffer in buffers.values()}.values())
    for step, call in enumerate(library.calls):
        if call.workspace:
            result.append(Buffer(workspace_name(step), call.workspace, step, step))
    return result


def placed(library: Library) -> list[Buffer]:
    """The buffers of a planned library with their places, copies of constants in RAM included."""
    buffers = lifetimes(library)
    for buffer in buffers:
        if buffer.tensors:
            tensor = library.tensors[buffer.tensors[0]]
            buffer.offset, buffer.pool = tensor.offset, tensor.pool
        else:
            call = library.calls[buffer.first]
            buffer.offset, buffer.pool = call.workspace_offset, call.workspace_pool
    for constant in library.constants.values():
        if constant.offset >= 0:
            buffer = constant_buffer(library, constant)
            buffer.offset, buffer.pool = constant.offset, constant.pool
            buffers.append(buffer)
    return buffers


def constant_buffer(library: Library, constant: Constant) -> Buffer:
    """Memory for a copy of a constant, which is in use at all times."""
    return Buffer(constant_name(constant.name), max(1, constant.data.nbytes), -1, len(library.calls))


def live_bytes(buffers: Sequence[Buffer], steps: int) -> list[int]:
    """Bytes in use at each step of a planned library; what lies over something else counts once."""
    found = []
    for step in range(steps):
        total = 0
        ends: dict[str, int] = {}
        for buffer in sorted((b for b in buffers if b.first <= step <= b.last), key=lambda b: b.offset):
            end = ends.get(buffer.pool, 0)
            total += max(0, buffer.offset + buffer.size - max(end, buffer.offset))
            ends[buffer.pool] = max(end, buffer.offset + buffer.size)
        found.append(total)
    return found


def workspace_name(step: int) -> str:
    """Name of the workspace buffer of a call."""
    return f"workspace of call {step}"


def constant_name(name: str) -> str:
    """Name of the buffer of a constant's copy."""
    return f"constant {name}"


def needed(buffers: Sequence[Buffer], steps: int) -> list[int]:
    """Bytes in use at each step at least: buffers beside one another, but for a result over an input that dies."""
    sizes = [0] * steps
    by_name = {buffer.name: buffer for buffer in buffers}
    for buffer in buffers:
        for step in range(max(0, buffer.first), min(steps - 1, buffer.last) + 1):
            sizes[step] += buffer.size
        sources = [(by_name[name], distance) for name, distance in buffer.below.items() if name in by_name]
        # It may lie over several of them, but for the distance from each.
        shared = (buffer.size + source.size - max(buffer.size, source.size + by) for source, by in sources)
        sizes[buffer.first] -= min(buffer.size, sum(max(0, bytes_) for bytes_ in shared))
    return sizes


def _merge_same_places(library: Library, buffers: dict[str, Buffer]) -> None:
    """A result takes the place of an input of its size where the kernel allows it and this is the input's last use."""
    states = {state.tensor for state in library.states}
    for step, call in enumerate(library.calls):
        if not call.same_place or library.root_offset(call.same_place):
            continue
        source, target = buffers.get(library.root(call.same_place)), buffers.get(library.root(call.outputs[0]))
        if source is None or target is None or source is target or states & {*source.tensors, *target.tensors}:
            continue
        if source.last != step or target.first != step or source.size != target.size:
            continue
        source.last = target.last
        source.tensors.extend(target.tensors)
        for name in target.tensors:
            buffers[name] = source


def _let_overlap(library: Library, buffers: dict[str, Buffer]) -> None:
    """A result may lie over an input where the kernel allows it and this is the input's last use."""
    states = {state.tensor for state in library.states}
    for step, call in enumerate(library.calls):
        target = buffers.get(call.outputs[0])
        if target is None or target.first != step or target.name in states:
            continue
        for name, distance in call.overlaps.items():
            source = buffers.get(library.root(name))
            if source is None or source is target or source.last != step or source.name in states:
                continue
            # A view begins somewhere in its buffer; what lies before it is free, too.
            target.below[source.name] = max(0, distance - library.root_offset(name))
