"""Typed access to JSON of unknown origin: each getter names file and key when what it finds is of another kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import ModelError


class Fields:
    """A JSON object; ``where`` names the file and the object's place for errors."""

    def __init__(self, where: str, value: Any) -> None:
        if not isinstance(value, dict):
            raise ModelError(f"{where} is no object", why=f"it is {_kind(value)}", hint="export the archive again")
        self.where = where
        self.value: dict[str, Any] = value

    def __contains__(self, key: str) -> bool:
        return key in self.value

    def __iter__(self) -> Iterator[str]:
        return iter(self.value)

    def object(self, key: str) -> Fields:
        """The object under ``key``."""
        return Fields(f"{self.where}: '{key}'", self._get(key))

    def list(self, key: str) -> list[Any]:
        """The list under ``key``."""
        value = self._get(key)
        if not isinstance(value, list):
            raise self._wrong(key, value, "a list")
        return value

    def text(self, key: str) -> str:
        """The string under ``key``."""
        value = self._get(key)
        if not isinstance(value, str):
            raise self._wrong(key, value, "a string")
        return value

    def integer(self, key: str) -> int:
        """The whole number under ``key``."""
        value = self._get(key)
        if not is_integer(value):
            raise self._wrong(key, value, "a whole number")
        return int(value)

    def _get(self, key: str) -> Any:
        if key not in self.value:
            raise ModelError(f"{self.where} has no '{key}'", hint="export the archive again")
        return self.value[key]

    def _wrong(self, key: str, value: Any, expected: str) -> ModelError:
        return ModelError(f"{self.where}: '{key}' is {_kind(value)}, not {expected}", hint="export the archive again")


def is_integer(value: Any) -> bool:
    """A JSON number without a fraction (``true`` is none)."""
    return isinstance(value, int) and not isinstance(value, bool)


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
