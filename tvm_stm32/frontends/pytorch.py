"""PyTorch front end: exported programs (``.pt2`` or in memory) through TVM's importer, with pt2e's quantize operators.

PyTorch is an optional extra (``torch`` in pyproject.toml).
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from ..errors import ModelError, ToolchainError, UnsupportedOperatorError, quoted
from ..model import Model, Provenance, Quantization, TensorInfo
from . import provenance
from .limits import check_module
from .pytorch_archive import plain_program
from .pytorch_operators import OPERATORS
from .pytorch_quantized import QUANTIZE_OPERATORS
from .reasons import reason

_QUANTIZED = "quantized_decomposed"


def load(path: Path) -> Model:
    """Read a ``.pt2`` file. Raises :class:`ModelError`."""
    torch = _torch()
    with contextlib.suppress(ImportError):
        # Declares pt2e's operators, without which a program that uses them cannot be read.
        importlib.import_module("torch.ao.quantization.fx._decomposed")
    data = path.read_bytes()
    try:
        samples = io.BytesIO()
        torch.save(((), {}), samples)
        plain = plain_program(path.name, data, samples.getvalue())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.load(io.BytesIO(plain))
            program._example_inputs = _zeros(torch, program), {}
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
    # A module that was exported before (pt2e's convert returns one) refuses eval: its mode is part of its graph.
    with contextlib.suppress(NotImplementedError):
        module.eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(module, example_inputs)
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
            module = from_exported_program(program, custom_convert_map={**OPERATORS, **QUANTIZE_OPERATORS})
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
            "PyTorch is not installed",
            why="the model is a PyTorch program",
            hint="pip install torch into the environment of tvm-stm32 (./sconsw: .venv/bin/pip install torch)",
        ) from error
    return torch


def _zeros(torch: Any, program: Any) -> tuple[Any, ...]:
    """Inputs of the program's own shapes, in place of the samples in its file."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    inputs = [values[name] for name in program.graph_signature.user_inputs]
    return tuple(torch.zeros(tuple(value.shape), dtype=value.dtype) for value in inputs)


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
