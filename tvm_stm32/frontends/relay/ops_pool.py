"""Pooling and resizing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax

from .operator import OPERATORS, Application, operator
from .values import Tensor, Value

_SPATIAL = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def padding(app: Application, rank: int) -> list[int]:
    """The padding attribute as all begins then all ends of ``rank`` spatial axes (top, left, bottom, right)."""
    values = app.attrs.integers("padding", [0] * rank)
    if len(values) == 1:
        values = values * rank
    if len(values) == rank:
        values = values * 2
    if len(values) != 2 * rank or min(values) < 0:
        raise app.fail(f"padding {values} of {rank} dimensions")
    return values


def spatial(app: Application, key: str, rank: int, default: list[int] | None = None) -> list[int]:
    """A positive attribute with one value for each of ``rank`` spatial axes."""
    values = app.attrs.integers(key, default)
    if len(values) == 1:
        values = values * rank
    if len(values) != rank or min(values) < 1:
        raise app.fail(f"{key}={values} for {rank} dimensions")
    return values


def layout(app: Application, key: str, rank: int) -> str:
    """A data layout attribute, channels first or last; ``out_layout`` must not differ."""
    name = app.attrs.text(key, _SPATIAL[rank][0])
    if name not in _SPATIAL[rank]:
        raise app.unsupported(f"layout {name} is not supported", hint=f"convert to {' or '.join(_SPATIAL[rank])}")
    if app.attrs.text("out_layout", "") not in ("", name):
        raise app.unsupported("an out_layout of its own is not supported")
    return name


def extents(app: Application, name: str) -> list[int]:
    """The spatial extents of the data, which is in layout ``name``."""
    shape = app.tensor(0).shape
    if len(shape) != len(name):
        raise app.fail(f"data of {len(shape)} dimensions in layout {name}")
    return [extent for extent, letter in zip(shape, name, strict=True) if letter not in "NC"]


def _pool(function: Callable[..., relax.Expr], rank: int, *, average: bool) -> Callable[[Application], Value]:
    def translate(app: Application) -> Value:
        app.expect_args(1)
        name = layout(app, "layout", rank)
        extents(app, name)
        options: dict[str, Any] = {"ceil_mode": app.attrs.flag("ceil_mode", False), "layout": name}
        if average:
            options["count_include_pad"] = app.attrs.flag("count_include_pad", False)
        size = spatial(app, "pool_size", rank)
        strides, dilation = spatial(app, "strides", rank, [1]), spatial(app, "dilation", rank, [1])
        result = app.emit(function(app.expr(0), size, strides, padding(app, rank), dilation, **options))
        if not average:
            result.quantization = getattr(app.tensor(0), "quantization", None)
        return result

    return translate


def _global_pool(function: Callable[..., relax.Expr]) -> Callable[[Application], Value]:
    def translate(app: Application) -> Value:
        app.expect_args(1)
        name = layout(app, "layout", 2)
        return app.emit(function(app.expr(0), extents(app, name), layout=name))

    return translate


OPERATORS.update(
    {
        "nn.max_pool1d": _pool(relax.op.nn.max_pool1d, 1, average=False),
        "nn.max_pool2d": _pool(relax.op.nn.max_pool2d, 2, average=False),
        "nn.max_pool3d": _pool(relax.op.nn.max_pool3d, 3, average=False),
        "nn.avg_pool1d": _pool(relax.op.nn.avg_pool1d, 1, average=True),
        "nn.avg_pool2d": _pool(relax.op.nn.avg_pool2d, 2, average=True),
        "nn.avg_pool3d": _pool(relax.op.nn.avg_pool3d, 3, average=True),
        "nn.global_avg_pool2d": _global_pool(relax.op.nn.avg_pool2d),
        "nn.global_max_pool2d": _global_pool(relax.op.nn.max_pool2d),
    }
)


@operator("nn.adaptive_avg_pool1d")
def adaptive_avg_pool1d(app: Application) -> Value:
    """Average pooling to a given size; none keeps the size."""
    app.expect_args(1)
    name = layout(app, "layout", 1)
    size = app.attrs.integers("output_size", []) or extents(app, name)
    return app.emit(relax.op.nn.adaptive_avg_pool1d(app.expr(0), size[0], name))


@operator("nn.adaptive_avg_pool2d")
def adaptive_avg_pool2d(app: Application) -> Value:
    """Average pooling to a given size; none keeps the size."""
    app.expect_args(1)
    name = layout(app, "layout", 2)
    size = spatial(app, "output_size", 2, extents(app, name)) if app.attrs.integers("output_size", []) else None
    return app.emit(relax.op.nn.adaptive_avg_pool2d(app.expr(0), size or extents(app, name), name))


@operator("nn.adaptive_max_pool2d")
def adaptive_max_pool2d(app: Application) -> Value:
    """Max pooling to a given size; none keeps the size."""
    app.expect_args(1)
    name = layout(app, "layout", 2)
    have = extents(app, name)
    size = spatial(app, "output_size", 2) if app.attrs.integers("output_size", []) else have
    if any(extent % wanted for extent, wanted in zip(have, size, strict=True)):
        extent = {**dict(zip(name, app.tensor(0).shape, strict=True)), "H": size[0], "W": size[1]}
        shape = [extent[letter] for letter in name]
        options = {"size": size, "layout": name}
        return app.dialect("relay.adaptive_max_pool2d", [app.expr(0)], shape, app.tensor(0).dtype, **options)
    window = [extent // wanted for extent, wanted in zip(have, size, strict=True)]
    return app.emit(relax.op.nn.max_pool2d(app.expr(0), window, window, layout=name))


_CROPPED = "tf_crop_and_resize"
_METHODS = {"nearest_neighbor": "nearest_neighbor", "linear": "linear", "bilinear": "linear"}
_METHODS.update({"cubic": "cubic", "bicubic": "cubic"})


def _resize(app: Application, size: list[int], name: str, transformation: str, default: str) -> Tensor:
    method = _METHODS.get(app.attrs.text("method", default))
    if method is None:
        raise app.unsupported(f"method {app.attrs.text('method', default)} is not supported")
    rounding = app.attrs.text("rounding_method", "round")
    if app.name == "nn.upsampling" or not rounding:
        rounding = "round_prefer_floor" if transformation == "half_pixel" else "floor"
    if rounding == "round":
        # Relay's round takes ties up; that of today's TVM takes them to even.
        rounding = "round_prefer_ceil"
    return app.emit(
        relax.op.image.resize2d(
            app.expr(0),
            tuple(size),
            _region(app),
            name,
            method,
            transformation,
            rounding,
            app.attrs.real("cubic_alpha", -0.5),
            app.attrs.integer("cubic_exclude", 0),
            app.attrs.real("extrapolation_value", 0.0),
            app.dtype("out_dtype", app.tensor(0).dtype),
        )
    )


def _region(app: Application) -> tuple[float, ...]:
    """The region of interest: relative top, left, bottom, right."""
    values = app.attrs.reals("roi") if app.attrs.text("coordinate_transformation_mode", "") == _CROPPED else []
    return tuple(values) if len(values) == 4 else (0.0, 0.0, 0.0, 0.0)


@operator("image.resize2d")
def resize2d(app: Application) -> Value:
    """Resizing to a fixed size."""
    app.expect_args(1)
    name = layout(app, "layout", 2)
    transformation = app.attrs.text("coordinate_transformation_mode", "half_pixel")
    extents(app, name)
    return _resize(app, spatial(app, "size", 2), name, transformation, "linear")


@operator("nn.upsampling")
def upsampling(app: Application) -> Value:
    """Resizing by factors."""
    app.expect_args(1)
    name = layout(app, "layout", 2)
    scales = (app.attrs.real("scale_h"), app.attrs.real("scale_w"))
    if not all(0 < scale < 1024 for scale in scales):
        raise app.fail(f"scales {scales}")
    size = [int(extent * scale + 0.5) for extent, scale in zip(extents(app, name), scales, strict=True)]
    transformation = "align_corners" if app.attrs.flag("align_corners", False) else "asymmetric"
    return _resize(app, size, name, transformation, "nearest_neighbor")
