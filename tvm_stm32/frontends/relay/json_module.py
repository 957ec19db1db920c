"""A Relay JSON graph -> :class:`ast.Module`, the same tree the text parser makes.

The graph is a DAG of shared nodes. Each scope (function, branch, clause) becomes a flat block that binds its nodes in
order of use, arguments first, each once; a node bound in an outer scope is used from there. Chains of any length are
walked without recursion; only scopes nest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...errors import ModelError
from . import ast
from .json_graph import NodeGraph
from .json_source import JsonSource
from .json_types import read_type

MAX_SCOPES = 64
"""Functions and branches within each other."""

_MAX_STATEMENTS = 1 << 18
_KINDS = re.compile(r"relay\.(?!attrs\.)")
_ATOMS = ("Var", "Constant", "GlobalVar", "Op", "Constructor")
_CHILDREN = {
    "Tuple": (),
    "TupleGetItem": ("tuple_value",),
    "If": ("cond",),
    "Match": ("data",),
    "RefCreate": ("value",),
    "RefRead": ("ref",),
    "RefWrite": ("ref", "value"),
    "Function": (),
}
_REFERENCES = {"RefCreate": "ref", "RefRead": "ref_read", "RefWrite": "ref_write"}
_ENTER, _READY, _BODY = range(3)
_NO_NAMES = ("from_string", "GeneratedSource")


def read(source: JsonSource) -> ast.Module:
    """The module of a file: an ``IRModule``, a function or an expression. Raises ``ModelError``."""
    return _Reader(source.graph).module(source.root)


def kind_of(graph: NodeGraph, node: int) -> str:
    """Type key of a node without the prefix ``relay.`` (0.6 wrote it where later versions do not)."""
    return _KINDS.sub("", graph.type_key(node))


class _Scope:
    def __init__(self, outer: _Scope | None = None) -> None:
        self.outer = outer
        self.bound: set[int] = set()
        self.statements: list[ast.Bind] = []

    def has(self, node: int) -> bool:
        scope: _Scope | None = self
        while scope is not None:
            if node in scope.bound:
                return True
            scope = scope.outer
        return False


class _Reader:
    def __init__(self, graph: NodeGraph, inputs: tuple[int, ...] = ()) -> None:
        self.graph = graph
        self.inputs = inputs
        self.result = ast.Module()
        self.names: dict[int, str] = {}
        self.introduced: dict[int, int] = {}
        self.used: dict[int, None] = {}
        self.open: set[int] = set()
        self.statements = 0
        self._name_inputs(inputs)

    def module(self, root: int) -> ast.Module:
        graph = self.graph
        kind = kind_of(graph, root)
        if kind not in ("IRModule", "Module"):
            self.result.functions["main"] = self._expression_as_main(root, kind)
            return self.result
        functions = graph.reference(root, "functions")
        pairs = graph.nodes[functions].get("data", [])
        if kind_of(graph, functions) not in ("Map", "") or not isinstance(pairs, list) or len(pairs) % 2:
            raise graph.fail("'functions' should be a Map from GlobalVar to Function", functions)
        entries = [graph.index(entry, functions, "data") for entry in pairs]
        for variable, function in zip(entries[::2], entries[1::2], strict=True):
            name = self._global_name(variable)
            if name in self.result.functions:
                raise graph.fail(f"@{name} is defined twice", variable)
            self.result.functions[name] = self._global_function(function, name)
        return self.result

    def _global_function(self, node: int, name: str) -> ast.Function:
        kind = kind_of(self.graph, node)
        if kind == "Function":
            return self._function(node, _Scope(), name)
        if kind.startswith("tir."):
            raise self.graph.fail(f"@{name} is a TIR function", node, why="only Relay can be read")
        return ast.Function((), ast.Unsupported("external function", node), {}, node, name)

    def _expression_as_main(self, root: int, kind: str) -> ast.Function:
        if kind == "Function":
            return self._function(root, _Scope(), "main")
        if kind not in (*_CHILDREN, *_ATOMS, "Call", "Let"):
            raise self.graph.fail("no Relay module", root, why="it is neither an IRModule nor a function")
        body = self._body(root, _Scope())
        free = [node for node in self.used if node not in self.introduced]
        if any(node not in self.inputs for node in free):
            # Inputs bear their own names; which variables are inputs is known only now.
            reader = _Reader(self.graph, tuple(free))
            return reader._expression_as_main(root, kind)
        return ast.Function(tuple(self._parameter(node) for node in free), body, {}, root, "main")

    def _text(self, node: int, key: str) -> str:
        text = self.graph.fields(node).get(key)
        if not isinstance(text, str):
            raise self.graph.fail(f"'{key}' is missing", node)
        return self.graph.text_or_string(text)

    def _global_name(self, node: int) -> str:
        if kind_of(self.graph, node) != "GlobalVar":
            raise self.graph.fail("a GlobalVar should be here", node)
        return self._text(node, "name_hint")

    def _function(self, node: int, outer: _Scope, name: str = "") -> ast.Function:
        graph = self.graph
        parameters = graph.elements(graph.reference(node, "params"))
        for parameter in parameters:
            self._introduce(parameter, node)
        if name:
            self._name_inputs(parameters)
        attrs = self._function_attributes(graph.reference(node, "attrs"))
        body = self._body(graph.reference(node, "body"), _Scope(outer))
        return ast.Function(tuple(self._parameter(variable) for variable in parameters), body, attrs, node, name)

    def _name_inputs(self, variables: Sequence[int]) -> None:
        """Their own names, numbered where one occurs twice, as the printer does."""
        taken: set[str] = set()
        for variable in variables:
            hint = self._hint(variable)
            own, number = hint, 1
            while own in taken:
                own, number = f"{hint}{number}", number + 1
            taken.add(own)
            self.names[variable] = own

    def _introduce(self, node: int, binder: int) -> None:
        if kind_of(self.graph, node) != "Var":
            raise self.graph.fail("a Var should be here", node)
        # A shared binder is read once in each scope it is used in.
        if self.introduced.setdefault(node, binder) != binder:
            raise self.graph.fail(f"variable {self._hint(node)} is bound twice", node)

    def _parameter(self, node: int) -> ast.Parameter:
        annotation = self.graph.reference(node, "type_annotation")
        return ast.Parameter(self._name(node), read_type(self.graph, annotation, node), node)

    def _hint(self, node: int) -> str:
        if "name_hint" in self.graph.fields(node):
            return self._text(node, "name_hint")
        return self._text(self.graph.reference(node, "vid"), "name_hint")

    def _name(self, node: int) -> str:
        if node not in self.names:
            self.names[node] = f"{self._hint(node)}#{node}"
        return self.names[node]

    def _function_attributes(self, node: int) -> dict[str, ast.Attribute]:
        if kind_of(self.graph, node) != "DictAttrs":
            return {}
        attrs: dict[str, ast.Attribute] = {}
        for key, value in self.graph.string_map(self.graph.reference(node, "__dict__")).items():
            try:
                attrs[key] = self.graph.value(value)
            except ModelError:
                # Executors, targets and the like: of no concern here.
                continue
        return attrs

    def _body(self, node: int, scope: _Scope) -> ast.Expr:
        """A scope of its own: everything ``node`` needs that no outer scope binds, then ``node``."""
        depth, outer = 0, scope.outer
        while outer is not None:
            depth, outer = depth + 1, outer.outer
        if depth > MAX_SCOPES:
            raise self.graph.fail(f"functions and branches nest more than {MAX_SCOPES} levels deep", node)
        value = self._bind_all(node, scope)
        return ast.Block(tuple(scope.statements), value, node) if scope.statements else value

    def _bind_all(self, root: int, scope: _Scope) -> ast.Expr:
        graph = self.graph
        stack: list[tuple[int, int]] = [(root, _ENTER)]
        while stack:
            node, phase = stack.pop()
            kind = kind_of(graph, node)
            if phase == _ENTER:
                if kind in _ATOMS or scope.has(node):
                    continue
                if node in self.open:
                    raise graph.fail("the node is part of itself", node, why="an expression cannot contain itself")
                self.open.add(node)
                stack.append((node, _READY))
                stack += [(child, _ENTER) for child in reversed(self._children(node, kind))]
            elif kind == "Let" and phase == _READY:
                variable = graph.reference(node, "var")
                self._introduce(variable, node)
                self._bind(variable, self._name(variable), self._use(graph.reference(node, "value"), scope), scope)
                # The body comes after the binding, and is the value of the whole.
                stack += [(node, _BODY), (graph.reference(node, "body"), _ENTER)]
            else:
                expr = (
                    self._use(graph.reference(node, "body"), scope) if kind == "Let" else self._expr(node, kind, scope)
                )
                self._bind(node, f"#{node}", expr, scope)
                self.open.discard(node)
        return self._use(root, scope)

    def _bind(self, node: int, name: str, expr: ast.Expr, scope: _Scope) -> None:
        self.statements += 1
        if self.statements > _MAX_STATEMENTS:
            raise self.graph.fail(f"the module has more than {_MAX_STATEMENTS} expressions", node)
        scope.statements.append(ast.Bind(name, expr, node))
        scope.bound.add(node)

    def _children(self, node: int, kind: str) -> list[int]:
        """The nodes of the same scope that a node needs before it."""
        graph = self.graph
        if kind == "Let":
            return [graph.reference(node, "value")]
        if kind == "Call":
            return [graph.reference(node, "op"), *graph.elements(graph.reference(node, "args"))]
        if kind == "Tuple":
            return graph.elements(graph.reference(node, "fields"))
        if kind not in _CHILDREN:
            raise graph.fail("an expression should be here", node)
        return [graph.reference(node, key) for key in _CHILDREN[kind]]

    def _use(self, node: int, scope: _Scope) -> ast.Expr:
        """The expression a node is where it is used: an atom, or the name it is bound to."""
        graph, kind = self.graph, kind_of(self.graph, node)
        if kind == "Var":
            self.used[node] = None
            return ast.Local(self._name(node), node)
        if kind == "Constant":
            return ast.Meta("node", node, node)
        if kind == "GlobalVar":
            return ast.Global(self._global_name(node), node)
        if kind == "Op":
            name = graph.nodes[node].get("repr_str", graph.nodes[node].get("global_key", ""))
            return ast.OperatorName(str(name), node)
        if kind == "Constructor":
            name = self._text(node, "name_hint")
            self.result.constructors[name] = len(graph.elements(graph.reference(node, "inputs")))
            return ast.OperatorName(name, node)
        if not scope.has(node):
            raise graph.fail("the node is used outside its scope", node)
        return ast.Local(f"#{node}", node)

    def _expr(self, node: int, kind: str, scope: _Scope) -> ast.Expr:
        graph = self.graph
        if kind == "Call":
            args = [self._use(arg, scope) for arg in graph.elements(graph.reference(node, "args"))]
            attrs = graph.reference(node, "attrs")
            if attrs:
                args.append(ast.Meta("node", attrs, node))
            return ast.Call(self._use(graph.reference(node, "op"), scope), tuple(args), {}, node, self._span(node))
        if kind == "Tuple":
            fields = graph.elements(graph.reference(node, "fields"))
            return ast.Tuple(tuple(self._use(field, scope) for field in fields), node)
        if kind == "TupleGetItem":
            text = str(graph.fields(node).get("index"))
            if not text.isdigit() or len(text) > 9:
                raise graph.fail(f"'index' is {text[:40]!r}", node)
            return ast.Projection(self._use(graph.reference(node, "tuple_value"), scope), int(text), node)
        if kind == "If":
            branches = [
                self._body(graph.reference(node, key), _Scope(scope)) for key in ("true_branch", "false_branch")
            ]
            return ast.If(self._use(graph.reference(node, "cond"), scope), branches[0], branches[1], node)
        if kind == "Match":
            clauses = [self._clause(clause, scope) for clause in graph.elements(graph.reference(node, "clauses"))]
            return ast.Match(self._use(graph.reference(node, "data"), scope), tuple(clauses), node)
        if kind == "Function":
            return self._function(node, scope)
        cells = tuple(self._use(graph.reference(node, key), scope) for key in _CHILDREN[kind])
        return ast.Reference(_REFERENCES[kind], cells, node)

    def _clause(self, node: int, scope: _Scope) -> tuple[ast.Pattern, ast.Expr]:
        pattern = self._pattern(self.graph.reference(node, "lhs"), 0)
        return pattern, self._body(self.graph.reference(node, "rhs"), _Scope(scope))

    def _pattern(self, node: int, depth: int) -> ast.Pattern:
        graph, kind = self.graph, kind_of(self.graph, node)
        if depth > MAX_SCOPES:
            raise graph.fail(f"patterns nest more than {MAX_SCOPES} levels deep", node)
        if kind == "PatternWildcard":
            return ast.AnyPattern("", node)
        if kind == "PatternVar":
            variable = graph.reference(node, "var")
            self._introduce(variable, node)
            return ast.AnyPattern(self._name(variable), node)
        if kind not in ("PatternConstructor", "PatternTuple"):
            raise graph.fail("a pattern should be here", node)
        fields = [self._pattern(field, depth + 1) for field in graph.elements(graph.reference(node, "patterns"))]
        constructor = graph.reference(node, "constructor") if kind == "PatternConstructor" else 0
        name = self._text(constructor, "name_hint") if constructor else ""
        return ast.FieldsPattern(name, tuple(fields), node)

    def _span(self, node: int) -> str:
        """The tensor name a call's span gives, or ``""``."""
        graph = self.graph
        span = graph.reference(node, "span")
        if graph.type_key(span) == "SequentialSpan":
            span = next(iter(graph.elements(graph.reference(span, "spans"))), 0)
        if graph.type_key(span) != "Span":
            return ""
        source = graph.reference(span, "source_name")
        name = graph.string(source) if graph.type_key(source) == "SourceName" else ""
        return "" if name in _NO_NAMES else name
