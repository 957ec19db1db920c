"""Every int8 kernel gives the reference's bytes: random shapes, on the host and on each emulated core."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from kernels import reference
from support import CORE_BOARDS, build_and_run, random_bytes
from tvm import IRModule, relax

from tvm_stm32 import memory, numerics
from tvm_stm32.graph import dialect, operators
from tvm_stm32.kernels.blocks.matmul_scalar import segment_of
from tvm_stm32.kernels.network import build_library
from tvm_stm32.model import Model, Provenance, TensorInfo
from tvm_stm32.target import Target

ROUNDINGS = ("tflm", "upward", "tonearest", "even")


@dataclass
class Case:
    """An operator: its inputs, the call it makes of their variables, and the codes it must give."""

    inputs: list[np.ndarray]
    call: Callable[[list[relax.Var]], relax.Expr]
    expected: np.ndarray


def requantization(generator, channels, bound, rounding, *, extreme=False):
    """Random multipliers and shifts that bring accumulators of that bound near the int8 range."""
    real = 200.0 / bound * generator.uniform(0.2, 3.0, channels)
    multiplier, shift = numerics.quantize_multipliers(real)
    if extreme:
        multiplier[::2] = (1 << 31) - 1
        multiplier[1::3] = 1 << 30
    low, high = sorted(generator.integers(-128, 128, 2)) if generator.random() < 0.3 else (-128, 127)
    return operators.Requantization(
        multiplier, shift, int(generator.integers(-128, 128)), rounding, int(low), int(high)
    )


def finished(acc, r):
    return reference.finish(acc, r.multiplier, r.shift, r.zero_point, r.rounding, r.clamp_min, r.clamp_max)


def convolution(generator, *, depthwise: bool) -> Case:
    kernel = (int(generator.integers(1, 5)), int(generator.integers(1, 5)))
    dilation = (1, 1) if generator.random() < 0.7 else tuple(int(d) for d in generator.integers(1, 3, 2))
    strides = tuple(int(s) for s in generator.integers(1, 3, 2))
    padding = tuple(int(p) for p in generator.integers(0, 3, 4)) if generator.random() < 0.7 else (0, 0, 0, 0)
    height, width = (int(n) + d * k for n, d, k in zip(generator.integers(1, 8, 2), dilation, kernel, strict=True))
    channels_in = int(generator.choice([1, 2, 3, 4, 5, 8, 16, 20]))
    if depthwise:
        groups, group_in = channels_in, 1
        channels = channels_in * int(generator.choice([1, 1, 1, 2]))
        if channels_in == 1:
            groups = 1
    else:
        groups = 2 if channels_in % 2 == 0 and generator.random() < 0.2 else 1
        group_in = channels_in // groups
        channels = groups * int(generator.choice([1, 2, 3, 4, 7, 8, 16]))
    batch = 2 if generator.random() < 0.15 else 1
    x = random_bytes(generator, (batch, height, width, channels_in))
    weight = random_bytes(generator, (channels, *kernel, group_in))
    if generator.random() < 0.6:
        weight = np.maximum(weight, -127)
    bias = generator.integers(-20000, 20000, channels).astype(np.int32)
    zero_point = int(generator.choice([-128, 127, 0, 5]))
    r = requantization(
        generator,
        channels,
        2000 * np.sqrt(weight[0].size),
        str(generator.choice(ROUNDINGS)),
        extreme=bool(generator.random() < 0.3),
    )
    acc = reference.conv_accumulate(x, weight, bias, strides, padding, dilation, groups, zero_point)
    options = {"strides": strides, "padding": padding, "dilation": dilation, "groups": groups}
    return Case(
        [x],
        lambda v: operators.conv2d(v[0], weight, bias, r, input_zero_point=zero_point, **options),
        finished(acc, r),
    )


def dense(generator) -> Case:
    batch, depth, units = (int(generator.choice(c)) for c in ([1, 1, 3], [1, 3, 8, 13, 64, 100], [1, 2, 7, 8, 9, 24]))
    x, weight = random_bytes(generator, (batch, depth)), random_bytes(generator, (units, depth))
    bias = generator.integers(-20000, 20000, units).astype(np.int32)
    zero_point = int(generator.choice([-128, 127, 0, 5]))
    r = requantization(generator, units, 2000 * np.sqrt(depth), str(generator.choice(ROUNDINGS)))
    acc = (x.astype(np.int64) - zero_point) @ weight.T.astype(np.int64) + bias
    return Case(
        [x],
        lambda v: operators.dense(v[0], weight, bias, r, input_zero_point=zero_point, out_shape=acc.shape),
        finished(acc, r),
    )


def binary(generator) -> Case:
    name = str(generator.choice(["add", "sub", "mul"]))
    shape = tuple(int(n) for n in generator.integers(1, 6, 3))
    other = tuple(1 if generator.random() < 0.3 else n for n in shape)[int(generator.integers(0, 3)) :]
    a, b = random_bytes(generator, shape), random_bytes(generator, other)
    za, zb, zo = (int(z) for z in generator.integers(-128, 128, 3))
    rounding = str(generator.choice(ROUNDINGS))
    multiply = numerics.MULTIPLY[rounding]
    scales = generator.uniform(0.01, 0.2, 3)
    common = {"lhs_zero_point": za, "rhs_zero_point": zb, "output_zero_point": zo, "rounding": rounding}
    common |= {"clamp_min": -128, "clamp_max": 127}
    wide_a, wide_b = a.astype(np.int64) - za, b.astype(np.int64) - zb
    if name == "mul":
        m, s = numerics.quantize_multiplier(scales[0] * scales[1] / scales[2])
        common |= {"multiplier": m, "shift": s}
        value = multiply(wide_a * wide_b, m, s)
    else:
        twice = 2 * max(scales[0], scales[1])
        (am, as_), (bm, bs), (om, os_) = (
            numerics.quantize_multiplier(r)
            for r in (scales[0] / twice, scales[1] / twice, twice / ((1 << 20) * scales[2]))
        )
        common |= {"left_shift": 20, "lhs_multiplier": am, "lhs_shift": as_, "rhs_multiplier": bm}
        common |= {"rhs_shift": bs, "multiplier": om, "shift": os_}
        left, right = multiply(wide_a << 20, am, as_), multiply(wide_b << 20, bm, bs)
        value = multiply(left + right if name == "add" else left - right, om, os_)
    return Case(
        [a, b],
        lambda v: dialect.call(f"q.{name}", v, np.broadcast_shapes(shape, other), "int8", **common),
        np.clip(value + zo, -128, 127).astype(np.int8),
    )


def pool(generator) -> Case:
    size = tuple(int(n) for n in generator.integers(1, 4, 2))
    strides = tuple(int(n) for n in generator.integers(1, 3, 2))
    padding = tuple(int(generator.integers(0, n)) for n in (*size, *size)) if generator.random() < 0.5 else (0,) * 4
    height, width = (int(n) + k for n, k in zip(generator.integers(0, 6, 2), size, strict=True))
    x = random_bytes(generator, (1, height, width, int(generator.integers(1, 9))))
    out_h = (height + padding[0] + padding[2] - size[0]) // strides[0] + 1
    out_w = (width + padding[1] + padding[3] - size[1]) // strides[1] + 1
    shape = (1, out_h, out_w, x.shape[3])
    mode = str(generator.choice(["max", "tflm", "truncate"]))
    attrs = {"pool": size, "strides": strides, "padding": padding}

    def combine(window):
        count = window.shape[1] * window.shape[2]
        if mode == "max":
            return window.max(axis=(1, 2))
        total = window.sum(axis=(1, 2))
        half = count // 2 if mode == "tflm" else 0
        return np.where(total > 0, (total + half) // count, -((-total + half) // count))

    expected = reference.pool(x, size, strides, padding, shape, combine).astype(np.int8)
    if mode == "max":
        return Case([x], lambda v: dialect.call("q.max_pool2d", v, shape, "int8", **attrs), expected)
    attrs |= {"mode": mode, "clamp_min": -128, "clamp_max": 127}
    return Case([x], lambda v: dialect.call("q.avg_pool2d", v, shape, "int8", **attrs), expected)


def table(generator) -> Case:
    x, entries = random_bytes(generator, (3, 7)), random_bytes(generator, (256,))
    return Case([x], lambda v: operators.table(v[0], entries, "table"), entries[x.astype(int) + 128])


def cases(seed: int) -> list[Case]:
    generator = np.random.default_rng(seed)
    made = [convolution(generator, depthwise=False) for _ in range(20)]
    made += [convolution(generator, depthwise=True) for _ in range(16)]
    made += [dense(generator) for _ in range(8)]
    made += [binary(generator) for _ in range(8)]
    made += [pool(generator) for _ in range(8)]
    return [*made, table(generator)]


def network(made: list[Case]) -> tuple[Model, list[bytes]]:
    """All cases side by side in one network with one output each."""
    variables, inputs, outputs = [], [], []
    builder = relax.BlockBuilder()
    for number, case in enumerate(made):
        for position, array in enumerate(case.inputs):
            name = f"in_{number}_{position}"
            variables.append(relax.Var(name, relax.TensorType(array.shape, array.dtype.name)))
            inputs.append(TensorInfo(name, array.shape, array.dtype.name))
    with builder.function("main", variables):
        with builder.dataflow():
            results, used = [], 0
            for number, case in enumerate(made):
                mine = variables[used : used + len(case.inputs)]
                used += len(case.inputs)
                results.append(builder.emit(case.call(mine)))
                outputs.append(TensorInfo(f"out_{number}", case.expected.shape, case.expected.dtype.name))
            out = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(out)
    model = Model(
        IRModule({"main": builder.get()["main"]}), inputs, outputs, "tflm", Provenance("zoo", "0" * 64, "test")
    )
    return model, [b"".join(array.tobytes() for case in made for array in case.inputs)]


# (core, where it runs, language of inner kernels); the DSP extension's blocks in C run on this computer too.
FORMS = [("host", "host", "asm"), *((core, board, "asm") for core, board in CORE_BOARDS.items())]
FORMS += [("cortex-m4", "mps2-an386", "c"), ("cortex-m55", "mps3-an547", "c"), ("cortex-m4", "host", "c")]
# The M0+ has no board here: an M3 runs its code.
FORMS += [(core, "mps2-an385", kernels) for core, kernels in (("cortex-m0plus", "asm"), ("cortex-m3", "c"))]
FORMS += [(core, "host", "c") for core in ("cortex-m0plus", "cortex-m3")]


@pytest.mark.parametrize("core, board, kernels", FORMS)
@pytest.mark.parametrize("seed", [1, 2])
def test_kernels_equal_the_reference(core, board, kernels, seed, tmp_path):
    made = cases(seed)
    model, samples = network(made)
    library = build_library(model.module, model, Target.for_cpu(core), "zoo", "time", {}, kernels)
    memory.plan(library)
    results, _ = build_and_run(
        library, board, samples, tmp_path, cpu=core if core == "cortex-m0plus" and board != "host" else ""
    )
    offset, wrong = 0, []
    for number, case in enumerate(made):
        got = np.frombuffer(results[0], np.int8, case.expected.size, offset).reshape(case.expected.shape)
        offset += case.expected.size
        if not np.array_equal(got, case.expected):
            wrong.append(f"{library.calls[number].operator} {library.calls[number].detail} ({number})")
    assert not wrong


def test_a_shift_that_wraps_between_equal_ends_is_no_constant(tmp_path):
    """Sums 100 and 4180 give 127; those between wrap on their way through TFLM's shift to the left."""
    x = np.arange(-128, 128, dtype=np.int8).reshape(1, 16, 16, 1)
    r = operators.Requantization(np.array([1 << 30]), np.array([20]), 0, "tflm")
    weight, bias = np.full((1, 1, 1, 1), 16, np.int8), np.array([100])
    options = {"strides": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1}
    acc = reference.conv_accumulate(x, weight, bias, *options.values(), -128)
    case = Case([x], lambda v: operators.conv2d(v[0], weight, bias, r, input_zero_point=-128, **options),
                finished(acc, r))  # fmt: skip
    model, samples = network([case])
    library = build_library(model.module, model, Target.for_cpu("host"), "zoo", "time", {})
    memory.plan(library)
    results, _ = build_and_run(library, "host", samples, tmp_path)
    assert set(case.expected.reshape(-1).tolist()) == {-128, 127}
    assert results[0] == case.expected.tobytes()


@pytest.mark.parametrize("core", ["cortex-m0plus", "cortex-m3"])
@pytest.mark.parametrize("beyond", [0, 1])
def test_packed_sums_are_exact_up_to_their_bound(core, beyond, tmp_path):
    """Sums of three pixels share two words while they are in -2^20..2^20 - 1; beyond, the depth is cut."""
    generator = np.random.default_rng(3)
    x = generator.choice(np.array([-128, 127, 0], np.int8), (1, 1, 20, 64))
    x[0, 0, ::3], x[0, 0, 1::3] = -128, 127
    weight = np.stack([np.full((1, 1, 64), w, np.int8) for w in (127, -127, 127, 1)])
    bias = np.array([-8192 - beyond, 8191 + beyond, 0, 0], np.int32)
    assert segment_of(weight.reshape(4, 64), bias, 0) == (64 if not beyond else 32)
    r = operators.Requantization(np.full(4, 1 << 30), np.full(4, -12), 3, "tflm")
    options = {"strides": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1}
    acc = reference.conv_accumulate(x, weight, bias, *options.values(), 0)
    case = Case([x], lambda v: operators.conv2d(v[0], weight, bias, r, input_zero_point=0, **options), finished(acc, r))
    model, samples = network([case])
    library = build_library(model.module, model, Target.for_cpu(core), "zoo", "time", {})
    memory.plan(library)
    results, _ = build_and_run(library, "mps2-an385", samples, tmp_path, cpu=core)
    assert "triples" in library.calls[0].detail
    assert results[0] == case.expected.tobytes()


@pytest.mark.parametrize("core, kernels", [("cortex-m0plus", "asm"), ("cortex-m3", "asm"), ("cortex-m3", "c")])
def test_depthwise_rows_and_cut_depths(core, kernels, tmp_path):
    """Depthwise 3x3 of both strides, few and many columns, channels in fours or not; sums too long for one word."""
    generator = np.random.default_rng(5)
    made = []
    for width, channels, stride in ((3, 4, 1), (5, 12, 1), (9, 8, 2), (16, 3, 1), (7, 5, 1), (20, 4, 1), (21, 4, 2)):
        x = random_bytes(generator, (1, 4, width, channels))
        weight, bias = random_bytes(generator, (channels, 3, 3, 1)), generator.integers(-9000, 9000, channels)
        r = requantization(generator, channels, 6000, "tflm")
        geometry = ((stride, stride), (1, 1, 1, 1), (1, 1), channels)
        acc = reference.conv_accumulate(x, weight, bias.astype(np.int32), *geometry, 5)
        made.append(_case(x, weight, bias.astype(np.int32), r, geometry, 5, acc))
    x, weight = random_bytes(generator, (1, 4, 5, 64)), random_bytes(generator, (5, 3, 3, 64))
    bias, r = np.zeros(5, np.int32), requantization(generator, 5, 60000, "tflm")
    geometry = ((1, 1), (1, 1, 1, 1), (1, 1), 1)
    made.append(_case(x, weight, bias, r, geometry, -7, reference.conv_accumulate(x, weight, bias, *geometry, -7)))
    model, samples = network(made)
    library = build_library(model.module, model, Target.for_cpu(core), "zoo", "time", {}, kernels)
    memory.plan(library)
    results, _ = build_and_run(library, "mps2-an385", samples, tmp_path, cpu=core)
    assert results[0] == b"".join(case.expected.tobytes() for case in made)


def _case(x, weight, bias, r, geometry, zero_point, acc):
    options = dict(zip(("strides", "padding", "dilation", "groups"), geometry, strict=True))
    return Case(
        [x],
        lambda v: operators.conv2d(v[0], weight, bias, r, input_zero_point=zero_point, **options),
        finished(acc, r),
    )
