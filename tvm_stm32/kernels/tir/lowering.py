"""From a scheduled PrimFunc to plain loops over flat buffers."""

from __future__ import annotations

import math

import tvm
import tvm_ffi
from tvm import ir, s_tir, tirx

from .guards import hoist_guards
from .invariants import hoist_invariants

_LOWER = [
    s_tir.transform.LowerInitBlock(),
    s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
    s_tir.transform.ConvertBlocksToOpaque(),
    s_tir.transform.CompactBufferAllocation(),
    s_tir.transform.LowerMatchBuffer(),
    s_tir.transform.LowerOpaqueBlock(),
    tirx.transform.FlattenBuffer(),
    tirx.transform.NarrowDataType(32),
    tirx.transform.UnrollLoop(),
    tirx.transform.StmtSimplify(),
    tirx.transform.RemoveNoOp(),
]
_FINISH = [
    tirx.transform.CommonSubexprElim(),
]


def flatten(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Loops, stores and loads with one flat index each; blocks, unit loops and unrolled loops are gone."""
    func = _at_their_pointers(func)
    with tvm.transform.PassContext(config={"tirx.UnrollLoop": {"explicit_unroll": True}}):
        lowered = tvm.transform.Sequential(_LOWER)(ir.IRModule({"main": func}))["main"]
        guarded = lowered.with_body(hoist_invariants(hoist_guards(lowered.body)))
        return tvm.transform.Sequential(_FINISH)(ir.IRModule({"main": guarded}))["main"]


def _at_their_pointers(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Tensors start where their pointer points: symbolic element offsets (of ``te.extern`` buffers) are 0."""
    offsets = {
        param.ty.elem_offset for param in func.params if isinstance(getattr(param.ty, "elem_offset", None), ir.Var)
    }
    if not offsets:
        return func

    def zero(variable: ir.Var) -> ir.Expr:
        return tirx.IntImm(str(variable.ty.dtype), 0) if variable in offsets else variable

    return tvm_ffi.structural_map(func, (ir.Var, zero))


def maxima_from_infinity(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """A float maximum starts at minus infinity, which may be all there is; TVM uses the least finite number."""

    def start(block: s_tir.SBlock) -> s_tir.SBlock:
        init, body = block.init, block.body
        if not isinstance(init, tirx.BufferStore) or not isinstance(init.value, tirx.FloatImm):
            return block
        combiner = body.value if isinstance(body, tirx.BufferStore) else None
        sign = {tirx.Max: -1.0, tirx.Min: 1.0}.get(type(combiner))
        if sign is None:
            return block
        infinite = tirx.FloatImm(str(init.value.ty.dtype), sign * math.inf)
        return s_tir.SBlock(
            block.iter_vars,
            block.reads,
            block.writes,
            block.name_hint,
            body,
            tirx.BufferStore(init.buffer, infinite, init.indices),
            block.alloc_buffers,
            block.match_buffers,
            block.annotations,
        )

    return tvm_ffi.structural_map(func, (s_tir.SBlock, start))
