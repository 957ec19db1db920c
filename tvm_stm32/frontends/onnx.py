"""ONNX front end: TVM's Relax importer, with checked input and the model's own names."""

from __future__ import annotations

import contextlib
import io
import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
import tvm
from tvm import ir, relax
from tvm.relax.frontend.onnx import onnx_frontend as importer

from ..errors import ModelError, UnsupportedOperatorError, quoted
from ..model import Model, Quantization, TensorInfo
from . import provenance
from .binding import bind
from .limits import check_dtype, check_module, static_shape
from .onnx_check import check_simplified, element_type, fix_shapes, input_shape, label, parse
from .onnx_converters import converters
from .onnx_external import with_external
from .onnx_graph import OPSET, check_made_up
from .onnx_simplify import simplify
from .reasons import reason

_QUANTIZE, _DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
_MOST_STEPS_AT_ONCE = 1 << 32


def load(path: Path, input_shapes: Mapping[str, tuple[int, ...]] | None = None) -> Model:
    """Read an ONNX file; ``input_shapes`` fix dynamic dimensions.

    Raises :class:`ModelError` with the file, node and tensor concerned.
    """
    data = path.read_bytes()
    graph_model = parse(path.name, data, path.parent)
    graph = graph_model.graph
    notes: list[str] = []
    constants = {tensor.name for tensor in graph.initializer}
    free = [value for value in graph.input if value.name not in constants]
    fix_shapes(path.name, free, input_shapes or {})
    shapes = {value.name: input_shape(path.name, value, notes) for value in free}
    dtypes = {value.name: element_type(path.name, value) for value in free}
    for node in graph.node:
        node.name = label(node)
    graph = _simplified(path, graph_model, shapes)
    opset = next((entry.version for entry in graph_model.opset_import if entry.domain in ("", "ai.onnx")), 1)
    module = _import(path, graph, opset, shapes, dtypes)
    quantizers = _quantizers(graph)
    inputs = [TensorInfo(name, tuple(shapes[name]), dtypes[name], quantizers.get(name)) for name in shapes]
    outputs = _outputs(path, graph, module, quantizers)
    check_module(path.name, module, outputs)
    quantized = any(node.op_type in (_QUANTIZE, _DEQUANTIZE) for node in graph.node)
    origin = provenance(path, with_external(path, data), "onnx")
    return Model(module, inputs, outputs, "onnx" if quantized else "float", origin, notes)


def _simplified(path: Path, model: onnx.ModelProto, shapes: dict[str, list[int]]) -> onnx.GraphProto:
    try:
        graph = simplify(model, shapes)
    except ModelError as error:
        raise error.about(path.name) from error
    except Exception as error:  # ONNX's helpers raise whatever damaged data leads to
        raise ModelError(
            f"{path.name}: truncated, corrupt or invalid ONNX model",
            why=reason(error),
            hint="export the model again, and check it with onnx.checker.check_model",
        ) from error
    check_simplified(path.name, graph)
    return graph


class _NamingImporter(importer.ONNXGraphImporter):  # type: ignore[misc]  # TVM is not typed
    """The importer, binding each operator's result under its node's name and naming the node in errors."""

    def _check_for_unsupported_ops(self, graph: onnx.GraphProto) -> None:
        """Done before, for this project's own list of operators."""

    def _parse_attr(self, attr_proto: Any) -> dict[str, Any]:
        """Attributes by name; an empty list is one that was left out."""
        return dict(super()._parse_attr([item for item in attr_proto if not _is_empty_list(item)]))

    def _convert_operator(self, op_name: str, inputs: Any, attrs: dict[str, Any], opset: int) -> Any:
        name = attrs["tvm_custom"]["name"] or op_name
        try:
            _check_made_up(op_name, name, list(inputs))
            _check_constant_windows(op_name, name, list(inputs), attrs)
            convert = converters()[op_name].get_converter(attrs.pop(OPSET, opset))
            result = convert(self.bb, inputs, attrs, [self._nodes, self._params])
            if isinstance(result, relax.Expr):
                result = self.bb.normalize(result)
        except ModelError:
            raise
        except Exception as error:  # the importer raises whatever a malformed attribute leads to
            raise UnsupportedOperatorError(
                f"operator {op_name} of node {quoted(name)} cannot be imported", why=reason(error)
            ) from error
        if isinstance(result, relax.Call):
            result = self.bb.normalize(result)
        kinds = (relax.TensorType, relax.TupleType) if isinstance(result, relax.Call) else relax.TensorType
        if isinstance(result, relax.Var | relax.Call) and isinstance(result.ty, kinds):
            return bind(self.bb, result, name)
        return result


def _is_empty_list(item: onnx.AttributeProto) -> bool:
    kinds = onnx.AttributeProto
    lists = {kinds.INTS: item.ints, kinds.FLOATS: item.floats, kinds.STRINGS: item.strings}
    return item.type in lists and not lists[item.type]


def _check_made_up(op_name: str, node: str, inputs: list[Any]) -> None:
    """The importer computes these two with numpy at once, whatever their size."""
    if op_name == "ConstantOfShape" and isinstance(inputs[0], ir.GenericConst):
        check_made_up(node, [int(extent) for extent in inputs[0].value.numpy().reshape(-1)])
    if op_name == "Range" and all(isinstance(value, ir.GenericConst) for value in inputs):
        start, limit, delta = [float(value.value.numpy().reshape(-1)[0]) for value in inputs][:3]
        steps = (limit - start) / delta if delta else math.inf
        check_made_up(node, [math.ceil(steps) if math.isfinite(steps) else -1] if steps > 0 else [0])


def _check_constant_windows(op_name: str, node: str, inputs: list[Any], attributes: Mapping[str, Any]) -> None:
    """A window operator on a constant is computed by TVM at once, over the padded tensor, however long that takes."""
    if not inputs or not isinstance(inputs[0], ir.GenericConst):
        return
    extents = list(static_shape(inputs[0].ty) or ())
    pads = [int(pad) for pad in attributes.get("pads", ())]
    if len(extents) > 2 and len(pads) == 2 * (len(extents) - 2):
        rank = len(pads) // 2
        extents[2:] = [extent + pads[at] + pads[at + rank] for at, extent in enumerate(extents[2:])]
        check_made_up(node, extents)
    taps = math.prod(int(extent) for extent in attributes.get("kernel_shape", ()))
    if "Conv" in op_name and len(inputs) > 1 and isinstance(inputs[1], ir.GenericConst):
        taps = math.prod(inputs[1].ty.shape.values[at] for at in range(len(extents)) if at != 1)
    if op_name == "RoiAlign":
        ratio = int(attributes.get("sampling_ratio", 0)) or max(extents, default=1)
        sides = [int(attributes.get(f"output_{side}", 1)) for side in ("height", "width")]
        taps = math.prod(sides) * ratio**2
    if taps * math.prod(extents) > _MOST_STEPS_AT_ONCE:
        raise ModelError(
            f"node {quoted(node)} computes a constant in more than {_MOST_STEPS_AT_ONCE:,} steps",
            why="constants are computed when the model is compiled",
            hint="compute it before the model is exported",
        )


def _import(
    path: Path, graph: onnx.GraphProto, opset: int, shapes: dict[str, list[int]], dtypes: dict[str, str]
) -> tvm.IRModule:
    try:
        # The importer prints a line of its own when an operator fails, and warns about names it changes.
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = _NamingImporter(shapes, dtypes, sanitize=False).from_onnx(graph, opset)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"{path.name}: the ONNX importer cannot read it", why=reason(error)) from error
    functions = {variable: function for variable, function in module.functions.items() if variable.name_hint != "main"}
    return tvm.IRModule({"main": module["main"].without_attr("num_input"), **functions})


def _quantizers(graph: onnx.GraphProto) -> dict[str, Quantization]:
    """Per-tensor quantization of graph inputs and outputs, from the Q and DQ nodes they touch."""
    values = {tensor.name: tensor for tensor in graph.initializer}
    found: dict[str, Quantization] = {}
    for node in graph.node:
        if node.op_type not in (_QUANTIZE, _DEQUANTIZE) or node.input[1] not in values:
            continue
        scale = onnx.numpy_helper.to_array(values[node.input[1]]).reshape(-1)
        zero = values.get(node.input[2]) if len(node.input) > 2 else None
        if scale.size != 1:
            continue
        name = node.output[0] if node.op_type == _QUANTIZE else node.input[0]
        codes = onnx.numpy_helper.to_array(zero).reshape(-1).tolist() if zero is not None else []
        found[name] = Quantization((float(scale[0]),), (int(codes[0]) if codes else 0,))
    return found


def _outputs(
    path: Path, graph: onnx.GraphProto, module: tvm.IRModule, quantizers: dict[str, Quantization]
) -> list[TensorInfo]:
    result = module["main"].ret_ty
    kinds = list(result.fields) if isinstance(result, relax.TupleType) else [result]
    outputs = []
    for value, kind in zip(graph.output, kinds, strict=True):
        shape = static_shape(kind) if isinstance(kind, relax.TensorType) else None
        if shape is None:
            raise ModelError(
                f"{path.name}: output {quoted(value.name)} has a dynamic shape",
                why="static memory is planned from fixed shapes",
                hint="export the model with fixed input shapes",
            )
        check_dtype(path.name, f"output {quoted(value.name)}", str(kind.dtype))
        outputs.append(TensorInfo(value.name, shape, str(kind.dtype), quantizers.get(value.name)))
    return outputs
