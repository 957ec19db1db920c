"""The report of a network: what each operator costs, before any C compiler runs."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .. import __version__
from ..generator import package_records
from ..library import Call, Library
from ..memory.lifetimes import live_bytes, placed
from .memory_map import memory_facts, peak_text

SCHEMA = 1
"""Version of the report's form, which ``report.schema.json`` describes."""

SCHEMA_FILE = Path(__file__).with_name("report.schema.json")


def report(library: Library) -> dict[str, Any]:
    """Facts for ``NAME_report.json``: sizes in bytes, operators in execution order."""
    live = live_bytes(placed(library), len(library.calls))
    return {
        "schema": SCHEMA,
        "tool": f"tvm-stm32 {__version__}",
        "packages": packages(),
        "network": library.name,
        "model": {
            "file": library.provenance.file_name,
            "sha256": library.provenance.sha256,
            "format": library.provenance.source_format,
        },
        "settings": dict(sorted(library.settings.items())),
        "inputs": [_tensor(info) for info in library.inputs],
        "outputs": [_tensor(info) for info in library.outputs],
        "states": [
            {"name": state.name, "shape": list(library.tensors[state.tensor].shape), "initial": _finite(state.initial)}
            for state in library.states
        ],
        "macs": library.macs,
        "nominal_macs": library.nominal_macs,
        "removed_channels": library.removed_channels,
        "constants_bytes": library.constant_bytes,
        "arena_bytes": library.arena_size,
        **({"arena_choices": library.arena_choices} if library.arena_choices else {}),
        "peak_live_bytes": max(live, default=0),
        "memory": memory_facts(library),
        "float_operators": library.float_operators,
        "c_library": c_library(library),
        "notes": library.notes,
        "operators": [
            {
                "index": index,
                "operator": call.operator,
                "node": call.node,
                "kernel": call.kernel,
                "kernel_kind": library.kernels[call.kernel].kind,
                "detail": call.detail,
                "inputs": [_place(library, name) for name in call.inputs],
                "outputs": [_place(library, name) for name in call.outputs],
                "macs": call.macs,
                **_kernel_costs(call),
                **_stages(call),
                "live_bytes": live[index],
                "workspace_bytes": call.workspace,
                "constants_bytes": sum(
                    library.constants[a.name].data.nbytes for a in call.arguments if a.kind == "constant"
                ),
            }
            for index, call in enumerate(library.calls)
        ],
    }


def packages() -> dict[str, str]:
    """The version of TVM that decides what is generated; nothing where there is none (archives need none)."""
    found = package_records(sys.path).get("apache_tvm")
    return {"apache-tvm": found[0]} if found else {}


def _kernel_costs(call: Call) -> dict[str, Any]:
    """The kernel's form, why it has it, what it costs, and what the others would; nothing for operators without forms.

    Instructions are counted from the kernel's blocks and estimated for the C around them; cycles are a model.
    """
    if not call.costs:
        return {}
    chosen, *others = (
        {
            "form": cost.form,
            "instructions": cost.instructions,
            "instructions_per_mac": round(cost.instructions / max(1, call.macs), 3),
            "cycles_model": cost.cycles,
            "flash_bytes": cost.flash,
            "workspace_bytes": cost.ram,
        }
        for cost in call.costs
    )
    return {"kernel_form": {**chosen, "reason": call.reason, "alternatives": others}}


def _stages(call: Call) -> dict[str, Any]:
    """The operators a kernel runs in bands of rows; nothing for a kernel of one operator."""
    return {"stages": [asdict(stage) for stage in call.stages]} if call.stages else {}


def c_library(library: Library) -> list[str]:
    """Functions of the C library a network may call: memcpy and memset (compilers make such calls too), and libm's."""
    return sorted({"memcpy", "memset"} | {name for kernel in library.kernels.values() for name in kernel.libm})


def _finite(value: float) -> float | str:
    """A number as JSON has it: others by their name."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _tensor(info: Any) -> dict[str, Any]:
    return {"name": info.name, "shape": list(info.shape), "dtype": info.dtype, **_quantization(info)}


def _quantization(info: Any) -> dict[str, Any]:
    quantization = info.quantization
    return {
        "scale": list(quantization.scale) if quantization else None,
        "zero_point": list(quantization.zero_point) if quantization else None,
    }


def _place(library: Library, name: str) -> dict[str, Any]:
    tensor = library.tensors[name]
    place = {"name": name, "shape": list(tensor.shape), "dtype": tensor.dtype, "offset": tensor.offset}
    return {**place, **_quantization(tensor)}


def shape_text(shape: list[int]) -> str:
    """``1x49x10x1``, or ``scalar``."""
    return "x".join(str(extent) for extent in shape) or "scalar"


def report_text(facts: dict[str, Any]) -> str:
    """The report as text for people."""
    lines = [
        f"{facts['network']}: {facts['model']['file']} ({facts['model']['format']}), "
        f"{facts['settings'].get('cpu', 'any core')}, -O {facts['settings'].get('level', 'time')}, {facts['tool']}",
        "",
        *(_tensor_line("input", tensor) for tensor in facts["inputs"]),
        *(_tensor_line("output", tensor) for tensor in facts["outputs"]),
        "",
        f"{'#':>3}  {'operator':<20} {'kernel':<9} {'output':<14} {'MACs':>11} {'/MAC':>5} {'weights':>9} {'RAM':>8}"
        "  node",
    ]
    for row in facts["operators"]:
        output, form = row["outputs"][0], row.get("kernel_form", {})
        node = short_node(row["node"])
        each = f"{form['instructions_per_mac']:.2f}" if form and row["macs"] else ""
        lines.append(
            f"{row['index']:>3}  {row['operator'][:20]:<20} {form.get('form', ''):<9} {shape_text(output['shape']):<14}"
            f" {row['macs']:>11,} {each:>5} {row['constants_bytes']:>9,} {row['live_bytes']:>8,}  {node}"
        )
        lines += [
            f"{'':>5}{stage['operator'][:18]:<18} {stage['form']:<9} {'':<14} {stage['macs']:>11,} {'':>25}"
            f"{short_node(stage['node'])}"
            for stage in row.get("stages", ())
        ]
    lines += [
        "",
        f"multiply-accumulates  {facts['macs']:,}{removed_text(facts)}",
        f"weights and tables    {facts['constants_bytes']:,} bytes of flash",
        *_arena_lines(facts),
    ]
    if peak_text(facts):
        lines.append(f"  {peak_text(facts)}")
    for choice, size in facts.get("arena_choices", {}).items():
        lines.append(f"  {choice:<20}{size:,} bytes{' (used)' if size == facts['arena_bytes'] else ''}")
    if facts["float_operators"]:
        lines += ["", "operators in floating point:", *(f"  {text}" for text in facts["float_operators"])]
    if facts["notes"]:
        lines += ["", *facts["notes"]]
    return "\n".join(lines) + "\n"


def _arena_lines(facts: dict[str, Any]) -> list[str]:
    """The arena's bytes, and those of the other pools in RAM."""
    arena, *others = facts["memory"]["pools"]
    peak = f"peak in use {facts['peak_live_bytes']:,}"
    if not others:
        return [f"arena                 {arena['bytes']:,} bytes of RAM, inputs and outputs included ({peak})"]
    lines = [f"arena {arena['name']:<15} {arena['bytes']:,} bytes of RAM"]
    lines += [f"pool {pool['name']:<16} {pool['bytes']:,} bytes of RAM" for pool in others]
    whole = sum(pool["bytes"] for pool in facts["memory"]["pools"])
    return [*lines, f"in all                {whole:,} bytes of RAM ({peak})"]


def removed_text(facts: dict[str, Any]) -> str:
    """What dead channels would have cost, in brackets; nothing for a network without."""
    if not facts["removed_channels"]:
        return ""
    removed = f"{facts['removed_channels']:,} constant or unread channels are left out"
    return f" ({facts['nominal_macs']:,} in the model: {removed})"


def _tensor_line(kind: str, tensor: dict[str, Any]) -> str:
    line = f"{kind:<7} {tensor['name']}  {shape_text(tensor['shape'])} {tensor['dtype']}"
    if tensor["scale"]:
        line += f"  scale {tensor['scale'][0]:.9g} zero point {tensor['zero_point'][0]}"
        if len(tensor["scale"]) > 1:
            line += f" (and {len(tensor['scale']) - 1} more)"
    return line


def short_node(node: str) -> str:
    """The end of a long name, which differs where beginnings do not."""
    return node if len(node) <= 48 else f"...{node[-45:]}"
