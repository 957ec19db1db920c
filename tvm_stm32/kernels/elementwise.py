"""int8 pools, softmax and table look-ups."""

from __future__ import annotations

import numpy as np
from tvm import relax

from ..graph import dialect
from ..graph.ssa import constant, dtype_of, shape_of
from ..library import Call
from ..library.ctypes import CTYPES
from .context import KernelContext, constant_argument, tensor_argument
from .stage import ROUNDING

HEADER = ("ai_kernels.h",)


def paren(value: int) -> str:
    """A constant that may follow a minus sign."""
    return f"({value})" if value < 0 else str(value)


def _suffix(dtype: str) -> str:
    return "" if dtype == "int8" else dtype.removeprefix("int")


def lower_pool(ctx: KernelContext, call: relax.Call, node: str, data: str, output: str) -> None:
    """``q.avg_pool2d`` and ``q.max_pool2d``; padding never counts."""
    attrs = dialect.attributes(call)
    dtype = dtype_of(call)
    operator = "max" if dialect.name_of(call) == "q.max_pool2d" else "avg"
    batch, height, width, channels = shape_of(call.args[0])
    _, out_h, out_w, _ = shape_of(call)
    (pool_h, pool_w), (stride_h, stride_w) = attrs["pool"], attrs["strides"]
    top, left, _, _ = attrs["padding"]
    padded = bool(top or left or (out_h - 1) * stride_h + pool_h > height or (out_w - 1) * stride_w + pool_w > width)
    # Sums of a window fit halfwords as long as 128 times its elements do.
    lanes = ctx.target.dsp and dtype == "int8" and channels % 4 == 0 and (operator == "max" or pool_h * pool_w <= 255)
    magic = _reciprocal(pool_h * pool_w)
    nearest = not padded and attrs.get("mode") not in ("requantize", "upward", "truncate") and magic is not None
    vector = ctx.target.mve and dtype == "int8" and channels >= 8 and (operator == "max" or nearest)
    source = ctx.render(
        "pool.c.j2",
        paren=paren,
        operator=operator,
        ctype=CTYPES[dtype],
        limits=(-32768, 32767) if dtype == "int16" else (-128, 127),
        batch=batch,
        height=height,
        width=width,
        channels=channels,
        out_h=out_h,
        out_w=out_w,
        pool_h=pool_h,
        pool_w=pool_w,
        stride_h=stride_h,
        stride_w=stride_w,
        pad_top=top,
        pad_left=left,
        padded=padded,
        lanes=lanes,
        vector=vector,
        magic=magic,
        **{
            key: value
            for key, value in {"clamp_min": -128, "clamp_max": 127, **attrs}.items()
            if key not in ("pool", "strides", "padding", "rounding")
        },
        rounding=ROUNDING[attrs.get("rounding", "tflm")],
    )
    headers = ("ai_kernels_mve.h",) if vector else ("ai_blocks.h",) if lanes else HEADER
    kernel = ctx.kernel(f"{operator}_pool{_suffix(dtype)}_{pool_h}x{pool_w}_{channels}", source, headers=headers)
    ctx.add_call(
        Call(
            f"{operator}_pool2d",
            node,
            kernel.name,
            (tensor_argument(data, dtype), tensor_argument(output, dtype)),
            (data,),
            (output,),
            detail=f"{pool_h}x{pool_w} stride {stride_h}x{stride_w}",
        )
    )


def _reciprocal(count: int) -> tuple[int, int] | None:
    """(factor, right) with n * factor >> 16 + right the quotient n / ``count`` for all sums of as many codes."""
    sizes = np.arange(128 * count + count // 2 + 1, dtype=np.int64)
    if sizes[-1] >= 1 << 15:
        return None
    for right in range(16):
        factor = -(-(1 << 16 + right) // count)
        if factor < 1 << 16 and np.array_equal(sizes * factor >> 16 + right, sizes // count):
            return factor, right
    return None


def lower_softmax(ctx: KernelContext, call: relax.Call, node: str, data: str, output: str) -> None:
    """``q.softmax`` over the last axis."""
    attrs = dialect.attributes(call)
    shape = shape_of(call)
    rows = int(np.prod(shape[:-1], dtype=np.int64))
    source = ctx.render("softmax.c.j2", rows=rows, length=shape[-1], **attrs)
    kernel = ctx.kernel(f"softmax_{shape[-1]}", source, headers=HEADER)
    _add_with_table(ctx, call, "softmax", node, kernel.name, data, output, "int32")


def lower_table(ctx: KernelContext, call: relax.Call, node: str, data: str, output: str) -> None:
    """``q.table``: a 256-entry look-up for each element."""
    count = int(np.prod(shape_of(call), dtype=np.int64))
    kernel = ctx.kernel(f"table_{count}", ctx.render("table.c.j2", count=count), headers=HEADER)
    label = str(dialect.attributes(call)["label"])
    _add_with_table(ctx, call, label, node, kernel.name, data, output, "int8")


def _add_with_table(
    ctx: KernelContext,
    call: relax.Call,
    operator: str,
    node: str,
    kernel: str,
    data: str,
    output: str,
    dtype: str,
) -> None:
    entries = constant(call.args[1])
    assert entries is not None
    table = ctx.constant(f"{operator}_{len(ctx.library.calls)}_table", entries)
    ctx.add_call(
        Call(
            operator,
            node,
            kernel,
            (tensor_argument(data, "int8"), constant_argument(table, dtype), tensor_argument(output, "int8")),
            (data,),
            (output,),
            overlaps={data: 0},
        )
    )
