"""Random operators with the codes numpy says they give: shapes, scales and weights of one class at a time.

A case is an operator with weights, scales and offsets of its own. Cases of one shape and one pair of zero points share
a kernel, so several sets of weights are drawn for each shape: they cost no compilation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from kernels import reference
from support import random_bytes
from tvm import relax

from tvm_stm32 import numerics
from tvm_stm32.graph import dialect, operators

ROUNDINGS = ("tflm", "upward", "tonearest", "even")
# The ones generated blocks round by come more often.
_LIKELY = (0.45, 0.35, 0.1, 0.1)
_IDENTITY = 1 << 30, 1
_LARGEST = (1 << 31) - 1


@dataclass(frozen=True)
class Case:
    """An operator: shapes of its inputs, the call it makes of their variables, and the codes it must give."""

    kind: str
    shapes: list[tuple[int, ...]]
    call: Callable[[list[relax.Var]], relax.Expr]
    expected: Callable[[list[np.ndarray]], np.ndarray]
    text: str


def cases(generator: np.random.Generator, kind: str, count: int) -> list[Case]:
    """``count`` cases of a class; those with weights share one shape and its kernel."""
    if kind in _WINDOWS:
        return _convolutions(generator, kind, count)
    if kind == "dense":
        return _dense(generator, count)
    return [_OTHERS[kind](generator, kind) for _ in range(count)]


def codes(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """An input: mostly random codes, sometimes the ends of the range only."""
    kind = generator.random()
    if kind < 0.85:
        return random_bytes(generator, shape)
    if kind < 0.95:
        return generator.choice(np.array([-128, 127], np.int8), shape)
    return np.full(shape, generator.choice([-128, 127]), np.int8)


def _pick(generator: np.random.Generator, *values: int) -> int:
    return int(generator.choice(values))


def _zero_point(generator: np.random.Generator) -> int:
    ends = generator.random() < 0.6
    return _pick(generator, -128, 127, 0) if ends else int(generator.integers(-128, 128))


def _clamps(generator: np.random.Generator) -> tuple[int, int]:
    if generator.random() < 0.6:
        return -128, 127
    low, high = sorted(int(end) for end in generator.integers(-128, 128, 2))
    return (low, high) if generator.random() < 0.5 else (low, 127)


# Weights


@dataclass(frozen=True)
class _Finish:
    """What cases of one shape have in common besides it: the kernel has these as constants."""

    input_zero_point: int
    zero_point: int
    rounding: str
    clamps: tuple[int, int]
    per_channel: bool

    @classmethod
    def draw(cls, generator: np.random.Generator) -> _Finish:
        return cls(
            _zero_point(generator),
            _zero_point(generator),
            str(generator.choice(ROUNDINGS, p=_LIKELY)),
            _clamps(generator),
            bool(generator.random() < 0.6),
        )


def _weights(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    kind = generator.random()
    weight = random_bytes(generator, shape)
    if kind < 0.45:
        return np.maximum(weight, -127)
    if kind < 0.7:
        return weight
    if kind < 0.8:
        return np.full(shape, _pick(generator, -128, 127), np.int8)
    if kind < 0.9:
        return generator.integers(-1, 2, shape).astype(np.int8)
    # Some channels without weights, some of -128 only.
    weight[:: _pick(generator, 2, 3)] = 0
    weight[-1] = -128
    return weight


def _bias(generator: np.random.Generator, weight: np.ndarray) -> np.ndarray:
    kind, channels = generator.random(), weight.shape[0]
    if kind < 0.1:
        return np.zeros(channels, np.int32)
    if kind < 0.9:
        return generator.integers(-20000, 20000, channels).astype(np.int32)
    # As far as a sum stays within 32 bits: too far for doubled sums, or for four times a sum.
    room = (1 << 31) - 1 - 255 * np.abs(weight.astype(np.int64)).reshape(channels, -1).sum(axis=1)
    return (room * generator.choice([-1.0, 1.0, 0.45, -0.2], channels)).astype(np.int32)


def _requantization(
    generator: np.random.Generator, weight: np.ndarray, bias: np.ndarray, common: _Finish
) -> operators.Requantization:
    """Multipliers that bring the sums near the int8 range, beyond it, or to one of a few codes."""
    channels = weight.shape[0]
    spread = 100 * np.sqrt((weight.astype(np.float64) ** 2).reshape(channels, -1).sum(axis=1))
    spread += np.abs(bias.astype(np.float64)) + 1
    count = channels if common.per_channel else 1
    reach = spread if common.per_channel else spread.mean(keepdims=True)
    real = 200.0 / reach * generator.uniform(0.2, 3.0, count) * generator.choice([1, 0.01, 20], p=[0.85, 0.05, 0.1])
    multiplier, shift = numerics.quantize_multipliers(real)
    kind = generator.random()
    if kind < 0.3:
        multiplier[::2] = _LARGEST
        multiplier[1::3] = 1 << 30
    elif kind < 0.33:
        multiplier[0] = -multiplier[0]
    elif kind < 0.36:
        multiplier[0], shift[0] = 0, 0
    elif kind < 0.4:
        shift[0] = -31
    return operators.Requantization(multiplier, shift, common.zero_point, common.rounding, *common.clamps)


def _finished(acc: np.ndarray, r: operators.Requantization) -> np.ndarray:
    return reference.finish(acc, r.multiplier, r.shift, r.zero_point, r.rounding, r.clamp_min, r.clamp_max)


def _text(weight: np.ndarray, bias: np.ndarray, r: operators.Requantization, common: _Finish) -> str:
    ends = f"weights {weight.min()}..{weight.max()} bias {bias.min()}..{bias.max()}"
    scales = f"multipliers {r.multiplier[:4].tolist()} shifts {r.shift[:4].tolist()}"
    return f"{weight.shape[0]} channels out, {common} {ends} {scales}"


# Convolutions


@dataclass(frozen=True)
class _Window:
    """Input shape, kernel, channels out and how the kernel moves."""

    data: tuple[int, int, int, int]
    kernel: tuple[int, int]
    channels: int
    strides: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1


def _batch(generator: np.random.Generator) -> int:
    return 2 if generator.random() < 0.1 else 1


def _extent(generator: np.random.Generator, kernel: int, dilation: int, padding: int) -> int:
    """An input extent a window fits: often exactly, up to eight places."""
    smallest = max(1, (kernel - 1) * dilation + 1 - padding)
    return smallest + (0 if generator.random() < 0.15 else int(generator.integers(0, 9)))


def _window(
    generator: np.random.Generator,
    kernel: tuple[int, int],
    channels_in: int,
    channels: int,
    *,
    strides: tuple[int, int],
    dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
) -> _Window:
    top, left, bottom, right = _padding(generator, kernel)
    height = _extent(generator, kernel[0], dilation[0], top + bottom)
    width = _extent(generator, kernel[1], dilation[1], left + right)
    if dilation == (1, 1) and kernel[1] >= strides[1] and generator.random() < 0.4:
        # All columns are read, by outputs in fours: kernels on whole rows.
        width = strides[1] * _pick(generator, 4, 8, 12)
        left = int(generator.integers(0, kernel[1] - strides[1] + 1))
        right = kernel[1] - strides[1] - left
    data, padding = (_batch(generator), height, width, channels_in), (top, left, bottom, right)
    return _Window(data, kernel, channels, strides, padding, dilation, groups)


def _padding(generator: np.random.Generator, kernel: tuple[int, int]) -> tuple[int, int, int, int]:
    kind = generator.random()
    if kind < 0.35:
        return 0, 0, 0, 0
    if kind < 0.65:
        half = kernel[0] // 2, kernel[1] // 2
        return *half, *half
    top, left, bottom, right = (int(p) for p in generator.integers(0, 3, 4))
    return top, left, bottom, right


def _strides(generator: np.random.Generator) -> tuple[int, int]:
    if generator.random() < 0.7:
        return (_pick(generator, 1, 1, 2),) * 2
    return _pick(generator, 1, 2, 3), _pick(generator, 1, 2, 3)


def _dilation(generator: np.random.Generator) -> tuple[int, int]:
    return (1, 1) if generator.random() < 0.7 else (_pick(generator, 1, 2, 3), _pick(generator, 1, 2, 3))


def _general(generator: np.random.Generator) -> _Window:
    kernel = _pick(generator, 1, 2, 3, 3, 4, 5), _pick(generator, 1, 2, 3, 3, 4, 5)
    channels_in, channels = _pick(generator, 1, 2, 3, 4, 5, 6, 8, 12, 16, 20), _pick(generator, 1, 2, 3, 4, 7, 8, 16)
    return _window(generator, kernel, channels_in, channels, strides=_strides(generator), dilation=_dilation(generator))


def _pointwise(generator: np.random.Generator) -> _Window:
    channels_in = _pick(generator, 1, 3, 4, 5, 8, 12, 16, 24, 32, 48, 64, 130)
    channels = _pick(generator, 1, 2, 3, 4, 5, 8, 9, 16, 24)
    place = (1, 1) if generator.random() < 0.15 else tuple(int(n) for n in generator.integers(1, 9, 2))
    strides = (1, 1) if generator.random() < 0.85 else (2, 2)
    padding = (0, 0, 0, 0) if generator.random() < 0.9 else (1, 0, 0, 1)
    return _Window((_batch(generator), place[0], place[1], channels_in), (1, 1), channels, strides, padding)


def _first_layer(generator: np.random.Generator) -> _Window:
    kernel = (_pick(generator, 3, 3, 5, 7, 10), _pick(generator, 3, 3, 4, 5, 7))
    strides = (_pick(generator, 1, 2),) * 2
    return _window(
        generator, kernel, _pick(generator, 1, 1, 2, 3, 3), _pick(generator, 1, 4, 8, 8, 10), strides=strides
    )


def _three_by_three(generator: np.random.Generator) -> _Window:
    """Where Winograd may serve: at least eight columns, channels in fours."""
    channels_in = _pick(generator, 4, 8, 8, 12, 16, 24)
    channels = _pick(generator, 2, 4, 6, 8, 8, 12, 16, 5)
    padding = (1, 1, 1, 1) if generator.random() < 0.6 else tuple(int(p) for p in generator.integers(0, 3, 4))
    top, left, bottom, right = padding
    width = int(generator.integers(8, 20)) + 2 - left - right
    height = max(1, int(generator.integers(1, 10)) + 2 - top - bottom)
    padding = top, left, max(bottom, 3 - height - top), right
    return _Window((_batch(generator), height, width, channels_in), (3, 3), channels, (1, 1), padding)


def _depthwise_three(generator: np.random.Generator) -> _Window:
    channels = _pick(generator, 2, 4, 4, 8, 8, 12, 16, 20, 32, 7)
    strides = (_pick(generator, 1, 2),) * 2
    return _window(generator, (3, 3), channels, channels, strides=strides, groups=channels)


def _depthwise_any(generator: np.random.Generator) -> _Window:
    kernel = _pick(generator, 1, 2, 3, 4, 5, 6), _pick(generator, 1, 2, 3, 4, 5, 7)
    channels_in = _pick(generator, 2, 3, 4, 5, 8, 12, 16, 17)
    channels = channels_in * _pick(generator, 1, 1, 1, 1, 2, 3)
    return _window(
        generator,
        kernel,
        channels_in,
        channels,
        strides=_strides(generator),
        dilation=_dilation(generator),
        groups=channels_in,
    )


def _grouped(generator: np.random.Generator) -> _Window:
    kernel = _pick(generator, 1, 2, 3, 3, 4), _pick(generator, 1, 2, 3, 3, 5)
    groups = _pick(generator, 2, 3, 4)
    channels_in, channels = groups * _pick(generator, 2, 3, 4, 5, 8), groups * _pick(generator, 1, 2, 3, 4, 8)
    return _window(
        generator,
        kernel,
        channels_in,
        channels,
        strides=_strides(generator),
        dilation=_dilation(generator),
        groups=groups,
    )


_WINDOWS: dict[str, Callable[[np.random.Generator], _Window]] = {
    "convolution": _general,
    "pointwise": _pointwise,
    "first layer": _first_layer,
    "3x3": _three_by_three,
    "depthwise 3x3": _depthwise_three,
    "depthwise": _depthwise_any,
    "grouped": _grouped,
}


def _convolutions(generator: np.random.Generator, kind: str, count: int) -> list[Case]:
    window, common = _WINDOWS[kind](generator), _Finish.draw(generator)
    return [_convolution(generator, kind, window, common) for _ in range(count)]


def _convolution(generator: np.random.Generator, kind: str, window: _Window, common: _Finish) -> Case:
    weight = _weights(generator, (window.channels, *window.kernel, window.data[3] // window.groups))
    bias = _bias(generator, weight)
    r = _requantization(generator, weight, bias, common)
    options = {"strides": window.strides, "padding": window.padding, "dilation": window.dilation}
    return Case(
        kind,
        [window.data],
        lambda v: operators.conv2d(
            v[0], weight, bias, r, input_zero_point=common.input_zero_point, groups=window.groups, **options
        ),
        lambda x: _finished(
            reference.conv_accumulate(x[0], weight, bias, *options.values(), window.groups, common.input_zero_point),
            r,
        ),
        f"{window} {_text(weight, bias, r, common)}",
    )


def _dense(generator: np.random.Generator, count: int) -> list[Case]:
    shape = _pick(generator, 1, 1, 1, 3), _pick(generator, *range(1, 10), 13, 16, 64, 100, 144, 257)
    units, common = _pick(generator, 1, 2, 3, 6, 7, 8, 9, 10, 12, 13, 24), _Finish.draw(generator)
    return [_dense_case(generator, shape, units, common) for _ in range(count)]


def _dense_case(generator: np.random.Generator, shape: tuple[int, int], units: int, common: _Finish) -> Case:
    weight = _weights(generator, (units, shape[1]))
    bias = _bias(generator, weight)
    r = _requantization(generator, weight, bias, common)

    def expected(x: list[np.ndarray]) -> np.ndarray:
        return _finished((x[0].astype(np.int64) - common.input_zero_point) @ weight.T.astype(np.int64) + bias, r)

    return Case(
        "dense",
        [shape],
        lambda v: operators.dense(
            v[0], weight, bias, r, input_zero_point=common.input_zero_point, out_shape=(shape[0], units)
        ),
        expected,
        f"{shape} {_text(weight, bias, r, common)}",
    )


# Elementwise operators, pools, softmax, tables


def _multiplier(generator: np.random.Generator, real: float) -> tuple[int, int]:
    """A multiplier near ``real``, sometimes the largest, the smallest or the power of two of its binade."""
    multiplier, shift = numerics.quantize_multiplier(real)
    if generator.random() < 0.2:
        multiplier = _pick(generator, _LARGEST, 1 << 30)
    return multiplier, shift


def _binary(generator: np.random.Generator, kind: str) -> Case:
    shape = tuple(int(n) for n in generator.integers(1, 6, _pick(generator, 1, 2, 3, 4)))
    other = shape
    if generator.random() < 0.4:
        other = tuple(1 if generator.random() < 0.4 else n for n in shape)[int(generator.integers(0, len(shape))) :]
    swapped = bool(generator.random() < 0.5)
    lhs, rhs = (other, shape) if swapped else (shape, other)
    za, zb, zo = (_zero_point(generator) for _ in range(3))
    rounding = str(generator.choice(ROUNDINGS, p=_LIKELY))
    low, high = _clamps(generator)
    attrs = {"lhs_zero_point": za, "rhs_zero_point": zb, "output_zero_point": zo, "rounding": rounding}
    attrs |= {"clamp_min": low, "clamp_max": high}
    multiply = numerics.MULTIPLY[rounding]
    scales = 2.0 ** generator.uniform(-7, -2, 3)
    if kind == "mul":
        m, s = _multiplier(generator, scales[0] * scales[1] / scales[2])
        attrs |= {"multiplier": m, "shift": s}
    else:
        # As TFLM scales operands, or each operand to the output's scale at once.
        left = 0 if rounding != "tflm" and generator.random() < 0.4 else 20
        twice = 2 * max(scales[0], scales[1]) if left else scales[2]
        am, as_ = _multiplier(generator, scales[0] / twice)
        bm, bs = _multiplier(generator, scales[1] / twice)
        m, s = _multiplier(generator, twice / ((1 << left) * scales[2])) if left else _IDENTITY
        attrs |= {"left_shift": left, "lhs_multiplier": am, "lhs_shift": as_, "rhs_multiplier": bm}
        attrs |= {"rhs_shift": bs, "multiplier": m, "shift": s}
    fixed = codes(generator, rhs) if generator.random() < 0.2 else None

    def call(v: list[relax.Var]) -> relax.Expr:
        operands = v if fixed is None else [v[0], operators.const(fixed, "int8")]
        return dialect.call(f"q.{kind}", operands, np.broadcast_shapes(lhs, rhs), "int8", **attrs)

    def expected(x: list[np.ndarray]) -> np.ndarray:
        a = x[0].astype(np.int64) - za
        b = (x[1] if fixed is None else fixed).astype(np.int64) - zb
        if kind == "mul":
            return np.clip(multiply(a * b, m, s) + zo, low, high).astype(np.int8)
        a, b = multiply(a << left, am, as_), multiply(b << left, bm, bs)
        return np.clip(multiply(a + b if kind == "add" else a - b, m, s) + zo, low, high).astype(np.int8)

    constant = "" if fixed is None else ", second constant"
    return Case(kind, [lhs, rhs] if fixed is None else [lhs], call, expected, f"{lhs} {rhs}{constant} {attrs}")


@dataclass(frozen=True)
class _Pool:
    data: tuple[int, int, int, int]
    size: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]

    @classmethod
    def draw(cls, generator: np.random.Generator, *, padded: bool) -> _Pool:
        size = (
            (15, _pick(generator, 17, 18))
            if generator.random() < 0.03
            else (_pick(generator, 1, 2, 2, 3, 3, 5), _pick(generator, 1, 2, 2, 3, 3, 7))
        )
        # A window always meets a code: less padding than window.
        padding = tuple(int(generator.integers(0, min(n, 3))) if padded else 0 for n in (*size, *size))
        height = _extent(generator, size[0], 1, padding[0] + padding[2])
        width = _extent(generator, size[1], 1, padding[1] + padding[3])
        channels = _pick(generator, 1, 2, 3, 4, 4, 5, 8, 12, 16, 20)
        strides = (size[0], size[1]) if generator.random() < 0.3 else _strides(generator)
        return cls((_batch(generator), height, width, channels), size, strides, padding)

    @property
    def out_shape(self) -> tuple[int, int, int, int]:
        top, left, bottom, right = self.padding
        height = (self.data[1] + top + bottom - self.size[0]) // self.strides[0] + 1
        width = (self.data[2] + left + right - self.size[1]) // self.strides[1] + 1
        return self.data[0], height, width, self.data[3]

    @property
    def attributes(self) -> dict[str, tuple[int, ...]]:
        return {"pool": self.size, "strides": self.strides, "padding": self.padding}


def _max_pool(generator: np.random.Generator, kind: str) -> Case:
    pool = _Pool.draw(generator, padded=bool(generator.random() < 0.5))
    low, high = _clamps(generator)

    def expected(x: list[np.ndarray]) -> np.ndarray:
        largest = reference.pool(x[0], *pool.attributes.values(), pool.out_shape, lambda w: w.max(axis=(1, 2)))
        return np.clip(largest, low, high).astype(np.int8)

    attrs = {**pool.attributes, "clamp_min": low, "clamp_max": high}
    return Case(
        kind,
        [pool.data],
        lambda v: dialect.call("q.max_pool2d", v, pool.out_shape, "int8", **attrs),
        expected,
        f"{pool} {low}..{high}",
    )


def _average_pool(generator: np.random.Generator, kind: str) -> Case:
    mode = str(generator.choice(["tflm", "truncate", "upward", "requantize"]))
    pool = _Pool.draw(generator, padded=bool(mode != "requantize" and generator.random() < 0.5))
    low, high = _clamps(generator)
    attrs = {**pool.attributes, "mode": mode, "clamp_min": low, "clamp_max": high}
    rounding, input_zero_point, zero_point = str(generator.choice(ROUNDINGS)), _zero_point(generator), 0
    multiplier, shift = _multiplier(generator, generator.uniform(0.1, 3) / (pool.size[0] * pool.size[1]))
    if mode == "requantize":
        zero_point = _zero_point(generator)
        attrs |= {"rounding": rounding, "input_zero_point": input_zero_point, "output_zero_point": zero_point}
        attrs |= {"multiplier": multiplier, "shift": shift}

    def average(window: np.ndarray) -> np.ndarray:
        count, total = window.shape[1] * window.shape[2], window.sum(axis=(1, 2))
        if mode == "requantize":
            return numerics.MULTIPLY[rounding](total - input_zero_point * count, multiplier, shift) + zero_point
        if mode == "upward":
            return (2 * (total + 128 * count) + count) // (2 * count) - 128
        half = count // 2 if mode == "tflm" else 0
        return np.where(total > 0, (total + half) // count, -((-total + half) // count))

    def expected(x: list[np.ndarray]) -> np.ndarray:
        averages = reference.pool(x[0], *pool.attributes.values(), pool.out_shape, average)
        return np.clip(averages, low, high).astype(np.int8)

    return Case(
        kind,
        [pool.data],
        lambda v: dialect.call("q.avg_pool2d", v, pool.out_shape, "int8", **attrs),
        expected,
        f"{pool} {attrs}",
    )


def _softmax(generator: np.random.Generator, kind: str) -> Case:
    shape = _pick(generator, 1, 1, 2, 3), _pick(generator, 1, 2, 3, 4, 7, 10, 12, 100, 300)
    scale = float(2.0 ** generator.uniform(-10, 1))
    if generator.random() < 0.75:
        parameters = numerics.softmax_parameters(scale)
        table, attrs = numerics.softmax_exponentials(parameters), {"mode": "tflm", "factor": 0, "factor_bits": 0}
        attrs["output_zero_point"] = -128
        text = f"{parameters}"
    else:
        table = np.minimum(np.floor(np.exp(-scale * np.arange(256)) * 2.0**31 + 0.5), 2.0**31 - 1).astype(np.int64)
        bits = int(generator.integers(0, 13))
        factor = numerics.round_half_away(256.0 * generator.uniform(0.3, 1.2) * (1 << bits))
        attrs = {"mode": "real", "factor": factor, "factor_bits": bits, "output_zero_point": _zero_point(generator)}
        text = f"scale {scale} {attrs}"

    def expected(x: list[np.ndarray]) -> np.ndarray:
        if attrs["mode"] == "tflm":
            return reference.softmax_tflm(x[0], parameters.multiplier, parameters.shift, parameters.diff_min)
        exponentials = table[x[0].max(axis=1, keepdims=True).astype(np.int64) - x[0]]
        quotients = attrs["factor"] / 2.0 ** attrs["factor_bits"] * exponentials
        rounded = np.floor(quotients / exponentials.sum(axis=1, keepdims=True) + 0.5)
        return np.clip(rounded + attrs["output_zero_point"], -128, 127).astype(np.int8)

    return Case(
        kind,
        [shape],
        lambda v: dialect.call("q.softmax", [v[0], operators.const(table, "int32")], shape, "int8", **attrs),
        expected,
        f"{shape} {text}",
    )


def _table(generator: np.random.Generator, kind: str) -> Case:
    shape, entries = tuple(int(n) for n in generator.integers(1, 9, 2)), random_bytes(generator, (256,))
    return Case(
        kind,
        [shape],
        lambda v: operators.table(v[0], entries, "table"),
        lambda x: entries[x[0].astype(int) + 128],
        f"{shape}",
    )


_OTHERS: dict[str, Callable[[np.random.Generator, str], Case]] = {
    "average pool": _average_pool,
    "max pool": _max_pool,
    "add": _binary,
    "sub": _binary,
    "mul": _binary,
    "softmax": _softmax,
    "table": _table,
}

CLASSES = (*_WINDOWS, "dense", *_OTHERS)
