"""Chains of operators in bands of rows give the bytes the operators give one after the other."""

from __future__ import annotations

import numpy as np
import pytest
from kernels.random_cases import cases
from support import build_and_run, random_bytes
from tvm import IRModule, relax

from tvm_stm32 import memory, numerics
from tvm_stm32.graph import dialect, operators
from tvm_stm32.graph.ssa import shape_of
from tvm_stm32.kernels import chains, network
from tvm_stm32.kernels.row_schedule import RowWindow, schedule
from tvm_stm32.model import Model, Provenance, TensorInfo
from tvm_stm32.target import Target


def random_window(generator: np.random.Generator, rows: int) -> RowWindow:
    reach, stride = int(generator.integers(1, 6)), int(generator.integers(1, 4))
    top, bottom = (int(n) for n in generator.integers(0, reach, 2)) if reach <= rows else (reach - 1, reach - 1)
    out = (rows + top + bottom - reach) // stride + 1
    return RowWindow(rows, out, reach, stride, top)


def applied(window: RowWindow, rows: list[object], first: int, count: int) -> list[object]:
    """Rows [first, first + count) of an operator whose result names all it has looked at."""
    found = []
    for out in range(first, first + count):
        above = out * window.stride - window.top
        found.append(tuple(rows[y] if 0 <= y < window.in_rows else None for y in range(above, above + window.reach)))
    return found


@pytest.mark.parametrize("seed", range(60))
def test_a_schedule_makes_every_row_once_from_the_rows_it_needs(seed):
    generator = np.random.default_rng(seed)
    windows = [random_window(generator, int(generator.integers(6, 30)))]
    while len(windows) < int(generator.integers(2, 5)) and windows[-1].out_rows > 1:
        windows.append(random_window(generator, windows[-1].out_rows))
    plan = schedule(windows, int(generator.integers(1, 6)))
    buffers = [[None] * rows for rows in plan.rows]
    result: list[object] = []
    source: list[object] = [f"row {y}" for y in range(windows[0].in_rows)]
    for number, step in enumerate(plan.steps):
        for i, band in enumerate(step):
            if band is None:
                continue
            own = buffers[i]
            own[: band.moved] = own[band.dropped : band.dropped + band.moved]
            start = 0 if i == 0 else plan.base(number, i - 1)
            held = source if i == 0 else [None] * start + buffers[i - 1]
            count = band.out_stop - band.out_start
            made = applied(windows[i], held, band.out_start, count)
            looked = [row for row in made if row is not None]
            assert band.shape[0] > 0 and len(looked) == count
            if i + 1 == len(windows):
                assert band.out_start == len(result)
                result += made
            else:
                own[band.out_start - band.base : band.out_stop - band.base] = made
    expected = source
    for window in windows:
        expected = applied(window, expected, 0, window.out_rows)
    assert result == expected


def chain_network(generator: np.random.Generator, count: int) -> Model:
    """Chains side by side: convolutions one after the other, some with a pool or a sum with an input."""
    variables, inputs, outputs, results = [], [], [], []
    for number in range(count):
        channels = int(generator.choice([4, 8, 8, 12, 16, 5]))
        shape = (1, int(generator.integers(6, 17)), int(generator.choice([4, 8, 12, 9])), channels)
        for name in (f"first_{number}", f"other_{number}"):
            variables.append(relax.Var(name, relax.TensorType(shape, "int8")))
            inputs.append(TensorInfo(name, shape, "int8"))
    builder = relax.BlockBuilder()
    with builder.function("main", variables):
        with builder.dataflow():
            for number in range(count):
                first, other = variables[2 * number : 2 * number + 2]
                residual = number % 2 == 1
                value: relax.Expr = first
                for _ in range(int(generator.integers(1 if residual else 2, 4))):
                    value = builder.emit(random_link(generator, value, keep=residual))
                if residual:
                    added = first if generator.random() < 0.5 else other
                    value = builder.emit(random_sum(generator, value, added))
                results.append(value)
                outputs.append(TensorInfo(f"out_{number}", shape_of(value), "int8"))
            out = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(out)
    module = IRModule({"main": builder.get()["main"]})
    return Model(module, inputs, outputs, "tflm", Provenance("zoo", "0" * 64, "test"))


def random_link(generator: np.random.Generator, data: relax.Expr, *, keep: bool) -> relax.Expr:
    """A convolution of a random kind; ``keep``: of the same shape as its input."""
    _, height, width, channels = shape_of(data)
    depthwise = generator.random() < 0.4
    size = int(generator.choice([1, 3, 3, 3, 5]))
    stride = 1 if keep or min(height, width) < 6 else int(generator.choice([1, 1, 2]))
    half = size // 2
    if not keep and min(height, width) > size and generator.random() < 0.3:
        half = 0
    if not keep and generator.random() < 0.15:
        pool = [2, 2] if min(height, width) > 3 else [1, 1]
        out = [1, (height - pool[0]) + 1, (width - pool[1]) + 1, channels]
        attrs = {"pool": pool, "strides": [1, 1], "padding": [0, 0, 0, 0], "clamp_min": -128, "clamp_max": 127}
        return dialect.call("q.max_pool2d", [data], out, "int8", **attrs)
    groups = channels if depthwise else 1
    out_channels = channels if keep or depthwise else int(generator.choice([4, 8, 12, 6]))
    weight = np.maximum(random_bytes(generator, (out_channels, size, size, channels // groups)), -127)
    bias = generator.integers(-5000, 5000, out_channels).astype(np.int32)
    real = 1.0 / (60 * np.sqrt(weight[0].size)) * generator.uniform(0.5, 1.5, out_channels)
    r = operators.Requantization(*numerics.quantize_multipliers(real), int(generator.integers(-128, 128)), "tflm")
    return operators.conv2d(
        data,
        weight,
        bias,
        r,
        strides=(stride, stride),
        padding=(half, half, half, half),
        dilation=(1, 1),
        groups=groups,
        input_zero_point=int(generator.integers(-128, 128)),
    )


def random_sum(generator: np.random.Generator, value: relax.Expr, other: relax.Expr) -> relax.Expr:
    while True:
        case = cases(generator, "add", 1)[0]
        if len(case.shapes) == 2:
            variables = [relax.Var(f"v{i}", relax.TensorType(shape, "int8")) for i, shape in enumerate(case.shapes)]
            attrs = dialect.attributes(case.call(variables))
            break
    operands = [value, other] if generator.random() < 0.5 else [other, value]
    for key in ("out_shape", "out_dtype"):
        del attrs[key]
    return dialect.call("q.add", operands, shape_of(value), "int8", **attrs)


def whole_chains(view) -> list[chains.Chain]:
    """All operators that follow one another as one chain."""
    found: dict[relax.Var, chains.Chain] = {}
    for binding in view.bindings:
        if isinstance(binding.value, relax.Tuple):
            continue
        variables, chained = (), (0,)
        for index, argument in enumerate(binding.value.args):
            if isinstance(argument, relax.Var) and argument in found:
                before = found.pop(argument)
                variables, chained = before.variables, (*before.chained, index)
                break
        found[binding.var] = chains.Chain((*variables, binding.var), chained)
    return list(found.values())


def built(model: Model, core: str, kernels: str, level: str):
    library = network.build_library(model.module, model, Target.for_cpu(core), "zoo", level, {}, kernels)
    memory.plan(library)
    return library


def test_the_result_may_lie_where_the_other_operand_of_the_sum_was(monkeypatch):
    model = chain_network(np.random.default_rng(1), 12)
    monkeypatch.setattr(network, "sums_behind_convolutions", whole_chains)
    library = built(model, "host", "asm", "time")
    other = [call for call in library.calls[1::2] if len(call.inputs) == 2]
    assert other and all(call.overlaps[call.inputs[1]] == 0 for call in other)


@pytest.mark.parametrize(
    "core, board, kernels, seed",
    [
        ("host", "host", "asm", 0),
        ("cortex-m4", "host", "c", 1),
        ("cortex-m4", "host", "c", 2),
        ("cortex-m3", "host", "c", 3),
        ("cortex-m4", "mps2-an386", "asm", 4),
        ("cortex-m55", "mps3-an547", "asm", 5),
    ],
)
def test_bands_give_the_bytes_of_whole_operators(core, board, kernels, seed, tmp_path, monkeypatch):
    generator = np.random.default_rng(seed)
    model = chain_network(generator, 6)
    samples = [b"".join(random_bytes(generator, info.shape).tobytes() for info in model.inputs) for _ in range(2)]
    monkeypatch.setattr(network, "sums_behind_convolutions", lambda _: [])
    whole, _ = build_and_run(built(model, "host", "asm", "time"), "host", samples, tmp_path, optimize="-O1")
    monkeypatch.setattr(network, "sums_behind_convolutions", whole_chains)
    for rows in (2, int(generator.choice([1, 3, 4]))):
        monkeypatch.setattr(network, "BANDS", (rows,))
        library = built(model, core, kernels, str(generator.choice(["time", "ram"])))
        assert all(call.stages for call in library.calls) and len(library.calls) == 6
        folder = tmp_path / str(rows)
        folder.mkdir()
        banded, _ = build_and_run(library, board, samples, folder, optimize="-O1")
        assert banded == whole, f"{rows} rows"
