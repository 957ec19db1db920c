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

from ..errors import ModelError, quoted
from .limits import LARGEST_TENSOR

OPSET = "tvm_stm32_opset"
"""Attribute of a node that is to be read by the rules of another opset than the model's."""

WRITTEN_IN = 18
"""Opset of the nodes that rewriters write."""

# Not computed here: what they do to weights is what the integer rewrites look for.
_KEPT = frozenset({"QuantizeLinear", "DequantizeLinear"})
_NOT_PURE = frozenset({"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli"})
_NOT_PURE_EITHER = frozenset({"Multinomial", "Dropout", "BatchNormalization", "If", "Loop", "Scan", "SequenceMap"})
_SHAPED_BY_VALUES = frozenset({"Constant", "NonZero", "Compress", "Unique", "MelWeightMatrix", "OneHot", "Range"})
# The reference takes Python's time for each element of a window or step, however small the tensors are.
_SLOW = frozenset(
    {"Conv", "ConvInteger", "ConvTranspose", "QLinearConv", "DeformConv", "MaxPool", "AveragePool", "LpPool"}
    | {"MaxUnpool", "MaxRoiPool", "RoiAlign", "GridSample", "AffineGrid", "Resize", "Upsample", "LRN", "Col2Im", "DFT"}
    | {"STFT", "RNN", "GRU", "LSTM", "NonMaxSuppression", "Det", "TfIdfVectorizer", "ImageDecoder"}
)
_KNOWN_ELEMENTS = 4096  # of constants shown to shape inference
_FOLDED_BYTES = 16 << 20

MOST_OPERATORS = 20_000
"""Operators of a model whose functions, loops and recurrent operators are written out; each is compiled."""

MOST_COMPUTED = 256 << 20
"""Bytes of all constants together that are computed from a model's own."""

LARGEST_TABLE = 4 << 20
"""Elements of a table that stands for an operator, such as the factors of a Fourier transform."""

MOST_PLACES = 1 << 20
"""Elements of a table that is filled one by one, such as the places that windows cover."""

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
        self._operators = 0
        self._computed: set[str] = set()  # left to the importer, which computes them from constants
        self._computed_bytes = 0

    def constant(self, name: str, array: np.ndarray) -> str:
        """Make a constant known under a name."""
        self._count_bytes(array.nbytes)
        return self.given(name, array)

    def given(self, name: str, array: np.ndarray) -> str:
        """Like :meth:`constant`, for one that the file holds."""
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
        """Take a node: compute it, rewrite it, or keep it. Raises :class:`ModelError` for a model grown too large."""
        self._operators += 1
        if self._operators > MOST_OPERATORS:
            raise ModelError(
                f"node {quoted(self.label)} takes the model past {MOST_OPERATORS:,} operators",
                why="functions, loops and recurrent operators are written out, and each operator is compiled",
                hint="fewer steps, or fewer calls",
            )
        _drop_trailing_gaps(node)
        opset = opset_of(node, self.opsets)
        inferred = self._infer(node, opset)
        self._check_sizes(node, inferred)
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

    def _count_bytes(self, size: int) -> None:
        self._computed_bytes += size
        if self._computed_bytes > MOST_COMPUTED:
            raise ModelError(
                f"node {quoted(self.label)} takes the constants computed from the model's own past "
                f"{MOST_COMPUTED:,} bytes",
                why="no Cortex-M has memory for them",
            )

    def _check_sizes(self, node: onnx.NodeProto, inferred: Mapping[str, onnx.TypeProto]) -> None:
        """Refuse results that no chip holds, before anything spends memory on them."""
        made = 0
        for kind in inferred.values():
            extents = [dim.dim_value for dim in kind.tensor_type.shape.dim]
            size = math.prod(extents) * _width(kind.tensor_type.elem_type)
            if size > LARGEST_TENSOR and all(extent > 0 for extent in extents):
                raise too_large(self.label, extents)
            made += size
        check_made_by_values(self.label, node, self.values)
        if node.op_type in _KEPT or not node.input:
            return
        if all(not name or name in self.values or name in self._computed for name in node.input):
            self._computed.update(node.output)
            if made > _FOLDED_BYTES:
                self._count_bytes(made)

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
        if node.op_type in _KEPT | _SLOW | _NOT_PURE | _NOT_PURE_EITHER or node.domain not in ("", "ai.onnx"):
            return False
        if not all(not name or name in self.values for name in node.input):
            return False
        if node.op_type == "Identity" and self.values[node.input[0]].size > _KNOWN_ELEMENTS:
            return False  # a large constant stays one
        if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
            return False
        for kind in inferred.values():
            dims = kind.tensor_type.shape.dim
            extents = [dim.dim_value for dim in dims]
            if node.op_type not in _SHAPED_BY_VALUES and not all(dim.HasField("dim_value") for dim in dims):
                return False
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


def too_large(node: str, shape: Iterable[int]) -> ModelError:
    """The error for a node whose result no chip holds."""
    return ModelError(
        f"node {quoted(node)} makes a tensor of shape {list(shape)}",
        why=f"more than {LARGEST_TENSOR:,} bytes in one tensor are beyond any Cortex-M",
    )


def check_made_up(node: str, shape: list[int], largest: int = LARGEST_TENSOR) -> None:
    """Refuse a constant that an operator makes up out of its shape before memory is spent on it."""
    if any(extent < 0 for extent in shape):
        raise ModelError(f"node {quoted(node)} makes a tensor of no or endless length", why="its inputs are wrong")
    if math.prod(shape) > LARGEST_TENSOR:
        raise too_large(node, shape)
    if math.prod(shape) > largest:
        raise ModelError(
            f"node {quoted(node)} is too large: it takes a table of {math.prod(shape):,} elements",
            why=f"at most {largest:,} are supported",
            hint="smaller sizes",
        )


def check_made_by_values(label: str, node: onnx.NodeProto, values: Mapping[str, np.ndarray]) -> None:
    """Refuse the results whose size is known only from the values of the inputs."""
    known = [values.get(name) for name in node.input]
    numbers = [
        float(value.reshape(-1)[0]) for value in known if value is not None and value.dtype.kind in "iuf" and value.size
    ]
    if node.op_type == "OneHot" and len(known) > 1 and known[1] is not None and known[1].size:
        indices = known[0].size if known[0] is not None else 1
        check_made_up(label, [indices, int(known[1].reshape(-1)[0])])
    if node.op_type == "MelWeightMatrix" and len(numbers) == 5:
        check_made_up(label, [int(numbers[0]), int(numbers[1]) // 2 + 1], LARGEST_TABLE)
    if node.op_type == "Range" and len(numbers) == len(known) == 3:
        start, limit, delta = numbers
        steps = (limit - start) / delta if delta else math.inf
        check_made_up(label, [math.ceil(steps) if math.isfinite(steps) else -1] if steps > 0 else [0])
    for item in node.attribute:
        if item.HasField("sparse_tensor"):
            check_made_up(label, list(item.sparse_tensor.dims))


def _width(kind: int) -> int:
    try:
        return int(helper.tensor_dtype_to_np_dtype(kind).itemsize)
    except (KeyError, TypeError):
        return 1


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
