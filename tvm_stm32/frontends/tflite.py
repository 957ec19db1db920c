"""TFLite front end: TVM's Relax importer, with checked input and the model's own names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import tflite
import tvm
from tvm import relax
from tvm.relax.frontend.tflite import from_tflite
from tvm.relax.frontend.tflite import tflite_frontend as importer

from ..errors import ModelError, UnsupportedOperatorError, quoted
from ..model import Model, Quantization, TensorInfo
from . import provenance
from .binding import bind
from .limits import MOST_STEPS, check_dtype, check_module, check_shape
from .reasons import reason
from .tflite_check import DTYPES, NamedModel, NamedSubGraph, corrupt, indices, open_model

_INT8 = tflite.TensorType.INT8
# Operators whose options begin with the number of outputs.
_SPLITS = ("SPLIT", "SPLIT_V", "UNPACK")
_BUILTIN_NAMES = {value: key for key, value in vars(tflite.BuiltinOperator).items() if isinstance(value, int)}


def load(path: Path) -> Model:
    """Read a TFLite file. Raises :class:`ModelError` with the file, operator and tensor concerned."""
    data = path.read_bytes()
    graph = open_model(path.name, data)
    subgraph = graph.Subgraphs(0)
    inputs = [_tensor_info(path, subgraph, index) for index in indices(subgraph.InputsAsNumpy())]
    outputs = [_tensor_info(path, subgraph, index) for index in indices(subgraph.OutputsAsNumpy())]
    module = _import(path, graph)
    check_module(path.name, module, outputs)
    quantized = any(
        subgraph.Tensors(i).Type() in (tflite.TensorType.INT8, tflite.TensorType.INT16)
        and subgraph.Tensors(i).Quantization() is not None
        for i in range(subgraph.TensorsLength())
    )
    return Model(module, inputs, outputs, "tflm" if quantized else "float", provenance(path, data, "tflite"))


class _NamingConverter(importer.OperatorConverter):  # type: ignore[misc]  # TVM is not typed
    """The importer's converter, binding each operator's output under its tensor's name."""

    # The importer reads these on quantized tensors too, and only its list does not say so: they move codes.
    _SUPPORTED_QUANTIZED_OPS = importer.OperatorConverter._SUPPORTED_QUANTIZED_OPS | {"PAD", "TRANSPOSE"}

    def check_unsupported_ops(self) -> None:
        """As the importer's, but with the operator's place."""
        for index in range(self.subgraph.OperatorsLength()):
            op = self.subgraph.Operators(index)
            code = _operator_name(self.model, op)
            where = f"operator {code} that {_what_it_makes(self.subgraph, op)} (operator {index} of the model)"
            known = code in self.convert_map or code == "CUSTOM 'TFLite_Detection_PostProcess'"
            if not known:
                raise UnsupportedOperatorError(
                    f"{where} is not supported",
                    why="the TFLite importer does not know it",
                    hint="replace it in the model by operators of the TFLite built-in set",
                )
            _check_repeats(where, code, op, self.subgraph)
            inputs, outputs = self.get_input_tensors(op), self.get_output_tensors(op)
            quantized = [tensor.qnn_params is not None for tensor in (*inputs, *outputs)]
            if any(quantized[1 : len(inputs)]) and not any(quantized[:1] + quantized[len(inputs) :]):
                raise UnsupportedOperatorError(
                    f"{where} has quantized weights and float data",
                    why="dynamic-range quantization is not supported",
                    hint="quantize the whole model to int8, or keep it in float32",
                )
            for tensor in (*inputs, *outputs) if any(quantized) else ():
                if tensor.tensor_idx >= 0 and tensor.qnn_params is None and tensor.tensor.Type() == _INT8:
                    raise ModelError(
                        f"tensor {quoted(_tensor_name(self.subgraph, tensor.tensor_idx))} of operator {code} "
                        f"(operator {index} of the model) has no quantization parameters",
                        why="it holds int8 codes, and the operator's other tensors are quantized",
                        hint="quantize the model again",
                    )
            if any(quantized) and code not in self._SUPPORTED_QUANTIZED_OPS and code in self.convert_map:
                raise UnsupportedOperatorError(
                    f"{where} is not supported on quantized tensors",
                    why="the TFLite importer has no quantized form of it",
                    hint="keep this operator in float32 in the model",
                )

    def convert_op_to_relax(self) -> None:
        for index in range(self.subgraph.OperatorsLength()):
            op = self.subgraph.Operators(index)
            outputs = self.get_output_tensors(op)
            name = _tensor_name(self.subgraph, outputs[0].tensor_idx) if outputs else f"operator {index}"
            try:
                result = self._converted(op)
                if result is None:
                    continue
                result = self.bb.normalize(result)
                if len(outputs) == 1:
                    if isinstance(result, relax.Call | relax.Var) and isinstance(result.ty, relax.TensorType):
                        result = bind(self.bb, result, name)
                    self.exp_tab.set_expr(name, result)
                else:
                    if isinstance(result, relax.Call):
                        result = bind(self.bb, result, name)
                    for position, tensor in enumerate(outputs):
                        self.exp_tab.set_expr(_tensor_name(self.subgraph, tensor.tensor_idx), result[position])
            except ModelError:
                raise
            except Exception as error:  # the importer raises whatever a malformed attribute leads to
                raise UnsupportedOperatorError(
                    f"operator {_operator_name(self.model, op)} that {_what_it_makes(self.subgraph, op)} (operator "
                    f"{index} of the model) cannot be imported",
                    why=reason(error),
                ) from error

    def _converted(self, op: Any) -> Any:
        convert = self.convert_map[self.get_op_code_str(op)]
        try:
            return convert(op=op)
        except KeyError:
            # Many converters take their data for something computed; a constant has to be made an expression first.
            for tensor in self.get_input_tensors(op):
                if tensor.tensor_idx >= 0 and not self.has_expr(tensor.tensor_idx) and tensor.buffer.DataLength():
                    name = _tensor_name(self.subgraph, tensor.tensor_idx)
                    self.exp_tab.set_expr(name, self.get_tensor_expr(tensor))
            return convert(op=op)


def _operator_name(model: Any, op: Any) -> str:
    code = model.OperatorCodes(op.OpcodeIndex())
    # Converters write the code into one field or both; the larger value is the code (TFLite 2.4's schema).
    number = max(code.DeprecatedBuiltinCode(), code.BuiltinCode())
    if number == tflite.BuiltinOperator.CUSTOM:
        return f"CUSTOM {quoted((code.CustomCode() or b'').decode('utf-8', 'replace'))}"
    return str(_BUILTIN_NAMES.get(number, f"number {number}"))


def _what_it_makes(subgraph: Any, op: Any) -> str:
    outputs = indices(op.OutputsAsNumpy())
    return f"makes {quoted(_tensor_name(subgraph, outputs[0]))}" if outputs else "makes nothing"


def _check_repeats(where: str, code: str, op: Any, subgraph: Any) -> None:
    """The importer repeats these operators' work as often as the file says, whether it makes sense or not."""
    options = op.BuiltinOptions()
    if code in _SPLITS and options is not None:
        slot = options.Offset(4)
        count = options.Get(flatbuffers.number_types.Int32Flags, slot + options.Pos) if slot else 0
        if count != op.OutputsLength():
            raise ModelError(f"{where} is to make {count} parts and has {op.OutputsLength()} outputs")
    if code.endswith(("SEQUENCE_LSTM", "SEQUENCE_RNN")) and op.InputsLength():
        steps = max(indices(subgraph.Tensors(max(0, op.Inputs(0))).ShapeAsNumpy())[:2], default=0)
        if steps > MOST_STEPS:
            raise ModelError(f"{where} has {steps} steps", why=f"each step is compiled; at most {MOST_STEPS} are")


def _import(path: Path, graph: NamedModel) -> tvm.IRModule:
    try:
        module = from_tflite(graph, op_converter=_NamingConverter)
    except ModelError:
        raise
    except Exception as error:
        raise corrupt(path.name, f"the importer fails: {reason(error)}") from error
    return tvm.IRModule({"main": module["main"].without_attr("params").without_attr("num_input")})


def _tensor_name(subgraph: Any, index: int) -> str:
    return str(importer.get_tensor_name(subgraph, index))


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
