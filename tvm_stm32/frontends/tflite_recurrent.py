"""SVDF and UNIDIRECTIONAL_SEQUENCE_LSTM on codes (spec 2.14, 2.15), with states that last until a reset."""

from __future__ import annotations

import numpy as np
import tflite
from tvm import relax

from ..graph import dialect, fixed_point, operators
from ..numerics import quantize_multiplier, reduce_multiplier, round_half_away, sigmoid_table
from .tflite_site import Operand, Rule, Site

# Inputs of an LSTM in the file's order: weights of the gates (input, forget, cell, output) follow the data.
_INPUT_WEIGHTS, _HIDDEN_WEIGHTS, _BIASES = range(1, 5), range(5, 9), range(12, 16)
_HIDDEN, _CELL = 18, 19
_UNSUPPORTED = {9: "peepholes", 10: "peepholes", 11: "peepholes", 16: "a projection", 20: "layer normalization"}


def _svdf(site: Site) -> relax.Expr:
    options, data, features, times = site.options("SVDF"), site.data(0), site.data(1), site.data(2)
    state, out, bias = site.data(4), site.output, site.optional(3)
    site.require_quantized(data, features, times, state, out)
    if bias is None:
        raise site.refused("it has no bias, which the reference kernel cannot do without")
    low, high = state.limits
    (first, first_shift), (second, second_shift) = (
        quantize_multiplier(data.scale * features.scale / state.scale),
        quantize_multiplier(state.scale * times.scale / out.scale),
    )
    count, depth = features.shape
    steps = times.shape[1]
    variable = site.state(4, state.zero_point if state.dtype == "int8" else 0)
    return dialect.call(
        "q.svdf",
        [
            data.codes,
            variable,
            operators.const(site.constant(1), "int8"),
            operators.const(site.constant(2), times.dtype),
            operators.const(site.constant(3), "int32"),
        ],
        out.shape,
        out.dtype,
        batch=data.shape[0],
        features=count,
        depth=depth,
        steps=steps,
        rank=max(1, int(options.Rank())),
        has_bias=True,
        input_zero_point=data.zero_point,
        state_zero_point=state.zero_point,
        output_zero_point=out.zero_point,
        state_min=low,
        state_max=high,
        feature_multiplier=first,
        feature_shift=first_shift,
        multiplier=second,
        shift=second_shift,
        macs=data.shape[0] * count * (depth + steps),
    )


def _lstm(site: Site) -> relax.Expr:
    options, data, hidden, cell = (
        site.options("UnidirectionalSequenceLSTM"),
        site.data(0),
        site.data(_HIDDEN),
        site.data(_CELL),
    )
    for position, what in _UNSUPPORTED.items():
        if site.optional(position) is not None:
            raise site.refused(f"it has {what}, which the reference kernel has not")
    if site.optional(1) is None:
        raise site.refused("its input and forget gates are coupled, which the reference kernel does not compute")
    site.require_quantized(data, hidden, cell, site.output)
    wide = data.dtype == "int16"
    time_major = bool(options.TimeMajor())
    steps, batch = data.shape[:2] if time_major else (data.shape[1], data.shape[0])
    units, depth = hidden.shape[-1], data.shape[2]
    cell_clip = float(options.CellClip())
    clip = int(min(max(cell_clip / cell.scale, -32768.0), 32767.0)) if cell_clip > 0 else 0
    low, high = data.limits
    arguments = [
        data.codes,
        site.state(_HIDDEN, hidden.zero_point),
        site.state(_CELL, 0),
        operators.const(np.stack([site.constant(position) for position in _INPUT_WEIGHTS]), "int8"),
        operators.const(np.stack([site.constant(position) for position in _HIDDEN_WEIGHTS]), "int8"),
        fixed_point.const(_biases(site, units, wide), "int64" if wide else "int32"),
        operators.const(_gate_scales(site, data, hidden, wide), "int32"),
        operators.const(sigmoid_table(), "uint16"),
    ]
    return dialect.call(
        "q.lstm",
        arguments,
        site.output.shape,
        site.output.dtype,
        batch=batch,
        steps=steps,
        units=units,
        depth=depth,
        accumulator="int64" if wide else "int32",
        time_major=time_major,
        tanh=int(options.FusedActivationFunction()) == tflite.ActivationFunctionType.TANH,
        input_zero_point=data.zero_point,
        hidden_zero_point=hidden.zero_point,
        keep=list(quantize_multiplier(2.0**-15)),
        add=list(quantize_multiplier(2.0**-30 / cell.scale)),
        out=list(quantize_multiplier(2.0**-30 / hidden.scale)),
        cell_shift=12 + round_half_away(float(np.log2(np.float32(cell.scale)))),
        clip=clip,
        low=low,
        high=high,
        macs=batch * steps * 4 * units * (depth + units),
    )


def _biases(site: Site, units: int, wide: bool) -> np.ndarray:
    dtype = np.int64 if wide else np.int32
    present = [site.optional(position) for position in _BIASES]
    return np.stack(
        [np.zeros(units, dtype) if b is None else site.constant(p) for p, b in zip(_BIASES, present, strict=True)]
    )


def _gate_scales(site: Site, data: Operand, hidden: Operand, wide: bool) -> np.ndarray:
    """(multiplier, shift) of the input's and of the hidden state's product, for each gate; results are Q3.12."""
    rows = []
    for first, second in zip(_INPUT_WEIGHTS, _HIDDEN_WEIGHTS, strict=True):
        row: list[int] = []
        for side, position in ((data, first), (hidden, second)):
            multiplier, shift = quantize_multiplier(side.scale * site.data(position).scale / 2.0**-12)
            row += [reduce_multiplier(multiplier) if wide else multiplier, shift]
        rows.append(row)
    return np.array(rows)


RULES = {
    "SVDF": Rule(_svdf, {"int8": "kernel"}, remark="int8 or int16 state"),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Rule(
        _lstm,
        {"int8": "kernel", "int16": "kernel"},
        remark="without peepholes, projection, layer normalization; tflite-micro is followed where LiteRT differs",
    ),
}
