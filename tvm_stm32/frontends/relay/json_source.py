"""A Relay JSON file as a source: places in it are node indices."""

from __future__ import annotations

import json

from ...errors import ModelError
from . import ast
from .json_graph import NodeGraph, parse_document
from .source import Source


class JsonGraph(NodeGraph):
    """The nodes of a file; references are to nodes themselves."""

    def fail(self, message: str, node: int | None = None, *, why: str = "") -> ModelError:
        """An error that names file and node."""
        return ModelError(f"{self.file}: {'' if node is None else self.where(node) + ': '}{message}", why=why)

    def where(self, node: int) -> str:
        """A node in words: its index and what it is, ``node 17 (relay.Call nn.conv2d)``."""
        if not 0 <= node < len(self.nodes):
            return f"node {node}"
        return f"node {node} ({self._title(node)})"

    def _title(self, node: int) -> str:
        key = self.type_key(node) or "null"
        value = self.nodes[node]
        fields = value.get("attrs") if isinstance(value, dict) else None
        callee = fields.get("op") if isinstance(fields, dict) else None
        if isinstance(callee, str) and callee.isascii() and callee.isdigit() and len(callee) < 10:
            target = self.nodes[int(callee)] if int(callee) < len(self.nodes) else None
            if isinstance(target, dict) and isinstance(target.get("repr_str"), str):
                return f"{key} {target['repr_str'][:60]}"
        return key

    def referenced(self, reference: ast.Meta) -> int:
        """The node itself."""
        return self.index(reference.index, None, "attrs")


class JsonSource(Source):
    """The file; errors name it and the node, as nobody reads such a file by line."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(name, text)
        try:
            document = parse_document(text)
        except json.JSONDecodeError as error:
            raise super().error(error.pos, f"not a JSON file: {error.msg}") from error
        except ValueError as error:
            raise ModelError(
                f"{name}: not a Relay module in JSON", why=str(error), hint="write one with tvm.ir.save_json(mod)"
            ) from error
        self.graph = JsonGraph(name, document)
        self.root = self.graph.index(document.get("root"), None, "root")

    def where(self, offset: int) -> str:
        """A place in words."""
        return self.graph.where(offset)

    def error(
        self, offset: int, message: str, *, why: str = "", hint: str = "", kind: type[ModelError] = ModelError
    ) -> ModelError:
        """An error about node ``offset``."""
        return kind(f"{self.name}: {self.graph.where(offset)}: {message}", why=why, hint=hint)
