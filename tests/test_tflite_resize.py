"""--input-shape of TFLite models: shapes of all tensors follow those of the inputs, as LiteRT's resizing does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support import build_and_run
from tflite import ActivationFunctionType as Activation
from tflite_builder import options
from tflite_cases import Battery, Op, Padding, _weights

from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.errors import ModelError
from tvm_stm32.target import Target

CHANNELS = 3


def network(dtype: str) -> bytes:
    """Declared for one pixel: convolution, pool, add, slice, reshape, dense; and a mean."""
    b = Battery(random=np.random.default_rng(1))
    quantized = {"scale": 0.1, "zero_point": 0}
    x = b.input((1, 1, 1, 2), dtype, **quantized)
    b.tensors[x].signature = (-1, -1, -1, 2)

    def made(rank: int, last: int) -> int:
        index = b.add((*[1] * (rank - 1), last), dtype, **quantized)
        b.tensors[index].signature = (*[-1] * (rank - 1), last)
        return index

    def weights(shape: tuple[int, ...]) -> list[int]:
        if dtype == "int8":
            return _weights(b, shape, 0, shape[0], x)
        return [b.fixed(b.random.normal(size=s).astype(np.float32), "float32") for s in (shape, shape[:1])]

    relu = {"FusedActivationFunction": Activation.RELU}
    convolved, pooled, doubled, sliced, rows = (made(4, CHANNELS) for _ in range(5))
    rows = made(2, CHANNELS)
    b.operator(
        Op.CONV_2D, [x, *weights((CHANNELS, 3, 3, 2))], [convolved],
        options("Conv2D", Padding=Padding.SAME, StrideW=1, StrideH=2, **relu),
    )  # fmt: skip
    window = {"FilterWidth": 2, "FilterHeight": 2, "StrideW": 2, "StrideH": 1}
    b.operator(Op.MAX_POOL_2D, [convolved], [pooled], options("Pool2D", Padding=Padding.VALID, **window))
    b.operator(Op.ADD, [pooled, pooled], [doubled], options("Add"))
    begin, end, steps = b.fixed([0, 1, 0, 0]), b.fixed([0, 0, 0, 0]), b.fixed([1, 1, 1, 1])
    b.operator(
        Op.STRIDED_SLICE, [doubled, begin, end, steps], [sliced], options("StridedSlice", BeginMask=13, EndMask=15)
    )
    b.operator(Op.RESHAPE, [sliced, b.fixed([-1, CHANNELS])], [rows], options("Reshape"))
    dense, mean = made(2, 4), made(2, CHANNELS)
    b.operator(Op.FULLY_CONNECTED, [rows, *weights((4, CHANNELS))], [dense], options("FullyConnected"))
    b.operator(Op.MEAN, [sliced, b.fixed([1, 2])], [mean], options("Reducer"))
    return b.finish(b.inputs, [dense, mean])


def resized(path: Path, data: np.ndarray) -> list[np.ndarray]:
    module = pytest.importorskip("ai_edge_litert.interpreter")
    resolver = module.OpResolverType.BUILTIN_REF
    interpreter = module.Interpreter(str(path), experimental_op_resolver_type=resolver)
    interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], data.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], data)
    interpreter.invoke()
    return [interpreter.get_tensor(details["index"]) for details in interpreter.get_output_details()]


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("shape", [(1, 9, 8, 2), (2, 7, 5, 2)])
def test_shapes_follow_the_inputs(dtype, shape, tmp_path):
    path = tmp_path / "m.tflite"
    path.write_bytes(network(dtype))
    generator = np.random.default_rng(3)
    data = generator.integers(-128, 128, shape).astype(np.int8) if dtype == "int8" else None
    data = generator.normal(size=shape).astype(np.float32) if data is None else data
    name = CompileOptions(Target.for_cpu("host"), input_shapes={"_0": shape})
    library = compile_model(path, name)
    expected = resized(path, data)
    assert [info.shape for info in library.outputs] == [part.shape for part in expected]
    (result,), _ = build_and_run(library, "host", [data.tobytes()], tmp_path / "build")
    wanted = np.concatenate([part.ravel() for part in expected])
    got = np.frombuffer(result, dtype)
    if dtype == "int8":
        # LiteRT's dense kernel requantizes in floats, one step apart now and then.
        assert np.abs(got.astype(int) - wanted).max() <= 1
    else:
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_what_the_file_fixes_stays(tmp_path):
    path = tmp_path / "m.tflite"
    path.write_bytes(network("int8"))
    cases = {"_0": (1, 9, 8, 3), "other": (1, 2)}
    for name, shape in cases.items():
        with pytest.raises(ModelError, match="--input-shape"):
            compile_model(path, CompileOptions(Target.for_cpu("host"), input_shapes={name: shape}))
    with pytest.raises(ModelError, match="dynamic shape") as caught:
        compile_model(path, CompileOptions(Target.for_cpu("host")))
    assert "--input-shape" in caught.value.hint
    # A window that does not fit once.
    with pytest.raises(ModelError):
        compile_model(path, CompileOptions(Target.for_cpu("host"), input_shapes={"_0": (1, 1, 1, 2)}))
