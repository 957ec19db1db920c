"""Random instances of quantized TFLite operators: each adds one operator, with its own inputs, to a battery."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tflite import ActivationFunctionType as Activation
from tflite import BuiltinOperator as Op
from tflite import Padding
from tflite_builder import ModelBuilder, options

ACTIVATIONS = (Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1)
LIMITS = {"int8": (-128, 128), "int16": (-32768, 32768), "uint8": (0, 256)}


@dataclass
class Battery(ModelBuilder):
    """Operators side by side in one model; ``labels`` says whose each output is."""

    random: np.random.Generator = field(default_factory=np.random.default_rng)
    label: str = ""
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    feeds: list[Callable[[], np.ndarray]] = field(default_factory=list)

    def scale(self, low: float = 0.01, high: float = 0.2) -> float:
        """A random float32 scale."""
        return float(np.float32(self.random.uniform(low, high)))

    def codes(self, shape: Sequence[int], dtype: str = "int8") -> np.ndarray:
        """Codes of the whole range."""
        return self.random.integers(*LIMITS[dtype], tuple(shape)).astype(dtype)

    def zero(self, dtype: str = "int8") -> int:
        """A random zero point; int16 has none."""
        return int(self.random.integers(-128, 128)) if dtype == "int8" else 0

    def add(
        self, shape: Sequence[int], dtype: str = "int8", scale: float | None = None, zero_point: int | None = None
    ) -> int:
        """A tensor with random quantization where none is given."""
        number = len(self.tensors)
        quantized = dtype in LIMITS
        scale = (self.scale() if scale is None else scale) if quantized else None
        zero = (self.zero(dtype) if zero_point is None else zero_point) if quantized else 0
        return self.tensor(f"{self.label}_{number}", shape, scale=scale, zero_point=zero, dtype=dtype)

    def input(self, shape: Sequence[int], dtype: str = "int8", feed: Any = None, **quantization: Any) -> int:
        """An input of the model."""
        index = self.add(shape, dtype, **quantization)
        self.inputs.append(index)
        self.feeds.append(feed or (lambda: self.codes(shape, dtype)))
        return index

    def output(self, shape: Sequence[int], dtype: str = "int8", **quantization: Any) -> int:
        """An output of the model."""
        index = self.add(shape, dtype, **quantization)
        self.outputs.append(index)
        self.labels.append(self.label)
        return index

    def fixed(self, data: Any, dtype: str = "int32", **quantization: Any) -> int:
        """A constant."""
        return self.constant(f"{self.label}_{len(self.tensors)}", np.array(data, dtype), **quantization)

    def shape(self, rank: int, low: int = 1, high: int = 6) -> tuple[int, ...]:
        """Random extents."""
        return tuple(int(extent) for extent in self.random.integers(low, high, rank))

    def pick(self, *choices: Any) -> Any:
        """One of the choices."""
        return choices[int(self.random.integers(len(choices)))]


def quantization(b: Battery, index: int) -> dict[str, Any]:
    """Scale and zero point of a tensor, for one that must have the same."""
    tensor = b.tensors[index]
    return {"scale": tensor.scale[0], "zero_point": tensor.zero_point[0]}


# Unary operators


def unary(
    code: int, dtype: str = "int8", opts: Any = None, same: bool = False, **out: Any
) -> Callable[[Battery], None]:
    def case(b: Battery) -> None:
        shape = b.shape(4)
        x = b.input(shape, dtype)
        given = quantization(b, x) if same else out
        y = b.output(shape, dtype, **given)
        b.operator(code, [x], [y], opts(b) if opts else (0, {}))

    return case


def leaky(b: Battery) -> Any:
    return options("LeakyRelu", Alpha=float(np.float32(b.random.uniform(-0.5, 1.5))))


def hard_swish(b: Battery) -> None:
    x = b.input((1, 5, 31), scale=b.scale(0.01, 0.1))
    b.operator(Op.HARD_SWISH, [x], [b.output((1, 5, 31), scale=b.scale(0.01, 0.1))])


def rsqrt(b: Battery) -> None:
    x = b.input((1, 77), zero_point=-128)
    b.operator(Op.RSQRT, [x], [b.output((1, 77))])


def logistic16(b: Battery) -> None:
    shape = b.shape(3)
    x = b.input(shape, "int16", scale=b.pick(2.0**-12, 2.0**-11, b.scale(1e-5, 1e-3)))
    b.operator(b.pick(Op.LOGISTIC, Op.TANH), [x], [b.output(shape, "int16", scale=2.0**-15)])


def prelu(dtype: str) -> Callable[[Battery], None]:
    def case(b: Battery) -> None:
        shape = b.shape(4)
        x = b.input(shape, dtype)
        alpha_shape = b.pick((1, 1, shape[3]), (1, 1, 1), shape[1:])
        alpha = b.constant(f"a{len(b.tensors)}", b.codes(alpha_shape), scale=[b.scale()], zero_point=b.zero())
        b.operator(Op.PRELU, [x, alpha], [b.output(shape, dtype)])

    return case


def l2_normalization(b: Battery) -> None:
    shape = (*b.shape(2), 9)
    x = b.input(shape)
    b.operator(Op.L2_NORMALIZATION, [x], [b.output(shape, scale=1 / 128, zero_point=0)], options("L2Norm"))


def log_softmax(b: Battery) -> None:
    shape = (*b.shape(2), 13)
    x = b.input(shape, scale=b.scale(0.02, 0.5))
    b.operator(Op.LOG_SOFTMAX, [x], [b.output(shape, scale=1 / 16, zero_point=127)])


def softmax(dtype: str, out: str) -> Callable[[Battery], None]:
    where = {"int8": (1 / 256, -128), "int16": (1 / 32768, 0)}[out]
    if (dtype, out) == ("int8", "int16"):
        where = (1 / 65536, -32768)

    def case(b: Battery) -> None:
        shape = (*b.shape(2), 11)
        scale = b.scale(0.005, 0.5) if dtype == "int8" else b.scale(1e-4, 1e-3)
        x = b.input(shape, dtype, scale=scale)
        y = b.output(shape, out, scale=where[0], zero_point=where[1])
        b.operator(Op.SOFTMAX, [x], [y], options("Softmax", Beta=b.pick(1.0, 0.5)))

    return case


# Moves


def _same(b: Battery, code: int, x: int, shape: Sequence[int], others: Sequence[int] = (), opts: Any = (0, {})) -> None:
    dtype = "int8" if b.tensors[x].type == 9 else "int16"
    b.operator(code, [x, *others], [b.output(shape, dtype, **quantization(b, x))], opts)


def pack(b: Battery) -> None:
    shape, axis = b.shape(3), int(b.random.integers(0, 4))
    x = b.input(shape)
    others = [b.input(shape, **quantization(b, x)) for _ in range(2)]
    out = (*shape[:axis], 3, *shape[axis:])
    _same(b, Op.PACK, x, out, others, options("Pack", ValuesCount=3, Axis=axis))


def unpack(b: Battery) -> None:
    shape, axis = b.shape(3), int(b.random.integers(0, 3))
    x = b.input(shape)
    rest = [extent for i, extent in enumerate(shape) if i != axis]
    outs = [b.output(rest, **quantization(b, x)) for _ in range(shape[axis])]
    b.operator(Op.UNPACK, [x], outs, options("Unpack", Num=shape[axis], Axis=axis))


def split(b: Battery) -> None:
    x = b.input((2, 6, 5))
    outs = [b.output((2, 2, 5), **quantization(b, x)) for _ in range(3)]
    b.operator(Op.SPLIT, [b.fixed(1), x], outs, options("Split", NumSplits=3))


def split_v(b: Battery) -> None:
    x = b.input((2, 7, 5))
    outs = [b.output((2, size, 5), **quantization(b, x)) for size in (1, 4, 2)]
    b.operator(Op.SPLIT_V, [x, b.fixed([1, -1, 2]), b.fixed(1)], outs, options("SplitV", NumSplits=3))


def slice_(b: Battery) -> None:
    x = b.input((3, 5, 4))
    _same(b, Op.SLICE, x, (2, 3, 4), [b.fixed([1, 2, 0]), b.fixed([2, 3, -1])], options("Slice"))


def strided_slice(b: Battery) -> None:
    shape = (4, 7, 5)
    x = b.input(shape)
    steps = [int(b.pick(-2, -1, 1, 2)) for _ in shape]
    begin = [int(b.random.integers(-extent, extent)) for extent in shape]
    masks = int(b.random.integers(0, 8))
    # The last axis shrinks, or is taken whole.
    shrink = int(b.pick(0, 4))
    steps[2] = 1 if shrink else steps[2]
    picks: list[Any] = [slice(None if masks & 1 << i else begin[i], None, steps[i]) for i in range(3)]
    picks[2] = begin[2] if shrink else picks[2]
    out = np.zeros(shape)[tuple(picks)].shape
    if not all(out):
        return strided_slice_plain(b, x)
    opts = options("StridedSlice", BeginMask=masks & ~shrink, EndMask=7 & ~shrink, ShrinkAxisMask=shrink)
    end = [value + 1 for value in begin]
    _same(b, Op.STRIDED_SLICE, x, out, [b.fixed(begin), b.fixed(end), b.fixed(steps)], opts)
    return None


def strided_slice_plain(b: Battery, x: int) -> None:
    ends = [b.fixed([1, 0, 2]), b.fixed([3, 7, 5]), b.fixed([1, 3, 1])]
    _same(b, Op.STRIDED_SLICE, x, (2, 3, 3), ends, options("StridedSlice"))


def gather(b: Battery) -> None:
    shape, axis = (4, 6, 5), int(b.random.integers(0, 3))
    x = b.input(shape)
    picks = b.random.integers(0, shape[axis], 7)
    out = (*shape[:axis], 7, *shape[axis + 1 :])
    _same(b, Op.GATHER, x, out, [b.fixed(picks)], options("Gather", Axis=axis))


def gather_computed(b: Battery) -> None:
    x = b.input((6, 5))
    picks = b.input((4,), "int32", feed=lambda: b.random.integers(0, 6, 4).astype(np.int32))
    _same(b, Op.GATHER, x, (4, 5), [picks], options("Gather", Axis=0))


def reshaping(code: int, name: str) -> Callable[[Battery], None]:
    def case(b: Battery) -> None:
        x = b.input((1, 3, 1, 5))
        if code == Op.SQUEEZE:
            _same(b, code, x, (3, 5), (), options(name))
        else:
            _same(b, code, x, (1, 1, 3, 1, 5), [b.fixed(1)], options(name))

    return case


def block(code: int, name: str) -> Callable[[Battery], None]:
    def case(b: Battery) -> None:
        if code == Op.SPACE_TO_DEPTH:
            _same(b, code, b.input((2, 4, 6, 3)), (2, 2, 3, 12), (), options(name, BlockSize=2))
        else:
            _same(b, code, b.input((2, 2, 3, 12)), (2, 4, 6, 3), (), options(name, BlockSize=2))

    return case


def batch_to_space(b: Battery) -> None:
    x = b.input((4, 3, 2, 3))
    _same(b, Op.BATCH_TO_SPACE_ND, x, (1, 5, 3, 3), [b.fixed([2, 2]), b.fixed([[0, 1], [1, 0]])])


def space_to_batch(b: Battery) -> None:
    x = b.input((1, 6, 4, 3))
    _same(b, Op.SPACE_TO_BATCH_ND, x, (6, 2, 2, 3), [b.fixed([3, 2]), b.fixed([[0, 0], [0, 0]])])


def mirror_pad(b: Battery) -> None:
    mode = int(b.pick(0, 1))
    x = b.input((1, 4, 5, 3))
    width = b.fixed([[0, 0], [1, 3], [2, 1], [0, 2]])
    _same(b, Op.MIRROR_PAD, x, (1, 8, 8, 5), [width], options("MirrorPad", Mode=mode))


def pad_v2(b: Battery) -> None:
    x = b.input((1, 4, 5, 3))
    given = quantization(b, x)
    fill = b.constant(f"f{len(b.tensors)}", b.codes((1,)), scale=[given["scale"]], zero_point=given["zero_point"])
    _same(b, Op.PADV2, x, (1, 5, 8, 3), [b.fixed([[0, 0], [1, 0], [2, 1], [0, 0]]), fill], options("PadV2"))


def broadcast_to(b: Battery) -> None:
    _same(b, Op.BROADCAST_TO, b.input((1, 4, 1, 3)), (2, 4, 5, 3), [b.fixed([2, 4, 5, 3])], options("BroadcastTo"))


def resize_nearest(b: Battery) -> None:
    size = [int(v) for v in b.random.integers(1, 12, 2)]
    flags = b.pick({}, {"AlignCorners": True}, {"HalfPixelCenters": True})
    x = b.input((1, 5, 4, 3))
    opts = options("ResizeNearestNeighbor", **flags)
    _same(b, Op.RESIZE_NEAREST_NEIGHBOR, x, (1, *size, 3), [b.fixed(size)], opts)


def resize_bilinear(b: Battery) -> None:
    size = [int(v) for v in b.random.integers(1, 12, 2)]
    flags = b.pick({}, {"AlignCorners": True}, {"HalfPixelCenters": True})
    x = b.input((1, 5, 4, 3))
    _same(b, Op.RESIZE_BILINEAR, x, (1, *size, 3), [b.fixed(size)], options("ResizeBilinear", **flags))


def select(b: Battery, code: int = Op.SELECT_V2) -> None:
    x = b.input((2, 3, 4))
    given = quantization(b, x)
    y = b.input((2, 3, 4), **given)
    condition = b.input((2, 3, 4), "bool", feed=lambda: b.random.integers(0, 2, (2, 3, 4)).astype(bool))
    name = "SelectV2" if code == Op.SELECT_V2 else "Select"
    b.operator(code, [condition, x, y], [b.output((2, 3, 4), **given)], options(name))


def transpose16(b: Battery) -> None:
    x = b.input((1, 4, 6, 3), "int16")
    _same(b, Op.TRANSPOSE, x, (1, 3, 4, 6), [b.fixed([0, 3, 1, 2])], options("Transpose"))


# Reductions


def reduction(code: int, dtype: str = "int8", same: bool = False) -> Callable[[Battery], None]:
    def case(b: Battery) -> None:
        shape = b.shape(4)
        axes = sorted({int(a) for a in b.random.integers(0, 4, int(b.random.integers(1, 4)))})
        keep = bool(b.pick(0, 1))
        out = [1 if i in axes else e for i, e in enumerate(shape) if keep or i not in axes]
        x = b.input(shape, dtype)
        given = quantization(b, x) if same else {}
        opts = options("Reducer", KeepDims=keep)
        b.operator(code, [x, b.fixed(axes)], [b.output(out, dtype, **given)], opts)

    return case


def argument(code: int, name: str) -> Callable[[Battery], None]:
    def case(b: Battery) -> None:
        shape, axis = b.shape(3, 2, 7), int(b.random.integers(0, 3))
        out = shape[:axis] + shape[axis + 1 :]
        x = b.input(shape)
        b.operator(code, [x, b.fixed(axis)], [b.output(out, "int32")], options(name, OutputType=2))

    return case


def cumsum(b: Battery) -> None:
    shape = b.shape(3)
    flags = {"Exclusive": bool(b.pick(0, 1)), "Reverse": bool(b.pick(0, 1))}
    x = b.input(shape)
    axis = b.fixed(int(b.random.integers(0, 3)))
    b.operator(Op.CUMSUM, [x, axis], [b.output(shape)], options("Cumsum", **flags))


# Two tensors


def binary(code: int, name: str, dtype: str = "int8", out: str = "", same: bool = False) -> Callable[[Battery], None]:
    def case(b: Battery) -> None:
        shape = (2, 3, 5, 4)
        x = b.input(shape, dtype)
        given = quantization(b, x) if same else {}
        z = b.input(b.pick(shape, (1, 1, 1, 4), (2, 1, 5, 1)), dtype, **given)
        y = b.output(shape, out or dtype, **given)
        fused = {"FusedActivationFunction": int(b.pick(*ACTIVATIONS))} if name in ("Add", "Sub", "Mul") else {}
        b.operator(code, [x, z], [y], options(name, **fused) if name else (0, {}))

    return case


def division(b: Battery) -> None:
    """Scales for which tflite-micro shifts by less than 32 bits, and no divisor of 0."""
    shape, zero = (2, 3, 5, 4), int(b.random.integers(-128, 128))
    x = b.input(shape, scale=b.scale(0.1, 0.2))

    def divisors() -> np.ndarray:
        codes = b.codes((1, 1, 1, 4))
        return np.where(codes == zero, np.int8(zero + 1 if zero < 127 else 0), codes).astype(np.int8)

    z = b.input((1, 1, 1, 4), feed=divisors, scale=b.scale(0.1, 0.2), zero_point=zero)
    fused = options("Div", FusedActivationFunction=int(b.pick(*ACTIVATIONS)))
    b.operator(Op.DIV, [x, z], [b.output(shape, scale=b.scale(0.002, 0.01))], fused)


def add_n(b: Battery) -> None:
    x = b.input((2, 3, 5))
    others = [b.input((2, 3, 5), **quantization(b, x)) for _ in range(2)]
    b.operator(Op.ADD_N, [x, *others], [b.output((2, 3, 5))], options("AddN"))


# Linear operators


def _weights(
    b: Battery, shape: Sequence[int], axis: int, channels: int, x: int, bias: Any = "int32", nibbles: str = ""
) -> list[int]:
    """Weights and bias; ``nibbles``: of 4 bits, with a scale a "channel" or a "tensor"."""
    per_channel = bool(b.pick(0, 1)) if not nibbles else nibbles == "channel"
    scales = [b.scale(0.001, 0.02) for _ in range(channels if per_channel else 1)]
    if nibbles:
        data = b.random.integers(-8, 8, tuple(shape)).astype(np.int8)
        indices = [b.nibbles(f"w{len(b.tensors)}", data, scale=scales, axis=axis)]
    else:
        data = np.maximum(b.codes(shape), -127)
        indices = [b.constant(f"w{len(b.tensors)}", data, scale=scales, axis=axis)]
    if bias:
        values = b.random.integers(-3000, 3000, channels).astype(bias)
        own = [float(np.float32(b.tensors[x].scale[0]) * np.float32(s)) for s in scales]
        indices.append(b.constant(f"b{len(b.tensors)}", values, scale=own))
    return indices


def _extent(size: int, kernel: int, stride: int, dilation: int, padding: int) -> int:
    effective = (kernel - 1) * dilation + 1
    return -(-size // stride) if padding == Padding.SAME else (size - effective) // stride + 1


def convolution(
    dtype: str = "int8", bias: Any = "int32", groups: int = 1, nibbles: str = ""
) -> Callable[[Battery], None]:
    def case(b: Battery) -> None:
        stride, padding = int(b.pick(1, 2)), int(b.pick(Padding.SAME, Padding.VALID))
        dilation = int(b.pick(1, 2)) if stride == 1 else 1
        kernel, channels = (int(b.pick(1, 2, 3)), int(b.pick(1, 2, 3))), 3 * groups
        x = b.input((2, 9, 8, 4 * groups), dtype)
        w = _weights(b, (channels, *kernel, 4), 0, channels, x, bias, nibbles)
        size = [_extent(e, k, stride, dilation, padding) for e, k in zip((9, 8), kernel, strict=True)]
        opts = options(
            "Conv2D",
            Padding=padding,
            StrideW=stride,
            StrideH=stride,
            DilationWFactor=dilation,
            DilationHFactor=dilation,
            FusedActivationFunction=int(b.pick(*ACTIVATIONS)),
        )
        b.operator(Op.CONV_2D, [x, *w], [b.output((2, *size, channels), dtype)], opts)

    return case


def depthwise(dtype: str = "int8", bias: Any = "int32", nibbles: str = "") -> Callable[[Battery], None]:
    def case(b: Battery) -> None:
        multiplier, dilation, padding = int(b.pick(1, 3)), int(b.pick(1, 2)), int(b.pick(Padding.SAME, Padding.VALID))
        x = b.input((1, 7, 9, 3), dtype)
        w = _weights(b, (1, 3, 2, 3 * multiplier), 3, 3 * multiplier, x, bias, nibbles)
        size = [_extent(e, k, 1, dilation, padding) for e, k in ((7, 3), (9, 2))]
        opts = options(
            "DepthwiseConv2D",
            Padding=padding,
            StrideW=1,
            StrideH=1,
            DepthMultiplier=multiplier,
            DilationWFactor=dilation,
            DilationHFactor=dilation,
            FusedActivationFunction=int(b.pick(*ACTIVATIONS)),
        )
        b.operator(Op.DEPTHWISE_CONV_2D, [x, *w], [b.output((1, *size, 3 * multiplier), dtype)], opts)

    return case


def transpose_conv(dtype: str = "int8", bias: Any = "int32") -> Callable[[Battery], None]:
    def case(b: Battery) -> None:
        stride, padding = int(b.pick(1, 2, 3)), int(b.pick(Padding.SAME, Padding.VALID))
        kernel = (int(b.pick(1, 2, 3, 4)), int(b.pick(2, 3, 5)))
        size = [
            e * stride if padding == Padding.SAME else (e - 1) * stride + k for e, k in zip((4, 3), kernel, strict=True)
        ]
        x = b.input((1, 4, 3, 5), dtype)
        w = _weights(b, (4, *kernel, 5), 0, 4, x, bias)
        opts = options("TransposeConv", Padding=padding, StrideW=stride, StrideH=stride)
        y = b.output((1, *size, 4), dtype)
        b.operator(Op.TRANSPOSE_CONV, [b.fixed([1, *size, 4]), w[0], x, *w[1:]], [y], opts)

    return case


def dense(dtype: str = "int8", bias: Any = "int32", nibbles: str = "") -> Callable[[Battery], None]:
    def case(b: Battery) -> None:
        x = b.input((3, 19), dtype)
        w = _weights(b, (7, 19), 0, 7, x, bias, nibbles)
        fused = options("FullyConnected", FusedActivationFunction=int(b.pick(*ACTIVATIONS)))
        b.operator(Op.FULLY_CONNECTED, [x, *w, *([] if bias else [-1])], [b.output((3, 7), dtype)], fused)

    return case


def dense_rank3(b: Battery) -> None:
    x = b.input((2, 3, 8))
    zero, spread = b.pick((0, 128), (7, 100), (-60, 128))
    data = b.random.integers(-spread, spread, (5, 8)).astype(np.int8)
    scale = b.scale(0.001, 0.02)
    w = b.constant(f"w{len(b.tensors)}", data, scale=[scale], zero_point=zero)
    bias_scale = float(np.float32(b.tensors[x].scale[0]) * np.float32(scale))
    bias = b.constant(f"b{len(b.tensors)}", b.random.integers(-999, 999, 5).astype(np.int32), scale=[bias_scale])
    b.operator(Op.FULLY_CONNECTED, [x, w, bias], [b.output((2, 3, 5))], options("FullyConnected", KeepNumDims=True))


def batch_matmul(dtype: str = "int8") -> Callable[[Battery], None]:
    def case(b: Battery) -> None:
        adjoint = [bool(b.pick(0, 1)) for _ in range(2)]
        x = b.input((2, 6, 5) if adjoint[0] else (2, 5, 6), dtype)
        z = b.input((2, 4, 6) if adjoint[1] else (2, 6, 4), dtype)
        opts = options("BatchMatMul", AdjX=adjoint[0], AdjY=adjoint[1])
        b.operator(Op.BATCH_MATMUL, [x, z], [b.output((2, 5, 4), dtype)], opts)

    return case


def pool(code: int, dtype: str = "int8") -> Callable[[Battery], None]:
    def case(b: Battery) -> None:
        size, stride, padding = int(b.pick(2, 3)), int(b.pick(1, 2)), int(b.pick(Padding.SAME, Padding.VALID))
        x = b.input((1, 9, 7, 3), dtype)
        out = [_extent(e, size, stride, 1, padding) for e in (9, 7)]
        opts = options(
            "Pool2D",
            Padding=padding,
            StrideW=stride,
            StrideH=stride,
            FilterWidth=size,
            FilterHeight=size,
            FusedActivationFunction=int(b.pick(*ACTIVATIONS)),
        )
        b.operator(code, [x], [b.output((1, *out, 3), dtype, **quantization(b, x))], opts)

    return case


# Borders


def quantize_float(dtype: str) -> Callable[[Battery], None]:
    def case(b: Battery) -> None:
        shape = (1, 37)
        y = b.add(shape, dtype)
        scale = b.tensors[y].scale[0]
        x = b.input(shape, "float32", feed=lambda: _near_ties(b, shape, scale))
        b.outputs.append(y)
        b.labels.append(b.label)
        b.operator(Op.QUANTIZE, [x], [y], options("Quantize"))

    return case


def _near_ties(b: Battery, shape: Sequence[int], scale: float) -> np.ndarray:
    steps = b.random.integers(-300, 300, shape) + b.random.choice([0.0, 0.5, 0.4999999, 0.2], shape)
    return (steps * scale).astype(np.float32)


def requantize(source: str, target: str) -> Callable[[Battery], None]:
    def case(b: Battery) -> None:
        x = b.input((3, 29), source)
        b.operator(Op.QUANTIZE, [x], [b.output((3, 29), target)], options("Quantize"))

    return case


def requantize32(b: Battery) -> None:
    x = b.tensor(f"wide{len(b.tensors)}", (3, 29), scale=b.scale(1e-5, 1e-4), zero_point=0, dtype="int32")
    b.inputs.append(x)
    b.feeds.append(lambda: b.random.integers(-200000, 200000, (3, 29)).astype(np.int32))
    b.operator(Op.QUANTIZE, [x], [b.output((3, 29))], options("Quantize"))


def dequantize(dtype: str) -> Callable[[Battery], None]:
    def case(b: Battery) -> None:
        x = b.input((3, 29), dtype)
        b.operator(Op.DEQUANTIZE, [x], [b.output((3, 29), "float32")], options("Dequantize"))

    return case


def tile(b: Battery) -> None:
    _same(b, Op.TILE, b.input((2, 3, 4)), (4, 3, 12), [b.fixed([2, 1, 3])])


def gather_batches(b: Battery) -> None:
    x = b.input((2, 3, 6, 5))
    batch, axis = b.pick((1, 2), (1, 1), (2, 2))
    shape = (2, 3, 6, 5)
    picks = b.random.integers(0, shape[axis], (*shape[:batch], 4))
    out = (*shape[:axis], 4, *shape[axis + 1 :])
    if b.pick(0, 1):
        indices = b.fixed(picks)
    else:
        indices = b.input(picks.shape, "int32", feed=lambda: b.random.integers(0, shape[axis], picks.shape, np.int32))
    _same(b, Op.GATHER, x, out, [indices], options("Gather", Axis=axis, BatchDims=batch))


def _places(b: Battery, shape: Sequence[int], extents: Sequence[int]) -> int:
    """Vectors of indices, constant or computed."""

    def draw() -> np.ndarray:
        return np.stack([b.random.integers(0, e, shape) for e in extents], -1).astype(np.int32)

    return b.fixed(draw()) if b.pick(0, 1) else b.input((*shape, len(extents)), "int32", feed=draw)


def gather_nd(b: Battery) -> None:
    count = int(b.pick(1, 2, 3))
    x = b.input((3, 4, 5))
    out = (2, 3, *(3, 4, 5)[count:])
    _same(b, Op.GATHER_ND, x, out, [_places(b, (2, 3), (3, 4, 5)[:count])], options("GatherNd"))


def scatter_nd(b: Battery) -> None:
    count = int(b.pick(1, 2, 3))
    shape = (4, *(3, 4, 5)[count:])
    updates = b.input(shape, "int32", feed=lambda: b.random.integers(-99, 99, shape).astype(np.int32))
    indices = _places(b, (4,), (3, 4, 5)[:count])
    y = b.output((3, 4, 5), "int32")
    b.operator(Op.SCATTER_ND, [indices, updates, b.fixed([3, 4, 5])], [y], options("ScatterNd"))


def embedding_lookup(b: Battery) -> None:
    places = b.input((5,), "int32", feed=lambda: b.random.integers(0, 7, 5).astype(np.int32))
    table = b.fixed(b.random.normal(size=(7, 3)), "float32")
    b.operator(Op.EMBEDDING_LOOKUP, [places, table], [b.output((5, 3), "float32")])


def space_to_batch_padded(b: Battery) -> None:
    x = b.input((1, 5, 4, 3))
    _same(b, Op.SPACE_TO_BATCH_ND, x, (6, 2, 3, 3), [b.fixed([3, 2]), b.fixed([[0, 1], [2, 0]])])


def reverse(b: Battery) -> None:
    _same(b, Op.REVERSE_V2, b.input((2, 3, 4)), (2, 3, 4), [b.fixed([1])])


def concatenation(b: Battery) -> None:
    x = b.input((2, 3, 4), "int16")
    others = [b.input((2, size, 4), "int16", **quantization(b, x)) for size in (1, 2)]
    _same(b, Op.CONCATENATION, x, (2, 6, 4), others, options("Concatenation", Axis=1))


def chain(b: Battery) -> None:
    """Operators that the graph stage merges: a clamp into a convolution, tables of tables, a pad into a convolution."""
    x = b.input((1, 6, 6, 4))
    padded = b.add((1, 8, 8, 4), **quantization(b, x))
    b.operator(Op.PAD, [x, b.fixed([[0, 0], [1, 1], [1, 1], [0, 0]])], [padded], options("Pad"))
    w = _weights(b, (3, 3, 3, 4), 0, 3, x)
    convolved = b.add((1, 6, 6, 3), scale=0.1, zero_point=-10)
    b.operator(Op.CONV_2D, [padded, *w], [convolved], options("Conv2D", Padding=Padding.VALID, StrideW=1, StrideH=1))
    clamped = b.add((1, 6, 6, 3), scale=0.1, zero_point=-10)
    b.operator(Op.RELU6, [convolved], [clamped])
    leaked = b.add((1, 6, 6, 3))
    b.operator(Op.LEAKY_RELU, [clamped], [leaked], leaky(b))
    squashed = b.add((1, 6, 6, 3), scale=1 / 128, zero_point=0)
    b.operator(Op.TANH, [leaked], [squashed])
    averaged = b.output((1, 3))
    b.operator(Op.MEAN, [squashed, b.fixed([1, 2])], [averaged], options("Reducer"))


# Recurrent operators


def _variable(b: Battery, shape: Sequence[int], dtype: str, **quantization: Any) -> int:
    index = b.add(shape, dtype, **quantization)
    b.tensors[index].variable = True
    return index


def svdf(dtype: str) -> Callable[[Battery], None]:
    def case(b: Battery) -> None:
        rank, units, steps, depth = int(b.pick(1, 2)), 3, 5, 7
        x = b.input((1, depth))
        features = b.fixed(b.codes((units * rank, depth)), "int8", scale=[b.scale(0.001, 0.01)])
        times = b.fixed(b.codes((units * rank, steps), dtype), dtype, scale=[b.scale(1e-4, 1e-3)])
        state = _variable(b, (1, units * rank * steps), dtype, scale=b.scale(0.005, 0.05))
        scale = float(np.float32(b.tensors[state].scale[0]) * np.float32(b.tensors[times].scale[0]))
        bias = b.fixed(b.random.integers(-3000, 3000, units), "int32", scale=[scale])
        y = b.output((1, units))
        opts = options("SVDF", Rank=rank, FusedActivationFunction=Activation.NONE)
        b.operator(Op.SVDF, [x, features, times, bias, state], [y], opts)

    return case


def lstm(dtype: str) -> Callable[[Battery], None]:
    def case(b: Battery) -> None:
        batch, steps, depth, units, major = 2, 3, 5, 4, bool(b.pick(0, 1))
        x = b.input((steps, batch, depth) if major else (batch, steps, depth), dtype, scale=b.scale(0.01, 0.03))
        weights = [
            b.fixed(b.codes((units, n)), "int8", scale=[b.scale(0.002, 0.01)]) for n in [depth] * 4 + [units] * 4
        ]
        kind = "int64" if dtype == "int16" else "int32"
        biases = [b.fixed(b.random.integers(-2000, 2000, units), kind, scale=[1e-3]) for _ in range(4)]
        h_scale = 2.0**-7 if dtype == "int8" else 2.0**-15
        hidden = _variable(b, (batch, units), dtype, scale=h_scale, zero_point=b.zero(dtype))
        cell = _variable(b, (batch, units), "int16", scale=2.0 ** -int(b.random.integers(7, 16)))
        y = b.output((steps, batch, units) if major else (batch, steps, units), dtype, **quantization(b, hidden))
        inputs = [x, *weights, -1, -1, -1, *biases, -1, -1, hidden, cell, -1, -1, -1, -1]
        opts = options(
            "UnidirectionalSequenceLSTM",
            FusedActivationFunction=Activation.TANH,
            CellClip=float(b.pick(0.0, 0.5)),
            TimeMajor=major,
        )
        b.operator(Op.UNIDIRECTIONAL_SEQUENCE_LSTM, inputs, [y], opts)

    return case


GROUPS: dict[str, dict[str, Callable[[Battery], None]]] = {
    "unary": {
        "logistic": unary(Op.LOGISTIC, scale=1 / 256, zero_point=-128),
        "tanh": unary(Op.TANH, scale=1 / 128, zero_point=0),
        "hard_swish": hard_swish,
        "leaky_relu": unary(Op.LEAKY_RELU, opts=leaky),
        "elu": unary(Op.ELU),
        "abs": unary(Op.ABS),
        "abs_same": unary(Op.ABS, same=True),
        "rsqrt": rsqrt,
        "relu": unary(Op.RELU),
        "relu6": unary(Op.RELU6, same=True),
        "quantize": unary(Op.QUANTIZE),
        "prelu": prelu("int8"),
    },
    "rows": {
        "l2_normalization": l2_normalization,
        "log_softmax": log_softmax,
        "softmax": softmax("int8", "int8"),
        "softmax_8_to_16": softmax("int8", "int16"),
        "softmax_16": softmax("int16", "int16"),
    },
    "moves": {
        "pack": pack,
        "unpack": unpack,
        "split": split,
        "split_v": split_v,
        "slice": slice_,
        "strided_slice": strided_slice,
        "gather": gather,
        "gather_computed": gather_computed,
        "squeeze": reshaping(Op.SQUEEZE, "Squeeze"),
        "expand_dims": reshaping(Op.EXPAND_DIMS, "ExpandDims"),
        "space_to_depth": block(Op.SPACE_TO_DEPTH, "SpaceToDepth"),
        "depth_to_space": block(Op.DEPTH_TO_SPACE, "DepthToSpace"),
        "batch_to_space": batch_to_space,
        "space_to_batch": space_to_batch,
        "mirror_pad": mirror_pad,
        "pad_v2": pad_v2,
        "broadcast_to": broadcast_to,
        "resize_nearest": resize_nearest,
        "select": select,
        "transpose16": transpose16,
        "concatenation16": concatenation,
    },
    "reductions": {
        "mean": reduction(Op.MEAN),
        "mean16": reduction(Op.MEAN, "int16"),
        "sum": reduction(Op.SUM),
        "sum16": reduction(Op.SUM, "int16"),
        "reduce_max": reduction(Op.REDUCE_MAX, same=True),
        "reduce_min": reduction(Op.REDUCE_MIN, same=True),
        "arg_max": argument(Op.ARG_MAX, "ArgMax"),
        "arg_min": argument(Op.ARG_MIN, "ArgMin"),
        "cumsum": cumsum,
    },
    "binary": {
        "maximum": binary(Op.MAXIMUM, "MaximumMinimum", same=True),
        "minimum": binary(Op.MINIMUM, "MaximumMinimum", same=True),
        "squared_difference": binary(Op.SQUARED_DIFFERENCE, "SquaredDifference"),
        "equal": binary(Op.EQUAL, "Equal", out="bool"),
        "not_equal": binary(Op.NOT_EQUAL, "NotEqual", out="bool"),
        "greater": binary(Op.GREATER, "Greater", out="bool"),
        "greater_equal": binary(Op.GREATER_EQUAL, "GreaterEqual", out="bool"),
        "less": binary(Op.LESS, "Less", out="bool"),
        "less_equal": binary(Op.LESS_EQUAL, "LessEqual", out="bool"),
        "div": division,
        "add_n": add_n,
        "resize_bilinear": resize_bilinear,
    },
    "linear": {
        "conv2d": convolution(),
        "conv2d_groups": convolution(groups=3),
        "conv2d_without_bias": convolution(bias=None),
        "depthwise": depthwise(),
        "transpose_conv": transpose_conv(),
        "dense": dense(),
        "dense_rank3": dense_rank3,
        "batch_matmul": batch_matmul(),
        "max_pool": pool(Op.MAX_POOL_2D),
        "chain": chain,
    },
    "int4": {
        "conv2d": convolution(nibbles="channel"),
        "conv2d_tensor": convolution(nibbles="tensor"),
        "depthwise": depthwise(nibbles="channel"),
        "dense": dense(nibbles="tensor"),
    },
    "int16": {
        "conv2d": convolution("int16", "int64"),
        "conv2d_bias32": convolution("int16", "int32"),
        "conv2d_without_bias": convolution("int16", None),
        "depthwise": depthwise("int16", "int64"),
        "transpose_conv": transpose_conv("int16", "int64"),
        "dense": dense("int16", "int64"),
        "dense_bias32": dense("int16", "int32"),
        "batch_matmul": batch_matmul("int16"),
        "add": binary(Op.ADD, "Add", "int16"),
        "sub": binary(Op.SUB, "Sub", "int16"),
        "mul": binary(Op.MUL, "Mul", "int16"),
        "squared_difference": binary(Op.SQUARED_DIFFERENCE, "SquaredDifference", "int16"),
        "maximum": binary(Op.MAXIMUM, "MaximumMinimum", "int16", same=True),
        "minimum": binary(Op.MINIMUM, "MaximumMinimum", "int16", same=True),
        "average_pool": pool(Op.AVERAGE_POOL_2D, "int16"),
        "max_pool": pool(Op.MAX_POOL_2D, "int16"),
        "logistic_tanh": logistic16,
        "relu": unary(Op.RELU, "int16"),
        "leaky_relu": unary(Op.LEAKY_RELU, "int16", opts=leaky),
        "abs": unary(Op.ABS, "int16"),
        "prelu": prelu("int16"),
    },
    "borders": {
        "float_to_int8": quantize_float("int8"),
        "float_to_int16": quantize_float("int16"),
        "int8_to_int16": requantize("int8", "int16"),
        "int16_to_int8": requantize("int16", "int8"),
        "int32_to_int8": requantize32,
        "uint8_to_int8": requantize("uint8", "int8"),
        "int8_to_uint8": requantize("int8", "uint8"),
        "int8_to_float": dequantize("int8"),
        "int16_to_float": dequantize("int16"),
    },
    "recurrent": {
        "svdf": svdf("int8"),
        "svdf16": svdf("int16"),
        "lstm": lstm("int8"),
        "lstm16": lstm("int16"),
    },
}

# Operators tflite-micro has no kernel for: LiteRT's reference kernels.
LITERT_ONLY: dict[str, Callable[[Battery], None]] = {
    "tile": tile,
    "reverse": reverse,
    "gather_batches": gather_batches,
    "gather_nd": gather_nd,
    "scatter_nd": scatter_nd,
    "embedding_lookup": embedding_lookup,
    "space_to_batch_padded": space_to_batch_padded,
    "select": lambda b: select(b, Op.SELECT),
}
