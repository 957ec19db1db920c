"""Dataclasses as JSON documents and back, by the names and types of their fields.

A field that is added to a class comes along by itself: the JSON schema is made from the type hints, and an old document
without the field gives its default. Arrays are not part of a document: they go into a parameter file by the name of
what holds them. Floats are exact; those JSON has no number for are strings.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from ..errors import ModelError
from ..library.ctypes import CTYPES

_Class = TypeVar("_Class")
_NOT_FINITE = ("inf", "-inf", "nan")
_SIMPLE: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "minimum": -(1 << 63), "maximum": (1 << 63) - 1},
    float: {"type": ["number", "string"], "if": {"type": "string"}, "then": {"enum": list(_NOT_FINITE)}},
    np.ndarray: {
        "type": "object",
        "required": ["parameter", "dtype", "shape"],
        "additionalProperties": False,
        "properties": {
            "parameter": {"type": "string"},
            "dtype": {"enum": list(CTYPES)},
            "shape": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 1 << 31}},
        },
    },
}
_SEQUENCES = (list, tuple, set, frozenset)

Rules = Mapping[tuple[type, str], Mapping[str, Any]]
"""Further JSON schema keywords of a class's field."""


def schema(kind: Any, rules: Rules) -> dict[str, Any]:
    """The JSON schema of a type's documents. Raises ``TypeError`` for a type documents cannot hold."""
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [{"type": "null"} if part is type(None) else schema(part, rules) for part in arguments]}
    if origin in _SEQUENCES:
        return {"type": "array", "items": schema(arguments[0], rules)}
    if origin is dict and arguments[0] is str:
        return {"type": "object", "additionalProperties": schema(arguments[1], rules)}
    if not dataclasses.is_dataclass(kind):
        raise TypeError(f"no document can hold a {kind}")
    fields = dataclasses.fields(kind)
    described = typing.cast(type, kind)
    hints = _hints(described)
    properties = {name: {**schema(hint, rules), **rules.get((described, name), {})} for name, hint in hints.items()}
    required = [
        field.name
        for field in fields
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def to_document(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The document of a value; its arrays are added to ``arrays``."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {}
        for field in dataclasses.fields(value):
            part = getattr(value, field.name)
            if isinstance(part, np.ndarray):
                name = value.name  # type: ignore[attr-defined] # only constants hold arrays
                arrays[name] = part
                fields[field.name] = {"parameter": name, "dtype": str(part.dtype), "shape": list(part.shape)}
            else:
                fields[field.name] = to_document(part, arrays)
        return fields
    if isinstance(value, dict):
        return {key: to_document(part, arrays) for key, part in value.items()}
    if isinstance(value, (set, frozenset)):
        value = sorted(value)
    if isinstance(value, (list, tuple)):
        return [to_document(part, arrays) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def from_document(kind: type[_Class], document: Any, arrays: Mapping[str, np.ndarray]) -> _Class:
    """The value of a document its :func:`schema` has accepted.

    Raises :class:`ModelError` for arrays that are absent or of another shape, and for text that cannot be written.
    """
    return typing.cast(_Class, _value(kind, document, arrays))


def _value(kind: Any, document: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if kind in _SIMPLE:
        return _array(document, arrays) if kind is np.ndarray else _simple(kind, document)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return document
    if origin in (typing.Union, types.UnionType):
        inner = [part for part in arguments if part is not type(None)]
        return None if document is None else _value(inner[0], document, arrays)
    if origin in _SEQUENCES:
        parts = (_value(arguments[0], part, arrays) for part in document)
        return origin(map(float, parts) if arguments[0] is float else parts)
    if origin is dict:
        return {_simple(str, key): _value(arguments[1], part, arrays) for key, part in document.items()}
    hints = _hints(kind)
    return kind(**{name: _value(hints[name], part, arrays) for name, part in document.items()})


def _simple(kind: type, document: Any) -> Any:
    if kind is str:
        try:
            document.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise ModelError(f"the name {document[:40]!r} is no text", why=error.reason) from error
    if kind is int:
        return int(document)
    if kind is float:
        # A whole number stays one: reports show 5 and 5.0 as they are.
        value = float(document) if isinstance(document, str) else document
        if not isinstance(document, str) and not _is_finite(value):
            raise ModelError("a number of the document is too large")
        return value
    return document


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _array(document: Any, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    name, dtype, shape = document["parameter"], document["dtype"], tuple(int(extent) for extent in document["shape"])
    array = arrays.get(name)
    if array is None:
        raise ModelError(f"the constant {name[:60]!r} is not among the parameters")
    if str(array.dtype) != dtype or array.shape != shape:
        raise ModelError(
            f"the constant {name[:60]!r} is {dtype} {shape} in the metadata and {array.dtype} {array.shape} among the "
            "parameters"
        )
    return np.ascontiguousarray(array).reshape(shape)


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)
