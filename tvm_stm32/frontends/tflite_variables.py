"""Resource variables of streaming TFLite models: READ_VARIABLE and ASSIGN_VARIABLE become states of the model.

A variable's old value is a parameter of ``main``, its new value a result. The importer keeps values in a table while it
converts; only initialisation by CALL_ONCE reaches it there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from tvm import ir, relax

from ..errors import ModelError, quoted
from ..graph.ssa import normalized
from ..model import StateInfo

# Key of this project's entry in the importer's state, which the converters of all subgraphs share.
_TABLE = "tvm_stm32_variables"


@dataclass
class Variables:
    """``parameters``: the variable of ``main`` that stands for each old value; ``current``: its value so far."""

    parameters: dict[Any, relax.Var] = field(default_factory=dict)
    current: dict[Any, relax.Expr] = field(default_factory=dict)
    states: dict[Any, StateInfo] = field(default_factory=dict)


class VariableConverter:
    """A mixin of the importer's converter."""

    conversion_state: dict[str, Any]

    @property
    def variables(self) -> Variables:
        """The variables of the model."""
        table: Variables = self.conversion_state.setdefault(_TABLE, Variables())
        return table

    def convert_read_variable(self: Any, op: Any) -> relax.Expr:
        """The variable's value at this point of the run."""
        (handle,), (output,) = self.get_input_tensors(op), self.get_output_tensors(op)
        key = self._get_resource_key_for_handle(handle, "READ_VARIABLE")
        if key not in self.variables.current:
            self._declare(key, output)
        return self.variables.current[key]

    def convert_assign_variable(self: Any, op: Any) -> None:
        """Inside CALL_ONCE the initial value, else the value from here on."""
        if self.conversion_state["in_call_once_init"]:
            super().convert_assign_variable(op)  # type: ignore[misc]
            return
        handle, value = self.get_input_tensors(op)
        key = self._get_resource_key_for_handle(handle, "ASSIGN_VARIABLE")
        if key not in self.variables.parameters:
            self._declare(key, value)
        self.variables.current[key] = self.get_tensor_expr(value)

    def _declare(self: Any, key: Any, tensor: Any) -> None:
        name = "/".join(part for part in key if part) if isinstance(key, tuple) else str(key)
        shape = tuple(int(extent) for extent in self._get_relax_tensor_shape(tensor))
        dtype = self._get_relax_tensor_dtype(tensor)
        initial = self.conversion_state["resource_values"].get(key)
        variable = relax.Var(name, relax.TensorType(shape, dtype))
        zero = 0.0
        if initial is None and tensor.qnn_params is not None and dtype == "int8":
            # TFLM reads a variable that was never assigned as its zero point.
            zero = float(tensor.qnn_params["zero_point"].value.numpy())
        elif isinstance(initial, ir.GenericConst):
            values = np.unique(initial.value.numpy())
            if values.size != 1:
                raise ModelError(
                    f"variable {quoted(name)} starts with {values.size} different values",
                    why="a reset fills a variable with one value",
                    hint="start it with zeros",
                )
            zero = float(values[0])
        self.variables.parameters[key] = variable
        self.variables.current[key] = variable
        self.variables.states[key] = StateInfo(name, shape, dtype, zero)


def with_states(module: tvm.IRModule, variables: Variables) -> tuple[tvm.IRModule, list[StateInfo]]:
    """``main`` with old values as further parameters and new ones as further results."""
    function = module["main"]
    if not variables.parameters:
        return module, []
    keys = list(variables.parameters)
    bindings = [binding for block in function.body.blocks for binding in block.bindings]
    result = function.body.body
    values = {binding.var: binding.value for binding in bindings}
    value = values.get(result, result)
    outputs = list(value.fields) if isinstance(value, relax.Tuple) else [value]
    kept = [binding for binding in bindings if binding.var is not result]
    fields = []
    for position, field_value in enumerate([*outputs, *(variables.current[key] for key in keys)]):
        if isinstance(field_value, relax.Call):
            variable = relax.DataflowVar(f"result_{position}", normalized(field_value).ty)
            kept.append(relax.VarBinding(variable, field_value))
            field_value = variable
        fields.append(field_value)
    whole = normalized(relax.Tuple(fields))
    out = relax.Var("results", whole.ty)
    body = relax.SeqExpr([relax.DataflowBlock([*kept, relax.VarBinding(out, whole)])], out)
    parameters = [*function.params, *(variables.parameters[key] for key in keys)]
    rebuilt = relax.Function(parameters, body, whole.ty, attrs=function.attrs)
    return tvm.IRModule({"main": rebuilt}), [variables.states[key] for key in keys]
