"""The table of TFLite operators this project translates itself, exactly as the reference kernels compute.

An operator that is not here, or not for the element type at hand, is left to TVM's importer, which writes it in floats.
"""

from __future__ import annotations

from . import (
    tflite_binary,
    tflite_border,
    tflite_indexing,
    tflite_linear,
    tflite_moves,
    tflite_recurrent,
    tflite_reduce,
    tflite_rows,
    tflite_unary,
    tflite_window,
)
from .tflite_site import Rule

RULES: dict[str, Rule] = {
    **tflite_linear.RULES,
    **tflite_window.RULES,
    **tflite_binary.RULES,
    **tflite_unary.RULES,
    **tflite_rows.RULES,
    **tflite_recurrent.RULES,
    **tflite_reduce.RULES,
    **tflite_border.RULES,
    **tflite_moves.RULES,
    **tflite_indexing.RULES,
}
