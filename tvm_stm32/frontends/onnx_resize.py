"""Resize and Upsample as sums along one axis after the other: tables of positions and weights, computed here.

The formulas are those of the standard's text and of its reference implementation.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx

from .onnx_converters import RESAMPLE
from .onnx_graph import LARGEST_TABLE, Graph, attribute, check_made_up

_FLOAT = onnx.TensorProto.FLOAT


def resize(graph: Graph, node: onnx.NodeProto) -> bool:
    """Write out a Resize or Upsample of known sizes. False when they are not known."""
    shape = graph.shape(node.input[0])
    plan = _plan(graph, node, shape) if shape is not None else None
    if shape is None or plan is None:
        return False
    sizes, scales, regions = plan
    check_made_up(graph.label, sizes)
    mode = attribute(node, "mode", "nearest")
    transformation = attribute(node, "coordinate_transformation_mode", "half_pixel")
    if node.op_type == "Upsample" or (len(node.input) == 2 and node.op_type == "Resize" and not _has_roi(node)):
        transformation = "asymmetric"
    if mode != "nearest" and graph.element(node.input[0]) != _FLOAT:
        return False
    value = node.input[0]
    outside: list[tuple[int, np.ndarray]] = []
    for axis, (extent, size) in enumerate(zip(shape, sizes, strict=True)):
        if extent == size and scales[axis] == 1.0 and transformation != "tf_crop_and_resize":
            continue
        at = _coordinates(extent, size, scales[axis], transformation, regions[axis])
        beyond = (at < 0) | (at > extent - 1)
        if transformation == "tf_crop_and_resize" and beyond.any():
            outside.append((axis, beyond))
        if mode == "nearest":
            index = _nearest(at, attribute(node, "nearest_mode", "round_prefer_floor"), node.op_type)
            value = graph.emit("Gather", value, np.clip(index, 0, extent - 1).astype(np.int32), axis=axis)
            continue
        index, weight = _taps(at, extent, scales[axis], mode, node, graph.label)
        value = graph.emit(RESAMPLE, value, index.astype(np.int32), weight.astype(np.float32), axis=axis)
        _known_shape(graph, value, axis, size, shape)
        shape[axis] = size
    if outside:
        mask = np.zeros(sizes, bool)
        for axis, beyond in outside:
            mask |= beyond.reshape([-1 if position == axis else 1 for position in range(len(sizes))])
        fill = np.asarray(attribute(node, "extrapolation_value", 0.0), np.float32)
        value = graph.emit("Where", mask, fill, value)
    graph.emit_to([node.output[0]], "Identity", value)
    return True


def _has_roi(node: onnx.NodeProto) -> bool:
    return len(node.input) > 2


def _known_shape(graph: Graph, value: str, axis: int, size: int, shape: list[int]) -> None:
    extents = [size if position == axis else extent for position, extent in enumerate(shape)]
    graph.types[value] = onnx.helper.make_tensor_type_proto(_FLOAT, extents)


def _plan(
    graph: Graph, node: onnx.NodeProto, shape: list[int]
) -> tuple[list[int], list[float], list[tuple[float, float]]] | None:
    """Output extents, scales and regions of interest by axis."""
    rank = len(shape)
    axes = [axis % rank for axis in attribute(node, "axes", range(rank))]
    roi: np.ndarray | None
    scales: np.ndarray | None
    sizes: np.ndarray | None
    if node.op_type == "Upsample" or len(node.input) == 2:
        given = _value(graph, node, 1)
        scales = np.asarray(attribute(node, "scales", [])) if given is None else given
        roi = sizes = None
    else:
        roi, scales, sizes = (_value(graph, node, position) for position in (1, 2, 3))
    regions: list[tuple[float, float]] = [(0.0, 1.0)] * rank
    if len(node.input) > 2 and node.input[1] and roi is None:
        return None
    if roi is not None and roi.size == 2 * len(axes):
        for position, axis in enumerate(axes):
            regions[axis] = (float(roi[position]), float(roi[position + len(axes)]))
    factors = [1.0] * rank
    extents = list(shape)
    if scales is not None and scales.size == len(axes):
        for axis, scale in zip(axes, scales.reshape(-1), strict=True):
            factors[axis] = float(scale)
            begin, end = regions[axis] if _crops(node) else (0.0, 1.0)
            extents[axis] = math.floor(shape[axis] * (end - begin) * float(scale))
    elif sizes is not None and sizes.size == len(axes):
        wanted = [int(size) for size in sizes.reshape(-1)]
        policy = attribute(node, "keep_aspect_ratio_policy", "stretch")
        ratios = [size / shape[axis] for size, axis in zip(wanted, axes, strict=True)]
        if policy != "stretch":
            ratio = min(ratios) if policy == "not_larger" else max(ratios)
            ratios = [ratio] * len(axes)
            wanted = [math.floor(shape[axis] * ratio + 0.5) for axis in axes]
        for axis, size, ratio in zip(axes, wanted, ratios, strict=True):
            factors[axis], extents[axis] = ratio, size
    else:
        return None
    return (extents, factors, regions) if all(extent > 0 for extent in extents) else None


def _crops(node: onnx.NodeProto) -> bool:
    return bool(attribute(node, "coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize")


def _value(graph: Graph, node: onnx.NodeProto, position: int) -> np.ndarray | None:
    if len(node.input) <= position or not node.input[position]:
        return None
    found = graph.values.get(node.input[position])
    return None if found is None or found.size == 0 else found


def _coordinates(extent: int, size: int, scale: float, transformation: str, region: tuple[float, float]) -> np.ndarray:
    """Position in the input of each output element."""
    at = np.arange(size, dtype=np.float64)
    begin, end = region
    length = extent * scale  # of the output before it is cut to a whole number
    if transformation == "asymmetric":
        return at / scale
    if transformation == "align_corners":
        return at * (extent - 1) / (length - 1) if length != 1 else at * 0
    if transformation == "pytorch_half_pixel":
        return (at + 0.5) / scale - 0.5 if length > 1 else at * 0
    if transformation == "half_pixel_symmetric":
        adjustment = size / length
        center = extent / 2
        return center * (1 - adjustment) + (at + 0.5) / scale - 0.5
    if transformation == "tf_crop_and_resize":
        if size > 1:
            return begin * (extent - 1) + at * (end - begin) * (extent - 1) / (size - 1)
        return 0.5 * (begin + end) * (extent - 1) + at * 0
    return (at + 0.5) / scale - 0.5


def _nearest(at: np.ndarray, mode: str, operator: str) -> np.ndarray:
    if operator == "Upsample":
        return np.asarray(np.floor(at))
    if mode == "round_prefer_floor":
        return np.asarray(np.ceil(at - 0.5))
    if mode == "round_prefer_ceil":
        return np.asarray(np.floor(at + 0.5))
    return np.asarray(np.floor(at) if mode == "floor" else np.ceil(at))


def _taps(
    at: np.ndarray, extent: int, scale: float, mode: str, node: onnx.NodeProto, label: str
) -> tuple[np.ndarray, np.ndarray]:
    """Positions and weights [output, tap]."""
    antialias = bool(attribute(node, "antialias", 0))
    stretch = min(scale, 1.0) if antialias else 1.0
    reach = 1 if mode == "linear" else 2
    first = np.floor(at).astype(np.int64)
    fraction = at - first
    taps = math.ceil(reach / stretch)
    check_made_up(label, [len(at), 2 * taps], LARGEST_TABLE)
    offsets = np.arange(-taps + 1, taps + 1)
    distance = (offsets[None, :] - fraction[:, None]) * stretch
    if mode == "linear":
        weight = np.maximum(0.0, 1.0 - np.abs(distance))
    else:
        weight = _cubic(distance, float(attribute(node, "cubic_coeff_a", -0.75)))
    index = first[:, None] + offsets[None, :]
    inside = (index >= 0) & (index < extent)
    if attribute(node, "exclude_outside", 0):
        weight = np.where(inside, weight, 0.0)
    if antialias or attribute(node, "exclude_outside", 0):
        weight = weight / weight.sum(axis=1, keepdims=True)
    used = weight.any(axis=0)
    used[0] |= not used.any()
    return np.clip(index, 0, extent - 1)[:, used], weight[:, used]


def _cubic(distance: np.ndarray, a: float) -> np.ndarray:
    x: Any = np.abs(distance)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.asarray(np.where(x < 1, near, np.where(x < 2, far, 0.0)))
