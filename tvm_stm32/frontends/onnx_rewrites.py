"""Operators the importer lacks or gets wrong, in terms of operators it has. One small function each."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import helper

from .onnx_graph import MOST_PLACES, OPSET, Graph, Rewriter, attribute, check_made_up
from .onnx_inline import expand, standard_function
from .onnx_quantized import QUANTIZED
from .onnx_recurrent import recurrent
from .onnx_resize import resize
from .onnx_signal import SIGNAL

_BOOL, _UINT8 = onnx.TensorProto.BOOL, onnx.TensorProto.UINT8


def _defined(graph: Graph, node: onnx.NodeProto) -> bool:
    """The standard's own definition."""
    function = standard_function(graph, node)
    if function is None:
        return False
    expand(graph, node, function)
    return True


def _layer_norm(graph: Graph, node: onnx.NodeProto) -> bool:
    """The importer knows the first output only."""
    return any(node.output[1:]) and _defined(graph, node)


def _rms_norm(graph: Graph, node: onnx.NodeProto) -> bool:
    shape = graph.shape(node.input[0])
    axis = attribute(node, "axis", -1)
    return (shape is None or axis % len(shape) != len(shape) - 1 or len(shape) < 2) and _defined(graph, node)


def _dropout(graph: Graph, node: onnx.NodeProto) -> bool:
    """The identity in inference; the mask says that everything is kept."""
    if len(node.input) > 2 and node.input[2]:
        training = graph.values.get(node.input[2])
        ratio = graph.values.get(node.input[1]) if node.input[1] else np.asarray(0.5)
        if training is None or ratio is None or (bool(training.any()) and bool(ratio.any())):
            return False
    graph.emit_to([node.output[0]], "Identity", node.input[0])
    if len(node.output) > 1 and node.output[1]:
        shape = graph.shape(node.input[0])
        if shape is None:
            return False
        graph.constant(node.output[1], np.ones(shape, bool))
    return True


def _one_hot(graph: Graph, node: onnx.NodeProto) -> bool:
    depth = graph.values.get(node.input[1])
    shape = graph.shape(node.input[0])
    if depth is None or shape is None:
        return False
    count = int(depth.reshape(-1)[0])
    axis = attribute(node, "axis", -1) % (len(shape) + 1)
    kind = graph.element(node.input[0])
    number = helper.tensor_dtype_to_np_dtype(kind)
    indices = node.input[0]
    places = np.arange(count).astype(number).reshape([-1 if at == axis else 1 for at in range(len(shape) + 1)])
    if number.kind != "u":
        negative = graph.emit("Less", indices, np.zeros((), number))
        indices = graph.emit("Where", negative, graph.emit("Add", indices, np.asarray(count, number)), indices)
    raised = graph.emit("Unsqueeze", indices, np.asarray([axis]))
    hot = graph.emit("Equal", raised, places)
    off, on = (
        graph.emit("Reshape", graph.emit("Slice", node.input[2], [at], [at + 1]), np.zeros(0, np.int64))
        for at in (0, 1)
    )
    graph.emit_to([node.output[0]], "Where", hot, on, off)
    return True


def _compress(graph: Graph, node: onnx.NodeProto) -> bool:
    condition = graph.values.get(node.input[1])
    if condition is None:
        return False
    places = np.flatnonzero(condition).astype(np.int64)
    value, axis = node.input[0], attribute(node, "axis", None)
    if not places.size:
        return False
    if axis is None:
        value, axis = graph.emit("Reshape", value, [-1]), 0
    graph.emit_to([node.output[0]], "Gather", value, places, axis=axis)
    return True


def _reduce_bool(graph: Graph, node: onnx.NodeProto) -> bool:
    if graph.element(node.input[0]) != _BOOL:
        return False
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[0] = graph.emit("Cast", node.input[0], to=_UINT8)
    copy.output[0] = graph.fresh(node.op_type)
    graph.add(copy)
    graph.emit_to([node.output[0]], "Cast", copy.output[0], to=_BOOL)
    return True


def _lp_norm(graph: Graph, node: onnx.NodeProto) -> bool:
    axis = np.asarray([attribute(node, "axis", -1)])
    operator = "ReduceL1" if attribute(node, "p", 2) == 1 else "ReduceL2"
    norm = graph.emit(operator, node.input[0], axis, keepdims=1)
    empty = graph.emit("Equal", norm, 0.0)
    ratio = graph.emit("Div", node.input[0], graph.emit("Where", empty, 1.0, norm))
    graph.emit_to([node.output[0]], "Where", empty, 0.0, ratio)
    return True


def _space_to_depth(graph: Graph, node: onnx.NodeProto) -> bool:
    shape = graph.shape(node.input[0])
    if shape is None or len(shape) != 4:
        return False
    block = attribute(node, "blocksize", 1)
    batch, channels, height, width = shape
    split = graph.emit("Reshape", node.input[0], [batch, channels, height // block, block, width // block, block])
    order = [0, 1, 3, 5, 2, 4] if attribute(node, "mode", "DCR") == "CRD" else [0, 3, 5, 1, 2, 4]
    moved = graph.emit("Transpose", split, perm=order)
    sizes = [batch, channels * block * block, height // block, width // block]
    graph.emit_to([node.output[0]], "Reshape", moved, sizes)
    return True


def _reshape(graph: Graph, node: onnx.NodeProto) -> bool:
    """Unsqueeze, Squeeze and Flatten of a fixed shape are reshapes."""
    axes = graph.values.get(node.input[1]) if len(node.input) > 1 else None
    if axes is not None and axes.ndim == 0:  # some definitions write one axis as a scalar
        graph.emit_to([node.output[0]], node.op_type, node.input[0], axes.reshape(1))
        return True
    kind = graph.types.get(node.output[0])
    shape = graph.shape(node.output[0]) if kind is not None else None
    if shape is None or 0 in shape:
        return False
    graph.emit_to([node.output[0]], "Reshape", node.input[0], np.asarray(shape, np.int64))
    return True


def _eye_like(graph: Graph, node: onnx.NodeProto) -> bool:
    shape = graph.shape(node.input[0])
    kind = attribute(node, "dtype", graph.element(node.input[0]))
    if shape is None or len(shape) != 2:
        return False
    diagonal = np.eye(shape[0], shape[1], attribute(node, "k", 0), dtype=helper.tensor_dtype_to_np_dtype(kind))
    graph.constant(node.output[0], diagonal)
    return True


def _tensor_scatter(graph: Graph, node: onnx.NodeProto) -> bool:
    """Rows of a cache replaced from a place on: a choice by position, for places that may be known at run time."""
    past, update, *rest = node.input
    shape, given = graph.shape(past), graph.shape(update)
    if shape is None or given is None:
        return False
    axis = attribute(node, "axis", -2) % len(shape)
    extent, count = shape[axis], given[axis]
    places = rest[0] if rest and rest[0] else graph.number(np.zeros(shape[0], np.int64))
    rows = np.arange(extent, dtype=np.int64).reshape(1, -1)
    offset = graph.emit("Sub", rows, graph.emit("Unsqueeze", places, [1]))
    if attribute(node, "mode", "linear") == "circular":
        offset = graph.emit("Mod", offset, np.asarray(extent, np.int64))
    inside = graph.emit("And", graph.emit("GreaterOrEqual", offset, 0), graph.emit("Less", offset, count))
    wide = [shape[0], *[extent if at == axis else 1 for at in range(1, len(shape))]]
    full = [*given[:axis], extent, *given[axis + 1 :]]
    row = graph.emit("Clip", offset, np.asarray(0, np.int64), np.asarray(count - 1, np.int64))
    index = graph.emit("Expand", graph.emit("Reshape", row, wide), full)
    moved = graph.emit("GatherElements", update, index, axis=axis)
    graph.emit_to([node.output[0]], "Where", graph.emit("Reshape", inside, wide), moved, past)
    return True


def _concat(graph: Graph, node: onnx.NodeProto) -> bool:
    """Parts without elements add nothing."""
    parts = [name for name in node.input if 0 not in (graph.shape(name) or [])]
    if len(parts) == len(node.input) or not parts:
        return False
    graph.emit_to([node.output[0]], "Concat", *parts, axis=attribute(node, "axis", 0))
    return True


def _split(graph: Graph, node: onnx.NodeProto) -> bool:
    """Split with parts that have no elements."""
    shapes = [graph.shape(name) for name in node.output]
    source = graph.shape(node.input[0])
    if source is None or any(shape is None for shape in shapes) or not any(0 in (shape or []) for shape in shapes):
        return False
    axis = attribute(node, "axis", 0) % len(source)
    at = 0
    for name, shape in zip(node.output, shapes, strict=True):
        extent = (shape or [])[axis]
        if extent:
            graph.emit_to([name], "Slice", node.input[0], [at], [at + extent], [axis])
        at += extent
    return True


def _auto_pad(graph: Graph, node: onnx.NodeProto) -> bool:
    """Conv with the padding written out."""
    mode = attribute(node, "auto_pad", "NOTSET")
    shape, weight = graph.shape(node.input[0]), graph.shape(node.input[1])
    if mode not in ("SAME_UPPER", "SAME_LOWER") or shape is None or weight is None:
        return False
    rank = len(shape) - 2
    kernel = list(attribute(node, "kernel_shape", weight[2:]))
    strides, dilations = (list(attribute(node, name, [1] * rank)) for name in ("strides", "dilations"))
    total = [
        max(0, (-(-extent // s) - 1) * s + (k - 1) * d + 1 - extent)
        for extent, s, k, d in zip(shape[2:], strides, kernel, dilations, strict=True)
    ]
    small, large = [pad // 2 for pad in total], [pad - pad // 2 for pad in total]
    pads = small + large if mode == "SAME_UPPER" else large + small
    options = {item.name: helper.get_attribute_value(item) for item in node.attribute if item.name != OPSET}
    options.pop("auto_pad")
    graph.emit_to([node.output[0]], "Conv", *node.input, **{**options, "pads": pads})
    return True


def _transposed_size(graph: Graph, node: onnx.NodeProto) -> bool:
    """ConvTranspose whose output has a given shape: the padding that gives it."""
    wanted = list(attribute(node, "output_shape", []))
    mode = attribute(node, "auto_pad", "NOTSET")
    shape, weight = graph.shape(node.input[0]), graph.shape(node.input[1])
    if shape is None or weight is None or (not wanted and mode not in ("SAME_UPPER", "SAME_LOWER")):
        return False
    rank = len(shape) - 2
    kernel = list(attribute(node, "kernel_shape", weight[2:]))
    strides, dilations = (list(attribute(node, name, [1] * rank)) for name in ("strides", "dilations"))
    wanted = wanted[-rank:] if wanted else [extent * s for extent, s in zip(shape[2:], strides, strict=True)]
    extra = list(attribute(node, "output_padding", [0] * rank))
    pads, more = [[0] * rank, [0] * rank], list(extra)
    for at in range(rank):
        total = strides[at] * (shape[2 + at] - 1) + extra[at] + (kernel[at] - 1) * dilations[at] + 1 - wanted[at]
        if total < 0:
            more[at], total = more[at] - total, 0
        half = total // 2
        pads[0][at], pads[1][at] = (half, total - half) if mode != "SAME_LOWER" else (total - half, half)
        if mode == "NOTSET":
            pads[0][at], pads[1][at] = total - half, half
    if any(extra_rows >= stride for extra_rows, stride in zip(more, strides, strict=True)):
        return False
    options = {item.name: helper.get_attribute_value(item) for item in node.attribute if item.name != OPSET}
    for name in ("output_shape", "auto_pad"):
        options.pop(name, None)
    options.update(pads=pads[0] + pads[1], output_padding=more)
    graph.emit_to([node.output[0]], "ConvTranspose", *node.input, **options)
    return True


def _determinant(graph: Graph, node: onnx.NodeProto) -> bool:
    """Determinants of small matrices by the first row."""
    shape = graph.shape(node.input[0])
    if shape is None or len(shape) < 2 or shape[-1] != shape[-2] or shape[-1] > 4:
        return False
    order = shape[-1]

    def element(row: int, column: int) -> str:
        flat = graph.emit("Reshape", node.input[0], [*shape[:-2], order * order])
        return graph.emit("Gather", flat, row * order + column, axis=-1)

    entries = [[element(row, column) for column in range(order)] for row in range(order)]

    def expanded(columns: list[int]) -> str:
        row = order - len(columns)
        if len(columns) == 1:
            return entries[row][columns[0]]
        total = ""
        for position, column in enumerate(columns):
            minor = expanded([other for other in columns if other != column])
            term = graph.emit("Mul", entries[row][column], minor)
            total = graph.emit("Sub" if position % 2 else "Add", total, term) if total else term
        return total

    graph.emit_to([node.output[0]], "Identity", expanded(list(range(order))))
    return True


def _max_pool(graph: Graph, node: onnx.NodeProto) -> bool:
    """Max pooling that also tells where: windows are gathered, then their maxima and those' first places found."""
    if len(node.output) < 2 or not node.output[1]:
        return False
    shape, result = graph.shape(node.input[0]), graph.shape(node.output[0])
    if shape is None or result is None:
        return False
    kernel = list(attribute(node, "kernel_shape", []))
    rank = len(kernel)
    strides, dilations = (list(attribute(node, name, [1] * rank)) for name in ("strides", "dilations"))
    pads = list(attribute(node, "pads", [0] * 2 * rank))[:rank]
    if attribute(node, "auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return False
    spatial, outputs = shape[2:], result[2:]
    check_made_up(graph.label, [*outputs, *kernel], MOST_PLACES)
    index = np.zeros((math.prod(outputs), math.prod(kernel)), np.int64)
    inside = np.ones(index.shape, bool)
    for place, out in enumerate(np.ndindex(*outputs)):
        for tap, at in enumerate(np.ndindex(*kernel)):
            where = [o * s + k * d - p for o, s, k, d, p in zip(out, strides, at, dilations, pads, strict=True)]
            inside[place, tap] = all(0 <= w < extent for w, extent in zip(where, spatial, strict=True))
            if inside[place, tap]:
                index[place, tap] = np.ravel_multi_index(where, spatial)
    flat = graph.emit("Reshape", node.input[0], [*shape[:2], -1])
    windows = graph.emit("Gather", flat, index, axis=2)
    number = helper.tensor_dtype_to_np_dtype(graph.element(node.input[0]))
    least = np.asarray(-np.inf if number.kind == "f" else np.iinfo(number).min, number)
    windows = graph.emit("Where", inside, windows, least)
    largest = graph.emit("ReduceMax", windows, [3], keepdims=1)
    order = index
    if attribute(node, "storage_order", 0) and rank == 2:
        rows, columns = np.divmod(index, spatial[1])
        order = columns * spatial[0] + rows
    planes = np.arange(shape[0] * shape[1]).reshape(shape[0], shape[1], 1, 1) * math.prod(spatial)
    beyond = np.asarray(np.iinfo(np.int64).max, np.int64)
    places = graph.emit("Where", graph.emit("Equal", windows, largest), order + planes, beyond)
    first = graph.emit("ReduceMin", places, [3], keepdims=0)
    graph.emit_to([node.output[0]], "Reshape", largest, result)
    graph.emit_to([node.output[1]], "Reshape", first, result)
    return True


def _max_unpool(graph: Graph, node: onnx.NodeProto) -> bool:
    shape = graph.shape(node.input[0])
    if shape is None:
        return False
    kernel = list(attribute(node, "kernel_shape", []))
    strides = list(attribute(node, "strides", [1] * len(kernel)))
    pads = list(attribute(node, "pads", [0] * 2 * len(kernel)))
    natural = [
        (extent - 1) * s + k - pads[at] - pads[at + len(kernel)]
        for at, (extent, s, k) in enumerate(zip(shape[2:], strides, kernel, strict=True))
    ]
    sizes = [*shape[:2], *natural]
    if len(node.input) > 2 and node.input[2]:
        wanted = graph.values.get(node.input[2])
        if wanted is None:
            return False
        sizes = [int(extent) for extent in wanted]
    places = graph.emit("Reshape", node.input[1], [-1])
    if sizes[2:] != natural:
        plane = [math.prod(natural), *[math.prod(natural[at + 1 :]) for at in range(len(natural))]]
        rest, target = places, graph.number(np.asarray(0, np.int64))
        for at, stride in enumerate(plane):
            step = math.prod(sizes[2 + at :])
            target = graph.emit("Add", target, graph.emit("Mul", graph.emit("Div", rest, stride), step))
            rest = graph.emit("Mod", rest, stride)
        places = target
    number = helper.tensor_dtype_to_np_dtype(graph.element(node.input[0]))
    values = graph.emit("Reshape", node.input[0], [-1])
    check_made_up(graph.label, sizes)
    flat = graph.emit("ScatterElements", np.zeros(math.prod(sizes), number), places, values, axis=0)
    graph.emit_to([node.output[0]], "Reshape", flat, sizes)
    return True


REWRITES: dict[str, Rewriter] = {
    **dict.fromkeys(("RNN", "GRU", "LSTM"), recurrent),
    **dict.fromkeys(("Resize", "Upsample"), resize),
    **QUANTIZED,
    **SIGNAL,
    "AffineGrid": _defined,
    "Attention": _defined,
    "Compress": _compress,
    "Concat": _concat,
    "Conv": _auto_pad,
    "ConvTranspose": _transposed_size,
    "Det": _determinant,
    "Dropout": _dropout,
    "EyeLike": _eye_like,
    "Flatten": _reshape,
    "LayerNormalization": _layer_norm,
    "LpNormalization": _lp_norm,
    "MaxPool": _max_pool,
    "MaxUnpool": _max_unpool,
    "OneHot": _one_hot,
    "RMSNormalization": _rms_norm,
    "ReduceMax": _reduce_bool,
    "ReduceMin": _reduce_bool,
    "Split": _split,
    "SpaceToDepth": _space_to_depth,
    "Squeeze": _reshape,
    "TensorScatter": _tensor_scatter,
    "Unsqueeze": _reshape,
}
"""Standard operators by name; a rewriter returns False to leave a node as it is."""
