"""The JSON node graph of a ``#[metadata]`` section: constants and attribute objects the text refers to."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

import numpy as np

from . import ast, ndarray
from .source import Source

_MAX_DEPTH = 16
_MAX_VALUES = 1 << 18


class Metadata:
    """Objects by type key and index. Nodes are decoded when asked for, arrays once."""

    def __init__(self, source: Source, start: int) -> None:
        """Parse the JSON document from offset ``start`` to the end of the text (``-1``: there is none)."""
        self._source = source
        self._at = max(start, 0)
        self._present = start >= 0
        self._nodes: list[Any] = []
        self._blobs: list[Any] = []
        self._arrays: dict[int, np.ndarray] = {}
        self._roots: dict[str, list[int]] = {}
        self._decoded = 0
        if self._present:
            self._load()

    def _load(self) -> None:
        document = self._parse()
        nodes, blobs = document.get("nodes"), document.get("b64ndarrays", [])
        if not isinstance(nodes, list) or not isinstance(blobs, list):
            raise self._source.error(self._at, "the metadata section has no lists 'nodes' and 'b64ndarrays'")
        self._nodes, self._blobs = nodes, blobs
        root = self._node(document.get("root"))
        keys, values = root.get("keys", []), root.get("data", [])
        if root.get("type_key") != "Map" or not isinstance(keys, list) or not isinstance(values, list):
            raise self._source.error(self._at, "the root of the metadata section is no map of type keys")
        for key, value in zip(keys, values, strict=False):
            self._roots[str(key)] = self._elements(self._node(value))

    def _parse(self) -> dict[str, Any]:
        try:
            document = json.loads(self._source.text[self._at :])
        except json.JSONDecodeError as error:
            raise self._source.error(self._at + error.pos, f"the metadata section is no JSON: {error.msg}") from error
        except (ValueError, RecursionError) as error:
            raise self._source.error(self._at, "the metadata section cannot be read", why=str(error)) from error
        if not isinstance(document, dict):
            raise self._source.error(self._at, "the metadata section is no JSON object")
        return document

    def _node(self, index: Any) -> dict[str, Any]:
        if isinstance(index, str) and index.isascii() and index.isdigit() and len(index) < 10:
            index = int(index)
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(self._nodes):
            raise self._source.error(self._at, f"the metadata section refers to a node {str(index)[:40]!r} it lacks")
        node = self._nodes[index]
        if not isinstance(node, dict):
            raise self._source.error(self._at, f"node {index} of the metadata section is no object")
        return node

    def _elements(self, node: dict[str, Any]) -> list[int]:
        data = node.get("data", [])
        if node.get("type_key") != "Array" or not isinstance(data, list):
            raise self._source.error(self._at, f"the metadata section has a {node.get('type_key')!r} for an array")
        return data

    def _referenced(self, reference: ast.Meta) -> dict[str, Any]:
        shown = f"meta[{reference.key}][{reference.index}]"
        if not self._present:
            raise self._source.error(
                reference.at,
                f"{shown} cannot be resolved",
                why="the file has no #[metadata] section",
                hint="write the module with mod.astext(show_meta_data=True)",
            )
        entries = self._roots.get(reference.key, [])
        if reference.index >= len(entries):
            raise self._source.error(
                reference.at, f"{shown} cannot be resolved", why=f"the metadata section has {len(entries)} of them"
            )
        return self._node(entries[reference.index])

    def constant(self, reference: ast.Meta) -> np.ndarray | None:
        """The array of a ``relay.Constant``; ``None`` when the reference is to something else."""
        node = self._referenced(reference)
        if node.get("type_key") not in ("relay.Constant", "Constant"):
            return None
        index = self._fields(node).get("data", "")
        if not (isinstance(index, str) and index.isascii() and index.isdigit() and len(index) < 10):
            raise self._source.error(reference.at, "the metadata section holds a constant without data")
        return self._array(int(index), reference.at)

    def _array(self, index: int, at: int) -> np.ndarray:
        if index not in self._arrays:
            if index >= len(self._blobs) or not isinstance(self._blobs[index], str):
                raise self._source.error(at, f"the metadata section lacks array {index}")
            try:
                data = base64.b64decode(self._blobs[index], validate=True)
            except (binascii.Error, ValueError) as error:
                raise self._source.error(at, f"array {index} of the metadata section is no base64") from error
            where = f"{self._source.name}: array {index} of the metadata section"
            array, end = ndarray.read(memoryview(data), 0, where)
            if end != len(data):
                raise self._source.error(at, f"array {index} of the metadata section has bytes behind its data")
            self._arrays[index] = array
        return self._arrays[index]

    def attributes(self, reference: ast.Meta) -> dict[str, ast.Attribute] | None:
        """The fields of an attribute object, or ``None`` when the reference is to something else."""
        node = self._referenced(reference)
        key = str(node.get("type_key"))
        if key == "DictAttrs":
            return self._dictionary(self._fields(node).get("__dict__", "0"))
        if not key.startswith("relay.attrs."):
            return None
        return {str(name): ast.Field(str(text), reference.at) for name, text in self._fields(node).items()}

    def _dictionary(self, index: Any) -> dict[str, ast.Attribute]:
        node = self._node(index)
        keys, values = node.get("keys", []), node.get("data", [])
        if not isinstance(keys, list) or not isinstance(values, list):
            raise self._source.error(self._at, "the metadata section has a malformed map")
        return {str(key): self.value(value) for key, value in zip(keys, values, strict=False)}

    def _fields(self, node: dict[str, Any]) -> dict[str, Any]:
        fields = node.get("attrs", {})
        if not isinstance(fields, dict):
            raise self._source.error(self._at, "the metadata section has a node with malformed fields")
        return fields

    def resolve(self, reference: ast.Meta) -> ast.Attribute:
        """The plain value (number, string, list, ``None``) of a referenced object."""
        return self._value(self._referenced(reference), 0)

    def value(self, index: Any) -> ast.Attribute:
        """The plain value of node ``index`` (an int or its decimal text)."""
        return self._value(self._node(index), 0)

    def _value(self, node: dict[str, Any], depth: int) -> ast.Attribute:
        key = str(node.get("type_key", ""))
        fields = self._fields(node)
        # Nodes are shared, so a short graph can stand for an endless list.
        self._decoded += 1
        if self._decoded > _MAX_VALUES:
            raise self._source.error(self._at, f"the metadata section expands to more than {_MAX_VALUES} values")
        if depth > _MAX_DEPTH:
            raise self._source.error(self._at, f"the metadata section nests arrays more than {_MAX_DEPTH} levels deep")
        if key == "":
            return None
        if key == "Array":
            return [self._value(self._node(item), depth + 1) for item in self._elements(node)]
        if key in ("runtime.String", "StringImm", "tir.StringImm"):
            return self._string(node)
        try:
            if key == "IntImm":
                return int(str(fields.get("value"))[:21])
            if key == "FloatImm":
                return float(str(fields.get("value")))
        except ValueError as error:
            raise self._source.error(self._at, f"the metadata section has a malformed {key}") from error
        raise self._source.error(self._at, f"the metadata section has a {key} where a plain value should be")

    def _string(self, node: dict[str, Any]) -> str:
        if "repr_b64" not in node:
            return str(node.get("repr_str", self._fields(node).get("value", "")))
        try:
            data = base64.b64decode(str(node["repr_b64"]), validate=True)
            return data[8:].decode("utf-8")
        except (binascii.Error, ValueError) as error:
            raise self._source.error(self._at, "the metadata section has a malformed string") from error

    def text_or_string(self, text: str) -> str:
        """A string field: the index of a String node, or (before 0.7) the text itself."""
        if text.isascii() and text.isdigit() and len(text) < 10 and int(text) < len(self._nodes):
            node = self._nodes[int(text)]
            if isinstance(node, dict) and node.get("type_key") == "runtime.String":
                return self._string(node)
        return text
