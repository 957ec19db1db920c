"""Blocks of M0+ and M3: packed sums at their bounds, depthwise rows."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import reference
from kernels.fixed_cases import Case, finished, network, requantization
from support import build_and_run, random_bytes

from tvm_stm32 import memory
from tvm_stm32.graph import operators
from tvm_stm32.kernels.blocks.matmul_scalar import segment_of
from tvm_stm32.kernels.network import build_library
from tvm_stm32.target import Target


@pytest.mark.parametrize("core", ["cortex-m0plus", "cortex-m3"])
@pytest.mark.parametrize("beyond", [0, 1])
def test_packed_sums_are_exact_up_to_their_bound(core, beyond, tmp_path):
    """Sums of three pixels share two words while they are in -2^20..2^20 - 1; beyond, the depth is cut."""
    generator = np.random.default_rng(3)
    x = generator.choice(np.array([-128, 127, 0], np.int8), (1, 1, 20, 64))
    x[0, 0, ::3], x[0, 0, 1::3] = -128, 127
    weight = np.stack([np.full((1, 1, 64), w, np.int8) for w in (127, -127, 127, 1)])
    bias = np.array([-8192 - beyond, 8191 + beyond, 0, 0], np.int32)
    assert segment_of(weight.reshape(4, 64), bias, 0) == (64 if not beyond else 32)
    r = operators.Requantization(np.full(4, 1 << 30), np.full(4, -12), 3, "tflm")
    options = {"strides": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1}
    acc = reference.conv_accumulate(x, weight, bias, *options.values(), 0)
    case = Case([x], lambda v: operators.conv2d(v[0], weight, bias, r, input_zero_point=0, **options), finished(acc, r))
    model, samples = network([case])
    library = build_library(model.module, model, Target.for_cpu(core), "zoo", "time", {})
    memory.plan(library)
    results, _ = build_and_run(library, "mps2-an385", samples, tmp_path, cpu=core)
    assert "triples" in library.calls[0].detail
    assert results[0] == case.expected.tobytes()


@pytest.mark.parametrize("core, kernels", [("cortex-m0plus", "asm"), ("cortex-m3", "asm"), ("cortex-m3", "c")])
def test_depthwise_rows_and_cut_depths(core, kernels, tmp_path):
    """Depthwise 3x3 of both strides, few and many columns, channels in fours or not; sums too long for one word."""
    generator = np.random.default_rng(5)
    made = []
    for width, channels, stride in ((3, 4, 1), (5, 12, 1), (9, 8, 2), (16, 3, 1), (7, 5, 1), (20, 4, 1), (21, 4, 2)):
        x = random_bytes(generator, (1, 4, width, channels))
        weight, bias = random_bytes(generator, (channels, 3, 3, 1)), generator.integers(-9000, 9000, channels)
        r = requantization(generator, channels, 6000, "tflm")
        geometry = ((stride, stride), (1, 1, 1, 1), (1, 1), channels)
        acc = reference.conv_accumulate(x, weight, bias.astype(np.int32), *geometry, 5)
        made.append(_case(x, weight, bias.astype(np.int32), r, geometry, 5, acc))
    x, weight = random_bytes(generator, (1, 4, 5, 64)), random_bytes(generator, (5, 3, 3, 64))
    bias, r = np.zeros(5, np.int32), requantization(generator, 5, 60000, "tflm")
    geometry = ((1, 1), (1, 1, 1, 1), (1, 1), 1)
    made.append(_case(x, weight, bias, r, geometry, -7, reference.conv_accumulate(x, weight, bias, *geometry, -7)))
    model, samples = network(made)
    library = build_library(model.module, model, Target.for_cpu(core), "zoo", "time", {}, kernels)
    memory.plan(library)
    results, _ = build_and_run(library, "mps2-an385", samples, tmp_path, cpu=core)
    assert results[0] == b"".join(case.expected.tobytes() for case in made)


def _case(x, weight, bias, r, geometry, zero_point, acc):
    options = dict(zip(("strides", "padding", "dilation", "groups"), geometry, strict=True))
    return Case(
        [x],
        lambda v: operators.conv2d(v[0], weight, bias, r, input_zero_point=zero_point, **options),
        finished(acc, r),
    )
