"""A checked ONNX model as the importer takes it: functions and control flow written out, shape arithmetic computed."""

from __future__ import annotations

import onnx
from onnx import helper, numpy_helper

from .onnx_converters import converters
from .onnx_graph import Graph
from .onnx_inline import control_flow, expand, standard_function
from .onnx_microsoft import MICROSOFT
from .onnx_rewrites import REWRITES


def importable() -> frozenset[str]:
    """Standard operators that the importer converts, or that are rewritten into such."""
    return frozenset(converters()) | frozenset(REWRITES)


def has_definition(node: onnx.NodeProto, opset: int) -> bool:
    """Whether the standard defines an operator by smaller ones."""
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    except onnx.defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


def simplify(model: onnx.ModelProto, shapes: dict[str, list[int]]) -> onnx.GraphProto:
    """The model's graph with its inputs of these shapes. What cannot be written out stays as it is."""
    functions = {(item.domain, item.name): item for item in model.functions}
    opsets = {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in model.opset_import}
    opsets.setdefault("", 1)
    taken = importable()

    def rewrite(graph: Graph, node: onnx.NodeProto) -> bool:
        own = functions.get((node.domain, node.op_type))
        if own is not None:
            expand(graph, node, own)
            return True
        if node.op_type in ("If", "Loop", "Scan") and not node.domain:
            return control_flow(graph, node)
        if node.op_type in REWRITES and not node.domain and REWRITES[node.op_type](graph, node):
            return True
        if node.domain == "com.microsoft" and node.op_type in MICROSOFT:
            return MICROSOFT[node.op_type](graph, node)
        if node.domain == "com.microsoft" or (node.op_type in taken and not node.domain):
            return False
        function = standard_function(graph, node)
        if function is None:
            return False
        expand(graph, node, function)
        return True

    graph = Graph(opsets, rewrite)
    source = model.graph
    graph.reserve(name for node in source.node for name in (*node.input, *node.output))
    for value in source.input:
        if value.name in shapes:
            kind = helper.make_tensor_type_proto(value.type.tensor_type.elem_type, shapes[value.name])
            graph.types[value.name] = kind
    for tensor in source.initializer:
        graph.given(tensor.name, numpy_helper.to_array(tensor))
    for node in source.node:
        graph.label = node.name
        graph.add(node)
    return _result(source, graph)


def _result(source: onnx.GraphProto, graph: Graph) -> onnx.GraphProto:
    """The nodes the outputs need, with the constants they use."""
    needed = {value.name for value in source.output}
    kept: list[onnx.NodeProto] = []
    for node in reversed(graph.nodes):
        if needed.intersection(node.output):
            kept.append(node)
            needed.update(node.input)
            for item in node.attribute:
                if item.HasField("g"):
                    needed.update(name for inner in item.g.node for name in inner.input)
    originals = {tensor.name: tensor for tensor in source.initializer}
    result = onnx.GraphProto(name=source.name)
    result.input.extend(source.input)
    result.output.extend(source.output)
    result.node.extend(reversed(kept))
    for name, array in graph.values.items():
        if name in needed:
            result.initializer.append(originals[name] if name in originals else numpy_helper.from_array(array, name))
    return result


__all__ = ["has_definition", "importable", "simplify"]
