"""Which operators of a network run as a chain in bands of rows (:mod:`.bands`)."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import relax

from ..graph import dialect
from ..graph.ssa import Function, constant
from .bands import row_window

# Fewer rows gain nothing.
_LEAST_ROWS = 4


@dataclass(frozen=True)
class Chain:
    """Variables of a chain in order, and for each which operand comes from the one before."""

    variables: tuple[relax.Var, ...]
    chained: tuple[int, ...]


def sums_behind_convolutions(view: Function) -> list[Chain]:
    """Each sum with the convolution before it that nothing else reads."""
    order = {binding.var: number for number, binding in enumerate(view.bindings)}
    chains = []
    for binding in view.bindings:
        value = binding.value
        if dialect.name_of(value) not in ("q.add", "q.sub"):
            continue
        left, right = value.args
        if not isinstance(left, relax.Var) or not isinstance(right, relax.Var) or left.same_as(right):
            continue
        if any(constant(view.value(operand)) is not None for operand in (left, right)):
            continue
        fitting = [
            (order[operand], operand, number)
            for number, operand in enumerate((left, right))
            if _joins(view, operand, value, number)
        ]
        if fitting:
            _, operand, number = max(fitting, key=lambda found: found[0])
            chains.append(Chain((operand, binding.var), (0, number)))
    return chains


def joined(view: Function, first: Chain, second: Chain) -> Chain | None:
    """Both as one chain; None when the second does not read the first's result, others do too, or no bands fit."""
    end = first.variables[-1]
    value = view.definitions.get(second.variables[0])
    if not isinstance(value, relax.Call) or view.uses.get(end, 0) != 1:
        return None
    at = [n for n, argument in enumerate(value.args) if isinstance(argument, relax.Var) and argument.same_as(end)]
    if len(at) != 1:
        return None
    chain = Chain((*first.variables, *second.variables), (*first.chained, at[0], *second.chained[1:]))
    for variable, chained in zip(chain.variables, chain.chained, strict=True):
        call = view.definitions[variable]
        if not isinstance(call, relax.Call) or not call.args or not isinstance(call.args[chained], relax.Var):
            return None
        if constant(view.value(call.args[chained])) is not None or row_window(call, chained) is None:
            return None
    return chain


def _joins(view: Function, operand: relax.Var, value: relax.Call, number: int) -> bool:
    """Whether ``operand`` is a convolution's result that only ``value`` reads, and both can be run in bands."""
    own = view.match(operand, "q.conv2d")
    if own is None or operand not in view.definitions or not view.definitions[operand].same_as(own):
        return False
    window, after = row_window(own), row_window(value, number)
    return view.uses.get(operand, 0) == 1 and window is not None and after is not None and after.out_rows >= _LEAST_ROWS
