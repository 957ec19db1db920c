"""One application of an operator, as the operator functions see it, and the registry of those functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from tvm import relax

from ...errors import ModelError, UnsupportedOperatorError
from ...graph import dialect, relay_tir
from ...model import Quantization
from ..binding import bind
from . import ast
from .attributes import Attributes
from .source import Source
from .values import MAX_ELEMENTS, Constant, Tensor, Value, computed_dtype, describe, elements

OperatorFunction = Callable[["Application"], Value]
OPERATORS: dict[str, OperatorFunction] = {}
"""Relay operator name -> translation."""

MAX_MADE = 1 << 24
"""Elements of all constants that are computed while a model is read, before giving up."""

DTYPES = frozenset(
    ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
)


_EXACT = frozenset(
    f"relax.{name}"
    for name in [
        *("reshape", "permute_dims", "strided_slice", "concat", "split", "take", "gather_elements", "gather_nd"),
        *("tile", "repeat", "flip", "broadcast_to", "maximum", "minimum", "max", "min", "where", "clip", "abs"),
        *("negative", "nn.relu", "nn.pad", "nn.max_pool2d", "floor", "ceil", "trunc", "sign"),
    ]
)
"""Operators whose result is a half when their arguments are."""


def operator(*names: str) -> Callable[[OperatorFunction], OperatorFunction]:
    """Register a function as the translation of the named Relay operators."""

    def register(function: OperatorFunction) -> OperatorFunction:
        for name in names:
            OPERATORS[name] = function
        return function

    return register


class UnknownValueError(ModelError):
    """An argument that must be constant is not: perhaps a weight whose value was not given."""


class Emitter:
    """Adds operators to the function being built and keeps what is learned on the way.

    ``weights`` are inputs that stand where a weight should be, ``fed`` those that stand where data should be.
    """

    def __init__(self, source: Source, builder: relax.BlockBuilder) -> None:
        self.source = source
        self.builder = builder
        self.integer = False
        self.input_quantization: dict[str, Quantization] = {}
        self.weights: dict[str, None] = {}
        self.fed: set[str] = set()
        self.notes: list[str] = []
        self._made = 0
        self._counts: dict[str, int] = {}

    def reserve(self, at: int, count: int) -> None:
        """Account for a constant of ``count`` elements that is not in the file; raises when they get too many."""
        self._made += count
        if self._made > MAX_MADE:
            raise self.source.error(at, f"the model computes constants of more than {MAX_MADE} elements")

    def note(self, text: str) -> None:
        """Add a remark for the report, once."""
        if text not in self.notes:
            self.notes.append(text)

    def hint(self, operator_name: str, span: str) -> str:
        """A variable's name: the first tensor name of the span, else operator and running number (``conv2d_3``)."""
        name = span.split(";")[0].strip()
        if name:
            return name
        stem = operator_name.rsplit(".", 1)[-1]
        number = self._counts.get(stem, 0)
        self._counts[stem] = number + 1
        return f"{stem}_{number}"


class Application:
    """An operator applied to arguments; everything an operator function needs.

    Readers of arguments raise ``ModelError`` naming operator and place when the argument is of the wrong kind.
    """

    def __init__(
        self, emitter: Emitter, name: str, args: Sequence[Value], attrs: Attributes, at: int, span: str
    ) -> None:
        self.emitter = emitter
        self.name = name
        self.args = args
        self.attrs = attrs
        self.at = at
        self.span = span
        fields = [part for arg in args for part in (arg if isinstance(arg, tuple) else (arg,))]
        self.half = any(isinstance(field, Tensor | Constant) and field.half for field in fields)

    def changed(
        self, args: Sequence[Value], attrs: Mapping[str, ast.Attribute] | None = None, name: str = ""
    ) -> Application:
        """The same application with other arguments, ``attrs`` on top of its own, and perhaps another name."""
        merged = self.attrs.with_values(attrs or {})
        return Application(self.emitter, name or self.name, args, merged, self.at, self.span)

    def fail(self, message: str, *, why: str = "", hint: str = "") -> ModelError:
        """An error about this application."""
        return self.emitter.source.error(self.at, f"{self.name}: {message}", why=why, hint=hint)

    def unsupported(self, message: str, *, hint: str = "") -> ModelError:
        """An error about a variant of this operator that is not covered."""
        return self.emitter.source.error(self.at, f"{self.name}: {message}", hint=hint, kind=UnsupportedOperatorError)

    def expect_args(self, least: int, most: int | None = None) -> None:
        """Check the number of arguments."""
        most = least if most is None else most
        if not least <= len(self.args) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            raise self.fail(f"{len(self.args)} arguments where {wanted} should be")

    def tensor(self, index: int) -> Tensor | Constant:
        """Argument ``index``, any tensor."""
        if index >= len(self.args):
            raise self.fail(f"argument {index + 1} is missing")
        value = self.args[index]
        if not isinstance(value, Tensor | Constant):
            raise self.fail(f"argument {index + 1} is {describe(value)}, not a tensor")
        if index == 0 and isinstance(value, Tensor):
            self.emitter.fed.add(value.origin)
        return value

    def expr(self, index: int) -> relax.Expr:
        """The Relax expression of argument ``index``."""
        return self.tensor(index).expr

    def tensors(self, index: int) -> list[Tensor | Constant]:
        """The fields of argument ``index``, a tuple of at least one tensor."""
        value = self.args[index] if index < len(self.args) else ()
        if not isinstance(value, tuple) or not value:
            raise self.fail(f"argument {index + 1} is not a tuple of tensors")
        fields = [field for field in value if isinstance(field, Tensor | Constant)]
        if len(fields) != len(value):
            raise self.fail(f"argument {index + 1} has fields that are no tensors")
        return fields

    def parameter(self, index: int) -> Tensor | Constant:
        """Argument ``index`` that is a weight: an input there is noted as a parameter without a value."""
        value = self.tensor(index)
        if isinstance(value, Tensor) and value.origin:
            self.emitter.weights[value.origin] = None
        return value

    def constant(self, index: int) -> np.ndarray:
        """The array of argument ``index``, which must be known now."""
        value = self.parameter(index)
        if not isinstance(value, Constant):
            message = f"{self.name}: argument {index + 1} is computed by the model"
            why = "it must be a constant, code is generated for its value"
            raise self.emitter.source.error(self.at, message, why=why, kind=UnknownValueError)
        return value.array

    def scalar(self, index: int) -> float | int:
        """The single element of constant argument ``index``."""
        array = self.constant(index)
        if array.size != 1:
            raise self.fail(f"argument {index + 1} has {array.size} elements where one should be")
        return array.reshape(-1)[0].item()  # type: ignore[no-any-return]

    def axis(self, axis: int, rank: int) -> int:
        """``axis`` as a non-negative number; raises when a tensor of ``rank`` lacks it."""
        if not -rank <= axis < rank:
            raise self.fail(f"axis {axis} of a tensor with {rank} dimensions")
        return axis % rank

    def emit(self, expr: relax.Expr) -> Tensor:
        """Add ``expr``, whose result is one tensor."""
        value = self.emit_any(expr)
        if not isinstance(value, Tensor):
            raise self.fail("the result is no tensor")
        return value

    def emit_any(self, expr: relax.Expr) -> Tensor | tuple[Tensor, ...]:
        """Add ``expr``; a tuple result comes back as the tuple of its fields."""
        variable = bind(self.emitter.builder, expr, self.emitter.hint(self.name, self.span))
        type_ = variable.ty
        if isinstance(type_, relax.TupleType):
            return tuple(self.emit(relax.TupleGetItem(variable, index)) for index in range(len(type_.fields)))
        if not isinstance(type_, relax.TensorType) or not isinstance(type_.shape, relax.ShapeExpr):
            raise self.fail("the shape of the result is not static")
        if not all(hasattr(extent, "value") for extent in type_.shape):
            raise self.fail("the shape of the result is not static")
        shape = tuple(int(extent) for extent in type_.shape)
        if any(extent < 1 for extent in shape) or elements(shape) > MAX_ELEMENTS:
            raise self.fail(f"the result has shape {shape}", why=f"1 to {MAX_ELEMENTS} elements are possible")
        if self.args and all(isinstance(arg, Constant) for arg in self.args):
            self.emitter.reserve(self.at, elements(shape))  # it is computed when the model is compiled
        result = Tensor(variable, shape, str(type_.dtype))
        if not self.half or result.dtype != "float32":
            return result
        if dialect.name_of(expr) not in _EXACT:
            return self.rounded_to_half(result)
        result.half = True
        return result

    def rounded_to_half(self, value: Tensor | Constant) -> Tensor:
        """A float32 value as float16 holds it."""
        rounded = relay_tir.call("relay.round_half", [value.expr], value.shape, "float32")
        variable = bind(self.emitter.builder, rounded, self.emitter.hint(self.name, self.span))
        return Tensor(variable, value.shape, "float32", half=True)

    def dialect(
        self,
        name: str,
        args: Sequence[relax.Expr],
        shape: Sequence[int],
        dtype: str,
        **attributes: object,
    ) -> Tensor:
        """Add a call of an operator of the dialect; those of ``qnn`` make the model a quantized one."""
        self.emitter.integer |= name.startswith("qnn.")
        if any(extent < 0 for extent in shape) or elements(tuple(shape)) > MAX_ELEMENTS:
            raise self.fail(f"the result has shape {tuple(shape)}")
        make = relay_tir.call if name in relay_tir.FUNCTIONS else dialect.call
        return self.emit(make(name, args, shape, dtype, **attributes))

    def dtype(self, key: str, default: str) -> str:
        """A dtype attribute, as what is computed in; empty means ``default``."""
        dtype = self.declared_dtype(key, default)
        if self.attrs.text(key, ""):
            self.half = dtype == "float16"
        computed = computed_dtype(dtype)
        if computed != dtype:
            self.emitter.note(f"{dtype} is computed in {computed}" + (", rounded to half" if self.half else ""))
        return computed

    def declared_dtype(self, key: str, default: str) -> str:
        """A dtype attribute as the file has it; empty means ``default``."""
        dtype = self.attrs.text(key, default) or default
        if dtype not in DTYPES:
            raise self.fail(f"unsupported dtype {dtype!r}", why=f"the known ones are {', '.join(sorted(DTYPES))}")
        return dtype
