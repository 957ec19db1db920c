"""Channels that are constant or that nobody reads are left out, and no byte of any output changes."""

from __future__ import annotations

import numpy as np
import pytest
from random_graphs import RandomGraph
from support import CORE_BOARDS, MLPERF_TINY, build_and_run, random_bytes, shared
from tvm import IRModule, relax

from tvm_stm32 import graph, memory
from tvm_stm32.boards import load_board
from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.graph import dialect, operators
from tvm_stm32.graph.dead_channels import Report, remove_dead_channels
from tvm_stm32.graph.ranges import Ranges
from tvm_stm32.graph.ssa import Function, constant, normalized, shape_of
from tvm_stm32.kernels.network import build_library
from tvm_stm32.model import Model, Provenance, TensorInfo

GRAPHS = 24


def model_of(graphs, *, inner=False):
    """Graphs side by side; their outputs, or with ``inner`` every int8 value in them."""
    variables = [g.input for g in graphs]
    bindings = [binding for g in graphs for binding in g.bindings]
    results = [var for g in graphs for var in (g.values() if inner else g.outputs)]
    whole = relax.Tuple(results)
    out = relax.Var("out", whole.ty)
    body = relax.SeqExpr([relax.DataflowBlock([*bindings, relax.VarBinding(out, whole)])], out)
    function = relax.Function(variables, body, out.ty).with_attr("global_symbol", "main")
    inputs = [TensorInfo(v.name, shape_of(v), "int8") for v in variables]
    outputs = [TensorInfo(f"out_{n}", shape_of(v), "int8") for n, v in enumerate(results)]
    return Model(IRModule({"main": function}), inputs, outputs, "tflm", Provenance("zoo", "0" * 64, "test"))


def run(model, module, board, samples, folder):
    """The outputs of each sample, as arrays."""
    library = build_library(module, model, load_board(board).target, "zoo", "time", {})
    memory.plan(library)
    results, _ = build_and_run(library, board, samples, folder)
    sizes = np.cumsum([int(np.prod(info.shape)) for info in model.outputs])[:-1]
    return [np.split(np.frombuffer(result, np.int8), sizes) for result in results], library


def samples_of(model, generator):
    """Inputs that reach the ends of every range more often than noise does."""
    size = sum(int(np.prod(info.shape)) for info in model.inputs)
    ends = generator.choice(np.array([-128, 127], np.int8), size)
    return [random_bytes(generator, (size,)).tobytes(), ends.tobytes(), b"\x80" * size, b"\x7f" * size]


@pytest.mark.parametrize("seed", range(3))
def test_random_graphs_keep_their_bytes(seed, tmp_path):
    graphs = [RandomGraph(np.random.default_rng([seed, n]), f"x{n}") for n in range(GRAPHS)]
    model, everything = model_of(graphs), model_of(graphs, inner=True)
    samples = samples_of(model, np.random.default_rng(seed))
    (tmp_path / "all").mkdir()
    (tmp_path / "less").mkdir()
    wanted, _ = run(everything, everything.module, "host", samples, tmp_path / "all")
    smaller = graph.prepare(model)
    got, library = run(model, smaller, "host", samples, tmp_path / "less")
    assert library.removed_channels > 10 and library.removed_macs > 1000

    values = [var for g in graphs for var in g.values()]
    ranges = Ranges(Function(everything.module["main"]))
    outputs = [values.index(var) for g in graphs for var in g.outputs]
    for whole, part in zip(wanted, got, strict=True):
        for var, codes in zip(values, whole, strict=True):
            found, shaped = ranges.of(var), codes.reshape(shape_of(var))
            assert (found.low <= shaped).all() and (shaped <= found.high).all(), var
        for place, codes in zip(outputs, part, strict=True):
            assert np.array_equal(whole[place], codes), values[place]


@pytest.mark.parametrize("board", [CORE_BOARDS["cortex-m4"], CORE_BOARDS["cortex-m55"]])
def test_smaller_graphs_give_the_same_bytes_on_a_core(board, tmp_path):
    graphs = [RandomGraph(np.random.default_rng([9, n]), f"x{n}") for n in range(GRAPHS // 2)]
    model = model_of(graphs)
    samples = samples_of(model, np.random.default_rng(9))[:2]
    for folder in ("all", "less"):
        (tmp_path / folder).mkdir()
    wanted, _ = run(model, model.module, board, samples, tmp_path / "all")
    smaller = graph.prepare(model, load_board(board).target)
    got, _ = run(model, smaller, board, samples, tmp_path / "less")
    for whole, part in zip(wanted, got, strict=True):
        assert all(np.array_equal(*pair) for pair in zip(whole, part, strict=True))


def relu(channels):
    """A requantization that divides by 256, into codes from -128."""
    return operators.Requantization(np.full(channels, 1 << 30), np.full(channels, -7), -128, "tflm")


def chain(first_bias, weight, *, padding=0, bias=7):
    """A pointwise convolution with the given biases, then one with ``weight``."""
    x = relax.Var("x", relax.TensorType((1, 4, 4, 4), "int8"))
    ones = np.ones((len(first_bias), 1, 1, 4))
    options = {"strides": [1, 1], "dilation": [1, 1], "groups": 1}
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            first = operators.conv2d(x, ones, np.array(first_bias), relu(len(first_bias)), **options,
                                     padding=[0] * 4, input_zero_point=-128)  # fmt: skip
            inner = builder.emit(first)
            last = operators.conv2d(inner, weight, np.full(len(weight), bias), relu(len(weight)), **options,
                                    padding=[padding] * 4, input_zero_point=-128)  # fmt: skip
            out = builder.emit_output(last)
        builder.emit_func_output(out)
    return builder.get()["main"]


def convolutions(function):
    return [b.value for b in Function(function).bindings if dialect.name_of(b.value) == "q.conv2d"]


CLOSED, OPEN, STUCK = -(1 << 20), 20000, 1 << 20


def test_a_channel_that_never_opens_goes():
    function, report = remove_dead_channels(
        chain([OPEN, CLOSED, OPEN, CLOSED, OPEN] * 4, np.ones((4, 3, 3, 20)), padding=1)
    )
    first, last = convolutions(function)
    assert shape_of(first) == (1, 4, 4, 12) and shape_of(last.args[1]) == (4, 3, 3, 12)
    assert report == Report(8, 16 * 8 * 4 + 16 * 4 * 9 * 8)
    assert (constant(last.args[2]) == 7).all()


@pytest.mark.parametrize(("padding", "left"), [(0, 4), (1, 8)])
def test_a_constant_goes_into_the_bias_unless_padding_shows_it(padding, left):
    function, _ = remove_dead_channels(chain([OPEN, STUCK] * 4, np.full((4, 3, 3, 8), 2), padding=padding))
    first, last = convolutions(function)
    assert shape_of(first)[3] == left
    # The constant is 127 with zero point -128: 255 times four channels times nine taps of weight 2.
    assert (constant(last.args[2]) == (7 + 255 * 4 * 9 * 2 if left == 4 else 7)).all()


def test_a_bias_that_would_overflow_keeps_its_channel():
    function = chain([OPEN] * 4 + [STUCK] * 4, np.full((4, 3, 3, 8), 2), bias=2**31 - 100)
    smaller, report = remove_dead_channels(function)
    assert report.channels == 0 and shape_of(convolutions(smaller)[0])[3] == 8


def test_unread_channels_go_back_to_the_first_layer_and_fours_stay():
    weight = np.full((4, 1, 1, 12), 40)
    weight[..., 5:] = 0
    function, _ = remove_dead_channels(chain([OPEN] * 12, weight))
    first, last = convolutions(function)
    # Five are read, and twelve was a multiple of four: three dead ones stay, without weights.
    assert shape_of(first)[3] == 8
    assert not constant(first.args[1])[5:].any() and not constant(last.args[1])[..., 5:].any()


def test_outputs_keep_their_shape():
    function, report = remove_dead_channels(chain([OPEN] * 4, np.zeros((4, 1, 1, 4))))
    assert shape_of(convolutions(function)[-1]) == (1, 4, 4, 4) and report.channels == 0


def test_channels_that_an_operator_without_a_rule_reads_stay():
    function = chain([OPEN, CLOSED] * 4, np.full((4, 1, 1, 8), 40))
    view = Function(function)
    softmax = normalized(
        dialect.call("q.softmax", [view.bindings[0].var, operators.const(np.zeros(256), "int32")], (1, 4, 4, 8), "int8")
    )
    out = relax.Var("out", softmax.ty)
    bindings = [view.bindings[0], relax.VarBinding(out, softmax)]
    body = relax.SeqExpr([relax.DataflowBlock(bindings)], out)
    whole = relax.Function(function.params, body, softmax.ty).with_attr("global_symbol", "main")
    smaller, report = remove_dead_channels(whole)
    assert report.channels == 0 and shape_of(convolutions(smaller)[0])[3] == 8


def test_vww_needs_half_of_its_multiplications():
    path = shared(MLPERF_TINY / "vww_96_int8.tflite")
    library = compile_model(path, CompileOptions(load_board(CORE_BOARDS["cortex-m4"]).target))
    assert library.nominal_macs == 7_489_664
    assert library.macs < 3_800_000
    assert library.constant_bytes < 42_000
    assert [info.shape for info in library.outputs] == [(1, 2)]
