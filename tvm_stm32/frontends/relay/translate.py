"""Translation of a Relay module to a Relax module: evaluates the functions, emitting operators into one dataflow block.

Functions are inlined, tuples and projections disappear, ``if`` on a value becomes ``where``. Plain operators become the
Relax operators of the same meaning. ``qnn`` operators become calls of the integer dialect, in which a scale is an int32
multiplier M and a shift s (real = M * 2**(s - 31)), with these arguments and attributes:

* ``qnn.conv2d``(data, weight): strides, padding (top, left, bottom, right), dilation, groups, data_layout,
  kernel_layout, input_zero_point, kernel_zero_point, input_scale, kernel_scale (list). The weight keeps Relay's shape,
  that is (KH, KW, C, multiplier) for a depthwise HWOI. Result int32 in data_layout.
* ``qnn.dense``(data, weight[units, K]): input_zero_point, kernel_zero_point, input_scale, kernel_scale. Result int32.
* ``qnn.requantize``(data, multiplier, shift): int32 constants of 1 or C elements along ``axis``; input_zero_point,
  output_zero_point, rounding (``upward`` or ``tonearest``), input_scale, output_scale (informative).
* ``qnn.quantize``(data) and ``qnn.dequantize``(data): scale, zero_point (lists of 1 or C), axis.
* ``qnn.add`` and ``qnn.subtract``(lhs, rhs): lhs_multiplier, lhs_shift, lhs_zero_point, lhs_identity, the same of rhs,
  output_zero_point. An operand whose ``identity`` is true is used as it is, any other one is requantized to int32
  without a clip. Result is the clipped (lhs' + rhs' - output_zero_point), or (lhs' - rhs' + output_zero_point).
* ``qnn.mul``(lhs, rhs): lhs_zero_point, rhs_zero_point, multiplier, shift, output_zero_point.
* ``qnn.concatenate``(tensors...): axis; multipliers, shifts, zero_points, identities (one each a tensor),
  output_zero_point. Each tensor is requantized into its own dtype first, unless its identity is true.
* ``qnn.batch_matmul``(lhs, rhs): lhs_zero_point, rhs_zero_point, transpose_a, transpose_b. Result int32.
* ``qnn.table``(data, table): an 8-bit function; entry i of the 256 is the result for the i-th lowest input value.
* ``qnn.steps``(data, thresholds): ``lowest`` plus the number of ``thresholds`` that int32 data reach.

Every one also has out_shape and out_dtype. All roundings are ``upward`` (ties towards plus infinity) unless said.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np
from tvm import IRModule, relax

from ...errors import ModelError, UnsupportedOperatorError
from ...model import Numerics, TensorInfo
from . import ast, binding, constructs, fold, interface, operators
from .attributes import Attributes
from .interface import Shapes
from .json_graph import NodeGraph
from .operator import Application, Emitter, UnknownValueError
from .source import Source
from .values import Closure, Constant, Data, OperatorValue, Scope, Tensor, Value, describe, elements

_MAX_DEPTH = 180
_MAX_APPLICATIONS = 1 << 16
_MAX_TUPLE_DEPTH = 16
_EXTERNAL = "its code is not in the file"


@dataclass
class Translation:
    """A Relax module and what is known about its ``main``."""

    module: IRModule
    inputs: list[TensorInfo]
    outputs: list[TensorInfo]
    numerics: Numerics
    notes: list[str] = field(default_factory=list)


def translate(
    source: Source,
    module: ast.Module,
    metadata: NodeGraph,
    arrays: dict[str, np.ndarray],
    params_file: str = "",
    shapes: Shapes | None = None,
) -> Translation:
    """Translate ``@main`` of ``module``, its parameters bound to ``arrays`` where they fit.

    ``params_file`` is the file name ``arrays`` come from, for messages; ``shapes`` are those of inputs whose extents
    the file leaves open. Raises ``ModelError``.
    """
    main = _main(source, module)
    bound, unused = binding.bind(source, main.parameters, arrays)
    interface.check_shapes(source, [p for p in main.parameters if p.name not in bound], shapes or {})
    translator = _Translator(source, module, metadata, shapes or {})
    if unused:
        shown = ", ".join(unused[:8]) + (", ..." if len(unused) > 8 else "")
        translator.emitter.notes.append(f"{len(unused)} values of {params_file} are not used: {shown}")
    return translator.run(main, bound, params_file)


def _main(source: Source, module: ast.Module) -> ast.Function:
    if "main" in module.functions:
        return module.functions["main"]
    if len(module.functions) == 1:
        return next(iter(module.functions.values()))
    found = ", ".join(f"@{name}" for name in list(module.functions)[:8]) or "no function"
    raise source.error(0, "the module has no @main", why=f"it defines {found}")


class _Translator:
    def __init__(self, source: Source, module: ast.Module, metadata: NodeGraph, shapes: Shapes) -> None:
        self._source = source
        self._module = module
        self._metadata = metadata
        self._shapes = shapes
        self._active: list[tuple[ast.Function, int]] = []
        self._depth = 0
        self._branches = 0
        self._applications = 0
        self._constants: dict[tuple[str, int], Constant] = {}
        self.emitter = Emitter(source, relax.BlockBuilder())

    def run(self, main: ast.Function, bound: dict[str, np.ndarray], params_file: str) -> Translation:
        scope = Scope()
        inputs: list[tuple[ast.Parameter, Tensor]] = []
        for parameter in main.parameters:
            if parameter.name in bound:
                scope.names[parameter.name] = Constant(bound[parameter.name], parameter.name)
            else:
                tensor = interface.input_tensor(self._source, parameter, self._shapes, self.emitter.notes)
                inputs.append((parameter, tensor))
                scope.names[parameter.name] = tensor
        results, failure = self._build(main, scope, [tensor for _, tensor in inputs])
        missing = [name for name in self.emitter.weights if name not in self.emitter.fed]
        if missing and (failure is None or isinstance(failure, UnknownValueError)):
            raise binding.missing_error(self._source, main.at, missing, params_file) from failure
        if failure is not None:
            raise failure
        return Translation(
            self.emitter.builder.get(),
            [
                interface.input_info(parameter, tensor, self.emitter.input_quantization.get(parameter.name))
                for parameter, tensor in inputs
            ],
            interface.output_infos(main, results),
            "relay" if self.emitter.integer else "float",
            self.emitter.notes,
        )

    def _build(
        self, main: ast.Function, scope: Scope, inputs: list[Tensor]
    ) -> tuple[list[Tensor | Constant], Exception | None]:
        # A failure is handed out rather than raised through the builder, which would complain on stderr about blocks
        # that were not finished.
        builder = self.emitter.builder
        results: list[Tensor | Constant] = []
        failure: Exception | None = None
        with builder.function("main", [tensor.expr for tensor in inputs]):
            with builder.dataflow():
                try:
                    self._active.append((main, main.at))
                    value = self._evaluate(main.body, scope)
                    results = interface.flatten(self._source, value, main.at)
                except Exception as error:
                    failure = error
                exprs = [result.expr for result in results]
                single = exprs[0] if len(exprs) == 1 else relax.Tuple(exprs)
                output = builder.emit_output(single)
            builder.emit_func_output(output)
        return results, failure

    def _evaluate(self, expr: ast.Expr, scope: Scope) -> Value:
        if self._depth >= _MAX_DEPTH:
            raise self._too_deep(expr.at)
        self._depth += 1
        value = self._dispatch(expr, scope)
        self._depth -= 1
        return value

    def _dispatch(self, expr: ast.Expr, scope: Scope) -> Value:
        if isinstance(expr, ast.Call):
            return self._call(expr, scope)
        if isinstance(expr, ast.Local):
            value = scope.find(expr.name)
            if value is None:
                raise self._source.error(expr.at, f"%{expr.name} is not defined here")
            return value
        if isinstance(expr, ast.Block):
            inner = Scope(scope)
            for statement in expr.statements:
                value = self._evaluate(statement.value, inner)
                if statement.name:
                    inner.names[statement.name] = value
            return self._evaluate(expr.value, inner)
        if isinstance(expr, ast.Literal):
            return Constant(expr.value)
        if isinstance(expr, ast.Meta):
            return self._constant(expr)
        if isinstance(expr, ast.Tuple):
            return tuple(self._evaluate(item, scope) for item in expr.fields)
        if isinstance(expr, ast.Projection):
            return self._project(expr, scope)
        if isinstance(expr, ast.Function):
            return Closure(expr, scope)
        if isinstance(expr, ast.Global):
            return self._global(expr)
        if isinstance(expr, ast.If):
            return self._if(expr, scope)
        if isinstance(expr, ast.Chain):
            return self._chain(expr, scope)
        if isinstance(expr, ast.OperatorName):
            wanted = self._module.constructors.get(expr.name)
            if wanted is None:
                return OperatorValue(expr.name)
            # The printer leaves the parentheses off a constructor without fields.
            return Data(expr.name, () if wanted == 0 else None)
        if isinstance(expr, ast.Reference):
            args = [self._evaluate(arg, scope) for arg in expr.args]
            return constructs.reference(self._source, expr, args, self._branches)
        if isinstance(expr, ast.Match):
            inner = Scope(scope)
            inner.names, clause = constructs.chosen(self._source, expr, self._evaluate(expr.value, scope))
            return self._evaluate(clause, inner)
        return self._refuse(expr.what, expr.at, _EXTERNAL)

    def _too_deep(self, at: int) -> ModelError:
        functions = [function for function, _ in self._active]
        for function, place in reversed(self._active):
            if sum(other is function for other in functions) > 1:
                return self._source.error(
                    place,
                    f"recursion{f' (@{function.name})' if function.name else ''} cannot be compiled",
                    why="functions are inlined, and this one calls itself without a known or near end",
                )
        return self._source.error(at, f"functions and expressions nest more than {_MAX_DEPTH} levels deep")

    def _refuse(self, what: str, at: int, why: str) -> NoReturn:
        raise self._source.error(at, f"{what} cannot be compiled", why=why)

    def _constant(self, reference: ast.Meta) -> Constant:
        key = (reference.key, reference.index)
        if key not in self._constants:
            array = self._metadata.constant(reference)
            if array is None:
                raise self._source.error(reference.at, f"meta[{reference.key}][{reference.index}] is no constant")
            self._constants[key] = Constant(array)
        return self._constants[key]

    def _project(self, expr: ast.Projection, scope: Scope) -> Value:
        value = self._evaluate(expr.value, scope)
        if not isinstance(value, tuple):
            raise self._source.error(expr.at, f"projection .{expr.index} of {describe(value)}")
        if expr.index >= len(value):
            raise self._source.error(expr.at, f"projection .{expr.index} of a tuple with {len(value)} fields")
        return value[expr.index]

    def _global(self, expr: ast.Global) -> Closure:
        function = self._module.functions.get(expr.name)
        if function is None:
            raise self._source.error(expr.at, f"@{expr.name} is not defined")
        return Closure(function, Scope())

    def _chain(self, expr: ast.Chain, scope: Scope) -> Value:
        value = self._evaluate(expr.first, scope)
        for name, operand, at in expr.rest:
            value = self._apply_operator(name, [value, self._evaluate(operand, scope)], {}, at, "")
        return value

    def _if(self, expr: ast.If, scope: Scope) -> Value:
        condition = self._evaluate(expr.condition, scope)
        if not isinstance(condition, Tensor | Constant) or condition.dtype != "bool" or elements(condition.shape) != 1:
            raise self._source.error(expr.at, f"the condition is {describe(condition)}, not a single bool")
        if isinstance(condition, Constant):
            return self._evaluate(expr.then if condition.array.any() else expr.otherwise, scope)
        self._branches += 1
        then = self._evaluate(expr.then, scope)
        otherwise = self._evaluate(expr.otherwise, scope)
        self._branches -= 1
        self.emitter.note(f"{self._source.where(expr.at)}: both branches of an if are computed, its condition selects")
        return self._select(condition, then, otherwise, expr.at, 0)

    def _select(self, condition: Tensor, then: Value, otherwise: Value, at: int, depth: int) -> Value:
        self._count(at)
        if depth > _MAX_TUPLE_DEPTH:
            raise self._source.error(at, f"the branches are tuples of more than {_MAX_TUPLE_DEPTH} levels")
        if isinstance(then, tuple) and isinstance(otherwise, tuple) and len(then) == len(otherwise):
            pairs = zip(then, otherwise, strict=True)
            return tuple(self._select(condition, one, other, at, depth + 1) for one, other in pairs)
        if (
            not isinstance(then, Tensor | Constant)
            or not isinstance(otherwise, Tensor | Constant)
            or (then.shape, then.dtype) != (otherwise.shape, otherwise.dtype)
        ):
            raise self._source.error(at, f"the branches are {describe(then)} and {describe(otherwise)}")
        return self._apply_operator("where", [condition, then, otherwise], {}, at, "")

    def _call(self, expr: ast.Call, scope: Scope) -> Value:
        if isinstance(expr.callee, ast.OperatorName) and expr.callee.name not in self._module.constructors:
            args, attrs = self._arguments(expr, scope)
            return self._apply_operator(expr.callee.name, args, attrs, expr.at, expr.span)
        callee = self._evaluate(expr.callee, scope)
        args, attrs = self._arguments(expr, scope)
        if isinstance(callee, OperatorValue):
            return self._apply_operator(callee.name, args, attrs, expr.at, expr.span)
        if isinstance(callee, Data) and (callee.fields is None or not args):
            wanted = self._module.constructors[callee.constructor]
            return constructs.constructed(self._source, callee.constructor, wanted, args, expr.at)
        if not isinstance(callee, Closure):
            raise self._source.error(expr.at, f"{describe(callee)} is called")
        return self._apply_function(callee, args, expr.at)

    def _arguments(self, expr: ast.Call, scope: Scope) -> tuple[list[Value], dict[str, ast.Attribute]]:
        args, attrs = expr.args, expr.attrs
        last = args[-1] if args else None
        if isinstance(last, ast.Meta) and not attrs and (found := self._metadata.attributes(last)) is not None:
            args, attrs = args[:-1], found
        return [self._evaluate(arg, scope) for arg in args], attrs

    def _count(self, at: int) -> None:
        self._applications += 1
        if self._applications > _MAX_APPLICATIONS:
            raise self._source.error(at, f"inlining the functions gives more than {_MAX_APPLICATIONS} operators")

    def _apply_function(self, closure: Closure, args: list[Value], at: int) -> Value:
        function = closure.function
        self._count(at)
        if isinstance(function.body, ast.Unsupported):
            self._refuse(f"@{function.name}", at, _EXTERNAL)
        if len(args) != len(function.parameters):
            raise self._source.error(at, f"{len(args)} arguments for {len(function.parameters)} parameters")
        scope = Scope(closure.scope)
        for parameter, arg in zip(function.parameters, args, strict=True):
            scope.names[parameter.name] = arg
        self._active.append((function, at))
        value = self._evaluate(function.body, scope)
        self._active.pop()
        return value

    def _apply_operator(
        self, name: str, args: list[Value], attrs: dict[str, ast.Attribute], at: int, span: str
    ) -> Value:
        self._count(at)
        attributes = Attributes(self._source, self._metadata, name, at, attrs)
        application = Application(self.emitter, name, args, attributes, at, span)
        function = operators.find(name)
        if function is None:
            raise self._source.error(
                at,
                f"operator {name} is not supported",
                why=operators.REASONS.get(name, ""),
                hint="replace it by other operators before the module is saved",
                kind=UnsupportedOperatorError,
            )
        try:
            folded = fold.fold(application)
            return function(application) if folded is None else folded
        except ModelError:
            raise
        except (RuntimeError, ValueError, TypeError, IndexError, OverflowError) as error:
            # Relax checks shapes and dtypes when a call is made; what it says belongs to this place of the file.
            types = ", ".join(describe(arg) for arg in args)
            said = [line for line in str(error).splitlines() if line.strip()]
            raise application.fail(f"cannot be applied to {types}", why=said[-1].strip() if said else "") from error
