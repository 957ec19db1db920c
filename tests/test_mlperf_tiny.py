"""The MLPerf Tiny models, on the host and on every core: int8 byte for byte as tflite-micro, float as LiteRT."""

from __future__ import annotations

import numpy as np
import pytest
from support import CORE_BOARDS, MLPERF_TINY, build_and_run, shared

from tvm_stm32.boards import load_board
from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.project.samples import generated, unpack

INT8 = ("ad01_int8", "kws_ref_model", "pretrainedResnet_quant", "vww_96_int8")
FLOAT = ("ad01_fp32", "pretrainedResnet", "vww_96_float")
BOARDS = ["host", *CORE_BOARDS.values()]
SAMPLES = 20
RELATIVE, ABSOLUTE = 1e-5, 1e-6

_references: dict[str, list[bytes]] = {}


def tflite_micro(path, samples):
    """Outputs of the tflite-micro interpreter, computed once for each model."""
    runtime = pytest.importorskip("tflite_micro").runtime
    if path.name not in _references:
        interpreter = runtime.Interpreter.from_file(str(path), arena_size=1 << 20)
        shape = interpreter.get_input_details(0)["shape"]
        outputs = []
        for sample in samples:
            interpreter.set_input(np.frombuffer(sample, np.int8).reshape(shape), 0)
            interpreter.invoke()
            outputs.append(interpreter.get_output(0).tobytes())
        _references[path.name] = outputs
    return _references[path.name]


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("name", INT8)
def test_int8_model_equals_tflite_micro(name, board, tmp_path):
    path = shared(MLPERF_TINY / f"{name}.tflite")
    library = compile_model(path, CompileOptions(load_board(board).target))
    samples = [generated(library.inputs[0], seed) for seed in range(1, SAMPLES + 1)]
    expected = tflite_micro(path, samples)
    results, _ = build_and_run(library, board, samples, tmp_path)
    assert results == expected
    assert not library.float_operators


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("name", FLOAT)
def test_float_model_is_close_to_litert(name, board, tmp_path):
    path = shared(MLPERF_TINY / f"{name}.tflite")
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    library = compile_model(path, CompileOptions(load_board(board).target))
    samples = [generated(library.inputs[0], seed) for seed in (1, 2)]
    # The runtime as a user gets it, XNNPACK: fused multiply-adds too. Its reference kernels round each product.
    interpreter = litert.Interpreter(str(path), num_threads=1)
    interpreter.allocate_tensors()
    expected = []
    for sample in samples:
        details = interpreter.get_input_details()[0]
        interpreter.set_tensor(details["index"], np.frombuffer(sample, np.float32).reshape(details["shape"]))
        interpreter.invoke()
        expected.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
    results, _ = build_and_run(library, board, samples, tmp_path)
    np.testing.assert_allclose(unpack(library.outputs, results)[0], np.stack(expected), RELATIVE, ABSOLUTE)
