"""Instructions, RAM and flash of the MLPerf Tiny int8 models on emulated Cortex-M cores, next to TFLM + CMSIS-NN.

    python benchmarks/mlperf_tiny.py [MODEL ...] [--cpu cortex-m4 ...] [-O LEVEL] [--json FILE] [--profile]

Instructions are executed instructions of one whole inference (``ai_run``), counted by a TCG plugin. ``cycles_model``
is a model applied to that trace (``tvm_stm32.project.cycles``), not a measurement; ``--wait-states`` are those of its
flash (0: a memory as fast as the core). Per MAC means per MAC of the model as published. ``--profile`` adds the
functions of each model. Bytes come from the linked ELF; ``bound`` is the most stack its call graph allows, and a run
that took more is an error. Every run's output is also compared with the ``tflite-micro``
interpreter when that package is installed. Exit code 1 when an output differs.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tvm_stm32.boards import Board, load_board
from tvm_stm32.choices import LEVELS
from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.emit import emit
from tvm_stm32.errors import Error, ToolchainError
from tvm_stm32.project import cycles
from tvm_stm32.project.emulator import RunResult
from tvm_stm32.project.firmware import build_image
from tvm_stm32.project.image import image_sizes
from tvm_stm32.project.inference import run_samples
from tvm_stm32.project.samples import generated
from tvm_stm32.project.stack import check_measured, run_stack
from tvm_stm32.target import Target

MODELS = {
    "ad": "ad01_int8.tflite",
    "kws": "kws_ref_model.tflite",
    "ic": "pretrainedResnet_quant.tflite",
    "vww": "vww_96_int8.tflite",
}
# Nominal multiply-accumulates: those of the published model, whatever is left of them in the generated code.
BOARDS = {
    "cortex-m3": "mps2-an385",
    "cortex-m4": "mps2-an386",
    "cortex-m7": "mps2-an500",
    "cortex-m33": "mps2-an505",
    "cortex-m55": "mps3-an547",
}
# Code for the M0+ runs on an emulated M3, which executes it too.
CORES = ("cortex-m0plus", *BOARDS)
DATA = Path(os.environ.get("TVM_STM32_TEST_DATA", ROOT.parent / "shared"))
DEFAULT_FOLDER = DATA / "models" / "mlperf_tiny"
# gcc -O level of the network's code for each optimisation level of the generator.
OPTIMIZE = {"time": "-O2", "balanced": "-O2", "ram": "-O2", "size": "-Os"}


def board_of(cpu: str) -> Board:
    """The board a core is emulated on."""
    if cpu == "cortex-m0plus":
        return replace(load_board(BOARDS["cortex-m3"]), target=Target.for_cpu(cpu))
    return load_board(BOARDS[cpu])


def measure(path: Path, cpu: str, level: str, folder: Path, wait_states: int = 0) -> dict[str, Any]:
    """One model on one core: the figures of the JSON, and whether the output equals the reference (None: absent)."""
    board = board_of(cpu)
    library = compile_model(path, CompileOptions(board.target, level))
    emit(library, folder)
    sources = [folder / f"{library.name}.c", folder / f"{library.name}_data.c"]
    image = build_image(
        sources,
        [folder],
        board,
        folder,
        "benchmark",
        network=library.name,
        optimize=OPTIMIZE[level],
        defines=["AI_USE_SECTIONS"],
    )
    sample = b"".join(generated(info, 1) for info in library.inputs)
    # The second inference of two is the steady state; the counts of both are equal unless a model keeps state.
    results, run, modelled = run_and_model(image, board, [sample, sample], wait_states)
    sizes = image_sizes(image)
    reference = reference_output(path, sample)
    bound = run_stack(image, board.target, library.name)
    if run.count_method != "systick":
        check_measured(bound, int(run.values["stack"]))
    return {
        "instructions": run.instructions[-1],
        "instructions_per_mac": round(run.instructions[-1] / library.nominal_macs, 3),
        "cycles_model": modelled.cycles if modelled else None,
        "cycles_model_per_mac": round(modelled.cycles / library.nominal_macs, 3) if modelled else None,
        "wait_states": wait_states,
        "macs": library.macs,
        "nominal_macs": library.nominal_macs,
        "count_method": run.count_method,
        "arena": library.arena_size,
        "ram": sizes["ram"],
        "stack": int(run.values["stack"]),
        "stack_bound": bound.size,
        "flash": sizes["flash"],
        "flash_split": sizes.get("flash_split", {}),
        "equal": None if reference is None else results[-1] == reference,
        "functions": [cost._asdict() for cost in modelled.functions] if modelled else [],
    }


def run_and_model(
    image: Path, board: Board, samples: list[bytes], wait_states: int
) -> tuple[list[bytes], RunResult, cycles.CycleModel | None]:
    """Outputs, counts and modelled cycles; None for these where the trace plugin does not work."""
    try:
        caches = cycles.caches_of(board, wait_states)
        results, run = run_samples(
            image, board, samples, count="trace", cache_dir=image.parent, timeout_s=300, caches=caches
        )
        assert run.trace is not None
        return results, run, cycles.model_cycles(image, board, run.trace, wait_states)
    except ToolchainError:
        return *run_samples(image, board, samples, count="auto", cache_dir=image.parent, timeout_s=300), None


def reference_output(path: Path, sample: bytes) -> bytes | None:
    """The tflite-micro interpreter's output, or None without that package."""
    try:
        import numpy as np
        from tflite_micro import runtime
    except ImportError:
        return None
    interpreter = runtime.Interpreter.from_file(str(path), arena_size=1 << 20)
    details = interpreter.get_input_details(0)
    interpreter.set_input(np.frombuffer(sample, details["dtype"]).reshape(details["shape"]), 0)
    interpreter.invoke()
    return bytes(interpreter.get_output(0).tobytes())


def line(cpu: str, model: str, row: dict[str, Any]) -> str:
    """A row of the table."""
    peer = row["peer"]
    split = row["flash_split"]
    ratio = f"{row['instructions'] / peer['instructions']:.3f}" if peer else "-"
    parts = " ".join(f"{split.get(key, 0):>8,}" for key in ("weights", "kernels", "runtime", "libc"))
    equal = {True: "yes", False: "NO", None: "?"}[row["equal"]]
    modelled = f"{row['cycles_model']:>12,} {row['cycles_model_per_mac']:>7.3f}" if row["cycles_model"] else " " * 20
    bound = f"{row['stack_bound']:,}" if row["stack_bound"] is not None else "-"
    return (
        f"{cpu:<13} {model:<4} {row['instructions']:>12,} {row['instructions_per_mac']:>7.3f} {ratio:>7} {modelled}"
        f" {row['arena']:>8,} {row['ram']:>8,} {row['stack']:>6,} {bound:>6} {row['flash']:>9,} {parts} {equal:>5}"
    )


HEADER = (
    f"{'core':<13} {'':<4} {'instructions':>12} {'per MAC':>7} {'to TFLM':>7} {'cycles_model':>12} {'per MAC':>7}"
    f" {'arena':>8} {'RAM':>8} {'stack':>6} {'bound':>6}"
    f" {'flash':>9} {'weights':>8} {'kernels':>8} {'runtime':>8} {'libc':>8} {'equal':>5}"
)


def function_table(functions: list[dict[str, Any]], shown: int = 15) -> str:
    """The dearest functions of a row: modelled cycles, instructions, cycles of an instruction, calls."""
    total = sum(cost["cycles"] for cost in functions)
    lines = [f"    {'cycles_model':>12} {'':>6} {'instructions':>12} {'each':>5} {'calls':>7}  function"]
    for cost in functions[:shown]:
        each = cost["cycles"] / cost["instructions"]
        lines.append(
            f"    {cost['cycles']:>12,} {cost['cycles'] / total:>6.1%} {cost['instructions']:>12,} {each:>5.2f}"
            f" {cost['calls']:>7,}  {cost['symbol']}"
        )
    return "\n".join(lines)


@click.command(help=__doc__.split("\n")[0] if __doc__ else "")
@click.argument("models", nargs=-1, type=click.Choice(list(MODELS)))
@click.option("--cpu", "cpus", multiple=True, type=click.Choice(CORES), help="Cores (default: all).")
@click.option("-O", "level", type=click.Choice(LEVELS), default="time", show_default=True)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Also write the figures here.")
@click.option(
    "--folder", type=click.Path(path_type=Path), default=DEFAULT_FOLDER, help="Folder of the MLPerf Tiny models."
)
@click.option("--wait-states", type=click.IntRange(0, 15), default=0, show_default=True, help="Of the modelled flash.")
@click.option("--profile", is_flag=True, help="Also the functions of each model.")
def main(
    models: tuple[str, ...],
    cpus: tuple[str, ...],
    level: str,
    json_file: Path | None,
    folder: Path,
    wait_states: int,
    profile: bool,
) -> None:
    """Measure and print."""
    if not folder.is_dir():
        raise click.ClickException(f"the MLPerf Tiny models are not at {folder}; give their folder with --folder")
    peers = json.loads((ROOT / "benchmarks" / "peers.json").read_text(encoding="utf-8"))
    figures: dict[str, dict[str, Any]] = {}
    click.echo(HEADER)
    for cpu in cpus or CORES:
        for model in models or tuple(MODELS):
            with tempfile.TemporaryDirectory(prefix="tvm-stm32-") as scratch:
                try:
                    row = measure(folder / MODELS[model], cpu, level, Path(scratch), wait_states)
                except Error as error:
                    raise click.ClickException(f"{model} on {cpu}: {error}") from None
            row["peer"] = peers.get(cpu, {}).get(model)
            figures.setdefault(cpu, {})[model] = row
            click.echo(line(cpu, model, row))
            if profile and row["functions"]:
                click.echo(function_table(row["functions"]))
    if json_file is not None:
        json_file.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    if any(row["equal"] is False for rows in figures.values() for row in rows.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
