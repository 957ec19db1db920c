"""The ``#[metadata]`` section of a text: constants and attribute objects the text refers to."""

from __future__ import annotations

import json
from typing import Any

from ...errors import ModelError
from . import ast
from .json_graph import NodeGraph, parse_document
from .source import Source


class Metadata(NodeGraph):
    """Objects by type key and index. Nodes are decoded when asked for, arrays once."""

    def __init__(self, source: Source, start: int) -> None:
        """Parse the JSON document from offset ``start`` to the end of the text (``-1``: there is none)."""
        self._source = source
        self._at = max(start, 0)
        self._present = start >= 0
        document = self._parse() if self._present else {}
        super().__init__(source.name, document)
        self._roots = self._load(document) if self._present else {}

    def _parse(self) -> dict[str, Any]:
        try:
            return parse_document(self._source.text[self._at :])
        except json.JSONDecodeError as error:
            raise self._source.error(self._at + error.pos, f"the metadata section is no JSON: {error.msg}") from error
        except ValueError as error:
            raise self._source.error(self._at, "the metadata section cannot be read", why=str(error)) from error

    def _load(self, document: dict[str, Any]) -> dict[str, list[int]]:
        root = self.index(document.get("root"), None, "root")
        if self.type_key(root) != "Map":
            raise self.fail("the root is no map of type keys")
        return {key: self.elements(value) for key, value in self.string_map(root).items()}

    def fail(self, message: str, node: int | None = None, *, why: str = "") -> ModelError:
        """An error that points at the start of the section."""
        where = "the metadata section"
        if node is not None:
            where = f"node {node} ({self.type_key(node) or 'null'}) of {where}"
        return self._source.error(self._at, f"{where}: {message}", why=why)

    def referenced(self, reference: ast.Meta) -> int:
        """Index of the node ``meta[key][index]`` means."""
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
        return entries[reference.index]
