"""C code of plain Relax operators computes what numpy or TVM computes."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from tir_support import Batch, Case
from tvm import relax

_RNG = np.random.default_rng(7)
op = relax.op


def _f(*shape: int) -> np.ndarray:
    return _RNG.standard_normal(shape).astype("float32")


def _p(*shape: int) -> np.ndarray:
    return _RNG.uniform(0.1, 3.0, shape).astype("float32")


def _i(low: int, high: int, *shape: int, dtype: str = "int32") -> np.ndarray:
    return _RNG.integers(low, high, shape).astype(dtype)


def _c(array: np.ndarray | float, dtype: str = "float32") -> relax.Expr:
    return relax.const(array, dtype)


def _erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf, otypes=["float32"])(x)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


_NONZERO = np.where((values := _i(-9, 10, 4, 5)) == 0, 3, values)
_SCALES = _p(4)
_EXACT = np.float32(0.060025695711374283)

_UNARY = ["exp", "log", "sqrt", "tanh", "sigmoid", "sin", "cos", "tan", "atan", "sinh", "cosh"]
_UNARY += ["floor", "ceil", "trunc", "abs", "negative", "sign"]

ELEMENTWISE = [
    Case("add_broadcast_row", [_f(2, 3, 4), _f(4)], op.add, np.add),
    Case("add_broadcast_middle", [_f(2, 3, 4), _f(3, 1)], op.add, np.add),
    Case("subtract_broadcast_both", [_f(3, 1), _f(1, 4)], op.subtract, np.subtract),
    *(
        Case(
            f"cast_{x.dtype}_to_{target}",
            [x],
            # What a wrong range would fold away.
            lambda x, t=target, z=zero: op.greater_equal(op.astype(x, t), relax.const(z, t)),
            lambda x, t=target, z=zero: x.astype(t) >= z,
        )
        for x, target, zero in (
            (np.arange(256, dtype="uint8"), "int8", 0),
            (np.arange(-128, 128).astype("int8"), "uint8", 128),
            (np.arange(-128, 128).astype("int8"), "uint32", 128),
            (np.arange(0, 65536, 255).astype("uint16"), "int8", 0),
        )
    ),
    Case("scalar_constant", [_f(3, 4)], lambda x: op.multiply(x, _c(0.1)), lambda x: x * np.float32(0.1)),
    Case(
        "exact_constant",
        [_f(64)],
        lambda x: op.multiply(x, _c(float(_EXACT))),
        lambda x: x * _EXACT,
        rtol=0,
        atol=0,
    ),
    Case("fused_chain", [_f(5, 7), _f(7)], lambda x, y: op.nn.relu(op.subtract(op.multiply(x, y), op.exp(y)))),
    Case("divide", [_f(4, 4), _p(4, 4)], op.divide, np.divide, rtol=0),
    Case("maximum_minimum", [_f(6, 6), _f(6, 6)], lambda x, y: op.minimum(op.maximum(x, y), op.add(x, y))),
    Case("clip", [_f(50)], lambda x: op.clip(x, -0.5, 0.75), lambda x: np.clip(x, -0.5, 0.75)),
    Case("leaky_relu", [_f(30)], lambda x: op.nn.leakyrelu(x, 0.1), lambda x: np.where(x > 0, x, x * np.float32(0.1))),
    Case("gelu", [_f(40)], op.nn.gelu, lambda x: x * (1 + _erf(x / math.sqrt(2))) / 2, rtol=1e-4),
    Case("gelu_tanh", [_f(40)], op.nn.gelu_tanh),
    Case("silu", [_f(40)], op.nn.silu, lambda x: x * _sigmoid(x)),
    Case("softplus", [_f(40)], op.nn.softplus),
    Case("prelu", [_f(2, 3, 4), _f(3)], lambda x, a: op.nn.prelu(x, a, 1)),
    Case("erf", [_f(40)], op.erf, _erf, rtol=1e-4),
    Case("where", [_f(3, 4) > 0, _f(3, 4), _f(4)], op.where, np.where),
    Case("logical", [_f(20) > 0, _f(20) > 0], lambda a, b: op.logical_or(op.logical_and(a, b), op.logical_not(b))),
    Case("compare_to_float", [_f(20), _f(20)], lambda a, b: op.astype(op.less_equal(a, b), "float32")),
    Case("bool_output", [_f(20), _f(20)], op.greater, np.greater),
    Case("bool_xor", [_f(20) > 0, _f(20) > 0], op.logical_xor, np.logical_xor),
    Case("square_rsqrt", [_p(20)], lambda x: op.rsqrt(op.square(x)), lambda x: 1 / np.sqrt(x * x)),
    Case("power_two", [_f(20)], lambda x: op.power(x, _c(2.0)), np.square),
    Case("power", [_p(20), _f(20)], op.power, np.power),
    Case("round_half", [np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.49], "float32")], op.round),
    Case(
        "is_special",
        [np.array([np.nan, np.inf, -np.inf, 0], "float32")],
        lambda x: op.logical_or(op.isnan(x), op.isinf(x)),
    ),
    Case("infinity_constant", [_f(4) > 0, _f(4)], lambda m, x: op.where(m, x, _c(float("-inf")))),
    *(Case(f"unary_{name}", [_p(33)], getattr(op, name)) for name in _UNARY),
    *(Case(f"unary_{name}", [_f(33) / 4], getattr(op, name)) for name in ("asin", "acos", "atanh", "asinh")),
]

INTEGERS = [
    Case("floor_divide", [_i(-50, 50, 4, 5), _NONZERO], op.floor_divide, np.floor_divide),
    Case("floor_mod", [_i(-50, 50, 4, 5), _NONZERO], op.floor_mod, np.mod),
    Case("floor_divide_by_constant", [_i(-50, 50, 40)], lambda x: op.floor_divide(x, _c(7, "int32")), lambda x: x // 7),
    Case("floor_mod_by_constant", [_i(-50, 50, 40)], lambda x: op.floor_mod(x, _c(7, "int32")), lambda x: x % 7),
    Case(
        "floor_divide_int8",
        [_i(-50, 50, 40, dtype="int8")],
        lambda x: op.floor_divide(x, _c(7, "int8")),
        lambda x: x // np.int8(7),
    ),
    Case("int8_wraps", [_i(-128, 128, 90, dtype="int8"), _i(-128, 128, 90, dtype="int8")], op.add, np.add),
    Case("uint8_wraps", [_i(0, 256, 90, dtype="uint8"), _i(0, 256, 90, dtype="uint8")], op.multiply, np.multiply),
    Case("int16_maximum", [_i(-99, 99, 90, dtype="int16"), _i(-99, 99, 90, dtype="int16")], op.maximum, np.maximum),
    Case("int8_clip", [_i(-128, 128, 90, dtype="int8")], lambda x: op.clip(x, -20, 30), lambda x: np.clip(x, -20, 30)),
    Case(
        "int64_arithmetic",
        [_i(-9, 9, 20, dtype="int64"), _i(1, 9, 20, dtype="int64")],
        lambda x, y: op.multiply(op.add(x, y), y),
    ),
    Case(
        "shifts",
        [_i(-99, 99, 20), _i(0, 5, 20)],
        lambda x, s: op.bitwise_xor(op.left_shift(x, s), op.right_shift(x, s)),
    ),
    Case(
        "bitwise",
        [_i(0, 99, 20, dtype="uint32"), _i(0, 99, 20, dtype="uint32")],
        lambda x, y: op.bitwise_and(op.bitwise_or(x, y), op.bitwise_not(y)),
    ),
    Case("int8_bitwise_not", [_i(-128, 127, 20, dtype="int8")], op.bitwise_not, np.invert),
    Case("int_absolute", [_i(-99, 99, 20)], op.abs, np.abs),
    Case("cast_down", [_f(20) * 50], lambda x: op.astype(x, "int8"), lambda x: x.astype("int8")),
    Case(
        "cast_up", [_i(-128, 127, 20, dtype="int8")], lambda x: op.astype(x, "float32"), lambda x: x.astype("float32")
    ),
    Case(
        "cast_int64_to_int32",
        [_i(-99, 99, 20, dtype="int64")],
        lambda x: op.astype(x, "int32"),
        lambda x: x.astype("int32"),
    ),
    Case("cast_to_bool", [_i(-2, 2, 20)], lambda x: op.astype(x, "bool"), lambda x: x.astype("bool")),
    Case(
        "int8_matmul",
        [_i(-128, 127, 3, 8, dtype="int8"), _i(-128, 127, 8, 5, dtype="int8")],
        lambda x, y: op.matmul(x, y, out_dtype="int32"),
    ),
    Case("int32_sum", [_i(-99, 99, 4, 9)], lambda x: op.sum(x, 1), lambda x: x.sum(1, dtype="int32")),
    Case("quantize", [_f(3, 16) * 4], lambda x: op.quantize(x, _c(0.05), _c(3, "int8"), 1, "int8")),
    Case(
        "quantize_channels", [_f(3, 4) * 4], lambda x: op.quantize(x, _c(_SCALES), _c(np.arange(4), "int8"), 1, "int8")
    ),
    Case(
        "dequantize",
        [_i(-128, 127, 3, 16, dtype="int8")],
        lambda x: op.dequantize(x, _c(0.05), _c(3, "int8"), 1, "float32"),
    ),
]


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Batch]:
    yield Batch([*ELEMENTWISE, *INTEGERS], tmp_path_factory.mktemp("operators"))


@pytest.mark.parametrize("case", [*ELEMENTWISE, *INTEGERS], ids=lambda case: case.name)
def test_c_code_computes_the_operator(batch: Batch, case: Case) -> None:
    for actual, expected in zip(batch.run(case.name), batch.expected(case.name), strict=True):
        assert actual.dtype == expected.dtype
        assert actual.shape == expected.shape
        if actual.dtype == np.float32:
            np.testing.assert_allclose(actual, expected, case.rtol, case.atol)
        else:
            np.testing.assert_array_equal(actual, expected)
