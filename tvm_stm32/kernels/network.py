"""From a prepared Relax module to a Library: tensors, aliases, and one kernel call for each operator."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from tvm import IRModule, ir, relax

from ..errors import UnsupportedOperatorError
from ..graph import dialect
from ..graph.lowering import lower_to_tir
from ..graph.naming import is_made_up
from ..graph.order import least_memory
from ..graph.ssa import Function, constant, dtype_of, operands, shape_of
from ..library import Argument, Call, Library, State
from ..library.ctypes import CTYPES
from ..model import Model, StateInfo
from ..target import Target
from .bands import Link, lower_bands
from .chains import Chain, sums_behind_convolutions
from .context import KernelContext, constant_argument, tensor_argument, workspace_argument
from .dispatch import BINARY, lower_operator, tensors_of
from .quantization import annotate
from .tir import lower_prim_func
from .wanted import WantedForms

# Rows at a time.
BANDS = (2, 4, 1)
_RESHAPES = {"relax.reshape", "relax.squeeze", "relax.expand_dims", "relax.flatten"}


def build_library(*arguments: Any, **options: Any) -> Library:
    """The library a :class:`NetworkBuilder` of these arguments makes by itself."""
    return NetworkBuilder(*arguments, **options).build()


class NetworkBuilder:
    """Fills a :class:`Library` with a kernel for every operator of ``module["main"]``; offsets are the memory stage's.

    Raises :class:`UnsupportedOperatorError` for an operator no kernel covers. After :meth:`build`, ``alternatives`` are
    the calls of every node in every form there is, ``parts`` the variables each call of the library stands for (none
    for copies and the like).
    """

    def __init__(
        self,
        module: IRModule,
        model: Model,
        target: Target,
        name: str,
        level: str,
        settings: dict[str, str],
        kernels: str = "asm",
        forms: Mapping[str, str] | None = None,
    ) -> None:
        self._model, self._lowered = model, lower_to_tir(module)
        self.view = Function(least_memory(self._lowered["main"]))
        self._made = (target, level, kernels == "asm", dict(forms or {}))
        self._name, self._settings = name, settings
        self.alternatives: dict[str, dict[str, Call]] = {}
        self.parts: list[Chain | None] = []
        self._walk: _Walk | None = None

    def build(self, forms: Mapping[str, str] | None = None, chains: Mapping[Chain, int] | None = None) -> Library:
        """The library; ``forms`` are kernels by node where the level's choice is not wanted, ``chains`` those that run
        in bands of so many rows (0: as many as suit the level) in place of the sums behind convolutions.
        """
        target, level, assembly, wanted = self._made
        library = Library(
            name=self._name,
            provenance=self._model.provenance,
            settings=self._settings,
            inputs=self._model.inputs,
            outputs=self._model.outputs,
            input_tensors=[],
            output_tensors=[],
            notes=list(self._model.notes),
            removed_channels=self._model.removed_channels,
            removed_macs=self._model.removed_macs,
        )
        ctx = KernelContext(library, target, level, assembly, forms=WantedForms(wanted, forms or {}))
        if chains is None:
            chains = dict.fromkeys(sums_behind_convolutions(self.view) if level != "size" else (), 0)
        self._walk = _Walk(self._lowered, self.view, ctx, self._model.states, chains)
        built = self._walk.build()
        self.alternatives, self.parts = ctx.alternatives, self._walk.parts
        annotate(built, self._model.tensors)
        return built

    def chain_call(self, chain: Chain, rows: int) -> Call | None:
        """The call of a chain that makes ``rows`` rows at a time, on trial; None when no kernels fit.

        Names of tensors are those of the library built last.
        """
        assert self._walk is not None
        return self._walk.on_trial(chain, rows)


class _Walk:
    def __init__(
        self,
        module: IRModule,
        view: Function,
        ctx: KernelContext,
        states: list[StateInfo],
        chains: Mapping[Chain, int],
    ) -> None:
        self.states = states
        self.module = module
        self.ctx = ctx
        self.library = ctx.library
        self.view = view
        self.chains = chains
        self.parts: list[Chain | None] = []
        self.apart = 0
        self.names: dict[relax.Var, str] = {}
        self.shapes: Counter[tuple[object, ...]] = Counter()
        self.fields: dict[relax.Var, list[str]] = {}
        self.constants: dict[relax.Var, tuple[ir.GenericConst, str]] = {}
        self.fills: dict[relax.Var, relax.Call] = {}
        self.labels: dict[relax.Var, str] = {}
        self.waiting: set[relax.Var] = set()

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
        self.labels = {binding.var: binding.var.name for binding in self.view.bindings} | _labels(self.view)
        ends = {chain.variables[-1]: chain for chain in self.chains}
        self.waiting = {variable for chain in self.chains for variable in chain.variables[:-1]}
        for binding in self.view.bindings:
            if binding.var in ends and self._bind_chain(ends[binding.var]):
                self._note(ends[binding.var])
                continue
            if binding.var in ends:
                self._bind_apart(ends[binding.var])
            elif binding.var not in self.waiting:
                self._bind(binding.var, binding.value, self.labels[binding.var])
                self._note(Chain((binding.var,), (0,)))
            self._count()
        result = self.view.value(function.body.body)
        results = list(result.fields) if isinstance(result, relax.Tuple) else [function.body.body]
        outputs = len(self.library.outputs)
        for position, expr in enumerate(results[:outputs]):
            self.library.output_tensors.append(self._output(expr, position))
        self._store_states(results[outputs:])
        # Copies that outputs and variables need.
        self.parts += [None] * (len(self.library.calls) - len(self.parts))
        self.ctx.forms.check(self.library.calls, self.ctx.target.cpu)
        return self.library

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

    def _bind_apart(self, chain: Chain) -> None:
        """The operators of a chain one by one; what comes behind keeps the number it would have."""
        number = self.ctx.number or str(len(self.library.calls))
        for part, variable in enumerate(chain.variables):
            self.ctx.number = f"{number}.{part}"
            self._bind(variable, self.view.definitions[variable], self.labels[variable])
            self._note(Chain((variable,), (0,)))
        self.apart += len(chain.variables) - 1

    def _count(self) -> None:
        """The number of the next operator, for forms set by hand: that of a report without any."""
        self.ctx.number = str(len(self.library.calls) - self.apart) if self.apart else ""

    def _note(self, part: Chain) -> None:
        """The last call, if it is a new one, stands for ``part``; those before it are copies it needs."""
        new = len(self.library.calls) - len(self.parts)
        self.parts += [None] * (new - 1) + [part] * min(1, new)

    def _links(self, chain: Chain) -> tuple[str, list[Link]]:
        """The tensor a chain reads and its operators."""
        calls = [self.view.definitions[variable] for variable in chain.variables]
        data = self._operand(calls[0].args[chain.chained[0]], self.labels[chain.variables[0]])
        links = []
        for variable, call, chained in zip(chain.variables, calls, chain.chained, strict=True):
            other = ""
            if dialect.name_of(call) in BINARY and constant(self.view.value(call.args[1 - chained])) is None:
                other = self._operand(call.args[1 - chained], self.labels[variable])
            links.append(Link(self.labels[variable], call, chained, other))
        return data, links

    def _bind_chain(self, chain: Chain) -> bool:
        """Operators that run in bands of rows as one; False when they cannot."""
        data, links = self._links(chain)
        output = self._unique(links[-1].label)
        self.ctx.repeats = 1
        rows = self.chains[chain]
        if not lower_bands(self.ctx, links, data, output, [rows] if rows else BANDS):
            return False
        self.names[chain.variables[-1]] = self.ctx.tensor(output, chain.variables[-1])
        return True

    def on_trial(self, chain: Chain, rows: int) -> Call | None:
        """See :meth:`NetworkBuilder.chain_call`."""
        data, links = self._links(chain)
        trial = self.ctx.fork()
        trial.forms, trial.repeats, trial.sketch = WantedForms(self.ctx.forms.given), 1, True
        output = self.names[chain.variables[-1]]
        return trial.library.calls[-1] if lower_bands(trial, links, data, output, [rows]) else None

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
        if name == "v.slice":
            self.names[variable] = self._view(
                self._operand(value.args[0], label), variable, label, dialect.attributes(value)["offset"]
            )
            return
        if name == "v.concat":
            self._concatenate(variable, value, label)
            return
        if name == "v.fill":
            # Written where the concatenation wants it.
            self.fills[variable] = value
            return
        count = tensors_of(value)
        if count is None:
            raise UnsupportedOperatorError(
                f"{self.library.provenance.file_name}: operator {name} at '{label}' has no kernel",
            )
        output = self._unique(label)
        operands = [
            "" if name in BINARY and constant(self.view.value(argument)) is not None else self._operand(argument, label)
            for argument in value.args[:count]
        ]
        self.ctx.tensor(output, variable)
        lower_operator(self.ctx, value, label, operands, output)
        self.names[variable] = output

    def _view(self, data: str, variable: relax.Expr, label: str, offset: int) -> str:
        """A tensor so many bytes into another."""
        alias = self._unique(label)
        self.library.aliases[alias] = data
        if offset:
            self.library.alias_offsets[alias] = offset
        return self.ctx.tensor(alias, variable)

    def _concatenate(self, variable: relax.Var, value: relax.Call, label: str) -> None:
        """A tensor whose parts are made where they belong, or copied there."""
        output = self._unique(label)
        self.ctx.tensor(output, variable)
        offset = 0
        for part in value.args:
            if part in self.fills:
                offset += self._fill(label, self.fills[part], self._view(output, part, f"{label}.part", offset))
                continue
            name = self._operand(part, label)
            tensor = self.library.tensors[name]
            if offset % self.library.arena_alignment == 0 and self._may_move(name):
                self.library.aliases[name] = output
                self.library.alias_offsets[name] = offset
            else:
                place = self._view(output, part, f"{label}.part", offset)
                count = int(np.prod(tensor.shape, dtype=np.int64))
                self._add_copy(label, tensor_argument(name, tensor.dtype), (name,), place, count, tensor.dtype)
            offset += tensor.size
        self.names[variable] = output

    def _fill(self, label: str, call: relax.Call, place: str) -> int:
        """Write one value all over ``place``; gives its bytes."""
        tensor, value = self.library.tensors[place], dialect.attributes(call)["value"]
        count = int(np.prod(tensor.shape, dtype=np.int64))
        number = f"{float(value).hex()}f" if tensor.dtype.startswith("float") else str(int(value))
        text = self.ctx.render("fill.c.j2", ctype=CTYPES[tensor.dtype], count=count, value=number)
        kernel = self.ctx.kernel(f"fill_{tensor.dtype}_{count}", text, uses_float=tensor.dtype.startswith("float"))
        self.ctx.add_call(Call("fill", label, kernel.name, (tensor_argument(place, tensor.dtype),), (), (place,)))
        return tensor.size

    def _may_move(self, name: str) -> bool:
        """Whether a tensor is a buffer of its own that an operator makes, and no part of another yet."""
        given = {*self.library.input_tensors, *(state.tensor for state in self.library.states)}
        return name not in self.library.aliases and name not in given

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
        """The tensor of a model output: of its own, so that applications may place it; what is none is copied."""
        name = self._operand(expr, f"output_{position}")
        root = self.library.root(name)
        taken = {self.library.root(other) for other in self.library.output_tensors}
        kept = {*self.library.input_tensors, *(state.tensor for state in self.library.states)}
        if root not in taken and root not in kept and self.library.movable(name):
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
