"""What the codes of inner tensors stand for, by the tensors' names: noted before q/dq and qnn operators are fused."""

from __future__ import annotations

from tvm import relax

from ..model import Quantization
from . import dialect
from .affine import dequantized, quantize_parameters
from .ssa import Function


def inner_quantization(function: relax.Function) -> dict[str, Quantization]:
    """Per-tensor quantization of what quantize and requantize operators make and dequantize operators read."""
    view = Function(function)
    found: dict[str, Quantization] = {}
    for binding in view.bindings:
        name = dialect.name_of(binding.value)
        if name in ("relax.quantize", "qnn.quantize"):
            parameters = quantize_parameters(binding.value)
            if parameters is not None:
                found[binding.var.name] = Quantization((parameters[0],), (parameters[1],))
        elif name.endswith("dequantize") and isinstance(binding.value.args[0], relax.Var):
            codes = dequantized(view, binding.var)
            if codes is not None:
                found.setdefault(codes.data.name, Quantization((codes.scale,), (codes.zero_point,)))
        elif name.startswith("qnn."):
            attributes = dialect.attributes(binding.value)
            scale, zero_point = attributes.get("output_scale"), attributes.get("output_zero_point")
            if isinstance(scale, float | int) and isinstance(zero_point, int):
                found[binding.var.name] = Quantization((float(scale),), (zero_point,))
    return found


def through_aliases(function: relax.Function, known: dict[str, Quantization]) -> dict[str, Quantization]:
    """``known``, also by the names that other variables of the same values have."""
    found = dict(known)
    for binding in Function(function).bindings:
        if isinstance(binding.value, relax.Var) and binding.var.name in known:
            found.setdefault(binding.value.name, known[binding.var.name])
    return found
