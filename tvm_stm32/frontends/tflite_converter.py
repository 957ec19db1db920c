"""TVM's TFLite converter with this project's rules for quantized operators, folding, and errors that name the place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flatbuffers
import numpy as np
import tflite
from tvm import relax
from tvm.relax.frontend.tflite import tflite_frontend as importer

from ..errors import ModelError, UnsupportedOperatorError, quoted
from ..graph.ssa import dtype_of, shape_of
from .binding import bind
from .limits import MOST_STEPS
from .reasons import reason
from .tflite_check import DTYPES, indices
from .tflite_control import ControlFlow
from .tflite_folding import dequantized, folded
from .tflite_hybrid import HYBRID, is_hybrid
from .tflite_resize import result_shape, shared_shapes, write_shape
from .tflite_rules import RULES
from .tflite_site import Operand, Rule, Site
from .tflite_variables import VariableConverter

# Operators whose options begin with the number of outputs.
_SPLITS = ("SPLIT", "SPLIT_V", "UNPACK")
_BUILTIN_NAMES = {value: key for key, value in vars(tflite.BuiltinOperator).items() if isinstance(value, int)}
# Operators that hand codes on as they are.
_CODES_UNSEEN = ("READ_VARIABLE", "ASSIGN_VARIABLE")
# The importer reads these on codes as they are: values pass, or only shapes are read.
CODES_PASS = frozenset({"ASSIGN_VARIABLE", "READ_VARIABLE", "VAR_HANDLE", "CALL_ONCE", "SHAPE", "RANK"})
_NONE: np.ndarray = np.zeros(0, np.float64)


class _FloatTensor:
    """A constant of codes seen as the floats it stands for."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def Type(self) -> int:  # noqa: N802 - the generated class's method
        return int(tflite.TensorType.FLOAT32)

    def Quantization(self) -> None:  # noqa: N802 - the same
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tensor, name)


class Converter(ControlFlow, VariableConverter, importer.OperatorConverter):  # type: ignore[misc]  # TVM is not typed
    """The importer's converter, binding each operator's output under its tensor's name."""

    _SUPPORTED_QUANTIZED_OPS = importer.OperatorConverter._SUPPORTED_QUANTIZED_OPS | CODES_PASS

    @staticmethod
    def known_operators() -> set[str]:
        """The operators the importer converts."""
        return set(importer.OperatorConverter(None, None, None, None).convert_map)

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        # Values known while the file is read, by tensor; those of float operators' int8 weights among them.
        self.known: dict[int, np.ndarray] = {}
        self.as_floats: set[int] = set()
        self.fixed = shared_shapes(self.subgraph) if self.subgraph is not None else set()
        self.results = {_tensor_name(self.subgraph, index) for index in indices(self.subgraph.OutputsAsNumpy())}

    def check_unsupported_ops(self) -> None:
        """As the importer's, but with the operator's place."""
        for index in range(self.subgraph.OperatorsLength()):
            op = self.subgraph.Operators(index)
            code = _operator_name(self.model, op)
            where = f"operator {code} that {_what_it_makes(self.subgraph, op)} (operator {index} of the model)"
            known = code in self.convert_map or code in RULES or code == "CUSTOM 'TFLite_Detection_PostProcess'"
            if not known:
                raise UnsupportedOperatorError(
                    f"{where} is not supported",
                    why="the TFLite importer does not know it",
                    hint="replace it in the model by operators of the TFLite built-in set",
                )
            _check_repeats(where, code, op, self.subgraph)
            self._take_weights_as_floats(op)
            inputs, outputs = self.get_input_tensors(op), self.get_output_tensors(op)
            quantized = [tensor.qnn_params is not None for tensor in (*inputs, *outputs)]
            for tensor in (*inputs, *outputs) if any(quantized) else ():
                integers = (tflite.TensorType.INT8, tflite.TensorType.INT16)
                if tensor.tensor_idx >= 0 and tensor.qnn_params is None and tensor.tensor.Type() in integers:
                    raise ModelError(
                        f"tensor {quoted(_tensor_name(self.subgraph, tensor.tensor_idx))} of operator {code} "
                        f"(operator {index} of the model) has no quantization parameters",
                        why=f"it holds {DTYPES[tensor.tensor.Type()]} codes, and the operator's other tensors are "
                        "quantized",
                        hint="quantize the model again",
                    )
            exact = (
                code in _CODES_UNSEEN
                or self._rule(code, inputs, outputs) is not None
                or is_hybrid(code, [self._operand(tensor) for tensor in inputs])
                or self._is_constant(inputs)
            )
            if any(quantized) and not exact and code not in self._SUPPORTED_QUANTIZED_OPS and code in self.convert_map:
                raise UnsupportedOperatorError(
                    f"{where} is not supported on quantized tensors",
                    why="neither this project nor the TFLite importer has a quantized form of it",
                    hint="keep this operator in float32 in the model",
                )

    def _is_constant(self, inputs: Sequence[Any]) -> bool:
        return all(tensor.tensor_idx < 0 or tensor.buffer.DataLength() > 0 for tensor in inputs)

    def _take_weights_as_floats(self, op: Any) -> None:
        """Dynamic-range models: int8 weights of an operator on floats become floats here."""
        tensors = super().get_input_tensors(op)
        outputs = super().get_output_tensors(op)
        computed = [tensor for tensor in tensors if tensor.tensor_idx >= 0 and not tensor.buffer.DataLength()]
        if not computed or any(tensor.qnn_params is not None for tensor in (*computed, *outputs)):
            return
        if not any(tensor.tensor.Type() == tflite.TensorType.FLOAT32 for tensor in (*computed, *outputs)):
            return
        if is_hybrid(_operator_name(self.model, op), [self._operand(tensor) for tensor in tensors]):
            return
        for tensor in tensors:
            if tensor.tensor_idx < 0 or tensor.qnn_params is None or tensor.tensor_idx in self.as_floats:
                continue
            operand = self._operand(tensor)
            assert operand is not None and operand.value is not None
            self.known[tensor.tensor_idx] = dequantized(
                operand.value, operand.scales, operand.zero_points, operand.axis
            )
            self.as_floats.add(tensor.tensor_idx)

    def get_tensors(self, tensors_idx_list: Any) -> list[Any]:
        """As the importer's; int8 weights of operators on floats are float tensors."""
        tensors: list[Any] = super().get_tensors(tensors_idx_list)
        for tensor in tensors:
            if tensor.tensor_idx in self.as_floats:
                tensor.tensor, tensor.qnn_params = _FloatTensor(tensor.tensor), None
        return tensors

    def get_tensor_value(self, tensor_wrapper: Any, is_sparse: bool = False) -> np.ndarray:
        """As the importer's, and the values of folded operators."""
        if tensor_wrapper.tensor_idx in self.known:
            return self.known[tensor_wrapper.tensor_idx]
        return np.asarray(super().get_tensor_value(tensor_wrapper, is_sparse))

    def convert_op_to_relax(self) -> None:
        for index in range(self.subgraph.OperatorsLength()):
            op = self.subgraph.Operators(index)
            outputs = self.get_output_tensors(op)
            names = [_tensor_name(self.subgraph, tensor.tensor_idx) for tensor in outputs]
            try:
                result = self._converted(op, index)
                if result is not None:
                    self._set(result, names, names[0] if names else f"operator {index}")
                for tensor in outputs if self.model.resized is not None else ():
                    if self.has_expr(tensor.tensor_idx):
                        self._resize(tensor, shape_of(self.bb.normalize(self.get_expr(tensor.tensor_idx))))
            except ModelError:
                raise
            except Exception as error:  # the importer raises whatever a malformed attribute leads to
                raise UnsupportedOperatorError(
                    f"operator {_operator_name(self.model, op)} that {_what_it_makes(self.subgraph, op)} (operator "
                    f"{index} of the model) cannot be imported",
                    why=reason(error),
                ) from error

    def _resize(self, tensor: Any, shape: Sequence[int]) -> None:
        """Let the file declare ``shape`` for a tensor, where the user fixed the shapes of inputs."""
        if self.model.resized is None or list(shape) == indices(tensor.tensor.ShapeAsNumpy()):
            return
        if tensor.tensor.unique_name in self.fixed:
            raise ValueError("its shape stands in one place with another tensor's, and cannot change")
        write_shape(self.model.resized, tensor.tensor, shape)

    def _set(self, result: Any, names: list[str], name: str) -> None:
        """Bind an operator's result under the names of its outputs."""
        if isinstance(result, list):
            for own_name, part in zip(names, result, strict=True):
                self.exp_tab.set_expr(own_name, bind(self.bb, part, own_name))
            return
        result = self.bb.normalize(result)
        if len(names) == 1:
            if isinstance(result, relax.Call | relax.Var) and isinstance(result.ty, relax.TensorType):
                result = bind(self.bb, result, name)
            self.exp_tab.set_expr(name, result)
            return
        if isinstance(result, relax.Call):
            result = bind(self.bb, result, name)
        for position, own_name in enumerate(names):
            self.exp_tab.set_expr(own_name, result[position])

    def _converted(self, op: Any, index: int) -> Any:
        code = self.get_op_code_str(op)
        inputs, outputs = self.get_input_tensors(op), self.get_output_tensors(op)
        site = self._site(code, op, index, inputs, outputs)
        if self.model.resized is not None and outputs:
            shape = result_shape(site)
            if shape is not None:
                self._resize(outputs[0], shape)
                site = self._site(code, op, index, inputs, outputs)
        values = folded(site) if outputs else None
        if values is not None:
            for tensor, value in zip(outputs, values, strict=True):
                self.known[tensor.tensor_idx] = value
                self._resize(tensor, value.shape)
            return None
        rule = self._rule(code, inputs, outputs)
        if rule is not None:
            return self._checked(site, rule.convert(site))
        if is_hybrid(code, site.inputs):
            return self._checked(site, HYBRID[code](site))
        convert = self.convert_map[code]
        try:
            return convert(op=op)
        except KeyError:
            # Many converters take their data for something computed; a constant has to be made an expression first.
            for tensor in inputs:
                constant = tensor.tensor_idx in self.known or (tensor.tensor_idx >= 0 and tensor.buffer.DataLength())
                if constant and not self.has_expr(tensor.tensor_idx):
                    name = _tensor_name(self.subgraph, tensor.tensor_idx)
                    self.exp_tab.set_expr(name, self.get_tensor_expr(tensor))
            return convert(op=op)

    def _checked(self, site: Site, result: Any) -> Any:
        """A rule's result, which must be what the file declares (those of the model are checked when it is whole)."""
        parts = [self.bb.normalize(part) for part in _as_list(result)]
        for part, out in zip(parts, site.outputs, strict=True):
            if out.name in self.results:
                continue
            if self.model.resized is not None and dtype_of(part) == out.dtype:
                continue
            if shape_of(part) != out.shape or dtype_of(part) != out.dtype:
                raise site.refused(
                    f"it makes {dtype_of(part)} {list(shape_of(part))} and the file declares {out.dtype} "
                    f"{list(out.shape)}",
                    "export the model again",
                )
        return parts if isinstance(result, list) else parts[0]

    def _rule(self, code: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> Rule | None:
        """The rule for the operator's element type, where it works on codes."""
        rule = RULES.get(code)
        if rule is None or rule.subject >= len(inputs) or inputs[rule.subject].tensor_idx < 0:
            return None
        subject = inputs[rule.subject]
        form = rule.forms.get(DTYPES.get(subject.tensor.Type(), ""))
        quantized = any(tensor.qnn_params is not None for tensor in (subject, *outputs))
        on_floats = form == "float" and subject.tensor.Type() == tflite.TensorType.FLOAT32
        return rule if form is not None and (quantized or form == "move" or on_floats) else None

    def _site(self, code: str, op: Any, index: int, inputs: Sequence[Any], outputs: Sequence[Any]) -> Site:
        where = f"operator {code} that {_what_it_makes(self.subgraph, op)} (operator {index} of the model)"
        made = [self._operand(tensor) for tensor in outputs]
        return Site(
            code,
            where,
            [self._operand(tensor) for tensor in inputs],
            [operand for operand in made if operand is not None],
            self.bb,
            op.BuiltinOptions(),
            self.variables,
            self.model.unsigned,
        )

    def _operand(self, tensor: Any) -> Operand | None:
        if tensor.tensor_idx < 0:
            return None
        index, name = tensor.tensor_idx, _tensor_name(self.subgraph, tensor.tensor_idx)
        expr = self.get_expr(index) if self.has_expr(index) else None
        value = None
        if expr is None and (index in self.known or tensor.buffer.DataLength()):
            value = self.get_tensor_value(tensor)
        scales, zero_points, axis = _NONE, _NONE.astype(np.int64), 0
        if tensor.qnn_params is not None:
            parameters = tensor.tensor.Quantization()
            scales = parameters.ScaleAsNumpy().astype(np.float64)
            zero_points = parameters.ZeroPointAsNumpy().astype(np.int64)
            axis = parameters.QuantizedDimension()
        shape = tuple(indices(tensor.tensor.ShapeAsNumpy()))
        dtype = DTYPES.get(tensor.tensor.Type(), "")
        return Operand(name, shape, dtype, scales, zero_points, axis, value, expr)


def _as_list(result: Any) -> list[Any]:
    return result if isinstance(result, list) else [result]


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


def _tensor_name(subgraph: Any, index: int) -> str:
    return str(importer.get_tensor_name(subgraph, index))
