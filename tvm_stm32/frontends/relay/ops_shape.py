"""Operators that only rearrange: reshape, transpose, slices, concatenation."""

from __future__ import annotations

import numpy as np
from tvm import relax

from .layouts import parse_layout, parts
from .operator import Application, operator
from .values import Constant, Tensor, Value, elements


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
    if isinstance(data, Constant):
        return Constant(data.array.reshape(shape), data.name)
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
    if isinstance(data, Constant):
        app.emitter.reserve(app.at, elements(data.shape))
        return Constant(np.ascontiguousarray(data.array.transpose(axes)), data.name)
    result = app.emit(relax.op.permute_dims(data.expr, axes))
    result.quantization = getattr(data, "quantization", None)
    return result


@operator("layout_transform")
def layout_transform(app: Application) -> Value:
    """A transpose named by layouts; split axes (``NCHW4c``) are merged and split on the way."""
    app.expect_args(1)
    names = [app.attrs.text(key, "") for key in ("src_layout", "dst_layout")]
    source, target = (parse_layout(name) for name in names)
    letters = [] if source is None else [axis.letter for axis in source if not axis.factor]
    if source is None or target is None or set(letters) != {axis.letter for axis in target}:
        raise app.unsupported(f"{names[0]} to {names[1]} is not supported")
    shape = app.tensor(0).shape
    if len(source) != len(shape) or any(a.factor not in (0, e) for a, e in zip(source, shape, strict=True)):
        raise app.fail(f"data of shape {tuple(shape)} in layout {names[0]}")
    order = [index for letter in letters for index in parts(source, letter)]
    whole = {letter: elements(tuple(shape[index] for index in parts(source, letter))) for letter in letters}
    split: list[int] = []
    positions: dict[int, int] = {}
    for letter in letters:
        places = parts(target, letter)
        inner = [target[index].factor for index in places[1:]]
        if whole[letter] % elements(tuple(inner)):
            raise app.fail(f"axis {letter} of {whole[letter]} elements does not split by {inner}")
        for index, extent in zip(places, [whole[letter] // elements(tuple(inner)), *inner], strict=True):
            positions[index] = len(split)
            split.append(extent)
    value = permuted(app, order)
    value = reshaped(app.changed([value]), tuple(split))
    return permuted(app.changed([value]), [positions[index] for index in range(len(target))])


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
    shape = (*parts[0].shape[:axis], 1, *parts[0].shape[axis:])
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
