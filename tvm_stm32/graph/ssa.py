"""Reading a Relax function: definitions, users, constants. Shared by every rewrite of this package."""

from __future__ import annotations

import numpy as np
from tvm import ir, relax

from .dialect import name_of


class Function:
    """A view of a one-block Relax function: which call defines a variable, how often it is used."""

    def __init__(self, function: relax.Function) -> None:
        self.function = function
        self.bindings: list[relax.VarBinding] = [b for block in function.body.blocks for b in block.bindings]
        self.definitions: dict[relax.Var, relax.Expr] = {b.var: b.value for b in self.bindings}
        self.uses: dict[relax.Var, int] = {}
        for binding in self.bindings:
            for operand in operands(binding.value):
                self._count(operand)
        self._count(function.body.body)

    def _count(self, expr: relax.Expr) -> None:
        if isinstance(expr, relax.Tuple):
            for field in expr.fields:
                self._count(field)
        elif isinstance(expr, relax.Var):
            self.uses[expr] = self.uses.get(expr, 0) + 1

    def value(self, expr: relax.Expr) -> relax.Expr:
        """The call behind a variable (through plain aliases and written-out tuples), or the expression itself."""
        while True:
            if isinstance(expr, relax.Var) and expr in self.definitions:
                expr = self.definitions[expr]
            elif isinstance(expr, relax.TupleGetItem) and isinstance(
                whole := self.value(expr.tuple_value), relax.Tuple
            ):
                expr = whole.fields[expr.index]
            else:
                return expr

    def match(self, expr: relax.Expr, *names: str) -> relax.Call | None:
        """The call behind ``expr`` when its operator is one of ``names``."""
        value = self.value(expr)
        return value if isinstance(value, relax.Call) and name_of(value) in names else None


def operands(value: relax.Expr) -> list[relax.Expr]:
    """Direct operands of a binding's value; tuples are opened."""
    if isinstance(value, relax.Call):
        found: list[relax.Expr] = []
        for argument in value.args:
            found.extend(argument.fields if isinstance(argument, relax.Tuple) else [argument])
        return found
    if isinstance(value, relax.Tuple):
        return list(value.fields)
    if isinstance(value, relax.TupleGetItem):
        return [value.tuple_value]
    return [value]


def constant(expr: relax.Expr) -> np.ndarray | None:
    """The array of a constant expression, or None."""
    return np.asarray(expr.value.numpy()) if isinstance(expr, ir.GenericConst) else None


def shape_of(expr: relax.Expr) -> tuple[int, ...]:
    """Static shape of a tensor expression."""
    return tuple(int(extent) for extent in expr.ty.shape)


def dtype_of(expr: relax.Expr) -> str:
    """Element type of a tensor expression."""
    return str(expr.ty.dtype)


def normalized(call: relax.Call) -> relax.Call:
    """``call`` with its result type filled in."""
    return relax.BlockBuilder().normalize(call)


def rebuilt(function: relax.Function, bindings: list[relax.VarBinding]) -> relax.Function:
    """``function`` with other bindings (same output variables), dead ones removed."""
    body = relax.SeqExpr([relax.DataflowBlock(bindings)], function.body.body)
    whole = relax.Function(function.params, body, function.ret_ty, attrs=function.attrs)
    module = relax.transform.DeadCodeElimination()(ir.IRModule({"main": whole}))
    return module["main"]
