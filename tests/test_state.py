"""Variables keep their value from run to run, apart for each instance, and can be reset."""

from __future__ import annotations

import numpy as np
import pytest
from support import build_and_run
from tvm import IRModule, relax

from tvm_stm32.compiler import CompileOptions, compile_loaded
from tvm_stm32.emit.emitter import render
from tvm_stm32.model import Model, Provenance, StateInfo, TensorInfo
from tvm_stm32.target import Target


def accumulator() -> Model:
    """out = old + x; the variables swap: first becomes old + x, second the old first."""
    x, first, second = (relax.Var(name, relax.TensorType((1, 4), "int32")) for name in ("x", "first", "second"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, first, second]):
        with builder.dataflow():
            total = builder.emit(relax.op.add(first, x))
            history = builder.emit(relax.op.subtract(total, second))
            out = builder.emit_output(relax.Tuple([history, total, first]))
        builder.emit_func_output(out)
    info = [TensorInfo(name, (1, 4), "int32") for name in ("x", "history")]
    states = [StateInfo("first", (1, 4), "int32", 5), StateInfo("second", (1, 4), "int32", -1)]
    module = IRModule({"main": builder.get()["main"]})
    return Model(module, [info[0]], [info[1]], "float", Provenance("sum.relay", "0" * 64, "test"), states=states)


def expected(samples):
    first, second = np.full(4, 5), np.full(4, -1)
    for x in samples:
        total = first + x
        yield total - second
        first, second = total, first


@pytest.mark.parametrize("board", ["host", "mps2-an386"])
def test_state_lasts_from_run_to_run(board, tmp_path):
    library = compile_loaded(accumulator(), CompileOptions(Target.for_cpu("host" if board == "host" else "cortex-m4")))
    samples = [np.array([[i, 2 * i, -i, 7]], np.int32) for i in range(1, 6)]
    results, _ = build_and_run(library, board, [sample.tobytes() for sample in samples], tmp_path)
    for result, want in zip(results, expected([sample[0] for sample in samples]), strict=True):
        np.testing.assert_array_equal(np.frombuffer(result, np.int32), want)


def test_reset_is_generated_and_states_share_no_memory():
    library = compile_loaded(accumulator(), CompileOptions(Target.for_cpu("host")))
    text = render(library)[".c"]
    assert "sum_reset(ai_ptr arena)" in text
    assert ", 255, 16U);" in text  # -1 is a pattern of one byte, 5 is not
    assert "variable[i] = 5;" in text
    tensors = [library.tensors[state.tensor] for state in library.states]
    for tensor in tensors:
        for other in library.tensors.values():
            if other is not tensor:
                assert other.offset + other.size <= tensor.offset or tensor.offset + tensor.size <= other.offset
