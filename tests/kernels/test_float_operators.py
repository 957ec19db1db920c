"""float32 kernels: every byte as by fused multiply-adds in their order, on the host and on each emulated core."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import tvm
from kernels import fused_sums
from kernels.tir_support import WARNINGS
from support import CORE_BOARDS, ROOT, build_and_run, need_board
from tvm import relax

from tvm_stm32 import graph, memory
from tvm_stm32.boards import load_board
from tvm_stm32.graph import dialect
from tvm_stm32.graph.ssa import Function
from tvm_stm32.kernels.network import build_library
from tvm_stm32.model import Model, Provenance, TensorInfo

op = relax.op
INFINITY = float("inf")


@dataclass
class Case:
    """An operator of one input: how plain Relax writes it, and what it must give (NHWC)."""

    data: np.ndarray
    build: Callable[[relax.BlockBuilder, relax.Var], relax.Expr]
    expected: np.ndarray


def floats(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers around 1, now and then 0."""
    values = np.where(generator.random(shape) < 0.9, generator.normal(0, 1, shape), 0)
    return values.astype(np.float32)


def activation(generator: np.random.Generator) -> tuple[Callable[[relax.Expr], relax.Expr], float, float]:
    """An activation as Relax, and its bounds."""
    low, high = sorted(float(np.float32(bound)) for bound in generator.normal(0, 1, 2))
    return [
        (lambda x: x, -INFINITY, INFINITY),
        (op.nn.relu, 0.0, INFINITY),
        (op.nn.relu6, 0.0, 6.0),
        (lambda x: op.clip(x, 0, 0.75), 0.0, 0.75),
        (lambda x: op.clip(x, low, high), low, high),
    ][int(generator.integers(0, 5))]


def convolution(generator: np.random.Generator, kind: str) -> Case:
    kernel = tuple(int(n) for n in generator.choice([1, 1, 2, 3, 5], 2))
    strides = tuple(int(n) for n in generator.integers(1, 4, 2))
    dilation = tuple(int(n) for n in generator.choice([1, 1, 1, 2, 3], 2))
    if kind == "pointwise":
        kernel, strides, dilation = (1, 1), (1, 1), (1, 1)
    reach = [rate * (size - 1) + 1 for rate, size in zip(dilation, kernel, strict=True)]
    # Every window has taps inside the input.
    padding = [int(generator.integers(0, reach[axis % 2])) if generator.random() < 0.6 else 0 for axis in range(4)]
    least = [max(dilation[axis], reach[axis] - padding[axis] - padding[axis + 2]) for axis in (0, 1)]
    batch = int(generator.choice([1, 1, 2]))
    height, width = (size + int(generator.integers(0, 9)) for size in least)
    channels_in, channels = (int(n) for n in generator.choice([1, 2, 3, 4, 5, 8, 13, 18], 2))
    groups, group_in = 1, channels_in
    if kind == "depthwise":
        channels_in = int(generator.choice([2, 3, 8, 15, 16, 20, 24, 41]))
        groups, group_in, channels = channels_in, 1, channels_in
    elif kind == "grouped":
        groups, group_in = int(generator.integers(2, 4)), int(generator.integers(4, 7))
        channels_in, channels = groups * group_in, groups * int(generator.integers(1, 6))
    data = floats(generator, (batch, height, width, channels_in))
    weight, bias = floats(generator, (channels, *kernel, group_in)), floats(generator, (channels,))
    apply, low, high = activation(generator)
    nchw = bool(generator.integers(0, 2))
    filters = weight.transpose(0, 3, 1, 2) if nchw else weight.transpose(1, 2, 3, 0)

    def build(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        layout, axes = ("NCHW", (1, -1, 1, 1)) if nchw else ("NHWC", (-1,))
        source = builder.emit(op.permute_dims(x, [0, 3, 1, 2])) if nchw else x
        sums = op.nn.conv2d(
            source,
            relax.const(np.ascontiguousarray(filters)),
            strides=strides,
            padding=padding,
            dilation=dilation,
            groups=groups,
            data_layout=layout,
            kernel_layout="OIHW" if nchw else "HWIO",
        )
        biased = builder.emit(op.add(builder.emit(sums), relax.const(bias.reshape(axes))))
        result = builder.emit(builder.normalize(apply(biased)))
        return op.permute_dims(result, [0, 2, 3, 1]) if nchw else result

    sums = fused_sums.conv2d(data, weight, bias, strides, padding, dilation, groups)
    return Case(data, build, fused_sums.bounded(sums, low, high))


def dense(generator: np.random.Generator) -> Case:
    rows, depth, units = (
        int(generator.choice(sizes)) for sizes in ([1, 1, 3, 4, 9], [1, 2, 7, 16, 37, 100], [1, 2, 4, 7, 18, 33])
    )
    data, weight, bias = (floats(generator, shape) for shape in ((rows, depth), (units, depth), (units,)))
    apply, low, high = activation(generator)

    def build(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        sums = builder.emit(op.matmul(x, relax.const(np.ascontiguousarray(weight.T))))
        return apply(builder.emit(op.add(sums, relax.const(bias))))

    return Case(data, build, fused_sums.bounded(fused_sums.dense(data, weight, bias), low, high))


def cases(seed: int, count: int) -> list[Case]:
    generator = np.random.default_rng(seed)
    kinds = ("general", "general", "pointwise", "depthwise", "grouped")
    return [
        dense(generator) if number % 6 == 5 else convolution(generator, kinds[number % 6]) for number in range(count)
    ]


def network(made: list[Case], name: str = "cases") -> Model:
    """One network with all the cases side by side."""
    variables = [relax.Var(f"x{i}", relax.TensorType(case.data.shape, "float32")) for i, case in enumerate(made)]
    builder = relax.BlockBuilder()
    with builder.function("main", variables):
        with builder.dataflow():
            results = [
                builder.emit_output(builder.normalize(case.build(builder, variable)), f"y{i}")
                for i, (case, variable) in enumerate(zip(made, variables, strict=True))
            ]
        builder.emit_func_output(relax.Tuple(results))
    inputs = [TensorInfo(f"x{i}", case.data.shape, "float32") for i, case in enumerate(made)]
    outputs = [TensorInfo(f"y{i}", case.expected.shape, "float32") for i, case in enumerate(made)]
    return Model(builder.finalize(), inputs, outputs, "float", Provenance(name, "0" * 64, "test"))


def library_of(model: Model, board: str):
    library = build_library(graph.prepare(model), model, load_board(board).target, "cases", "time", {})
    memory.plan(library)
    return library


def check(made: list[Case], board: str, folder) -> None:
    library = library_of(network(made), board)
    packed = b"".join(case.data.tobytes() for case in made)
    (result,), _ = build_and_run(library, board, [packed], folder)
    for number, case in enumerate(made):
        size = case.expected.nbytes
        got, result = np.frombuffer(result[:size], np.float32), result[size:]
        np.testing.assert_array_equal(
            got.view(np.uint32).reshape(case.expected.shape), case.expected.view(np.uint32), f"case {number}"
        )


@pytest.mark.parametrize("seed", range(4))
def test_random_operators_on_the_host(seed, tmp_path):
    check(cases(seed, 30), "host", tmp_path)


@pytest.mark.parametrize("board", CORE_BOARDS.values())
def test_random_operators_on_each_core(board, tmp_path):
    check(cases(100, 24), board, tmp_path)


def test_everything_random_has_a_kernel_of_its_own():
    library = library_of(network(cases(0, 30)), "host")
    left = {call.operator for call in library.calls} - {"conv2d", "depthwise_conv2d", "dense"}
    assert left <= {"transpose"}, left


def test_edges_of_numbers_round_as_one(tmp_path):
    """Subnormals, overflow and cancellation, where the FPU computes and where integers do."""
    generator = np.random.default_rng(9)
    exponents = generator.choice([-149, -140, -127, -100, -64, -20, 0, 20, 63, 64, 100, 127], (64, 3))
    values = np.ldexp(generator.uniform(1, 2, (64, 3)) * generator.choice([-1, 1], (64, 3)), exponents)
    with np.errstate(all="ignore"):
        x, w, bias = np.ascontiguousarray(values.astype(np.float32).T)
        weight = np.diag(w).reshape(64, 1, 1, 64)[:, :, :, :1] * 0 + w.reshape(64, 1, 1, 1)
        data = x.reshape(1, 1, 1, 64)
        expected = fused_sums.fma(data, w, bias)
    keep = np.isfinite(expected.ravel())
    data, weight, bias, expected = data[..., keep], weight[keep], bias[keep], expected[..., keep]

    def build(builder: relax.BlockBuilder, v: relax.Var) -> relax.Expr:
        filters = relax.const(np.ascontiguousarray(weight.transpose(1, 2, 0, 3)))
        layouts = {"data_layout": "NHWC", "kernel_layout": "HWOI"}
        sums = builder.emit(op.nn.conv2d(v, filters, groups=len(weight), **layouts))
        return op.add(sums, relax.const(bias))

    for board in ("host", CORE_BOARDS["cortex-m3"], CORE_BOARDS["cortex-m4"]):
        check([Case(data, build, expected)], board, tmp_path / board)


FMA_TEST = """
#define AI_KERNELS_PORTABLE
#include "ai_kernels_float.h"
#include <math.h>
#include <stdio.h>

static const uint32_t edges[] = {
    0x00000000U, 0x80000000U, 0x00000001U, 0x80000001U, 0x007FFFFFU, 0x00800000U, 0x00800001U, 0x00FFFFFFU,
    0x33000000U, 0x33800000U, 0x3F7FFFFFU, 0x3F800000U, 0xBF800000U, 0x3F800001U, 0x4B800000U, 0x7F7FFFFFU,
    0xFF7FFFFFU, 0x7F800000U, 0xFF800000U, 0x7FC00000U,
};
static uint64_t state = UINT64_C(88172645463325252);

static uint32_t random_bits(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 16);
}

static uint32_t operand(uint32_t kind)
{
    const uint32_t bits = random_bits();
    switch (kind) {
    case 0U:
        return bits;
    case 1U:
        return (bits & 0x807FFFFFU) | ((110U + random_bits() % 40U) << 23);
    case 2U:
        return edges[bits % 20U];
    case 3U:
        return bits & 0x80FFFFFFU;
    default:
        return (bits & 0x80700000U) | ((120U + random_bits() % 20U) << 23);
    }
}

static float number(uint32_t bits)
{
    return ai_float_of_bits((int32_t)bits);
}

static int differs(uint32_t a, uint32_t b, uint32_t c)
{
    const float expected = fmaf(number(a), number(b), number(c));
    const float got = ai_fmaf_exact(number(a), number(b), number(c));
    if ((ai_float_bits(expected) == ai_float_bits(got)) || (isnan(expected) && isnan(got))) {
        return 0;
    }
    (void)printf("%08x * %08x + %08x: %a, not %a\\n", (unsigned)a, (unsigned)b, (unsigned)c, (double)expected,
                 (double)got);
    return 1;
}

int main(void)
{
    uint32_t i;
    for (i = 0U; i < 8000U; i++) {
        if (differs(edges[i / 400U], edges[i / 20U % 20U], edges[i % 20U]) != 0) {
            return 1;
        }
    }
    for (i = 0U; i < 4000000U; i++) {
        const uint32_t a = operand(random_bits() % 5U);
        const uint32_t b = operand(random_bits() % 5U);
        const float product = -number(a) * number(b);
        /* Near cancellation in every fourth. */
        const uint32_t c = (i % 4U == 0U) ? (uint32_t)ai_float_bits(product) + random_bits() % 5U - 2U
                                          : operand(random_bits() % 5U);
        if (differs(a, b, c) != 0) {
            return 1;
        }
    }
    return 0;
}
"""


def test_multiply_add_in_integers_equals_the_library(tmp_path):
    need_board("host")
    source, program = tmp_path / "fma.c", tmp_path / "fma"
    source.write_text(FMA_TEST)
    include = f"-I{ROOT / 'runtime' / 'include'}"
    flags = [flag for flag in WARNINGS if flag != "-Wfloat-equal"]
    subprocess.run(["cc", *flags, "-O2", include, source, "-o", program, "-lm"], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_products_are_few_instructions(tmp_path):
    """At most 1.4 instructions a multiply-accumulate on a core with an FPU: pointwise convolution and dense layer."""
    generator = np.random.default_rng(1)

    def pointwise(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        filters = relax.const(floats(generator, (1, 1, 64, 64)))
        sums = builder.emit(op.nn.conv2d(x, filters, data_layout="NHWC", kernel_layout="HWIO"))
        return op.nn.relu(builder.emit(op.add(sums, relax.const(floats(generator, (64,))))))

    def layer(_builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        return op.matmul(x, relax.const(floats(generator, (640, 128))))

    shapes = {(1, 25, 5, 64): ((1, 25, 5, 64), pointwise), (1, 640): ((1, 128), layer)}
    board = CORE_BOARDS["cortex-m4"]
    for number, (shape, (out_shape, build)) in enumerate(shapes.items()):
        case = Case(floats(generator, shape), build, np.zeros(out_shape, np.float32))
        library = library_of(network([case]), board)
        folder = tmp_path / str(number)
        _, result = build_and_run(library, board, [case.data.tobytes()], folder, count=True)
        assert result.instructions[0] <= 1.4 * library.macs


def bindings(model: Model) -> list[str]:
    return [dialect.name_of(binding.value) for binding in Function(graph.prepare(model)["main"]).bindings]


def test_nchw_networks_keep_no_transpose_but_the_first(tmp_path):
    """Convolutions, batch norm, relu, pool, sum and flatten in NCHW: one transpose of the input is left."""
    generator = np.random.default_rng(2)
    filters = [floats(generator, (8, 3, 3, 3)), floats(generator, (8, 8, 3, 3))]
    scale, shift, mean, variance = (np.abs(floats(generator, (8,))) + np.float32(0.5) for _ in range(4))
    weight = floats(generator, (8 * 3 * 4, 5))

    def build(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        def conv(source, number):
            return builder.emit(op.nn.conv2d(source, relax.const(filters[number]), padding=1))

        statistics = [relax.const(array) for array in (scale, shift, mean, variance)]
        normed = builder.emit(op.nn.batch_norm(conv(x, 0), *statistics, axis=1, training=False))
        first = builder.emit(op.nn.relu(builder.emit(relax.TupleGetItem(normed, 0))))
        summed = builder.emit(op.add(conv(first, 1), first))
        pooled = builder.emit(op.nn.max_pool2d(builder.emit(op.nn.relu(summed)), (2, 2), (2, 2)))
        return op.matmul(builder.emit(op.reshape(pooled, (1, len(weight)))), relax.const(weight))

    def conv(source, number):
        ohwi = filters[number].transpose(0, 2, 3, 1)
        return fused_sums.conv2d(source, ohwi, np.zeros(8, np.float32), (1, 1), (1, 1, 1, 1), (1, 1), 1)

    data = floats(generator, (1, 3, 6, 8))
    normed = (conv(data.transpose(0, 2, 3, 1), 0) - mean) / np.sqrt(variance + np.float32(1e-5)) * scale + shift
    first = np.maximum(normed, 0)
    blocks = np.maximum(conv(first, 1) + first, 0).reshape(1, 3, 2, 4, 2, 8)
    expected = blocks.max(axis=(2, 4)).transpose(0, 3, 1, 2).reshape(1, -1) @ weight

    model = network([Case(data, build, expected)])
    names = bindings(model)
    assert names.count("relax.permute_dims") == 1
    assert names.count("f.conv2d") == 2
    assert names.count("f.dense") == 1
    # The batch norm and the first relu are part of the convolution.
    assert not {"relax.multiply", "relax.subtract", "relax.sqrt"} & set(names)
    assert names.count("relax.nn.relu") == 1
    (result,), _ = build_and_run(library_of(model, "host"), "host", [data.tobytes()], tmp_path)
    np.testing.assert_allclose(np.frombuffer(result, np.float32).reshape(1, 5), expected, 1e-5, 1e-5)


LETS_PASS = {
    "prelu": lambda x: op.nn.prelu(x, relax.const(np.float32([0.1, 0.2, 0.3, 0.4])), axis=1),
    "softmax": lambda x: op.nn.softmax(x, axis=1),
    "mean": lambda x: op.mean(x, [2, 3], keepdims=True),
    "average": lambda x: op.nn.avg_pool2d(x, (2, 2), (2, 2)),
    "global average": lambda x: op.nn.adaptive_avg_pool2d(x, (1, 1)),
    "sigmoid": lambda x: op.sigmoid(x),
    "product": lambda x: op.multiply(x, x),
    "constant": lambda x: op.maximum(x, relax.const(np.float32([1, 2, 3, 4]).reshape(4, 1, 1))),
    "concatenation": lambda x: op.concat([x, x], axis=1),
}


@pytest.mark.parametrize("name", LETS_PASS)
def test_transposes_move_through(name, tmp_path):
    """Between a convolution in NCHW and the next; the result is TVM's own."""
    generator = np.random.default_rng(5)
    channels = 8 if name == "concatenation" else 4

    def build(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        first, last = (relax.const(floats(generator, (4, n, 1, 1))) for n in (3, channels))
        middle = builder.emit(LETS_PASS[name](builder.emit(op.nn.conv2d(x, first))))
        return op.nn.conv2d(middle, last)

    data = floats(generator, (1, 3, 4, 6))
    model = network([Case(data, build, np.zeros(1, np.float32))])
    # That of the input and that of the output.
    assert bindings(model).count("relax.permute_dims") <= 2
    executable = tvm.compile(model.module, "llvm")
    machine = relax.VirtualMachine(executable, tvm.cpu())
    expected = machine["main"](tvm.runtime.tensor(data))[0].numpy()
    model.outputs[0] = TensorInfo("y0", expected.shape, "float32")
    (result,), _ = build_and_run(library_of(model, "host"), "host", [data.tobytes()], tmp_path)
    np.testing.assert_allclose(np.frombuffer(result, np.float32).reshape(expected.shape), expected, 1e-5, 1e-6)


@pytest.mark.parametrize("layout", ["NCW", "NWC"])
def test_convolutions_over_a_row(layout, tmp_path):
    generator = np.random.default_rng(3)
    data, weight = floats(generator, (2, 9, 5)), floats(generator, (6, 1, 3, 5))
    turned = layout == "NCW"

    def build(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        source = builder.emit(op.permute_dims(x, [0, 2, 1])) if turned else x
        filters = relax.const(np.ascontiguousarray(weight[:, 0].transpose(0, 2, 1)))
        sums = op.nn.conv1d(source, filters, strides=2, padding=(1, 2), data_layout=layout, kernel_layout="OIW")
        return op.permute_dims(builder.emit(sums), [0, 2, 1]) if turned else sums

    bias = np.zeros(6, np.float32)
    expected = fused_sums.conv2d(data[:, None], weight, bias, (1, 2), (0, 1, 0, 2), (1, 1), 1)[:, 0]
    case = Case(data, build, expected)
    assert "f.conv2d" in bindings(network([case]))
    check([case], "host", tmp_path)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_zeros_padded_before_a_convolution_are_its_padding(layout, tmp_path):
    generator = np.random.default_rng(4)
    data, weight = floats(generator, (1, 6, 5, 4)), floats(generator, (7, 3, 3, 4))
    turned = layout == "NCHW"

    def build(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        source = builder.emit(op.permute_dims(x, [0, 3, 1, 2])) if turned else x
        width = [0, 0, 0, 0, 1, 2, 0, 1] if turned else [0, 0, 1, 2, 0, 1, 0, 0]
        padded = builder.emit(op.nn.pad(source, width, "constant", 0.0))
        filters = relax.const(np.ascontiguousarray(weight.transpose(0, 3, 1, 2)))
        sums = op.nn.conv2d(padded, filters, strides=2, data_layout=layout, kernel_layout="OIHW")
        return op.permute_dims(builder.emit(sums), [0, 2, 3, 1]) if turned else sums

    bias = np.zeros(7, np.float32)
    expected = fused_sums.conv2d(data, weight, bias, (2, 2), (1, 0, 2, 1), (1, 1), 1)
    case = Case(data, build, expected)
    assert "relax.nn.pad" not in bindings(network([case]))
    check([case], "host", tmp_path)


def test_what_has_no_kernel_stays_as_it_is():
    """Weights that are no constants, narrow groups, windows that see only padding: plain loops."""

    def narrow(_builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        filters = relax.const(np.ones((1, 1, 2, 8), np.float32))
        return op.nn.conv2d(x, filters, groups=4, data_layout="NHWC", kernel_layout="HWIO")

    def lost(_builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        filters = relax.const(np.ones((1, 1, 8, 2), np.float32))
        return op.nn.conv2d(x, filters, padding=1, data_layout="NHWC", kernel_layout="HWIO")

    def square(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        return op.matmul(x, builder.emit(op.permute_dims(x)))

    image = (1, 3, 3, 8)
    for shape, build, out_shape in ((image, narrow, image), (image, lost, (1, 5, 5, 2)), ((3, 4), square, (3, 3))):
        case = Case(np.zeros(shape, np.float32), build, np.zeros(out_shape, np.float32))
        assert not any(name.startswith("f.") for name in bindings(network([case])))
