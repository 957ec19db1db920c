"""TFLite front end: TVM's Relax importer with checked input, our integer operators, the model's own names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tflite
import tvm
from tvm.relax.frontend.tflite import from_tflite

from ..errors import ModelError, quoted
from ..model import Model, Numerics, Quantization, TensorInfo
from . import provenance
from .limits import check_dtype, check_module, check_shape
from .reasons import reason
from .tflite_check import DTYPES, NamedModel, NamedSubGraph, corrupt, indices, open_model
from .tflite_converter import Converter
from .tflite_resize import resize_inputs
from .tflite_unsigned import has_unsigned_codes, signed_codes, with_unsigned_border
from .tflite_variables import with_states


def load(path: Path, input_shapes: Mapping[str, tuple[int, ...]] | None = None) -> Model:
    """Read a TFLite file; ``input_shapes`` fix dynamic inputs.

    Raises :class:`ModelError` with the file, operator and tensor concerned.
    """
    data = path.read_bytes()
    content = bytearray(data)
    graph = open_model(path.name, content, resized=bool(input_shapes))
    subgraph = graph.Subgraphs(0)
    if input_shapes:
        resize_inputs(path.name, content, subgraph, input_shapes)
    inputs = [_tensor_info(path, subgraph, index) for index in indices(subgraph.InputsAsNumpy())]
    outputs = [_tensor_info(path, subgraph, index) for index in indices(subgraph.OutputsAsNumpy())]
    unsigned = has_unsigned_codes(graph)
    if unsigned:
        content = bytearray(signed_codes(path.name, bytes(content), graph))
        graph = open_model(path.name, content, resized=bool(input_shapes))
        graph.unsigned = True
        subgraph = graph.Subgraphs(0)
    graph.resized = content if input_shapes else None
    module, converter = _import(path, graph)
    if input_shapes:
        made = [tuple(indices(subgraph.Tensors(i).ShapeAsNumpy())) for i in indices(subgraph.OutputsAsNumpy())]
        outputs = [replace(info, shape=shape) for info, shape in zip(outputs, made, strict=True)]
    if unsigned:
        module = with_unsigned_border(module, inputs, outputs)
    check_module(path.name, module, outputs)
    module, states = with_states(module, converter.variables)
    numerics: Numerics = "tflm" if _is_quantized(graph, subgraph) else "float"
    model = Model(module, inputs, outputs, numerics, provenance(path, data, "tflite"), states=states)
    tensors = (subgraph.Tensors(index) for index in range(subgraph.TensorsLength()))
    model.tensors.update(
        {tensor.unique_name: known for tensor in tensors if (known := _quantization(tensor)) is not None}
    )
    if converter.as_floats:
        model.notes.append(
            "dynamic-range quantization: int8 weights of operators without a hybrid kernel are floats here, and take "
            "their room"
        )
    return model


def _is_quantized(graph: NamedModel, subgraph: NamedSubGraph) -> bool:
    """Whether an activation holds codes; quantized weights alone leave a network of floats."""
    for index in range(subgraph.TensorsLength()):
        tensor = subgraph.Tensors(index)
        integer = tensor.Type() in (tflite.TensorType.INT8, tflite.TensorType.INT16)
        if integer and tensor.Quantization() is not None and not graph.Buffers(tensor.Buffer()).DataLength():
            return True
    return False


def _import(path: Path, graph: NamedModel) -> tuple[tvm.IRModule, Converter]:
    converters: list[Converter] = []

    def make(*arguments: Any) -> Converter:
        converters.append(Converter(*arguments))
        return converters[-1]

    try:
        module = from_tflite(graph, op_converter=make)
    except ModelError:
        raise
    except Exception as error:
        raise corrupt(path.name, f"the importer fails: {reason(error)}") from error
    main = module["main"].without_attr("params").without_attr("num_input")
    return tvm.IRModule({"main": main}), converters[0]


def _tensor_info(path: Path, subgraph: NamedSubGraph, index: int) -> TensorInfo:
    tensor = subgraph.Tensors(index)
    what = f"tensor {quoted(tensor.unique_name)}"
    dtype = DTYPES.get(tensor.Type(), "string")
    check_dtype(path.name, what, dtype)
    shape = tuple(indices(tensor.ShapeAsNumpy()))
    check_shape(path.name, what, shape)
    return TensorInfo(tensor.unique_name, shape, dtype, _quantization(tensor))


def _quantization(tensor: Any) -> Quantization | None:
    parameters = tensor.Quantization()
    scales = parameters.ScaleAsNumpy() if parameters is not None else None
    if not isinstance(scales, np.ndarray) or not scales.size:
        return None
    axis = parameters.QuantizedDimension() if len(scales) > 1 else -1
    return Quantization(tuple(float(scale) for scale in scales), tuple(indices(parameters.ZeroPointAsNumpy())), axis)
