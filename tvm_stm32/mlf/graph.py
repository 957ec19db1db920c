"""``graph.json`` of the graph executor, checked: nodes in order, and what is known of each tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import ModelError, quoted
from ..library.ctypes import CTYPES
from .fields import Fields, is_integer

MOST_NODES = 1 << 16
MOST_TENSORS = 1 << 17
MOST_DIMENSIONS = 16
LARGEST_TENSOR = 64 << 20
"""Bytes; beyond the memories a Cortex-M has."""


@dataclass(frozen=True)
class Entry:
    """A tensor: its shape and element type, and the storage the archive's planner gave it."""

    shape: tuple[int, ...]
    dtype: str
    storage: int


@dataclass(frozen=True)
class Node:
    """An input or parameter (``function`` is ""), or a call. Tensors are numbers of entries."""

    name: str
    function: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Graph:
    """Nodes in execution order, the tensors by number, the numbers of what is handed in and out."""

    nodes: list[Node]
    entries: list[Entry]
    arguments: list[int]
    heads: list[int]

    def name(self, entry: int) -> str:
        """Name of the node that makes a tensor."""
        return next(node.name for node in self.nodes if entry in node.outputs)


def read_graph(fields: Fields) -> Graph:
    """The graph of a JSON document. Raises :class:`ModelError` naming the key or node that is wrong."""
    rows = fields.list("nodes")
    if not 0 < len(rows) <= MOST_NODES:
        raise ModelError(f"{fields.where} has {len(rows)} nodes", why=f"a network has 1 to {MOST_NODES}")
    nodes: list[Node] = []
    count = 0
    for index, row in enumerate(rows):
        node = _node(Fields(f"{fields.where}: node {index}", row), nodes, count)
        nodes.append(node)
        count += len(node.outputs)
        if count > MOST_TENSORS:
            raise ModelError(f"{fields.where} has more than {MOST_TENSORS} tensors")
    entries = _entries(fields, count)
    arguments = []
    for value in fields.list("arg_nodes"):
        if not is_integer(value) or not 0 <= value < len(nodes) or nodes[value].function:
            raise ModelError(f"{fields.where}: 'arg_nodes' names node {value!r}, which is no input")
        arguments.append(nodes[value].outputs[0])
    for node in nodes:
        if not node.function and node.outputs[0] not in arguments:
            raise ModelError(f"{fields.where}: node {quoted(node.name)} is neither an operator nor in 'arg_nodes'")
    if len(set(arguments)) != len(arguments):
        raise ModelError(f"{fields.where}: 'arg_nodes' names a node twice")
    heads = [_reference(fields.where, "heads", value, nodes) for value in fields.list("heads")]
    if not heads:
        raise ModelError(f"{fields.where} has no outputs", why="'heads' is empty")
    return Graph(nodes, entries, arguments, heads)


def _node(fields: Fields, before: list[Node], count: int) -> Node:
    kind, name = fields.text("op"), fields.text("name")
    if kind == "null":
        return Node(name, "", (), (count,))
    if kind != "tvm_op":
        raise ModelError(f"{fields.where} {quoted(name)} is of kind {quoted(kind)}", why="null and tvm_op are known")
    attributes = fields.object("attrs")
    function = attributes.text("func_name")
    outputs = attributes.value.get("num_outputs", "1")
    if not isinstance(outputs, str) or not outputs.isdecimal() or not 0 < int(outputs[:9]) <= 1024 or not function:
        raise ModelError(f"{attributes.where}: 'num_outputs' is {outputs!r}, 'func_name' {quoted(function)}")
    inputs = tuple(_reference(fields.where, "inputs", value, before) for value in fields.list("inputs"))
    return Node(name, function, inputs, tuple(range(count, count + int(outputs))))


def _reference(where: str, key: str, value: Any, nodes: list[Node]) -> int:
    """The entry of ``[node, index, version]``; only nodes before may be meant, so there are no cycles."""
    if not isinstance(value, list) or len(value) not in (2, 3) or not all(is_integer(number) for number in value):
        raise ModelError(f"{where}: '{key}' has {value!r}, not [node, output, version]"[:300])
    node, index = value[:2]
    if not 0 <= node < len(nodes) or not 0 <= index < len(nodes[node].outputs):
        raise ModelError(
            f"{where}: '{key}' names output {index} of node {node}, which does not come before it",
            why="operators run in the order of the file, so each may use only what was made before",
            hint="the graph has a cycle or is damaged: export the archive again",
        )
    return nodes[node].outputs[index]


def _entries(fields: Fields, count: int) -> list[Entry]:
    attributes = fields.object("attrs")
    shapes = _attribute(attributes, "shape", count)
    dtypes = _attribute(attributes, "dltype", count)
    storages = _attribute(attributes, "storage_id", count) if "storage_id" in attributes else list(range(count))
    entries = []
    for number, (shape, dtype, storage) in enumerate(zip(shapes, dtypes, storages, strict=True)):
        where = f"{attributes.where}: tensor {number}"
        if not isinstance(dtype, str) or dtype not in CTYPES:
            raise ModelError(f"{where} has element type {dtype!r}", why="C has no such type, or no kernel for it")
        if not is_integer(storage) or storage < 0:
            raise ModelError(f"{where} has storage {storage!r}")
        entries.append(Entry(checked_shape(shape, where), dtype, storage))
    return entries


def checked_shape(shape: Any, where: str) -> tuple[int, ...]:
    """A shape that is fixed, not empty and not too large. Raises :class:`ModelError`."""
    if not isinstance(shape, list) or len(shape) > MOST_DIMENSIONS or not all(is_integer(extent) for extent in shape):
        raise ModelError(f"{where} has the shape {shape!r}"[:300], why="extents are whole numbers, at most 16 of them")
    size = 1
    for extent in shape:
        size *= extent
        if extent < 1 or size > LARGEST_TENSOR:
            raise ModelError(
                f"{where} has the shape {'x'.join(map(str, shape))}"[:300],
                why="a tensor has elements, and fits the memory of a Cortex-M",
                hint="export the model with fixed shapes",
            )
    return tuple(shape)


def _attribute(attributes: Fields, key: str, count: int) -> list[Any]:
    value = attributes.list(key)
    if len(value) != 2 or not isinstance(value[1], list):
        raise ModelError(f"{attributes.where}: '{key}' is no pair of kind and list")
    if len(value[1]) != count:
        raise ModelError(
            f"{attributes.where}: '{key}' has {len(value[1])} values, and the nodes have {count} outputs",
            hint="export the archive again",
        )
    return list(value[1])
