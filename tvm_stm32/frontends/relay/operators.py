"""The table of Relay operators: importing the modules fills it."""

from __future__ import annotations

from . import (
    ops_blocks,
    ops_create,
    ops_dynamic,
    ops_elementwise,
    ops_index,
    ops_nn,
    ops_pool,
    ops_qnn,
    ops_qnn_elementwise,
    ops_qnn_simulated,
    ops_reduce,
    ops_select,
    ops_shape,
)
from .operator import OPERATORS, OperatorFunction

MODULES = (
    ops_blocks,
    ops_create,
    ops_dynamic,
    ops_elementwise,
    ops_index,
    ops_nn,
    ops_pool,
    ops_qnn,
    ops_qnn_elementwise,
    ops_qnn_simulated,
    ops_reduce,
    ops_select,
    ops_shape,
)


REASONS = {
    "vision.non_max_suppression": "which boxes are compared depends on the data; run it on the outputs of the network",
    "vision.get_valid_counts": "how many boxes there are depends on the data; run it on the outputs of the network",
    "argwhere": "the shape of the result depends on the data",
    "unique": "the shape of the result depends on the data",
    "annotation.checkpoint": "it belongs to training",
}
"""Why an operator that is known is not translated."""


def find(name: str) -> OperatorFunction | None:
    """The translation of operator ``name``, or ``None``."""
    return OPERATORS.get(name)
