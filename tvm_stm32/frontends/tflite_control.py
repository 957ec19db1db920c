"""CALL, IF and WHILE of TFLite models: subgraphs are written out in place of the operator.

Memory and the order of operators are planned when the model is compiled, so a loop's steps must be known by then. Where
an IF's condition is not, both branches run and each result is chosen element by element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import tflite
from tvm import relax
from tvm.relax.frontend.tflite.tflite_frontend import ExprTable

from ..errors import quoted
from .binding import bind
from .limits import MOST_STEPS
from .tflite_check import indices

Value: TypeAlias = relax.Expr | np.ndarray

# Key of the number of operators written out so far, in the state which the converters of all subgraphs share.
_WRITTEN = "tvm_stm32_operators_written_out"
_MOST_WRITTEN = 20_000


class ControlFlow:
    """A mixin of the importer's converter."""

    known: dict[int, np.ndarray]
    conversion_state: dict[str, Any]

    def convert_call(self: Any, op: Any) -> None:
        """The subgraph in place of the call."""
        options = self._get_builtin_options(op, tflite.CallOptions)
        self._give(op, self._written_out(options.Subgraph(), self._values(op.InputsAsNumpy())))

    def convert_if(self: Any, op: Any) -> None:
        """One branch where the condition is known, else both and a choice."""
        options = self._get_builtin_options(op, tflite.IfOptions)
        condition, *values = self._values(op.InputsAsNumpy())
        branches = options.ThenSubgraphIndex(), options.ElseSubgraphIndex()
        if isinstance(condition, np.ndarray):
            self._give(op, self._written_out(branches[0 if condition.all() else 1], values))
            return
        before, results, after = dict(self.variables.current), [], []
        for branch in branches:
            self.variables.current = dict(before)
            results.append(self._written_out(branch, values))
            after.append(self.variables.current)
        if len(results[0]) != len(results[1]):
            raise ValueError("its branches have different numbers of results")

        def chosen(first: Value, second: Value) -> Value:
            if first is second:
                return first
            return self.bb.emit(relax.op.where(condition, _expression(first), _expression(second)))

        parameters = self.variables.parameters
        self.variables.current = {
            key: chosen(*(states.get(key, parameters[key]) for states in after)) for key in {**after[0], **after[1]}
        }
        self._give(op, [chosen(first, second) for first, second in zip(*results, strict=True)])

    def convert_while(self: Any, op: Any) -> None:
        """As many copies of the body as its condition asks for."""
        options = self._get_builtin_options(op, tflite.WhileOptions)
        values = self._values(op.InputsAsNumpy())
        for _ in range(MOST_STEPS + 1):
            condition = self._written_out(options.CondSubgraphIndex(), values)
            if len(condition) != 1 or not isinstance(condition[0], np.ndarray):
                raise ValueError(
                    "how many steps it takes depends on values, and memory and the order of operators are planned when "
                    "the model is compiled"
                )
            if not condition[0].all():
                self._give(op, values)
                return
            values = self._written_out(options.BodySubgraphIndex(), values)
        raise ValueError(f"it has more than {MOST_STEPS} steps, each of which is compiled")

    def _written_out(self: Any, position: int, values: Sequence[Value]) -> list[Value]:
        """Results of a subgraph on ``values``, its operators bound in this one's block."""
        stack: list[int] = self.conversion_state["lowering_stack"]
        if not 0 < position < self.model.SubgraphsLength() or position in stack:
            raise ValueError(f"it uses subgraph {position}, which is not there or contains it")
        subgraph = self.model.Subgraphs(position)
        written = self.conversion_state.get(_WRITTEN, 0) + subgraph.OperatorsLength() + 1
        if written > _MOST_WRITTEN:
            raise ValueError(f"it takes the model past {_MOST_WRITTEN:,} operators, each of which is compiled")
        self.conversion_state[_WRITTEN] = written
        inputs = indices(subgraph.InputsAsNumpy())
        if len(inputs) != len(values):
            raise ValueError(f"it hands {len(values)} values to subgraph {position}, which takes {len(inputs)}")
        inner = type(self)(self.model, subgraph, ExprTable(), self.bb, self.conversion_state)
        for index, value in zip(inputs, values, strict=True):
            self._check_same(subgraph.Tensors(index), value)
            inner.known.pop(index, None)
            if isinstance(value, np.ndarray):
                inner.known[index] = value
            else:
                inner.exp_tab.set_expr(subgraph.Tensors(index).unique_name, value)
        stack.append(position)
        try:
            inner.check_unsupported_ops()
            inner.convert_op_to_relax()
        finally:
            stack.pop()
        results: list[Value] = inner._values(subgraph.OutputsAsNumpy())
        return results

    @staticmethod
    def _check_same(tensor: Any, value: Value) -> None:
        shape = tuple(indices(tensor.ShapeAsNumpy()))
        given = value.shape if isinstance(value, np.ndarray) else tuple(int(extent) for extent in value.ty.shape)
        if shape != given:
            raise ValueError(
                f"it hands a value of shape {list(given)} to tensor {quoted(tensor.unique_name)} of shape {list(shape)}"
            )

    def _values(self: Any, positions: Any) -> list[Value]:
        """Tensors of this subgraph: arrays where they are known now, else expressions."""
        return [
            self.get_expr(tensor.tensor_idx) if self.has_expr(tensor.tensor_idx) else self._array(tensor)
            for tensor in self.get_tensors(positions)
        ]

    def _array(self: Any, tensor: Any) -> np.ndarray:
        array = np.asarray(self.get_tensor_value(tensor))
        return array.reshape(indices(tensor.tensor.ShapeAsNumpy()))

    def _give(self: Any, op: Any, values: Sequence[Value]) -> None:
        outputs = self.get_output_tensors(op)
        if len(outputs) != len(values):
            raise ValueError(f"it has {len(outputs)} results and its subgraph {len(values)}")
        for tensor, value in zip(outputs, values, strict=True):
            if isinstance(value, np.ndarray):
                self.known[tensor.tensor_idx] = value
                continue
            name = tensor.tensor.unique_name
            self.exp_tab.set_expr(name, bind(self.bb, value, name))


def _expression(value: Value) -> relax.Expr:
    return relax.const(value) if isinstance(value, np.ndarray) else value
