"""The table of Relay operators: importing the modules fills it."""

from __future__ import annotations

from . import (
    ops_blocks,
    ops_create,
    ops_elementwise,
    ops_index,
    ops_nn,
    ops_pool,
    ops_qnn,
    ops_qnn_elementwise,
    ops_reduce,
    ops_shape,
)
from .operator import OPERATORS, OperatorFunction

MODULES = (
    ops_blocks,
    ops_create,
    ops_elementwise,
    ops_index,
    ops_nn,
    ops_pool,
    ops_qnn,
    ops_qnn_elementwise,
    ops_reduce,
    ops_shape,
)


def find(name: str) -> OperatorFunction | None:
    """The translation of operator ``name``, or ``None``."""
    return OPERATORS.get(name)
