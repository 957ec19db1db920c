"""gemmlowp's fixed-point functions on Python integers (spec 1.6): raw int32, Qm has m integer and 31 - m fraction bits.

``runtime/include/ai_kernels.h`` has those a kernel needs while it runs.
"""

from __future__ import annotations

INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1


def wrap32(x: int) -> int:
    """``x`` modulo 2**32, as int32."""
    return ((x + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


def high_multiply(a: int, b: int) -> int:
    """SaturatingRoundingDoublingHighMul: floor((a * b + 2**30) / 2**31)."""
    if a == b == INT32_MIN:
        return INT32_MAX
    return (a * b + (1 << 30)) >> 31


def divide_by_pot(x: int, exponent: int) -> int:
    """RoundingDivideByPOT: x / 2**exponent, ties away from zero."""
    mask = (1 << exponent) - 1
    return (x >> exponent) + int((x & mask) > ((mask >> 1) + (x < 0)))


def rescale(x: int, integer_bits: int, target: int) -> int:
    """``x`` with ``target`` instead of ``integer_bits`` integer bits: rounds to more, saturates to fewer."""
    bits = integer_bits - target
    if bits <= 0:
        return divide_by_pot(x, -bits)
    limit = (1 << (31 - bits)) - 1
    if x > limit:
        return INT32_MAX
    return INT32_MIN if x < -limit else wrap32(x << bits)


def exp_on_negative_values(a: int, integer_bits: int) -> int:
    """exp of ``a`` <= 0 with ``integer_bits`` integer bits, result in Q0."""
    if a == 0:
        return INT32_MAX
    fraction_bits = 31 - integer_bits
    quarter = 1 << (fraction_bits - 2)
    reduced = (a & (quarter - 1)) - quarter
    x = rescale(reduced, integer_bits, 0) + (1 << 28)
    x2 = high_multiply(x, x)
    x3 = high_multiply(x2, x)
    x4 = high_multiply(x2, x2)
    term = divide_by_pot(high_multiply(divide_by_pot(x4, 2) + x3, 715827883) + x2, 1)
    result = wrap32(1895147668 + high_multiply(1895147668, x + term))
    remainder = reduced - a
    for index, factor in enumerate((1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)):
        exponent = index - 2
        if integer_bits > exponent and remainder & (1 << (fraction_bits + exponent)):
            result = high_multiply(result, factor)
    return result


def logistic(a: int, integer_bits: int) -> int:
    """1 / (1 + exp(-a)) in Q0."""
    if a == 0:
        return 1 << 30
    positive = _one_over_one_plus(exp_on_negative_values(-abs(a), integer_bits))
    return positive if a > 0 else INT32_MAX - positive


def tanh(a: int, integer_bits: int) -> int:
    """The hyperbolic tangent in Q0: the same raw bits with one integer bit more are twice the value."""
    if a == 0:
        return 0
    exponential = exp_on_negative_values(-abs(a), integer_bits + 1)
    value = rescale(wrap32(_newton(exponential) - (1 << 29)), 2, 0)
    return value if a > 0 else -value


def _newton(a: int) -> int:
    """2 / (1 + a) in Q2 for ``a`` in [0, 1), Q0: three Newton steps."""
    half = _half_sum(a, INT32_MAX)
    x = wrap32(1515870810 + high_multiply(half, -1010580540))
    for _ in range(3):
        error = wrap32((1 << 29) - high_multiply(half, x))
        x = wrap32(x + rescale(high_multiply(x, error), 4, 2))
    return x


def _one_over_one_plus(a: int) -> int:
    return rescale(_newton(a), 1, 0)


def reciprocal(x: int) -> tuple[int, int]:
    """``(multiplier, right shift)`` of 1 / x for ``x`` > 0, as TFLM's GetReciprocal of 31 integer bits."""
    headroom = 32 - x.bit_length()
    return _one_over_one_plus(wrap32((x << headroom) - (1 << 31))), 31 - headroom


def _half_sum(a: int, b: int) -> int:
    total = a + b
    nudged = total + (1 if total >= 0 else -1)
    return nudged // 2 if nudged >= 0 else -(-nudged // 2)


def inverse_sqrt(x: int) -> tuple[int, int]:
    """``(multiplier, left shift)`` of 1 / sqrt(x), TFLM's GetInvSqrtQuantizedMultiplierExp."""
    if x <= 1:
        return INT32_MAX, 0
    shift = 11
    while x >= 1 << 29:
        x //= 4
        shift += 1
    pairs = (32 - x.bit_length() - 1) // 2 - 1
    shift -= pairs
    x <<= 2 * pairs
    value = x >> 1
    half = divide_by_pot(value, 1)
    estimate = 1 << 28
    for _ in range(5):
        cube = rescale(high_multiply(high_multiply(estimate, estimate), estimate), 9, 3)
        step = wrap32(high_multiply(402653184, estimate) - high_multiply(half, cube))
        estimate = rescale(step, 6, 3)
    result = high_multiply(estimate, 1518500250)
    if shift < 0:
        result = wrap32(result << -shift)
        shift = 0
    return result, -shift
