"""Weights of 4 and 2 bits stay packed in flash and give the reference's bytes, on the host and on emulated cores."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import reference
from kernels.fixed_cases import Case, finished, network, requantization
from support import build_and_run, random_bytes

from tvm_stm32 import memory
from tvm_stm32.graph import operators
from tvm_stm32.kernels.network import build_library
from tvm_stm32.target import Target

LIMITS = {4: (-8, 8), 2: (-2, 2)}


def _requantization(generator, channels, depth, bits, rounding):
    return requantization(generator, channels, 30 * (1 << bits) * np.sqrt(depth), rounding)


def convolution(generator, bits, x_shape, weight_shape, *, rounding="tflm", groups=1, padding=(0, 0, 0, 0)) -> Case:
    x, weight = random_bytes(generator, x_shape), generator.integers(*LIMITS[bits], weight_shape).astype(np.int8)
    bias = generator.integers(-2000, 2000, weight_shape[0]).astype(np.int32)
    zero_point = int(generator.integers(-128, 128))
    r = _requantization(generator, weight_shape[0], weight[0].size, bits, rounding)
    acc = reference.conv_accumulate(x, weight, bias, (1, 1), padding, (1, 1), groups, zero_point)
    window = {"strides": (1, 1), "padding": padding, "dilation": (1, 1), "groups": groups}
    return Case(
        [x],
        lambda v: operators.conv2d(v[0], weight, bias, r, input_zero_point=zero_point, **window),
        finished(acc, r),
    )


def dense(generator, bits, batch, depth, units, rounding="tflm") -> Case:
    x, weight = random_bytes(generator, (batch, depth)), generator.integers(*LIMITS[bits], (units, depth))
    weight = weight.astype(np.int8)
    bias = generator.integers(-2000, 2000, units).astype(np.int32)
    zero_point = int(generator.integers(-128, 128))
    r = _requantization(generator, units, depth, bits, rounding)
    acc = (x.astype(np.int64) - zero_point) @ weight.T.astype(np.int64) + bias
    return Case(
        [x],
        lambda v: operators.dense(v[0], weight, bias, r, input_zero_point=zero_point, out_shape=acc.shape),
        finished(acc, r),
    )


def cases(seed: int) -> list[Case]:
    generator = np.random.default_rng(seed)
    made = []
    for bits in LIMITS:
        made += [
            convolution(generator, bits, (1, 5, 5, 64), (16, 1, 1, 64)),
            convolution(generator, bits, (1, 3, 5, 10), (7, 1, 1, 10)),
            convolution(generator, bits, (1, 4, 6, 3), (5, 3, 3, 3), padding=(1, 1, 1, 1)),
            *(dense(generator, bits, *size) for size in ((1, 640, 13), (1, 37, 6))),
        ]
    made += [
        convolution(generator, 4, (2, 3, 3, 8), (6, 2, 2, 4), groups=2),
        convolution(generator, 2, (1, 1, 1, 2), (1, 1, 1, 2)),
        convolution(generator, 4, (1, 3, 3, 80), (4, 3, 3, 80), rounding="even"),
        convolution(generator, 4, (1, 6, 6, 8), (8, 3, 3, 1), groups=8, padding=(1, 1, 1, 1)),
        *(dense(generator, 4, *size) for size in ((3, 3, 2), (1, 1, 1), (2, 66, 12))),
        dense(generator, 2, 1, 130, 9, rounding="tonearest"),
    ]
    return made


FORMS = [("host", "host", "asm", "size"), ("cortex-m4", "mps2-an386", "asm", "balanced")]
FORMS += [("cortex-m33", "mps2-an505", "asm", "size"), ("cortex-m55", "mps3-an547", "asm", "balanced")]
FORMS += [("cortex-m4", "host", "c", "ram"), ("cortex-m55", "mps3-an547", "c", "ram")]


@pytest.mark.parametrize("core, board, kernels, level", FORMS)
def test_kernels_of_narrow_weights_equal_the_reference(core, board, kernels, level, tmp_path):
    made = cases(5)
    model, samples = network(made)
    library = build_library(model.module, model, Target.for_cpu(core), "narrow", level, {}, kernels)
    memory.plan(library)
    results, _ = build_and_run(library, board, samples, tmp_path)
    offset, wrong = 0, []
    for number, case in enumerate(made):
        got = np.frombuffer(results[0], np.int8, case.expected.size, offset).reshape(case.expected.shape)
        offset += case.expected.size
        if not np.array_equal(got, case.expected):
            wrong.append(f"{library.calls[number].operator} {library.calls[number].detail} ({number})")
    assert not wrong


def test_weights_take_their_bits_of_flash():
    generator = np.random.default_rng(1)
    bits_taken = {}
    for bits in (4, 2):
        model, _ = network([dense(generator, bits, 1, 256, 60)])
        for level in ("balanced", "time"):
            library = build_library(model.module, model, Target.for_cpu("cortex-m4"), "narrow", level, {}, "asm")
            weights = next(c for name, c in library.constants.items() if name.endswith("_weights"))
            bits_taken[bits, level] = round(8 * (weights.data.nbytes - 60 * 9) / (256 * 60))
    assert bits_taken == {(4, "balanced"): 4, (4, "time"): 8, (2, "balanced"): 2, (2, "time"): 8}
