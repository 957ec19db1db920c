"""Instructions per multiply-accumulate of float32 layers and of MLPerf Tiny's float models on emulated cores.

    python benchmarks/float32.py [NAME ...] [--cpu cortex-m4 ...]

Executed instructions of one whole inference (``ai_run``), counted by a TCG plugin; they are not cycles. A layer is a
network of its own. ``same`` says whether the result equals the first core's byte for byte. Models that are absent are
left out.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
from mlperf_tiny import BOARDS, DEFAULT_FOLDER

from tvm_stm32.boards import load_board
from tvm_stm32.compiler import CompileOptions, compile_loaded, compile_model
from tvm_stm32.emit import emit
from tvm_stm32.library import Library
from tvm_stm32.model import Model, Provenance, TensorInfo
from tvm_stm32.project.firmware import build_image
from tvm_stm32.project.inference import run_samples
from tvm_stm32.project.samples import generated
from tvm_stm32.target import Target

MODELS = {"ad": "ad01_fp32.tflite", "ic": "pretrainedResnet.tflite", "vww": "vww_96_float.tflite"}


def layer(shape: tuple[int, ...], weight: tuple[int, ...], **options: object) -> Callable[[], Model]:
    """A network of one convolution (or dense layer, where the weights have two dimensions), bias and relu."""

    def build() -> Model:
        from tvm import relax

        generator = np.random.default_rng(0)
        nchw = options.get("data_layout") == "NCHW"
        channels = weight[0] if nchw else weight[-2] if options.get("kernel_layout") == "HWOI" else weight[-1]
        filters, bias = (generator.normal(size=extents).astype(np.float32) for extents in (weight, (channels,)))
        x = relax.Var("x", relax.TensorType(shape, "float32"))
        builder = relax.BlockBuilder()
        with builder.function("main", [x]):
            with builder.dataflow():
                call = relax.op.matmul if len(weight) == 2 else relax.op.nn.conv2d
                sums = builder.emit(call(x, relax.const(filters), **options))
                added = builder.emit(relax.op.add(sums, relax.const(bias.reshape((-1, 1, 1) if nchw else -1))))
                result = builder.emit_output(relax.op.nn.relu(added), "y")
            builder.emit_func_output(result)
        output = TensorInfo("y", tuple(int(extent) for extent in result.ty.shape), "float32")
        provenance = Provenance("layer", "0" * 64, "benchmark")
        return Model(builder.get(), [TensorInfo("x", shape, "float32")], [output], "float", provenance)

    return build


_NHWC = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
_DEPTHWISE = {"data_layout": "NHWC", "kernel_layout": "HWOI"}
_NCHW = {"data_layout": "NCHW", "kernel_layout": "OIHW"}
LAYERS = {
    "pointwise 64-64 25x5": layer((1, 25, 5, 64), (1, 1, 64, 64), **_NHWC),
    "dense 640-128": layer((1, 640), (640, 128)),
    "conv 3x3 16-16 32x32": layer((1, 32, 32, 16), (3, 3, 16, 16), padding=1, **_NHWC),
    "conv 3x3 16-16 NCHW": layer((1, 16, 32, 32), (16, 16, 3, 3), padding=1, **_NCHW),
    "conv 3x3 3-8 96x96/2": layer((1, 96, 96, 3), (3, 3, 3, 8), padding=1, strides=2, **_NHWC),
    "depthwise 3x3 64 25x5": layer((1, 25, 5, 64), (3, 3, 64, 1), padding=1, groups=64, **_DEPTHWISE),
}


def compiled(name: str, target: Target, folder: Path) -> Library:
    """The library of a layer or model."""
    options = CompileOptions(target)
    return compile_loaded(LAYERS[name](), options) if name in LAYERS else compile_model(folder / MODELS[name], options)


def measure(library: Library, cpu: str, folder: Path) -> tuple[int, bytes]:
    """Instructions of an inference, and its output."""
    emit(library, folder)
    sources = [folder / f"{library.name}.c", folder / f"{library.name}_data.c"]
    board = load_board(BOARDS[cpu])
    image = build_image(
        sources, [folder], board, folder, "benchmark", network=library.name, defines=["AI_USE_SECTIONS"]
    )
    sample = b"".join(generated(info, 1) for info in library.inputs)
    results, run = run_samples(image, board, [sample], count="auto", cache_dir=folder, timeout_s=600)
    return run.instructions[-1], results[-1]


@click.command(help=__doc__.split("\n")[0] if __doc__ else "")
@click.argument("names", nargs=-1, type=click.Choice([*LAYERS, *MODELS]))
@click.option("--cpu", "cpus", multiple=True, type=click.Choice(list(BOARDS)), help="Cores (default: all).")
@click.option(
    "--folder", type=click.Path(path_type=Path), default=DEFAULT_FOLDER, help="Folder of the MLPerf Tiny models."
)
def main(names: tuple[str, ...], cpus: tuple[str, ...], folder: Path) -> None:
    """Measure and print."""
    present = [name for name in MODELS if (folder / MODELS[name]).is_file()]
    chosen = cpus or tuple(BOARDS)
    click.echo(f"{'instructions per MAC':<22} {'MACs':>10}  " + " ".join(f"{cpu:>11}" for cpu in chosen) + "  same")
    for name in names or (*LAYERS, *present):
        figures, outputs, macs = [], set(), 0
        for cpu in chosen:
            with tempfile.TemporaryDirectory(prefix="tvm-stm32-") as scratch:
                library = compiled(name, load_board(BOARDS[cpu]).target, folder)
                macs = library.macs
                instructions, output = measure(library, cpu, Path(scratch))
            figures.append(f"{instructions / macs:>11.3f}")
            outputs.add(output)
        click.echo(f"{name:<22} {macs:>10,}  {' '.join(figures)}  {'yes' if len(outputs) == 1 else 'no'}")


if __name__ == "__main__":
    main()
