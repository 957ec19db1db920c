"""Which C expression computes a TIR intrinsic."""

from __future__ import annotations

# float function of libm, by TIR intrinsic
LIBM = {
    "acos": "acosf",
    "acosh": "acoshf",
    "asin": "asinf",
    "asinh": "asinhf",
    "atan": "atanf",
    "atan2": "atan2f",
    "atanh": "atanhf",
    "ceil": "ceilf",
    "copysign": "copysignf",
    "cos": "cosf",
    "cosh": "coshf",
    "erf": "erff",
    "exp": "expf",
    "exp2": "exp2f",
    "floor": "floorf",
    "fma": "fmaf",
    "fmod": "fmodf",
    "hypot": "hypotf",
    "log": "logf",
    "log10": "log10f",
    "log1p": "log1pf",
    "log2": "log2f",
    "nearbyint": "rintf",
    "nextafter": "nextafterf",
    "pow": "powf",
    "round": "rintf",  # TVM folds and compiles it half to even, like nearbyint
    "sin": "sinf",
    "sinh": "sinhf",
    "sqrt": "sqrtf",
    "tan": "tanf",
    "tanh": "tanhf",
    "trunc": "truncf",
}

# Composed from libm functions: the C text and the function it calls. {0} is the argument, {1} the same as an operand.
COMPOSED = {
    "sigmoid": ("1.0f / (1.0f + expf(-{1}))", "expf"),
    "rsqrt": ("1.0f / sqrtf({0})", "sqrtf"),
    "exp10": ("powf(10.0f, {0})", "powf"),
}

# Dearer than a handful of multiplications: not worth computing twice to save a buffer.
EXPENSIVE = (frozenset(LIBM) | frozenset(COMPOSED)) - {"ceil", "copysign", "floor", "nearbyint", "round", "trunc"}
