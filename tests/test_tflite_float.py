"""TFLite models with floats: float16 weights, int8 weights, shapes computed in the model; and what only LiteRT runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support import MLPERF_TINY, build_and_run, shared
from tflite import ActivationFunctionType as Activation
from tflite import BuiltinOperator as Op
from tflite_builder import ModelBuilder, options
from tflite_cases import LITERT_ONLY, Battery

from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.target import Target


def litert(path: Path, inputs: list[list[np.ndarray]]) -> list[list[np.ndarray]]:
    """The outputs of LiteRT's reference kernels."""
    module = pytest.importorskip("ai_edge_litert.interpreter")
    resolver = module.OpResolverType.BUILTIN_REF
    interpreter = module.Interpreter(str(path), experimental_op_resolver_type=resolver)
    interpreter.allocate_tensors()
    results = []
    for sample in inputs:
        for details, data in zip(interpreter.get_input_details(), sample, strict=True):
            interpreter.set_tensor(details["index"], data)
        interpreter.invoke()
        results.append([interpreter.get_tensor(details["index"]) for details in interpreter.get_output_details()])
    return results


def compiled_results(path: Path, inputs: list[list[np.ndarray]], folder: Path) -> list[bytes]:
    library = compile_model(path, CompileOptions(Target.for_cpu("host")))
    samples = [b"".join(data.tobytes() for data in sample) for sample in inputs]
    return build_and_run(library, "host", samples, folder)[0]


def test_operators_without_a_tflite_micro_kernel_equal_litert(tmp_path):
    made = Battery(random=np.random.default_rng(5))
    for name, case in LITERT_ONLY.items():
        made.label = name
        case(made)
    path = tmp_path / "model.tflite"
    path.write_bytes(made.finish(made.inputs, made.outputs))
    inputs = [[feed() for feed in made.feeds] for _ in range(2)]
    expected = [b"".join(part.tobytes() for part in parts) for parts in litert(path, inputs)]
    assert compiled_results(path, inputs, tmp_path / "build") == expected


def dense(weights: np.ndarray, scale: list[float], *, behind_dequantize: bool) -> bytes:
    """Float: y = x * weights, the weights as codes or float16."""
    b = ModelBuilder()
    x = b.tensor("x", (2, 6), scale=None, dtype="float32")
    w = b.constant("w", weights, scale=scale)
    if behind_dequantize:
        wide = b.tensor("w32", weights.shape, scale=None, dtype="float32")
        b.operator(Op.DEQUANTIZE, [w], [wide], options("Dequantize"))
        w = wide
    y = b.tensor("y", (2, 4), scale=None, dtype="float32")
    opts = options("FullyConnected", FusedActivationFunction=Activation.RELU)
    b.operator(Op.FULLY_CONNECTED, [x, w, -1], [y], opts)
    return b.finish([x], [y])


@pytest.mark.parametrize("kind", ["float16", "int8_behind_dequantize"])
def test_compressed_weights_of_a_float_layer(kind, tmp_path):
    generator = np.random.default_rng(3)
    if kind == "float16":
        weights, scales = generator.normal(size=(4, 6)).astype(np.float16), []
        reals = weights.astype(np.float32)
    else:
        weights, scales = generator.integers(-127, 128, (4, 6)).astype(np.int8), [0.01, 0.02, 0.03, 0.04]
        reals = weights * np.float32(scales)[:, None]
    path = tmp_path / "m.tflite"
    path.write_bytes(dense(weights, scales, behind_dequantize=True))
    x = generator.normal(size=(2, 6)).astype(np.float32)
    (result,) = compiled_results(path, [[x]], tmp_path / "build")
    np.testing.assert_allclose(
        np.frombuffer(result, np.float32).reshape(2, 4), np.maximum(x @ reals.T, 0), rtol=1e-5, atol=1e-6
    )


def hybrid_battery(generator: np.random.Generator, *, asymmetric: bool) -> Battery:
    """Float operators with int8 weights: convolutions, depthwise and dense; one scale or one a channel."""
    b = Battery(random=generator)
    for number, channels, per_channel in ((0, 4, True), (1, 3, False), (2, 4, True)):
        groups = 2 if number == 2 else 1
        x = b.input((2, 7, 6, 2 * groups), "float32", feed=lambda g=groups: normal(generator, (2, 7, 6, 2 * g)))
        weights = b.codes((channels, 3, 2, 2))
        scales = [b.scale(0.001, 0.02) for _ in range(channels if per_channel else 1)]
        w = b.fixed(np.maximum(weights, -127), "int8", scale=scales)
        bias = b.fixed(normal(generator, (channels,)), "float32")
        opts = options(
            "Conv2D", Padding=number % 2, StrideW=1, StrideH=2,
            FusedActivationFunction=(Activation.RELU6, Activation.NONE, Activation.RELU_N1_TO_1)[number],
        )  # fmt: skip
        size = ((7 - 3) // 2 + 1, 5) if number % 2 else (4, 6)
        b.operator(Op.CONV_2D, [x, w, bias], [b.output((2, *size, channels), "float32")], opts)
    x = b.input((1, 5, 6, 3), "float32", feed=lambda: normal(generator, (1, 5, 6, 3)))
    w = b.fixed(np.maximum(b.codes((1, 3, 3, 6)), -127), "int8", scale=[b.scale() for _ in range(6)], axis=3)
    bias = b.fixed(normal(generator, (6,)), "float32")
    opts = options("DepthwiseConv2D", Padding=0, StrideW=1, StrideH=1, DepthMultiplier=2)
    b.operator(Op.DEPTHWISE_CONV_2D, [x, w, bias], [b.output((1, 5, 6, 6), "float32")], opts)
    for scales in ([0.01], [0.01, 0.02, 0.03, 0.004]):
        x = b.input((3, 9), "float32", feed=lambda: normal(generator, (3, 9)))
        w = b.fixed(np.maximum(b.codes((4, 9)), -127), "int8", scale=scales)
        opts = options("FullyConnected", AsymmetricQuantizeInputs=asymmetric)
        b.operator(Op.FULLY_CONNECTED, [x, w, -1], [b.output((3, 4), "float32")], opts)
    return b


def normal(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Floats around 1; the first image or row is all zeros now and then."""
    data = generator.normal(1, 3, shape)
    if generator.integers(0, 4) == 0:
        data[0] = 0
    return data.astype(np.float32)


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize(("cpu", "board"), [("host", "host"), ("cortex-m4", "mps2-an386")])
def test_int8_weights_of_float_layers_equal_litert(cpu, board, asymmetric, tmp_path):
    made = hybrid_battery(np.random.default_rng(4), asymmetric=asymmetric)
    path = tmp_path / "model.tflite"
    path.write_bytes(made.finish(made.inputs, made.outputs))
    inputs = [[feed() for feed in made.feeds] for _ in range(8)]
    library = compile_model(path, CompileOptions(Target.for_cpu(cpu)))
    weights = sum(c.data.nbytes for c in library.constants.values() if c.data.dtype == np.int8)
    assert weights == sum(t.data.nbytes for t in made.tensors if t.data is not None and t.data.dtype == np.int8)
    packed = [b"".join(data.tobytes() for data in sample) for sample in inputs]
    results = build_and_run(library, board, packed, tmp_path / "build")[0]
    for result, parts in zip(results, litert(path, inputs), strict=True):
        wanted = np.concatenate([part.ravel() for part in parts])
        np.testing.assert_allclose(np.frombuffer(result, np.float32), wanted, rtol=1e-5, atol=1e-5)


def test_shapes_computed_in_the_model_fold(tmp_path):
    """SHAPE, STRIDED_SLICE, PACK and FILL leave one RESHAPE and one sum."""
    b = ModelBuilder()
    x = b.tensor("x", (1, 3, 4), scale=None, dtype="float32")
    names = {}
    for name, shape in (("shape", (3,)), ("rows", ()), ("target", (2,))):
        names[name] = b.tensor(name, shape, scale=None, dtype="int32")
    one, two = (b.constant(f"c{value}", np.array([value], np.int32)) for value in (1, 2))
    flat = b.constant("flat", np.array(-1, np.int32))
    half = b.constant("half", np.array(0.5, np.float32))
    b.operator(Op.SHAPE, [x], [names["shape"]], options("Shape"))
    b.operator(
        Op.STRIDED_SLICE, [names["shape"], one, two, one], [names["rows"]], options("StridedSlice", ShrinkAxisMask=1)
    )
    b.operator(Op.PACK, [names["rows"], flat], [names["target"]], options("Pack", ValuesCount=2))
    y = b.tensor("rows_of_x", (3, 4), scale=None, dtype="float32")
    b.operator(Op.RESHAPE, [x, names["target"]], [y], options("Reshape"))
    extents = b.tensor("extents", (1,), scale=None, dtype="int32")
    b.operator(Op.PACK, [names["rows"]], [extents], options("Pack", ValuesCount=1))
    filled = b.tensor("filled", (3,), scale=None, dtype="float32")
    b.operator(Op.FILL, [extents, half], [filled], options("Fill"))
    column = b.tensor("column", (3, 1), scale=None, dtype="float32")
    b.operator(Op.EXPAND_DIMS, [filled, one], [column], options("ExpandDims"))
    z = b.tensor("z", (3, 4), scale=None, dtype="float32")
    b.operator(Op.ADD, [y, column], [z], options("Add"))
    path = tmp_path / "m.tflite"
    path.write_bytes(b.finish([x], [z]))
    data = np.arange(12, dtype=np.float32).reshape(1, 3, 4)
    (result,) = compiled_results(path, [[data]], tmp_path / "build")
    assert np.array_equal(np.frombuffer(result, np.float32), data.ravel() + 0.5)
    library = compile_model(path, CompileOptions(Target.for_cpu("host")))
    assert [call.operator for call in library.calls] == ["add"]


def test_dynamic_range_model_equals_litert(tmp_path):
    path = shared(MLPERF_TINY / "kws_ref_model_float32.tflite")
    generator = np.random.default_rng(0)
    inputs = [[generator.normal(0, 30, (1, 49, 10, 1)).astype(np.float32)] for _ in range(20)]
    results = [np.frombuffer(result, np.float32) for result in compiled_results(path, inputs, tmp_path)]
    expected = [parts[0].ravel() for parts in litert(path, inputs)]
    np.testing.assert_allclose(results, expected, rtol=1e-5, atol=1e-6)
