"""Real models that others ship in Python packages: what compiles, what it costs, whether it is right.

    python benchmarks/public_models.py FOLDER [--markdown]

FOLDER holds the unpacked wheels of the packages in MODELS (pip download --no-deps, then unzip). Each model is compiled
for a Cortex-M4 and run on the host; outputs of several runs in a row are compared with tflite-micro, LiteRT's reference
kernels or onnxruntime.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tvm_stm32.boards import HOST
from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.emit import emit
from tvm_stm32.errors import Error
from tvm_stm32.library import Library
from tvm_stm32.project.firmware import build_image
from tvm_stm32.project.inference import run_samples
from tvm_stm32.project.samples import generated, unpack
from tvm_stm32.quiet import quiet
from tvm_stm32.target import Target

RUNS = 8


@dataclass(frozen=True)
class Public:
    """A model: the package that has it, its file name there, and shapes for its dynamic inputs."""

    package: str
    file: str
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()


MODELS = [
    *(
        Public("pymicro-wakeword 2.5.0", f"{name}.tflite")
        for name in ("alexa", "hey_jarvis", "hey_mycroft", "okay_nabu")
    ),
    *(
        Public("pyopen-wakeword 1.1.0", f"{name}.tflite")
        for name in (
            "alexa",
            "hey_mycroft",
            "hey_rhasspy",
            "okay_nabu",
            "hey_jarvis",
            "embedding_model",
        )
    ),
    Public("pyopen-wakeword 1.1.0", "melspectrogram.tflite", (("serving_default_input:0", (1, 1760)),)),
    Public("rapidocr-onnxruntime 1.4.4", "ch_ppocr_mobile_v2.0_cls_infer.onnx", (("x", (1, 3, 48, 192)),)),
    Public("rapidocr-onnxruntime 1.4.4", "ch_PP-OCRv4_det_infer.onnx", (("x", (1, 3, 96, 96)),)),
    Public("rapidocr-onnxruntime 1.4.4", "ch_PP-OCRv4_rec_infer.onnx", (("x", (1, 3, 48, 64)),)),
    Public("silero-vad 6.2.3", "silero_vad_16k_op15.onnx", (("input", (1, 576)), ("state", (2, 1, 128)))),
    Public("silero-vad 6.2.3", "silero_vad_openvino_16k.onnx"),
]


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--markdown", is_flag=True, help="Print rows of a Markdown table.")
def main(folder: Path, markdown: bool) -> None:
    """Try every model found below FOLDER."""
    if markdown:
        click.echo("| package | file | shapes given | result |\n|---|---|---|---|")
    for model in MODELS:
        stem = model.package.split()[0].replace("-", "_")
        found = sorted(path for path in folder.rglob(model.file) if stem in path.as_posix())
        result = attempt(found[0], model) if found else "not found"
        shapes = ", ".join(f"{name}:{','.join(map(str, shape))}" for name, shape in model.shapes) or "-"
        cells = [model.package, model.file, shapes, result]
        click.echo(f"| {' | '.join(cells)} |" if markdown else "  ".join(cells))


def attempt(path: Path, model: Public) -> str:
    """One line about a model."""
    shapes = dict(model.shapes)
    try:
        with quiet():
            device = compile_model(path, CompileOptions(Target.for_cpu("cortex-m4"), input_shapes=shapes))
            library = compile_model(path, CompileOptions(Target.for_cpu("host"), input_shapes=shapes))
    except Error as error:
        return f"refused: {error.message.removeprefix(f'{path.name}: ')}"
    facts = (
        f"{len(device.calls)} operators, {device.macs:,} MACs, {device.constant_bytes:,} bytes of constants, "
        f"{device.arena_size:,} bytes of arena"
    )
    samples = [[generated(info, seed + 7 * k) for k, info in enumerate(library.inputs)] for seed in range(1, RUNS + 1)]
    with tempfile.TemporaryDirectory(prefix="tvm-stm32-") as scratch:
        emit(library, Path(scratch))
        sources = [Path(scratch) / f"{library.name}{part}.c" for part in ("", "_data")]
        image = build_image(sources, [Path(scratch)], HOST, Path(scratch), "public", network=library.name)
        results, _ = run_samples(image, HOST, [b"".join(sample) for sample in samples], timeout_s=300)
    return f"{facts}; {verdict(path, library, samples, results)}"


def verdict(path: Path, library: Library, samples: list[list[bytes]], results: list[bytes]) -> str:
    """How the outputs compare with the reference's."""
    arrays = [
        [np.frombuffer(data, info.dtype).reshape(info.shape) for data, info in zip(sample, library.inputs, strict=True)]
        for sample in samples
    ]
    quantized = any(info.dtype == "int8" or info.dtype == "uint8" for info in library.inputs)
    name, reference = _reference(path, quantized)
    try:
        expected = reference(path, arrays)
    except Exception as error:
        return f"no reference ({name}: {str(error).splitlines()[0][:80]})"
    got = unpack(library.outputs, results)
    if all(np.array_equal(np.stack(want).reshape(have.shape), have) for want, have in zip(expected, got, strict=True)):
        return f"equal to {name} in {len(samples)} runs in a row"
    worst = max(
        float(np.max(np.abs(np.stack(want).reshape(have.shape).astype(np.float64) - have)))
        for want, have in zip(expected, got, strict=True)
    )
    return f"at most {worst:.3g} from {name} in {len(samples)} runs in a row"


def _reference(path: Path, quantized: bool) -> tuple[str, Callable[..., list[list[np.ndarray]]]]:
    if path.suffix == ".onnx":
        return "onnxruntime", _onnxruntime
    return ("tflite-micro", _tflite_micro) if quantized else ("LiteRT", _litert)


def _tflite_micro(path: Path, samples: list[list[np.ndarray]]) -> list[list[np.ndarray]]:
    from tflite_micro import runtime

    interpreter = runtime.Interpreter.from_file(str(path), arena_size=1 << 22)
    outputs = []
    for sample in samples:
        for index, array in enumerate(sample):
            interpreter.set_input(array, index)
        interpreter.invoke()
        outputs.append(interpreter.get_output(0).copy())
    return [outputs]


def _litert(path: Path, samples: list[list[np.ndarray]]) -> list[list[np.ndarray]]:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    for array, detail in zip(samples[0], interpreter.get_input_details(), strict=True):
        interpreter.resize_tensor_input(detail["index"], array.shape)
    interpreter.allocate_tensors()
    details = interpreter.get_output_details()
    outputs: list[list[np.ndarray]] = [[] for _ in details]
    for sample in samples:
        for array, detail in zip(sample, interpreter.get_input_details(), strict=True):
            interpreter.set_tensor(detail["index"], array)
        interpreter.invoke()
        for column, detail in zip(outputs, details, strict=True):
            column.append(interpreter.get_tensor(detail["index"]).copy())
    return outputs


def _onnxruntime(path: Path, samples: list[list[np.ndarray]]) -> list[list[np.ndarray]]:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_inputs()]
    columns = [session.run(None, dict(zip(names, sample, strict=True))) for sample in samples]
    return [list(column) for column in zip(*columns, strict=True)]


if __name__ == "__main__":
    main()
