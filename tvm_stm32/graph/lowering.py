"""Lowering: plain Relax operators become ``call_tir`` of fused PrimFuncs.

Calls of the project's own operators (``q.*``) and of other functions of the module pass through untouched. Operators
that only give a tensor another shape become ``relax.reshape``, which callers turn into aliases: no kernel, no copy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tvm
from tvm import ir, relax, tirx

from ..errors import UnsupportedOperatorError
from .dialect import name_of
from .loops import RULES
from .naming import is_made_up

_RESHAPES = frozenset(
    {"relax.reshape", "relax.flatten", "relax.squeeze", "relax.expand_dims", "relax.nn.batch_flatten"}
)
_IDENTITIES = frozenset({"relax.astype", "relax.broadcast_to", "relax.builtin.stop_lift_params"})
_DTYPES = frozenset({"float32", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"})

# Elements that folding may add to a model.
_MOST_FOLDED = 1 << 24

# Folded here when every argument is a constant: numpy rounds these exactly as the generated C would, and compiling a
# function for each (what FoldConstant does) would take longer than the rest of the lowering together.
_FOLDERS: dict[str, Callable[..., Any]] = {
    "relax.add": np.add,
    "relax.subtract": np.subtract,
    "relax.multiply": np.multiply,
    "relax.maximum": np.maximum,
    "relax.minimum": np.minimum,
    "relax.negative": np.negative,
    "relax.sqrt": np.sqrt,
    "relax.rsqrt": lambda x: np.float32(1) / np.sqrt(x),
}


def lower_to_tir(module: ir.IRModule) -> ir.IRModule:
    """Turn every plain Relax operator of ``main`` into ``R.call_tir`` of a fused PrimFunc.

    ``main`` comes back as one dataflow block whose bindings are ``call_tir``, ``relax.reshape`` (aliases), tuple
    projections, and whatever was opaque before. Binding variables keep their names; a fused group bears that of its
    last operator. Shapes must be static, element types integers, bool or float32. Raises
    :class:`UnsupportedOperatorError` naming operator and variable.
    """
    others = {
        var: function
        for var, function in module.functions.items()
        if var.name_hint != "main" and not isinstance(function, tirx.PrimFunc)
    }
    module = _legalize(simplified(ir.IRModule({v: f for v, f in module.functions.items() if v not in others})))
    if _has_constant_calls(module["main"]):
        module = _simplify(relax.transform.FoldConstant()(module))
    module = tvm.transform.Sequential(
        [relax.transform.DeadCodeElimination(["main"]), relax.transform.AnnotateTIROpPattern()]
    )(module)
    fused = relax.transform.FuseOps()(module)
    fused = _rebuild(fused, names=_source_names(module["main"], fused))
    passes = [
        relax.transform.FuseTIR(),
        relax.transform.CanonicalizeBindings(),
        relax.transform.DeadCodeElimination(["main"]),
    ]
    lowered = tvm.transform.Sequential(passes)(fused)
    return ir.IRModule({**dict(lowered.functions.items()), **others})


def simplified(module: ir.IRModule) -> ir.IRModule:
    """``main`` without batch norms and the like, with cheap operators on constants folded."""
    return _simplify(relax.transform.DecomposeOpsForInference("main")(module))


def _bindings(function: relax.Function) -> Iterator[relax.VarBinding]:
    for block in function.body.blocks:
        for binding in block.bindings:
            if isinstance(binding, relax.MatchCast) or isinstance(binding.value, relax.If):
                raise UnsupportedOperatorError(
                    f"'{binding.var.name}' depends on values that are only known while the model runs",
                    why="memory and the order of operators are planned when the model is compiled",
                    hint="export the model with fixed input shapes and without control flow",
                )
            yield binding


def _shape(expr: relax.Expr) -> tuple[int, ...] | None:
    """Static shape of a tensor expression; None when it is unknown or not a tensor."""
    shape = getattr(expr.ty, "shape", None)
    if not isinstance(shape, relax.ShapeExpr):
        return None
    if not all(isinstance(extent, tvm.tirx.IntImm) for extent in shape.values):
        return None
    return tuple(int(extent) for extent in shape.values)


def _array(expr: relax.Expr) -> np.ndarray | None:
    return np.asarray(expr.value.numpy()) if isinstance(expr, ir.GenericConst) else None


def _rebuild(
    module: ir.IRModule,
    rewrite: Callable[[relax.Expr], relax.Expr] = lambda value: value,
    names: dict[relax.Var, str] | None = None,
) -> ir.IRModule:
    """``main`` as one dataflow block with every bound value rewritten and variables renamed.

    Variables whose value becomes a variable, tuple or constant disappear.
    """
    main = module["main"]
    rest = ir.IRModule({var: function for var, function in module.functions.items() if var.name_hint != "main"})
    builder = relax.BlockBuilder(rest)
    known: dict[relax.Var, relax.Expr] = {}
    exported: set[relax.Var] = set()
    outputs = _output_variables(main)

    def resolve(expr: relax.Expr) -> relax.Expr:
        if isinstance(expr, relax.Var):
            return known.get(expr, expr)
        if isinstance(expr, relax.Tuple):
            return relax.Tuple([resolve(field) for field in expr.fields])
        if isinstance(expr, relax.TupleGetItem):
            source = resolve(expr.tuple_value)
            if isinstance(source, relax.Tuple):
                return source.fields[expr.index]
            return relax.TupleGetItem(source, expr.index)
        if isinstance(expr, relax.Call):
            return relax.Call(expr.op, [resolve(arg) for arg in expr.args], expr.attrs, expr.ty_args, expr.span)
        return expr

    def export(expr: relax.Expr) -> relax.Expr:
        if isinstance(expr, relax.Tuple):
            return relax.Tuple([export(field) for field in expr.fields])
        return expr if expr in exported else builder.emit_output(expr, "output")

    with builder.function("main", list(main.params), attrs=_plain_attributes(main)):
        with builder.dataflow():
            for binding in _bindings(main):
                value = rewrite(builder.normalize(resolve(binding.value)))
                name = (names or {}).get(binding.var, binding.var.name)
                if isinstance(value, relax.Var | relax.Tuple) or _array(value) is not None:
                    known[binding.var] = value
                elif binding.var in outputs:
                    known[binding.var] = builder.emit_output(value, name)
                    exported.add(known[binding.var])
                else:
                    known[binding.var] = builder.emit(value, name)
            output = export(resolve(main.body.body))
        builder.emit_func_output(output)
    return builder.finalize()


def _output_variables(function: relax.Function) -> set[relax.Var]:
    """Variables a function returns, alone or in a tuple."""
    definitions = {binding.var: binding.value for binding in _bindings(function)}
    found: set[relax.Var] = set()
    open_ = [function.body.body]
    while open_:
        expr = open_.pop()
        if isinstance(expr, relax.Tuple):
            open_.extend(expr.fields)
        elif isinstance(expr, relax.Var):
            value = definitions.get(expr)
            if isinstance(value, relax.Tuple | relax.Var):
                open_.append(value)
            else:
                found.add(expr)
    return found


def _simplify(module: ir.IRModule) -> ir.IRModule:
    """Fold cheap operators on constants, make reshapes uniform and drop identities, in one pass over ``main``."""
    grown = 0

    def simplified(value: relax.Expr) -> relax.Expr:
        nonlocal grown
        shape = _shape(value)
        if shape is not None and isinstance(value, relax.Call):
            # Folding a broadcast makes more than was there; all of it together is bounded.
            more = math.prod(shape) - max((math.prod(_shape(a) or (0,)) for a in value.args), default=0)
            if grown + max(0, more) > _MOST_FOLDED:
                return value
            result = _simplify_call(value)
            grown += max(0, more) if isinstance(result, ir.GenericConst) else 0
            return result
        return _simplify_call(value)

    return _rebuild(module, simplified)


def _plain_attributes(function: relax.Function) -> dict[str, Any]:
    # Front ends attach the weights once more as "params"; they are constants of the body already.
    return {key: value for key, value in (function.attrs or {}).items() if key not in ("params", "global_symbol")}


def _simplify_call(value: relax.Expr) -> relax.Expr:
    """The value itself, a constant, or a ``relax.reshape`` in its place."""
    name, shape = name_of(value), _shape(value)
    if not name.startswith("relax.") or shape is None or not value.args:
        return value
    source = value.args[0]
    if name == "relax.permute_dims" and _moves_unit_axes_only(value):
        name = "relax.reshape"
    if name in _IDENTITIES and _shape(source) == shape and source.ty.dtype == value.ty.dtype:
        return source
    arrays = [_array(argument) for argument in value.args if not isinstance(argument, relax.ShapeExpr)]
    if all(array is not None for array in arrays):
        return _fold(name, value, shape, arrays)
    return relax.op.reshape(source, shape) if name in _RESHAPES else value


def _fold(name: str, call: relax.Call, shape: tuple[int, ...], arrays: list[Any]) -> relax.Expr:
    if name in _RESHAPES:
        result = arrays[0].reshape(shape)
    elif name == "relax.permute_dims":
        axes = call.attrs.axes
        result = np.transpose(arrays[0], None if axes is None else [int(axis) for axis in axes])
    elif name == "relax.dequantize" and str(call.ty.dtype) == "float32":
        result = _dequantize(arrays[0], arrays[1], arrays[2], int(call.attrs.axis))
    elif name == "relax.astype":
        with np.errstate(invalid="ignore"):
            result = arrays[0].astype(str(call.ty.dtype))
    elif name in _FOLDERS and all(array.dtype == arrays[0].dtype for array in arrays):
        with np.errstate(all="ignore"):
            result = _FOLDERS[name](*arrays)
    else:
        return call
    return relax.const(np.ascontiguousarray(result).reshape(shape), str(call.ty.dtype))


def _dequantize(data: np.ndarray, scale: np.ndarray, zero_point: np.ndarray, axis: int) -> np.ndarray:
    """``(data - zero_point) * scale``, as the compiled operator rounds it."""
    shape = [1] * data.ndim
    shape[axis] = -1
    kind = np.float32 if data.dtype == np.float32 else np.int32
    steps = data.astype(kind) - zero_point.astype(kind).reshape(shape)
    return steps.astype(np.float32) * scale.astype(np.float32).reshape(shape)


def _moves_unit_axes_only(call: relax.Call) -> bool:
    source = _shape(call.args[0])
    if source is None:
        return False
    axes = call.attrs.axes
    order = [int(axis) % len(source) for axis in axes] if axes is not None else list(range(len(source)))[::-1]
    moved = [axis for axis in order if source[axis] != 1]
    return moved == sorted(moved)


def _legalize(module: ir.IRModule) -> ir.IRModule:
    """Replace every plain operator except ``relax.reshape`` by ``call_tir``."""
    main = module["main"]
    for binding in _bindings(main):
        _check_types(main, binding)
    try:
        module = _legalize_pass(module)
    except Exception as error:
        culprit = _first_failing(module)
        if culprit is None:
            raise
        raise _unsupported(main, culprit, "no rule turns this variant into loops") from error
    for binding in _bindings(module["main"]):
        name = name_of(binding.value)
        is_packed = isinstance(binding.value, relax.Call) and isinstance(binding.value.op, relax.ExternFunc)
        if is_packed or (name.startswith("relax.") and name not in ("relax.call_tir", "relax.reshape")):
            raise _unsupported(module["main"], binding, "no rule turns this operator into loops")
    return module


def _legalize_pass(module: ir.IRModule) -> ir.IRModule:
    return relax.transform.LegalizeOps(RULES, ["relax.reshape"])(module)


def _check_types(main: relax.Function, binding: relax.VarBinding) -> None:
    """Plain operators work on static shapes and element types Cortex-M has instructions (or small routines) for."""
    name = name_of(binding.value)
    if not name.startswith("relax.") or name == "relax.call_tir":
        return
    types = list(binding.var.ty.fields) if isinstance(binding.var.ty, relax.TupleType) else [binding.var.ty]
    for type_ in types:
        if isinstance(type_, relax.TensorType) and str(type_.dtype) not in _DTYPES:
            raise _unsupported(
                main,
                binding,
                f"its result has element type {type_.dtype}",
                f"convert the model to float32 or integers (supported: {', '.join(sorted(_DTYPES))})",
            )
        if isinstance(type_, relax.TensorType) and _shape(relax.Var("result", type_)) is None:
            raise _unsupported(
                main, binding, "its result has no fixed shape", "export the model with fixed input shapes"
            )


def _first_failing(module: ir.IRModule) -> relax.VarBinding | None:
    """The first binding of ``main`` that cannot be legalized on its own."""
    for binding in _bindings(module["main"]):
        if not name_of(binding.value).startswith("relax."):
            continue
        builder = relax.BlockBuilder()
        variables = relax.analysis.free_vars(binding.value)
        with builder.function("main", list(variables)):
            with builder.dataflow():
                output = builder.emit_output(binding.value)
            builder.emit_func_output(output)
        try:
            _legalize_pass(builder.finalize())
        except Exception:
            return binding
    return None


def _unsupported(main: relax.Function, binding: relax.VarBinding, why: str, hint: str = "") -> UnsupportedOperatorError:
    value = binding.value
    name = name_of(value) or (str(value.op.global_symbol) if isinstance(value.op, relax.ExternFunc) else str(value.op))
    return UnsupportedOperatorError(
        f"operator '{name.removeprefix('relax.')}' of '{_label(main, binding.var)}' cannot be compiled",
        why=why,
        hint=hint or "replace the operator in the model, or give it to an external compiler",
    )


def _label(main: relax.Function, variable: relax.Var) -> str:
    """The variable's name, or of those computed from it the first name that is the user's."""
    reached = {variable}
    for binding in _bindings(main):
        parts = [part for part in _parts(binding.value) if isinstance(part, relax.Var)]
        if binding.var in reached or any(part in reached for part in parts):
            if not is_made_up(binding.var.name):
                return str(binding.var.name)
            reached.add(binding.var)
    return str(variable.name)


def _has_constant_calls(function: relax.Function) -> bool:
    """Whether folding is worth it: something is known now, and what is known takes no more room than may be spent."""
    size, known = 0, set()
    for binding in _bindings(function):
        if name_of(binding.value) != "relax.call_tir":
            continue
        arguments = list(binding.value.args[1].fields)
        if arguments and all(_array(argument) is not None or argument in known for argument in arguments):
            known.add(binding.var)
            size += math.prod(_shape(binding.var) or (0,))
    return bool(known) and size <= _MOST_FOLDED


def _source_names(before: relax.Function, after: ir.IRModule) -> dict[relax.Var, str]:
    """Names for the variables of a fused ``main``: FuseOps numbers them, users know the operator a group ends with.

    Walks the fused module and the one before in lockstep, from the outputs to the inputs: a fused call's arguments
    stand for the variables that the inner function's parameters stand for.
    """
    functions = dict(after.functions.items())
    old = {binding.var: binding.value for binding in _bindings(before)}
    new = {binding.var: binding.value for binding in _bindings(after["main"])}
    names: dict[relax.Var, str] = {}
    pairs = [(after["main"].body.body, before.body.body)]  # expressions that compute the same
    while pairs:
        left, right = pairs.pop()
        if isinstance(left, relax.Tuple) and isinstance(right, relax.Tuple):
            pairs.extend(zip(left.fields, right.fields, strict=True))
        if not isinstance(left, relax.Var) or not isinstance(right, relax.Var) or left in names or left not in new:
            continue
        names[left] = right.name
        value, source = new[left], old.get(right)
        index = None
        if isinstance(value, relax.TupleGetItem):
            index, value = value.index, new.get(value.tuple_value)
        function = functions.get(value.op) if isinstance(value, relax.Call) else None
        if isinstance(function, relax.Function):
            pairs.extend(_argument_pairs(function, list(value.args), index, right, old))
        else:
            if index is not None and isinstance(source, relax.TupleGetItem):
                source = old.get(source.tuple_value)
            pairs.extend(zip(_parts(value), _parts(source), strict=False))
    return names


def _argument_pairs(
    group: relax.Function,
    arguments: list[relax.Expr],
    index: int | None,
    result: relax.Var,
    old: dict[relax.Var, relax.Expr],
) -> list[tuple[relax.Expr, relax.Expr]]:
    """Arguments of a fused call paired with variables of the unfused function; output ``index`` is ``result``."""
    inner = {binding.var: binding.value for binding in _bindings(group)}
    outer = dict(zip(group.params, arguments, strict=True))
    output = group.body.body
    if index is not None:
        output = inner.get(output, output)
        output = output.fields[index] if isinstance(output, relax.Tuple) else output
    pairs = []
    seen: set[relax.Var] = set()
    stack = [(output, result)]
    while stack:
        left, right = stack.pop()
        if not isinstance(left, relax.Var) or left in seen:
            continue
        seen.add(left)
        if left in outer:
            pairs.append((outer[left], right))
        elif left in inner and isinstance(right, relax.Var):
            stack.extend(zip(_parts(inner[left]), _parts(old.get(right)), strict=False))
    return pairs


def _parts(value: relax.Expr | None) -> list[relax.Expr]:
    """Tensors an expression is computed from."""
    if isinstance(value, relax.TupleGetItem):
        return [value.tuple_value]
    if isinstance(value, relax.Tuple):
        return list(value.fields)
    if not isinstance(value, relax.Call):
        return [] if value is None else [value]
    return list(value.args[1].fields) if name_of(value) == "relax.call_tir" else list(value.args)
