"""Values that are computed twice: the second binding becomes the first."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable

from tvm import relax

from . import dialect
from .naming import substituted
from .ssa import Function, constant, rebuilt

# Operators that compute alike from alike operands; what else there is stays as it is.
_MOVES = {"relax.reshape", "relax.permute_dims", "relax.nn.pad", "relax.clip", "relax.concat"}


def without_repetition(function: relax.Function) -> relax.Function:
    """``function`` where equal integer operators of equal operands are one."""
    replaced: dict[relax.Expr, relax.Expr] = {}
    known: dict[Hashable, relax.Var] = {}
    numbers: dict[relax.Var, int] = {}
    bindings = []

    def key(argument: relax.Expr) -> Hashable:
        array = constant(argument)
        if array is not None:
            return str(array.dtype), array.shape, hashlib.sha256(array.tobytes()).digest()
        if isinstance(argument, relax.Tuple):
            return tuple(key(field) for field in argument.fields)
        if isinstance(argument, relax.Var):
            return numbers.setdefault(argument, len(numbers))
        return str(argument)

    for binding in Function(function).bindings:
        value = substituted(binding.value, replaced)
        bindings.append(relax.VarBinding(binding.var, value))
        name = dialect.name_of(value)
        if not name.startswith("q.") and name not in _MOVES:
            continue
        attributes = str(dialect.attributes(value)) if name.startswith("q.") else str(value.attrs)
        first = known.setdefault((name, attributes, *map(key, value.args)), binding.var)
        if not first.same_as(binding.var):
            # An output keeps its own variable, as a plain alias.
            bindings[-1] = relax.VarBinding(binding.var, first)
            replaced[binding.var] = first
    return rebuilt(function, bindings) if replaced else function
