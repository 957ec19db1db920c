"""Scheduling: loop nests that suit a Cortex-M without changing any result.

Every step is a primitive of TVM's scheduler, which refuses what would change the meaning; a refused step is skipped.
The order in which a sum is accumulated is never touched.

* Producers that are cheap or read once (padding, bias, casts) are inlined: no padded copy in memory.
* The other stages move into the loops of the stage that uses them, as deep as possible without computing anything
  twice: intermediate tensors shrink to a row or a register, a reduction accumulates in registers.
* Reductions compute up to four neighbouring outputs at a time, so that operands are loaded once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from tvm import ir, s_tir, tirx

from .intrinsics import EXPENSIVE
from .text import intrinsic
from .walk import expressions, loads, operands, uses

_REDUCE = 2  # IterVar.iter_type of a reduction axis
_FACTORS = (4, 2, 3)  # outputs a tile computes at once, best first; four float accumulators stay in registers
_MIN_REDUCTION = 4
_UNKNOWN = 1 << 62
_MAX_TILE_NODES = 12
_MAX_SHARED_NODES = 4

Plan = Any
Stage = Any


def schedule(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The same function with its stages inlined, fused and tiled; the function itself when TVM cannot schedule it."""
    try:
        plan = s_tir.Schedule(func, error_render_level="none")
        outputs = plan.get_output_blocks("root")
    except RuntimeError:
        return func
    for stage in _stages(plan):
        _inline(plan, stage, outputs)
    if len(outputs) == 1:
        plan = _fuse(plan, outputs[0])
    else:
        for output in outputs:
            _flatten(plan, output)
    for stage in _stages(plan):
        _decompose(plan, stage)
    return plan.mod["main"]


def _stages(plan: Plan) -> list[Stage]:
    return list(plan.get_child_blocks(plan.get_sblock("root")))


def _extents(plan: Plan, stage: Stage) -> int:
    """Iterations of a stage's own axes."""
    return prod(int(axis.dom.extent) for axis in plan.get(stage).iter_vars)


def _iterations(plan: Plan, stage: Stage) -> int:
    """Iterations of all loops around a stage; more than any when a loop's extent depends on another loop."""
    extents = [plan.get(loop).extent for loop in plan.get_loops(stage)]
    return prod(int(extent) if isinstance(extent, tirx.IntImm) else _UNKNOWN for extent in extents)


def _is_reduction(plan: Plan, stage: Stage) -> bool:
    return any(axis.iter_type == _REDUCE for axis in plan.get(stage).iter_vars)


def _arithmetic(expr: Any) -> Iterator[Any]:
    """Nodes that compute values: no index arithmetic, no conditions."""
    yield expr
    if isinstance(expr, ir.TensorLoad):
        return
    conditional = isinstance(expr, tirx.Select) or intrinsic(expr) == "if_then_else"
    for operand in operands(expr)[1:] if conditional else operands(expr):
        yield from _arithmetic(operand)


def _inline(plan: Plan, stage: Stage, outputs: list[Stage]) -> None:
    """Inline a stage unless that repeats costly work."""
    block = plan.get(stage)
    if not isinstance(block.body, tirx.BufferStore) or _is_reduction(plan, stage):
        return
    if any(plan.get(output).same_as(block) for output in outputs):
        return
    buffer, value = block.body.buffer, block.body.value
    consumers = plan.get_consumers(stage)
    reads = 0
    repeats = 1.0
    for consumer in consumers:
        body = plan.get(consumer).body
        if not isinstance(body, tirx.BufferStore):
            return
        found = [load for load in loads(body.value) if load.source.same_as(buffer)]
        reads += len(found)
        repeats = max([repeats, *(_repeats(plan, consumer, load, _extents(plan, stage)) for load in found)])
    nodes = list(_arithmetic(value))
    work = [node for node in nodes if not isinstance(node, ir.TensorLoad | ir.Constant | tirx.Cast | tirx.Select)]
    work = [node for node in work if intrinsic(node) != "if_then_else"]
    costly = any(intrinsic(node) in EXPENSIVE or isinstance(node, tirx.Div | tirx.FloorDiv) for node in work)
    repeated = reads > 1 or repeats > 1
    if repeated and (costly or len(work) > _MAX_SHARED_NODES or (repeats > 4 and work)):
        return
    _attempt(plan.compute_inline, stage)


def _repeats(plan: Plan, consumer: Stage, load: Any, extents: int) -> float:
    """How often a stage reads the same element of one of its inputs, which has ``extents`` elements, with one load."""
    axes = plan.get(consumer).iter_vars
    absent = 1
    for axis in axes:
        mentions = [index for index in load.indices if uses(index, axis.var)]
        if not mentions:
            absent *= int(axis.dom.extent)
        elif len(mentions) > 1 or not _is_shifted(mentions[0], axis.var):
            return _extents(plan, consumer) / extents
    return absent


def _is_shifted(index: Any, variable: Any) -> bool:
    """Whether an index is a variable plus or minus a constant."""
    if isinstance(index, tirx.Add | tirx.Sub) and isinstance(index.b, tirx.IntImm):
        index = index.a
    return isinstance(index, ir.Var) and index.same_as(variable)


def _attempt(step: Any, *arguments: Any) -> Any:
    """The result of a scheduling step, or None when TVM refuses it."""
    try:
        return step(*arguments)
    except RuntimeError:
        return None


def _fuse(plan: Plan, output: Stage) -> Plan:
    """Move every stage into the loops of the output stage."""
    if _is_reduction(plan, output):
        if len(plan.get(output).writes) != 1:
            return plan
        output = _attempt(plan.cache_write, output, 0, "local")
        if output is None:
            return plan
    others = [stage for stage in _stages(plan) if not plan.get(stage).same_as(plan.get(output))]
    if not others:
        _flatten(plan, output)
        return plan
    tiled = _tile(plan, others[-1], output)
    if tiled is not None:
        plan, output_loops = tiled
        others = others[:-1]
    else:
        output_loops = _reduced_axes_last(plan, others, output)
    for stage in reversed(others):
        plan = _pull(plan, stage, output_loops)
    return plan


def _reduced_axes_last(plan: Plan, stages: list[Stage], output: Stage) -> list[Any]:
    """Reorder the output's loops so that the axes its reductions run over are innermost; the loops.

    A softmax over channels then needs one pixel's channels at a time, not the whole tensor.
    """
    loops = list(plan.get_loops(output))
    block = plan.get(output)
    if len(loops) != len(block.iter_vars) or not isinstance(block.body, tirx.BufferStore):
        return loops
    reduced = [plan.get(stage).body.buffer for stage in stages if _is_plain_reduction(plan, stage)]
    results = [load for load in loads(block.body.value) if any(load.source.same_as(buffer) for buffer in reduced)]
    inner = [
        any(not any(uses(index, axis.var) for index in load.indices) for load in results) for axis in block.iter_vars
    ]
    order = [loop for loop, last in zip(loops, inner, strict=True) if not last]
    order += [loop for loop, last in zip(loops, inner, strict=True) if last]
    if inner != sorted(inner):
        _attempt(plan.reorder, *order)
        return list(plan.get_loops(output))
    return loops


def _is_plain_reduction(plan: Plan, stage: Stage) -> bool:
    return _is_reduction(plan, stage) and isinstance(plan.get(stage).body, tirx.BufferStore)


def _pull(plan: Plan, stage: Stage, loops: list[Any]) -> Plan:
    """Compute a stage inside the deepest of the loops that does not make it compute anything twice."""
    before = _iterations(plan, stage)
    for loop in reversed(loops):
        trial = plan.copy()
        try:
            trial.compute_at(stage, loop)
        except RuntimeError:
            continue
        if _iterations(trial, stage) <= before:
            return trial
    return plan


def _tile(plan: Plan, stage: Stage, output: Stage) -> tuple[Plan, list[Any]] | None:
    """Make a reduction compute several outputs at once; the plan and the output loops others may move into."""
    choice = _tile_axis(plan, stage, output)
    if choice is None:
        return None
    axis, factor = choice
    trial = plan.copy()
    try:
        loops = list(trial.get_loops(output))
        outer, inner = trial.split(loops[axis], [None, factor])
        loops[axis] = outer
        trial.reorder(*loops, inner)
        trial.compute_at(stage, loops[-1])
        own = trial.get_loops(stage)[len(loops) :]
        lane, reductions = own[0], own[1:]
        if int(trial.get(lane).extent) != factor or _iterations(trial, stage) != _iterations(plan, stage):
            return None
        trial.reorder(*reductions, lane)
        trial.unroll(lane)
        trial.unroll(inner)
    except RuntimeError:
        return None
    return trial, loops


def _tile_axis(plan: Plan, stage: Stage, output: Stage) -> tuple[int, int] | None:
    """Axis of the output to tile, and by how much: one that leaves an operand unchanged, or walks contiguously."""
    block, consumer = plan.get(stage), plan.get(output)
    if not isinstance(block.body, tirx.BufferStore) or not _reads_as_is(consumer, block.body.buffer):
        return None
    spatial = [axis for axis in block.iter_vars if axis.iter_type != _REDUCE]
    reduced = prod(int(axis.dom.extent) for axis in block.iter_vars if axis.iter_type == _REDUCE)
    value = block.body.value
    small = sum(1 for _ in _arithmetic(value)) <= _MAX_TILE_NODES
    if len(plan.get_loops(output)) != len(spatial) or reduced < _MIN_REDUCTION or not small:
        return None
    reads = [load for load in loads(value) if not load.source.same_as(block.body.buffer)]
    guards = [node.args[0] for node in expressions(value) if intrinsic(node) == "if_then_else"]
    best: tuple[int, int, int] | None = None
    for index, axis in enumerate(spatial):
        extent = int(axis.dom.extent)
        factor = next((factor for factor in _FACTORS if extent % factor == 0), 0)
        if extent < 2 or not factor or any(uses(guard, axis.var) for guard in guards):
            continue
        moving = [load for load in reads if any(uses(position, axis.var) for position in load.indices)]
        contiguous = all(_walks(load, axis.var) for load in moving)
        if len(moving) < len(reads) or contiguous:
            rank = (-_FACTORS.index(factor), int(contiguous), index)
            best = max(best, rank) if best else rank
    return (best[2], _FACTORS[-best[0]]) if best else None


def _reads_as_is(consumer: Any, buffer: Any) -> bool:
    """Whether a stage reads a buffer only at its own axes: element by element."""
    if not isinstance(consumer.body, tirx.BufferStore):
        return False
    found = [load for load in loads(consumer.body.value) if load.source.same_as(buffer)]
    axes = [axis.var for axis in consumer.iter_vars]
    return bool(found) and all(_same_variables(load.indices, axes) for load in found)


def _same_variables(indices: Any, axes: list[Any]) -> bool:
    return len(indices) == len(axes) and all(
        isinstance(index, ir.Var) and index.same_as(axis) for index, axis in zip(indices, axes, strict=True)
    )


def _walks(load: Any, variable: Any) -> bool:
    """Whether consecutive values of a variable load consecutive elements."""
    indices = list(load.indices)
    extents = [int(extent) for extent in load.source.ty.shape]
    while len(indices) > 1 and extents[-1] == 1:
        indices.pop()
        extents.pop()
    *leading, last = indices
    if any(uses(index, variable) for index in leading):
        return False
    terms = operands(last) if isinstance(last, tirx.Add) else [last]
    return sum(uses(term, variable) for term in terms) == 1 and any(
        isinstance(term, ir.Var) and term.same_as(variable) for term in terms
    )


def _flatten(plan: Plan, output: Stage) -> None:
    """Join neighbouring loops of an element-wise stage where all its tensors are contiguous over them."""
    block = plan.get(output)
    if not isinstance(block.body, tirx.BufferStore) or _is_reduction(plan, output):
        return
    loops = list(plan.get_loops(output))
    axes = [axis.var for axis in block.iter_vars]
    positions = [index for load in loads(block.body.value) for index in load.indices]
    mentions = sum(isinstance(node, ir.Var) for node in expressions(block.body.value)) - len(loads(block.body.value))
    if len(loops) != len(axes) or mentions > len(positions):
        return  # the value depends on its position: joined loops would have to divide to find it
    views = [(block.body.buffer, list(block.body.indices))]
    views += [(load.source, list(load.indices)) for load in loads(block.body.value)]
    group = [loops[-1]] if loops else []
    for position in range(len(axes) - 2, -1, -1):
        pair = block.iter_vars[position : position + 2]
        if all(_adjacent(buffer, indices, *pair) for buffer, indices in views):
            group.insert(0, loops[position])
            continue
        _join(plan, group)
        group = [loops[position]]
    _join(plan, group)


def _join(plan: Plan, loops: list[Any]) -> None:
    if len(loops) > 1:
        _attempt(plan.fuse, *loops)


def _adjacent(buffer: Any, indices: list[Any], first: Any, second: Any) -> bool:
    """Whether a view walks contiguously over two axes, the second a whole dimension, or uses neither of them."""
    mentions = [any(uses(index, axis.var) for index in indices) for axis in (first, second)]
    if not any(mentions):
        return True
    for position, index in enumerate(indices[:-1]):
        if isinstance(index, ir.Var) and index.same_as(first.var):
            following = indices[position + 1]
            others = indices[:position] + indices[position + 2 :]
            return (
                isinstance(following, ir.Var)
                and following.same_as(second.var)
                and int(buffer.ty.shape[position + 1]) == int(second.dom.extent)
                and not any(uses(other, axis.var) for other in others for axis in (first, second))
            )
    return False


def _decompose(plan: Plan, stage: Stage) -> None:
    """Initialize accumulators before the reduction loops instead of inside them."""
    block = plan.get(stage)
    if block.init is None:
        return
    loops = plan.get_loops(stage)
    realize = _realize(plan.get(loops[-1]).body, block) if loops else None
    if realize is None:
        return
    bound = [
        value for axis, value in zip(block.iter_vars, realize.iter_values, strict=True) if axis.iter_type == _REDUCE
    ]
    for loop in loops:
        variable = plan.get(loop).loop_var
        if any(uses(value, variable) for value in bound):
            _attempt(plan.decompose_reduction, stage, loop)
            return


def _realize(body: Any, block: Any) -> Any:
    candidates = body.seq if isinstance(body, tirx.SeqStmt) else [body]
    for candidate in candidates:
        if isinstance(candidate, s_tir.SBlockRealize) and candidate.block.same_as(block):
            return candidate
    return None
