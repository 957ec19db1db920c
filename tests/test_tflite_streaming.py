"""Streaming TFLite models, as wake-word detectors are: resource variables hold the past, run after run."""

from __future__ import annotations

import numpy as np
import pytest
import tflite
from support import build_and_run
from tflite import BuiltinOperator as Op
from tflite_builder import ModelBuilder, options

from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.emit.emitter import render
from tvm_stm32.emit.report import report
from tvm_stm32.target import Target

FRAMES, CHANNELS = 3, 4
SCALE, ZERO = 0.05, -7


def streaming_model() -> bytes:
    """A ring of the last three frames: dense(concatenate(ring, x)); the ring loses its oldest frame."""
    b = ModelBuilder()
    random = np.random.default_rng(5)

    def codes(name: str, *shape: int) -> int:
        return b.tensor(name, shape, scale=SCALE, zero_point=ZERO)

    x, ring, window, kept = (
        codes("x", 1, 1, CHANNELS),
        codes("past", 1, FRAMES, CHANNELS),
        codes("window", 1, FRAMES + 1, CHANNELS),
        codes("kept", 1, FRAMES, CHANNELS),
    )
    handle = b.tensor("handle", (1,), scale=None, dtype="resource")
    b.operator(Op.VAR_HANDLE, [], [handle], (tflite.BuiltinOptions.VarHandleOptions, {1: ("text", "ring")}))
    b.operator(Op.READ_VARIABLE, [handle], [ring], options("ReadVariable"))
    b.operator(Op.CONCATENATION, [ring, x], [window], options("Concatenation", Axis=1))
    begin = b.constant("begin", np.array([0, 1, 0], np.int32))
    size = b.constant("size", np.array([1, FRAMES, CHANNELS], np.int32))
    b.operator(Op.SLICE, [window, begin, size], [kept], options("Slice"))
    b.operator(Op.ASSIGN_VARIABLE, [handle, kept], [], options("AssignVariable"))
    taps = (FRAMES + 1) * CHANNELS
    weights = b.constant("weights", random.integers(-127, 128, (2, taps)).astype(np.int8), [0.01])
    bias = b.constant("bias", np.array([40, -90], np.int32), [0.01 * SCALE])
    y = b.tensor("y", (1, 2), scale=0.1, zero_point=3)
    b.operator(Op.FULLY_CONNECTED, [window, weights, bias], [y], options("FullyConnected"))
    return b.finish([x], [y])


@pytest.mark.parametrize("board", ["host", "mps2-an386"])
def test_variables_equal_tflite_micro_run_after_run(board, tmp_path):
    runtime = pytest.importorskip("tflite_micro").runtime
    path = tmp_path / "stream.tflite"
    path.write_bytes(streaming_model())
    library = compile_model(path, CompileOptions(Target.for_cpu("host" if board == "host" else "cortex-m4")))
    random = np.random.default_rng(1)
    samples = [random.integers(-128, 128, (1, 1, CHANNELS)).astype(np.int8) for _ in range(8)]
    interpreter = runtime.Interpreter.from_file(str(path), arena_size=1 << 16)
    expected = []
    for sample in samples:
        interpreter.set_input(sample, 0)
        interpreter.invoke()
        expected.append(interpreter.get_output(0).tobytes())
    assert len(set(expected)) > 1
    results, _ = build_and_run(library, board, [sample.tobytes() for sample in samples], tmp_path / "build")
    assert results == expected


def test_a_variable_starts_at_its_zero_point_and_can_be_reset(tmp_path):
    path = tmp_path / "stream.tflite"
    path.write_bytes(streaming_model())
    library = compile_model(path, CompileOptions(Target.for_cpu("cortex-m4")))
    (state,) = report(library)["states"]
    assert state == {"name": "ring", "shape": [1, FRAMES, CHANNELS], "initial": float(ZERO)}
    assert f"{ZERO & 255}, {FRAMES * CHANNELS}U" in render(library)[".c"]
