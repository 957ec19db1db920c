"""Bodies in place of calls: ONNX functions (the model's and those that define standard operators), If, Loop, Scan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .limits import MOST_STEPS
from .onnx_graph import OPSET, Graph, attribute, opset_of, plain

_SUBGRAPHS = ("body", "then_branch", "else_branch")


def standard_function(graph: Graph, node: onnx.NodeProto) -> onnx.FunctionProto | None:
    """The function that defines a standard operator in terms of others; None when it has none."""
    opset = opset_of(node, graph.opsets)
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    except onnx.defs.SchemaError:
        return None
    function = onnx.FunctionProto()
    if schema.has_context_dependent_function:
        types = [(graph.types.get(name) or onnx.TypeProto()).SerializeToString() for name in node.input]
        versions = [version for version in schema.context_dependent_function_opset_versions if version <= opset]
        version = max(versions, default=schema.context_dependent_function_opset_versions[0])
        data = schema.get_context_dependent_function_with_opset_version(version, plain(node).SerializeToString(), types)
        function.ParseFromString(data)
    elif schema.has_function:
        versions = [version for version in schema.function_opset_versions if version <= opset]
        data = schema.get_function_with_opset_version(max(versions, default=schema.function_opset_versions[0]))
        function.ParseFromString(data)
    given = {item.name for item in function.attribute_proto}
    for name, item in schema.attributes.items():
        if name not in given and item.default_value.type != onnx.AttributeProto.UNDEFINED:
            function.attribute_proto.append(item.default_value)
    return function if function.node else None


def expand(graph: Graph, node: onnx.NodeProto, function: onnx.FunctionProto) -> None:
    """Add the nodes of a function in place of a call."""
    given = {item.name: item for item in plain(node).attribute}
    defaults = {item.name: item for item in function.attribute_proto}
    names = dict.fromkeys(function.input, "")
    names.update(zip(function.input, node.input, strict=False))
    names.update({inner: outer for inner, outer in zip(function.output, node.output, strict=False) if outer})
    versions = {entry.domain: entry.version for entry in function.opset_import}
    graph_add(graph, function.node, names, versions, lambda name: given.get(name) or defaults.get(name))


def graph_add(
    graph: Graph,
    nodes: Iterable[onnx.NodeProto],
    names: dict[str, str],
    versions: Mapping[str, int],
    argument: Callable[[str], onnx.AttributeProto | None] = lambda _name: None,
) -> None:
    """Add copies of ``nodes`` with names replaced by ``names``, which grows; values get fresh names."""
    for original in nodes:
        node = onnx.NodeProto()
        node.CopyFrom(original)
        node.name = graph.label
        node.input[:] = [names.get(name, name) for name in original.input]
        for name in original.output:
            if name and name not in names:
                names[name] = graph.fresh(name)
        node.output[:] = [names.get(name, "") for name in original.output]
        kept = [item for item in (_substituted(item, argument) for item in original.attribute) if item is not None]
        del node.attribute[:]
        node.attribute.extend(kept)
        for item in node.attribute:
            if item.HasField("g"):
                _rename(item.g, names, argument)
        if node.domain in versions and not any(item.name == OPSET for item in node.attribute):
            node.attribute.append(helper.make_attribute(OPSET, versions[node.domain]))
        graph.add(node)


def _substituted(
    item: onnx.AttributeProto, argument: Callable[[str], onnx.AttributeProto | None]
) -> onnx.AttributeProto | None:
    if not item.ref_attr_name:
        return item
    value = argument(item.ref_attr_name)
    if value is None:
        return None
    copy = onnx.AttributeProto()
    copy.CopyFrom(value)
    copy.name = item.name
    return copy


def _rename(
    body: onnx.GraphProto, names: Mapping[str, str], argument: Callable[[str], onnx.AttributeProto | None]
) -> None:
    """Replace names of the outer scope, and references to attributes, inside a subgraph."""
    own = {value.name for value in body.input} | {tensor.name for tensor in body.initializer}
    own |= {name for node in body.node for name in node.output}
    outer = {old: new for old, new in names.items() if old not in own}
    for node in body.node:
        node.input[:] = [outer.get(name, name) for name in node.input]
        kept = [item for item in (_substituted(item, argument) for item in node.attribute) if item is not None]
        del node.attribute[:]
        node.attribute.extend(kept)
        for item in node.attribute:
            if item.HasField("g"):
                _rename(item.g, outer, argument)
    for value in body.output:
        if value.name in outer:
            value.name = outer[value.name]


def control_flow(graph: Graph, node: onnx.NodeProto) -> bool:
    """If, Loop or Scan whose course is known, written out. False when it is not known."""
    if node.op_type == "If":
        return _branch(graph, node)
    if node.op_type == "Loop":
        return _loop(graph, node)
    return node.op_type == "Scan" and _scan(graph, node)


def _constants(graph: Graph, body: onnx.GraphProto) -> dict[str, str]:
    """The constants of a subgraph, which all its copies share: their names in the graph by their own."""
    return {
        tensor.name: graph.constant(graph.fresh(tensor.name), numpy_helper.to_array(tensor))
        for tensor in body.initializer
    }


def _body(
    graph: Graph, node: onnx.NodeProto, body: onnx.GraphProto, inputs: list[str], constants: Mapping[str, str]
) -> list[str]:
    """Add one copy of a subgraph; names of its outputs."""
    names = {**constants, **dict(zip((value.name for value in body.input), inputs, strict=True))}
    versions = dict(graph.opsets)
    versions[node.domain] = opset_of(node, graph.opsets)
    graph_add(graph, body.node, names, versions)
    return [names.get(value.name, value.name) for value in body.output]


def _branch(graph: Graph, node: onnx.NodeProto) -> bool:
    condition = graph.values.get(node.input[0])
    if condition is None:
        return _choice(graph, node)
    body = attribute(node, "then_branch" if bool(condition.reshape(-1)[0]) else "else_branch", None)
    _give(graph, _body(graph, node, body, [], _constants(graph, body)), list(node.output))
    return True


def _choice(graph: Graph, node: onnx.NodeProto) -> bool:
    """Both branches, and a choice between their results, which must have the same shapes."""
    extents = graph.shape(node.input[0])
    if extents is None or any(extent != 1 for extent in extents):
        return False
    bodies = [attribute(node, name, None) for name in ("then_branch", "else_branch")]
    branches = [_body(graph, node, body, [], _constants(graph, body)) for body in bodies]
    for first, second in zip(*branches, strict=True):
        shape = graph.shape(first)
        if shape is None or shape != graph.shape(second):
            return False
    condition = node.input[0]
    if extents:
        condition = graph.emit("Reshape", condition, np.zeros(0, np.int64))
    for output, first, second in zip(node.output, *branches, strict=False):
        if output:
            graph.emit_to([output], "Where", condition, first, second)
    return True


def _give(graph: Graph, sources: list[str], outputs: list[str]) -> None:
    for source, output in zip(sources, outputs, strict=False):
        if output and source in graph.values:
            graph.constant(output, graph.values[source])
        elif output:
            graph.emit_to([output], "Identity", source)


def _loop(graph: Graph, node: onnx.NodeProto) -> bool:
    body = attribute(node, "body", None)
    inputs = [*node.input, "", ""]
    count, condition = inputs[0], inputs[1]
    if (count and count not in graph.values) or (condition and condition not in graph.values):
        return False
    trips = int(graph.values[count].reshape(-1)[0]) if count else MOST_STEPS + 1
    going = bool(graph.values[condition].reshape(-1)[0]) if condition else True
    states = list(node.input[2:])
    collected: list[list[str]] = [[] for _ in range(len(body.output) - 1 - len(states))]
    constants = _constants(graph, body)
    step = 0
    while going and step < trips:
        if step >= MOST_STEPS:
            return False
        flag = graph.number(np.asarray(going))
        results = _body(graph, node, body, [graph.number(np.asarray(step, np.int64)), flag, *states], constants)
        if results[0] not in graph.values:
            return False
        going = bool(graph.values[results[0]].reshape(-1)[0])
        states = results[1 : 1 + len(states)]
        for found, result in zip(collected, results[1 + len(states) :], strict=True):
            found.append(result)
        step += 1
    if any(not found for found in collected):
        return False
    outputs = list(node.output)
    _give(graph, states, outputs)
    for found, output in zip(collected, outputs[len(states) :], strict=False):
        _stack(graph, found, 0, output)
    return True


def _stack(graph: Graph, parts: list[str], axis: int, output: str) -> None:
    if output:
        raised = [graph.emit("Unsqueeze", part, np.asarray([axis])) for part in parts]
        graph.emit_to([output], "Concat", *raised, axis=axis)


def _scan(graph: Graph, node: onnx.NodeProto) -> bool:
    body = attribute(node, "body", None)
    count = attribute(node, "num_scan_inputs", 0)
    batched = opset_of(node, graph.opsets) < 9
    given = list(node.input)[1:] if batched else list(node.input)
    states, scanned = given[: len(given) - count], given[len(given) - count :]
    shapes = [graph.shape(name) for name in scanned]
    if batched:
        if node.input[0] or any(shape is None or shape[0] != 1 for shape in shapes):
            return False
        return _scan_batch_of_one(graph, node, body, states, scanned)
    results = len(body.output) - len(states)
    axes = list(attribute(node, "scan_input_axes", [0] * count))
    backwards = list(attribute(node, "scan_input_directions", [0] * count))
    out_axes = list(attribute(node, "scan_output_axes", [0] * results))
    out_backwards = list(attribute(node, "scan_output_directions", [0] * results))
    if not shapes or any(shape is None for shape in shapes):
        return False
    steps = (shapes[0] or [])[axes[0]]
    outputs = _steps(graph, node, body, states, scanned, steps, axes, backwards)
    if outputs is None:
        return False
    finals, collected = outputs
    _give(graph, finals, list(node.output))
    for position, output in enumerate(list(node.output)[len(states) :]):
        parts = collected[position][::-1] if out_backwards[position] else collected[position]
        part_shape = graph.shape(parts[0])
        axis = out_axes[position] if part_shape is None else out_axes[position] % (len(part_shape) + 1)
        _stack(graph, parts, axis, output)
    return True


def _steps(
    graph: Graph,
    node: onnx.NodeProto,
    body: onnx.GraphProto,
    states: list[str],
    scanned: list[str],
    steps: int,
    axes: list[int],
    backwards: list[int],
) -> tuple[list[str], list[list[str]]] | None:
    """Final states and what each scan output collects."""
    if not 0 < steps <= MOST_STEPS:
        return None
    collected: list[list[str]] = [[] for _ in range(len(body.output) - len(states))]
    constants = _constants(graph, body)
    for step in range(steps):
        slices = [
            graph.emit("Gather", name, steps - 1 - step if back else step, axis=axis)
            for name, axis, back in zip(scanned, axes, backwards, strict=True)
        ]
        results = _body(graph, node, body, [*states, *slices], constants)
        states = results[: len(states)]
        for found, result in zip(collected, results[len(states) :], strict=True):
            found.append(result)
    return states, collected


def _scan_batch_of_one(
    graph: Graph, node: onnx.NodeProto, body: onnx.GraphProto, states: list[str], scanned: list[str]
) -> bool:
    """Scan of opset 8, whose tensors have a batch dimension in front."""
    states = [graph.emit("Squeeze", name, np.asarray([0])) for name in states]
    scanned = [graph.emit("Squeeze", name, np.asarray([0])) for name in scanned]
    backwards = list(attribute(node, "directions", [0] * len(scanned)))
    steps = (graph.shape(scanned[0]) or [0])[0]
    outputs = _steps(graph, node, body, states, scanned, steps, [0] * len(scanned), backwards)
    if outputs is None:
        return False
    finals, collected = outputs
    for name, output in zip(finals, node.output, strict=False):
        graph.emit_to([output], "Unsqueeze", name, np.asarray([0]))
    for parts, output in zip(collected, list(node.output)[len(finals) :], strict=False):
        whole = graph.fresh("scan")
        _stack(graph, parts, 0, whole)
        graph.emit_to([output], "Unsqueeze", whole, np.asarray([0]))
    return True
