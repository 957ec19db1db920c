"""Relay models through the whole pipeline: C on the host and on an emulated Cortex-M4."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from support import ROOT, SHARED, build_and_run, shared
from tvm import relax

from tvm_stm32.boards import load_board
from tvm_stm32.compiler import CompileOptions, compile_loaded, compile_model
from tvm_stm32.frontends import relay
from tvm_stm32.graph.legalize_qnn import legalize_qnn
from tvm_stm32.project.samples import unpack

FIXTURES = SHARED / "fixtures" / "relay"
NAMES = (
    "ctl_adt_match",
    "ctl_let_if",
    "ctl_ref",
    "dyn_batch",
    "f32_dscnn_nhwc",
    "f32_lenet_params",
    "f32_lstm_unrolled",
    "f32_mlp",
    "f32_mobilenet_block",
    "f32_ops_elemwise",
    "f32_ops_nn",
    "f32_ops_shape",
    "lit_dtypes",
    "q_conv_per_channel",
    "q_dense_uint8_params",
    "q_ops_binary",
    "q_ops_unary",
    "tfl_ad_int8",
    "tfl_kws_int8",
    "tfl_kws_int8_spans",
    "tfl_vww_int8",
    "var_fused",
)
# Text keeps six digits of a scalar, so each format has its own oracle.
ORACLES = {"relay": "txt", "json": "out"}
SHAPES = {"dyn_batch": {"x": (3, 6)}}


@pytest.mark.parametrize("board", ["host", "mps2-an386"])
@pytest.mark.parametrize("suffix", ORACLES)
@pytest.mark.parametrize("name", NAMES)
def test_fixture_equals_its_oracle(name, suffix, board, tmp_path):
    path = shared(FIXTURES / f"{name}.{suffix}")
    params = FIXTURES / f"{name}.params"
    model = relay.load(path, params if params.exists() else None, SHAPES.get(name))
    library = compile_loaded(model, CompileOptions(load_board(board).target))
    with np.load(FIXTURES / f"{name}.npz") as arrays:
        sample = b"".join(np.ascontiguousarray(arrays[f"in:{info.name}"]).tobytes() for info in library.inputs)
        oracle = ORACLES[suffix] if "txt:0" in arrays else "out"
        expected = [arrays[f"{oracle}:{index}"] for index in range(len(library.outputs))]
    results, _ = build_and_run(library, board, [sample], tmp_path)
    for info, column, want in zip(library.outputs, unpack(library.outputs, results), expected, strict=True):
        got = column[0]
        assert got.shape == want.shape
        if want.dtype.kind == "f":
            # Doubles and halves are computed and handed out in float.
            assert info.dtype == "float32"
            np.testing.assert_allclose(got, want, 1e-5, 1e-6)
        else:
            np.testing.assert_array_equal(got, want, strict=True)
    if name.startswith("tfl_"):
        assert not library.float_operators


RARE = """#[version = "0.0.5"]
def @main(%x: Tensor[(1, 4, 4, 4), float32], %q: Tensor[(1, 2, 3, 8), int8], %b: Tensor[(2, 4), float32]) {
  %offset = tile(slice_like(%x, zeros(shape=[1, 2, 4, 4], dtype="float32")), reps=[1, 9, 1, 1]);
  let %kernel = reshape(broadcast_to(0.125f, shape=[3, 4, 3, 3]), newshape=[3, 4, 3, 3]);
  let %taps = cast(reshape(arange(-18f, 18f, 1f, dtype="float32"), newshape=[2, 2, 3, 3]), dtype="int8");
  let %bias = arange(7, 9, 1, dtype="int32");
  let %cell = ref(cast(%x, dtype="float16"));
  ref_write(%cell, multiply(ref_read(%cell), 0.3f16));
  let %indices = argmax(%x, axis=[1, 3], select_last_index=True);
  (
    image.crop_and_resize(%x, %b, cast(zeros(shape=[2], dtype="float32"), dtype="int32"), crop_size=[3, 2]),
    nn.deformable_conv2d(%x, %offset, %kernel, padding=[1, 1], kernel_size=[3, 3], channels=3),
    nn.adaptive_max_pool2d(%x, output_size=[3, 3]),
    layout_transform(%x, src_layout="NCHW", dst_layout="NCHW2c"),
    sequence_mask(transpose(%x, axes=[1, 0, 2, 3]), take(%indices, 0, axis=1), mask_value=-1f, axis=0),
    unravel_index(%indices, shape_of(%b)),
    take(%x, %indices, batch_dims=1, axis=1),
    reinterpret(%x, dtype="int32"),
    cast(ref_read(%cell), dtype="float32"),
    all(greater(%x, 0f), axis=[1, 2]),
    qnn.simulated_quantize(%x, 1, 0.02f, 3),
    qnn.requantize(cast(%q, dtype="int32") * 31, 0.0123f, 0, 9.1f, 7, compute_dtype="float64", out_dtype="int8"),
    qnn.requantize(%q, 0.5f, 3, 0.7f, -4, compute_dtype="float32", out_dtype="int8"),
    qnn.add(%q, %q, 0.5f, 3, 0.5f, 3, 0.9f, -4),
    qnn.mul(%q, %q, 0.5f, 3, 0.5f, 3, 30f, -4),
    qnn.concatenate((%q, %q), (0.5f, 0.7f), (3, -9), 0.5f, 3, axis=3),
    clip(
      qnn.requantize(
        nn.bias_add(qnn.conv2d(%q, %taps, 5, 0, 0.5f, 0.1f, padding=[1, 1], strides=[2, 1]), %bias),
        0.05f, 0, 0.9f, 5, axis=1, rounding="TONEAREST", out_dtype="int8"
      ),
      a_min=5f, a_max=90f
    )
  )
}
"""


def test_operators_few_models_use_are_the_same_in_c_and_in_tvm(tmp_path):
    path = tmp_path / "rare.relay"
    path.write_text(RARE)
    model = relay.load(path)
    rng = np.random.default_rng(5)
    corners = np.array([[0, 0, 1, 1], [0.1, 0.2, 0.7, 0.9]], np.float32)
    inputs = [
        rng.standard_normal((1, 4, 4, 4)).astype(np.float32),
        rng.integers(-128, 128, (1, 2, 3, 8)).astype(np.int8),
    ]
    machine = relax.VirtualMachine(tvm.compile(legalize_qnn(model.module), target="llvm"), tvm.cpu())
    wanted = machine["main"](*[tvm.runtime.tensor(array) for array in (*inputs, corners)])
    library = compile_loaded(model, CompileOptions(load_board("host").target))
    results, _ = build_and_run(library, "host", [b"".join(a.tobytes() for a in (*inputs, corners))], tmp_path)
    for column, want in zip(unpack(library.outputs, results), wanted, strict=True):
        np.testing.assert_allclose(column[0], want.numpy(), 1e-5, 1e-6)


@pytest.mark.parametrize("board", ["host", "stm32f405"])
def test_digits_demo_equals_its_reference_on_every_image(board, tmp_path):
    digits = ROOT / "examples" / "digits"
    library = compile_model(digits / "digits_int8.relay", CompileOptions(load_board(board).target))
    with np.load(digits / "digits_test.npz") as arrays:
        samples = [image.tobytes() for image in arrays["image"]]
        expected, labels = arrays["expected"], arrays["labels"]
    results, _ = build_and_run(library, board, samples, tmp_path)
    scores = np.frombuffer(b"".join(results), np.int8).reshape(expected.shape)
    np.testing.assert_array_equal(scores, expected)
    assert (scores.argmax(axis=1) == labels).mean() >= 0.97
