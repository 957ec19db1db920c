"""Parser of Relay text v0.0.5: a file becomes an :class:`ast.Module`.

It accepts what every printer wrote and what TVM's own parser read. Any other text ends in a ``ModelError`` that names
line and column.
"""

from __future__ import annotations

import re

import numpy as np

from . import ast, lexer
from .lexer import Scanner, Token
from .source import Source
from .type_parser import AttributeParser, Nesting, TypeParser, meta

_PRECEDENCE = (
    {"==": "equal", "!=": "not_equal"},
    {"<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"},
    {"+": "add", "-": "subtract"},
    {"*": "multiply", "/": "divide"},
)
_MAX_APPLICATIONS = 16
_TYPE_DTYPE = re.compile(r"ty=(\w+)(?:\s|\Z)")
_VERSION = re.compile(r'\s*#\[\s*version\s*=\s*"([^"]*)"\s*\]')
_VERSIONS = ("0.0.5",)


def parse(source: Source) -> ast.Module:
    """Read a whole file; raises ``ModelError`` for anything that is not Relay text."""
    return _Parser(source).module()


class _Parser:
    def __init__(self, source: Source) -> None:
        self._source = source
        text = source.text
        header = _VERSION.match(text)
        if header and header.group(1) not in _VERSIONS:
            raise source.error(
                header.start(1),
                f"Relay text of version {header.group(1)}",
                why="version 0.0.5 is the only one with this grammar",
                hint="write the module with mod.astext() of TVM 0.7 or later",
            )
        self._scanner = Scanner(source, header.end() if header else 0)
        self._nesting = Nesting(self._scanner)
        self._types = TypeParser(self._scanner, self._nesting)
        self._attributes = AttributeParser(self._scanner, self._nesting, self._atomic)
        self._free: list[ast.Parameter] = []

    def module(self) -> ast.Module:
        scanner = self._scanner
        module = ast.Module()
        while scanner.peek().kind != "end":
            token = scanner.peek()
            if token.kind == "name" and token.value == "def":
                self._definition(module)
            elif token.kind == "name" and token.value in ("type", "extern"):
                self._type_definition(module)
            elif token.kind == "global":
                raise self._source.error(token.at, f"@{token.value} is a TIR function", why="only Relay can be read")
            elif not module.functions:
                self._bare_expression(module)
            else:
                raise scanner.unexpected("a definition", "a module")
        module.metadata_at = scanner.metadata_at
        return module

    def _definition(self, module: ast.Module) -> None:
        scanner = self._scanner
        scanner.take()
        name = scanner.take()
        if name.kind != "global":
            raise self._source.error(name.at, "a definition without a @name")
        if name.value in module.functions:
            raise self._source.error(name.at, f"@{name.value} is defined twice")
        if scanner.accept("="):
            scanner.take()
            body = ast.Unsupported("external function", name.at)
            module.functions[name.value] = ast.Function((), body, {}, name.at, name.value)
            return
        module.functions[name.value] = self._function(name.at, name.value)

    def _bare_expression(self, module: ast.Module) -> None:
        # expr.astext() prints an expression instead of definitions; its free variables are the inputs.
        at = self._scanner.peek().at
        body = self._sequence()
        if isinstance(body, ast.Function):
            module.functions["main"] = body
        else:
            module.functions["main"] = ast.Function(tuple(self._free), body, {}, at, "main")

    def _type_definition(self, module: ast.Module) -> None:
        scanner = self._scanner
        scanner.accept("extern")
        scanner.expect("type", "a type definition")
        name = scanner.take()
        if name.kind != "name":
            raise self._source.error(name.at, "a type definition without a name")
        self._types.parameters()
        if not scanner.accept("{"):
            return
        while not scanner.accept("}"):
            constructor = scanner.peek()
            if constructor.kind != "name":
                raise scanner.unexpected("a constructor", f"the definition of type {name.value}")
            scanner.take()
            fields = self._types.parse() if scanner.at_call() else None
            module.constructors[constructor.value] = len(fields.fields) if isinstance(fields, ast.TupleType) else 0
            if not scanner.accept(","):
                scanner.expect("}", f"the definition of type {name.value}")
                break

    def _function(self, at: int, name: str = "") -> ast.Function:
        """Parameters, result type and body, whatever came before them."""
        scanner = self._scanner
        scanner.open_function()
        self._types.parameters()
        scanner.expect("(", "a function")
        parameters: list[ast.Parameter] = []
        names: set[str] = set()
        while scanner.peek().value != ")" and not scanner.at_attribute():
            parameter = self._parameter()
            if parameter.name in names:
                raise self._source.error(parameter.at, f"parameter %{parameter.name} occurs twice")
            names.add(parameter.name)
            parameters.append(parameter)
            if not scanner.accept(","):
                break
        attrs = self._attributes.parse()
        scanner.expect(")", "a parameter list")
        if scanner.accept("->"):
            self._types.parse()
        body = self._block()
        scanner.close_function()
        return ast.Function(tuple(parameters), body, attrs, at, name)

    def _parameter(self, *, let: bool = False) -> ast.Parameter:
        scanner = self._scanner
        token = scanner.binder(let=let)
        if scanner.accept("{"):
            self._attributes.parse()
            scanner.expect("}", "a variable")
        type_ = self._types.parse() if scanner.accept(":") else None
        return ast.Parameter(token.value, type_, token.at)

    def _block(self) -> ast.Expr:
        self._scanner.expect("{", "a block")
        body = self._sequence()
        self._scanner.expect("}", "a block")
        return body

    def _sequence(self) -> ast.Expr:
        """``item; item; value`` as one flat block."""
        scanner = self._scanner
        at = scanner.peek().at
        statements: list[ast.Bind] = []
        with self._nesting.enter(at):
            while True:
                token = scanner.peek()
                if token.kind == "name" and token.value == "let":
                    statements.append(self._let())
                    continue
                if token.kind == "name" and token.value == "free_var":
                    scanner.take()
                    self._free.append(self._parameter(let=True))
                    scanner.expect(";", "a free variable")
                    continue
                value = self._expression()
                if isinstance(value, ast.Local) and scanner.accept("="):
                    bound = self._expression()
                    scanner.expect(";", f"the binding of %{value.name}")
                    statements.append(ast.Bind(value.name, bound, value.at))
                elif scanner.accept(";"):
                    statements.append(ast.Bind("", value, token.at))
                else:
                    break
        return ast.Block(tuple(statements), value, at) if statements else value

    def _let(self) -> ast.Bind:
        self._scanner.take()
        variable = self._parameter(let=True)
        self._scanner.expect("=", "a let binding")
        value = self._expression()
        self._scanner.expect(";", f"the binding of %{variable.name}")
        return ast.Bind(variable.name, value, variable.at)

    def _expression(self, level: int = 0) -> ast.Expr:
        """Infix operators of precedence ``level`` and tighter."""
        if level == len(_PRECEDENCE):
            return self._call()
        at = self._scanner.peek().at
        first = self._expression(level + 1)
        rest = []
        while operator := _PRECEDENCE[level].get(self._scanner.peek_operator()):
            place = self._scanner.take_operator()
            rest.append((operator, self._expression(level + 1), place))
        return ast.Chain(first, tuple(rest), at) if rest else first

    def _call(self) -> ast.Expr:
        scanner = self._scanner
        at = scanner.peek().at
        expr = self._atomic()
        applications = 0
        while scanner.at_call() and not isinstance(expr, ast.Literal):
            scanner.take()
            args: list[ast.Expr] = []
            with self._nesting.enter(at):
                while scanner.peek().value != ")" and not scanner.at_attribute():
                    args.append(self._sequence())
                    if not scanner.accept(","):
                        break
            attrs = self._attributes.parse()
            scanner.expect(")", "the arguments of a call")
            expr = ast.Call(expr, tuple(args), attrs, at, _span(scanner.comment))
            applications += 1
            if applications > _MAX_APPLICATIONS:
                raise self._source.error(at, f"more than {_MAX_APPLICATIONS} applications in a row")
            expr = self._projected(expr)
        return expr

    def _projected(self, expr: ast.Expr) -> ast.Expr:
        at = self._scanner.peek().at
        index = self._scanner.projection()
        return expr if index is None else ast.Projection(expr, index, at)

    def _atomic(self) -> ast.Expr:
        scanner = self._scanner
        token = scanner.peek()
        with self._nesting.enter(token.at):
            return self._projected(self._primary(token))

    def _primary(self, token: Token) -> ast.Expr:
        scanner = self._scanner
        if token.kind == "local":
            scanner.take()
            return ast.Local(token.value, token.at)
        if token.kind == "global":
            scanner.take()
            return ast.Global(token.value, token.at)
        if token.kind == "meta":
            scanner.take()
            return meta(token)
        if token.kind == "number":
            scanner.take()
            typed = _TYPE_DTYPE.match(scanner.comment)
            return ast.Literal(lexer.number(self._source, token, typed.group(1) if typed else ""), token.at)
        if token.kind == "punct" and token.value == "(":
            return self._parenthesized(token.at)
        if token.kind == "punct" and token.value == "{":
            return self._block()
        if token.kind == "name":
            return self._word(token)
        raise scanner.unexpected("an expression", "an expression")

    def _parenthesized(self, at: int) -> ast.Expr:
        scanner = self._scanner
        scanner.take()
        fields: list[ast.Expr] = []
        comma = False
        while not scanner.accept(")"):
            fields.append(self._sequence())
            comma = scanner.accept(",")
            if not comma:
                scanner.expect(")", "a tuple")
                break
        return fields[0] if len(fields) == 1 and not comma else ast.Tuple(tuple(fields), at)

    def _word(self, token: Token) -> ast.Expr:
        scanner = self._scanner
        scanner.take()
        word = token.value
        if word in ("True", "False"):
            return ast.Literal(np.array(word == "True"), token.at)
        if word == "fn":
            return self._function(token.at)
        if word == "if":
            scanner.expect("(", "a condition")
            condition = self._sequence()
            scanner.expect(")", "a condition")
            then = self._block()
            scanner.expect("else", "an if expression")
            return ast.If(condition, then, self._block(), token.at)
        if word in ("ref", "ref_read", "ref_write"):
            return self._reference(token)
        if word == "match":
            return self._match(token.at)
        if word in ("let", "def", "else", "type", "extern", "free_var", "_", "None", "nullptr"):
            raise self._source.error(token.at, f"'{word}' cannot begin an expression")
        return ast.OperatorName(word, token.at)

    def _reference(self, token: Token) -> ast.Expr:
        scanner = self._scanner
        scanner.expect("(", "a reference")
        args: list[ast.Expr] = []
        while not scanner.accept(")"):
            args.append(self._sequence())
            if not scanner.accept(","):
                scanner.expect(")", "a reference")
                break
        return ast.Reference(token.value, tuple(args), token.at)

    def _match(self, at: int) -> ast.Expr:
        scanner = self._scanner
        scanner.accept("?")
        value = self._atomic()
        scanner.expect("{", "a match")
        clauses: list[tuple[ast.Pattern, ast.Expr]] = []
        while not scanner.accept("}"):
            pattern = self._pattern()
            scanner.expect("=>", "a match")
            clauses.append((pattern, self._sequence()))
            if not scanner.accept(","):
                scanner.expect("}", "a match")
                break
        return ast.Match(value, tuple(clauses), at)

    def _pattern(self) -> ast.Pattern:
        scanner = self._scanner
        token = scanner.peek()
        with self._nesting.enter(token.at):
            if token.kind == "local":
                return ast.AnyPattern(self._parameter().name, token.at)
            if token.kind == "name":
                scanner.take()
                if token.value == "_":
                    return ast.AnyPattern("", token.at)
            elif not scanner.at_call():
                raise scanner.unexpected("a pattern", "a match")
            fields: list[ast.Pattern] = []
            if scanner.accept("("):
                while not scanner.accept(")"):
                    fields.append(self._pattern())
                    if not scanner.accept(","):
                        scanner.expect(")", "a pattern")
                        break
            return ast.FieldsPattern(token.value if token.kind == "name" else "", tuple(fields), token.at)


def _span(comment: str) -> str:
    """The source name a printed comment gives, without line and column; ``""`` for names of parsers and temporaries."""
    _, mark, span = comment.partition("span=")
    name = re.sub(r":-?\d+:-?\d+\Z", "", span.strip()) if mark else ""
    return "" if name in ("from_string", "GeneratedSource", "") else name
