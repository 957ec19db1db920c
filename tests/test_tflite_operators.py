"""Each int8 TFLite operator this project has a kernel for gives the bytes of tflite-micro."""

from __future__ import annotations

import numpy as np
import pytest
import tflite
from support import build_and_run, random_bytes
from tflite import ActivationFunctionType as Activation
from tflite import BuiltinOperator as Op
from tflite import Padding
from tflite_builder import ModelBuilder, options

from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.target import Target

ACTIVATIONS = (Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1)


def activation(builder, name, shape, generator, *, scale=None, zero_point=None):
    """An int8 activation tensor with random quantization."""
    scale = float(np.float32(generator.uniform(0.01, 0.2))) if scale is None else scale
    zero_point = int(generator.integers(-128, 128)) if zero_point is None else zero_point
    return builder.tensor(name, shape, scale=scale, zero_point=zero_point)


def weights(builder, name, shape, axis, generator):
    """Per-axis int8 weights and int32 biases."""
    channels = shape[axis]
    scales = [float(s) for s in generator.uniform(0.001, 0.02, channels).astype(np.float32)]
    data = np.maximum(random_bytes(generator, shape), -127)
    bias = generator.integers(-3000, 3000, channels).astype(np.int32)
    return (
        builder.constant(f"{name}/w", data, scale=scales, axis=axis),
        builder.constant(f"{name}/b", bias, scale=scales),
    )


def conv2d(generator):
    b = ModelBuilder()
    stride, padding = int(generator.integers(1, 3)), int(generator.integers(0, 2))
    kernel, channels = int(generator.integers(1, 4)), int(generator.integers(1, 9))
    size = -(-8 // stride) if padding == Padding.SAME else (8 - kernel) // stride + 1
    x = activation(b, "x", (1, 8, 8, 5), generator)
    w, bias = weights(b, "conv", (channels, kernel, kernel, 5), 0, generator)
    y = activation(b, "y", (1, size, size, channels), generator)
    fused = int(generator.choice(ACTIVATIONS))
    opts = options("Conv2D", Padding=padding, StrideW=stride, StrideH=stride, FusedActivationFunction=fused)
    b.operator(Op.CONV_2D, [x, w, bias], [y], opts)
    return b.finish([x], [y])


def depthwise(generator):
    b = ModelBuilder()
    multiplier = int(generator.integers(1, 3))
    x = activation(b, "x", (1, 7, 6, 4), generator)
    w, bias = weights(b, "dw", (1, 3, 3, 4 * multiplier), 3, generator)
    y = activation(b, "y", (1, 7, 6, 4 * multiplier), generator)
    opts = options(
        "DepthwiseConv2D",
        Padding=Padding.SAME,
        StrideW=1,
        StrideH=1,
        DepthMultiplier=multiplier,
        FusedActivationFunction=int(generator.choice(ACTIVATIONS)),
    )
    b.operator(Op.DEPTHWISE_CONV_2D, [x, w, bias], [y], opts)
    return b.finish([x], [y])


def dense(generator):
    b = ModelBuilder()
    units = int(generator.integers(1, 12))
    x = activation(b, "x", (2, 33), generator)
    x_scale = b.tensors[x].scale[0]
    w_scale = float(np.float32(generator.uniform(0.001, 0.02)))
    w = b.constant("w", random_bytes(generator, (units, 33)), [w_scale])
    bias_data = generator.integers(-3000, 3000, units).astype(np.int32)
    bias = b.constant("b", bias_data, [float(np.float32(x_scale) * np.float32(w_scale))])
    y = activation(b, "y", (2, units), generator)
    fused = int(generator.choice(ACTIVATIONS))
    b.operator(Op.FULLY_CONNECTED, [x, w, bias], [y], options("FullyConnected", FusedActivationFunction=fused))
    return b.finish([x], [y])


def binary(code, table):
    def make(generator):
        b = ModelBuilder()
        shape = (1, 4, 5, 3)
        x = activation(b, "x", shape, generator)
        other = generator.integers(0, 3)
        if other == 0:
            z = activation(b, "z", shape, generator)
        elif other == 1:
            z = b.constant("z", random_bytes(generator, (1, 1, 1, 3)), [0.05], zero_point=3)
        else:
            z = activation(b, "z", (1, 4, 1, 3), generator)
        y = activation(b, "y", shape, generator)
        fused = int(generator.choice(ACTIVATIONS))
        b.operator(code, [x, z], [y], options(table, FusedActivationFunction=fused))
        return b.finish([x] if other == 1 else [x, z], [y])

    return make


def pool(code):
    def make(generator):
        b = ModelBuilder()
        size, stride = int(generator.integers(2, 4)), int(generator.integers(1, 3))
        padding = int(generator.integers(0, 2))
        out = -(-9 // stride) if padding == Padding.SAME else (9 - size) // stride + 1
        x = activation(b, "x", (1, 9, 9, 3), generator, scale=0.1, zero_point=-3)
        y = activation(b, "y", (1, out, out, 3), generator, scale=0.1, zero_point=-3)
        opts = options(
            "Pool2D",
            Padding=padding,
            StrideW=stride,
            StrideH=stride,
            FilterWidth=size,
            FilterHeight=size,
            FusedActivationFunction=int(generator.choice(ACTIVATIONS)),
        )
        b.operator(code, [x], [y], opts)
        return b.finish([x], [y])

    return make


def pad(generator):
    b = ModelBuilder()
    x = activation(b, "x", (1, 4, 5, 3), generator, scale=0.1, zero_point=-7)
    width = b.constant("width", np.array([[0, 0], [1, 2], [0, 3], [0, 0]], np.int32))
    y = activation(b, "y", (1, 7, 8, 3), generator, scale=0.1, zero_point=-7)
    b.operator(Op.PAD, [x, width], [y], options("Pad"))
    return b.finish([x], [y])


def padded_convolution(generator):
    b = ModelBuilder()
    x = activation(b, "x", (1, 6, 6, 4), generator, scale=0.1, zero_point=9)
    width = b.constant("width", np.array([[0, 0], [1, 1], [2, 0], [0, 0]], np.int32))
    padded = activation(b, "padded", (1, 8, 8, 4), generator, scale=0.1, zero_point=9)
    w, bias = weights(b, "conv", (6, 3, 3, 4), 0, generator)
    y = activation(b, "y", (1, 6, 6, 6), generator)
    b.operator(Op.PAD, [x, width], [padded], options("Pad"))
    opts = options("Conv2D", Padding=Padding.VALID, StrideW=1, StrideH=1)
    b.operator(Op.CONV_2D, [padded, w, bias], [y], opts)
    return b.finish([x], [y])


def transpose(generator):
    b = ModelBuilder()
    x = activation(b, "x", (1, 4, 6, 3), generator, scale=0.1, zero_point=2)
    axes = b.constant("axes", np.array([0, 3, 1, 2], np.int32))
    y = activation(b, "y", (1, 3, 4, 6), generator, scale=0.1, zero_point=2)
    b.operator(Op.TRANSPOSE, [x, axes], [y], options("Transpose"))
    return b.finish([x], [y])


def reshape(generator):
    b = ModelBuilder()
    x = activation(b, "x", (1, 4, 6), generator, scale=0.1, zero_point=2)
    shape = b.constant("shape", np.array([1, 24], np.int32))
    y = activation(b, "y", (1, 24), generator, scale=0.1, zero_point=2)
    b.operator(Op.RESHAPE, [x, shape], [y], options("Reshape"))
    return b.finish([x], [y])


def softmax(generator):
    b = ModelBuilder()
    x = activation(b, "x", (3, 11), generator, scale=float(np.float32(generator.uniform(0.005, 0.5))))
    y = activation(b, "y", (3, 11), generator, scale=1.0 / 256, zero_point=-128)
    b.operator(Op.SOFTMAX, [x], [y], options("Softmax", Beta=1.0))
    return b.finish([x], [y])


def concatenation(generator):
    b = ModelBuilder()
    parts = [activation(b, f"x{i}", (1, 3, 4, i + 1), generator, scale=0.1, zero_point=4) for i in range(3)]
    y = activation(b, "y", (1, 3, 4, 6), generator, scale=0.1, zero_point=4)
    b.operator(Op.CONCATENATION, parts, [y], options("Concatenation", Axis=3))
    return b.finish(parts, [y])


def unary(code):
    def make(generator):
        b = ModelBuilder()
        same = code == Op.RELU6
        x = activation(b, "x", (1, 4, 4, 8), generator, **({"scale": 0.05, "zero_point": -9} if same else {}))
        y = activation(b, "y", (1, 4, 4, 8), generator, **({"scale": 0.05, "zero_point": -9} if same else {}))
        b.operator(code, [x], [y])
        return b.finish([x], [y])

    return make


def mean(generator):
    b = ModelBuilder()
    x = activation(b, "x", (1, 5, 7, 6), generator)
    axes = b.constant("axes", np.array([1, 2], np.int32))
    y = activation(b, "y", (1, 6), generator)
    b.operator(Op.MEAN, [x, axes], [y], options("Reducer", KeepDims=False))
    return b.finish([x], [y])


OPERATORS = {
    "conv2d": conv2d,
    "depthwise": depthwise,
    "dense": dense,
    "add": binary(Op.ADD, "Add"),
    "sub": binary(Op.SUB, "Sub"),
    "mul": binary(Op.MUL, "Mul"),
    "average_pool": pool(Op.AVERAGE_POOL_2D),
    "max_pool": pool(Op.MAX_POOL_2D),
    "pad": pad,
    "padded_convolution": padded_convolution,
    "reshape": reshape,
    "transpose": transpose,
    "softmax": softmax,
    "concatenation": concatenation,
    "relu": unary(Op.RELU),
    "relu6": unary(Op.RELU6),
    "requantize": unary(Op.QUANTIZE),
    "mean": mean,
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operator_equals_tflite_micro(name, tmp_path):
    runtime = pytest.importorskip("tflite_micro").runtime
    generator = np.random.default_rng(sum(name.encode()))
    for number in range(4):
        path = tmp_path / f"model{number}.tflite"
        path.write_bytes(OPERATORS[name](generator))
        library = compile_model(path, CompileOptions(Target.for_cpu("host")))
        assert not library.float_operators, library.float_operators
        samples = [b"".join(random_bytes(generator, i.shape).tobytes() for i in library.inputs) for _ in range(4)]
        interpreter = runtime.Interpreter.from_file(str(path), arena_size=1 << 18)
        expected = []
        for sample in samples:
            offset = 0
            for index, info in enumerate(library.inputs):
                size = int(np.prod(info.shape))
                data = np.frombuffer(sample, np.int8, size, offset).reshape(info.shape)
                interpreter.set_input(data, index)
                offset += size
            interpreter.invoke()
            expected.append(interpreter.get_output(0).tobytes())
        results, _ = build_and_run(library, "host", samples, tmp_path / str(number))
        assert results == expected, f"case {number}"


def test_builder_makes_what_the_schema_reads():
    model = tflite.Model.GetRootAsModel(reshape(np.random.default_rng(0)), 0)
    assert model.Subgraphs(0).OperatorsLength() == 1
