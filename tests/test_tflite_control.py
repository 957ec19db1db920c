"""CALL, IF and WHILE of TFLite models, compared with LiteRT's reference kernels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tflite
from support import build_and_run
from tflite import BuiltinOperator as Op
from tflite_builder import ModelBuilder, Network, options

from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.errors import ModelError
from tvm_stm32.target import Target

SHAPE = (1, 6)
FLOAT = tflite.TensorType.FLOAT32


def subgraph(build: Callable[[ModelBuilder], tuple[list[int], list[int]]]) -> Network:
    b = ModelBuilder()
    inputs, outputs = build(b)
    return Network(b.tensors, b.operators, inputs, outputs)


def unary(code: int) -> Callable[[ModelBuilder], tuple[list[int], list[int]]]:
    def build(b: ModelBuilder) -> tuple[list[int], list[int]]:
        x, y = (b.tensor(name, SHAPE, scale=None, dtype="float32") for name in ("in", "out"))
        b.operator(code, [x], [y])
        return [x], [y]

    return build


def call() -> Network:
    def build(b: ModelBuilder) -> tuple[list[int], list[int]]:
        x, y, z = (b.tensor(name, SHAPE, scale=None, dtype="float32") for name in "xyz")
        b.operator(Op.CALL, [x], [y], options("Call", Subgraph=1))
        b.operator(Op.CALL, [y], [z], options("Call", Subgraph=1))
        return [x], [z]

    main = subgraph(build)
    main.others = [subgraph(unary(Op.EXP))]
    return main


def choice() -> Network:
    """abs(x) where the sum is positive, else exp(x)."""

    def build(b: ModelBuilder) -> tuple[list[int], list[int]]:
        x, y = (b.tensor(name, SHAPE, scale=None, dtype="float32") for name in "xy")
        total = b.tensor("total", (), scale=None, dtype="float32")
        axes = b.constant("axes", np.array([0, 1], np.int32))
        b.operator(Op.SUM, [x, axes], [total], options("Reducer", KeepDims=False))
        condition = b.tensor("condition", (), scale=None, dtype="bool")
        zero = b.constant("zero", np.array(0, np.float32))
        b.operator(Op.GREATER, [total, zero], [condition], options("Greater"))
        b.operator(Op.IF, [condition, x], [y], options("If", ThenSubgraphIndex=1, ElseSubgraphIndex=2))
        return [x], [y]

    main = subgraph(build)
    main.others = [subgraph(unary(Op.ABS)), subgraph(unary(Op.EXP))]
    return main


def loop(limit: bool = True) -> Network:
    """x doubled four times; without ``limit`` until an element of it is large."""

    def build(b: ModelBuilder) -> tuple[list[int], list[int]]:
        x, y = (b.tensor(name, SHAPE, scale=None, dtype="float32") for name in "xy")
        start = b.constant("start", np.array(0, np.int32))
        count = b.tensor("count", (), scale=None, dtype="int32")
        b.operator(Op.WHILE, [start, x], [count, y], options("While", CondSubgraphIndex=1, BodySubgraphIndex=2))
        return [x], [y]

    def condition(b: ModelBuilder) -> tuple[list[int], list[int]]:
        i = b.tensor("i", (), scale=None, dtype="int32")
        x = b.tensor("x", SHAPE, scale=None, dtype="float32")
        more = b.tensor("more", (), scale=None, dtype="bool")
        if limit:
            b.operator(Op.LESS, [i, b.constant("four", np.array(4, np.int32))], [more], options("Less"))
        else:
            top = b.tensor("top", (), scale=None, dtype="float32")
            axes = b.constant("axes", np.array([0, 1], np.int32))
            b.operator(Op.REDUCE_MAX, [x, axes], [top], options("Reducer", KeepDims=False))
            b.operator(Op.LESS, [top, b.constant("large", np.array(9, np.float32))], [more], options("Less"))
        return [i, x], [more]

    def body(b: ModelBuilder) -> tuple[list[int], list[int]]:
        i, j = (b.tensor(name, (), scale=None, dtype="int32") for name in "ij")
        x, y = (b.tensor(name, SHAPE, scale=None, dtype="float32") for name in "xy")
        b.operator(Op.ADD, [i, b.constant("one", np.array(1, np.int32))], [j], options("Add"))
        b.operator(Op.ADD, [x, x], [y], options("Add"))
        return [i, x], [j, y]

    main = subgraph(build)
    main.others = [subgraph(condition), subgraph(body)]
    return main


def litert(path: Path, samples: list[np.ndarray]) -> list[np.ndarray]:
    module = pytest.importorskip("ai_edge_litert.interpreter")
    kernels = module.OpResolverType.BUILTIN_REF
    interpreter = module.Interpreter(str(path), experimental_op_resolver_type=kernels)
    interpreter.allocate_tensors()
    results = []
    for sample in samples:
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], sample)
        interpreter.invoke()
        results.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).copy())
    return results


def numpy_reference(name: str, x: np.ndarray) -> np.ndarray:
    if name == "call":
        return np.exp(np.exp(x))
    if name == "choice":
        return np.abs(x) if x.sum() > 0 else np.exp(x)
    return x * 16


@pytest.mark.parametrize("build", [call, choice, loop])
def test_subgraphs(build, tmp_path):
    path = tmp_path / "control.tflite"
    path.write_bytes(build().build())
    library = compile_model(path, CompileOptions(Target.for_cpu("host")))
    samples = [np.array([[s, -2 * s, 0.5, s, 3 * s, -0.25]], np.float32) for s in (1, -1, 0.3)]
    results, _ = build_and_run(library, "host", [sample.tobytes() for sample in samples], tmp_path / "build")
    for sample, result in zip(samples, results, strict=True):
        got = np.frombuffer(result, np.float32).reshape(SHAPE)
        np.testing.assert_allclose(got, numpy_reference(build.__name__, sample), rtol=1e-6)


@pytest.mark.parametrize("build", [choice, loop])
def test_references_agree(build, tmp_path):
    path = tmp_path / "control.tflite"
    path.write_bytes(build().build())
    samples = [np.array([[s, -2 * s, 0.5, s, 3 * s, -0.25]], np.float32) for s in (1, -1)]
    for sample, result in zip(samples, litert(path, samples), strict=True):
        np.testing.assert_allclose(result, numpy_reference(build.__name__, sample), rtol=1e-6)


def test_loop_whose_end_depends_on_values_is_refused(tmp_path):
    path = tmp_path / "control.tflite"
    path.write_bytes(loop(limit=False).build())
    with pytest.raises(ModelError, match="WHILE that makes 'count'") as error:
        compile_model(path, CompileOptions(Target.for_cpu("host")))
    assert "how many steps it takes depends on values" in str(error.value.why)


def test_endless_and_recursive_subgraphs_are_refused(tmp_path):
    endless = loop()
    endless.others[1].operators[0].inputs = [0, 0]  # i + i stays 0
    recursive = call()
    recursive.others[0].operators = recursive.operators[:1]
    recursive.others[0].tensors = recursive.tensors
    for network, reason in ((endless, "past 20,000 operators"), (recursive, "contains it")):
        path = tmp_path / "control.tflite"
        path.write_bytes(network.build())
        with pytest.raises(ModelError) as error:
            compile_model(path, CompileOptions(Target.for_cpu("host")))
        assert reason in f"{error.value.message} {error.value.why}"
