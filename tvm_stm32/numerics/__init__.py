"""Integer arithmetic of the references: multipliers, roundings, clamps, tables.

The one place that states a rounding rule in Python; ``runtime/include/ai_kernels.h`` is its twin in C.
"""

from .fixed_point import (
    INT8_MAX,
    INT8_MIN,
    MULTIPLY,
    multiply_even,
    multiply_tflm,
    multiply_tonearest,
    multiply_upward,
    quantize_activation,
    quantize_multiplier,
    quantize_multipliers,
    round_half_away,
)
from .softmax import SoftmaxParameters, log_softmax_reverse, softmax_exponentials, softmax_parameters
from .wide import (
    INT16_MAX,
    INT16_MIN,
    check_wide_shift,
    exponential_table,
    multiply_wide,
    reciprocal_table,
    reduce_multiplier,
    sigmoid_table,
    wide_input_scaling,
)

__all__ = [
    "INT8_MAX",
    "INT8_MIN",
    "INT16_MAX",
    "INT16_MIN",
    "MULTIPLY",
    "SoftmaxParameters",
    "check_wide_shift",
    "exponential_table",
    "log_softmax_reverse",
    "multiply_even",
    "multiply_tflm",
    "multiply_tonearest",
    "multiply_upward",
    "multiply_wide",
    "quantize_activation",
    "quantize_multiplier",
    "quantize_multipliers",
    "reciprocal_table",
    "reduce_multiplier",
    "round_half_away",
    "sigmoid_table",
    "softmax_exponentials",
    "softmax_parameters",
    "wide_input_scaling",
]
