"""Convolutions and dense layers on int16 activations give the reference's bytes, on the host and on emulated cores."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import reference
from kernels.fixed_cases import Case, network
from support import build_and_run

from tvm_stm32 import memory, numerics
from tvm_stm32.graph import dialect, fixed_point, operators
from tvm_stm32.kernels.network import build_library
from tvm_stm32.target import Target


def case(generator, x_shape, weight_shape, *, groups=1, strides=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1), **how):
    """A ``q.conv2d16``; ``how`` is its accumulator, the largest weight, the size of its scales, and its bounds."""
    accumulator, largest = how.get("accumulator", "int64"), how.get("largest", 127)
    channels = weight_shape[0]
    x = generator.integers(-32768, 32768, x_shape).astype(np.int16)
    weight = generator.integers(-largest - 1, largest + 1, weight_shape).astype(np.int8)
    bias = generator.integers(-(1 << 24), 1 << 24, channels).astype(accumulator)
    acc = reference.conv_accumulate(x, weight, bias, strides, padding, dilation, groups, 0)
    real = how.get("scale", 1.0) * 20000 / (1 + np.abs(acc).max()) * generator.uniform(0.3, 2.0, channels)
    multiplier, shift = numerics.quantize_multipliers(real)
    if how.get("dead"):
        weight[0], bias[0], multiplier[0], shift[0] = 0, 77777, 1 << 30, -29
        acc = reference.conv_accumulate(x, weight, bias, strides, padding, dilation, groups, 0)
    low, high = how.get("bounds", (-32768, 32767))
    multiply = numerics.multiply_wide if accumulator == "int64" else numerics.MULTIPLY["tflm"]
    expected = np.clip(multiply(acc, multiplier, shift), low, high).astype(np.int16)
    attrs = {"strides": list(strides), "padding": list(padding), "dilation": list(dilation), "groups": groups}
    attrs |= {"input_zero_point": 0, "output_zero_point": 0, "rounding": "tflm", "clamp_min": low, "clamp_max": high}
    constants = [operators.const(weight, "int8"), fixed_point.const(bias, accumulator)]
    constants += [operators.const(multiplier, "int32"), operators.const(shift, "int32")]
    return Case(
        [x],
        lambda v: dialect.call(
            "q.conv2d16", [v[0], *constants], expected.shape, "int16", accumulator=accumulator, **attrs
        ),
        expected,
    )


def some(generator) -> Case:
    """Random extents, half of them depthwise."""
    kernel = tuple(int(n) for n in generator.integers(1, 5, 2))
    dilation = (1, 1) if generator.random() < 0.7 else tuple(int(d) for d in generator.integers(1, 3, 2))
    strides = tuple(int(s) for s in generator.integers(1, 3, 2))
    padding = tuple(int(p) for p in generator.integers(0, 3, 4)) if generator.random() < 0.6 else (0, 0, 0, 0)
    height, width = (int(n) + d * k for n, d, k in zip(generator.integers(1, 7, 2), dilation, kernel, strict=True))
    depth = int(generator.choice([1, 2, 3, 4, 5, 8, 16, 24]))
    depthwise = depth > 1 and generator.random() < 0.5
    groups = depth if depthwise else (2 if depth % 2 == 0 and generator.random() < 0.2 else 1)
    channels = depth if depthwise else groups * int(generator.choice([1, 2, 3, 4, 7, 8, 13]))
    return case(
        generator,
        (2 if generator.random() < 0.15 else 1, height, width, depth),
        (channels, *kernel, depth // groups),
        groups=groups,
        strides=strides,
        padding=padding,
        dilation=dilation,
        accumulator="int64" if generator.random() < 0.85 else "int32",
        bounds=((-32768, 32767), (0, 32767), (0, 12345), (-3000, 4001))[int(generator.integers(4))],
        dead=generator.random() < 0.2,
    )


def cases(seed: int) -> list[Case]:
    generator = np.random.default_rng(seed)
    made = [some(generator) for _ in range(14)]
    same = (1, 1, 1, 1)
    made += [
        # Pointwise: pixels read where they lie, too far apart for that, odd depths.
        case(generator, (1, 3, 5, 32), (12, 1, 1, 32), bounds=(0, 32767)),
        case(generator, (1, 3, 3, 672), (4, 1, 1, 672), largest=60),
        case(generator, (1, 3, 3, 21), (4, 1, 1, 21)),
        # Dense: one row and several, few channels left over.
        *(case(generator, (batch, 1, 1, 100), (units, 1, 1, 100)) for batch, units in ((1, 17), (1, 2), (3, 8))),
        case(generator, (1, 1, 1, 37), (9, 1, 1, 37)),
        # Sums beyond 32 bits, in one part and in several.
        case(generator, (1, 3, 3, 144), (5, 3, 3, 144), padding=same),
        case(generator, (1, 1, 1, 2500), (7, 1, 1, 2500)),
        # Scales that one multiplication does not do.
        case(generator, (1, 3, 5, 8), (4, 1, 1, 8), scale=1e5),
        case(generator, (1, 3, 5, 8), (4, 3, 3, 8), scale=1e-4),
        # Depthwise of both strides, an odd number of rows, dilation, and a large kernel.
        case(generator, (1, 7, 6, 8), (8, 3, 3, 1), groups=8, padding=same),
        case(generator, (2, 6, 19, 8), (8, 3, 3, 1), groups=8, padding=same, strides=(2, 2)),
        case(generator, (1, 7, 6, 16), (16, 3, 3, 1), groups=16, padding=same, dilation=(2, 1)),
        case(generator, (1, 9, 9, 4), (4, 7, 5, 1), groups=4, padding=same),
    ]
    return made


FORMS = [("cortex-m4", "mps2-an386", "asm"), ("cortex-m33", "mps2-an505", "asm")]
FORMS += [
    ("host", "host", "asm"),
    ("cortex-m55", "mps3-an547", "asm"),
    ("cortex-m55", "mps3-an547", "c"),
    ("cortex-m4", "host", "c"),
]


@pytest.mark.parametrize("core, board, kernels", FORMS)
def test_int16_kernels_equal_the_reference(core, board, kernels, tmp_path):
    made = cases(3)
    model, samples = network(made)
    level = "size" if kernels == "c" else "time"
    library = build_library(model.module, model, Target.for_cpu(core), "wide", level, {}, kernels)
    memory.plan(library)
    results, _ = build_and_run(library, board, samples, tmp_path)
    offset, wrong = 0, []
    for number, each in enumerate(made):
        got = np.frombuffer(results[0], np.int16, each.expected.size, offset).reshape(each.expected.shape)
        offset += 2 * each.expected.size
        if not np.array_equal(got, each.expected):
            wrong.append(f"{library.calls[number].operator} {library.calls[number].detail} ({number})")
    assert not wrong
