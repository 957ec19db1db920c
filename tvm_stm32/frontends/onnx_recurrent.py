"""RNN, GRU and LSTM written out step by step, as the standard defines them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from .limits import MOST_STEPS
from .onnx_graph import Graph, attribute, check_made_up

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
_WITH_ALPHA = {"LeakyRelu": 0.01, "ThresholdedRelu": 1.0, "Elu": 1.0, "HardSigmoid": 0.2}
_PLAIN = frozenset({"Relu", "Tanh", "Sigmoid", "Softsign", "Softplus"})

Activation = Callable[[str], str]


@dataclass
class _Cell:
    """One direction: weights (transposed), biases and options."""

    graph: Graph
    kind: str
    hidden: int
    weight: str
    recurrence: str
    input_bias: str
    recurrent_bias: str
    peephole: list[str]
    activations: list[Activation]
    clip: float
    linear_before_reset: bool
    input_forget: bool

    def step(self, x: str, hidden: str, cell: str) -> tuple[str, str]:
        """The hidden and cell state after one input."""
        return {"RNN": self._rnn, "GRU": self._gru, "LSTM": self._lstm}[self.kind](x, hidden, cell)

    def _emit(self, operator: str, *inputs: Any, **attributes: Any) -> str:
        return self.graph.emit(operator, *inputs, **attributes)

    def _clipped(self, value: str) -> str:
        if not self.clip:
            return value
        limit = np.asarray(self.clip, np.float32)
        return self._emit("Clip", value, -limit, limit)

    def _activated(self, position: int, value: str) -> str:
        return self.activations[position](self._clipped(value))

    def _product(self, value: str, weight: str, bias: str) -> str:
        product = self._emit("MatMul", value, weight)
        return self._emit("Add", product, bias) if bias else product

    def _gate(self, value: str, number: int) -> str:
        begin, end = number * self.hidden, (number + 1) * self.hidden
        return self._emit("Slice", value, np.asarray([begin]), np.asarray([end]), np.asarray([-1]))

    def _rnn(self, x: str, hidden: str, cell: str) -> tuple[str, str]:
        total = self._emit(
            "Add",
            self._product(x, self.weight, self.input_bias),
            self._product(hidden, self.recurrence, self.recurrent_bias),
        )
        return self._activated(0, total), cell

    def _gru(self, x: str, hidden: str, cell: str) -> tuple[str, str]:
        inputs = self._product(x, self.weight, self.input_bias)
        if self.linear_before_reset:
            states = self._product(hidden, self.recurrence, self.recurrent_bias)
            update, reset = (
                self._activated(0, self._emit("Add", self._gate(inputs, number), self._gate(states, number)))
                for number in (0, 1)
            )
            candidate = self._emit("Mul", reset, self._gate(states, 2))
        else:
            split = self._product(hidden, self._part(self.recurrence, 0, 2), self._part(self.recurrent_bias, 0, 2))
            update, reset = (
                self._activated(0, self._emit("Add", self._gate(inputs, number), self._gate(split, number)))
                for number in (0, 1)
            )
            candidate = self._product(
                self._emit("Mul", reset, hidden),
                self._part(self.recurrence, 2, 3),
                self._part(self.recurrent_bias, 2, 3),
            )
        candidate = self._activated(1, self._emit("Add", self._gate(inputs, 2), candidate))
        kept = self._emit("Mul", update, self._emit("Sub", hidden, candidate))
        return self._emit("Add", candidate, kept), cell

    def _part(self, value: str, first: int, last: int) -> str:
        if not value:
            return ""
        ends = np.asarray([first * self.hidden]), np.asarray([last * self.hidden])
        return self._emit("Slice", value, *ends, np.asarray([-1]))

    def _lstm(self, x: str, hidden: str, cell: str) -> tuple[str, str]:
        total = self._emit(
            "Add",
            self._product(x, self.weight, self.input_bias),
            self._product(hidden, self.recurrence, self.recurrent_bias),
        )
        gate_in, gate_out, gate_forget, candidate = (self._gate(total, number) for number in range(4))
        gate_in = self._activated(0, self._peek(gate_in, 0, cell))
        if self.input_forget:
            gate_forget = self._emit("Sub", np.asarray(1, np.float32), gate_in)
        else:
            gate_forget = self._activated(0, self._peek(gate_forget, 2, cell))
        candidate = self._activated(1, candidate)
        cell = self._emit("Add", self._emit("Mul", gate_forget, cell), self._emit("Mul", gate_in, candidate))
        gate_out = self._activated(0, self._peek(gate_out, 1, cell))
        return self._emit("Mul", gate_out, self.activations[2](cell)), cell

    def _peek(self, gate: str, number: int, cell: str) -> str:
        if not self.peephole:
            return gate
        return self._emit("Add", gate, self._emit("Mul", self.peephole[number], cell))


def recurrent(graph: Graph, node: onnx.NodeProto) -> bool:
    """Write out an RNN, GRU or LSTM. False when its shapes or activations do not allow that."""
    kind = node.op_type
    inputs = [*node.input, *[""] * 8][:8]
    data, lengths = inputs[0], inputs[4]
    shape = graph.shape(data)
    hidden = attribute(node, "hidden_size", 0)
    sizes = graph.shape(inputs[2])
    if shape is None or sizes is None or len(shape) != 3 or len(sizes) != 3:
        return False
    hidden = hidden or sizes[2]
    batch_first = bool(attribute(node, "layout", 0))
    if batch_first:
        data = graph.emit("Transpose", data, perm=[1, 0, 2])
        shape = [shape[1], shape[0], shape[2]]
    steps, batch, _ = shape
    check_made_up(graph.label, [batch, hidden])
    direction = attribute(node, "direction", "forward")
    backwards = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}.get(direction, [])
    functions = _activations(graph, node, kind, len(backwards))
    if functions is None or not backwards or not 0 < steps * len(backwards) <= MOST_STEPS:
        return False
    per_direction = len(functions) // len(backwards)
    states = []
    for number, back in enumerate(backwards):
        chosen = functions[number * per_direction : (number + 1) * per_direction]
        cell = _cell(graph, node, kind, hidden, number, inputs, chosen)
        start = [_state(graph, inputs[position], number, batch, hidden, batch_first) for position in (5, 6)]
        states.append(_run(graph, cell, data, lengths, steps, back, start))
    _outputs(graph, node, states, batch_first)
    return True


def _activations(graph: Graph, node: onnx.NodeProto, kind: str, directions: int) -> list[Activation] | None:
    names = [
        name.decode() if isinstance(name, bytes) else name
        for name in attribute(node, "activations", _DEFAULTS[kind] * directions)
    ]
    alphas = list(attribute(node, "activation_alpha", []))
    betas = list(attribute(node, "activation_beta", []))
    found: list[Activation] = []
    for name in names:
        options: dict[str, float] = {}
        if name in _WITH_ALPHA or name in ("Affine", "ScaledTanh"):
            options["alpha"] = alphas.pop(0) if alphas else _WITH_ALPHA.get(name, 1.0)
        if name in ("HardSigmoid", "Affine", "ScaledTanh"):
            options["beta"] = betas.pop(0) if betas else {"HardSigmoid": 0.5, "Affine": 0.0}.get(name, 1.0)
        if name not in _PLAIN and not options:
            return None
        found.append(_activation(graph, name, options))
    return found if len(found) == len(_DEFAULTS[kind]) * directions else None


def _activation(graph: Graph, name: str, options: dict[str, float]) -> Activation:
    if name == "Affine":
        return lambda value: graph.emit("Add", graph.emit("Mul", value, options["alpha"]), options["beta"])
    if name == "ScaledTanh":
        return lambda value: graph.emit(
            "Mul", graph.emit("Tanh", graph.emit("Mul", value, options["beta"])), options["alpha"]
        )
    return lambda value: graph.emit(name, value, **options)


def _cell(
    graph: Graph,
    node: onnx.NodeProto,
    kind: str,
    hidden: int,
    number: int,
    inputs: list[str],
    activations: list[Activation],
) -> _Cell:
    def of_direction(name: str) -> str:
        return graph.emit("Gather", name, number, axis=0)

    weight, recurrence = (graph.emit("Transpose", of_direction(name), perm=[1, 0]) for name in inputs[1:3])
    biases = ["", ""]
    if inputs[3]:
        both = of_direction(inputs[3])
        width = _GATES[kind] * hidden
        biases = [
            graph.emit("Slice", both, np.asarray([begin]), np.asarray([begin + width]), np.asarray([0]))
            for begin in (0, width)
        ]
    peephole: list[str] = []
    if kind == "LSTM" and inputs[7]:
        weights = of_direction(inputs[7])
        peephole = [
            graph.emit(
                "Slice", weights, np.asarray([part * hidden]), np.asarray([(part + 1) * hidden]), np.asarray([0])
            )
            for part in range(3)
        ]
    return _Cell(
        graph,
        kind,
        hidden,
        weight,
        recurrence,
        biases[0],
        biases[1],
        peephole,
        activations,
        float(attribute(node, "clip", 0.0)),
        bool(attribute(node, "linear_before_reset", 0)),
        bool(attribute(node, "input_forget", 0)),
    )


def _state(graph: Graph, name: str, number: int, batch: int, hidden: int, batch_first: bool) -> str:
    if not name:
        return graph.number(np.zeros((batch, hidden), np.float32))
    return graph.emit("Gather", name, number, axis=1 if batch_first else 0)


def _run(
    graph: Graph, cell: _Cell, data: str, lengths: str, steps: int, backwards: bool, start: list[str]
) -> tuple[list[str], str, str]:
    """Hidden states by step, and the final hidden and cell state. Beyond a sequence's length outputs are 0."""
    hidden, memory = start
    found = [""] * steps
    for step in reversed(range(steps)) if backwards else range(steps):
        x = graph.emit("Gather", data, step, axis=0)
        new_hidden, new_memory = cell.step(x, hidden, memory)
        result = new_hidden
        if lengths:
            inside = graph.emit("Unsqueeze", graph.emit("Less", np.asarray(step, np.int32), lengths), np.asarray([1]))
            result = graph.emit("Where", inside, new_hidden, 0.0)
            new_hidden = graph.emit("Where", inside, new_hidden, hidden)
            new_memory = graph.emit("Where", inside, new_memory, memory)
        hidden, memory = new_hidden, new_memory
        found[step] = result
    return found, hidden, memory


def _outputs(graph: Graph, node: onnx.NodeProto, states: list[tuple[list[str], str, str]], batch_first: bool) -> None:
    outputs = [*node.output, "", "", ""][:3]
    if outputs[0]:
        steps = []
        for position in range(len(states[0][0])):
            parts = [graph.emit("Unsqueeze", found[position], np.asarray([0])) for found, _, _ in states]
            both = graph.emit("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]
            steps.append(graph.emit("Unsqueeze", both, np.asarray([0])))
        whole = graph.emit("Concat", *steps, axis=0)
        if batch_first:
            graph.emit_to([outputs[0]], "Transpose", whole, perm=[2, 0, 1, 3])
        else:
            graph.emit_to([outputs[0]], "Identity", whole)
    for position, output in ((1, outputs[1]), (2, outputs[2])):
        if output:
            axis = np.asarray([1 if batch_first else 0])
            parts = [graph.emit("Unsqueeze", str(state[position]), axis) for state in states]
            graph.emit_to([output], "Concat", *parts, axis=int(axis[0]))
