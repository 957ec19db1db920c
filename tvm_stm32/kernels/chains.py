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


def _joins(view: Function, operand: relax.Var, value: relax.Call, number: int) -> bool:
    """Whether ``operand`` is a convolution's result that only ``value`` reads, and both can be run in bands."""
    own = view.match(operand, "q.conv2d")
    if own is None or operand not in view.definitions or not view.definitions[operand].same_as(own):
        return False
    window, after = row_window(own), row_window(value, number)
    return view.uses.get(operand, 0) == 1 and window is not None and after is not None and after.out_rows >= _LEAST_ROWS
