"""A graph-executor module as a Library: its graph's calls in order, its parameters as constants."""

from __future__ import annotations

import re

import numpy as np

from ..errors import ModelError, quoted
from ..library import Argument, Call, Constant, Library, Tensor
from ..model import TensorInfo
from .adapters import Adapters, Operand
from .graph import Entry, Graph, Node
from .names import Names

NOP, COPY = "__nop", "__copy"


class GraphNetwork:
    """Fills ``library`` from a graph; ``storage`` is then the archive's storage of each tensor that has memory."""

    def __init__(self, library: Library, graph: Graph, params: dict[str, np.ndarray], adapters: Adapters) -> None:
        self._library = library
        self._graph = graph
        self._params = params
        self._adapters = adapters
        self._tensors: dict[int, str] = {}
        self._constants: dict[int, str] = {}
        self._names = Names()
        self._c_names = Names()
        self._where = library.provenance.file_name
        self.storage: dict[str, int] = {}

    def build(self) -> None:
        """Inputs, constants, calls and outputs. Raises :class:`ModelError`."""
        for node in self._graph.nodes:
            if not node.function:
                self._source(node)
        for entry in self._graph.arguments:
            if entry in self._tensors:
                name = self._graph.name(entry)
                self._library.inputs.append(self._info(name, entry))
                self._library.input_tensors.append(self._tensors[entry])
        for node in self._graph.nodes:
            if node.function == NOP:
                self._alias(node)
            elif node.function == COPY:
                self._copy_node(node)
            elif node.function:
                self._call(node)
        for number, entry in enumerate(self._graph.heads):
            self._output(entry, "output" if len(self._graph.heads) == 1 else f"output{number}")
        if not self._library.calls:
            raise ModelError(f"{self._where}: the graph computes nothing", hint="export the archive again")

    def _source(self, node: Node) -> None:
        entry = node.outputs[0]
        info = self._graph.entries[entry]
        linked = self._adapters.sources.constants.get(f"__tvm_param__{node.name}")
        value = self._params.get(node.name)
        if value is None and linked is not None and linked.dtype == np.dtype(info.dtype):
            value = linked.reshape(info.shape) if linked.size == int(np.prod(info.shape)) else linked
        if value is None:
            self._tensors[entry] = self._new_tensor(node.name, info)
            self.storage[self._tensors[entry]] = info.storage
            return
        if value.shape != info.shape or str(value.dtype) != info.dtype:
            raise ModelError(
                f"{self._where}: the parameter {quoted(node.name)} is {value.dtype} {value.shape}",
                why=f"the graph takes {info.dtype} {info.shape}",
                hint="export the archive again",
            )
        name = self._c_names.new_c(f"{self._library.name}_param", node.name)
        self._constants[entry] = name
        self._library.constants[name] = Constant(name, np.ascontiguousarray(value))

    def _call(self, node: Node) -> None:
        function = self._adapters.sources.functions.get(node.function)
        if function is None:
            raise ModelError(
                f"{self._where}: node {quoted(node.name)} calls {quoted(node.function)}, which is not in the C files",
                hint="the archive is incomplete, or has objects only: export it again with target 'c'",
            )
        used = re.findall(r"\(\(TVMValue\s*\*\)\s*args\)\[\(?(\d{1,6})\)?\]", function.body)
        if used and max(map(int, used)) >= len(node.inputs) + len(node.outputs):
            raise ModelError(
                f"{self._where}: node {quoted(node.name)} hands {len(node.inputs) + len(node.outputs)} tensors over",
                why=f"its function takes {1 + max(map(int, used))}",
                hint="export the archive again",
            )
        self._make_outputs(node)
        operands = [self._operand(entry, output=False) for entry in node.inputs]
        operands += [self._operand(entry, output=True) for entry in node.outputs]
        kernel = self._adapters.packed(node.function, operands)
        self._add(node, kernel, self._adapters.operator(node.function))
        if self._adapters.kernels[kernel].uses_float:
            self._library.float_operators.append(f"{self._library.calls[-1].operator} at '{node.name}'")

    def _copy_node(self, node: Node) -> None:
        self._make_outputs(node)
        size = self._library.tensors[self._tensors[node.outputs[0]]].size
        if len(node.inputs) != 1 or len(node.outputs) != 1 or self._size(node.inputs[0]) != size:
            raise ModelError(f"{self._where}: the copy {quoted(node.name)} is not of one tensor to one of its size")
        self._add(node, self._adapters.copy(size), "copy")

    def _add(self, node: Node, kernel: str, operator: str) -> None:
        arguments = [
            Argument("constant", self._constants[entry], "uint8_t")
            if entry in self._constants
            else Argument("tensor", self._tensors[entry], "uint8_t")
            for entry in (*node.inputs, *node.outputs)
        ]
        workspace = self._adapters.workspaces.bytes(node.function) if node.function in self._functions else 0
        if workspace:
            arguments.append(Argument("workspace", "", "uint8_t"))
        self._library.calls.append(
            Call(
                operator,
                node.name,
                kernel,
                tuple(arguments),
                tuple(self._tensors[entry] for entry in node.inputs if entry not in self._constants),
                tuple(self._tensors[entry] for entry in node.outputs),
                workspace=workspace,
            )
        )

    @property
    def _functions(self) -> set[str]:
        return set(self._adapters.sources.functions)

    def _alias(self, node: Node) -> None:
        if len(node.inputs) != 1 or len(node.outputs) != 1 or self._size(node.inputs[0]) != self._size(node.outputs[0]):
            raise ModelError(f"{self._where}: the reshape {quoted(node.name)} is not of one tensor to one of its size")
        source, target = node.inputs[0], node.outputs[0]
        if source in self._constants:
            self._constants[target] = self._constants[source]
            return
        name = self._new_tensor(node.name, self._graph.entries[target])
        self._tensors[target] = name
        self._library.aliases[name] = self._tensors[source]

    def _make_outputs(self, node: Node) -> None:
        for index, entry in enumerate(node.outputs):
            wanted = node.name if len(node.outputs) == 1 else f"{node.name}:{index}"
            self._tensors[entry] = self._new_tensor(wanted, self._graph.entries[entry])
            self.storage[self._tensors[entry]] = self._graph.entries[entry].storage

    def _output(self, entry: int, name: str) -> None:
        """A head; one that is a constant is copied in each run."""
        if entry in self._constants:
            info = self._graph.entries[entry]
            tensor = self._new_tensor(name, info)
            self.storage[tensor] = 1 + max(entry.storage for entry in self._graph.entries) + len(self.storage)
            size = self._library.tensors[tensor].size
            constant = self._constants[entry]
            arguments = (Argument("constant", constant, "uint8_t"), Argument("tensor", tensor, "uint8_t"))
            self._library.calls.append(Call("copy", name, self._adapters.copy(size), arguments, (), (tensor,)))
        else:
            tensor = self._tensors[entry]
        self._library.outputs.append(self._info(name, entry))
        self._library.output_tensors.append(tensor)

    def _new_tensor(self, wanted: str, entry: Entry) -> str:
        name = self._names.new(wanted)
        self._library.tensors[name] = Tensor(name, entry.shape, entry.dtype)
        return name

    def _operand(self, entry: int, *, output: bool) -> Operand:
        info = self._graph.entries[entry]
        return Operand(info.shape, info.dtype, output)

    def _info(self, name: str, entry: int) -> TensorInfo:
        info = self._graph.entries[entry]
        return TensorInfo(name, info.shape, info.dtype)

    def _size(self, entry: int) -> int:
        info = self._graph.entries[entry]
        return int(np.prod(info.shape, dtype=np.int64)) * np.dtype(info.dtype).itemsize
