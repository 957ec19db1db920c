"""Every quantized TFLite operator with a rule of this project gives the bytes of tflite-micro, on host and M4."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support import build_and_run
from tflite_cases import GROUPS, Battery

from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.library import Library
from tvm_stm32.target import Target

SAMPLES = 3


def battery(names: list[tuple[str, str]], repeats: int, seed: int) -> Battery:
    """``repeats`` random instances of each case in one model."""
    made = Battery(random=np.random.default_rng(seed))
    for number in range(repeats):
        for group, name in names:
            made.label = f"{name}{number}"
            GROUPS[group][name](made)
    return made


def references(path: Path, made: Battery, samples: list[list[np.ndarray]]) -> list[list[bytes]]:
    """The outputs of tflite-micro for each sample."""
    runtime = pytest.importorskip("tflite_micro").runtime
    interpreter = runtime.Interpreter.from_file(str(path), arena_size=1 << 22)
    results = []
    for sample in samples:
        for index, data in enumerate(sample):
            interpreter.set_input(data, index)
        interpreter.invoke()
        results.append([interpreter.get_output(index).tobytes() for index in range(len(made.outputs))])
    return results


def parts(library: Library, result: bytes) -> list[bytes]:
    """The packed outputs of a run, one by one."""
    found, offset = [], 0
    for name in library.output_tensors:
        size = library.tensors[name].size
        found.append(result[offset : offset + size])
        offset += size
    return found


def check(
    names: list[tuple[str, str]], repeats: int, seed: int, cpu: str, board: str, folder: Path, level: str = "time"
) -> None:
    made = battery(names, repeats, seed)
    path = folder / "model.tflite"
    path.write_bytes(made.finish(made.inputs, made.outputs))
    samples = [[feed() for feed in made.feeds] for _ in range(SAMPLES)]
    expected = references(path, made, samples)
    library = compile_model(path, CompileOptions(Target.for_cpu(cpu), level))
    packed = [b"".join(data.tobytes() for data in sample) for sample in samples]
    results, _ = build_and_run(library, board, packed, folder / "build")
    wrong = set()
    for result, wanted in zip(results, expected, strict=True):
        for label, got, want in zip(made.labels, parts(library, result), wanted, strict=True):
            if got != want:
                wrong.add(label)
    assert not wrong
    floats = [entry for entry in library.float_operators if "float" not in entry]
    assert not floats, floats


def test_neighbours_merge(tmp_path):
    made = battery([("linear", "chain")], 1, 3)
    path = tmp_path / "model.tflite"
    path.write_bytes(made.finish(made.inputs, made.outputs))
    library = compile_model(path, CompileOptions(Target.for_cpu("host")))
    assert [call.operator for call in library.calls] == ["conv2d", "tanh", "avg_pool2d"]


@pytest.mark.parametrize("group", GROUPS)
def test_operators_equal_tflite_micro(group, tmp_path):
    check([(group, name) for name in GROUPS[group]], 3, sum(group.encode()), "host", "host", tmp_path)


def test_all_operators_equal_tflite_micro_on_a_cortex_m4(tmp_path):
    names = [(group, name) for group, cases in GROUPS.items() for name in cases]
    check(names, 1, 7, "cortex-m4", "mps2-an386", tmp_path)


@pytest.mark.parametrize(
    ("group", "cpu", "board", "level"),
    [
        ("int4", "cortex-m4", "mps2-an386", "size"),
        ("int16", "cortex-m33", "mps2-an505", "balanced"),
        ("int16", "cortex-m55", "mps3-an547", "time"),
    ],
)
def test_linear_operators_of_other_widths_equal_tflite_micro(group, cpu, board, level, tmp_path):
    linear = ("conv", "depthwise", "transpose_conv", "dense")
    check([(group, name) for name in GROUPS[group] if name.startswith(linear)], 2, 5, cpu, board, tmp_path, level)
