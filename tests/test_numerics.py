"""Rounding rules: Python against C bit by bit, and against rules written out with exact fractions."""

from __future__ import annotations

import ctypes
import math
import subprocess
from fractions import Fraction

import numpy as np
import pytest
from support import ROOT, need_board

from tvm_stm32 import numerics

ROUNDINGS = {"tflm": 0, "upward": 1, "tonearest": 2, "even": 3}

SOURCE = """
#include "ai_kernels.h"
void multiply(const int32_t *x, const int32_t *m, const int32_t *s, int32_t rounding, int32_t n, int32_t *out)
{
    for (int32_t i = 0; i < n; i++) out[i] = ai_multiply(x[i], m[i], s[i], rounding);
}
void fast(const int32_t *x, const int32_t *m, const int32_t *s, int32_t zp, int32_t rounding, int32_t n, int32_t *out)
{
    for (int32_t i = 0; i < n; i++) out[i] = ai_requantize_fast(x[i], m[i], -s[i], zp, rounding);
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    need_board("host")
    folder = tmp_path_factory.mktemp("numerics")
    (folder / "n.c").write_text(SOURCE)
    include = ROOT / "runtime" / "include"
    subprocess.run(
        ["cc", "-O2", "-shared", "-fPIC", f"-I{include}", str(folder / "n.c"), "-o", str(folder / "n.so")], check=True
    )
    return ctypes.CDLL(str(folder / "n.so"))


def pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


def samples(count=200_000):
    """Accumulators, multipliers and shifts, exact ties and ends of the range among them."""
    generator = np.random.default_rng(3)
    x = generator.integers(-(1 << 24), 1 << 24, count)
    x[: count // 4] = generator.integers(-300, 300, count // 4)
    multiplier = generator.integers(1 << 30, 1 << 31, count)
    multiplier[::3] = 1 << 30
    multiplier[1::7] = (1 << 31) - 1
    return x.astype(np.int32), multiplier.astype(np.int32), generator.integers(-20, 5, count).astype(np.int32)


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_c_equals_python(library, rounding):
    x, multiplier, shift = samples()
    out = np.zeros_like(x)
    library.multiply(pointer(x), pointer(multiplier), pointer(shift), ROUNDINGS[rounding], len(x), pointer(out))
    np.testing.assert_array_equal(out, numerics.MULTIPLY[rounding](x, multiplier, shift))


@pytest.mark.parametrize("zero_point", [-128, 0, 127])
@pytest.mark.parametrize("rounding", ["tflm", "upward"])
def test_fast_requantization_equals_the_rule(library, rounding, zero_point):
    x, multiplier, shift = samples()
    shift = np.minimum(shift, -1)
    out = np.zeros_like(x)
    library.fast(pointer(x), pointer(multiplier), pointer(shift), zero_point, ROUNDINGS[rounding], len(x), pointer(out))
    np.testing.assert_array_equal(out, numerics.MULTIPLY[rounding](x, multiplier, shift) + zero_point)


def half_away(value):
    return int(math.copysign(math.floor(abs(value) + Fraction(1, 2)), value)) if value else 0


def test_rules_with_exact_fractions():
    x, multiplier, shift = (array[:3000].astype(object) for array in samples())
    for rule, rounded in (
        ("upward", lambda v: math.floor(v + Fraction(1, 2))),
        ("tonearest", half_away),
        ("even", round),
    ):
        got = numerics.MULTIPLY[rule](*(np.array(a.tolist(), np.int64) for a in (x, multiplier, shift)))
        for a, m, s, value in zip(x, multiplier, shift, got.tolist(), strict=True):
            exact = Fraction(int(a) * int(m)) * Fraction(2) ** (int(s) - 31)
            assert value == (rounded(exact) + (1 << 31)) % (1 << 32) - (1 << 31)


@pytest.mark.parametrize("real", [0.5, 0.25, 1.0, 1.0 - 2.0**-40, 3.7e-9, 123.456, 2.0**-33, 0.0])
def test_multiplier_and_shift_stand_for_the_scale(real):
    multiplier, shift = numerics.quantize_multiplier(real)
    if real < 2.0**-32:
        assert (multiplier, shift) == (0, 0)
    else:
        assert 1 << 30 <= multiplier < 1 << 31
        assert multiplier * 2.0 ** (shift - 31) == pytest.approx(real, rel=2.0**-31)


def test_activation_bounds_are_rounded_in_float32():
    assert numerics.quantize_activation(6.0, 0.023528477, -128) == 127
    assert numerics.quantize_activation(0.0, 0.1, 5) == 5
    assert numerics.quantize_activation(-1.0, 0.5, 0) == -2
