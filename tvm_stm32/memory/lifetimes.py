"""When each buffer of a network is in use, in steps of its ordered calls."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..library import Library


@dataclass
class Buffer:
    """Memory in use from step ``first`` to step ``last``, both included; ``size`` in bytes.

    Several tensors share one buffer when a kernel works in place. Step -1 is before the first call.
    """

    name: str
    size: int
    first: int
    last: int
    tensors: list[str] = field(default_factory=list)
    offset: int = -1

    def overlaps(self, other: Buffer) -> bool:
        """Whether both are in use at one step."""
        return self.first <= other.last and other.first <= self.last


def lifetimes(library: Library) -> list[Buffer]:
    """Buffers of a library: tensors (aliases and in-place results share one) and one workspace a call that needs it.

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
    _merge_in_place(library, buffers)
    unique = {id(buffer): buffer for buffer in buffers.values()}
    result = list(unique.values())
    for step, call in enumerate(library.calls):
        if call.workspace:
            result.append(Buffer(workspace_name(step), call.workspace, step, step))
    return result


def workspace_name(step: int) -> str:
    """Name of the workspace buffer of a call."""
    return f"workspace of call {step}"


def _merge_in_place(library: Library, buffers: dict[str, Buffer]) -> None:
    """An operator that may work in place writes over its input when this is the input's last use."""
    states = {state.tensor for state in library.states}
    for step, call in enumerate(library.calls):
        if not call.in_place:
            continue
        source = buffers.get(library.root(call.in_place))
        target = buffers.get(library.root(call.outputs[0]))
        if (
            source is None
            or target is None
            or source is target
            or source.name in states
            or target.name in states
            or source.last != step
            or target.first != step
            or source.size != target.size
        ):
            continue
        source.last = target.last
        source.tensors.extend(target.tensors)
        for name in target.tensors:
            buffers[name] = source
