"""Operators with fixed inputs and expected outputs, side by side in one network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from kernels import reference
from tvm import IRModule, relax

from tvm_stm32 import numerics
from tvm_stm32.graph import operators
from tvm_stm32.model import Model, Provenance, TensorInfo


@dataclass
class Case:
    """An operator: its inputs, the call it makes of their variables, and the codes it must give."""

    inputs: list[np.ndarray]
    call: Callable[[list[relax.Var]], relax.Expr]
    expected: np.ndarray


def requantization(generator, channels, bound, rounding, *, extreme=False):
    """Random multipliers and shifts that bring accumulators of that bound near the int8 range."""
    real = 200.0 / bound * generator.uniform(0.2, 3.0, channels)
    multiplier, shift = numerics.quantize_multipliers(real)
    if extreme:
        multiplier[::2] = (1 << 31) - 1
        multiplier[1::3] = 1 << 30
    low, high = sorted(generator.integers(-128, 128, 2)) if generator.random() < 0.3 else (-128, 127)
    return operators.Requantization(
        multiplier, shift, int(generator.integers(-128, 128)), rounding, int(low), int(high)
    )


def finished(acc, r):
    return reference.finish(acc, r.multiplier, r.shift, r.zero_point, r.rounding, r.clamp_min, r.clamp_max)


def network(made: list[Case]) -> tuple[Model, list[bytes]]:
    """All cases side by side in one network with one output each."""
    variables, inputs, outputs = [], [], []
    builder = relax.BlockBuilder()
    for number, case in enumerate(made):
        for position, array in enumerate(case.inputs):
            name = f"in_{number}_{position}"
            variables.append(relax.Var(name, relax.TensorType(array.shape, array.dtype.name)))
            inputs.append(TensorInfo(name, array.shape, array.dtype.name))
    with builder.function("main", variables):
        with builder.dataflow():
            results, used = [], 0
            for number, case in enumerate(made):
                mine = variables[used : used + len(case.inputs)]
                used += len(case.inputs)
                results.append(builder.emit(case.call(mine)))
                outputs.append(TensorInfo(f"out_{number}", case.expected.shape, case.expected.dtype.name))
            out = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(out)
    model = Model(
        IRModule({"main": builder.get()["main"]}), inputs, outputs, "tflm", Provenance("zoo", "0" * 64, "test")
    )
    return model, [b"".join(array.tobytes() for case in made for array in case.inputs)]
