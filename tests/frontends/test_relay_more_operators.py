"""Operators that few models use, and every operator of the reference table, computed against numpy."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from relay_support import load, run
from support import ROOT, SHARED, shared

from tvm_stm32.errors import ModelError, UnsupportedOperatorError
from tvm_stm32.frontends.relay.operators import OPERATORS
from tvm_stm32.numerics import multiply_upward

RNG = np.random.default_rng(7)
X = (np.arange(24, dtype=np.float32) / 5 - 2).reshape(1, 4, 6)
GRID = np.arange(48, dtype=np.float32).reshape(1, 8, 2, 3)


def compute(
    folder: Path, expression: str, data: np.ndarray = X, constants: list[np.ndarray] | None = None
) -> list[np.ndarray]:
    shape = ", ".join(map(str, data.shape))
    text = f"def @main(%x: Tensor[({shape}), {data.dtype}]) {{ {expression} }}"
    return run(load(folder, text, constants), data)


def constants(*arrays: np.ndarray) -> list[np.ndarray]:
    return [np.ascontiguousarray(array) for array in arrays]


INTEGERS = constants(np.array([2, 3, 4], np.int32), np.array([1, 0], np.int32), np.array([3, 5], np.int32))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("all(greater(%x, 0f), axis=[2])", (X > 0).all(2)),
        ("any(greater(%x, 2f), axis=[1], keepdims=True)", (X > 2).any(1, keepdims=True)),
        ("reinterpret(%x, dtype=\"int32\")", X.view(np.int32)),
        ("reinterpret(reinterpret(%x, dtype=\"uint32\"), dtype=\"float32\")", X),
        ("argmax(%x, axis=[1, 2])", np.array([23], np.int32)),
        ("argmin(%x, axis=[0, 1], keepdims=True)", X.reshape(4, 6).argmin(0).reshape(1, 1, 6).astype(np.int32)),
        ("argmax(zeros_like(%x) * %x, axis=[1], select_last_index=True)", np.full((1, 6), 3, np.int32)),
        ("dyn.reshape(%x, meta[relay.Constant][0])", X.reshape(2, 3, 4)),
        ("dyn.tile(%x, meta[relay.Constant][0])", np.tile(X, (2, 3, 4))),
        ("dyn.strided_slice(%x, meta[relay.Constant][1], meta[relay.Constant][2], meta[relay.Constant][1])", None),
        ("dyn.topk(%x, 2, axis=1, ret_type=\"values\")", -np.sort(-X, 1)[:, :2]),
        ("add(dyn.ones(meta[relay.Constant][1], dtype=\"float32\"), max(%x))", None),
        ("dyn.broadcast_to(max(%x), meta[relay.Constant][0])", np.full((2, 3, 4), X.max())),
        ("add(dyn.full(2f, meta[relay.Constant][0]), max(%x))", np.full((2, 3, 4), X.max() + 2, np.float32)),
        (
            "take(%x, meta[relay.Constant][3], batch_dims=1, axis=1)",
            np.stack([X[0][[1, 3]]]),
        ),
    ],
)  # fmt: skip
def test_operator(tmp_path: Path, expression: str, expected: np.ndarray | None) -> None:
    arrays = [*INTEGERS, np.array([[1, 3]], np.int32)]
    if expected is None:
        # A stride of 0 and an empty shape.
        with pytest.raises(ModelError):
            compute(tmp_path, expression, constants=arrays)
        return
    (result,) = compute(tmp_path, expression, constants=arrays)
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axis", [0, 1])
def test_sequence_mask(tmp_path: Path, axis: int) -> None:
    data = RNG.standard_normal((3, 3, 2)).astype(np.float32)
    lengths = np.array([1, 3, 2], np.int32)
    call = f"sequence_mask(%x, meta[relay.Constant][0], mask_value=-1f, axis={axis})"
    valid = np.arange(3)[:, None] < lengths[None] if axis == 0 else np.arange(3)[None] < lengths[:, None]
    (result,) = compute(tmp_path, call, data, constants(lengths))
    np.testing.assert_array_equal(result, np.where(valid[..., None], data, np.float32(-1)))


@pytest.mark.parametrize("indexing", ["ij", "xy"])
def test_meshgrid(tmp_path: Path, indexing: str) -> None:
    vectors = [np.arange(3, dtype=np.float32), np.arange(4, dtype=np.float32), np.array([7, 8], np.float32)]
    call = f'meshgrid((%x, meta[relay.Constant][0], meta[relay.Constant][1]), indexing="{indexing}")'
    results = compute(tmp_path, call, vectors[0], vectors[1:])
    # numpy's types want a literal.
    grids = np.meshgrid(*vectors, indexing=indexing)  # type: ignore[call-overload]
    for result, expected in zip(results, grids, strict=True):
        np.testing.assert_array_equal(result, expected)


def test_unravel_index(tmp_path: Path) -> None:
    indices = np.array([[0, 5, 23], [7, 12, 18]], np.int32)
    (result,) = compute(tmp_path, "unravel_index(%x, meta[relay.Constant][0])", indices, INTEGERS)
    np.testing.assert_array_equal(result, np.stack(np.unravel_index(indices, (2, 3, 4))))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_crop_and_resize_of_a_whole_and_a_half_image(tmp_path: Path, layout: str) -> None:
    image = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    image = image if layout == "NCHW" else image.transpose(0, 2, 3, 1)
    boxes = np.array([[0, 0, 1, 1], [0, 0, 1, 0.5]], np.float32)
    arguments = "%x, meta[relay.Constant][0], meta[relay.Constant][1]"
    call = f'image.crop_and_resize({arguments}, crop_size=[2, 2], layout="{layout}")'
    (result,) = compute(tmp_path, call, image, constants(boxes, np.zeros(2, np.int32)))
    assert result.reshape(2, 4).tolist() == [[0, 3, 12, 15], [0, 1.5, 12, 13.5]]


def test_deformable_convolution_without_deformation_is_a_convolution(tmp_path: Path) -> None:
    data = RNG.standard_normal((1, 2, 5, 5)).astype(np.float32)
    weight = RNG.standard_normal((3, 2, 3, 3)).astype(np.float32)
    offset = np.zeros((1, 18, 3, 3), np.float32)
    call = (
        "(nn.deformable_conv2d(%x, meta[relay.Constant][0], meta[relay.Constant][1], channels=3, kernel_size=[3, 3]),"
        " nn.conv2d(%x, meta[relay.Constant][1], channels=3, kernel_size=[3, 3]))"
    )
    moved, plain = compute(tmp_path, call, data, constants(offset, weight))
    np.testing.assert_allclose(moved, plain, rtol=1e-5, atol=1e-5)
    # A window that is moved one row down everywhere is that of the row below.
    offset[:, ::2] = 1
    moved, plain = compute(tmp_path, call, data, constants(offset, weight))
    np.testing.assert_allclose(moved[:, :, :2], plain[:, :, 1:], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("NCHW", "NCHW4c", GRID.reshape(1, 2, 4, 2, 3).transpose(0, 1, 3, 4, 2)),
        ("NCHW", "NHWC", GRID.transpose(0, 2, 3, 1)),
        ("NCHW", "NHWC2c", GRID.reshape(1, 4, 2, 2, 3).transpose(0, 3, 4, 1, 2)),
        ("NCHW", "HNW8cC", GRID.reshape(1, 1, 8, 2, 3).transpose(3, 0, 4, 2, 1)),
    ],
)
def test_layout_with_split_axes_goes_and_comes_back(
    tmp_path: Path, source: str, target: str, expected: np.ndarray
) -> None:
    forward = f'layout_transform(%x, src_layout="{source}", dst_layout="{target}")'
    back = f'layout_transform(%0, src_layout="{target}", dst_layout="{source}")'
    results = compute(tmp_path, f"%0 = {forward}; (%0, {back})", GRID)
    np.testing.assert_array_equal(results[0], expected)
    np.testing.assert_array_equal(results[1], GRID)


def test_layout_that_does_not_divide_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="axis C of 8 elements does not split by"):
        compute(tmp_path, 'layout_transform(%x, src_layout="NCHW", dst_layout="NCHW3c")', GRID)


def test_packed_dense(tmp_path: Path) -> None:
    weight = RNG.integers(-9, 9, (8, 5)).astype(np.float32)
    packed = weight.reshape(2, 4, 5).transpose(0, 2, 1)
    data = RNG.integers(-9, 9, (3, 5)).astype(np.float32)
    (result,) = compute(
        tmp_path, "nn.contrib_dense_pack(%x, meta[relay.Constant][0], units=8)", data, constants(packed)
    )
    np.testing.assert_array_equal(result, data @ weight.T)
    call = "qnn.contrib_dense_pack(%x, meta[relay.Constant][0], 3, 0, 1f, 1f, units=8)"
    (result,) = compute(tmp_path, call, data.astype(np.int8), constants(packed.astype(np.int8)))
    np.testing.assert_array_equal(result, ((data - 3) @ weight.T).astype(np.int32))


def test_fixed_point_multiply_per_axis(tmp_path: Path) -> None:
    data = RNG.integers(-(1 << 20), 1 << 20, (2, 3, 4)).astype(np.int32)
    multiplier = np.array([1 << 30, 1518500250, 2147483647], np.int32)
    left, right = np.array([0, 1, 3], np.int32), np.array([2, 0, 0], np.int32)
    call = (
        "fixed_point_multiply_per_axis(%x, meta[relay.Constant][0], meta[relay.Constant][1], meta[relay.Constant][2],"
        " is_lshift_required=True, is_rshift_required=True, axes=[1])"
    )
    (result,) = compute(tmp_path, call, data, constants(multiplier, left, right))
    expected = multiply_upward(data, multiplier[:, None], (left - right)[:, None])
    np.testing.assert_array_equal(result, expected.astype(np.int32))


@pytest.mark.parametrize(("code", "low", "high"), [(1, -128, 127), (2, 0, 255)])
def test_simulated_quantization(tmp_path: Path, code: int, low: int, high: int) -> None:
    data = np.array([[-100, -0.25, 0.25, 0.75, 100], [0, 1, 2, 3, 4]], np.float32)
    call = f"%0 = qnn.simulated_quantize(%x, {code}, 0.5f, 3); (%0, qnn.simulated_dequantize(%0, {code}, 0.5f, 3))"
    codes, reals = compute(tmp_path, call, data)
    scaled = data / np.float32(0.5)
    expected = np.clip(np.trunc(scaled + np.copysign(np.float32(0.5), scaled)) + 3, low, high)
    np.testing.assert_array_equal(codes, expected)
    np.testing.assert_array_equal(reals, (expected - 3) * np.float32(0.5))


def test_adaptive_max_pool_of_uneven_windows(tmp_path: Path) -> None:
    data = RNG.standard_normal((1, 2, 5, 7)).astype(np.float32)
    (result,) = compute(tmp_path, "nn.adaptive_max_pool2d(%x, output_size=[2, 3])", data)
    for row in range(2):
        for column in range(3):
            window = data[:, :, row * 5 // 2 : -(-(row + 1) * 5 // 2), column * 7 // 3 : -(-(column + 1) * 7 // 3)]
            np.testing.assert_array_equal(result[:, :, row, column], window.max((2, 3)))


def transposed(data: np.ndarray, weight: np.ndarray, stride: int) -> np.ndarray:
    """Transposed convolution of NHWC data with a weight (I, O, KH, KW), no padding."""
    batch, rows, columns, _ = data.shape
    _, outputs, height, width = weight.shape
    result = np.zeros((batch, (rows - 1) * stride + height, (columns - 1) * stride + width, outputs))
    for row in range(rows):
        for column in range(columns):
            patch = np.einsum("ni,iohw->nhwo", data[:, row, column], weight)
            result[:, row * stride : row * stride + height, column * stride : column * stride + width] += patch
    return result


@pytest.mark.parametrize("kernel_layout", ["IOHW", "HWIO", "HWOI"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_transposed_convolutions(tmp_path: Path, layout: str, kernel_layout: str) -> None:
    data = RNG.integers(-128, 128, (1, 3, 4, 2)).astype(np.int8)
    weight = RNG.integers(-128, 128, (2, 3, 3, 2)).astype(np.int8)
    expected = transposed(data.astype(np.int64) + 5, weight.astype(np.int64) - 1, 2)
    plain = transposed(data.astype(np.int64), weight.astype(np.int64), 2)
    kernel = weight.transpose(["IOHW".index(letter) for letter in kernel_layout])
    if layout == "NCHW":
        data, expected, plain = (array.transpose(0, 3, 1, 2) for array in (data, expected, plain))
    attrs = f'strides=[2, 2], data_layout="{layout}", kernel_layout="{kernel_layout}"'
    call = f'qnn.conv2d_transpose(%x, meta[relay.Constant][0], -5, 1, 1f, 1f, {attrs}, out_dtype="int32")'
    data = np.ascontiguousarray(data)
    (result,) = compute(tmp_path, call, data, constants(kernel))
    np.testing.assert_array_equal(result, expected)
    call = f"nn.conv2d_transpose(%x, meta[relay.Constant][0], {attrs})"
    (result,) = compute(tmp_path, call, data.astype(np.float32), constants(kernel.astype(np.float32)))
    np.testing.assert_array_equal(result, plain)


def test_dynamic_operator_whose_shape_is_computed_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        ModelError, match="argument 2 is computed by the model, so the shape of the result is not known"
    ):
        compute(tmp_path, 'dyn.reshape(%x, cast(max(%x, axis=[1, 2]), dtype="int32"))')


TABLE = re.compile(r"^\| `([\w.]+)` \|", re.MULTILINE)
REFUSED = {"vision.non_max_suppression"}


def test_every_operator_of_the_reference_table_is_translated_but_those_refused() -> None:
    names = set(TABLE.findall(shared(SHARED / "spec" / "ops.md").read_text()))
    assert names - set(OPERATORS) == REFUSED
    text = (ROOT / "docs" / "relay.md").read_text()
    assert f"{len(names) - len(REFUSED)} of the {len(names)}" in text


def test_refused_operator_says_so(tmp_path: Path) -> None:
    with pytest.raises(
        UnsupportedOperatorError, match=r"(?s)vision\.non_max_suppression is not supported.*on the outputs"
    ):
        compute(tmp_path, "vision.non_max_suppression(%x)")
