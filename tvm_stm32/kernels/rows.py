"""Scalar kernels of one tensor and at most one table: softmax and norms of rows, int16 sigmoids, float borders."""

from __future__ import annotations

import numpy as np
from tvm import relax

from ..graph import dialect
from ..graph.ssa import constant, dtype_of, shape_of
from ..library import Argument, Call
from .context import KernelContext, constant_argument, tensor_argument
from .elementwise import HEADER, paren

# Kernels that read an element before they write the one in its place.
_IN_PLACE = ("q.sigmoid16", "q.softmax16", "q.log_softmax", "q.l2_normalize")


def lower_rows(ctx: KernelContext, call: relax.Call, node: str, data: str, output: str) -> None:
    """``q.softmax16``, ``q.softmax8to16``, ``q.log_softmax``, ``q.l2_normalize``, ``q.sigmoid16``: template by name."""
    attrs = dialect.attributes(call)
    name, shape = dialect.name_of(call), shape_of(call)
    operator, length = name.removeprefix("q."), shape[-1] if shape else 1
    count = int(np.prod(shape, dtype=np.int64))
    source = ctx.render(f"{operator}.c.j2", paren=paren, count=count, rows=count // length, length=length, **attrs)
    kernel = ctx.kernel(f"{operator}_{count if name == 'q.sigmoid16' else length}", source, headers=HEADER)
    arguments = [tensor_argument(data, dtype_of(call.args[0]))]
    for table in call.args[1:]:
        entries = constant(table)
        assert entries is not None
        stem = f"{operator}_{len(ctx.library.calls)}_table"
        arguments.append(constant_argument(ctx.constant(stem, entries), dtype_of(table)))
    _add(ctx, operator, node, kernel.name, arguments, data, output, dtype_of(call), name in _IN_PLACE)


def lower_quantize(ctx: KernelContext, call: relax.Call, node: str, data: str, output: str) -> None:
    """``q.quantize``(data float32, scale): the border between floats and codes."""
    attrs = dialect.attributes(call)
    scale = constant(call.args[1])
    assert scale is not None
    count = int(np.prod(shape_of(call), dtype=np.int64))
    source = ctx.render(
        "quantize.c.j2", paren=paren, count=count, dtype=dtype_of(call), scale=float(scale).hex(), **attrs
    )
    kernel = ctx.kernel(f"quantize_{count}", source, headers=HEADER, uses_float=True)
    ctx.library.float_operators.append(f"quantize at '{node}'")
    arguments = [tensor_argument(data, "float32")]
    _add(ctx, "quantize", node, kernel.name, arguments, data, output, dtype_of(call), False)


def _add(
    ctx: KernelContext,
    operator: str,
    node: str,
    kernel: str,
    arguments: list[Argument],
    data: str,
    output: str,
    dtype: str,
    in_place: bool,
) -> None:
    ctx.add_call(
        Call(
            operator,
            node,
            kernel,
            (*arguments, tensor_argument(output, dtype)),
            (data,),
            (output,),
            overlaps={data: 0} if in_place else {},
        )
    )
