"""Fourier transforms, windows of images: linear maps whose matrices and tables are computed here."""

from __future__ import annotations

import math

import numpy as np
import onnx

from .onnx_graph import LARGEST_TABLE, MOST_PLACES, Graph, Rewriter, attribute, check_made_up, opset_of

_FLOAT = onnx.TensorProto.FLOAT


def _scalar(graph: Graph, node: onnx.NodeProto, position: int, default: int) -> int | None:
    if len(node.input) <= position or not node.input[position]:
        return default
    found = graph.values.get(node.input[position])
    return None if found is None else int(found.reshape(-1)[0])


def _fourier(graph: Graph, node: onnx.NodeProto) -> bool:
    """DFT as products with matrices of cosines and sines."""
    shape = graph.shape(node.input[0])
    if shape is None or graph.element(node.input[0]) != _FLOAT:
        return False
    rank = len(shape)
    old = opset_of(node, graph.opsets) < 20
    axis = attribute(node, "axis", 1) if old else _scalar(graph, node, 2, -2)
    if axis is None:
        return False
    axis %= rank
    length = _scalar(graph, node, 1, 0)
    if length is None:
        return False
    inverse, onesided = bool(attribute(node, "inverse", 0)), bool(attribute(node, "onesided", 0))
    # A one-sided spectrum is made whole by its symmetry before it is transformed back.
    length = length or (2 * (shape[axis] - 1) if inverse and onesided else shape[axis])
    order = [at for at in range(rank - 1) if at != axis] + [axis]
    parts = [
        graph.emit("Transpose", graph.emit("Gather", node.input[0], part, axis=-1), perm=order)
        for part in range(shape[-1])
    ]
    taken = min(shape[axis], length // 2 + 1 if inverse and onesided else length)
    if taken < shape[axis]:
        parts = [graph.emit("Slice", part, [0], [taken], [-1]) for part in parts]
    count = length // 2 + 1 if onesided and not inverse else length
    check_made_up(graph.label, [taken, count], LARGEST_TABLE)
    angle = 2 * math.pi * np.outer(np.arange(taken), np.arange(count)) / length
    cosine, sine = np.cos(angle), np.sin(angle)
    if inverse:
        weight = np.ones(taken)
        if onesided:
            weight[1 : (length + 1) // 2] = 2.0
        cosine, sine = cosine * weight[:, None] / length, -sine * weight[:, None] / length
    real, imaginary = _products(graph, parts, cosine.astype(np.float32), sine.astype(np.float32))
    back = list(np.argsort(order))
    results = [real] if inverse and onesided else [real, imaginary]
    moved = [graph.emit("Unsqueeze", graph.emit("Transpose", part, perm=back), [-1]) for part in results]
    graph.emit_to([node.output[0]], "Concat", *moved, axis=-1)
    return True


def _products(graph: Graph, parts: list[str], cosine: np.ndarray, sine: np.ndarray) -> tuple[str, str]:
    """Real and imaginary part of x times (cosine - i sine) along the last axis."""
    real = graph.emit("MatMul", parts[0], cosine)
    imaginary = graph.emit("MatMul", parts[0], -sine)
    if len(parts) > 1:
        real = graph.emit("Add", real, graph.emit("MatMul", parts[1], sine))
        imaginary = graph.emit("Add", imaginary, graph.emit("MatMul", parts[1], cosine))
    return real, imaginary


def _short_time_fourier(graph: Graph, node: onnx.NodeProto) -> bool:
    """STFT: frames are gathered, weighted by the window and transformed."""
    signal = node.input[0]
    shape = graph.shape(signal)
    step = _scalar(graph, node, 1, 0)
    window = node.input[2] if len(node.input) > 2 else ""
    window_shape = graph.shape(window) if window else None
    length = _scalar(graph, node, 3, window_shape[0] if window_shape else 0)
    if shape is None or not step or not length or graph.element(signal) != _FLOAT:
        return False
    if len(shape) == 2:
        shape = [*shape, 1]
        signal = graph.emit("Unsqueeze", signal, [-1])
    frames = (shape[1] - length) // step + 1
    check_made_up(graph.label, [max(frames, length), length], LARGEST_TABLE)
    places = np.arange(frames)[:, None] * step + np.arange(length)[None, :]
    onesided = bool(attribute(node, "onesided", 1)) and shape[2] == 1
    count = length // 2 + 1 if onesided else length
    angle = 2 * math.pi * np.outer(np.arange(length), np.arange(count)) / length
    parts = []
    for part in range(shape[2]):
        framed = graph.emit("Gather", graph.emit("Gather", signal, part, axis=-1), places, axis=1)
        parts.append(graph.emit("Mul", framed, window) if window else framed)
    results = _products(graph, parts, np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32))
    graph.emit_to([node.output[0]], "Concat", *[graph.emit("Unsqueeze", part, [-1]) for part in results], axis=-1)
    return True


def _columns_to_image(graph: Graph, node: onnx.NodeProto) -> bool:
    """Col2Im: each pixel gathers the column elements that cover it, and adds them."""
    shape = graph.shape(node.input[0])
    image, block = (graph.values.get(name) for name in node.input[1:3])
    if shape is None or image is None or block is None:
        return False
    rank = len(image)
    dilations, strides = (list(attribute(node, name, [1] * rank)) for name in ("dilations", "strides"))
    pads = list(attribute(node, "pads", [0] * 2 * rank))
    sizes = [int(extent) for extent in image]
    kernel = [int(extent) for extent in block]
    counts = [
        (sizes[at] + pads[at] + pads[at + rank] - dilations[at] * (kernel[at] - 1) - 1) // strides[at] + 1
        for at in range(rank)
    ]
    taps, blocks = math.prod(kernel), math.prod(counts)
    check_made_up(graph.label, [taps, *counts], MOST_PLACES)
    check_made_up(graph.label, sizes, MOST_PLACES)
    covering: list[list[int]] = [[] for _ in range(math.prod(sizes))]
    for tap, at in enumerate(np.ndindex(*kernel)):
        for number, place in enumerate(np.ndindex(*counts)):
            pixel = [place[d] * strides[d] + at[d] * dilations[d] - pads[d] for d in range(rank)]
            if all(0 <= p < size for p, size in zip(pixel, sizes, strict=True)):
                covering[int(np.ravel_multi_index(pixel, sizes))].append(tap * blocks + number)
    most = max(1, max(len(found) for found in covering))
    nothing = taps * blocks
    table = np.asarray([found + [nothing] * (most - len(found)) for found in covering], np.int64)
    channels = shape[1] // taps
    flat = graph.emit("Reshape", node.input[0], [shape[0], channels, taps * blocks])
    flat = graph.emit("Pad", flat, np.asarray([0, 0, 0, 0, 0, 1], np.int64), 0.0)
    total = graph.emit("ReduceSum", graph.emit("Gather", flat, table, axis=2), [3], keepdims=0)
    graph.emit_to([node.output[0]], "Reshape", total, [shape[0], channels, *sizes])
    return True


SIGNAL: dict[str, Rewriter] = {"Col2Im": _columns_to_image, "DFT": _fourier, "STFT": _short_time_fourier}
