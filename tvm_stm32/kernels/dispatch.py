"""Which function lowers which operator of ours."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from ..graph import dialect
from . import elementwise
from .binary import lower_binary
from .context import KernelContext
from .convolution import lower_conv2d
from .dense import lower_dense
from .float32 import lower_float_conv2d, lower_float_dense
from .recurrent import lower_recurrent
from .rows import lower_quantize, lower_rows
from .wide import lower_conv2d16, lower_hybrid

_SINGLE_INPUT = {
    "q.conv2d": lower_conv2d,
    "q.dense": lower_dense,
    "f.conv2d": lower_float_conv2d,
    "f.dense": lower_float_dense,
    "q.avg_pool2d": elementwise.lower_pool,
    "q.max_pool2d": elementwise.lower_pool,
    "q.softmax": elementwise.lower_softmax,
    "q.table": elementwise.lower_table,
    "q.conv2d16": lower_conv2d16,
    "q.hybrid": lower_hybrid,
    "q.quantize": lower_quantize,
    "q.sigmoid16": lower_rows,
    "q.softmax8to16": lower_rows,
    "q.softmax16": lower_rows,
    "q.log_softmax": lower_rows,
    "q.l2_normalize": lower_rows,
}
BINARY = {"q.add", "q.sub", "q.mul", "q.div"}
# Operators by how many of their arguments are tensors: data, then states.
_RECURRENT = {"q.svdf": 2, "q.lstm": 3}


def tensors_of(call: relax.Call) -> int | None:
    """How many arguments of an operator are tensors in the arena (constants excepted); None: no kernel of ours."""
    name = dialect.name_of(call)
    if name in BINARY:
        # Constant tables of q.div included.
        return len(call.args)
    return 1 if name in _SINGLE_INPUT else _RECURRENT.get(name)


def lower_operator(ctx: KernelContext, call: relax.Call, node: str, operands: Sequence[str], output: str) -> None:
    """Add the call of a kernel for ``call``, an operator with :func:`tensors_of`.

    ``operands`` are the names of its tensors; a constant one of ``q.add`` and the like has an empty name.
    """
    name = dialect.name_of(call)
    if name in BINARY:
        lower_binary(ctx, call, node, list(operands), output)
    elif name in _RECURRENT:
        lower_recurrent(ctx, call, node, list(operands), output)
    else:
        _SINGLE_INPUT[name](ctx, call, node, operands[0], output)
