"""From a scheduled PrimFunc to plain loops over flat buffers."""

from __future__ import annotations

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
