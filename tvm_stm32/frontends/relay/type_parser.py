"""Types and attribute values of Relay text."""

from __future__ import annotations

import re
from collections.abc import Callable

from . import ast, lexer
from .lexer import Scanner, Token

MAX_DEPTH = 128
"""Nesting allowed in a text; deeper ones are refused rather than exhausting Python's stack."""

_DTYPE = re.compile(r"(?:u?int(?:1|4|8|16|32|64)|float(?:8|16|32|64)|bfloat16|bool)(?:x[0-9]+)?\Z|void\Z|handle\Z")


class Nesting:
    """Counts open constructs of a text; use as ``with nesting.enter(at):``."""

    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner
        self._depth = 0

    def enter(self, at: int) -> Nesting:
        """Go one level deeper; raises ``ModelError`` at the limit."""
        if self._depth >= MAX_DEPTH:
            raise self._scanner.source.error(
                at, f"nested more than {MAX_DEPTH} levels deep", hint="bind inner expressions to names (%0 = ...;)"
            )
        return self

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1


def meta(token: Token) -> ast.Meta:
    """The reference a ``meta[...][...]`` token means."""
    key, index = token.value.split(" ")
    return ast.Meta(key, int(index), token.at)


class TypeParser:
    """Reads types; ``Tensor[(1, 8), int8]``, tuples, functions, references, data types."""

    def __init__(self, scanner: Scanner, nesting: Nesting) -> None:
        self._scanner = scanner
        self._nesting = nesting

    def parse(self) -> ast.Type:
        """One type."""
        scanner = self._scanner
        token = scanner.peek()
        with self._nesting.enter(token.at):
            if token.value == "(" and token.kind == "punct":
                return ast.TupleType(tuple(self._list()), token.at)
            if token.kind != "name":
                raise scanner.unexpected("a type", "a type")
            scanner.take()
            return self._named(token)

    def _named(self, token: Token) -> ast.Type:
        scanner = self._scanner
        if token.value == "Tensor":
            return self._tensor(token.at)
        if token.value == "fn":
            self.parameters()
            self._list()
            scanner.expect("->", "a function type")
            self.parse()
            return ast.OtherType("function", token.at)
        if token.value == "ref":
            self._list()
            return ast.OtherType("reference", token.at)
        if token.value == "_":
            return ast.OtherType("incomplete", token.at)
        if _DTYPE.match(token.value):
            return ast.TensorType((), token.value, token.at)
        if scanner.accept("["):
            self._until("]")
        return ast.OtherType(f"data type {token.value}", token.at)

    def _tensor(self, at: int) -> ast.TensorType:
        scanner = self._scanner
        scanner.expect("[", "a tensor type")
        scanner.expect("(", "the shape of a tensor type")
        shape: list[int | ast.Meta | None] = []
        while not scanner.accept(")"):
            shape.append(self._dimension())
            if not scanner.accept(","):
                scanner.expect(")", "the shape of a tensor type")
                break
        scanner.expect(",", "a tensor type")
        dtype = scanner.peek()
        if dtype.kind != "name" or not _DTYPE.match(dtype.value):
            raise scanner.unexpected("a dtype", "a tensor type")
        scanner.take()
        scanner.expect("]", "a tensor type")
        return ast.TensorType(tuple(shape), dtype.value, at)

    def _dimension(self) -> int | ast.Meta | None:
        scanner = self._scanner
        token = scanner.peek()
        if token.kind == "number":
            scanner.take()
            extent = lexer.number(scanner.source, token)
            if extent.dtype.kind != "i" or not 0 <= int(extent) < 1 << 31:
                raise scanner.source.error(token.at, f"'{token.value[:40]}' is no extent of a tensor")
            return int(extent)
        if token.kind == "meta":
            scanner.take()
            return meta(token)
        scanner.expect("?", "the shape of a tensor type")
        return None

    def _list(self) -> list[ast.Type]:
        self._scanner.expect("(", "a type")
        return self._until(")")

    def _until(self, closing: str) -> list[ast.Type]:
        types = []
        while not self._scanner.accept(closing):
            types.append(self.parse())
            if not self._scanner.accept(","):
                self._scanner.expect(closing, "a type")
                break
        return types

    def parameters(self) -> None:
        """Skip ``[A, B]``, the type parameters of a definition."""
        if self._scanner.accept("["):
            self._until("]")


class AttributeParser:
    """Reads ``key=value`` lists; ``expression`` reads a value that is none of the simple forms."""

    def __init__(self, scanner: Scanner, nesting: Nesting, expression: Callable[[], ast.Expr]) -> None:
        self._scanner = scanner
        self._nesting = nesting
        self._expression = expression

    def parse(self) -> dict[str, ast.Attribute]:
        """The attributes that come next, up to the closing parenthesis (which stays)."""
        scanner = self._scanner
        attrs: dict[str, ast.Attribute] = {}
        while scanner.at_attribute():
            key = scanner.take()
            scanner.expect("=", "an attribute")
            if key.value in attrs:
                raise scanner.source.error(key.at, f"attribute '{key.value}' occurs twice")
            attrs[key.value] = self.value()
            scanner.accept(",")
        return attrs

    def value(self) -> ast.Attribute:
        """One attribute value."""
        scanner = self._scanner
        token = scanner.peek()
        with self._nesting.enter(token.at):
            if token.kind == "number":
                scanner.take()
                return lexer.attribute_number(scanner.source, token)
            if token.kind == "string":
                return scanner.take().value
            if token.kind == "meta":
                return meta(scanner.take())
            if token.kind == "name" and token.value in _CONSTANTS:
                return _CONSTANTS[scanner.take().value]
            if token.kind == "punct" and token.value in ("[", "("):
                return self._list()
            return ast.ExprAttribute(self._expression())

    def _list(self) -> ast.Attribute:
        closing = "]" if self._scanner.take().value == "[" else ")"
        values: list[ast.Attribute] = []
        while not self._scanner.accept(closing):
            values.append(self.value())
            if not self._scanner.accept(","):
                self._scanner.expect(closing, "an attribute value")
                break
        return values[0] if closing == ")" and len(values) == 1 else values


_CONSTANTS: dict[str, ast.Attribute] = {"True": True, "False": False, "None": None, "nullptr": None}
