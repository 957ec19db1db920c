"""``dyn.*`` operators, whose shapes are arguments: with constant arguments they are the static ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from . import ast
from .operator import OPERATORS, Application
from .values import Tensor, Value

# Operator -> the attribute that each argument behind the first ``data`` arguments becomes.
_ARGUMENTS: dict[str, tuple[int, tuple[str, ...]]] = {
    "reshape": (1, ("newshape",)),
    "squeeze": (1, ("axis",)),
    "tile": (1, ("reps",)),
    "broadcast_to": (1, ("shape",)),
    "full": (1, ("shape",)),
    "zeros": (0, ("shape",)),
    "ones": (0, ("shape",)),
    "topk": (1, ("k",)),
    "one_hot": (3, ("depth",)),
    "expand_dims": (1, ("axis",)),
    "strided_slice": (1, ("begin", "end", "strides")),
    "image.resize2d": (1, ("size",)),
    "nn.upsampling": (1, ("scale_h", "scale_w")),
}
_SCALARS = ("k", "depth", "scale_h", "scale_w")


def _translation(name: str) -> Callable[[Application], Value]:
    count, keys = _ARGUMENTS[name]

    def translate(app: Application) -> Value:
        app.expect_args(count + 1, count + len(keys) + 1)
        attrs = {key: _attribute(app, count + index, key) for index, key in enumerate(keys[: len(app.args) - count])}
        return OPERATORS[name](app.changed(app.args[:count], attrs, name))

    return translate


def _attribute(app: Application, index: int, key: str) -> ast.Attribute:
    array = _known(app, index)
    values: list[ast.Attribute] = [value.item() for value in array.reshape(-1)]
    if key not in _SCALARS and not (key == "axis" and app.name == "dyn.expand_dims"):
        return values
    if len(values) != 1:
        raise app.fail(f"argument {index + 1} has {len(values)} elements where one should be")
    return values[0]


def _known(app: Application, index: int) -> np.ndarray:
    value = app.tensor(index)
    if isinstance(value, Tensor):
        raise app.fail(
            f"argument {index + 1} is computed by the model, so the shape of the result is not known",
            why="memory is planned when code is generated",
            hint="save the module with static shapes (relay.transform.DynamicToStatic)",
        )
    return app.constant(index)


def _pad(app: Application) -> Value:
    app.expect_args(2, 3)
    widths = _known(app, 1)
    pairs: list[ast.Attribute] = [[int(value) for value in pair] for pair in widths.reshape(-1, 2)]
    return OPERATORS["nn.pad"](app.changed([app.args[0], *app.args[2:]], {"pad_width": pairs}, "nn.pad"))


OPERATORS.update({f"dyn.{name}": _translation(name) for name in _ARGUMENTS})
OPERATORS["dyn.nn.pad"] = _pad
