"""The order of operators: no more memory at once than in the best of all orders, whatever the graph."""

from __future__ import annotations

import itertools
import random

import numpy as np
from support import build_and_run
from tvm import IRModule, relax

from tvm_stm32.compiler import CompileOptions, compile_loaded
from tvm_stm32.graph.order import Work, best_order
from tvm_stm32.model import Model, Provenance, TensorInfo
from tvm_stm32.target import Target


def random_work(generator: random.Random, count: int) -> Work:
    given = generator.randrange(1, 3)
    sizes = [generator.randrange(1, 100) for _ in range(given + count)]
    reads = [
        frozenset(generator.sample(range(given + i), min(given + i, generator.randrange(1, 4)))) for i in range(count)
    ]
    return Work(sizes, given, reads, frozenset([given + count - 1]))


def allowed(work: Work, order: tuple[int, ...]) -> bool:
    place = {number: at for at, number in enumerate(order)}
    return all(place[t - work.given] < place[number] for number in order for t in work.reads[number] if t >= work.given)


def test_the_order_found_is_the_best_of_all():
    generator = random.Random(5)
    for _ in range(60):
        work = random_work(generator, generator.randrange(2, 7))
        order = best_order(work)
        assert allowed(work, tuple(order))
        orders = (order for order in itertools.permutations(range(len(work.reads))) if allowed(work, order))
        assert work.peak(order) == min(work.peak(order) for order in orders)


def test_a_large_graph_is_ordered_by_rule():
    generator = random.Random(6)
    work = random_work(generator, 600)
    order = best_order(work)
    assert sorted(order) == list(range(600)) and allowed(work, tuple(order))


def test_branches_run_one_after_the_other(tmp_path):
    """Four branches that widen and narrow, written level by level: run so, all wide tensors are in use at once."""
    shape = (1, 64)
    first = relax.Var("x", relax.TensorType(shape, "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [first]):
        with builder.dataflow():
            wide = [builder.emit(relax.op.tile(first, (1, 20 + n))) for n in range(4)]
            narrow = [builder.emit(relax.op.sum(value, axis=[1], keepdims=True)) for value in wide]
            total = narrow[0]
            for value in narrow[1:]:
                total = builder.emit(relax.op.subtract(total, value))
            out = builder.emit_output(relax.Tuple([total]))
        builder.emit_func_output(out)
    module = IRModule({"main": builder.get()["main"]})
    info = [TensorInfo("x", shape, "float32")]
    model = Model(module, info, [TensorInfo("out", (1, 1), "float32")], "float", Provenance("zoo", "0" * 64, "test"))
    library = compile_loaded(model, CompileOptions(Target.for_cpu("host"), name="zoo"))
    assert library.arena_size < 64 * 4 * (23 + 1) + 200
    data = np.arange(64, dtype=np.float32).reshape(shape)
    results, _ = build_and_run(library, "host", [data.tobytes()], tmp_path)
    expected = data.sum() * (20 - 21 - 22 - 23)
    assert np.frombuffer(results[0], np.float32)[0] == expected
