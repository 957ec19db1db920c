"""Run a built image on samples and say what came out: accuracy, equality with the host, instructions, memory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..boards import HOST, Board, load_board, pool_section
from ..errors import Error, FirmwareError, ToolchainError
from ..model import Quantization, TensorInfo
from .emulator import CountMethod, RunResult
from .image import image_sizes
from .inference import run_samples
from .samples import Samples, read_samples, unpack
from .stack import check_measured, run_stack

RELATIVE_TOLERANCE = 1e-5
ABSOLUTE_TOLERANCE = 1e-6
"""How far a float output may lie from the host's."""


_SHOWN = 12


@dataclass(frozen=True)
class Evaluation:
    """What to print, and whether everything that was checked holds."""

    text: str
    passed: bool


def evaluate(
    image: Path,
    board_name: str,
    report_file: Path,
    reference: Path | None,
    inputs: Path | None,
    min_accuracy: float,
    time_limit: float,
) -> Evaluation:
    """Run ``image`` on its board's emulator; compare with the host program ``reference`` and with labels.

    Raises the errors of :func:`run_samples`.
    """
    board = load_board(board_name)
    facts = _read_report(report_file)
    input_infos = [_tensor_info(entry) for entry in facts["inputs"]]
    output_infos = [_tensor_info(entry) for entry in facts["outputs"]]
    samples = read_samples(inputs, input_infos)
    count: CountMethod = "none" if board.is_host else "auto"
    results, run = run_samples(image, board, samples.packed, timeout_s=time_limit, count=count, cache_dir=image.parent)
    lines = [f"{facts['network']} ({facts['model']['file']}) on {_where(board)}: {len(results)} samples", ""]
    passed = True
    predictions, accuracy = _predictions(samples, output_infos, results)
    lines += predictions
    if accuracy is not None and accuracy < min_accuracy:
        lines.append(f"FAILED: accuracy is below {min_accuracy:.1%}")
        passed = False
    if reference is not None:
        expected, _ = run_samples(reference, HOST, samples.packed, timeout_s=time_limit)
        line, same = compare(output_infos, results, expected)
        lines.append(line)
        passed &= same
    lines.append(summary(image, board, facts["network"], facts["macs"], run))
    return Evaluation("\n".join(lines), passed)


def compare(infos: Sequence[TensorInfo], results: Sequence[bytes], expected: Sequence[bytes]) -> tuple[str, bool]:
    """Outputs against the host build's: integers byte for byte, floats within the tolerances."""
    total = sum(len(result) for result in results)
    if list(results) == list(expected):
        return f"host reference       every output byte equal ({total:,} bytes)", True
    worst = 0.0
    for info, got, want in zip(infos, unpack(infos, results), unpack(infos, expected), strict=True):
        if info.dtype.startswith("float"):
            close = np.isclose(got, want, RELATIVE_TOLERANCE, ABSOLUTE_TOLERANCE, equal_nan=True)
            worst = max(worst, float(np.nanmax(np.abs(got.astype(np.float64) - want))))
            wrong = int((~close).sum())
        else:
            wrong = int((got != want).sum())
        if wrong:
            return f"FAILED: {wrong:,} of {got.size:,} values of output '{info.name}' differ from the host build", False
    return (
        f"host reference       every output within {RELATIVE_TOLERANCE:g} relative, {ABSOLUTE_TOLERANCE:g} absolute"
        f" (largest difference {worst:.3g})",
        True,
    )


def summary(image: Path, board: Board, network: str, macs: int, run: RunResult) -> str:
    """Instructions, flash, RAM and stack of a finished run.

    Raises :class:`FirmwareError` when it took more stack than the bound of the image allows.
    """
    lines = []
    if run.instructions:
        mean = sum(run.instructions) / len(run.instructions)
        method = "TCG plugin" if run.count_method == "plugin" else "SysTick under -icount"
        per_mac = f", {mean / macs:.2f} per MAC" if macs else ""
        lines.append(f"instructions         {mean:,.0f} executed per inference ({method}; not cycles){per_mac}")
    if board.is_host:
        return "\n".join([f"{network}: {run.values.get('samples', '0')} samples run on this computer", *lines]) + "\n"
    sizes = image_sizes(image)
    split = sizes.get("flash_split", {})
    flash, weights, ram = board.flash, board.weights, board.ram
    apart = sizes["weights"] if weights != flash else 0
    stack = int(run.values.get("stack", "0"))
    lines += [
        "",
        f"flash  {sizes['flash'] - apart:>9,} bytes of {flash.size:,}",
        f"         weights      {sizes['weights']:>9,}" + (f"  (in {weights.name}, {weights.size:,})" if apart else ""),
        f"         code         {sizes['flash'] - sizes['weights']:>9,}"
        + (
            f"  (network {split['kernels']:,}, runtime {split['runtime']:,}, C library {split['libc']:,})"
            if split
            else ""
        ),
        f"RAM    {sizes['ram'] + stack:>9,} bytes of {ram.size:,}",
        # With pools, what lies in the RAM need not be the arena.
        f"         {'pools' if sizes['pools'] else 'arena':<13}{sizes['arena']:>9,}",
        f"         static data  {sizes['ram'] - sizes['arena']:>9,}",
        f"         stack        {stack:>9,}  (high-water mark of an inference)",
        *_pool_lines(board, sizes["pools"]),
        *_stack_lines(image, board, network, run),
    ]
    return "\n".join(lines) + "\n"


def _pool_lines(board: Board, pools: Mapping[str, int]) -> list[str]:
    """Pools in memories that are not the image's RAM."""
    return [
        f"{memory.name:<6} {pools[section]:>9,} bytes of {memory.size:,} (pools)"
        for memory in board.memories
        if (section := pool_section(memory.name)) in pools and pools[section]
    ]


def _stack_lines(image: Path, board: Board, network: str, run: RunResult) -> list[str]:
    """The bound of the stack of ``ai_run`` next to what was measured, and the calls that make it."""
    try:
        bound = run_stack(image, board.target, network)
    except (FirmwareError, ToolchainError) as error:
        return [f"stack bound unknown ({error.message})"]
    measured = run.values.get("stack")
    if measured is None:
        return [bound.text]
    # SysTick interrupts the run, on the same stack.
    if run.count_method != "systick":
        check_measured(bound, int(measured))
    lines = [f"{bound.text}, measured {int(measured):,}"]
    return [*lines, f"  deepest calls: {' > '.join(bound.path)}"] if bound.size is not None else lines


def first_outputs(infos: Sequence[TensorInfo], results: Sequence[bytes]) -> str:
    """The first sample's outputs, the first values of long ones."""
    lines = []
    for info, column in zip(infos, unpack(infos, results), strict=True):
        values = column[0].reshape(-1)
        shown = " ".join(f"{value:.6g}" for value in values[:_SHOWN].tolist())
        more = f" ... ({values.size} values)" if values.size > _SHOWN else ""
        lines.append(f"output {info.name} of the first sample: {shown}{more}")
    return "\n".join([*lines, ""])


def _where(board: Board) -> str:
    if board.is_host:
        return "this computer"
    machine = f", emulated by QEMU {board.emulator.machine}" if board.emulator else ""
    return f"{board.name} ({board.target.cpu}{machine})"


def _predictions(
    samples: Samples, infos: Sequence[TensorInfo], results: Sequence[bytes]
) -> tuple[list[str], float | None]:
    if samples.labels is None:
        return [], None
    scores = unpack(infos, results)[0].reshape(len(results), -1)
    predicted = scores.argmax(axis=1)
    right = int((predicted == samples.labels).sum())
    accuracy = right / len(results)
    rows = [f"  {' '.join(str(p) for p in predicted[start : start + 40])}" for start in range(0, len(predicted), 40)]
    wrong = [f"{i}: {p} for {t}" for i, (p, t) in enumerate(zip(predicted, samples.labels, strict=True)) if p != t]
    lines = ["predictions", *rows]
    if wrong:
        lines.append(f"  wrong: {'; '.join(wrong[:12])}{' ...' if len(wrong) > 12 else ''}")
    lines.append(f"accuracy             {accuracy:.2%} ({right} of {len(results)})")
    return lines, accuracy


def _read_report(path: Path) -> dict[str, Any]:
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Error(f"cannot read network report '{path}': {error}") from None
    if not isinstance(facts, dict):
        raise Error(f"'{path}' is no network report")
    return facts


def _tensor_info(entry: dict[str, Any]) -> TensorInfo:
    quantization = None
    if entry.get("scale"):
        quantization = Quantization(tuple(entry["scale"]), tuple(entry["zero_point"]))
    return TensorInfo(entry["name"], tuple(entry["shape"]), entry["dtype"], quantization)
