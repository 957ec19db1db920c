"""Writes a network's files: ``NAME.c/.h``, ``NAME_data.c/.h``, ``NAME_report.json/.txt``, ``NAME.cmake/.mk``.

What depends on the values of weights is in ``NAME_data.c`` alone, so retraining recompiles one file.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..cnames import comment_text, string_literal
from ..files import make_folder, write_atomically
from ..library import ARENA_SECTION, Argument, Call, Constant, Library, State, Tensor
from ..library.ctypes import CTYPES
from ..model import Quantization, TensorInfo
from ..templates import text_templates
from .literals import float_literal, initialiser
from .report import report, report_text
from .snippets import render_snippets
from .st import render_interface
from .weights import HEADER_BYTES, WeightsFile, weights_file

_LINE = 120

# Of the file of weights, where they are not C text.
WEIGHTS_SUFFIX = "_weights.bin"
OUTPUT_SUFFIXES = (".c", ".h", "_data.c", "_data.h", "_report.json", "_report.txt")

_DTYPES = {
    "int8": "INT8",
    "uint8": "UINT8",
    "int16": "INT16",
    "uint16": "UINT16",
    "int32": "INT32",
    "uint32": "UINT32",
    "int64": "INT64",
    "uint64": "UINT64",
    "float32": "FLOAT32",
    "float64": "FLOAT64",
    "bool": "BOOL",
}


def emit(library: Library, folder: Path, c_api: str = "ai", *, keep_unchanged: bool = False) -> list[Path]:
    """Write all files of ``library`` into ``folder`` (made if absent), whole or not at all. Returns their paths.

    ``c_api`` other than ``ai`` adds ST's interface (:mod:`.st`) under the public name of the network, whose own name is
    a :func:`~tvm_stm32.c_api.core_name`; such applications bring the arena. ``keep_unchanged``: see
    :func:`~tvm_stm32.files.write_atomically`.
    """
    weights = weights_file(library) if library.weights != "array" else None
    contents: dict[str, str | bytes] = {**_texts(library, weights, static_arena=c_api == "ai")}
    if weights is not None:
        contents[WEIGHTS_SUFFIX] = weights.content
    files = {f"{library.name}{suffix}": content for suffix, content in contents.items()}
    if c_api != "ai":
        files |= render_interface(library, c_api)
    files |= render_snippets(library, c_api)
    make_folder(folder)
    placed = {folder / name: content for name, content in files.items()}
    return write_atomically(placed, keep_unchanged=keep_unchanged)


def render(library: Library, *, static_arena: bool = True) -> dict[str, str]:
    """The text of each file by its suffix. ``static_arena`` is the default of the macro of that name."""
    weights = weights_file(library) if library.weights != "array" else None
    return _texts(library, weights, static_arena=static_arena)


def _texts(library: Library, weights: WeightsFile | None, *, static_arena: bool) -> dict[str, str]:
    environment = text_templates(Path(__file__).with_name("templates"), comment=comment_text, string=string_literal)
    facts = report(library)
    values: dict[str, Any] = {
        "library": library,
        "name": library.name,
        "upper": library.name.upper(),
        "version": __version__,
        "settings": " ".join(f"{key}={value}" for key, value in sorted(library.settings.items())),
        "inputs": [_tensor(library, *pair) for pair in zip(library.inputs, library.input_tensors, strict=True)],
        "outputs": [_tensor(library, *pair) for pair in zip(library.outputs, library.output_tensors, strict=True)],
        "weights": weights,
        "header_bytes": HEADER_BYTES,
        "static_arena": int(static_arena),
        "constants": [
            {
                "name": constant.name,
                "ctype": CTYPES[str(constant.data.dtype)],
                "count": max(1, constant.data.size),
                "bytes": max(1, constant.data.size) * constant.data.itemsize,
                "data": constant.data,
                "pool": library.pool(constant.pool) if constant.pool and constant.offset < 0 else None,
            }
            for constant in library.constants.values()
        ],
        "initialiser": initialiser,
        "states": [_state(library, state) for state in library.states],
        **_pools(library),
        "calls": [_call(library, call, facts) for call in library.calls],
        "headers": sorted({header for kernel in library.kernels.values() for header in kernel.headers} - {"math.h"}),
        "uses_math": any(kernel.libm or kernel.uses_float for kernel in library.kernels.values()),
        "has_floats": any(constant.data.dtype.kind == "f" for constant in library.constants.values()),
        "macs": min(library.macs, 0xFFFFFFFF),
        "rounding": "AI_ROUND_EVEN" if library.provenance.source_format == "onnx" else "AI_ROUND_AWAY",
    }
    texts_of_calls = "".join(call["text"] for call in values["calls"])
    values["used_pools"] = [pool for pool in library.static_pools if re.search(rf"\b{pool.variable}\b", texts_of_calls)]
    values["uses_arena"], values["uses_tensors"] = "arena" in texts_of_calls, "tensors[" in texts_of_calls
    texts = {
        suffix: environment.get_template(template).render(values)
        for suffix, template in (
            (".c", "network.c.j2"),
            (".h", "network.h.j2"),
            ("_data.c", "network_data.c.j2"),
            ("_data.h", "network_data.h.j2"),
        )
    }
    texts["_report.json"] = json.dumps(facts, indent=2) + "\n"
    texts["_report.txt"] = report_text(facts)
    return texts


def _tensor(library: Library, info: TensorInfo, tensor: str) -> dict[str, Any]:
    shape = list(info.shape) or [1]
    quantization = info.quantization
    return {
        "name": info.name,
        "shape": shape,
        "ndim": len(info.shape),
        "size": library.tensors[tensor].size,
        "elements": int(np.prod(shape)),
        "offset": f"{library.tensors[tensor].offset}U" if in_arena(library, tensor) else "AI_NO_OFFSET",
        "alignment": np.dtype(info.dtype).itemsize,
        "flags": "0U" if library.movable(tensor) else "AI_TENSOR_FIXED",
        "dtype": _DTYPES[info.dtype],
        "ctype": CTYPES[info.dtype],
        "real": _real(quantization),
        "quantization": quantization,
        "scales": ", ".join(float_literal(scale) for scale in quantization.scale) if quantization else "",
        "zero_points": ", ".join(str(z) for z in quantization.zero_point) if quantization else "",
    }


def _pools(library: Library) -> dict[str, Any]:
    """Pools beside the arena that hold something, and what is put there when an instance is created."""
    copies = [constant for constant in library.constants.values() if constant.offset >= 0]
    ends = [library.tensors[name] for name in (*library.input_tensors, *library.output_tensors)]
    in_flash = {constant.pool for constant in library.constants.values() if constant.offset < 0}
    return {
        "static_pools": [pool for pool in library.static_pools if pool.used],
        "flash_pools": [pool for pool in library.pools if pool.name in in_flash],
        "arena_section": (library.arena_pool.section if library.arena_pool else "") or ARENA_SECTION,
        "copies": [
            {"name": constant.name, "size": constant.data.nbytes, "address": _place_of(library, constant)}
            for constant in copies
        ],
        "copies_in_arena": any(not constant.pool for constant in copies),
        "placed": [
            {"index": index, "address": _place_of(library, tensor)} for index, tensor in enumerate(ends) if tensor.pool
        ],
        "reset_pools": ({constant.pool for constant in copies} | {tensor.pool for tensor in ends}) - {""},
    }


def _place_of(library: Library, part: Tensor | Constant) -> str:
    base = library.pool(part.pool).variable if part.pool else "arena"
    return f"{base} + {part.offset}" if part.offset else base


def in_arena(library: Library, tensor: str) -> bool:
    """Whether an input or output lies there, not in a pool of its own or where the application has it."""
    return library.tensors[tensor].offset >= 0 and not library.tensors[tensor].pool


def _state(library: Library, state: State) -> dict[str, Any]:
    tensor = library.tensors[state.tensor]
    initial = np.full(1, state.initial, tensor.dtype)
    content = set(initial.tobytes())
    return {
        "name": state.name,
        "offset": tensor.offset,
        "size": tensor.size,
        "count": tensor.size // initial.itemsize,
        "ctype": CTYPES[tensor.dtype],
        "byte": content.pop() if len(content) == 1 else None,
        "value": initialiser(initial).strip().rstrip(","),
    }


def _real(quantization: Quantization | None) -> str:
    """How codes and reals belong together, for a comment."""
    if quantization is None:
        return ""
    if len(quantization.scale) > 1:
        return f", quantized along axis {quantization.axis}"
    zero_point = quantization.zero_point[0]
    code = f"(code {'+' if zero_point < 0 else '-'} {abs(zero_point)})" if zero_point else "code"
    return f", real = {quantization.scale[0]:.9g} * {code}"


def _call(library: Library, call: Call, facts: dict[str, Any]) -> dict[str, Any]:
    row = facts["operators"][library.calls.index(call)]
    return {
        "row": row,
        "kernel": call.kernel,
        "text": _call_text(
            call.kernel,
            [_argument(library, call, argument) for argument in call.arguments],
            fails=library.kernels[call.kernel].fails,
        ),
    }


def _call_text(kernel: str, arguments: list[str], *, fails: bool) -> str:
    """The call as a statement, its arguments filled into lines; one that ``fails`` ends the run when it did."""
    lines, line = [], f"    {'if (' if fails else ''}{kernel}("
    end = ") != 0) {\n        return AI_STATUS_ERROR;\n    }" if fails else ");"
    indent = " " * len(line)
    for number, argument in enumerate(arguments):
        text = argument + (", " if number + 1 < len(arguments) else end)
        if len(line) + len(text.partition("\n")[0].rstrip()) > _LINE and line.strip() and line != indent:
            lines.append(line.rstrip())
            line = indent
        line += text
    return "\n".join([*lines, line])


def _position(library: Library, name: str) -> int | None:
    """The place among inputs and outputs of the one whose memory ``name`` is in, where the application may move it."""
    root = library.root(name)
    for position, own in enumerate([*library.input_tensors, *library.output_tensors]):
        if library.root(own) == root and library.movable(own):
            return position
    return None


def _home(library: Library, call: Call, argument: Argument) -> tuple[str, int]:
    """Pool and offset of what a call is handed."""
    if argument.kind == "workspace":
        return call.workspace_pool, call.workspace_offset
    if argument.kind == "constant":
        return library.constants[argument.name].pool, library.constants[argument.name].offset
    return library.tensors[argument.name].pool, library.tensors[argument.name].offset


def _argument(library: Library, call: Call, argument: Argument) -> str:
    if argument.kind == "constant" and library.constants[argument.name].offset < 0:
        return argument.name
    is_written = argument.kind == "workspace" or (argument.kind == "tensor" and argument.name in call.outputs)
    qualifier = "" if is_written else "const "
    if argument.kind == "tensor":
        position = _position(library, argument.name)
        if position is not None:
            data, behind = f"tensors[{position}].data", library.root_offset(argument.name)
            if behind:
                return f"({qualifier}{argument.ctype} *)({qualifier}void *)(({qualifier}uint8_t *){data} + {behind})"
            return f"({qualifier}{argument.ctype} *){data}"
    pool, offset = _home(library, call, argument)
    base = library.pool(pool).variable if pool else "arena"
    address = f"({base} + {offset})" if offset else base
    if argument.ctype == "uint8_t" and not qualifier:
        return address.removeprefix("(").removesuffix(")")
    if argument.ctype in ("int8_t", "uint8_t"):
        return f"({qualifier}{argument.ctype} *){address}"
    return f"({qualifier}{argument.ctype} *)({qualifier}void *){address}"
