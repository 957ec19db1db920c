"""Instructions and modelled cycles of single operators on emulated Cortex-M cores, next to other engines and a floor.

    python benchmarks/kernels.py [NAME ...] [--cpu cortex-m4 ...] [--wait-states N] [--listing] [--json FILE]

Each operator is a network of its own: its TFLite file is compiled like any other and runs on the core's board under
QEMU. A NAME is an operator of the list or the beginning of some. Figures are for each multiply-accumulate, or for each
element where there are none. ``cycles_model`` is a model, not a measurement (docs/benchmarks.md). M0+ code runs on an
emulated M3, which executes it too. "CMSIS" is TensorFlow Lite Micro with CMSIS-NN, "known" the best that is known to be
possible (``kernel_peers.json`` says from where). Exit code 1 when an integer output differs from ``tflite-micro``'s.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import click
import numpy as np
from tflite import ActivationFunctionType as Activation
from tflite import BuiltinOperator as Op
from tflite import Padding

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "benchmarks")]

from mlperf_tiny import CORES, board_of, function_table, run_and_model
from tflite_builder import options
from tflite_cases import Battery, quantization

from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.emit import emit
from tvm_stm32.errors import Error
from tvm_stm32.project.firmware import build_image

PEERS = ROOT / "benchmarks" / "kernel_peers.json"


@dataclass(frozen=True)
class Case:
    """An operator: ``work`` of the unit the figures are for, the kind of floor that applies, the optimisation level."""

    name: str
    build: Callable[[Battery], None]
    work: int
    unit: str = "MAC"
    floor: str = "int8"
    level: str = "time"


# Least instructions and cycles for a unit of work: multiplies alone (two of M0+ and M3 do three, SMLAD two, VMLADAV
# sixteen 8-bit or eight 16-bit ones in two cycles; M4 multiplies and adds floats apart), or without multiplies whole
# words loaded and stored.
FLOORS: dict[str, dict[str, tuple[float, float]]] = {
    "int8": {
        "cortex-m0plus": (4 / 3, 4 / 3),
        "cortex-m3": (2 / 3, 4 / 3),
        "cortex-m4": (0.5, 0.5),
        "cortex-m7": (0.5, 0.5),
        "cortex-m33": (0.5, 0.5),
        "cortex-m55": (1 / 16, 2 / 16),
    },
    "float": {
        "cortex-m4": (1, 2),
        "cortex-m7": (1, 1),
        "cortex-m33": (1, 3),
        "cortex-m55": (1 / 4, 2 / 4),
    },
}
FLOORS["int16"] = {**FLOORS["int8"], "cortex-m55": (1 / 8, 2 / 8)}


def _memory(words: float) -> dict[str, tuple[float, float]]:
    """Words loaded and stored for an element: 1 cycle each, 2 on M0+, half on M7, 4 words in 2 cycles on M55."""
    plain = dict.fromkeys(("cortex-m3", "cortex-m4", "cortex-m33"), (words, words))
    return {
        **plain,
        "cortex-m0plus": (words, 2 * words),
        "cortex-m7": (words, words / 2),
        "cortex-m55": (words / 4, words / 2),
    }


FLOORS["binary"] = _memory(3 / 4)
FLOORS["max pool"] = _memory(5 / 4)
FLOORS["average pool"] = _memory(1 / 4)


def _codes(b: Battery, shape: tuple[int, ...], largest: int = 127) -> np.ndarray:
    """Weights as training leaves them: bell-shaped, the largest near the end of the range."""
    return np.clip(np.rint(b.random.normal(0, 35 * largest / 127, shape)), -largest, largest).astype(np.int8)


def _input(b: Battery, shape: tuple[int, ...], dtype: str) -> int:
    if dtype == "float32":
        return b.input(shape, dtype, feed=lambda: b.random.normal(0, 1, shape).astype(np.float32))
    dtype = "int8" if dtype == "int4" else dtype
    # What a ReLU leaves: the zero point is the lowest code.
    return b.input(shape, dtype, scale=0.02, zero_point=-128 if dtype == "int8" else 0)


def _output(b: Battery, shape: tuple[int, ...], dtype: str, depth: int) -> int:
    dtype = "int8" if dtype == "int4" else dtype
    # Outputs of random codes spread over most of their range.
    scale = {"int8": 0.01, "int16": 0.0001}.get(dtype, 1.0) * depth**0.5
    return b.output(shape, dtype, scale=scale, zero_point=-128 if dtype == "int8" else 0)


def _weights(b: Battery, shape: tuple[int, ...], axis: int, dtype: str, x: int) -> list[int]:
    if dtype == "float32":
        values = b.random.normal(0, 0.05, shape).astype(np.float32)
        return [b.fixed(values, "float32"), b.fixed(b.random.normal(0, 1, shape[axis]), "float32")]
    channels = shape[axis]
    # Weights of 4 bits come with int8 activations.
    narrow = dtype == "int4"
    scales = [b.scale(0.002, 0.006) * (127 / 7 if narrow else 1) for _ in range(channels)]
    add = b.nibbles if narrow else b.constant
    weight = add(f"w{len(b.tensors)}", _codes(b, shape, 7 if narrow else 127), scale=scales, axis=axis)
    bias = b.random.integers(-2000, 2000, channels).astype("int64" if dtype == "int16" else "int32")
    given = [b.tensors[x].scale[0] * scale for scale in scales]
    return [weight, b.constant(f"b{len(b.tensors)}", bias, scale=given)]


def conv(
    name: str, size: tuple[int, int, int], channels: int, kernel: tuple[int, int], stride: int = 1, dtype: str = "int8"
) -> Case:
    """Convolution and ReLU, SAME padding, one scale a channel; ``size`` is height, width, channels of the input."""
    height, width, depth = size
    out = (1, -(-height // stride), -(-width // stride), channels)

    def build(b: Battery) -> None:
        x = _input(b, (1, *size), dtype)
        weights = _weights(b, (channels, *kernel, depth), 0, dtype, x)
        y = _output(b, out, dtype, prod(kernel) * depth)
        opts = options(
            "Conv2D",
            Padding=Padding.SAME,
            StrideH=stride,
            StrideW=stride,
            DilationHFactor=1,
            DilationWFactor=1,
            FusedActivationFunction=Activation.RELU,
        )
        b.operator(Op.CONV_2D, [x, *weights], [y], opts)

    return Case(name, build, prod(out) * prod(kernel) * depth, floor=_floor(dtype))


def depthwise(name: str, size: tuple[int, int, int], stride: int = 1, dtype: str = "int8") -> Case:
    """Depthwise 3x3 with SAME padding."""
    height, width, depth = size
    out = (1, -(-height // stride), -(-width // stride), depth)

    def build(b: Battery) -> None:
        x = _input(b, (1, *size), dtype)
        weights = _weights(b, (1, 3, 3, depth), 3, dtype, x)
        y = _output(b, out, dtype, 9)
        opts = options(
            "DepthwiseConv2D",
            Padding=Padding.SAME,
            StrideH=stride,
            StrideW=stride,
            DepthMultiplier=1,
            DilationHFactor=1,
            DilationWFactor=1,
            FusedActivationFunction=Activation.RELU,
        )
        b.operator(Op.DEPTHWISE_CONV_2D, [x, *weights], [y], opts)

    return Case(name, build, prod(out) * 9, floor=_floor(dtype))


def dense(name: str, depth: int, units: int, dtype: str = "int8") -> Case:
    """Fully connected."""

    def build(b: Battery) -> None:
        x = _input(b, (1, depth), dtype)
        if dtype == "float32":
            weights = _weights(b, (units, depth), 0, dtype, x)
        else:
            bias = b.random.integers(-2000, 2000, units).astype("int64" if dtype == "int16" else "int32")
            narrow = dtype == "int4"
            codes, scale = _codes(b, (units, depth), 7 if narrow else 127), 0.004 * (127 / 7 if narrow else 1)
            weights = [
                b.nibbles("w", codes, scale=[scale]) if narrow else b.constant("w", codes, scale=[scale]),
                b.constant("b", bias, scale=[0.02 * scale]),
            ]
        y = _output(b, (1, units), dtype, depth)
        b.operator(
            Op.FULLY_CONNECTED, [x, *weights], [y], options("FullyConnected", FusedActivationFunction=Activation.RELU)
        )

    return Case(name, build, depth * units, floor=_floor(dtype))


def binary(name: str, code: int, table: str, size: tuple[int, int, int], scales: tuple[float, ...]) -> Case:
    """ADD or MUL of two tensors; ``scales`` are those of the operands and of the result."""

    def build(b: Battery) -> None:
        x, y = (b.input((1, *size), scale=scale) for scale in scales[:2])
        z = b.output((1, *size), scale=scales[2])
        b.operator(code, [x, y], [z], options(table))

    return Case(name, build, prod(size), "output", "binary")


def pool(name: str, code: int, size: tuple[int, int, int], kernel: tuple[int, int]) -> Case:
    """Pooling without overlap."""
    out = (1, size[0] // kernel[0], size[1] // kernel[1], size[2])
    average = code == Op.AVERAGE_POOL_2D

    def build(b: Battery) -> None:
        x = b.input((1, *size))
        y = b.output(out, **quantization(b, x))
        opts = options(
            "Pool2D",
            Padding=Padding.VALID,
            StrideH=kernel[0],
            StrideW=kernel[1],
            FilterHeight=kernel[0],
            FilterWidth=kernel[1],
        )
        b.operator(code, [x], [y], opts)

    if average:
        return Case(name, build, prod(size), "input", "average pool")
    return Case(name, build, prod(out), "output", "max pool")


def softmax(name: str, count: int) -> Case:
    """Softmax of one row."""

    def build(b: Battery) -> None:
        x = b.input((1, count), scale=0.1)
        y = b.output((1, count), scale=1 / 256, zero_point=-128)
        b.operator(Op.SOFTMAX, [x], [y], options("Softmax", Beta=1.0))

    return Case(name, build, count, "output", "")


def _floor(dtype: str) -> str:
    return {"float32": "float", "int16": "int16"}.get(dtype, "int8")


CASES = [
    conv("pointwise_64_64_25x5", (25, 5, 64), 64, (1, 1)),
    conv("pointwise_8_16_48x48", (48, 48, 8), 16, (1, 1)),
    conv("pointwise_128_128_6x6", (6, 6, 128), 128, (1, 1)),
    conv("conv3x3_16_16_32x32", (32, 32, 16), 16, (3, 3)),
    conv("conv3x3_32_32_16x16", (16, 16, 32), 32, (3, 3)),
    conv("conv3x3_64_64_8x8", (8, 8, 64), 64, (3, 3)),
    conv("conv3x3_16_32_32x32_s2", (32, 32, 16), 32, (3, 3), 2),
    conv("conv1x1_16_32_32x32_s2", (32, 32, 16), 32, (1, 1), 2),
    conv("first_10x4_1_64_49x10_s2", (49, 10, 1), 64, (10, 4), 2),
    conv("first_3x3_3_16_32x32", (32, 32, 3), 16, (3, 3)),
    conv("first_3x3_3_8_96x96_s2", (96, 96, 3), 8, (3, 3), 2),
    dense("dense_640_128", 640, 128),
    dense("dense_128_128", 128, 128),
    dense("dense_64_10", 64, 10),
    depthwise("depthwise3x3_64_25x5", (25, 5, 64)),
    depthwise("depthwise3x3_8_48x48", (48, 48, 8)),
    depthwise("depthwise3x3_16_48x48_s2", (48, 48, 16), 2),
    depthwise("depthwise3x3_128_6x6", (6, 6, 128)),
    pool("avg_pool_25x5_64", Op.AVERAGE_POOL_2D, (25, 5, 64), (25, 5)),
    pool("max_pool_2x2_16_32x32", Op.MAX_POOL_2D, (32, 32, 16), (2, 2)),
    binary("add_16_32x32", Op.ADD, "Add", (32, 32, 16), (0.0238153, 0.0629911, 0.0307994)),
    # Ratios of small integers: many sums are ties, and which of them round up is a matter of their last bits.
    binary("add_ties_16_32x32", Op.ADD, "Add", (32, 32, 16), (0.05, 0.04, 0.08)),
    binary("mul_16_32x32", Op.MUL, "Mul", (32, 32, 16), (0.05, 0.04, 0.2)),
    softmax("softmax_12", 12),
    conv("int16_conv3x3_16_16_16x16", (16, 16, 16), 16, (3, 3), dtype="int16"),
    conv("int16_pointwise_64_64_25x5", (25, 5, 64), 64, (1, 1), dtype="int16"),
    conv("int16_conv3x3_64_64_8x8", (8, 8, 64), 64, (3, 3), dtype="int16"),
    dense("int16_dense_640_128", 640, 128, dtype="int16"),
    depthwise("int16_depthwise3x3_64_25x5", (25, 5, 64), dtype="int16"),
    depthwise("int16_depthwise3x3_16_48x48_s2", (48, 48, 16), 2, dtype="int16"),
    replace(conv("int4_pointwise_64_64_25x5", (25, 5, 64), 64, (1, 1), dtype="int4"), level="balanced"),
    replace(conv("int4_conv3x3_32_32_16x16", (16, 16, 32), 32, (3, 3), dtype="int4"), level="balanced"),
    replace(dense("int4_dense_640_128", 640, 128, dtype="int4"), level="balanced"),
    conv("float_pointwise_64_64_25x5", (25, 5, 64), 64, (1, 1), dtype="float32"),
    conv("float_conv3x3_16_16_16x16", (16, 16, 16), 16, (3, 3), dtype="float32"),
    dense("float_dense_640_128", 640, 128, dtype="float32"),
]


def measure(case: Case, cpu: str, folder: Path, wait_states: int) -> dict[str, Any]:
    """One operator on one core."""
    board = board_of(cpu)
    battery = Battery(random=np.random.default_rng(1), label="t")
    case.build(battery)
    path = folder / f"{case.name}.tflite"
    path.write_bytes(battery.finish(battery.inputs, battery.outputs))
    arrays = [feed() for feed in battery.feeds]
    library = compile_model(path, CompileOptions(board.target, case.level))
    emit(library, folder)
    sources = [folder / f"{library.name}.c", folder / f"{library.name}_data.c"]
    image = build_image(sources, [folder], board, folder, "kernel", network=library.name, defines=["AI_USE_SECTIONS"])
    results, run, modelled = run_and_model(image, board, [b"".join(array.tobytes() for array in arrays)], wait_states)
    reference = None if case.floor == "float" else _reference(path, arrays)
    return {
        "unit": case.unit,
        "work": case.work,
        "instructions": run.instructions[-1],
        "instructions_per_unit": round(run.instructions[-1] / case.work, 3),
        "cycles_model": modelled.cycles if modelled else None,
        "cycles_model_per_unit": round(modelled.cycles / case.work, 3) if modelled else None,
        "wait_states": wait_states,
        "floor": FLOORS.get(case.floor, {}).get(cpu),
        "equal": None if reference is None else results[-1] == reference,
        "functions": [cost._asdict() for cost in modelled.functions[:8]] if modelled else [],
        "listing": modelled.listed(modelled.functions[0].symbol) if modelled else "",
    }


def _reference(path: Path, arrays: list[np.ndarray]) -> bytes | None:
    """The tflite-micro interpreter's output, or None without that package."""
    try:
        from tflite_micro import runtime
    except ImportError:
        return None
    interpreter = runtime.Interpreter.from_file(str(path), arena_size=1 << 20)
    for index, array in enumerate(arrays):
        interpreter.set_input(array, index)
    interpreter.invoke()
    return bytes(interpreter.get_output(0).tobytes())


HEADER = (
    f"{'operator':<28} {'core':<13} {'unit':<6} {'instructions':>12} {'each':>7} {'floor':>6} {'known':>6} {'CMSIS':>6}"
    f" {'cycles_model':>12} {'each':>7} {'floor':>6} {'known':>6} {'equal':>5}"
)


def line(name: str, cpu: str, row: dict[str, Any]) -> str:
    """A row of the table."""
    floor = row["floor"] or (None, None)
    peer = row["peer"]
    equal = {True: "yes", False: "NO", None: "?"}[row["equal"]]
    cycles = f"{row['cycles_model']:>12,}" if row["cycles_model"] is not None else f"{'-':>12}"
    return (
        f"{name:<28} {cpu:<13} {row['unit']:<6} {row['instructions']:>12,} {_number(row['instructions_per_unit']):>7}"
        f" {_number(floor[0]):>6} {_number(peer.get('known')):>6} {_number(peer.get('cmsis_nn')):>6} {cycles}"
        f" {_number(row['cycles_model_per_unit']):>7} {_number(floor[1]):>6} {_number(peer.get('known_cycles')):>6}"
        f" {equal:>5}"
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if value < 10 else f"{value:.1f}"


@click.command(help=__doc__.split("\n")[0] if __doc__ else "")
@click.argument("names", nargs=-1)
@click.option("--cpu", "cpus", multiple=True, type=click.Choice(CORES), help="Cores (default: all).")
@click.option("--wait-states", type=click.IntRange(0, 15), default=0, show_default=True, help="Of the modelled flash.")
@click.option(
    "--listing", is_flag=True, help="Also the functions, and the dearest one's instructions: times, cycles each."
)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Also write the figures here.")
def main(
    names: tuple[str, ...], cpus: tuple[str, ...], wait_states: int, listing: bool, json_file: Path | None
) -> None:
    """Measure and print."""
    cases = [case for case in CASES if not names or case.name.startswith(names)]
    if not cases:
        raise click.ClickException("no such operator; one of: " + ", ".join(case.name for case in CASES))
    peers = json.loads(PEERS.read_text(encoding="utf-8"))
    figures: dict[str, dict[str, Any]] = {}
    click.echo(HEADER)
    for case in cases:
        for cpu in cpus or CORES:
            with tempfile.TemporaryDirectory(prefix="tvm-stm32-") as scratch:
                try:
                    row = measure(case, cpu, Path(scratch), wait_states)
                except Error as error:
                    raise click.ClickException(f"{case.name} on {cpu}: {error}") from None
            row["peer"] = peers["figures"].get(case.name, {}).get(cpu, {})
            figures.setdefault(case.name, {})[cpu] = row
            click.echo(line(case.name, cpu, row))
            text = row.pop("listing")
            if listing:
                click.echo(f"{function_table(row['functions'], 8)}\n{text}")
    if json_file is not None:
        json_file.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    if any(row["equal"] is False for rows in figures.values() for row in rows.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
