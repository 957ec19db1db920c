"""An ONNX graph while it is simplified: what is known of each value, and the nodes that remain.

A :class:`Graph` takes nodes in order. It infers each one's types, computes what depends on constants alone, and hands
nodes the importer does not take to a rewriter, whose nodes come back the same way.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .limits import LARGEST_TENSOR

OPSET = "tvm_stm32_opset"
"""Attribute of a node that is to be read by the rules of another opset than the model's."""

WRITTEN_IN = 18
"""Opset of the nodes that rewriters write."""

# Not computed here: what they do to weights is what the integer rewrites look for.
_KEPT = frozenset({"QuantizeLinear", "DequantizeLinear"})
_NOT_PURE = frozenset({"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli"})
_NOT_PURE_EITHER = frozenset({"Multinomial", "Dropout", "BatchNormalization", "If", "Loop", "Scan", "SequenceMap"})
_SHAPED_BY_VALUES = frozenset({"Constant", "NonZero", "Compress", "Unique", "MelWeightMatrix"})
_KNOWN_ELEMENTS = 4096  # of constants shown to shape inference
_FOLDED_BYTES = 16 << 20

Operand = str | np.ndarray | int | float | list[int]
Rewriter = Callable[["Graph", onnx.NodeProto], bool]


class Graph:
    """Nodes that remain (``nodes``), constants (``values``) and types (``types``) by name."""

    def __init__(self, opsets: Mapping[str, int], rewrite: Rewriter) -> None:
        self.opsets = dict(opsets)
        self.nodes: list[onnx.NodeProto] = []
        self.values: dict[str, np.ndarray] = {}
        self.types: dict[str, onnx.TypeProto] = {}
        self.label = ""  # of the user's node that is being rewritten
        self._rewrite = rewrite
        self._taken: set[str] = set()
        self._number = 0

    def constant(self, name: str, array: np.ndarray) -> str:
        """Make a constant known under a name."""
        self.values[name] = array
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.types[name] = helper.make_tensor_type_proto(kind, array.shape)
        self._taken.add(name)
        return name

    def reserve(self, names: Iterable[str]) -> None:
        """Names that :meth:`fresh` must not make."""
        self._taken.update(names)

    def fresh(self, stem: str = "") -> str:
        """A name nothing bears yet."""
        while True:
            self._number += 1
            name = f"{self.label or 'value'}/{stem or 'value'}_{self._number}"
            if name not in self._taken:
                self._taken.add(name)
                return name

    def shape(self, name: str) -> list[int] | None:
        """The fixed shape of a value; None when it is not known."""
        kind = self.types.get(name)
        if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
            return None
        dims = kind.tensor_type.shape.dim
        return [dim.dim_value for dim in dims] if all(dim.HasField("dim_value") for dim in dims) else None

    def element(self, name: str) -> int:
        """Element type of a value as ONNX numbers it; 0 when it is not known."""
        kind = self.types.get(name)
        return int(kind.tensor_type.elem_type) if kind is not None else 0

    def add(self, node: onnx.NodeProto) -> None:
        """Take a node: compute it, rewrite it, or keep it."""
        _drop_trailing_gaps(node)
        opset = opset_of(node, self.opsets)
        inferred = self._infer(node, opset)
        if self._fold(node, opset, inferred) or self._without_elements(inferred, node):
            return
        for name, kind in inferred.items():
            if self.shape(name) is None:  # what control flow gives is only known once it is written out
                self.types[name] = kind
        if not self._rewrite(self, node):
            self.nodes.append(node)

    def emit(self, operator: str, *inputs: Operand, **attributes: Any) -> str:
        """Add a node (of opset :data:`WRITTEN_IN`) with one output; numbers and arrays become constants."""
        return self.emit_to([self.fresh(operator)], operator, *inputs, **attributes)[0]

    def emit_to(self, outputs: list[str], operator: str, *inputs: Operand, **attributes: Any) -> list[str]:
        """Like :meth:`emit`, into values of these names."""
        names = [item if isinstance(item, str) else self.number(item) for item in inputs]
        node = helper.make_node(operator, names, outputs, name=self.label, **attributes)
        node.attribute.append(helper.make_attribute(OPSET, WRITTEN_IN))
        self.add(node)
        return outputs

    def number(self, value: np.ndarray | int | float | list[int]) -> str:
        """A constant without a name of its own; integers are int64, floats float32."""
        array = np.asarray(value)
        if not isinstance(value, np.ndarray):
            array = array.astype(np.float32 if array.dtype.kind == "f" else np.int64)
        return self.constant(self.fresh("constant"), array)

    def _infer(self, node: onnx.NodeProto, opset: int) -> dict[str, onnx.TypeProto]:
        known = {name: self.types[name] for name in node.input if name in self.types}
        data = {
            name: numpy_helper.from_array(self.values[name], name)
            for name in node.input
            if name in self.values and self.values[name].size <= _KNOWN_ELEMENTS
        }
        try:
            schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
            imports = [helper.make_opsetid(domain, version) for domain, version in self.opsets.items()]
            imports = [entry for entry in imports if entry.domain != node.domain]
            imports.append(helper.make_opsetid(node.domain, opset))
            found = onnx.shape_inference.infer_node_outputs(schema, plain(node), known, data, None, imports)
        except Exception:  # what inference cannot do is not needed: the importer infers, too
            return {}
        return dict(found)

    def _fold(self, node: onnx.NodeProto, opset: int, inferred: Mapping[str, onnx.TypeProto]) -> bool:
        """Compute a node whose inputs are all known."""
        if node.op_type in ("Shape", "Size") and node.domain in ("", "ai.onnx"):
            return self._fold_shape(node)
        if node.op_type in _KEPT | _NOT_PURE | _NOT_PURE_EITHER or node.domain not in ("", "ai.onnx"):
            return False
        if not all(not name or name in self.values for name in node.input):
            return False
        if node.op_type == "Identity" and self.values[node.input[0]].size > _KNOWN_ELEMENTS:
            return False  # a large constant stays one
        if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
            return False
        for kind in inferred.values():
            extents = [dim.dim_value for dim in kind.tensor_type.shape.dim]
            if any(extent < 0 for extent in extents) or math.prod(extents) * 8 > min(_FOLDED_BYTES, LARGEST_TENSOR):
                return False
        if not inferred and node.op_type not in _SHAPED_BY_VALUES:
            return False
        results = evaluate(node, opset, self.values)
        if results is None:
            return False
        for name, array in zip(node.output, results, strict=False):
            if name:
                self.constant(name, array)
        return True

    def _without_elements(self, inferred: Mapping[str, onnx.TypeProto], node: onnx.NodeProto) -> bool:
        """Results that have no elements are known."""
        for name, kind in inferred.items():
            dims = kind.tensor_type.shape.dim
            fixed = kind.HasField("tensor_type") and all(dim.HasField("dim_value") for dim in dims)
            if fixed and any(dim.dim_value == 0 for dim in dims):
                extents = [dim.dim_value for dim in dims]
                self.constant(name, np.empty(extents, helper.tensor_dtype_to_np_dtype(kind.tensor_type.elem_type)))
        return bool(node.output) and all(not name or name in self.values for name in node.output)

    def _fold_shape(self, node: onnx.NodeProto) -> bool:
        shape = self.shape(node.input[0])
        if shape is None:
            return False
        if node.op_type == "Size":
            self.constant(node.output[0], np.asarray(math.prod(shape), np.int64))
            return True
        limits = {attribute.name: attribute.i for attribute in node.attribute}
        part = shape[limits.get("start", 0) : limits.get("end", len(shape))]
        self.constant(node.output[0], np.asarray(part, np.int64))
        return True


def evaluate(node: onnx.NodeProto, opset: int, values: Mapping[str, np.ndarray]) -> list[np.ndarray] | None:
    """Outputs of a node by ONNX's own reference; None when the reference cannot compute it."""
    from onnx.reference import ReferenceEvaluator

    feeds = {name: values[name] for name in node.input if name}
    try:
        types = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in feeds.items()}
        graph = helper.make_graph(
            [plain(node)],
            "node",
            [helper.make_tensor_value_info(name, types[name], feeds[name].shape) for name in feeds],
            [onnx.ValueInfoProto(name=name) for name in node.output if name],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, opset)])
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = iter(ReferenceEvaluator(model).run(None, feeds))
    except Exception:  # the reference raises whatever a malformed node leads to
        return None
    results = [np.asarray(next(found)) if name else np.empty(0) for name in node.output]
    return results if all(array.dtype.kind in "biufV" for array in results) else None


def plain(node: onnx.NodeProto) -> onnx.NodeProto:
    """The node without the project's own attribute."""
    if not any(attribute.name == OPSET for attribute in node.attribute):
        return node
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    kept = [attribute for attribute in node.attribute if attribute.name != OPSET]
    del copy.attribute[:]
    copy.attribute.extend(kept)
    return copy


def opset_of(node: onnx.NodeProto, opsets: Mapping[str, int]) -> int:
    """The opset version a node is written in."""
    for attribute in node.attribute:
        if attribute.name == OPSET:
            return int(attribute.i)
    return opsets.get(node.domain, opsets.get("", 1))


def attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    """An attribute's value, texts as ``str``."""
    for item in node.attribute:
        if item.name == name:
            value = helper.get_attribute_value(item)
            return value.decode() if isinstance(value, bytes) else value
    return default


def _drop_trailing_gaps(node: onnx.NodeProto) -> None:
    while node.input and not node.input[-1]:
        del node.input[-1]
