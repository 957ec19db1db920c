"""C code of convolutions, pools, reductions and data movement computes what numpy or TVM computes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tir_support import Batch, Case
from tvm import relax, tirx

_RNG = np.random.default_rng(11)
op = relax.op
nn = relax.op.nn


def _f(*shape: int) -> np.ndarray:
    return _RNG.standard_normal(shape).astype("float32")


def _i(low: int, high: int, *shape: int, dtype: str = "int32") -> np.ndarray:
    return _RNG.integers(low, high, shape).astype(dtype)


_BIAS = _f(8)
_ZERO, _ONE = (relax.prim_value(tirx.FloatImm("float32", value)) for value in (0.0, 1.0))
_NHWC = {"data_layout": "NHWC", "kernel_layout": "HWIO"}


_MEAN, _VARIANCE = _f(4), np.abs(_f(4)) + 1


def _batch_norm(x: relax.Expr) -> relax.Expr:
    parameters = [relax.const(array) for array in (_BIAS[:4], _BIAS[4:], _MEAN, _VARIANCE)]
    return relax.TupleGetItem(nn.batch_norm(x, *parameters, axis=1), 0)


def _batch_norm_reference(x: np.ndarray) -> np.ndarray:
    scale, shift, mean, variance = (array[:, None, None] for array in (_BIAS[:4], _BIAS[4:], _MEAN, _VARIANCE))
    return ((x - mean) / np.sqrt(variance + 1e-5) * scale + shift).astype("float32")


CONVOLUTIONS = [
    Case("conv_nchw", [_f(1, 4, 9, 8), _f(6, 4, 3, 3)], lambda x, w: nn.conv2d(x, w, padding=1)),
    Case("conv_nchw_valid", [_f(1, 3, 9, 10), _f(5, 3, 3, 3)], nn.conv2d),
    Case("conv_nchw_stride", [_f(2, 3, 9, 10), _f(8, 3, 3, 3)], lambda x, w: nn.conv2d(x, w, strides=2, padding=1)),
    Case("conv_nhwc", [_f(1, 9, 8, 4), _f(3, 3, 4, 8)], lambda x, w: nn.conv2d(x, w, padding=1, **_NHWC)),
    Case(
        "conv_nhwc_odd",
        [_f(1, 9, 8, 3), _f(3, 3, 3, 7)],
        lambda x, w: nn.conv2d(x, w, padding=(0, 0, 1, 1), strides=2, **_NHWC),
    ),
    Case("conv_pointwise", [_f(1, 5, 5, 8), _f(1, 1, 8, 6)], lambda x, w: nn.conv2d(x, w, **_NHWC)),
    Case(
        "conv_bias_relu",
        [_f(1, 9, 8, 4), _f(3, 3, 4, 8)],
        lambda x, w: nn.relu(op.add(nn.conv2d(x, w, padding=1, **_NHWC), relax.const(_BIAS))),
    ),
    Case(
        "conv_residual",
        [_f(1, 8, 8, 4), _f(3, 3, 4, 4), _f(1, 8, 8, 4)],
        lambda x, w, y: nn.relu(op.add(nn.conv2d(x, w, padding=1, **_NHWC), y)),
    ),
    Case("conv_dilated", [_f(1, 4, 12, 12), _f(6, 4, 3, 3)], lambda x, w: nn.conv2d(x, w, padding=2, dilation=2)),
    Case("conv_grouped", [_f(1, 8, 6, 6), _f(12, 4, 3, 3)], lambda x, w: nn.conv2d(x, w, padding=1, groups=2)),
    Case("conv_depthwise_nchw", [_f(1, 8, 6, 6), _f(8, 1, 3, 3)], lambda x, w: nn.conv2d(x, w, padding=1, groups=8)),
    Case(
        "conv_depthwise_nhwc",
        [_f(1, 6, 6, 8), _f(3, 3, 8, 1)],
        lambda x, w: nn.conv2d(x, w, padding=1, groups=8, data_layout="NHWC", kernel_layout="HWOI"),
    ),
    Case(
        "conv_depth_multiplier",
        [_f(1, 6, 6, 4), _f(3, 3, 8, 1)],
        lambda x, w: nn.conv2d(x, w, padding=1, groups=4, data_layout="NHWC", kernel_layout="HWOI"),
    ),
    Case("conv_1d", [_f(1, 3, 20), _f(4, 3, 5)], lambda x, w: nn.conv1d(x, w, padding=2)),
    Case(
        "conv_transposed",
        [_f(1, 3, 5, 5), _f(3, 4, 3, 3)],
        lambda x, w: nn.conv2d_transpose(x, w, strides=(2, 2), padding=1),
    ),
    Case(
        "conv_int8",
        [_i(-128, 127, 1, 6, 6, 4, dtype="int8"), _i(-128, 127, 3, 3, 4, 8, dtype="int8")],
        lambda x, w: nn.conv2d(x, w, padding=1, out_dtype="int32", **_NHWC),
    ),
]
POOLS = [
    Case("max_pool", [_f(1, 3, 9, 9)], lambda x: nn.max_pool2d(x, (3, 3), (2, 2), (1, 1))),
    Case("max_pool_nhwc", [_f(1, 9, 9, 4)], lambda x: nn.max_pool2d(x, (2, 2), (2, 2), layout="NHWC")),
    Case("max_pool_nhwc_padded", [_f(1, 9, 9, 4)], lambda x: nn.max_pool2d(x, (3, 3), (2, 2), (1, 1), layout="NHWC")),
    Case(
        "max_pool_int8",
        [_i(-128, 127, 1, 9, 9, 4, dtype="int8")],
        lambda x: nn.max_pool2d(x, (3, 3), (2, 2), (1, 1), layout="NHWC"),
    ),
    Case("max_pool_ceil", [_f(1, 3, 8, 8)], lambda x: nn.max_pool2d(x, (3, 3), (2, 2), ceil_mode=True)),
    Case(
        "average_pool_all", [_f(1, 3, 9, 9)], lambda x: nn.avg_pool2d(x, (3, 3), (2, 2), (1, 1), count_include_pad=True)
    ),
    Case(
        "average_pool_inside",
        [_f(1, 3, 9, 9)],
        lambda x: nn.avg_pool2d(x, (3, 3), (2, 2), (1, 1), count_include_pad=False),
    ),
    Case("average_pool_nhwc", [_f(1, 8, 8, 8)], lambda x: nn.avg_pool2d(x, (8, 8), (8, 8), layout="NHWC")),
    Case("adaptive_pool", [_f(1, 4, 7, 7)], lambda x: nn.adaptive_avg_pool2d(x, (3, 3))),
]
DENSE = [
    Case("dense", [_f(1, 20), _f(20, 12), _f(12)], lambda x, w, b: nn.relu(op.add(op.matmul(x, w), b))),
    Case("dense_ten", [_f(1, 20), _f(20, 10)], op.matmul),
    Case("dense_prime", [_f(1, 20), _f(20, 7)], op.matmul),
    Case("dense_one", [_f(1, 20), _f(20, 1)], op.matmul),
    Case("matmul_transposed", [_f(5, 20), _f(8, 20)], lambda x, w: op.matmul(x, op.permute_dims(w))),
    Case("matmul_batched", [_f(3, 4, 6), _f(3, 6, 5)], op.matmul),
    Case("matmul_broadcast", [_f(2, 3, 4, 6), _f(6, 5)], op.matmul),
    Case("attention", [_f(1, 6, 2, 8), _f(1, 6, 2, 8), _f(1, 6, 2, 8)], nn.attention),
]
REDUCTIONS = [
    Case("softmax", [_f(3, 10)], nn.softmax),
    Case("softmax_axis", [_f(2, 5, 3)], lambda x: nn.softmax(x, 1)),
    Case("log_softmax", [_f(3, 10)], nn.log_softmax),
    Case("layer_norm", [_f(2, 3, 8), _f(8), _f(8)], lambda x, g, b: nn.layer_norm(x, g, b, axes=[-1])),
    Case("group_norm", [_f(1, 8, 4, 4), _f(8), _f(8)], lambda x, g, b: nn.group_norm(x, g, b, 4, 1, [2, 3])),
    Case("rms_norm", [_f(2, 3, 8), _f(8)], lambda x, g: nn.rms_norm(x, g, [-1])),
    Case("batch_norm", [_f(1, 4, 5, 5)], _batch_norm, _batch_norm_reference),
    Case("sum", [_f(3, 4, 5)], lambda x: op.sum(x, [0, 2])),
    Case("mean_keep", [_f(3, 4, 5)], lambda x: op.mean(x, [1], keepdims=True)),
    Case("mean_spatial", [_f(1, 6, 6, 8)], lambda x: op.mean(x, [1, 2])),
    Case("maximum_of_all", [_f(3, 4, 5)], op.max),
    Case("minimum", [_f(3, 4, 5)], lambda x: op.min(x, 0)),
    Case("product", [_f(3, 4)], lambda x: op.prod(x, 1)),
    Case("variance", [_f(3, 10)], lambda x: op.variance(x, 1)),
    Case("argmax", [_f(4, 9)], lambda x: op.argmax(x, 1), lambda x: np.argmax(x, 1)),
    Case("argmax_first_of_equal", [_i(0, 3, 4, 9)], lambda x: op.argmax(x, 1), lambda x: np.argmax(x, 1)),
    Case("argmin", [_f(4, 9)], lambda x: op.argmin(x, 0), lambda x: np.argmin(x, 0)),
    Case("cumsum", [_f(3, 7)], lambda x: op.cumsum(x, 1), lambda x: np.cumsum(x, 1, dtype="float32")),
    Case(
        "cumsum_exclusive",
        [_i(0, 9, 3, 7)],
        lambda x: op.cumsum(x, 0, exclusive=True),
        lambda x: np.cumsum(x, 0, dtype="int32") - x,
    ),
    Case("cumsum_flat", [_i(0, 9, 3, 7)], op.cumsum, lambda x: np.cumsum(x, dtype="int32")),
]
MOVEMENT = [
    Case(
        "concat",
        [_f(2, 3), _f(2, 4), _f(2, 1)],
        lambda x, y, z: op.concat([x, y, z], 1),
        lambda *xs: np.concatenate(xs, 1),
    ),
    Case("concat_relu", [_f(2, 3), _f(2, 4)], lambda x, y: nn.relu(op.concat([op.exp(x), y], 1))),
    Case("stack", [_f(2, 3), _f(2, 3)], lambda x, y: op.stack([x, y], 1), lambda *xs: np.stack(xs, 1)),
    Case("split", [_f(2, 9)], lambda x: op.split(x, [2, 5], 1), lambda x: np.split(x, [2, 5], 1)),
    Case("several_outputs", [_f(2, 9)], lambda x: relax.Tuple([op.exp(x), op.sum(x, 1)])),
    Case("pad", [_f(2, 3, 4)], lambda x: nn.pad(x, [0, 0, 1, 2, 3, 0], pad_value=1.5)),
    Case("pad_reflect", [_f(2, 5)], lambda x: nn.pad(x, [0, 0, 2, 2], "reflect")),
    Case(
        "strided_slice",
        [_f(6, 8)],
        lambda x: op.strided_slice(x, [0, 1], [1, 7], [6, 0], [2, -2]),
        lambda x: x[1:6:2, 7:0:-2],
    ),
    Case("transpose", [_f(2, 3, 4)], lambda x: op.permute_dims(x, [2, 0, 1]), lambda x: x.transpose(2, 0, 1)),
    Case("take", [_f(5, 3), _i(0, 5, 4)], lambda x, i: op.take(x, i, 0), lambda x, i: x[i]),
    Case("take_int64", [_f(3, 5), _i(0, 5, 2, 2, dtype="int64")], lambda x, i: op.take(x, i, 1), lambda x, i: x[:, i]),
    Case("gather_elements", [_f(3, 5), _i(0, 3, 2, 5, dtype="int64")], lambda x, i: op.gather_elements(x, i, 0)),
    Case("gather_nd", [_f(3, 5), _i(0, 3, 4, 2, dtype="int64")], op.gather_nd),
    Case(
        "scatter_elements", [_f(6), _i(0, 6, 3, dtype="int64"), _f(3)], lambda x, i, u: op.scatter_elements(x, i, u, 0)
    ),
    Case("one_hot", [_i(0, 6, 5)], lambda x: op.one_hot(x, _ONE, _ZERO, 6)),
    Case("tile", [_f(2, 3)], lambda x: op.tile(x, (2, 2)), lambda x: np.tile(x, (2, 2))),
    Case("repeat", [_f(2, 3)], lambda x: op.repeat(x, 2, 1), lambda x: np.repeat(x, 2, 1)),
    Case("flip", [_f(2, 3)], lambda x: op.flip(x, 1), lambda x: x[:, ::-1]),
    Case(
        "broadcast",
        [_f(3, 1)],
        lambda x: op.broadcast_to(x, (2, 3, 4)),
        lambda x: np.array(np.broadcast_to(x, (2, 3, 4))),
    ),
    Case("triangle", [_f(5, 5)], lambda x: op.tril(x, 1), lambda x: np.tril(x, 1)),
    Case("resize_nearest", [_f(1, 2, 4, 4)], lambda x: op.image.resize2d(x, (8, 6), method="nearest_neighbor")),
    Case("resize_linear", [_f(1, 2, 4, 4)], lambda x: op.image.resize2d(x, (8, 7))),
    Case(
        "resize_linear_nhwc",
        [_f(1, 4, 4, 3)],
        lambda x: op.image.resize2d(x, (7, 8), layout="NHWC", coordinate_transformation_mode="align_corners"),
    ),
    Case("reshape_between", [_f(2, 6)], lambda x: op.exp(op.reshape(op.exp(op.multiply(x, x)), (3, 4))), rtol=1e-4),
    Case(
        "squeeze_expand",
        [_f(1, 2, 1, 3)],
        lambda x: op.expand_dims(op.squeeze(op.negative(x)), [0]),
        lambda x: -x.reshape(1, 2, 3),
    ),
]
CASES = [*CONVOLUTIONS, *POOLS, *DENSE, *REDUCTIONS, *MOVEMENT]


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Batch]:
    yield Batch(CASES, tmp_path_factory.mktemp("layers"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_c_code_computes_the_layer(batch: Batch, case: Case) -> None:
    for actual, expected in zip(batch.run(case.name), batch.expected(case.name), strict=True):
        assert actual.dtype == expected.dtype
        assert actual.shape == expected.shape
        if actual.dtype == np.float32:
            np.testing.assert_allclose(actual, expected, case.rtol, case.atol)
        else:
            np.testing.assert_array_equal(actual, expected)
