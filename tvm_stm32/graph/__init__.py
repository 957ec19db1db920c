"""Graph stage: a front end's Relax module becomes integer operators and plain operators ready for the kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tvm import IRModule, relax

from ..model import Model
from ..target import Target
from .common import without_repetition
from .dead_channels import remove_dead_channels
from .dialect import name_of
from .float32 import FLOAT_SOURCES, FloatRewriter
from .indices import IndexGuard
from .legalize_qnn import legalize_qnn
from .lowering import simplified
from .naming import adopt_names, is_made_up
from .peephole import Peephole
from .pooling import integer_pool
from .qdq import Emit, QdqRewriter
from .qnn import QnnRewriter
from .quantization import inner_quantization, through_aliases
from .simplify import Simplify
from .ssa import Function, normalized, rebuilt
from .views import Views


class _Rewriter(Protocol):
    def rewrite(self, value: relax.Expr) -> relax.Expr | None: ...


def prepare(model: Model, target: Target | None = None) -> IRModule:
    """The module with every quantized operator that has an integer kernel as a ``q.*`` call.

    What remains are plain Relax operators; ``qnn`` calls without a kernel are decomposed into those. ``model.tensors``
    learns what the fused operators said of their results; what its kernels need of ``target`` decides how many channels
    stay.
    """
    function = adopt_names(model.module["main"])
    known = inner_quantization(function)
    if model.numerics == "relay":
        function = _apply(function, lambda view, emit: QnnRewriter(view, emit))
    elif model.numerics != "float":
        function = _apply(function, lambda view, emit: QdqRewriter(view, model.numerics, emit))
    model.tensors.update(through_aliases(function, known))
    function = _apply(function, lambda view, _emit: _IntegerPools(view, model))
    function = _simpler(function)
    function = _apply(without_repetition(function), lambda view, emit: Simplify(view, emit))
    function = _apply(adopt_names(function), lambda view, emit: Peephole(view, emit))
    function, removed = remove_dead_channels(function, by_eights=target is None or target.mve)
    model.removed_channels, model.removed_macs = removed.channels, removed.macs
    function = _apply(function, lambda view, emit: IndexGuard(view, emit, model.provenance.file_name))
    # TIR functions that an importer wrote itself, called from main.
    others = {var: body for var, body in model.module.functions.items() if var.name_hint != "main"}
    module = legalize_qnn(IRModule({"main": adopt_names(function)}))
    module = IRModule({**dict(module.functions.items()), **others}) if others else module
    module = _with_float_kernels(module)
    # Constants are folded first: a concatenation of those is one.
    module = simplified(module)
    others = {var: body for var, body in module.functions.items() if var.name_hint != "main"}
    return IRModule({"main": _apply(module["main"], lambda view, emit: Views(view, emit)), **others})


def _with_float_kernels(module: IRModule) -> IRModule:
    """The module with float32 convolutions and matrix products as ``f.*`` calls, where weights are constant."""
    if not any(name_of(binding.value) in FLOAT_SOURCES for binding in Function(module["main"]).bindings):
        return module
    module = simplified(module)
    function = _apply(module["main"], lambda view, emit: FloatRewriter(view, emit))
    rest = {var: body for var, body in module.functions.items() if var.name_hint != "main"}
    return IRModule({"main": _simpler(function), **rest})


def _simpler(function: relax.Function) -> relax.Function:
    for _ in range(8):
        simpler = _apply(function, lambda view, emit: Peephole(view, emit))
        if len(Function(simpler).bindings) == len(Function(function).bindings):
            return simpler
        function = simpler
    return function


class _IntegerPools:
    def __init__(self, view: Function, model: Model) -> None:
        self.view = view
        self.model = model

    def rewrite(self, value: relax.Expr) -> relax.Expr | None:
        return integer_pool(self.view, value, self.model.numerics)


def _apply(function: relax.Function, make: Callable[[Function, Emit], _Rewriter]) -> relax.Function:
    """One pass over the bindings; variables keep their identity, so users of a rewritten value need no change."""
    view = Function(function)
    bindings: list[relax.VarBinding] = []
    label = ""

    def emit(value: relax.Expr) -> relax.Expr:
        call = normalized(value)
        # An operand turned around first is not yet the value that bears the model's name.
        moved = name_of(call) in ("relax.permute_dims", "relax.reshape")
        variable = relax.DataflowVar("lv" if moved else label, call.ty)
        bindings.append(relax.VarBinding(variable, call))
        view.definitions[variable] = call
        return variable

    rewriter = make(view, emit)
    for binding in view.bindings:
        label = binding.var.name
        value = rewriter.rewrite(binding.value)
        if value is None:
            bindings.append(binding)
            continue
        value = normalized(value) if isinstance(value, relax.Call) else value
        name = getattr(rewriter, "label", "")
        if isinstance(value, relax.Call) and name and not is_made_up(name) and name != binding.var.name:
            # An alias: what it stands for keeps the better name.
            renamed = relax.DataflowVar(name, value.ty)
            bindings.append(relax.VarBinding(renamed, value))
            view.definitions[renamed] = value
            value = renamed
        view.definitions[binding.var] = value
        bindings.append(relax.VarBinding(binding.var, value))
    return rebuilt(function, bindings)
