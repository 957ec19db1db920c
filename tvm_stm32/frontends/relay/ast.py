"""Relay's syntax tree: plain data, one class a construct of the grammar.

``at`` is the offset of the construct in its source. Long chains are flat (``Block.statements``, ``Chain.rest``), so the
depth of a tree is the nesting depth of the text and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np


@dataclass(frozen=True)
class Meta:
    """``meta[key][index]``: an object of the metadata section."""

    key: str
    index: int
    at: int


@dataclass(frozen=True)
class TensorType:
    """``Tensor[(dims), dtype]`` or a bare dtype. A dimension is an extent, ``None`` (``?``) or a symbolic variable."""

    shape: tuple[int | Meta | None, ...]
    dtype: str
    at: int


@dataclass(frozen=True)
class TupleType:
    fields: tuple[Type, ...]
    at: int


@dataclass(frozen=True)
class OtherType:
    """A type no compiled value may have: ``what`` is ``function``, ``reference``, ``data type`` or ``incomplete``."""

    what: str
    at: int


Type: TypeAlias = TensorType | TupleType | OtherType


@dataclass(frozen=True)
class Local:
    """``%name`` or ``%0``."""

    name: str
    at: int


@dataclass(frozen=True)
class Global:
    """``@name``."""

    name: str
    at: int


@dataclass(frozen=True)
class OperatorName:
    """An operator (``nn.conv2d``) or constructor (``Cons``)."""

    name: str
    at: int


@dataclass(frozen=True, eq=False)
class Literal:
    """A rank-0 constant."""

    value: np.ndarray
    at: int


@dataclass(frozen=True)
class Call:
    callee: Expr
    args: tuple[Expr, ...]
    attrs: dict[str, Attribute]
    at: int
    span: str = ""


@dataclass(frozen=True)
class Chain:
    """Operators of one precedence, left to right: ``first`` then (operator name, operand, offset) triples."""

    first: Expr
    rest: tuple[tuple[str, Expr, int], ...]
    at: int


@dataclass(frozen=True)
class Tuple:
    fields: tuple[Expr, ...]
    at: int


@dataclass(frozen=True)
class Projection:
    value: Expr
    index: int
    at: int


@dataclass(frozen=True)
class If:
    condition: Expr
    then: Expr
    otherwise: Expr
    at: int


@dataclass(frozen=True)
class Reference:
    """``ref(value)``, ``ref_read(cell)`` or ``ref_write(cell, value)``; ``what`` is the keyword."""

    what: str
    args: tuple[Expr, ...]
    at: int


@dataclass(frozen=True)
class AnyPattern:
    """``_``, or ``%name`` when it has a name: matches everything."""

    name: str
    at: int


@dataclass(frozen=True)
class FieldsPattern:
    """``Constructor(pattern, ...)``, or a tuple of patterns when ``constructor`` is empty."""

    constructor: str
    fields: tuple[Pattern, ...]
    at: int


Pattern: TypeAlias = AnyPattern | FieldsPattern


@dataclass(frozen=True)
class Match:
    value: Expr
    clauses: tuple[tuple[Pattern, Expr], ...]
    at: int


@dataclass(frozen=True)
class Unsupported:
    """Valid Relay that has no static form: ``what`` names it (``external function``) for the error."""

    what: str
    at: int


@dataclass(frozen=True)
class Bind:
    """A statement of a block; ``name`` is empty when the value is thrown away."""

    name: str
    value: Expr
    at: int


@dataclass(frozen=True)
class Block:
    statements: tuple[Bind, ...]
    value: Expr
    at: int


@dataclass(frozen=True)
class Parameter:
    name: str
    type: Type | None
    at: int


@dataclass(frozen=True, eq=False)
class Function:
    parameters: tuple[Parameter, ...]
    body: Expr
    attrs: dict[str, Attribute]
    at: int
    name: str = ""


Expr: TypeAlias = (
    Local
    | Global
    | OperatorName
    | Literal
    | Meta
    | Call
    | Chain
    | Tuple
    | Projection
    | If
    | Reference
    | Match
    | Unsupported
    | Block
    | Function
)


@dataclass(frozen=True)
class Field:
    """A field of an attribute object of a JSON graph, still text: its meaning depends on who asks."""

    text: str
    at: int


@dataclass(frozen=True)
class ExprAttribute:
    """An attribute whose value is an expression (``arange`` prints its arguments a second time)."""

    value: Expr


Attribute: TypeAlias = int | float | bool | str | list["Attribute"] | Meta | Field | ExprAttribute | None


@dataclass
class Module:
    """A file: its functions by name, the number of fields of each constructor, and where the metadata JSON starts.

    ``metadata_at`` is ``-1`` when there is none.
    """

    functions: dict[str, Function] = field(default_factory=dict)
    constructors: dict[str, int] = field(default_factory=dict)
    metadata_at: int = -1
