"""Each rewrite of the integer graph leaves out an operator (bytes of random graphs: test_dead_channels)."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from tvm_stm32.graph import _apply, dialect, operators
from tvm_stm32.graph.common import without_repetition
from tvm_stm32.graph.naming import adopt_names
from tvm_stm32.graph.peephole import Peephole
from tvm_stm32.graph.simplify import Simplify
from tvm_stm32.graph.ssa import Function, constant, shape_of

CODES = np.arange(-128, 128)
CLAMPS = {"clamp_min": -128, "clamp_max": 127}


def function_of(build, shape=(1, 8, 8, 4)):
    """A function of one int8 input."""
    x = relax.Var("x", relax.TensorType(shape, "int8"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(build(builder.emit, x))
        builder.emit_func_output(out)
    return builder.get()["main"]


def rewritten(function):
    """A view of the function after the rewrites."""
    smaller = _apply(without_repetition(function), lambda view, emit: Simplify(view, emit))
    return Function(adopt_names(_apply(adopt_names(smaller), lambda view, emit: Peephole(view, emit))))


def calls(function):
    """Its calls after the rewrites."""
    return [b.value for b in rewritten(function).bindings if isinstance(b.value, relax.Call)]


def names(function):
    return [dialect.name_of(call) for call in calls(function)]


def convolution(x, *, low=-128, high=127):
    shape = {"strides": [1, 1], "padding": [0] * 4, "dilation": [1, 1], "groups": 1, "input_zero_point": 0}
    weight = np.arange(1, 17).reshape(4, 1, 1, 4)
    r = operators.Requantization(np.full(4, 1 << 30), np.full(4, -3), -128, "tflm", low, high)
    return operators.conv2d(x, weight, np.zeros(4), r, **shape)


def max_pool(x, **changes):
    batch, height, width, channels = shape_of(x)
    attrs = {"pool": [2, 2], "strides": [2, 2], "padding": [0] * 4, **CLAMPS, **changes}
    return dialect.call("q.max_pool2d", [x], (batch, height // 2, width // 2, channels), "int8", **attrs)


def total(left, right, **changes):
    scales = {"lhs_multiplier": 1 << 30, "lhs_shift": 0, "rhs_multiplier": 1 << 30, "rhs_shift": 0}
    attrs = {"lhs_zero_point": 0, "rhs_zero_point": 0, "output_zero_point": 0, "rounding": "tflm", "left_shift": 20,
             "multiplier": 1 << 30, "shift": -18, **scales, **CLAMPS, **changes}  # fmt: skip
    return dialect.call("q.add", [left, right], shape_of(left), "int8", **attrs)


def test_a_table_that_changes_nothing_goes():
    built = function_of(lambda emit, x: convolution(emit(operators.table(x, CODES, "requantize"))))
    assert names(built) == ["q.conv2d"]


def test_a_table_that_changes_nothing_it_meets_goes():
    relu = np.maximum(CODES, -100)
    built = function_of(lambda emit, x: operators.table(emit(convolution(x, low=-100)), relu, "relu"))
    assert names(built) == ["q.conv2d"]


def test_a_table_that_clamps_becomes_the_clamp_of_its_producer():
    entries = np.clip(CODES, -20, 50)
    built = function_of(lambda emit, x: operators.table(emit(convolution(x, low=-100)), entries, "relu6"))
    (call,) = calls(built)
    assert (dialect.attributes(call)["clamp_min"], dialect.attributes(call)["clamp_max"]) == (-20, 50)


def test_a_table_that_does_more_than_clamp_stays():
    entries = np.clip(CODES, -20, 50)
    entries[140] += 1
    assert names(function_of(lambda emit, x: operators.table(emit(convolution(x)), entries, "f")))[-1] == "q.table"


def test_a_clip_beyond_a_clamp_gives_its_own_limit():
    built = function_of(lambda emit, x: relax.op.clip(emit(convolution(x, high=10)), 20, 30))
    (binding,) = Function(_apply(built, lambda view, emit: Peephole(view, emit))).bindings
    attrs = dialect.attributes(binding.value)
    assert (attrs["clamp_min"], attrs["clamp_max"]) == (20, 20)


@pytest.mark.parametrize("swap", [False, True])
def test_a_sum_with_one_number_is_a_table(swap):
    number = operators.const(np.full((1, 1, 1, 4), 20), "int8")

    def build(_emit, x):
        call = total(x, number)
        return relax.Call(call.op, [number, x], call.attrs, call.ty_args) if swap else call

    (call,) = calls(function_of(build))
    assert dialect.name_of(call) == "q.table"
    assert np.array_equal(constant(call.args[1]), np.clip(CODES + 20, -128, 127))


def test_a_sum_with_itself_is_a_table():
    (call,) = calls(function_of(lambda _emit, x: total(x, x)))
    assert np.array_equal(constant(call.args[1]), np.clip(2 * CODES, -128, 127))


def test_two_tables_are_one():
    first, second = np.roll(CODES, 3), CODES[::-1]
    (call,) = calls(function_of(lambda emit, x: operators.table(emit(operators.table(x, first, "a")), second, "b")))
    assert np.array_equal(constant(call.args[1]), second[first + 128])


def test_a_table_that_never_decreases_follows_the_pool():
    halves = CODES // 2
    built = function_of(lambda emit, x: max_pool(emit(operators.table(x, halves, "f"))))
    assert names(built) == ["q.max_pool2d", "q.table"]
    built = function_of(lambda emit, x: max_pool(emit(operators.table(x, -1 - halves, "f"))))
    assert names(built) == ["q.table", "q.max_pool2d"]


@pytest.mark.parametrize(("fill", "left"), [(-128, 1), (-127, 2)])
def test_a_pad_below_every_code_is_padding_of_the_pool(fill, left):
    width = [0, 0, 1, 1, 1, 1, 0, 0]
    built = function_of(lambda emit, x: max_pool(emit(relax.op.nn.pad(x, width, "constant", fill))))
    assert len(names(built)) == left
    assert dialect.attributes(calls(built)[-1])["padding"] == ([1] * 4 if left == 1 else [0] * 4)


def test_equal_values_are_computed_once():
    def build(emit, x):
        first, second = (emit(operators.table(emit(convolution(x)), np.roll(CODES, 1), "f")) for _ in range(2))
        return total(first, second)

    # The sum of a value with itself is a table, and a table of a table is one.
    assert names(function_of(build)) == ["q.conv2d", "q.table"]


def test_what_no_input_changes_is_a_constant():
    fixed = operators.const(np.arange(16).reshape(1, 2, 2, 4), "int8")

    def build(emit, x):
        doubled = emit(total(fixed, fixed))
        wide = emit(relax.op.nn.pad(doubled, [0, 0, 3, 3, 3, 3, 0, 0], "constant", 5.0))
        return total(x, wide)

    view = rewritten(function_of(build))
    (call,) = [b.value for b in view.bindings if isinstance(b.value, relax.Call)]
    expected = np.pad(2 * np.arange(16).reshape(1, 2, 2, 4), ((0, 0), (3, 3), (3, 3), (0, 0)), constant_values=5)
    assert np.array_equal(constant(view.value(call.args[1])), expected)
