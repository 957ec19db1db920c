"""Quantized operators: the dialect calls a text becomes, and their exact legalization."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from relay_support import load, run
from tvm import ir

from tvm_stm32.graph import dialect, prepare
from tvm_stm32.model import Model, Quantization
from tvm_stm32.numerics import multiply_tonearest, multiply_upward, quantize_multipliers

CODES = np.arange(-128, 128, dtype=np.int8).reshape(1, 16, 16)
DECLARED = "%x: Tensor[(1, 16, 16), int8]"


def calls(model: Model) -> dict[str, tuple[Any, dict[str, Any]]]:
    """The dialect calls of a model by operator name: arguments and attributes."""
    bindings = [binding.value for block in model.module["main"].body.blocks for binding in block.bindings]
    found = [value for value in bindings if dialect.name_of(value).startswith("qnn.")]
    return {dialect.name_of(value): (list(value.args), dialect.attributes(value)) for value in found}


def array(expr: Any) -> np.ndarray:
    assert isinstance(expr, ir.GenericConst)
    return np.asarray(expr.value.numpy())


def test_convolution_keeps_what_the_graph_stage_needs(tmp_path: Path) -> None:
    text = """def @main(%x: Tensor[(1, 4, 4, 2), int8]) {
      %0 = qnn.conv2d(%x, meta[relay.Constant][0], -3, 0, 0.5f, meta[relay.Constant][1], padding=[1, 1], strides=[2, 2],
        channels=3, kernel_size=[3, 3], data_layout="NHWC", kernel_layout="HWIO", out_dtype="int32");
      %1 = nn.bias_add(%0, meta[relay.Constant][2], axis=3);
      qnn.requantize(%1, meta[relay.Constant][1], 0, 0.25f, 7, axis=-1, out_dtype="int8")
    }"""
    scales = np.array([0.25, 0.1, 0.75], np.float32)
    weight = np.arange(54, dtype=np.int8).reshape(3, 3, 2, 3)
    model = load(tmp_path, text, [weight, scales, np.array([1, 2, 3], np.int32)])
    found = calls(model)
    args, attrs = found["qnn.conv2d"]
    np.testing.assert_array_equal(array(args[1]), weight)
    assert attrs == {
        "out_shape": [1, 2, 2, 3],
        "out_dtype": "int32",
        "strides": [2, 2],
        "padding": [1, 1, 1, 1],
        "dilation": [1, 1],
        "groups": 1,
        "data_layout": "NHWC",
        "kernel_layout": "HWIO",
        "input_zero_point": -3,
        "kernel_zero_point": 0,
        "input_scale": 0.5,
        "kernel_scale": [float(scale) for scale in scales],
    }
    args, attrs = found["qnn.requantize"]
    multiplier, shift = quantize_multipliers(scales.astype(np.float64) / 0.25)
    np.testing.assert_array_equal(array(args[1]), multiplier)
    np.testing.assert_array_equal(array(args[2]), shift)
    assert [str(array(arg).dtype) for arg in args[1:]] == ["int32", "int32"]
    expected = {"axis": 3, "input_zero_point": 0, "output_zero_point": 7, "rounding": "upward", "out_dtype": "int8"}
    assert expected.items() <= attrs.items()
    assert model.inputs[0].quantization == Quantization((0.5,), (-3,))
    assert model.outputs[0].quantization == Quantization((0.25,), (7,))
    assert model.numerics == "relay"


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("zero_points", [(0, 0), (-3, 0), (5, -7), (400, 1)])
def test_convolution_is_exact(tmp_path: Path, layout: str, zero_points: tuple[int, int]) -> None:
    rng = np.random.default_rng(3)
    data = rng.integers(-128, 128, (1, 5, 6, 4)).astype(np.int8)
    weight = rng.integers(-128, 128, (3, 3, 2, 6)).astype(np.int8)
    offset = np.pad(data.astype(np.int64) - zero_points[0], ((0, 0), (1, 0), (2, 1), (0, 0)))
    expected = np.zeros((1, 4, 7, 6), np.int64)
    for group in range(2):
        kernel = weight[..., 3 * group : 3 * group + 3].astype(np.int64) - zero_points[1]
        part = offset[..., 2 * group : 2 * group + 2]
        for row in range(3):
            for column in range(3):
                expected[..., 3 * group : 3 * group + 3] += (
                    part[:, row : row + 4, column : column + 7] @ kernel[row, column]
                )
    if layout == "NCHW":
        data, weight, expected = (
            data.transpose(0, 3, 1, 2),
            weight.transpose(3, 2, 0, 1),
            expected.transpose(0, 3, 1, 2),
        )
    kernel_layout = "HWIO" if layout == "NHWC" else "OIHW"
    shape = ", ".join(map(str, data.shape))
    text = f"""def @main(%x: Tensor[({shape}), int8]) {{
      qnn.conv2d(%x, meta[relay.Constant][0], {zero_points[0]}, {zero_points[1]}, 0.5f, 0.25f, padding=[1, 2, 0, 1],
        groups=2, data_layout="{layout}", kernel_layout="{kernel_layout}", out_dtype="int32") }}"""
    (result,) = run(load(tmp_path, text, [np.ascontiguousarray(weight)]), np.ascontiguousarray(data))
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("rounding", ["UPWARD", "TONEAREST"])
@pytest.mark.parametrize(("source", "target"), [(0.0123, 7.31), (1.0, 1.0), (3.5, 0.25), (1e-12, 1.0), (0.5, 1.0)])
def test_requantize_is_exact(tmp_path: Path, rounding: str, source: float, target: float) -> None:
    data = np.concatenate([np.arange(-300, 300), np.random.default_rng(0).integers(-(1 << 24), 1 << 24, 100)])
    data = data.astype(np.int32).reshape(1, -1)
    text = (
        f"def @main(%x: Tensor[(1, {data.size}), int32]) {{ qnn.requantize(%x, {source}f, 5, {target}f, -4,"
        f' rounding="{rounding}", out_dtype="int16") }}'
    )
    (result,) = run(load(tmp_path, text), data)
    multiplier, shift = quantize_multipliers(np.array(np.float32(source), np.float64) / np.float64(np.float32(target)))
    multiply = multiply_upward if rounding == "UPWARD" else multiply_tonearest
    expected = np.clip(multiply(data - 5, multiplier, shift) - 4, -32768, 32767)
    np.testing.assert_array_equal(result, expected.astype(np.int16))


def test_requantize_of_equal_scales_is_an_identity(tmp_path: Path) -> None:
    text = f'def @main({DECLARED}) {{ qnn.requantize(%x, 0.1f, 0, 0.1f, 0, out_dtype="int8") }}'
    model = load(tmp_path, text)
    args, _ = calls(model)["qnn.requantize"]
    assert (array(args[1]).tolist(), array(args[2]).tolist()) == ([1 << 30], [1])
    np.testing.assert_array_equal(run(model, CODES)[0], CODES)


def test_quantize_rounds_ties_away_from_zero(tmp_path: Path) -> None:
    data = np.array([0.25, -0.25, 0.75, 1e9, -1e9, 0.24999999], np.float32)
    text = 'def @main(%x: Tensor[(6), float32]) { qnn.quantize(%x, 0.5f, 3, out_dtype="uint8") }'
    assert run(load(tmp_path, text), data)[0].tolist() == [4, 2, 5, 255, 0, 3]


def test_quantize_and_dequantize_per_channel(tmp_path: Path) -> None:
    scales, zeros = np.array([0.5, 0.1, 2.0], np.float32), np.array([0, -5, 9], np.int32)
    data = np.random.default_rng(2).standard_normal((4, 3)).astype(np.float32) * 9
    text = """def @main(%x: Tensor[(4, 3), float32]) {
      %0 = qnn.quantize(%x, meta[relay.Constant][0], meta[relay.Constant][1], out_dtype="int8", axis=1);
      (%0, qnn.dequantize(%0, meta[relay.Constant][0], meta[relay.Constant][1], out_dtype="float32", axis=1)) }"""
    codes, real = run(load(tmp_path, text, [scales, zeros]), data)
    scaled = data / scales
    rounded = np.trunc(scaled + np.copysign(np.float32(0.5), scaled)) + zeros
    np.testing.assert_array_equal(codes, np.clip(rounded, -128, 127).astype(np.int8))
    np.testing.assert_array_equal(real, (codes.astype(np.int32) - zeros).astype(np.float32) * scales)


def test_quantized_constants_are_folded(tmp_path: Path) -> None:
    text = """def @main(%x: Tensor[(2, 2), int8]) {
      %0 = qnn.quantize(meta[relay.Constant][0], meta[relay.Constant][1], 0, out_dtype="int8", axis=0);
      (qnn.dense(%x, %0, 0, 0, 1f, 1f, units=2, out_dtype="int32"),
        qnn.dequantize(%0, meta[relay.Constant][1], 0, out_dtype="float32", axis=0)) }"""
    weight = np.array([[0.25, -0.75], [10, 1000]], np.float32)
    model = load(tmp_path, text, [weight, np.array([0.5, 10], np.float32)])
    assert array(calls(model)["qnn.dense"][0][1]).tolist() == [[1, -2], [1, 100]]
    assert run(model, np.eye(2, dtype=np.int8))[1].tolist() == [[0.5, -1.0], [10.0, 1000.0]]


def test_unary_function_becomes_a_table(tmp_path: Path) -> None:
    model = load(tmp_path, f"def @main({DECLARED}) {{ qnn.tanh(%x, 0.05f, -10, 0.0078125f, 0) }}")
    table = array(calls(model)["qnn.table"][0][1])
    assert (table.shape, str(table.dtype)) == ((256,), "int8")
    np.testing.assert_array_equal(run(model, CODES)[0].reshape(-1), table)


def test_leaky_relu_follows_the_fixed_point_formula(tmp_path: Path) -> None:
    model = load(tmp_path, f"def @main({DECLARED}) {{ qnn.leaky_relu(%x, 0.05f, -10, 0.05f, -10, alpha=0.25f) }}")
    (result,) = run(model, CODES)
    codes = CODES.astype(np.int64)
    expected = np.where(codes < -10, np.floor(codes / 4 + 0.5) + np.floor(-7.5 + 0.5), codes)
    np.testing.assert_array_equal(result, expected)


def test_scales_may_be_products_of_constants(tmp_path: Path) -> None:
    text = (
        f'def @main({DECLARED}) {{ %0 = multiply(0.5f, 0.25f); qnn.requantize(%x, %0, 0, 0.25f, 0, out_dtype="int8") }}'
    )
    _, attrs = calls(load(tmp_path, text))["qnn.requantize"]
    assert attrs["input_scale"] == 0.125


def test_integer_softmax_follows_the_published_algorithm(tmp_path: Path) -> None:
    text = f"def @main({DECLARED}) {{ qnn.softmax(%x, 0.05f, 3, 0.00390625f, -128, axis=2) }}"
    (result,) = run(load(tmp_path, text), CODES)
    one, x = 20, CODES.astype(np.int64) - 3
    x = x - x.max(axis=2, keepdims=True)
    power = x + (x >> 1) - (x >> 4)
    quotient = np.clip(-power // one, 0, 20)
    exponential = (((power + quotient * one) >> 1) + one) << (quotient.max(axis=2, keepdims=True) - quotient)
    share = ((1 << 30) // exponential.sum(axis=2, keepdims=True) * exponential) >> 23
    np.testing.assert_array_equal(result, np.clip(2 * share - 128, -128, 127))


def test_quantized_average_pool_truncates(tmp_path: Path) -> None:
    data = np.array([-7, -2, -1, -1], np.int8).reshape(1, 2, 2, 1)
    text = """def @main(%x: Tensor[(1, 2, 2, 1), int8]) {
      qnn.avg_pool2d(%x, 0.5f, 0, 0.5f, 0, pool_size=[2, 2], layout="NHWC") }"""
    assert run(load(tmp_path, text), data)[0].item() == -2


def prepared(model: Model) -> list[str]:
    """Operators behind the graph stage."""
    blocks = prepare(model)["main"].body.blocks
    return [name for block in blocks for binding in block.bindings if (name := dialect.name_of(binding.value))]


@pytest.mark.parametrize(
    ("call", "kernels"),
    [
        ("qnn.add(%x, %y, 0.5f, 3, 0.25f, -7, 0.9f, -4)", ["q.add"]),
        ("qnn.subtract(%x, %y, 0.9f, -4, 0.25f, -7, 0.9f, -4)", ["q.sub"]),
        ("qnn.mul(%x, %y, 0.5f, 3, 0.25f, -7, 14f, -4)", ["q.mul"]),
        ("clip(qnn.add(%x, %y, 0.5f, 3, 0.25f, -7, 0.9f, -4), a_min=-4f, a_max=90f)", ["q.add"]),
        (
            "qnn.concatenate((%x, %y), (0.5f, 0.25f), (3, -7), 0.5f, 3, axis=1)",
            ["q.table", "v.concat"],
        ),
        ("qnn.sigmoid(%x, 0.05f, -10, 0.00390625f, -128)", ["q.table"]),
        ("qnn.leaky_relu(%x, 0.05f, -10, 0.05f, -10)", ["q.table"]),
        ("qnn.requantize(%x, 0.05f, -10, 0.03f, 1, compute_dtype=\"float32\", out_dtype=\"int8\")", ["q.table"]),
    ],
)  # fmt: skip
def test_elementwise_operators_have_kernels(tmp_path: Path, call: str, kernels: list[str]) -> None:
    model = load(tmp_path, f"def @main({DECLARED}, %y: Tensor[(1, 16, 16), int8]) {{ {call} }}")
    assert prepared(model) == kernels


def test_channels_first_convolutions_share_their_transposes(tmp_path: Path) -> None:
    convolution = """qnn.requantize(
        nn.bias_add(
          qnn.conv2d({data}, meta[relay.Constant][0], 5, 0, 0.5f, 0.1f, padding=[1, 1]), meta[relay.Constant][1]),
        meta[relay.Constant][2], 0, 0.9f, 5, axis=1, out_dtype="int8")"""
    text = f"""def @main(%x: Tensor[(1, 4, 5, 6), int8]) {{
      %0 = clip({convolution.format(data="%x")}, a_min=5f, a_max=127f);
      %1 = {convolution.format(data="%0")};
      qnn.add(%1, %0, 0.5f, 5, 0.5f, 5, 0.7f, 1)
    }}"""
    rng = np.random.default_rng(3)
    weight = rng.integers(-128, 128, (4, 4, 3, 3)).astype(np.int8)
    scales = np.array([0.01, 0.02, 0.005, 0.001], np.float32)
    model = load(tmp_path, text, [weight, np.arange(4, dtype=np.int32), scales])
    assert prepared(model) == ["relax.permute_dims", "q.conv2d", "q.conv2d", "q.add", "relax.permute_dims"]


@pytest.mark.parametrize("name", ["add", "subtract", "mul"])
def test_scales_of_channels(tmp_path: Path, name: str) -> None:
    rng = np.random.default_rng(1)
    left, right = (rng.integers(-128, 128, (5, 3)).astype(np.int8) for _ in range(2))
    scales = np.array([0.25, 0.1, 0.75], np.float32)
    other_scale = "meta[relay.Constant][0]" if name == "mul" else "0.5f"
    text = f"""def @main(%x: Tensor[(5, 3), int8], %y: Tensor[(5, 3), int8]) {{
      qnn.{name}(%x, %y, meta[relay.Constant][0], 3, {other_scale}, -7, 0.9f, -4, lhs_axis=1, rhs_axis=1) }}"""
    (result,) = run(load(tmp_path, text, [scales]), left, right)
    sides = [left.astype(np.int64) - 3, right.astype(np.int64) + 7]

    def scaled(values: np.ndarray, source: np.ndarray) -> np.ndarray:
        return multiply_upward(values, *quantize_multipliers(source.astype(np.float64) / np.float64(np.float32(0.9))))

    if name == "mul":
        expected = scaled(sides[0] * sides[1], scales * scales)
    else:
        other = scaled(sides[1], np.array([0.5], np.float32))
        expected = scaled(sides[0], scales) + (other if name == "add" else -other)
    np.testing.assert_array_equal(result, np.clip(expected - 4, -128, 127))


@pytest.mark.parametrize("rounding", ["UPWARD", "TONEAREST"])
@pytest.mark.parametrize("compute", ["float32", "float64"])
@pytest.mark.parametrize("scale", [0.0123, 7.3, 1e-9])
def test_requantize_in_real_arithmetic_is_exact(tmp_path: Path, rounding: str, compute: str, scale: float) -> None:
    rng = np.random.default_rng(0)
    data = np.concatenate([np.arange(-2000, 2000), rng.integers(-(1 << 31), 1 << 31, 500)]).astype(np.int32)
    text = f"""def @main(%x: Tensor[({data.size}), int32]) {{ qnn.requantize(%x, {scale}f, 0, 0.5f, -4,
      rounding="{rounding}", compute_dtype="{compute}", out_dtype="int8") }}"""
    (result,) = run(load(tmp_path, text), data)
    kind = np.dtype(compute).type
    real = data.astype(compute) * kind(np.float64(np.float32(scale)) / 0.5) + kind(-4)
    whole = np.floor(real + kind(0.5))
    if rounding == "TONEAREST":
        whole = np.trunc(real) + np.where(np.abs(real - np.trunc(real)) >= 0.5, np.sign(real), 0)
    np.testing.assert_array_equal(result, np.clip(whole, -128, 127).astype(np.int8))
