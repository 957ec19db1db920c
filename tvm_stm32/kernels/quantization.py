"""Quantization of the tensors of a Library, for its reports."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..library import Call, Library
from ..model import Quantization

_MOVES = re.compile(r"max_pool2d|copy|((transpose|reshape)\d*_?)+")
_CODES = {"int8", "uint8", "int16", "int32"}


def annotate(library: Library, known: Mapping[str, Quantization]) -> None:
    """Fill in ``quantization`` of tensors from what is ``known`` of the model's own, by name.

    The last call of a node makes the node's tensor; calls that only move or pick codes hand their quantization on. What
    is neither (an intermediate value of an operator) has none.
    """
    found: dict[str, Quantization] = {}

    def note(name: str, quantization: Quantization | None) -> None:
        if quantization is not None and library.tensors[name].dtype in _CODES:
            found.setdefault(library.root(name), quantization)

    for name, info in (
        *zip(library.input_tensors, library.inputs, strict=True),
        *zip(library.output_tensors, library.outputs, strict=True),
    ):
        note(name, info.quantization)
    readers: dict[str, set[str]] = {}
    for call in library.calls:
        for name in call.inputs:
            readers.setdefault(library.root(name), set()).add(call.node)
    for call in library.calls:
        for name in call.outputs:
            if call.node not in readers.get(library.root(name), ()):
                note(name, known.get(call.node))
    moves = [call for call in library.calls if _is_move(library, call)]
    for call in moves:
        note(call.outputs[0], found.get(library.root(call.inputs[0])))
    for call in reversed(moves):
        note(call.inputs[0], found.get(library.root(call.outputs[0])))
    for name, tensor in library.tensors.items():
        tensor.quantization = found.get(library.root(name))


def _is_move(library: Library, call: Call) -> bool:
    same = len(call.inputs) == len(call.outputs) == 1 and _MOVES.fullmatch(call.operator) is not None
    return same and library.tensors[call.inputs[0]].dtype == library.tensors[call.outputs[0]].dtype
