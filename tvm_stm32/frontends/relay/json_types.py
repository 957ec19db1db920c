"""Types of a Relay JSON graph -> the types of :mod:`.ast`."""

from __future__ import annotations

from . import ast
from .json_graph import NodeGraph

_MAX_DEPTH = 32
_MAX_FIELDS = 4096
_OTHERS = {
    "FuncType": "function",
    "RefType": "reference",
    "relay.RefType": "reference",
    "TypeCall": "data type",
    "TypeVar": "type variable",
    "IncompleteType": "incomplete type",
}


def read_type(graph: NodeGraph, node: int, at: int) -> ast.Type | None:
    """The type of a node, ``None`` for the null object; ``at`` is the node errors and messages are about."""
    return _TypeReader(graph, at).read(node, 0)


class _TypeReader:
    def __init__(self, graph: NodeGraph, at: int) -> None:
        self._graph = graph
        self._at = at
        self._fields = 0

    def read(self, node: int, depth: int) -> ast.Type | None:
        key = self._graph.type_key(node)
        if depth > _MAX_DEPTH:
            raise self._graph.fail(f"tuple types nest more than {_MAX_DEPTH} levels deep", node)
        if key == "":
            return None
        if key in ("relay.TensorType", "TensorType"):
            return self._tensor(node)
        if key in ("TupleType", "relay.TupleType"):
            fields = self._graph.elements(self._graph.reference(node, "fields"))
            self._fields += len(fields)
            if self._fields > _MAX_FIELDS:
                raise self._graph.fail(f"the type has more than {_MAX_FIELDS} fields", node)
            types = [self.read(field, depth + 1) for field in fields]
            return ast.TupleType(tuple(type_ or ast.OtherType("no type", self._at) for type_ in types), self._at)
        return ast.OtherType(_OTHERS.get(key.removeprefix("relay."), f"a {key}"), self._at)

    def _tensor(self, node: int) -> ast.TensorType:
        shape: list[int | ast.Meta | None] = []
        for extent in self._graph.elements(self._graph.reference(node, "shape")):
            key = self._graph.type_key(extent)
            if key in ("tir.Any", "Any"):
                shape.append(None)
            elif key == "IntImm":
                value = self._graph.value(extent)
                if not isinstance(value, int) or not 0 <= value < 1 << 31:
                    raise self._graph.fail(f"'value' {value} is no extent of a tensor", extent)
                shape.append(value)
            else:
                shape.append(ast.Meta("node", extent, self._at))
        dtype = self._graph.fields(node).get("dtype")
        if not isinstance(dtype, str) or not dtype:
            raise self._graph.fail("'dtype' is missing", node)
        return ast.TensorType(tuple(shape), dtype, self._at)
