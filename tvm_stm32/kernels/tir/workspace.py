"""Where a kernel's inner buffers live: tiny ones in C variables, the others in the workspace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tvm import ir, tirx

from .literals import size_of
from .walk import Stmt, accesses, all_statements, statements

LOCAL_BYTES = 16  # the largest array that may live on the stack
_ALIGNMENT = 8


@dataclass
class Workspace:
    """Offsets in bytes of inner buffers, and the size of them all."""

    offsets: dict[ir.Var, int] = field(default_factory=dict)
    size: int = 0


@dataclass(frozen=True)
class _Allocation:
    buffer: Any
    size: int
    first: int
    last: int


def element_type(buffer: ir.Var) -> str:
    """Element type of a buffer variable."""
    return str(buffer.ty.dtype)


def element_count(buffer: ir.Var) -> int:
    """Elements of a buffer variable."""
    count = 1
    for extent in buffer.ty.shape:
        count *= int(extent)
    return count


def byte_size(buffer: ir.Var) -> int:
    """Bytes of a buffer variable."""
    return element_count(buffer) * size_of(element_type(buffer))


def constant_elements(body: Stmt) -> set[ir.Var]:
    """Buffers whose every access has a constant index: each element can be a variable of its own."""
    constant: set[ir.Var] = set()
    moving: set[ir.Var] = set()
    for buffer, indices in accesses(body):
        fixed = len(indices) == 1 and isinstance(indices[0], tirx.IntImm)
        (constant if fixed else moving).add(buffer)
    return constant - moving


def plan(body: Stmt) -> Workspace:
    """Place every inner buffer above :data:`LOCAL_BYTES`; buffers that never live together share bytes."""
    allocations: list[_Allocation] = []
    _collect(body, 0, allocations)
    workspace = Workspace()
    placed: list[tuple[_Allocation, int]] = []
    for allocation in sorted(allocations, key=lambda item: -item.size):
        offset = 0
        alive = [
            (start, start + other.size)
            for other, start in placed
            if other.first <= allocation.last and allocation.first <= other.last
        ]
        for start, end in sorted(alive):
            if offset + allocation.size <= start:
                break
            offset = max(offset, end)
        placed.append((allocation, offset))
        workspace.offsets[allocation.buffer] = offset
        workspace.size = max(workspace.size, offset + allocation.size)
    return workspace


def _collect(stmt: Stmt, position: int, found: list[_Allocation]) -> int:
    """Number statements in program order from ``position``; the next free number."""
    children = statements(stmt)
    spans: list[tuple[Stmt, int, int]] = []
    following = position + 1
    for child in children:
        end = _collect(child, following, found)
        spans.append((child, following, end - 1))
        following = end
    for index, child in enumerate(children):
        if isinstance(child, tirx.AllocBuffer) and byte_size(child.buffer) > LOCAL_BYTES:
            users = [span for span in spans[index + 1 :] if _touches(span[0], child.buffer)]
            if users:
                size = -(-byte_size(child.buffer) // _ALIGNMENT) * _ALIGNMENT
                found.append(_Allocation(child.buffer, size, users[0][1], users[-1][2]))
    return following


def _touches(stmt: Stmt, buffer: ir.Var) -> bool:
    if any(used.same_as(buffer) for used, _ in accesses(stmt)):
        return True
    # A view of the buffer may be used instead: treat the scope of the view as a use.
    return any(isinstance(inner, tirx.DeclBuffer) for inner in all_statements(stmt))
