"""Inputs in another layout than the model file's."""

from __future__ import annotations

from dataclasses import replace

from tvm import IRModule, relax

from ..errors import ModelError
from ..model import Model
from .naming import substituted
from .ssa import Function, normalized, rebuilt


def nhwc_inputs(model: Model) -> Model:
    """``model`` with its inputs of four dimensions, NCHW in the file, taken as NHWC.

    The transposes this puts behind the inputs cancel with those of the integer convolutions. Raises
    :class:`ModelError` when no input has four dimensions.
    """
    function = model.module["main"]
    if not any(len(info.shape) == 4 for info in model.inputs):
        raise ModelError(
            f"{model.provenance.file_name}: no input has four dimensions",
            why="--input-layout nhwc turns NCHW inputs",
            hint="leave --input-layout out",
        )
    parameters, inputs = list(function.params), list(model.inputs)
    replaced: dict[relax.Expr, relax.Expr] = {}
    bindings: list[relax.VarBinding] = []
    for position, info in enumerate(model.inputs):
        if len(info.shape) != 4:
            continue
        batch, channels, height, width = info.shape
        shape = (batch, height, width, channels)
        old = parameters[position]
        parameters[position] = relax.Var(old.name, relax.TensorType(shape, info.dtype))
        turned = normalized(relax.op.permute_dims(parameters[position], [0, 3, 1, 2]))
        variable = relax.DataflowVar(f"{old.name}/nchw", turned.ty)
        bindings.append(relax.VarBinding(variable, turned))
        replaced[old] = variable
        inputs[position] = replace(info, shape=shape)
    for binding in Function(function).bindings:
        bindings.append(relax.VarBinding(binding.var, substituted(binding.value, replaced)))
    turned_function = relax.Function(parameters, function.body, function.ret_ty, attrs=function.attrs)
    return replace(model, module=IRModule({"main": rebuilt(turned_function, bindings)}), inputs=inputs)
