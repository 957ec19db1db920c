"""Files that put a network behind ST's public interfaces (:mod:`tvm_stm32.c_api`): thin, the runtime has the logic.

Only shapes, sizes, formats and quantization are in them; ST's calls end in ``st_client_*`` or ``st_stai_*`` of the
runtime, which use the network through ``st_bridge.h``.
"""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Any

import numpy as np

from .. import __version__
from ..c_api import interface_files, public_name
from ..cnames import comment_text, string_literal
from ..library import Library
from ..model import Quantization, TensorInfo
from ..templates import text_templates

# What applications align activations to at least; the arena's own alignment is made in a few spare bytes.
_ALIGNMENT = 4

_FORMATS = {
    "int8": "S8",
    "uint8": "U8",
    "int16": "S16",
    "uint16": "U16",
    "int32": "S32",
    "uint32": "U32",
    "int64": "S64",
    "uint64": "U64",
    "float32": "FLOAT",
    "float64": "FLOAT64",
    "bool": "BOOL",
}
# Files whose four-dimensional tensors are batch, channels, height, width.
_CHANNEL_FIRST = ("onnx", "pytorch")

_FOLDERS = {"x-cube-ai": "x_cube_ai", "st-ai": "st_ai"}


def render_interface(library: Library, c_api: str) -> dict[str, str]:
    """The text of each file ``c_api`` adds to the network of ``library``, by file name."""
    environment = text_templates(Path(__file__).with_name("templates"), comment=comment_text, string=string_literal)
    name = public_name(library.name)
    assert name != library.name, "the plain name belongs to ST's headers"
    values = _values(library, name)
    folder = _FOLDERS[c_api]
    files = zip(interface_files(name, c_api), interface_files("NAME", c_api), strict=True)
    return {file: environment.get_template(f"{folder}/{template}.j2").render(values) for file, template in files}


def _values(library: Library, name: str) -> dict[str, Any]:
    inputs = [_tensor(library, *pair) for pair in zip(library.inputs, library.input_tensors, strict=True)]
    outputs = [_tensor(library, *pair) for pair in zip(library.outputs, library.output_tensors, strict=True)]
    indices = {tensor: index for index, tensor in enumerate(_inner_tensors(library))}
    return {
        "library": library,
        "name": name,
        "upper": name.upper(),
        "core": library.name,
        "version": __version__,
        "version_numbers": _version_numbers(),
        "origin": PurePath(library.provenance.file_name).stem,
        "signature": f"0x{library.provenance.sha256[:8] or '0'}",
        "inputs": inputs,
        "outputs": outputs,
        "kinds": (("IN", inputs), ("OUT", outputs)),
        "inputs_inside": bool(inputs) and all(tensor["inside"] for tensor in inputs),
        "outputs_inside": bool(outputs) and all(tensor["inside"] for tensor in outputs),
        "alignment": _ALIGNMENT,
        "activations_size": library.arena_size + max(0, library.arena_alignment - _ALIGNMENT),
        "flags": _network_flags(inputs, outputs),
        "context_pointers": 18 + 3 * (len(inputs) + len(outputs)),
        "inner": [_inner_tensor(library, tensor) for tensor in indices],
        "nodes": [_node(library, index, indices) for index in range(len(library.calls))],
    }


def _version_numbers() -> list[int]:
    """Three numbers of this tool's version."""
    parts = (part for part in __version__.split(".") if part.isdigit())
    return ([int(part) for part in parts] + [0, 0, 0])[:3]


def _tensor(library: Library, info: TensorInfo, tensor: str) -> dict[str, Any]:
    channel_first = _is_channel_first(library, info)
    batch, height, width, channels = axes(info.shape, channel_first=channel_first)
    return {
        "name": info.name,
        "shape": list(info.shape) or [1],
        "size": library.tensors[tensor].size,
        "elements": int(np.prod(info.shape, dtype=np.int64)),
        "height": height or 1,
        "width": width or 1,
        "channels": channels,
        # Dimensions the tensor has, by ST's names.
        "extents": [
            (key, extent)
            for key, extent in (("BATCH", batch), ("HEIGHT", height), ("WIDTH", width), ("CHANNEL", channels))
            if extent
        ],
        "has_batch": batch is not None,
        "channel_first": channel_first,
        "format": _FORMATS[info.dtype],
        "stai_format": "FLOAT32" if info.dtype == "float32" else _FORMATS[info.dtype],
        "flags": _tensor_flags(library, info, tensor, channel_first=channel_first),
        "alignment": max(_ALIGNMENT, np.dtype(info.dtype).itemsize),
        "inside": library.tensors[tensor].offset >= 0 and not library.tensors[tensor].pool,
        "quantization": _quantization(info.dtype, info.quantization),
    }


def _network_flags(inputs: list[dict[str, Any]], outputs: list[dict[str, Any]]) -> str:
    """What the generated code allocates: inputs and outputs inside of the activations, and weights."""
    flags = ["STAI_FLAG_WEIGHTS"]
    for kind, tensors in (("INPUTS", inputs), ("OUTPUTS", outputs)):
        if tensors and all(tensor["inside"] for tensor in tensors):
            flags.append(f"STAI_FLAG_{kind}")
    return " | ".join(flags)


def _tensor_flags(library: Library, info: TensorInfo, tensor: str, *, channel_first: bool) -> str:
    flags = ["REPLACEABLE", "CHANNEL_FIRST" if channel_first else "CHANNEL_LAST"]
    if library.tensors[tensor].offset >= 0:
        flags.append("PREALLOCATED")
    if axes(info.shape, channel_first=channel_first)[0] is not None:
        flags.append("HAS_BATCH")
    return " | ".join(f"STAI_FLAG_{flag}" for flag in flags)


def _is_channel_first(library: Library, info: TensorInfo) -> bool:
    if library.settings.get("input-layout") == "nhwc" and info in library.inputs:
        return False
    return len(info.shape) == 4 and library.provenance.source_format in _CHANNEL_FIRST


def axes(shape: tuple[int, ...], *, channel_first: bool) -> tuple[int | None, int | None, int | None, int]:
    """Batch, height, width and channels of a tensor; ``None`` for those it lacks. Further dimensions go into height.

    A leading extent of 1 is the batch; ST's interfaces count batches beside the network, which knows one.
    """
    has_batch = len(shape) > 1 and shape[0] == 1
    rest = list(shape[1:] if has_batch else shape) or [1]
    if channel_first:
        rest = [*rest[:-3], *rest[-2:], rest[-3]]
    channels = rest.pop()
    width = rest.pop() if len(rest) > 1 else None
    height = int(np.prod(rest, dtype=np.int64)) if rest else None
    return (1 if has_batch else None), height, width, channels


def _quantization(dtype: str, quantization: Quantization | None) -> dict[str, Any] | None:
    """Scales and zero points as literals, with the C types that hold the zero points; None where ST has no type."""
    if quantization is None:
        return None
    least, most = min(quantization.zero_point), max(quantization.zero_point)
    for kind, bits, low, high in (("U", 8, 0, 255), ("S", 8, -128, 127), ("U", 16, 0, 65535), ("S", 16, -32768, 32767)):
        unsigned = dtype.startswith("u")
        if low <= least and most <= high and (kind == "U") == unsigned:
            return {
                "count": len(quantization.scale),
                "scales": ", ".join(_decimal(scale) for scale in quantization.scale),
                "zero_points": ", ".join(str(point) for point in quantization.zero_point),
                "flag": f"{kind}{bits}",
                "ctype": f"ai_{'u' if kind == 'U' else 'i'}{bits}",
                "is_s16": most <= 32767,
            }
    return None


def _decimal(value: float) -> str:
    """A float literal without loss; C++11, which may include the headers, has no hexadecimal ones."""
    text = f"{float(np.float32(value)):.9g}"
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def _inner_tensors(library: Library) -> list[str]:
    """Tensors that operators read or write, in the order of their first use."""
    used = (tensor for call in library.calls for tensor in (*call.inputs, *call.outputs))
    return list(dict.fromkeys(used))


def _inner_tensor(library: Library, name: str) -> dict[str, Any]:
    tensor = library.tensors[name]
    quantization = _quantization(tensor.dtype, tensor.quantization)
    return {
        "name": name,
        "shape": list(tensor.shape) or [1],
        "size": tensor.size,
        "format": _FORMATS[tensor.dtype],
        "quantization": quantization if quantization and quantization["is_s16"] else None,
    }


def _node(library: Library, index: int, indices: dict[str, int]) -> dict[str, Any]:
    call = library.calls[index]
    operators = sorted({other.operator for other in library.calls})
    return {
        "id": index,
        "operator": call.operator,
        "name": call.node,
        "type": operators.index(call.operator) + 1,
        "inputs": [indices[tensor] for tensor in call.inputs],
        "outputs": [indices[tensor] for tensor in call.outputs],
    }
