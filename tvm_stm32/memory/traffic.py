"""How often a run touches each buffer and constant, in 32-bit words: a model, for choosing memories.

Inputs and constants are read once, outputs are written once. A kernel with multiply-accumulates keeps a block of
results in registers and loads each side again for the next one: once every :data:`REUSE` of them. Where it has a
workspace, it gathers its input there and loads from it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..library import Call, Library
from .lifetimes import constant_name, workspace_name

REUSE = 4
"""Multiply-accumulates for an element loaded: blocks are two by two, four by four, or a vector by a few."""

_WORD = 4
# A table of 256 codes: read at one place for each result.
_TABLE = 1024


@dataclass
class Traffic:
    """Words read and written in a run."""

    reads: float = 0.0
    writes: float = 0.0


def traffic(library: Library) -> dict[str, Traffic]:
    """By names of buffers (:mod:`.lifetimes`)."""
    result: dict[str, Traffic] = {}
    for step, call in enumerate(library.calls):
        _add_call(library, step, call, result)
    return result


def _add_call(library: Library, step: int, call: Call, result: dict[str, Traffic]) -> None:
    def of(name: str) -> Traffic:
        return result.setdefault(name, Traffic())

    outputs = [library.tensors[name] for name in call.outputs]
    inputs = [library.tensors[name] for name in dict.fromkeys(call.inputs)]
    constants = [library.constants[a.name] for a in call.arguments if a.kind == "constant"]
    loaded = call.macs / REUSE
    gathered = loaded if not call.workspace else 0.0
    passes = max(1.0, gathered / max(1, sum(int(np.prod(tensor.shape)) for tensor in inputs)))
    for tensor in inputs:
        of(library.root(tensor.name)).reads += passes * tensor.size / _WORD
    for tensor in outputs:
        of(library.root(tensor.name)).writes += tensor.size / _WORD
    passes = max(1.0, loaded / max(1, sum(constant.data.size for constant in constants)))
    results = sum(int(np.prod(tensor.shape)) for tensor in outputs)
    for constant in constants:
        words = passes * constant.data.nbytes / _WORD
        is_table = not call.macs and constant.data.nbytes <= _TABLE
        of(constant_name(constant.name)).reads += max(words, results) if is_table else words
    if call.workspace:
        size = np.dtype(inputs[0].dtype).itemsize if inputs else 1
        scratch = of(workspace_name(step))
        scratch.reads += max(2 * call.workspace, loaded * size) / _WORD
        scratch.writes += max(2 * call.workspace, sum(tensor.size for tensor in inputs)) / _WORD
