"""Bounds of fused activations."""

from __future__ import annotations

from tvm import relax

from . import dialect


def activation_bounds(call: relax.Call) -> tuple[float, float | None] | None:
    """``(low, high)`` of a relu or clip (high None: no upper bound), or None when they are no constants."""
    name = dialect.name_of(call)
    if name == "relax.nn.relu":
        return 0.0, None
    if name == "relax.nn.relu6":
        return 0.0, 6.0
    bounds = [getattr(argument, "value", None) for argument in call.args[1:]]
    numbers = [float(bound) for bound in bounds if isinstance(bound, float | int)]
    return (numbers[0], numbers[1]) if len(numbers) == len(bounds) == 2 else None
