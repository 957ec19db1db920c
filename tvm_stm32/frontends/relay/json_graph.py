"""TVM's JSON node graph, as ``tvm.ir.save_json`` and the ``#[metadata]`` section of a text hold it.

Nodes refer to each other by index. They are decoded when asked for and everything in them is checked then, so a damaged
graph ends in an error that names the node.
"""

from __future__ import annotations

import base64
import binascii
import json
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ...errors import ModelError
from ...params import ndarray
from . import ast

_MAX_DEPTH = 16
_MAX_VALUES = 1 << 18
_STRINGS = ("runtime.String", "StringImm", "tir.StringImm")
# Fields that are objects although they hold one number; other single numbers of attributes stand in the node itself.
_NUMBER_OBJECTS = frozenset(
    ["batch_dims", "channels", "exclusive", "index_rank", "k", "lhs_end", "repeats", "rhs_end", "units"]
)
_AXIS_OBJECTS = ("Take", "Gather", "Repeat", "Stack", "Reverse", "Scanop", "ScatterElements", "Scatter", "Unique")


def parse_document(text: str) -> dict[str, Any]:
    """The JSON object of a node graph. Raises ``json.JSONDecodeError`` with a position, or ``ValueError``."""
    try:
        document = json.loads(text)
    except RecursionError as error:
        raise ValueError("lists and objects are nested too deep") from error
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object")
    if not isinstance(document.get("nodes"), list) or not isinstance(document.get("b64ndarrays", []), list):
        raise ValueError("it has no lists 'nodes' and 'b64ndarrays'")
    return document


def index_of(value: object) -> int | None:
    """A node index, given as an integer or as decimal text; ``None`` for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


class NodeGraph(ABC):
    """The nodes and arrays of one document; a subclass says where its errors point."""

    def __init__(self, file: str, document: dict[str, Any]) -> None:
        self.file = file
        self.nodes: list[Any] = document.get("nodes", [])
        self._blobs: list[Any] = document.get("b64ndarrays", [])
        self._arrays: dict[int, np.ndarray] = {}
        self._decoded = 0

    @abstractmethod
    def fail(self, message: str, node: int | None = None, *, why: str = "") -> ModelError:
        """An error about the graph, or about one of its nodes."""

    @abstractmethod
    def referenced(self, reference: ast.Meta) -> int:
        """Index of the node a reference means."""

    def index(self, value: object, owner: int | None, key: str) -> int:
        """The node index ``value``, which field ``key`` of node ``owner`` holds."""
        index = index_of(value)
        if index is None or index >= len(self.nodes):
            raise self.fail(f"'{key}' refers to node {str(value)[:40]!r}, which is not there", owner)
        if not isinstance(self.nodes[index], dict):
            raise self.fail("the node is no JSON object", index)
        return index

    def type_key(self, index: int) -> str:
        """The type key of a node, ``""`` for the null object."""
        node = self.nodes[index]
        return str(node.get("type_key", "")) if isinstance(node, dict) else ""

    def fields(self, index: int) -> dict[str, Any]:
        """The members of a node by name, all of them text."""
        fields = self.nodes[index].get("attrs", {})
        if not isinstance(fields, dict):
            raise self.fail("'attrs' is no JSON object", index)
        return fields

    def reference(self, index: int, key: str) -> int:
        """The node that field ``key`` of a node refers to; 0, the null object, when the field is absent."""
        return self.index(self.fields(index).get(key, 0), index, key)

    def elements(self, index: int) -> list[int]:
        """Indices of the elements of an ``Array`` node; the null object has none."""
        data = self.nodes[index].get("data", [])
        if self.type_key(index) not in ("Array", "") or not isinstance(data, list):
            raise self.fail("an Array should be here", index)
        return [self.index(item, index, "data") for item in data]

    def string_map(self, index: int) -> dict[str, int]:
        """A ``Map`` with string keys; the null object is empty."""
        node = self.nodes[index]
        keys, values = node.get("keys", []), node.get("data", [])
        if self.type_key(index) not in ("Map", "StrMap", "") or not isinstance(keys, list):
            raise self.fail("a Map with string keys should be here", index)
        if not isinstance(values, list) or len(keys) != len(values):
            raise self.fail("'keys' and 'data' do not go together", index)
        return {str(key): self.index(value, index, "data") for key, value in zip(keys, values, strict=True)}

    def string(self, index: int) -> str:
        """The text of a string node."""
        node = self.nodes[index]
        if "repr_b64" not in node:
            return str(node.get("repr_str", self.fields(index).get("value", "")))
        try:
            return base64.b64decode(str(node["repr_b64"]), validate=True)[8:].decode("utf-8")
        except (binascii.Error, ValueError) as error:
            raise self.fail("'repr_b64' is no base64 of UTF-8", index) from error

    def text_or_string(self, text: str) -> str:
        """A string field: the index of a String node, or (before 0.7) the text itself."""
        index = index_of(text)
        if index is not None and index < len(self.nodes) and isinstance(self.nodes[index], dict):
            return self.string(index) if self.type_key(index) in _STRINGS else text
        return text

    def constant(self, reference: ast.Meta) -> np.ndarray | None:
        """The array of a ``relay.Constant``; ``None`` when the reference is to something else."""
        node = self.referenced(reference)
        if self.type_key(node) not in ("relay.Constant", "Constant"):
            return None
        number = index_of(self.fields(node).get("data"))
        if number is None or number >= len(self._blobs) or not isinstance(self._blobs[number], str):
            raise self.fail("'data' names an array that 'b64ndarrays' lacks", node)
        if number not in self._arrays:
            self._arrays[number] = self._array(self._blobs[number], number, node)
        return self._arrays[number]

    def _array(self, blob: str, number: int, node: int) -> np.ndarray:
        try:
            data = base64.b64decode(blob, validate=True)
        except (binascii.Error, ValueError) as error:
            raise self.fail(f"array {number} of 'b64ndarrays' is no base64", node) from error
        array, end = ndarray.read(memoryview(data), 0, f"{self.file}: array {number} of 'b64ndarrays'")
        if end != len(data):
            raise self.fail(f"array {number} of 'b64ndarrays' has bytes behind its data", node)
        return array

    def attributes(self, reference: ast.Meta) -> dict[str, ast.Attribute] | None:
        """The fields of an attribute object, or ``None`` when the reference is to something else."""
        node = self.referenced(reference)
        key = self.type_key(node)
        if key == "DictAttrs":
            entries = self.string_map(self.reference(node, "__dict__"))
            return {name: self.value(value) for name, value in entries.items()}
        if not key.startswith("relay.attrs."):
            return None
        axis_object = key.removeprefix("relay.attrs.").removesuffix("Attrs") in _AXIS_OBJECTS
        result: dict[str, ast.Attribute] = {}
        for name, text in self.fields(node).items():
            if name in _NUMBER_OBJECTS or (name == "axis" and axis_object):
                result[str(name)] = self.value(self.index(text, node, str(name)))
            else:
                result[str(name)] = ast.Field(str(text), reference.at)
        return result

    def resolve(self, reference: ast.Meta) -> ast.Attribute:
        """The plain value (number, string, list, ``None``) of a referenced object."""
        return self.value(self.referenced(reference))

    def value(self, index: object) -> ast.Attribute:
        """The plain value of node ``index`` (an int or its decimal text)."""
        return self._value(self.index(index, None, "attrs"), 0)

    def _value(self, index: int, depth: int) -> ast.Attribute:
        key = self.type_key(index)
        # Nodes are shared, so a short graph can stand for an endless list.
        self._decoded += 1
        if self._decoded > _MAX_VALUES:
            raise self.fail(f"the graph expands to more than {_MAX_VALUES} values", index)
        if depth > _MAX_DEPTH:
            raise self.fail(f"arrays are nested more than {_MAX_DEPTH} levels deep", index)
        if key == "":
            return None
        if key == "Array":
            return [self._value(item, depth + 1) for item in self.elements(index)]
        if key in _STRINGS:
            return self.string(index)
        text = str(self.fields(index).get("value"))
        try:
            if key == "IntImm":
                return int(text[:21])
            if key == "FloatImm":
                return float(text[:40])
        except ValueError as error:
            raise self.fail(f"'value' is {text[:40]!r}", index) from error
        raise self.fail("a plain value should be here", index)
