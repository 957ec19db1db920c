"""PyTorch front end: exported programs (``.pt2`` or in memory) through TVM's importer, with pt2e's quantize operators.

PyTorch is an optional extra: ``pip install tvm-stm32[torch]``.
"""

from __future__ import annotations

import hashlib
import io
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from ..errors import ModelError, ToolchainError, UnsupportedOperatorError, quoted
from ..model import Model, Provenance, Quantization, TensorInfo
from . import provenance
from .binding import bind
from .limits import check_module
from .reasons import reason

LARGEST_FILE = 1 << 30
"""Bytes an exported program may unpack to."""

_QUANTIZED = "quantized_decomposed"


def load(path: Path) -> Model:
    """Read a ``.pt2`` file. Raises :class:`ModelError`."""
    torch = _torch()
    data = path.read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > LARGEST_FILE:
                raise ModelError(f"{path.name}: the program unpacks to more than {LARGEST_FILE:,} bytes")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.load(io.BytesIO(data))
    except ModelError:
        raise
    except Exception as error:  # zip, JSON and torch's own exceptions
        raise ModelError(
            f"{path.name}: not an exported PyTorch program",
            why=reason(error),
            hint="write it with torch.export.save(torch.export.export(module, example_inputs), file)",
        ) from error
    return from_program(program, provenance(path, data, "pytorch"))


def from_torch(module: Any, example_inputs: tuple[Any, ...], name: str = "module") -> Model:
    """Export a ``torch.nn.Module`` with ``example_inputs`` and read it; its provenance is ``name`` and its weights."""
    torch = _torch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(module.eval(), example_inputs)
    digest = hashlib.sha256(str(program.graph).encode())
    for tensor in program.state_dict.values():
        digest.update(np.ascontiguousarray(tensor.detach().cpu().numpy()).tobytes())
    return from_program(program, Provenance(f"{name}.pt2", digest.hexdigest(), "pytorch"))


def from_program(program: Any, origin: Provenance) -> Model:
    """Translate an exported program. Raises :class:`ModelError` naming node and operator."""
    from tvm.relax.frontend.torch import from_exported_program

    _check(program, origin)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = from_exported_program(program, custom_convert_map=_QUANTIZE_OPERATORS)
    except Exception as error:  # the importer raises whatever a malformed node leads to
        raise UnsupportedOperatorError(
            f"{origin.file_name}: the PyTorch importer cannot read it", why=reason(error)
        ) from error
    module = tvm.IRModule({"main": module["main"]})
    inputs, outputs = _inputs(module), _outputs(program, module)
    check_module(origin.file_name, module, outputs)
    quantized = any(_QUANTIZED in str(node.target) for node in program.graph.nodes)
    return Model(
        module,
        [_with_quantization(program, info) for info in inputs],
        outputs,
        "torch" if quantized else "float",
        origin,
    )


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise ToolchainError(
            "PyTorch is not installed", why="the model is a PyTorch program", hint="pip install 'tvm-stm32[torch]'"
        ) from error
    return torch


def _check(program: Any, origin: Provenance) -> None:
    signature = program.graph_signature
    values = {**program.state_dict, **program.constants}
    stored = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    stored.update(getattr(signature, "inputs_to_lifted_tensor_constants", {}))
    for node in program.graph.nodes:
        if "dequantize_per_channel" in str(node.target):
            zero_points = values.get(stored.get(getattr(node.args[2], "name", ""), ""))
            if zero_points is None or bool((zero_points != 0).any()):
                raise UnsupportedOperatorError(
                    f"{origin.file_name}: node {quoted(node.name)} has per-channel zero points",
                    why="weights quantized for each channel are symmetric",
                    hint="quantize the weights symmetrically",
                )
        value = node.meta.get("val")
        for extent in getattr(value, "shape", ()):
            if not isinstance(extent, int):
                raise ModelError(
                    f"{origin.file_name}: node {quoted(node.name)} has a dynamic shape {tuple(value.shape)}",
                    why="static memory is planned from fixed shapes",
                    hint="export the module without dynamic_shapes",
                )


def _inputs(module: tvm.IRModule) -> list[TensorInfo]:
    return [
        TensorInfo(parameter.name, tuple(int(e) for e in parameter.ty.shape), str(parameter.ty.dtype))
        for parameter in module["main"].params
    ]


def _outputs(program: Any, module: tvm.IRModule) -> list[TensorInfo]:
    names = [str(spec.arg.name) for spec in program.graph_signature.output_specs]
    kind = module["main"].ret_ty
    kinds = list(kind.fields) if isinstance(kind, relax.TupleType) else [kind]
    return [
        TensorInfo(name, tuple(int(extent) for extent in one.shape), str(one.dtype), _made_by(program, name))
        for name, one in zip(names, kinds, strict=True)
    ]


def _made_by(program: Any, name: str) -> Quantization | None:
    """Quantization of an output that a quantize node makes."""
    for node in program.graph.nodes:
        if node.name == name and "quantize_per_tensor" in str(node.target):
            return Quantization((float(node.args[1]),), (int(node.args[2]),))
    return None


def _with_quantization(program: Any, info: TensorInfo) -> TensorInfo:
    """The input with the quantization by which the program dequantizes it."""
    for node in program.graph.nodes:
        if "dequantize_per_tensor" in str(node.target) and getattr(node.args[0], "name", "") == info.name:
            return TensorInfo(
                info.name, info.shape, info.dtype, Quantization((float(node.args[1]),), (int(node.args[2]),))
            )
    return info


def _quantize(node: Any, importer: Any) -> relax.Var:
    data = importer.env[node.args[0]]
    scale, zero_point = float(node.args[1]), int(node.args[2])
    low, high, dtype = int(node.args[3]), int(node.args[4]), str(node.args[5]).removeprefix("torch.")
    call = relax.op.quantize(data, relax.const(scale, "float32"), relax.const(zero_point, "int32"), 0, dtype)
    limits = np.iinfo(dtype)
    codes = bind(importer.block_builder, call, node.name)
    if (low, high) == (limits.min, limits.max):
        return codes
    return bind(importer.block_builder, relax.op.clip(codes, low, high), node.name)


def _dequantize(node: Any, importer: Any) -> relax.Var:
    data = importer.env[node.args[0]]
    scale, zero_point = float(node.args[1]), int(node.args[2])
    call = relax.op.dequantize(data, relax.const(scale, "float32"), relax.const(zero_point, "int32"), 0)
    return bind(importer.block_builder, call, node.name)


def _dequantize_channels(node: Any, importer: Any) -> relax.Var:
    # The scales are a buffer, bound to its value once the whole program is read; zero points are 0 (see _check).
    data, scales = importer.env[node.args[0]], importer.env[node.args[1]]
    call = relax.op.dequantize(data, scales, relax.const(0, "int32"), int(node.args[3]))
    return bind(importer.block_builder, call, node.name)


_QUANTIZE_OPERATORS = {
    "quantize_per_tensor.default": _quantize,
    "dequantize_per_tensor.default": _dequantize,
    "dequantize_per_channel.default": _dequantize_channels,
}
