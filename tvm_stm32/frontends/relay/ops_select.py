"""Operators on indices and regions: masks, grids, crops, deformed windows."""

from __future__ import annotations

import numpy as np
from tvm import relax

from .operator import Application, operator
from .ops_pool import layout, padding, spatial
from .values import Constant, Tensor, Value, constant_expr, elements


@operator("sequence_mask")
def sequence_mask(app: Application) -> Value:
    """Elements behind the valid length of their sequence become ``mask_value``; ``axis`` is time, 0 or 1."""
    app.expect_args(2)
    data, lengths = app.tensor(0), app.tensor(1)
    rank = len(data.shape)
    axis = app.axis(app.attrs.integer("axis", 0), rank)
    if axis > 1 or rank < 2 or lengths.shape != (data.shape[1 - axis],) or lengths.dtype.startswith("float"):
        raise app.fail(f"axis {axis} of {tuple(data.shape)} with lengths {tuple(lengths.shape)}")
    times = np.arange(data.shape[axis]).astype(lengths.dtype).reshape((-1, 1) if axis == 0 else (1, -1))
    rows = app.emit(relax.op.reshape(lengths.expr, (1, -1) if axis == 0 else (-1, 1)))
    valid = app.emit(relax.op.less(constant_expr(times), rows.expr))
    valid = app.emit(relax.op.reshape(valid.expr, (*valid.shape, *[1] * (rank - 2))))
    mask = constant_expr(np.array(app.attrs.real("mask_value", 0.0)).astype(data.dtype))
    return app.emit(relax.op.where(valid.expr, data.expr, mask))


@operator("meshgrid")
def meshgrid(app: Application) -> Value:
    """A grid of each vector along its own axis; ``xy`` swaps the first two axes."""
    app.expect_args(1)
    parts = app.tensors(0)
    indexing = app.attrs.text("indexing", "ij")
    if indexing not in ("ij", "xy") or any(len(part.shape) > 1 for part in parts):
        raise app.fail(f"indexing {indexing!r} of tensors with {[len(part.shape) for part in parts]} dimensions")
    axes = list(range(len(parts)))
    if indexing == "xy" and len(parts) > 1:
        axes[:2] = [1, 0]
    shape = [1] * len(parts)
    for axis, part in zip(axes, parts, strict=True):
        shape[axis] = elements(part.shape)
    return tuple(
        app.emit(relax.op.broadcast_to(relax.op.reshape(part.expr, _only(axis, len(parts), part)), shape))
        for axis, part in zip(axes, parts, strict=True)
    )


def _only(axis: int, rank: int, part: Tensor | Constant) -> list[int]:
    return [elements(part.shape) if index == axis else 1 for index in range(rank)]


@operator("unravel_index")
def unravel_index(app: Application) -> Value:
    """Flat indices into ``shape`` as coordinates, stacked along a new first axis."""
    app.expect_args(2)
    indices, shape = app.tensor(0), [int(extent) for extent in app.constant(1).reshape(-1)]
    if indices.dtype not in ("int32", "int64") or not shape or min(shape) < 1 or elements(tuple(shape)) >= 1 << 31:
        raise app.fail(f"{indices.dtype} indices into shape {shape}")
    rows = []
    rest = indices.expr
    for extent in reversed(shape):
        divisor = constant_expr(np.array(extent).astype(indices.dtype))
        row = app.emit(relax.op.floor_mod(rest, divisor))
        rows.append(app.emit(relax.op.reshape(row.expr, (1, *indices.shape))).expr)
        rest = app.emit(relax.op.floor_divide(rest, divisor)).expr
    return app.emit(relax.op.concat(rows[::-1], 0))


@operator("image.crop_and_resize")
def crop_and_resize(app: Application) -> Value:
    """Regions of images, given by relative corners (y1, x1, y2, x2), resized to one size."""
    app.expect_args(3)
    data, boxes, images = app.tensor(0), app.tensor(1), app.tensor(2)
    name = layout(app, "layout", 2)
    method = app.attrs.text("method", "bilinear")
    size = spatial(app, "crop_size", 2)
    if method not in ("bilinear", "nearest_neighbor"):
        raise app.unsupported(f"method {method} is not supported")
    if len(data.shape) != 4 or boxes.shape != (*images.shape, 4) or len(images.shape) != 1 or images.dtype != "int32":
        raise app.fail(f"data {data.shape}, boxes {boxes.shape} and {images.dtype} indices {images.shape}")
    extent = dict(zip(name, data.shape, strict=True))
    extent.update(N=images.shape[0], H=size[0], W=size[1])
    return app.dialect(
        "relay.crop_and_resize",
        [data.expr, boxes.expr, images.expr],
        [extent[letter] for letter in name],
        app.dtype("out_dtype", data.dtype),
        size=size,
        layout=name,
        method=method,
        extrapolation=app.attrs.real("extrapolation_value", 0.0),
    )


@operator("nn.deformable_conv2d")
def deformable_conv2d(app: Application) -> Value:
    """Convolution whose windows are moved, element by element, by the second argument."""
    app.expect_args(3)
    data, offset, weight = app.tensor(0), app.tensor(1), app.parameter(2)
    name = layout(app, "data_layout", 2)
    kernel = app.attrs.text("kernel_layout", "OIHW")
    wanted = "OIHW" if name == "NCHW" else "HWIO"
    if kernel != wanted or any(len(value.shape) != 4 for value in (data, offset, weight)):
        raise app.unsupported(f"kernel_layout {kernel} with data_layout {name} is not supported")
    shape, moved = (dict(zip(name, value.shape, strict=True)) for value in (data, offset))
    kernel_shape = dict(zip(kernel, weight.shape, strict=True))
    groups, deformable = app.attrs.integer("groups", 1), app.attrs.integer("deformable_groups", 1)
    strides, dilation, pads = spatial(app, "strides", 2, [1]), spatial(app, "dilation", 2, [1]), padding(app, 2)
    taps = kernel_shape["H"] * kernel_shape["W"]
    if (
        min(groups, deformable) < 1
        or kernel_shape["I"] * groups != shape["C"]
        or kernel_shape["O"] % groups
        or shape["C"] % deformable
        or moved["C"] != 2 * deformable * taps
    ):
        raise app.fail(f"data {data.shape}, offset {offset.shape} and weight {weight.shape} do not fit")
    for axis, letter in enumerate("HW"):
        reach = dilation[axis] * (kernel_shape[letter] - 1) + 1
        shape[letter] = (shape[letter] + pads[axis] + pads[axis + 2] - reach) // strides[axis] + 1
    if any(moved[letter] != shape[letter] or shape[letter] < 1 for letter in "HW"):
        raise app.fail(f"offset {offset.shape} for a result of {shape['H']} x {shape['W']}")
    shape["C"] = kernel_shape["O"]
    return app.dialect(
        "relay.deformable_conv2d",
        [data.expr, offset.expr, weight.expr],
        [shape[letter] for letter in name],
        app.dtype("out_dtype", data.dtype),
        strides=strides,
        padding=pads,
        dilation=dilation,
        groups=groups,
        deformable_groups=deformable,
        layout=name,
    )


@operator("reinterpret")
def reinterpret(app: Application) -> Value:
    """The same bits as another dtype."""
    app.expect_args(1)
    data, dtype = app.tensor(0), app.declared_dtype("dtype", "")
    if isinstance(data, Constant) and data.array.dtype.itemsize == np.dtype(dtype).itemsize:
        return Constant(data.array.view(dtype))
    sizes = [np.dtype(kind).itemsize for kind in (data.dtype, dtype)]
    if sizes[0] != sizes[1] or data.half or "bool" in (data.dtype, dtype) or dtype in ("float16", "float64"):
        raise app.unsupported(f"{data.dtype} as {dtype} is not supported")
    return app.dialect("relay.reinterpret", [data.expr], data.shape, dtype)
