"""Sums and products of two int8 tensors give the reference's code for every pair of codes, in each form they have."""

from __future__ import annotations

import numpy as np
import pytest
from kernels.random_cases import Case
from kernels.test_int8_operators import differences
from tvm import relax

from tvm_stm32 import numerics
from tvm_stm32.graph import dialect
from tvm_stm32.kernels import choice
from tvm_stm32.kernels.binary import binary_codes
from tvm_stm32.kernels.blocks.affine import SumOfCodes, fit_affine

# Operator, scales of both operands and the result, their zero points, clamps.
SETS = {
    "uneven": ("add", (0.0238153, 0.0629911, 0.0307994), (-128, 4, -128), (-128, 127)),
    "difference": ("sub", (0.0311, 0.0173, 0.0411), (-7, 31, 12), (-100, 90)),
    "equal": ("add", (0.02, 0.02, 0.04), (3, -5, 0), (-128, 127)),
    "ties": ("add", (0.05, 0.04, 0.08), (-7, 3, 65), (-128, 127)),
    "second is larger": ("add", (0.04, 0.05, 0.08), (-128, 127, -3), (-3, 127)),
    "product": ("mul", (0.05, 0.04, 0.2), (-7, 3, 6), (-128, 127)),
    "positive product": ("mul", (0.0123, 0.0391, 0.0217), (-128, -128, -128), (-128, 127)),
    "large product": ("mul", (0.9, 0.8, 0.9), (0, 100, -4), (-128, 100)),
}
# (core, where it runs, language of blocks, forms); every core has the plain form.
RUNS = [
    ("cortex-m4", "host", "c", "lanes table plain"),
    ("cortex-m4", "mps2-an386", "asm", "lanes table plain"),
    ("cortex-m33", "mps2-an505", "c", "lanes table"),
    ("cortex-m55", "mps3-an547", "asm", "plain"),
    ("cortex-m0plus", "mps2-an385", "asm", "plain"),
]


def attributes(operator: str, scales: tuple[float, ...], zero_points: tuple[int, ...], clamps: tuple[int, int]) -> dict:
    """Of ``q.add``, ``q.sub`` or ``q.mul`` as TFLM has them."""
    attrs = dict(zip(("lhs_zero_point", "rhs_zero_point", "output_zero_point"), zero_points, strict=True))
    attrs |= {"clamp_min": clamps[0], "clamp_max": clamps[1], "rounding": "tflm"}
    # Files have them in 32 bits.
    lhs, rhs, out = (float(np.float32(scale)) for scale in scales)
    if operator == "mul":
        real = {"": lhs * rhs / out}
    else:
        attrs["left_shift"] = 20
        twice = 2 * max(lhs, rhs)
        real = {"lhs_": lhs / twice, "rhs_": rhs / twice, "": twice / ((1 << 20) * out)}
    for name, value in real.items():
        attrs[f"{name}multiplier"], attrs[f"{name}shift"] = numerics.quantize_multiplier(value)
    return attrs


def case_of(name: str, lhs: tuple[int, ...], rhs: tuple[int, ...]) -> Case:
    """An operator of these shapes."""
    operator, *rest = SETS[name]
    attrs = attributes(operator, *rest)
    shape = np.broadcast_shapes(lhs, rhs)
    codes = binary_codes(operator, attrs).astype(np.int8)

    def call(variables: list[relax.Var]) -> relax.Expr:
        return dialect.call(f"q.{operator}", variables, shape, "int8", **attrs)

    def expected(x: list[np.ndarray]) -> np.ndarray:
        return codes[x[0].astype(int) + 128, x[1].astype(int) + 128]

    return Case(name, [lhs, rhs], call, expected, f"{name} {attrs}")


def prefer(monkeypatch: pytest.MonkeyPatch, forms: str) -> set[str]:
    """Take the first of ``forms`` there is; the set returned will hold those that were."""
    taken = set()

    def pick(_: object, costs: dict) -> str:
        taken.add(next(form for form in [*forms.split(), *costs] if form in costs))
        return next(form for form in [*forms.split(), *costs] if form in costs)

    monkeypatch.setattr(choice, "pick", pick)
    return taken


@pytest.mark.parametrize("core, board, kernels, forms", RUNS)
def test_every_pair_of_codes_gives_the_reference_code(core, board, kernels, forms, tmp_path, monkeypatch):
    taken = prefer(monkeypatch, forms)
    # Three codes are left behind the last word.
    pairs = np.indices((256, 256)).reshape(2, -1) - 128
    sample = [np.append(codes, codes[:3]).astype(np.int8) for codes in pairs]
    made = [case_of(name, sample[0].shape, sample[1].shape) for name in SETS]
    wrong = differences(made, [[sample] * len(made)], core, board, kernels, "time", tmp_path)
    assert not wrong, "\n".join(wrong)
    assert taken == set(forms.split()) - ({"plain"} if "lanes" in forms else set())


@pytest.mark.parametrize("core, board, kernels", [("cortex-m4", "host", "c"), ("cortex-m4", "mps2-an386", "asm")])
@pytest.mark.parametrize("level", ["time", "size"])
def test_rows_of_broadcast_operands_begin_at_any_address(core, board, kernels, level, tmp_path, monkeypatch):
    taken = prefer(monkeypatch, "lanes table")
    generator = np.random.default_rng(1)
    shapes = [((3, 2, 13), (2, 13)), ((3, 1, 9), (1, 4, 9)), ((1, 11), (5, 11)), ((4, 3, 2, 5), (4, 1, 2, 5))]
    made = [case_of(name, *pair) for name in SETS for pair in shapes]
    sample = [[generator.integers(-128, 128, shape).astype(np.int8) for shape in case.shapes] for case in made]
    wrong = differences(made, [sample], core, board, kernels, level, tmp_path)
    assert not wrong, "\n".join(wrong)
    assert taken == {"lanes", "table"}


def test_sums_of_uneven_scales_are_two_products_and_a_shift():
    generator = np.random.default_rng(3)
    for _ in range(40):
        lhs, rhs = 2.0 ** generator.uniform(-7, -3, 2)
        scales = lhs, rhs, max(lhs, rhs) * 2 ** generator.uniform(-0.5, 1)
        zero_points = tuple(int(code) for code in generator.integers(-128, 128, 3))
        attrs = attributes("add", scales, zero_points, (-128, 127))
        codes = binary_codes("add", attrs)
        wanted = SumOfCodes(codes, (lhs / scales[2], rhs / scales[2]), zero_points[:2], zero_points[2], -128, 127)
        for fraction in (0, 8):
            found = fit_affine(wanted, fraction)
            assert found is not None, (scales, zero_points)
            assert np.array_equal(np.clip(found.sums() >> found.shift, -128, 127), codes)
