"""float32 convolutions and matrix products with constant weights become ``f.conv2d`` and ``f.dense``.

Both begin a sum with the bias, and end in bounds, so what follows them and is linear (bias, batch norm) or bounded
(relu, relu6, clip) disappears. Data is NHWC: transposes put around an NCHW convolution move down through operators
that work element by element, pool or join, until they meet the next convolution's and cancel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import relax

from . import dialect, operators
from .activation import activation_bounds
from .geometry import CONVOLUTIONS, Geometry, geometry
from .qdq import Emit
from .ssa import Function, constant, dtype_of, normalized, shape_of

FLOAT_SOURCES = frozenset({*CONVOLUTIONS, "relax.matmul"})
"""Operators this module replaces where it can."""

_TO_NHWC, _TO_NCHW = [0, 2, 3, 1], [0, 3, 1, 2]
_ACTIVATIONS = ("relax.nn.relu", "relax.nn.relu6", "relax.clip", "relax.maximum", "relax.minimum")
_ARITHMETIC = ("relax.add", "relax.subtract", "relax.multiply", "relax.divide")
# Operators that work element by element, whatever the axes mean.
_UNARY = frozenset(
    f"relax.{name}"
    for name in (
        *(
            "abs",
            "astype",
            "ceil",
            "clip",
            "cos",
            "erf",
            "exp",
            "floor",
            "log",
            "negative",
            "round",
            "rsqrt",
            "sigmoid",
        ),
        *("sign", "sin", "sqrt", "square", "tanh", "nn.gelu", "nn.gelu_tanh", "nn.leakyrelu", "nn.relu"),
        *("nn.relu6", "nn.selu", "nn.silu", "nn.softplus"),
    )
)
_BINARY = frozenset({*_ARITHMETIC, "relax.maximum", "relax.minimum", "relax.power"})
# Groups so narrow are left to plain loops: gathering their patches costs more than multiplying them.
_NARROWEST_GROUP = 4


@dataclass(frozen=True)
class _Producer:
    """An ``f.*`` call whose result is used once, after ``moves`` (transposes and reshapes, first one first)."""

    call: relax.Call
    moves: list[relax.Call]


class FloatRewriter:
    """Rewrites one binding at a time, in order; ``emit`` binds an extra value before it.

    Constants must have been folded.
    """

    def __init__(self, view: Function, emit: Emit) -> None:
        self.view = view
        self.emit = emit

    def rewrite(self, value: relax.Expr) -> relax.Expr | None:
        """The value in place of a binding's, or None to leave it."""
        name = dialect.name_of(value)
        if not name or not isinstance(value.ty, relax.TensorType) or dtype_of(value) != "float32":
            return None
        if name in CONVOLUTIONS:
            return self._convolution(value)
        if name == "relax.matmul":
            return self._dense(value)
        found = None
        if name in _ACTIVATIONS:
            found = self._activation(value)
        elif name in _ARITHMETIC:
            found = self._affine(value)
        return self._hoisted(value) if found is None else found

    def _convolution(self, call: relax.Call) -> relax.Expr | None:
        shape, weight = geometry(call), constant(call.args[1])
        if shape is None or weight is None or weight.dtype != np.float32 or dtype_of(call.args[0]) != "float32":
            return None
        weight = shape.kernel(weight).transpose([shape.kernel_layout.index(axis) for axis in "OHWI"])
        extents = shape_of(call.args[0])
        if shape.row is not None:
            extents = (*extents[: shape.row[0]], 1, *extents[shape.row[0] :])
        channels_in = extents[shape.data_layout.index("C")]
        if not _is_covered(weight, shape.groups, channels_in):
            return None
        source, padding = call.args[0], shape.padding
        padded = None if shape.row is not None else self._zero_padded(source, shape)
        if padded is not None:
            source, padding = padded
            extents = shape_of(source)
        for axis, number in (("H", 0), ("W", 1)):
            extent, kernel = extents[shape.data_layout.index(axis)], weight.shape[1 + number]
            before, after = padding[number], padding[number + 2]
            if not _all_see_input(extent, kernel, shape.strides[number], shape.dilation[number], before, after):
                return None
        if shape.row is not None:
            source = self.emit(shape.data(source))
        if shape.data_layout == "NCHW":
            source = self.emit(relax.op.permute_dims(source, _TO_NHWC))
        result: relax.Expr = operators.float_conv2d(
            source, weight, strides=shape.strides, padding=padding, dilation=shape.dilation, groups=shape.groups
        )
        if shape.data_layout == "NCHW":
            result = relax.op.permute_dims(self.emit(result), _TO_NCHW)
        return result if shape.row is None else relax.op.reshape(self.emit(result), shape_of(call))

    def _zero_padded(self, source: relax.Expr, shape: Geometry) -> tuple[relax.Expr, list[int]] | None:
        """Source and padding of a convolution that takes the zeros of a pad before it upon itself."""
        pad = self.view.match(source, "relax.nn.pad")
        if pad is None or str(pad.attrs.pad_mode) != "constant":
            return None
        fill = pad.args[1] if len(pad.args) > 1 else getattr(pad.attrs, "pad_value", None)
        array = constant(fill) if isinstance(fill, relax.Expr) else None
        number = array.item() if array is not None and array.size == 1 else getattr(fill, "value", fill)
        width = np.array([int(extent) for extent in pad.attrs.pad_width])
        if number != 0 or width.size != 8 or width.min() < 0:
            return None
        height, across = (width.reshape(4, 2)[shape.data_layout.index(axis)] for axis in "HW")
        if width.sum() != height.sum() + across.sum():
            return None
        more = [height[0], across[0], height[1], across[1]]
        return pad.args[0], [own + int(extra) for own, extra in zip(shape.padding, more, strict=True)]

    def _dense(self, call: relax.Call) -> relax.Expr | None:
        data, weight = call.args[0], constant(call.args[1])
        if weight is None or weight.ndim != 2 or weight.dtype != np.float32 or dtype_of(data) != "float32":
            return None
        if 0 in shape_of(call) or 0 in weight.shape:
            return None
        rows = weight
        flat = self.view.match(data, "relax.reshape")
        moved = self.view.match(flat.args[0], "relax.permute_dims") if flat is not None else None
        if moved is not None and shape_of(data) == (shape_of(moved)[0], len(weight)):
            # The order of the inputs may be that before the transpose: weights follow.
            axes = _axes(moved)
            if axes[0] == 0:
                spatial = rows.reshape(*shape_of(moved)[1:], -1)
                order = [*(axis - 1 for axis in np.argsort(axes)[1:]), spatial.ndim - 1]
                rows = spatial.transpose(order).reshape(rows.shape)
                data = self.emit(relax.op.reshape(moved.args[0], shape_of(data)))
        return operators.float_dense(data, rows.T, out_shape=shape_of(call))

    def _producer(self, expr: relax.Expr) -> _Producer | None:
        moves: list[relax.Call] = []
        # Variables made here are used by the next move alone, and not counted.
        while self.view.uses.get(expr, 1) == 1:
            value = self.view.value(expr)
            name = dialect.name_of(value)
            if name in operators.FLOAT_OPERATORS:
                return _Producer(value, moves[::-1])
            if name not in ("relax.permute_dims", "relax.reshape"):
                return None
            moves.append(value)
            expr = value.args[0]
        return None

    def _moved(self, call: relax.Call, moves: Sequence[relax.Call]) -> relax.Expr:
        """A call's result after the moves."""
        result = normalized(call)
        for move in moves:
            source = self.emit(result)
            result = (
                relax.op.reshape(source, shape_of(move))
                if dialect.name_of(move) == "relax.reshape"
                else relax.op.permute_dims(source, _axes(move))
            )
        return result

    def _affine(self, value: relax.Call) -> relax.Expr | None:
        """A constant a channel, added to or multiplied with the sums."""
        name = dialect.name_of(value).removeprefix("relax.")
        arrays = [constant(argument) for argument in value.args]
        side = 0 if arrays[1] is not None else 1
        factor = arrays[1 - side]
        if factor is None or (side == 1 and name in ("subtract", "divide")):
            return None
        producer = self._producer(value.args[side])
        if producer is None or shape_of(value) != shape_of(value.args[side]):
            return None
        attrs = dialect.attributes(producer.call)
        channel = _per_channel(factor, shape_of(value), producer)
        weight, bias = (np.asarray(constant(argument), np.float64) for argument in producer.call.args[1:3])
        if channel is None or (attrs["low"], attrs["high"]) != (-math.inf, math.inf):
            return None
        if name in ("add", "subtract"):
            bias = bias + (channel if name == "add" else -channel)
        else:
            with np.errstate(all="ignore"):
                scale = channel if name == "multiply" else 1 / channel
                bias = bias * scale
                weight = weight * scale.reshape(-1, *[1] * (weight.ndim - 1))
        with np.errstate(over="ignore"):
            weight, bias = weight.astype(np.float32), bias.astype(np.float32)
        if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
            return None
        arguments = [producer.call.args[0], operators.const(weight, "float32"), operators.const(bias, "float32")]
        return self._moved(_with(producer.call, arguments), producer.moves)

    def _activation(self, value: relax.Call) -> relax.Expr | None:
        bounds = _bounds(value)
        producer = self._producer(value.args[0]) if bounds is not None else None
        if bounds is None or producer is None or shape_of(value) != shape_of(value.args[0]):
            return None
        low, high = bounds
        if math.isnan(low) or math.isnan(high) or low > high:
            return None
        attrs = dialect.attributes(producer.call)
        clamped = [min(max(bound, low), high) for bound in (attrs["low"], attrs["high"])]
        call = _with(producer.call, list(producer.call.args), low=clamped[0], high=clamped[1])
        return self._moved(call, producer.moves)

    def _hoisted(self, value: relax.Call) -> relax.Expr | None:
        """op(transpose(a), ..) becomes transpose(op(a, ..))."""
        rule = _HOISTS.get(dialect.name_of(value))
        return rule(self, value) if rule is not None else None

    def transposed(self, expr: relax.Expr) -> relax.Call | None:
        """The transpose that made a value, unless it is one of constants."""
        return self.view.match(expr, "relax.permute_dims") if isinstance(expr, relax.Var) else None


def _is_covered(weight: np.ndarray, groups: int, channels_in: int) -> bool:
    channels, _, _, group_in = weight.shape
    if 0 in weight.shape or group_in * groups != channels_in or channels % groups:
        return False
    depthwise = group_in == 1 and channels == channels_in
    return groups == 1 or depthwise or group_in >= _NARROWEST_GROUP


def _all_see_input(extent: int, kernel: int, stride: int, dilation: int, before: int, after: int) -> bool:
    """Whether every window along an axis has a tap inside the input, as kernels rely on."""
    last = extent + after - dilation * (kernel - 1)
    starts = np.arange(-before, last, stride)[:, None] + dilation * np.arange(kernel)
    return min(before, after) >= 0 and bool(((starts >= 0) & (starts < extent)).any(axis=1).all())


def _per_channel(array: np.ndarray, shape: tuple[int, ...], producer: _Producer) -> np.ndarray | None:
    """One number for each channel of an ``f.*`` call out of a constant that meets its moved result."""
    if array.ndim > len(shape) or array.dtype != np.float32:
        return None
    whole = np.broadcast_to(array, shape)
    for move in reversed(producer.moves):
        if dialect.name_of(move) == "relax.permute_dims":
            whole = whole.transpose(np.argsort(_axes(move)))
        else:
            whole = whole.reshape(shape_of(move.args[0]))
    channel = whole.reshape(-1, whole.shape[-1])[0]
    return channel.astype(np.float64) if np.array_equal(np.broadcast_to(channel, whole.shape), whole) else None


def _bounds(value: relax.Call) -> tuple[float, float] | None:
    name = dialect.name_of(value)
    if name in ("relax.maximum", "relax.minimum"):
        array = constant(value.args[1])
        if array is None or array.size != 1:
            return None
        return (float(array.item()), math.inf) if name == "relax.maximum" else (-math.inf, float(array.item()))
    limits = activation_bounds(value)
    if limits is None:
        return None
    # As float32: what the bounds are in the kernel.
    return float(np.float32(limits[0])), math.inf if limits[1] is None else float(np.float32(limits[1]))


def _axes(call: relax.Call) -> list[int]:
    rank = len(shape_of(call))
    if call.attrs.axes is None:
        return list(reversed(range(rank)))
    return [int(axis) % rank for axis in call.attrs.axes]


def _with(call: relax.Call, arguments: list[relax.Expr], **changes: object) -> relax.Call:
    attrs = {**dialect.attributes(call), **changes}
    shape, dtype = attrs.pop("out_shape"), attrs.pop("out_dtype")
    return dialect.call(dialect.name_of(call), arguments, shape, dtype, **attrs)


def _hoist_unary(rewriter: FloatRewriter, value: relax.Call) -> relax.Expr | None:
    inner = rewriter.transposed(value.args[0])
    if inner is None:
        return None
    call = relax.Call(value.op, [inner.args[0], *value.args[1:]], value.attrs, value.ty_args)
    return relax.op.permute_dims(rewriter.emit(call), _axes(inner))


def _hoist_binary(rewriter: FloatRewriter, value: relax.Call) -> relax.Expr | None:
    shape = shape_of(value)
    found = [rewriter.transposed(argument) for argument in value.args]
    inner = next((call for call in found if call is not None), None)
    if inner is None or shape_of(inner) != shape:
        return None
    axes = _axes(inner)
    arguments = []
    for argument, call in zip(value.args, found, strict=True):
        array = constant(argument)
        if call is not None and _axes(call) == axes and shape_of(call) == shape:
            arguments.append(call.args[0])
        elif array is not None and array.ndim <= len(shape):
            whole = array.reshape((1,) * (len(shape) - array.ndim) + array.shape)
            turned = whole if array.size == 1 else whole.transpose(np.argsort(axes))
            arguments.append(operators.const(turned, str(array.dtype)))
        else:
            return None
    call = relax.Call(value.op, arguments, value.attrs, value.ty_args)
    return relax.op.permute_dims(rewriter.emit(call), axes)


def _hoist_pool(rewriter: FloatRewriter, value: relax.Call) -> relax.Expr | None:
    inner = rewriter.transposed(value.args[0])
    if inner is None or _axes(inner) != _TO_NCHW or str(value.attrs.layout) != "NCHW":
        return None
    name = dialect.name_of(value)
    if name == "relax.nn.adaptive_avg_pool2d":
        size = [int(extent) for extent in value.attrs.output_size or shape_of(inner)[2:]]
        result = relax.op.nn.adaptive_avg_pool2d(inner.args[0], size, layout="NHWC")
    else:
        pool = relax.op.nn.max_pool2d if name == "relax.nn.max_pool2d" else relax.op.nn.avg_pool2d
        attrs = value.attrs
        result = pool(
            inner.args[0],
            pool_size=[int(extent) for extent in attrs.pool_size],
            strides=[int(stride) for stride in attrs.strides],
            padding=[int(width) for width in attrs.padding],
            dilation=[int(rate) for rate in attrs.dilation],
            ceil_mode=bool(attrs.ceil_mode),
            count_include_pad=bool(attrs.count_include_pad),
            layout="NHWC",
        )
    return relax.op.permute_dims(rewriter.emit(result), _TO_NCHW)


def _hoist_axis(rewriter: FloatRewriter, value: relax.Call) -> relax.Expr | None:
    """Operators along one axis."""
    inner = rewriter.transposed(value.args[0])
    if inner is None:
        return None
    axes = _axes(inner)
    axis = axes[int(value.attrs.axis) % len(axes)]
    make = {"relax.nn.softmax": relax.op.nn.softmax, "relax.nn.log_softmax": relax.op.nn.log_softmax}
    name = dialect.name_of(value)
    if name == "relax.nn.prelu":
        result = relax.op.nn.prelu(inner.args[0], value.args[1], axis)
    else:
        result = make[name](inner.args[0], axis)
    return relax.op.permute_dims(rewriter.emit(result), axes)


def _hoist_mean(rewriter: FloatRewriter, value: relax.Call) -> relax.Expr | None:
    """The mean of each channel needs no transpose at all."""
    inner = rewriter.transposed(value.args[0])
    axes = sorted(int(axis) % 4 for axis in value.attrs.axis or ())
    if inner is None or _axes(inner) != _TO_NCHW or axes != [2, 3]:
        return None
    result = relax.op.mean(inner.args[0], [1, 2], keepdims=False)
    return relax.op.reshape(rewriter.emit(result), shape_of(value))


def _hoist_concat(rewriter: FloatRewriter, value: relax.Call) -> relax.Expr | None:
    fields = value.args[0].fields if isinstance(value.args[0], relax.Tuple) else ()
    found = [rewriter.transposed(field) for field in fields]
    inner = [call for call in found if call is not None]
    if not inner or len(inner) < len(found) or value.attrs.axis is None:
        return None
    axes = _axes(inner[0])
    if any(_axes(call) != axes for call in inner):
        return None
    axis = axes[int(value.attrs.axis) % len(axes)]
    joined = relax.op.concat([call.args[0] for call in inner], axis)
    return relax.op.permute_dims(rewriter.emit(joined), axes)


_Rule = Callable[[FloatRewriter, relax.Call], "relax.Expr | None"]
_HOISTS: dict[str, _Rule] = {
    **dict.fromkeys(_UNARY, _hoist_unary),
    **dict.fromkeys(_BINARY, _hoist_binary),
    **dict.fromkeys(("relax.nn.max_pool2d", "relax.nn.avg_pool2d", "relax.nn.adaptive_avg_pool2d"), _hoist_pool),
    **dict.fromkeys(("relax.nn.softmax", "relax.nn.log_softmax", "relax.nn.prelu"), _hoist_axis),
    "relax.mean": _hoist_mean,
    "relax.concat": _hoist_concat,
}
