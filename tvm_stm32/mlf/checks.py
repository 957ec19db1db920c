"""What must hold in a Library that was read from an archive before anything is made of it.

Archives come from strangers. A document of the right form may still name tensors that are not there, places outside
the arena, or text that would end a comment of the generated C.
"""

from __future__ import annotations

import bisect
import heapq
import math
import re

import numpy as np

from ..cnames import network_name
from ..errors import ModelError, quoted
from ..library import Argument, Call, Kernel, Library, Tensor
from ..library.ctypes import CTYPES
from ..limits import ADDRESSES
from ..memory.lifetimes import Buffer, placed
from ..model import Quantization, TensorInfo
from ..target import known_cpus
from .check_pools import check_pools, room
from .ctext import Item, items, parameters
from .sources import check_files, included, runtime_headers

_MOST_TENSORS = 255
_LARGEST_FLOAT = float(np.finfo(np.float32).max)
_QUALIFIERS = re.compile(r"\b(const|restrict|__restrict|struct)\b|\s")
_COMMENT = re.compile(r"\*/|/\*|\?\?")


def check_library(library: Library) -> None:
    """Raise :class:`ModelError` when a part contradicts another, or could not be written as C."""
    _check_texts(library)
    _check_constants(library)
    _check_tensors(library)
    _check_aliases(library)
    check_pools(library)
    known = {name: _signature(library, name) for name in library.kernels}
    defined = {library.root(name) for name in (*library.input_tensors, *(state.tensor for state in library.states))}
    for index, call in enumerate(library.calls):
        where = f"call {index}"
        _check_call(library, call, known, where)
        for name in call.inputs:
            if library.root(name) not in defined:
                raise ModelError(f"{where} reads {quoted(name)} before anything has written it")
        defined.update(library.root(name) for name in call.outputs)
    for name in library.output_tensors:
        if library.root(name) not in defined:
            raise ModelError(f"nothing writes the output {quoted(name)}")
    _check_interface(library)
    _check_places(library)


def _check_texts(library: Library) -> None:
    name = library.name
    if network_name(name) != name:
        raise ModelError(f"{quoted(name)} is no C name of a network")
    if not re.fullmatch("[0-9a-f]{64}", library.provenance.sha256):
        raise ModelError("the digest of the model is no sha256")
    if library.settings.get("cpu") not in known_cpus():
        raise ModelError(f"the CPU {quoted(library.settings.get('cpu', ''))} is unknown")
    for key, value in library.settings.items():
        # Settings stand in comments and in one line of text.
        if not f"{key}{value}".isprintable() or _COMMENT.search(f"{key}={value}"):
            raise ModelError(f"the setting {quoted(f'{key}={value}')} cannot stand in a comment")
    if not 0 <= library.arena_size <= ADDRESSES:
        raise ModelError(f"the arena has {library.arena_size:,} bytes")
    if library.arena_alignment not in (1, 2, 4, 8, 16, 32, 64, 128):
        raise ModelError(f"the arena's alignment is {library.arena_alignment}")


def _check_constants(library: Library) -> None:
    for key, constant in library.constants.items():
        _check_identifier(library, key, constant.name, "constant")
        if key in library.kernels:
            raise ModelError(f"{quoted(key)} is both a constant and a kernel")


def _check_identifier(library: Library, key: str, name: str, what: str) -> None:
    if key != name or not re.fullmatch(rf"{library.name}_\w{{1,200}}", name, re.ASCII):
        raise ModelError(f"the {what} {quoted(name)} has no C name of the network {quoted(library.name)}")


def _check_tensors(library: Library) -> None:
    for key, tensor in library.tensors.items():
        if key != tensor.name:
            raise ModelError(f"the tensor {quoted(key)} is called {quoted(tensor.name)}")
        _check_shape(tensor.shape, tensor.dtype, f"the tensor {quoted(key)}")
        if tensor.quantization is not None:
            _check_numbers(tensor.quantization, f"the tensor {quoted(key)}")
        if not -1 <= tensor.offset <= ADDRESSES:
            raise ModelError(f"the tensor {quoted(key)} lies at {tensor.offset}")
    for name in (*library.input_tensors, *library.output_tensors, *(state.tensor for state in library.states)):
        if name not in library.tensors:
            raise ModelError(f"there is no tensor {quoted(name)}")


def _check_shape(shape: tuple[int, ...], dtype: str, where: str) -> None:
    if dtype not in CTYPES:
        raise ModelError(f"{where} is of element type {quoted(dtype)}")
    # Before numpy multiplies: products of hostile extents are beyond 64 bits.
    if len(shape) > 32 or any(extent < 0 for extent in shape) or math.prod(shape) * 8 > ADDRESSES:
        raise ModelError(f"{where} has a shape that fits no memory of a Cortex-M")


def _check_numbers(quantization: Quantization, where: str) -> None:
    scales, zero_points = quantization.scale, quantization.zero_point
    if not scales or len(scales) != len(zero_points):
        raise ModelError(f"{where} has {len(scales)} scales and {len(zero_points)} zero points")
    if any(not math.isfinite(scale) or abs(scale) > _LARGEST_FLOAT for scale in scales):
        raise ModelError(f"{where} has a scale that is no float")
    if any(not -(1 << 31) <= zero_point < 1 << 31 for zero_point in zero_points):
        raise ModelError(f"{where} has a zero point beyond 32 bits")
    if not -1 <= quantization.axis < 32:
        raise ModelError(f"{where} is quantized along axis {quantization.axis}")


def _check_aliases(library: Library) -> None:
    for name in library.aliases:
        seen = {name}
        step = name
        while step in library.aliases:
            step = library.aliases[step]
            if step in seen:
                raise ModelError(f"the tensor {quoted(name)} is a part of itself")
            seen.add(step)
            if len(seen) > 64:
                raise ModelError(f"the tensor {quoted(name)} is a part of a part, too often")
        if not all(part in library.tensors for part in seen):
            raise ModelError(f"{quoted(name)} or what it is a part of is no tensor")
    for name, offset in library.alias_offsets.items():
        if name not in library.aliases or not 0 <= offset <= ADDRESSES:
            raise ModelError(f"{quoted(name)} is said to lie {offset} bytes behind what it is no part of")
    for name in library.aliases:
        root, offset = library.tensors[library.root(name)], library.root_offset(name)
        if offset + library.tensors[name].size > root.size:
            raise ModelError(f"the tensor {quoted(name)} reaches out of {quoted(root.name)}")
        at = library.tensors[name]
        if (at.pool, at.offset) != (root.pool, root.offset + offset if root.offset >= 0 else -1):
            raise ModelError(f"the tensor {quoted(name)} is not where {quoted(root.name)} has it")
    for state in library.states:
        if state.tensor in library.aliases:
            raise ModelError(f"the variable {quoted(state.name)} is a part of another tensor")
        if not _fits(state.initial, library.tensors[state.tensor].dtype):
            raise ModelError(f"the initial value of {quoted(state.name)} does not fit its type")


def _fits(value: float, dtype: str) -> bool:
    """Whether a variable of a type can have the value."""
    if np.dtype(dtype).kind not in "iu":
        return np.dtype(dtype).kind == "f" or value in (0, 1)
    return math.isfinite(value) and value == int(value) and np.iinfo(dtype).min <= value <= np.iinfo(dtype).max


def _signature(library: Library, key: str) -> list[tuple[str, str]]:
    """Types and names of a kernel's parameters, from its C text."""
    kernel = library.kernels[key]
    where = f"kernel {quoted(key)}"
    _check_identifier(library, key, kernel.name, "kernel")
    for header in kernel.headers:
        if header not in runtime_headers() | {"math.h"}:
            raise ModelError(f"{where} includes {quoted(header)}", why="the runtime has no such file")
    if any(not re.fullmatch(r"[a-z][a-z0-9]{0,20}", name, re.ASCII) for name in kernel.libm):
        raise ModelError(f"{where} calls a math function whose name is none")
    if not 0 <= kernel.workspace <= ADDRESSES:
        raise ModelError(f"{where} needs {kernel.workspace} bytes of workspace")
    return _parameters(kernel, items(kernel.source, where), where)


def _parameters(kernel: Kernel, parts: list[Item], where: str) -> list[tuple[str, str]]:
    for part in parts:
        if part.kind == "directive":
            included(part, where)
    check_files(parts, where)
    found = next((part for part in parts if part.kind == "function" and part.name == kernel.name), None)
    if found is None:
        return []
    taken = parameters(found.head)
    return [] if taken == [("", "void")] else taken


def _check_call(library: Library, call: Call, known: dict[str, list[tuple[str, str]]], where: str) -> None:
    if call.kernel not in known:
        raise ModelError(f"{where} calls {quoted(call.kernel)}, which is no kernel")
    for name in (*call.inputs, *call.outputs):
        if name not in library.tensors:
            raise ModelError(f"{where}: there is no tensor {quoted(name)}")
    if not call.outputs:
        raise ModelError(f"{where} has no output")
    for name, distance in call.overlaps.items():
        if name not in call.inputs:
            raise ModelError(f"{where} works in place on {quoted(name)}, which is none of its inputs")
        if not 0 <= distance <= ADDRESSES:
            raise ModelError(f"{where} works in place at a distance that is no size")
    if call.same_place and call.same_place not in call.inputs:
        raise ModelError(f"{where} works in the place of {quoted(call.same_place)}, which is none of its inputs")
    if not 0 <= call.workspace <= ADDRESSES or not 0 <= call.macs < 1 << 63:
        raise ModelError(f"{where} has a workspace or a cost that is no size")
    taken = known[call.kernel]
    if len(taken) != len(call.arguments):
        raise ModelError(f"{where} hands {len(call.arguments)} arguments to {quoted(call.kernel)}, not {len(taken)}")
    for argument, (ctype, _) in zip(call.arguments, taken, strict=True):
        _check_argument(library, call, argument, ctype, where)


def _check_argument(library: Library, call: Call, argument: Argument, ctype: str, where: str) -> None:
    base = _QUALIFIERS.sub("", ctype)
    if argument.ctype not in CTYPES.values() or base not in (f"{argument.ctype}*", "void*"):
        raise ModelError(f"{where} hands {quoted(argument.ctype)} over where {quoted(call.kernel)} takes {ctype}")
    place = 0
    if argument.kind == "constant":
        if argument.name not in library.constants:
            raise ModelError(f"{where}: there is no constant {quoted(argument.name)}")
        if base != "void*" and CTYPES[str(library.constants[argument.name].data.dtype)] != argument.ctype:
            raise ModelError(f"{where}: the constant {quoted(argument.name)} is of another type")
        place = library.constants[argument.name].offset
    elif argument.kind == "tensor":
        if argument.name not in (*call.inputs, *call.outputs):
            raise ModelError(f"{where} hands {quoted(argument.name)} over, which is neither its input nor its output")
        place = library.tensors[argument.name].offset
    else:
        place = call.workspace_offset
        if call.workspace and (place < 0 or place + call.workspace > room(library, call.workspace_pool)):
            raise ModelError(f"the workspace of {where} lies outside the arena")
        if not call.workspace:
            raise ModelError(f"{where} hands a workspace over and has none")
    size = next(np.dtype(dtype).itemsize for dtype, known in CTYPES.items() if known == argument.ctype)
    if place > 0 and place % min(size, library.arena_alignment):
        raise ModelError(f"{where}: {quoted(argument.name or 'its workspace')} is not aligned")


def _check_interface(library: Library) -> None:
    for what, infos, names in (
        ("input", library.inputs, library.input_tensors),
        ("output", library.outputs, library.output_tensors),
    ):
        if len(infos) != len(names) or len(infos) > _MOST_TENSORS:
            raise ModelError(f"there are {len(infos)} {what}s and {len(names)} tensors for them")
        for info, name in zip(infos, names, strict=True):
            _check_info(info, library.tensors[name], f"the {what} {quoted(info.name)}")


def _check_info(info: TensorInfo, tensor: Tensor, where: str) -> None:
    _check_shape(info.shape, info.dtype, where)
    if info.dtype != tensor.dtype or math.prod(info.shape) != math.prod(tensor.shape):
        raise ModelError(f"{where} is of another type or size than its tensor")
    if info.quantization is None:
        return
    _check_numbers(info.quantization, where)
    count, axis = len(info.quantization.scale), info.quantization.axis
    if count > 1 and not (0 <= axis < len(info.shape) and info.shape[axis] == count):
        raise ModelError(f"{where} has {count} scales for axis {axis}")


def _check_places(library: Library) -> None:
    """What is used lies in the arena, and no two of it in one place at one time, or is the application's to place."""
    buffers = placed(library)
    known = set()
    for buffer in buffers:
        known.update(buffer.tensors)
        if buffer.offset < 0 or buffer.offset + buffer.size > room(library, buffer.pool):
            where = f"the pool {quoted(buffer.pool)}" if buffer.pool else "the arena"
            raise ModelError(f"{quoted(buffer.name)} lies outside {where}")
        for name in buffer.tensors:
            tensor = library.tensors[name]
            if (tensor.offset, tensor.pool) != (buffer.offset, buffer.pool):
                raise ModelError(f"{quoted(name)} is not where {quoted(buffer.name)} is, whose place it takes")
    ends = [*library.input_tensors, *library.output_tensors]
    for name in {library.root(name) for call in library.calls for name in (*call.inputs, *call.outputs)} | set(ends):
        if name in known or library.root(name) in known:
            continue
        if library.tensors[name].offset != -1 or not any(
            library.root(end) == library.root(name) and library.movable(end) for end in ends
        ):
            raise ModelError(f"the tensor {quoted(name)} has no place in the arena")
    for pool in {buffer.pool for buffer in buffers}:
        _check_overlaps([buffer for buffer in buffers if buffer.size and buffer.pool == pool])


def _check_overlaps(buffers: list[Buffer]) -> None:
    """Raise :class:`ModelError` when two buffers in use at one time overlap that must not."""
    spans: list[tuple[int, int, str]] = []
    ends: list[tuple[int, tuple[int, int, str]]] = []
    by_name = {buffer.name: buffer for buffer in buffers}
    # A result that may lie over inputs comes last in its step, and takes their place.
    for buffer in sorted(buffers, key=lambda buffer: (buffer.first, bool(buffer.below))):
        while ends and ends[0][0] < buffer.first:
            _remove(spans, heapq.heappop(ends)[1])
        span = (buffer.offset, buffer.offset + buffer.size, buffer.name)
        for name in buffer.below:
            source = by_name.get(name)
            if source is not None and buffer.offset + buffer.room_below(source) <= source.offset:
                _remove(spans, (source.offset, source.offset + source.size, source.name))
        at = bisect.bisect_left(spans, span)
        for other in (*spans[at : at + 1], *spans[max(0, at - 1) : at]):
            if other[0] < span[1] and span[0] < other[1]:
                raise ModelError(f"{quoted(span[2])} and {quoted(other[2])} are in one place at one time")
        spans.insert(at, span)
        heapq.heappush(ends, (buffer.last, span))


def _remove(spans: list[tuple[int, int, str]], span: tuple[int, int, str]) -> None:
    at = bisect.bisect_left(spans, span)
    if spans[at : at + 1] == [span]:
        del spans[at]
