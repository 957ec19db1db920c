"""Typed access to the attributes of one call: values printed in the text, or fields of an attribute object."""

from __future__ import annotations

import math
from collections.abc import Mapping

from . import ast
from .json_graph import NodeGraph
from .source import Source


class Attributes:
    """The attributes of a call of ``operator`` at offset ``at``; an absent one has the default its reader gives.

    Every reader raises ``ModelError`` when the value has another type than asked for.
    """

    def __init__(
        self, source: Source, metadata: NodeGraph, operator: str, at: int, values: Mapping[str, ast.Attribute]
    ) -> None:
        self._source = source
        self._metadata = metadata
        self._operator = operator
        self._at = at
        self._values = values

    def _get(self, key: str, default: ast.Attribute, kind: type) -> ast.Attribute:
        if key not in self._values:
            return default
        value = self._values[key]
        if isinstance(value, ast.Field):
            return self._field(value.text, kind)
        if isinstance(value, ast.Meta):
            return self._metadata.resolve(value)
        return value

    def _field(self, text: str, kind: type) -> ast.Attribute:
        try:
            if kind is bool:
                return bool(int(text[:3]))
            if kind is int:
                return int(text[:21])
            if kind is float:
                return float(text)
        except ValueError:
            return text
        return self._metadata.text_or_string(text) if kind is str else self._metadata.value(text)

    def _wrong(self, key: str, value: object, wanted: str) -> Exception:
        return self._source.error(self._at, f"{self._operator}: attribute {key}={value!s:.40} is not {wanted}")

    def with_values(self, values: Mapping[str, ast.Attribute]) -> Attributes:
        """These attributes with others on top."""
        return Attributes(self._source, self._metadata, self._operator, self._at, {**self._values, **values})

    def has(self, key: str) -> bool:
        """Whether the attribute was written."""
        return key in self._values

    def is_list(self, key: str) -> bool:
        """Whether the value is a list, for attributes that may also be a single integer."""
        return isinstance(self._get(key, None, object), list)

    def integer(self, key: str, default: int | None = None) -> int:
        """An integer; without ``default`` it must be there."""
        value = self._get(key, default, int)
        if not isinstance(value, int) or not -(1 << 31) <= value < 1 << 31:
            raise self._wrong(key, value, "an integer")
        return int(value)

    def optional_integer(self, key: str) -> int | None:
        """An integer object that may be ``None`` or absent."""
        value = self._get(key, None, object)
        if value is not None and (not isinstance(value, int) or not -(1 << 31) <= value < 1 << 31):
            raise self._wrong(key, value, "an integer or None")
        return None if value is None else int(value)

    def flag(self, key: str, default: bool) -> bool:
        """``True``/``False`` (0 and 1 are accepted)."""
        value = self._get(key, default, bool)
        if not isinstance(value, int):
            raise self._wrong(key, value, "a bool")
        return value != 0

    def real(self, key: str, default: float | None = None) -> float:
        """A finite or infinite real, never NaN."""
        value = self._get(key, default, float)
        if not isinstance(value, int | float) or math.isnan(value):
            raise self._wrong(key, value, "a number")
        return float(value)

    def text(self, key: str, default: str) -> str:
        """A string."""
        value = self._get(key, default, str)
        if not isinstance(value, str):
            raise self._wrong(key, value, "a string")
        return value

    def integers(self, key: str, default: list[int] | None = None) -> list[int]:
        """A list of integers; a single one counts as a list. Without ``default`` it must be there."""
        values = self.optional_integers(key, default)
        if values is None:
            raise self._wrong(key, None, "a list of integers")
        return values

    def optional_integers(self, key: str, default: list[int] | None = None) -> list[int] | None:
        """A list of integers, or ``None``."""
        value = self._get(key, list(default) if default is not None else None, object)
        if value is None:
            return None
        items = value if isinstance(value, list) else [value]
        numbers = [item for item in items if isinstance(item, int) and -(1 << 31) <= item < 1 << 31]
        if len(numbers) != len(items) or len(items) > 1 << 16:
            raise self._wrong(key, value, "a list of integers")
        return numbers

    def reals(self, key: str) -> list[float]:
        """A list of numbers; absent or ``None`` is empty."""
        value = self._get(key, None, object)
        items = value if isinstance(value, list) else [] if value is None else [value]
        numbers = [float(item) for item in items if isinstance(item, int | float) and math.isfinite(item)]
        if len(numbers) != len(items):
            raise self._wrong(key, value, "a list of numbers")
        return numbers

    def pairs(self, key: str) -> list[tuple[int, int]]:
        """A list of pairs of integers (padding before and after each axis)."""
        value = self._get(key, None, object)
        pairs = []
        for item in value if isinstance(value, list) else []:
            if isinstance(item, list) and len(item) == 2 and all(isinstance(number, int) for number in item):
                pairs.append((int(str(item[0])), int(str(item[1]))))
        if not isinstance(value, list) or len(pairs) != len(value):
            raise self._wrong(key, value, "a list of pairs of integers")
        return pairs
