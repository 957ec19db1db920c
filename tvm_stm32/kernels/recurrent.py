"""Recurrent operators. They move their states on in place: a state's memory is the model's, from run to run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import relax

from ..graph import dialect
from ..graph.ssa import constant, dtype_of, shape_of
from ..library import Call
from ..library.ctypes import CTYPES
from .context import KernelContext, constant_argument, tensor_argument
from .elementwise import HEADER, paren


def lower_recurrent(ctx: KernelContext, call: relax.Call, node: str, operands: Sequence[str], output: str) -> None:
    """``q.svdf``(data, state, constants..) and ``q.lstm``(data, hidden, cell, constants..): template by name."""
    attrs = dialect.attributes(call)
    operator = dialect.name_of(call).removeprefix("q.")
    arrays = [constant(argument) for argument in call.args[len(operands) :]]
    types = {"ctype": CTYPES[dtype_of(call.args[1])], "time_ctype": CTYPES[dtype_of(call.args[3])]}
    source = ctx.render(f"{operator}.c.j2", paren=paren, **types, **attrs)
    units = shape_of(call)[-1]
    kernel = ctx.kernel(f"{operator}_{units}", source, headers=HEADER)
    arguments = [tensor_argument(name, dtype_of(argument)) for name, argument in zip(operands, call.args, strict=False)]
    for number, array in enumerate(arrays):
        assert array is not None
        stem = f"{operator}_{len(ctx.library.calls)}_{number}"
        arguments.append(constant_argument(ctx.constant(stem, array), array.dtype.name))
    ctx.add_call(
        Call(
            operator,
            node,
            kernel.name,
            (*arguments, tensor_argument(output, dtype_of(call))),
            tuple(operands),
            (output, *operands[1:]),
            macs=int(attrs["macs"]),
            detail=f"{int(np.prod(shape_of(call.args[1])))} states",
        )
    )
