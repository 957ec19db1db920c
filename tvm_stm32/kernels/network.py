"""From a prepared Relax module to a Library: tensors, aliases, and one kernel call for each operator."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

import numpy as np
from tvm import IRModule, ir, relax

from ..errors import Error, UnsupportedOperatorError
from ..graph import dialect
from ..graph.lowering import lower_to_tir
from ..graph.naming import is_made_up
from ..graph.ssa import Function, constant, dtype_of, operands, shape_of
from ..library import Argument, Call, Library, State
from ..library.ctypes import CTYPES
from ..model import Model, StateInfo
from ..target import Target
from . import elementwise
from .binary import lower_binary
from .context import KernelContext, constant_argument, tensor_argument, workspace_argument
from .convolution import lower_conv2d
from .dense import lower_dense
from .float32 import lower_float_conv2d, lower_float_dense
from .quantization import annotate
from .recurrent import lower_recurrent
from .rows import lower_quantize, lower_rows
from .tir import lower_prim_func
from .wide import lower_conv2d16, lower_hybrid

_SINGLE_INPUT = {
    "q.conv2d": lower_conv2d,
    "q.dense": lower_dense,
    "f.conv2d": lower_float_conv2d,
    "f.dense": lower_float_dense,
    "q.avg_pool2d": elementwise.lower_pool,
    "q.max_pool2d": elementwise.lower_pool,
    "q.softmax": elementwise.lower_softmax,
    "q.table": elementwise.lower_table,
    "q.conv2d16": lower_conv2d16,
    "q.hybrid": lower_hybrid,
    "q.quantize": lower_quantize,
    "q.sigmoid16": lower_rows,
    "q.softmax8to16": lower_rows,
    "q.softmax16": lower_rows,
    "q.log_softmax": lower_rows,
    "q.l2_normalize": lower_rows,
}
_BINARY = {"q.add", "q.sub", "q.mul", "q.div"}
# Operators by how many of their arguments are tensors: data, then states.
_RECURRENT = {"q.svdf": 2, "q.lstm": 3}
_RESHAPES = {"relax.reshape", "relax.squeeze", "relax.expand_dims", "relax.flatten"}


def build_library(
    module: IRModule,
    model: Model,
    target: Target,
    name: str,
    level: str,
    settings: dict[str, str],
    kernels: str = "asm",
    forms: Mapping[str, str] | None = None,
) -> Library:
    """Choose a kernel for every operator of ``module["main"]``. Offsets are left to the memory stage.

    Raises :class:`UnsupportedOperatorError` for an operator no kernel covers.
    """
    lowered = lower_to_tir(module)
    library = Library(
        name=name,
        provenance=model.provenance,
        settings=settings,
        inputs=model.inputs,
        outputs=model.outputs,
        input_tensors=[],
        output_tensors=[],
        notes=list(model.notes),
        removed_channels=model.removed_channels,
        removed_macs=model.removed_macs,
    )
    built = _Builder(
        lowered, KernelContext(library, target, level, kernels == "asm", forms=forms or {}), model.states
    ).build()
    annotate(built, model.tensors)
    return built


class _Builder:
    def __init__(self, module: IRModule, ctx: KernelContext, states: list[StateInfo]) -> None:
        self.states = states
        self.module = module
        self.ctx = ctx
        self.library = ctx.library
        self.view = Function(module["main"])
        self.names: dict[relax.Var, str] = {}
        self.shapes: Counter[tuple[object, ...]] = Counter()
        self.fields: dict[relax.Var, list[str]] = {}
        self.constants: dict[relax.Var, tuple[ir.GenericConst, str]] = {}

    def build(self) -> Library:
        function = self.view.function
        self.shapes = Counter(_shape_key(binding.value) for binding in self.view.bindings)
        work = [_work(binding.value) for binding in self.view.bindings]
        self.ctx.macs, self.ctx.weight_bytes = (sum(part) for part in zip(*work, strict=True)) if work else (0, 0)
        count = len(self.library.inputs)
        for parameter, info in zip(function.params[:count], self.library.inputs, strict=True):
            self.names[parameter] = self.ctx.tensor(self._unique(info.name), parameter)
            self.library.input_tensors.append(self.names[parameter])
        for parameter, state in zip(function.params[count:], self.states, strict=True):
            self.names[parameter] = self.ctx.tensor(self._unique(state.name), parameter)
            self.library.states.append(State(state.name, self.names[parameter], state.initial))
        labels = _labels(self.view)
        for binding in self.view.bindings:
            self._bind(binding.var, binding.value, labels.get(binding.var, binding.var.name))
        result = self.view.value(function.body.body)
        results = list(result.fields) if isinstance(result, relax.Tuple) else [function.body.body]
        outputs = len(self.library.outputs)
        for position, expr in enumerate(results[:outputs]):
            self.library.output_tensors.append(self._output(expr, position))
        self._store_states(results[outputs:])
        self._check_forms()
        return self.library

    def _check_forms(self) -> None:
        """Every kernel that was set by hand is that of an operator with a choice."""
        used = {
            name for number, call in enumerate(self.library.calls) if call.costs for name in (call.node, f"#{number}")
        }
        for name in self.ctx.forms:
            if name not in used:
                raise Error(
                    f"--set {name}=...: no operator with a choice of kernels has this name or number",
                    hint="the report lists operators, their names, numbers and forms",
                )

    def _store_states(self, values: list[relax.Expr]) -> None:
        """Copy the new values of variables over the old ones, once everything has read those."""
        moves = []
        for state, expr in zip(self.library.states, values, strict=True):
            source = self._operand(expr, state.name)
            if self.library.root(source) != state.tensor:
                moves.append((state, source))
        kept = {state.tensor for state, _ in moves}
        for position, (state, source) in enumerate(moves):
            if self.library.root(source) in kept:
                # Another variable's old value: saved before that one is overwritten.
                moves[position] = (state, self._copied(source, f"{state.name}.next"))
        for state, source in moves:
            tensor = self.library.tensors[source]
            size = int(np.prod(tensor.shape, dtype=np.int64))
            argument = tensor_argument(source, tensor.dtype)
            self._add_copy(state.name, argument, (source,), state.tensor, size, tensor.dtype)

    def _copied(self, name: str, label: str) -> str:
        """A copy of a tensor."""
        output = self._unique(label)
        tensor = self.library.tensors[name]
        self.library.tensors[output] = type(tensor)(output, tensor.shape, tensor.dtype)
        count = int(np.prod(tensor.shape, dtype=np.int64))
        self._add_copy(output, tensor_argument(name, tensor.dtype), (name,), output, count, tensor.dtype)
        return output

    def _unique(self, label: str) -> str:
        name, number = label, 2
        while name in self.library.tensors or name in self.library.aliases:
            name, number = f"{label}#{number}", number + 1
        return name

    def _bind(self, variable: relax.Var, value: relax.Expr, label: str) -> None:
        if isinstance(value, relax.Var):
            if value in self.fields:
                self.fields[variable] = self.fields[value]
            else:
                self.names[variable] = self._operand(value, label)
        elif isinstance(value, relax.Tuple):
            self.fields[variable] = [self._operand(field, label) for field in value.fields]
        elif isinstance(value, relax.TupleGetItem):
            self.names[variable] = self.fields[value.tuple_value][value.index]
        elif isinstance(value, ir.GenericConst):
            # Copied into the arena when an operator needs it there.
            self.constants[variable] = value, label
        else:
            self._bind_call(variable, value, label)

    def _bind_call(self, variable: relax.Var, value: relax.Call, label: str) -> None:
        name = dialect.name_of(value)
        self.ctx.repeats = self.shapes.get(_shape_key(value), 1)
        if name == "relax.call_tir":
            self._call_tir(variable, value, label)
            return
        if name in _RESHAPES:
            alias = self._unique(label)
            self.library.aliases[alias] = self._operand(value.args[0], label)
            self.names[variable] = alias
            self.ctx.tensor(alias, variable)
            return
        if name not in _SINGLE_INPUT and name not in _BINARY and name not in _RECURRENT:
            raise UnsupportedOperatorError(
                f"{self.library.provenance.file_name}: operator {name} at '{label}' has no kernel",
            )
        output = self._unique(label)
        if name in _BINARY:
            operands = [
                "" if constant(self.view.value(argument)) is not None else self._operand(argument, label)
                for argument in value.args
            ]
            self.ctx.tensor(output, variable)
            lower_binary(self.ctx, value, label, operands, output)
        elif name in _RECURRENT:
            operands = [self._operand(argument, label) for argument in value.args[: _RECURRENT[name]]]
            self.ctx.tensor(output, variable)
            lower_recurrent(self.ctx, value, label, operands, output)
        else:
            data = self._operand(value.args[0], label)
            self.ctx.tensor(output, variable)
            _SINGLE_INPUT[name](self.ctx, value, label, data, output)
        self.names[variable] = output

    def _operand(self, expr: relax.Expr, label: str) -> str:
        """Name of the tensor an operand lives in; a constant is copied into the arena first."""
        if isinstance(expr, relax.Var):
            if expr not in self.names and expr in self.constants:
                self.names[expr] = self._copy_constant(*self.constants[expr])
            return self.names[expr]
        if isinstance(expr, ir.GenericConst):
            return self._copy_constant(expr, label)
        raise UnsupportedOperatorError(f"{self.library.provenance.file_name}: operand of '{label}' is no tensor")

    def _copy_constant(self, expr: relax.Expr, label: str) -> str:
        array = constant(expr)
        assert array is not None
        name = self.ctx.constant(f"constant_{len(self.library.constants)}", array)
        output = self._unique(f"{label}.constant")
        self.ctx.tensor(output, expr)
        dtype = dtype_of(expr)
        self._add_copy(label, constant_argument(name, dtype), (), output, int(array.size), dtype)
        return output

    def _add_copy(
        self, label: str, source: Argument, inputs: tuple[str, ...], output: str, count: int, dtype: str
    ) -> None:
        ctype = CTYPES[dtype]
        text = self.ctx.render("copy.c.j2", ctype=ctype, count=count)
        kernel = self.ctx.kernel(f"copy_{dtype}_{count}", text, uses_float=dtype.startswith("float"))
        self.ctx.add_call(Call("copy", label, kernel.name, (source, tensor_argument(output, dtype)), inputs, (output,)))

    def _call_tir(self, variable: relax.Var, value: relax.Call, label: str) -> None:
        function_name = value.args[0].name_hint
        stem = re.sub(r"^fused_", "", function_name)
        lowered = lower_prim_func(self.module[value.args[0]], "NAME")
        kernel = self.ctx.kernel(
            stem[:40],
            lowered.source,
            workspace=lowered.workspace,
            headers=("math.h",) if lowered.libm else (),
            libm=lowered.libm,
            uses_float=lowered.uses_float,
            kind="TIR",
        )
        operands = list(value.args[1].fields)
        arguments: list[Argument] = []
        inputs: list[str] = []
        for operand, parameter in zip(operands, lowered.parameters, strict=False):
            array = constant(operand)
            if array is not None:
                stem_name = f"{stem[:24]}_{len(self.library.calls)}_{len(arguments)}"
                arguments.append(Argument("constant", self.ctx.constant(stem_name, _storable(array)), parameter.ctype))
            else:
                name = self._operand(operand, label)
                inputs.append(name)
                arguments.append(Argument("tensor", name, parameter.ctype))
        types = list(variable.ty.fields) if isinstance(variable.ty, relax.TupleType) else [variable.ty]
        outputs: list[str] = []
        for position, kind in enumerate(types):
            name = self._unique(label if len(types) == 1 else f"{label}.{position}")
            self.ctx.tensor(name, relax.Var(name, kind))
            outputs.append(name)
            arguments.append(tensor_argument(name, str(kind.dtype)))
        if lowered.workspace:
            arguments.append(workspace_argument("uint8_t"))
        self.ctx.add_call(
            Call(
                stem,
                label,
                kernel.name,
                tuple(arguments),
                tuple(inputs),
                tuple(outputs),
                macs=lowered.macs,
                workspace=lowered.workspace,
                detail="TIR",
            )
        )
        if lowered.uses_float:
            self.library.float_operators.append(f"{stem} at '{label}'")
        if len(types) == 1:
            self.names[variable] = outputs[0]
        else:
            self.fields[variable] = outputs

    def _output(self, expr: relax.Expr, position: int) -> str:
        """The tensor of a model output: of its own, so an input, a constant or an earlier output is copied."""
        name = self._operand(expr, f"output_{position}")
        root = self.library.root(name)
        taken = {self.library.root(other) for other in self.library.output_tensors}
        kept = {*self.library.input_tensors, *(state.tensor for state in self.library.states)}
        if root not in taken and root not in kept:
            return name
        return self._copied(name, f"output_{position}")


def _shape_key(value: relax.Expr) -> tuple[object, ...]:
    """What operators have in common that can have one kernel; empty for others than convolution and dense layers."""
    if dialect.name_of(value) not in ("q.conv2d", "q.dense"):
        return ()
    strides = dialect.attributes(value).get("strides")
    return (
        tuple(shape_of(value)),
        tuple(shape_of(value.args[0])),
        tuple(shape_of(value.args[1])),
        tuple(strides or ()),
    )


def _work(value: relax.Expr) -> tuple[int, int]:
    """Multiply-accumulates and weights of an int8 convolution or dense layer."""
    if dialect.name_of(value) not in ("q.conv2d", "q.dense"):
        return 0, 0
    weight = constant(value.args[1])
    assert weight is not None
    return int(np.prod(shape_of(value), dtype=np.int64)) * int(weight[0].size), int(weight.size)


def _labels(view: Function) -> dict[relax.Var, str]:
    """Names for values the model has none for: that of the operator they are part of, numbered."""
    owners: dict[relax.Var, str] = {}
    for binding in reversed(view.bindings):
        name = binding.var.name
        owner = owners.get(binding.var) if is_made_up(name) else name
        if owner is None:
            continue
        values = binding.value.args[1].fields if dialect.name_of(binding.value) == "relax.call_tir" else ()
        for operand in (*operands(binding.value), *values):
            if isinstance(operand, relax.Var) and operand in view.definitions and is_made_up(operand.name):
                owners.setdefault(operand, owner)
    counts: dict[str, int] = {}
    labels = {}
    for binding in view.bindings:
        if binding.var in owners:
            owner = owners[binding.var]
            counts[owner] = counts.get(owner, 0) + 1
            labels[binding.var] = f"{owner}.{counts[owner]}"
    return labels


def _storable(array: np.ndarray) -> np.ndarray:
    return array.astype(np.uint8) if array.dtype == np.bool_ else array
