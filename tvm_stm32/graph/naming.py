"""The model's own names for the values of a graph."""

from __future__ import annotations

import re

from tvm import relax

from .ssa import Function, normalized, rebuilt

# Names TVM and this package make up.
_MADE_UP = re.compile(r"(gv|lv|t)\d*")


def is_made_up(name: str) -> bool:
    """Whether a variable's name says nothing about the model."""
    return _MADE_UP.fullmatch(name) is not None


def adopt_names(function: relax.Function) -> relax.Function:
    """``function`` without plain aliases; what an alias stood for takes the alias's name if its own is made up."""
    view = Function(function)
    labels: dict[relax.Var, str] = {}
    for binding in reversed(view.bindings):
        label = labels.get(binding.var, binding.var.name)
        if isinstance(binding.value, relax.Var) and binding.value in view.definitions and not is_made_up(label):
            labels.setdefault(binding.value, label)
    replaced: dict[relax.Expr, relax.Expr] = {}
    bindings: list[relax.VarBinding] = []
    for binding in view.bindings:
        is_output = not isinstance(binding.var, relax.DataflowVar)
        value = substituted(binding.value, replaced)
        if isinstance(value, relax.Var) and not is_output:
            replaced[binding.var] = value
            continue
        variable = binding.var
        if is_made_up(variable.name) and variable in labels and not is_output:
            variable = relax.DataflowVar(labels[variable], binding.var.ty)
            replaced[binding.var] = variable
        bindings.append(relax.VarBinding(variable, value))
    return rebuilt(function, bindings)


def substituted(value: relax.Expr, replaced: dict[relax.Expr, relax.Expr]) -> relax.Expr:
    """``value`` (of one binding) with variables exchanged."""
    if isinstance(value, relax.Var):
        return replaced.get(value, value)
    if isinstance(value, relax.Tuple):
        return normalized(relax.Tuple([substituted(field, replaced) for field in value.fields]))
    if isinstance(value, relax.TupleGetItem):
        return normalized(relax.TupleGetItem(substituted(value.tuple_value, replaced), value.index))
    if not isinstance(value, relax.Call) or not replaced:
        return value
    arguments = [
        substituted(argument, replaced) if isinstance(argument, relax.Var | relax.Tuple) else argument
        for argument in value.args
    ]
    if all(new is old for new, old in zip(arguments, value.args, strict=True)):
        return value
    return normalized(relax.Call(value.op, arguments, value.attrs, value.ty_args))
