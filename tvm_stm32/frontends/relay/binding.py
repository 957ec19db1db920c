"""Which parameters of ``@main`` a parameter file gives values to.

The printer changes names: it prefixes ``v`` when the first character is no letter (``_param_1`` -> ``%v_param_1``) and
appends a number on collision (``%x1``), so a parameter is not always found under its printed name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from ...errors import ModelError, quoted
from . import ast
from .source import Source


def bind(
    source: Source, parameters: tuple[ast.Parameter, ...], arrays: Mapping[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Values by printed parameter name, and the names of arrays nothing asks for.

    A parameter takes the array of its name; else of its name without the printer's ``v``; else without its collision
    number; else the only free array of its shape and dtype, when no other parameter could take that. Raises
    ``ModelError`` when an array of the right name has the wrong shape or dtype, or when no array is of use.
    """
    free = dict(arrays)
    bound: dict[str, np.ndarray] = {}
    for rule in (_same, _prefixed, _numbered):
        for parameter in parameters:
            name = rule(parameter.name, free) if parameter.name not in bound else ""
            if not name or (rule is _numbered and not _fits(parameter, free[name])):
                continue
            if not _fits(parameter, free[name]):
                raise source.error(
                    parameter.at,
                    f"parameter '{name}' of the parameter file does not fit %{parameter.name}",
                    why=f"it has shape {free[name].shape} and dtype {free[name].dtype}",
                )
            bound[parameter.name] = free.pop(name)
    _bind_unique(parameters, free, bound)
    if arrays and not bound:
        raise source.error(
            parameters[0].at if parameters else 0,
            "no array of the parameter file belongs to a parameter of @main",
            why="it holds " + ", ".join(quoted(name) for name in sorted(arrays)[:8]),
            hint="give the parameter file of this model, or none",
        )
    return bound, sorted(free)


def _same(name: str, free: Mapping[str, np.ndarray]) -> str:
    return name if name in free else ""


def _prefixed(name: str, free: Mapping[str, np.ndarray]) -> str:
    original = name[1:]
    return original if name.startswith("v") and original in free and not original[0].isalpha() else ""


def _numbered(name: str, free: Mapping[str, np.ndarray]) -> str:
    for candidate in (name, name[1:] if name.startswith("v") else name):
        stem = re.sub(r"[0-9]+\Z", "", candidate)
        if stem != candidate and stem in free:
            return stem
    return ""


def _key(array: np.ndarray) -> tuple[tuple[int, ...], str]:
    return tuple(array.shape), str(array.dtype)


def _fits(parameter: ast.Parameter, array: np.ndarray) -> bool:
    type_ = parameter.type
    return type_ is None or (isinstance(type_, ast.TensorType) and (type_.shape, type_.dtype) == _key(array))


def _bind_unique(
    parameters: tuple[ast.Parameter, ...], free: dict[str, np.ndarray], bound: dict[str, np.ndarray]
) -> None:
    wanted: dict[tuple[object, str], list[str]] = {}
    for parameter in parameters:
        if parameter.name not in bound and isinstance(parameter.type, ast.TensorType):
            wanted.setdefault((parameter.type.shape, parameter.type.dtype), []).append(parameter.name)
    offered: dict[tuple[object, str], list[str]] = {}
    for name, array in free.items():
        offered.setdefault(_key(array), []).append(name)
    for key, names in offered.items():
        takers = wanted.get(key, [])
        if len(names) == len(takers) == 1:
            bound[takers[0]] = free.pop(names[0])


def missing_error(source: Source, at: int, names: list[str], params_file: str) -> ModelError:
    """The error for weights of ``@main`` without a value."""
    shown = ", ".join(f"%{name}" for name in names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    given = f"the parameter file {params_file} does not hold them" if params_file else "no parameter file was given"
    return source.error(
        at,
        f"parameters without a value: {shown}",
        why=f"they are weights, and {given}",
        hint="pass the file written by relay.save_param_dict with --params",
    )
