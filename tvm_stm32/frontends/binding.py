"""Binding values under the model's own names."""

from __future__ import annotations

from tvm import relax


def bind(builder: relax.BlockBuilder, value: relax.Expr, name: str) -> relax.Var:
    """Bind ``value`` in the builder's dataflow block to a variable of exactly that name.

    ``BlockBuilder.emit`` would make a name unique by appending a number, and a user's names are to survive.
    """
    call = builder.normalize(value)
    variable = relax.DataflowVar(name, call.ty)
    builder.emit_normalized(relax.VarBinding(variable, call))
    return variable
