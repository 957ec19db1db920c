"""Operators that move elements: reshape, transpose, slices, concatenation, padding, constants of a shape."""

from __future__ import annotations

import numpy as np
from tvm import relax

from .operator import Application, operator
from .values import MAX_ELEMENTS, Constant, Tensor, Value, constant_expr, elements

_MAX_MADE = 1 << 24
"""Elements of a tensor made out of nothing (zeros, arange): it becomes a constant in flash."""


def _moved(app: Application, expr: relax.Expr) -> Tensor:
    """Emit an operator that only rearranges argument 0, keeping what is known about that."""
    result = app.emit(expr)
    data = app.tensor(0)
    if isinstance(data, Tensor):
        result.origin, result.quantization = data.origin, data.quantization
    return result


def reshaped(app: Application, shape: tuple[int, ...]) -> Value:
    """Argument 0 in another shape; a reshape to the same shape disappears."""
    data = app.tensor(0)
    if elements(shape) != elements(data.shape):
        raise app.fail(f"shape {tuple(data.shape)} cannot become {shape}")
    if shape == data.shape:
        return data
    return _moved(app, relax.op.reshape(data.expr, shape))


def new_shape(app: Application, shape: tuple[int, ...], codes: list[int], allow_zero: bool) -> tuple[int, ...]:
    """The shape Relay's ``newshape`` codes mean.

    0 keeps a dimension, -1 is inferred, -2 keeps all others, -3 merges two, -4 splits one into the next two codes.
    """
    rest = list(shape)
    result: list[int] = []
    codes = list(codes)
    while codes:
        code = codes.pop(0)
        if code > 0 or (code == 0 and allow_zero) or code == -1:
            result.append(code)
            rest = rest[1:]
            continue
        needed = {0: 1, -2: 0, -3: 2, -4: 1}.get(code)
        if needed is None or len(rest) < needed:
            raise app.fail(f"newshape code {code} does not apply to shape {tuple(shape)}")
        taken, rest = rest[:needed], rest[needed:]
        if code == -2:
            result += rest
            rest = []
        elif code == -3:
            result.append(taken[0] * taken[1])
        elif code == -4:
            result += _split_extent(app, taken[0], codes)
        else:
            result += taken
    if result.count(-1) > 1 or any(extent < -1 for extent in result):
        raise app.fail(f"newshape gives {result}")
    if -1 in result:
        known = elements(tuple(extent for extent in result if extent != -1))
        if known == 0 or elements(tuple(shape)) % known:
            raise app.fail(f"shape {tuple(shape)} cannot become {result}")
        result[result.index(-1)] = elements(tuple(shape)) // known
    return tuple(result)


def _split_extent(app: Application, extent: int, codes: list[int]) -> list[int]:
    if len(codes) < 2:
        raise app.fail("newshape code -4 needs two more")
    first, second = codes.pop(0), codes.pop(0)
    if first == -1 and second > 0:
        first = extent // second
    elif second == -1 and first > 0:
        second = extent // first
    if first < 1 or second < 1 or first * second != extent:
        raise app.fail(f"newshape code -4 cannot split {extent} into {first} and {second}")
    return [first, second]


@operator("reshape", "contrib_reverse_reshape")
def reshape(app: Application) -> Value:
    """Reshape with Relay's codes; a second argument with the shape is already in ``newshape``."""
    app.expect_args(1, 2)
    codes = app.attrs.integers("newshape")
    shape = app.tensor(0).shape
    allow_zero = app.attrs.flag("allowzero", False)
    if app.name == "contrib_reverse_reshape":
        if any(code < -1 for code in codes):
            raise app.unsupported("newshape codes below -1 are not supported")
        return reshaped(app, new_shape(app, shape[::-1], codes[::-1], allow_zero)[::-1])
    return reshaped(app, new_shape(app, shape, codes, allow_zero))


@operator("reshape_like")
def reshape_like(app: Application) -> Value:
    """The shape of the second argument."""
    app.expect_args(2)
    shape, like = app.tensor(0).shape, app.tensor(1).shape
    left = slice(app.attrs.integer("lhs_begin", 0), app.attrs.optional_integer("lhs_end"))
    right = slice(app.attrs.integer("rhs_begin", 0), app.attrs.optional_integer("rhs_end"))
    first, last, _ = left.indices(len(shape))
    return reshaped(app, shape[:first] + like[right] + shape[last:])


@operator("nn.batch_flatten")
def batch_flatten(app: Application) -> Value:
    """(N, all others)."""
    app.expect_args(1)
    shape = app.tensor(0).shape
    if not shape:
        raise app.fail("data without dimensions")
    return reshaped(app, (shape[0], elements(shape[1:])))


@operator("squeeze")
def squeeze(app: Application) -> Value:
    """Drops dimensions of extent 1; all of them without ``axis``."""
    app.expect_args(1)
    shape = app.tensor(0).shape
    axes = app.attrs.optional_integers("axis")
    drop = [index for index, extent in enumerate(shape) if extent == 1]
    if axes is not None:
        chosen = [app.axis(axis, len(shape)) for axis in axes]
        if any(axis not in drop for axis in chosen):
            raise app.fail(f"axes {axes} of shape {shape} are not all of extent 1")
        drop = chosen
    return reshaped(app, tuple(extent for index, extent in enumerate(shape) if index not in drop))


@operator("expand_dims")
def expand_dims(app: Application) -> Value:
    """Inserts ``num_newaxis`` dimensions of extent 1 before ``axis``."""
    app.expect_args(1)
    shape = app.tensor(0).shape
    count = app.attrs.integer("num_newaxis", 1)
    if not 0 <= count <= 16:
        raise app.fail(f"num_newaxis={count}")
    axis = app.axis(app.attrs.integer("axis"), len(shape) + 1)
    return reshaped(app, shape[:axis] + (1,) * count + shape[axis:])


@operator("transpose")
def transpose(app: Application) -> Value:
    """Permutes dimensions; reverses them without ``axes``."""
    app.expect_args(1)
    rank = len(app.tensor(0).shape)
    axes = [app.axis(axis, rank) for axis in app.attrs.optional_integers("axes") or range(rank - 1, -1, -1)]
    return permuted(app, axes)


def permuted(app: Application, axes: list[int]) -> Value:
    """Argument 0 with its dimensions in the order ``axes``."""
    data = app.tensor(0)
    if sorted(axes) != list(range(len(data.shape))):
        raise app.fail(f"axes {axes} are no order of {len(data.shape)} dimensions")
    if axes == list(range(len(axes))):
        return data
    result = app.emit(relax.op.permute_dims(data.expr, axes))
    result.quantization = getattr(data, "quantization", None)
    return result


@operator("layout_transform")
def layout_transform(app: Application) -> Value:
    """A transpose named by layouts; layouts with split axes are not covered."""
    app.expect_args(1)
    source, target = app.attrs.text("src_layout", ""), app.attrs.text("dst_layout", "")
    if len(set(source)) != len(source) or sorted(source) != sorted(target) or not source.isalpha():
        raise app.unsupported(f"{source} to {target} is not supported")
    if len(source) != len(app.tensor(0).shape):
        raise app.fail(f"data of {len(app.tensor(0).shape)} dimensions in layout {source}")
    return permuted(app, [source.index(letter) for letter in target])


@operator("concatenate")
def concatenate(app: Application) -> Value:
    """Joins the tensors of a tuple along an axis."""
    app.expect_args(1)
    parts = app.tensors(0)
    axis = app.axis(app.attrs.integer("axis", 0), len(parts[0].shape))
    return app.emit(relax.op.concat([part.expr for part in parts], axis))


@operator("stack")
def stack(app: Application) -> Value:
    """Joins the tensors of a tuple along a new axis."""
    app.expect_args(1)
    parts = app.tensors(0)
    axis = app.axis(app.attrs.integer("axis", 0), len(parts[0].shape) + 1)
    shape = parts[0].shape[:axis] + (1,) + parts[0].shape[axis:]
    grown = [app.emit(relax.op.reshape(part.expr, shape)).expr for part in parts]
    return app.emit(relax.op.concat(grown, axis))


@operator("split")
def split(app: Application) -> Value:
    """A tuple of slices: equal parts, or cut at indices."""
    app.expect_args(1)
    data = app.tensor(0)
    axis = app.axis(app.attrs.integer("axis", 0), len(data.shape))
    cuts = app.attrs.integers("indices_or_sections")
    extent = data.shape[axis]
    if not app.attrs.is_list("indices_or_sections"):
        sections = cuts[0]
        if not 1 <= sections <= extent or extent % sections:
            raise app.fail(f"{extent} elements do not split into {sections} equal parts")
        cuts = list(range(extent // sections, extent, extent // sections))
    if cuts != sorted(cuts) or any(not 0 <= cut <= extent for cut in cuts):
        raise app.fail(f"cuts {cuts} of {extent} elements")
    if not cuts:
        return (data,)
    return app.emit_any(relax.op.split(data.expr, cuts, axis))


@operator("strided_slice")
def strided_slice(app: Application) -> Value:
    """A slice with constant bounds; negative ones count from the end."""
    app.expect_args(1)
    data = app.tensor(0)
    rank = len(data.shape)
    begin, end = app.attrs.integers("begin"), app.attrs.integers("end")
    strides = app.attrs.optional_integers("strides") or [1]
    axes = app.attrs.optional_integers("axes")
    axes = list(range(len(begin))) if axes is None else [app.axis(axis, rank) for axis in axes]
    if len(axes) != len(begin) or len(begin) > rank or len(set(axes)) != len(axes) or len(end) > len(begin):
        raise app.fail(f"begin={begin}, end={end} and axes={axes} do not go together")
    sizes = app.attrs.text("slice_mode", "end") == "size"
    slices = []
    for index, axis in enumerate(axes):
        extent = data.shape[axis]
        stride = 1 if sizes or index >= len(strides) else strides[index]
        stop = end[index] if index < len(end) else extent
        if sizes:
            first = begin[index] + extent if begin[index] < 0 else begin[index]
            stop = extent if stop < 0 else first + stop
        if stride == 0:
            raise app.fail("a stride of 0")
        slices.append(_slice(begin[index], stop, stride, extent))
    starts, stops, steps = ([part[field] for part in slices] for field in range(3))
    result = app.emit(relax.op.strided_slice(data.expr, axes, starts, stops, steps))
    result.quantization = getattr(data, "quantization", None)
    return result


def _slice(begin: int, end: int, stride: int, extent: int) -> tuple[int, int, int]:
    start, stop, step = slice(begin, end, stride).indices(extent)
    # "Down to and with element 0" has no index of its own: -1 would wrap to the last element.
    return start, -1 - extent if stop == -1 else stop, step


@operator("slice_like")
def slice_like(app: Application) -> Value:
    """The leading part that has the shape of the second argument."""
    app.expect_args(2)
    data, like = app.tensor(0), app.tensor(1)
    rank = len(data.shape)
    axes = [app.axis(axis, rank) for axis in app.attrs.optional_integers("axes") or range(min(rank, len(like.shape)))]
    if any(axis >= len(like.shape) or like.shape[axis] > data.shape[axis] for axis in axes):
        raise app.fail(f"shape {like.shape} does not lie within {data.shape}")
    stops = [like.shape[axis] for axis in axes]
    return app.emit(relax.op.strided_slice(data.expr, axes, [0] * len(axes), stops))


@operator("take")
def take(app: Application) -> Value:
    """Elements by index along an axis; without one, of the flattened tensor."""
    app.expect_args(2)
    if app.attrs.integer("batch_dims", 0):
        raise app.unsupported("batch_dims is not supported")
    mode = app.attrs.text("mode", "clip")
    if mode not in ("clip", "wrap", "fast"):
        raise app.fail(f"mode {mode!r}")
    axis = app.attrs.optional_integer("axis")
    data, indices = app.tensor(0), app.tensor(1)
    source = data.expr
    if axis is None:
        source = app.emit(relax.op.reshape(source, (elements(data.shape),))).expr
    axis = 0 if axis is None else app.axis(axis, len(data.shape))
    if isinstance(indices, Constant) and np.issubdtype(indices.array.dtype, np.integer):
        # Constant indices are put in range here, and the operator needs no checks.
        extent = data.shape[axis] if len(data.shape) else 1
        array = indices.array % extent if mode == "wrap" else np.clip(indices.array, 0, max(extent - 1, 0))
        return app.emit(relax.op.take(source, constant_expr(array.astype(indices.dtype)), axis, "fast"))
    return app.emit(relax.op.take(source, indices.expr, axis, mode))


@operator("gather")
def gather(app: Application) -> Value:
    """One element for each index, along an axis."""
    app.expect_args(2)
    axis = app.axis(app.attrs.integer("axis"), len(app.tensor(0).shape))
    return app.emit(relax.op.gather_elements(app.expr(0), app.expr(1), axis))


@operator("gather_nd")
def gather_nd(app: Application) -> Value:
    """Elements by index tuples, which Relay keeps along axis 0 of the indices and Relax along the last."""
    app.expect_args(2)
    rank = len(app.tensor(1).shape)
    indices = app.emit(relax.op.permute_dims(app.expr(1), [*range(1, rank), 0]))
    return app.emit(relax.op.gather_nd(app.expr(0), indices.expr, app.attrs.integer("batch_dims", 0)))


@operator("tile")
def tile(app: Application) -> Value:
    """Repeats the whole tensor."""
    app.expect_args(1)
    reps = app.attrs.integers("reps")
    if not reps or min(reps) < 1 or elements((*reps, *app.tensor(0).shape)) > MAX_ELEMENTS:
        raise app.fail(f"reps={reps}")
    return app.emit(relax.op.tile(app.expr(0), reps))


@operator("repeat")
def repeat(app: Application) -> Value:
    """Repeats each element along an axis; without one, of the flattened tensor."""
    app.expect_args(1)
    shape = app.tensor(0).shape
    repeats = app.attrs.integer("repeats")
    axis = app.attrs.optional_integer("axis")
    if repeats < 1 or repeats * elements(shape) > MAX_ELEMENTS:
        raise app.fail(f"repeats={repeats}")
    return app.emit(relax.op.repeat(app.expr(0), repeats, None if axis is None else app.axis(axis, len(shape))))


@operator("reverse")
def reverse(app: Application) -> Value:
    """Flips one axis."""
    app.expect_args(1)
    axis = app.attrs.optional_integer("axis")
    return app.emit(relax.op.flip(app.expr(0), app.axis(axis or 0, len(app.tensor(0).shape))))


@operator("broadcast_to", "broadcast_to_like")
def broadcast_to(app: Application) -> Value:
    """Repeats along new dimensions and those of extent 1."""
    app.expect_args(1, 2)
    shape = app.tensor(1).shape if len(app.args) == 2 else tuple(app.attrs.integers("shape"))
    return app.emit(relax.op.broadcast_to(app.expr(0), shape))


def _filled(app: Application, value: float | int, shape: tuple[int, ...], dtype: str) -> Constant:
    if any(extent < 0 for extent in shape) or elements(shape) > _MAX_MADE:
        raise app.fail(f"shape {shape}", why=f"a constant has at most {_MAX_MADE} elements")
    with np.errstate(all="ignore"):
        return Constant(np.full(shape, np.array(value).astype(dtype), dtype))


@operator("zeros", "ones")
def zeros(app: Application) -> Value:
    """A constant of zeros or ones."""
    app.expect_args(0, 1)
    shape = tuple(app.attrs.integers("shape"))
    return _filled(app, int(app.name == "ones"), shape, app.dtype("dtype", "float32"))


@operator("zeros_like", "ones_like")
def zeros_like(app: Application) -> Value:
    """A constant of zeros or ones in the shape of the argument."""
    app.expect_args(1)
    like = app.tensor(0)
    return _filled(app, int(app.name == "ones_like"), like.shape, like.dtype)


@operator("full", "full_like")
def full(app: Application) -> Value:
    """A constant filled with a constant scalar."""
    if app.name == "full_like":
        app.expect_args(2)
        like = app.tensor(0)
        return _filled(app, app.scalar(1), like.shape, like.dtype)
    app.expect_args(1, 2)
    dtype = app.dtype("dtype", app.tensor(0).dtype)
    return _filled(app, app.scalar(0), tuple(app.attrs.integers("shape")), dtype)


@operator("arange")
def arange(app: Application) -> Value:
    """A constant range; the attributes of the same names repeat the arguments."""
    app.expect_args(3)
    start, stop, step = (app.scalar(index) for index in range(3))
    dtype = app.dtype("dtype", app.tensor(0).dtype)
    if step == 0 or not np.isfinite([start, stop, step]).all() or abs((stop - start) / step) > _MAX_MADE:
        raise app.fail(f"range from {start} to {stop} by {step}")
    count = max(0, int(np.ceil((stop - start) / step)))
    return Constant((np.array(start) + np.arange(count) * np.array(step)).astype(dtype))


@operator("shape_of")
def shape_of(app: Application) -> Value:
    """The shape as a constant."""
    app.expect_args(1)
    return Constant(np.array(app.tensor(0).shape, app.dtype("dtype", "int32")))


@operator("one_hot")
def one_hot(app: Application) -> Value:
    """Index to a vector that is ``on`` there and ``off`` elsewhere."""
    app.expect_args(3)
    indices = app.tensor(0)
    depth, dtype = app.attrs.integer("depth", 1), app.dtype("dtype", app.tensor(1).dtype)
    if not 1 <= depth <= _MAX_MADE:
        raise app.fail(f"depth={depth}")
    rank = len(indices.shape)
    axis = app.axis(app.attrs.integer("axis", -1), rank + 1)
    grown = app.emit(relax.op.expand_dims(indices.expr, axis))
    classes = np.arange(depth).astype(indices.dtype).reshape((depth,) + (1,) * (rank - axis))
    hit = app.emit(relax.op.equal(grown.expr, constant_expr(classes)))
    on, off = (constant_expr(np.array(app.scalar(index)).astype(dtype)) for index in (1, 2))
    return app.emit(relax.op.where(hit.expr, on, off))


@operator("nn.pad")
def pad(app: Application) -> Value:
    """Padding with a constant scalar, the edge or a reflection."""
    app.expect_args(1, 2)
    data = app.tensor(0)
    widths = _widths(app, len(data.shape))
    mode = app.attrs.text("pad_mode", "constant")
    if mode != "constant":
        return _padded_by_index(app, widths, mode)
    value = app.scalar(1) if len(app.args) == 2 else app.attrs.real("pad_value", 0.0)
    if not any(before or after for before, after in widths):
        return data
    result = app.emit(relax.op.nn.pad(data.expr, [width for pair in widths for width in pair], "constant", value))
    result.quantization = getattr(data, "quantization", None)
    return result


def _widths(app: Application, rank: int) -> list[tuple[int, int]]:
    widths = app.attrs.pairs("pad_width")
    if len(widths) != rank or any(min(pair) < 0 or max(pair) > MAX_ELEMENTS for pair in widths):
        raise app.fail(f"pad_width={widths} for {rank} dimensions")
    return widths


@operator("nn.mirror_pad")
def mirror_pad(app: Application) -> Value:
    """Padding with a mirror image, with (SYMMETRIC) or without (REFLECT) the edge."""
    app.expect_args(1)
    mode = app.attrs.text("mode", "SYMMETRIC").lower()
    return _padded_by_index(app, _widths(app, len(app.tensor(0).shape)), mode)


def _padded_by_index(app: Application, widths: list[tuple[int, int]], mode: str) -> Value:
    if mode not in ("edge", "reflect", "symmetric"):
        raise app.fail(f"mode {mode!r}")
    value: Tensor | Constant = app.tensor(0)
    for axis, (before, after) in enumerate(widths):
        extent = value.shape[axis]
        if not before and not after:
            continue
        if extent + before + after > _MAX_MADE or (mode != "edge" and max(before, after) > extent - (mode == "reflect")):
            raise app.fail(f"pad_width {(before, after)} of {extent} elements")
        indices = np.pad(np.arange(extent, dtype=np.int32), (before, after), mode=mode)  # type: ignore[call-overload]
        value = app.emit(relax.op.take(value.expr, constant_expr(indices), axis, "fast"))
    return value


def _blocks(app: Application) -> tuple[int, bool, str]:
    app.expect_args(1)
    size, name = app.attrs.integer("block_size", 1), app.attrs.text("layout", "NCHW")
    mode = app.attrs.text("mode", "DCR")
    if size < 1 or name not in ("NCHW", "NHWC") or mode not in ("DCR", "CRD") or len(app.tensor(0).shape) != 4:
        raise app.unsupported(f"block_size={size}, layout={name}, mode={mode} is not supported")
    return size, name == "NHWC", mode


def _rearranged(app: Application, split_shape: list[int], axes: list[int], shape: list[int]) -> Value:
    parts = app.emit(relax.op.reshape(app.expr(0), split_shape))
    moved = app.emit(relax.op.permute_dims(parts.expr, axes))
    return app.emit(relax.op.reshape(moved.expr, shape))


@operator("nn.depth_to_space")
def depth_to_space(app: Application) -> Value:
    """Channels become blocks of pixels."""
    size, last, mode = _blocks(app)
    shape = app.tensor(0).shape
    batch, height, width, channels = (shape[i] for i in ((0, 1, 2, 3) if last else (0, 2, 3, 1)))
    depth = channels // (size * size)
    if depth * size * size != channels:
        raise app.fail(f"{channels} channels do not make blocks of {size} x {size}")
    if last:
        inner = [size, size, depth] if mode == "DCR" else [depth, size, size]
        axes = [0, 1, 3, 2, 4, 5] if mode == "DCR" else [0, 1, 4, 2, 5, 3]
        return _rearranged(app, [batch, height, width, *inner], axes, [batch, height * size, width * size, depth])
    inner = [size, size, depth] if mode == "DCR" else [depth, size, size]
    axes = [0, 3, 4, 1, 5, 2] if mode == "DCR" else [0, 1, 4, 2, 5, 3]
    return _rearranged(app, [batch, *inner, height, width], axes, [batch, depth, height * size, width * size])


@operator("nn.space_to_depth")
def space_to_depth(app: Application) -> Value:
    """Blocks of pixels become channels."""
    size, last, _ = _blocks(app)
    shape = app.tensor(0).shape
    batch, height, width, channels = (shape[i] for i in ((0, 1, 2, 3) if last else (0, 2, 3, 1)))
    if height % size or width % size:
        raise app.fail(f"{height} x {width} pixels do not make blocks of {size} x {size}")
    rows, columns, depth = height // size, width // size, channels * size * size
    if last:
        parts = [batch, rows, size, columns, size, channels]
        return _rearranged(app, parts, [0, 1, 3, 2, 4, 5], [batch, rows, columns, depth])
    parts = [batch, channels, rows, size, columns, size]
    return _rearranged(app, parts, [0, 3, 5, 1, 2, 4], [batch, depth, rows, columns])
