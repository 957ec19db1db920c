"""Relay JSON: graphs of shared nodes are read without recursion; what is wrong in one is named by node and key."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from relay_support import blob, run

from tvm_stm32.errors import ModelError
from tvm_stm32.frontends import load_model, relay
from tvm_stm32.model import Model


class Graph:
    """Builds a node graph; each method adds a node and gives its index."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = [{"type_key": ""}]
        self.blobs: list[str] = []

    def node(self, key: str, **fields: object) -> int:
        members = {name: str(value) for name, value in fields.items()}
        self.nodes.append({"type_key": key, "attrs": members} if members else {"type_key": key})
        return len(self.nodes) - 1

    def array(self, *items: int) -> int:
        self.nodes.append({"type_key": "Array", "data": list(items)})
        return len(self.nodes) - 1

    def string(self, text: str) -> int:
        self.nodes.append({"type_key": "runtime.String", "repr_str": text})
        return len(self.nodes) - 1

    def integers(self, *values: int) -> int:
        return self.array(*[self.node("IntImm", dtype="int32", value=value) for value in values])

    def var(self, name: str, *shape: int) -> int:
        type_ = self.node("relay.TensorType", shape=self.integers(*shape), dtype="float32") if shape else 0
        identity = self.node("relay.Id", name_hint=self.string(name))
        return self.node("relay.Var", vid=identity, type_annotation=type_)

    def constant(self, array: np.ndarray) -> int:
        self.blobs.append(base64.b64encode(blob(array)).decode())
        return self.node("relay.Constant", data=len(self.blobs) - 1)

    def op(self, name: str) -> int:
        self.nodes.append({"type_key": "Op", "repr_str": name})
        return len(self.nodes) - 1

    def call(self, name: str, *args: int, attrs: int = 0, span: int = 0) -> int:
        return self.node("relay.Call", op=self.op(name), args=self.array(*args), attrs=attrs, span=span)

    def function(self, body: int, *params: int) -> int:
        return self.node("relay.Function", params=self.array(*params), body=body, attrs=0)

    def module(self, **functions: int) -> int:
        data = [entry for name, body in functions.items() for entry in (self.global_(name), body)]
        self.nodes.append({"type_key": "Map", "data": data})
        return self.node("IRModule", functions=len(self.nodes) - 1, type_definitions=0)

    def global_(self, name: str) -> int:
        for index, node in enumerate(self.nodes):
            if node["type_key"] == "GlobalVar" and self.nodes[int(node["attrs"]["name_hint"])]["repr_str"] == name:
                return index
        return self.node("GlobalVar", name_hint=self.string(name))

    def load(self, folder: Path, root: int) -> Model:
        document = {"root": root, "nodes": self.nodes, "b64ndarrays": self.blobs, "attrs": {"tvm_version": "0.16.0"}}
        path = folder / "model.json"
        path.write_text(json.dumps(document))
        return load_model(path)


X = np.array([[1, -2, 3]], np.float32)


def names(model: Model) -> list[str]:
    return [binding.var.name for block in model.module["main"].body.blocks for binding in block.bindings]


def test_shared_node_is_computed_once(tmp_path: Path) -> None:
    graph = Graph()
    x = graph.var("x", 1, 3)
    shared = graph.call("exp", x)
    root = graph.module(main=graph.function(graph.call("add", shared, shared), x))
    model = graph.load(tmp_path, root)
    assert [info.name for info in model.inputs] == ["x"]
    assert sum(name.startswith("exp") for name in names(model)) == 1
    np.testing.assert_allclose(run(model, X)[0], 2 * np.exp(X), rtol=1e-6)


def test_names_come_from_spans(tmp_path: Path) -> None:
    graph = Graph()
    graph.nodes.append({"type_key": "SourceName", "repr_str": "block/exp;other"})
    span = graph.node("Span", source_name=len(graph.nodes) - 1, line=0, column=0, end_line=0, end_column=0)
    x = graph.var("x", 1, 3)
    model = graph.load(tmp_path, graph.module(main=graph.function(graph.call("exp", x, span=span), x)))
    assert names(model)[0] == "block/exp"


def test_attributes_are_read_by_their_type(tmp_path: Path) -> None:
    graph = Graph()
    x = graph.var("x", 1, 3)
    # Axis is an object here and stands in the node itself there.
    axis = graph.node("IntImm", dtype="int32", value=1)
    indices = graph.constant(np.array([2, 0], np.int32))
    take = graph.node("relay.attrs.TakeAttrs", axis=axis, batch_dims=graph.node("IntImm", value=0), mode="clip")
    softmax = graph.node("relay.attrs.SoftmaxAttrs", axis=-1)
    body = graph.call("nn.softmax", graph.call("take", x, indices, attrs=take), attrs=softmax)
    (result,) = run(graph.load(tmp_path, graph.module(main=graph.function(body, x))), X)
    exponentials = np.exp(X[:, [2, 0]])
    np.testing.assert_allclose(result, exponentials / exponentials.sum(), rtol=1e-5)


def test_let_if_tuple_and_closure(tmp_path: Path) -> None:
    graph = Graph()
    x, y, a = graph.var("x", 1, 3), graph.var("y"), graph.var("x")
    value = graph.node("relay.Tuple", fields=graph.array(graph.call("exp", x), x))
    first = graph.node("relay.TupleGetItem", tuple_value=y, index=0)
    square = graph.function(graph.call("multiply", a, a), a)
    applied = graph.node("relay.Call", op=square, args=graph.array(first), attrs=0)
    condition = graph.call("less", graph.call("sum", x), graph.constant(np.array(9, np.float32)))
    branches = graph.node("relay.If", cond=condition, true_branch=applied, false_branch=x)
    body = graph.node("relay.Let", var=y, value=value, body=branches)
    (result,) = run(graph.load(tmp_path, graph.module(main=graph.function(body, x))), X)
    np.testing.assert_allclose(result, np.exp(X) ** 2, rtol=1e-5)


def test_function_shared_by_both_branches(tmp_path: Path) -> None:
    graph = Graph()
    x, a, y = graph.var("x", 1, 3), graph.var("a"), graph.var("y")
    square = graph.function(graph.call("multiply", a, a), a)
    shared = graph.node("relay.Let", var=y, value=graph.call("exp", x), body=graph.call("negative", y))
    branches = [graph.node("relay.Call", op=square, args=graph.array(arg), attrs=0) for arg in (x, shared)]
    condition = graph.call("less", graph.call("sum", x), graph.constant(np.array(0, np.float32)))
    body = graph.node("relay.If", cond=condition, true_branch=branches[0], false_branch=branches[1])
    both = graph.call("add", body, shared)
    (result,) = run(graph.load(tmp_path, graph.module(main=graph.function(both, x))), X)
    np.testing.assert_allclose(result, np.exp(X) ** 2 - np.exp(X), rtol=1e-5)


@pytest.mark.parametrize("kind", ["function", "expression"])
def test_root_may_be_a_function_or_an_expression(tmp_path: Path, kind: str) -> None:
    graph = Graph()
    x = graph.var("x", 1, 3)
    body = graph.call("exp", x)
    model = graph.load(tmp_path, body if kind == "expression" else graph.function(body, x))
    assert [info.name for info in model.inputs] == ["x"]


def test_old_spelling_is_read(tmp_path: Path) -> None:
    graph = Graph()
    type_ = graph.node("relay.TensorType", shape=graph.integers(1, 3), dtype="float32")
    x = graph.node("relay.Var", vid=graph.node("relay.Id", name_hint="x"), type_annotation=type_)
    graph.nodes.append({"type_key": "relay.Op", "global_key": "exp"})
    call = graph.node("relay.Call", op=len(graph.nodes) - 1, args=graph.array(x), attrs=0)
    main = graph.node("relay.GlobalVar", name_hint="main")
    graph.nodes.append({"type_key": "Map", "data": [main, graph.function(call, x)]})
    model = graph.load(tmp_path, graph.node("relay.Module", functions=len(graph.nodes) - 1))
    np.testing.assert_allclose(run(model, X)[0], np.exp(X), rtol=1e-6)


@pytest.mark.parametrize("form", ["calls", "lets"])
def test_long_chains_are_read(tmp_path: Path, form: str) -> None:
    graph = Graph()
    x = graph.var("x", 1, 3)
    one = graph.constant(np.array(1, np.float32))
    variables, value = [x], x
    for index in range(3000):
        value = graph.call("add", value if form == "calls" else variables[-1], one)
        variables.append(graph.var(f"v{index}"))
        if form == "lets":
            graph.nodes[variables[-1]]["value"] = value
    if form == "lets":
        value = variables[-1]
        for variable in reversed(variables[1:]):
            value = graph.node("relay.Let", var=variable, value=graph.nodes[variable].pop("value"), body=value)
    assert graph.load(tmp_path, graph.module(main=graph.function(value, x))).outputs[0].shape == (1, 3)


def module() -> tuple[Graph, int, dict[str, int]]:
    graph = Graph()
    x = graph.var("x", 1, 3)
    constant = graph.constant(np.ones((1, 3), np.float32))
    inner = graph.call("exp", x)
    outer = graph.call("add", inner, constant)
    root = graph.module(main=graph.function(outer, x))
    return graph, root, {"x": x, "constant": constant, "inner": inner, "outer": outer}


def test_cycle_is_refused(tmp_path: Path) -> None:
    graph, root, at = module()
    graph.nodes[int(graph.nodes[at["inner"]]["attrs"]["args"])]["data"] = [at["outer"]]
    with pytest.raises(ModelError, match=r"model.json: node \d+ \(relay.Call \w+\): the node is part of itself"):
        graph.load(tmp_path, root)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g, at: g.nodes[at["outer"]]["attrs"].update(args="99999"), r"'args' refers to node '99999'"),
        (lambda g, at: g.nodes[at["outer"]]["attrs"].update(args="x"), r"'args' refers to node 'x'"),
        (lambda g, at: g.nodes[at["outer"]].update(attrs=[]), "'attrs' is no JSON object"),
        (lambda g, at: g.nodes[at["inner"]].update(type_key="Array"), "an expression should be here"),
        (lambda g, at: g.nodes[at["constant"]]["attrs"].update(data="7"), "'data' names an array"),
        (lambda g, _: g.blobs.__setitem__(0, "AAAA"), r"array 0 of 'b64ndarrays': truncated array"),
        (lambda g, _: g.blobs.__setitem__(0, "?"), "array 0 of 'b64ndarrays' is no base64"),
        (lambda g, _: g.blobs.__setitem__(0, g.blobs[0][:-8]), "array 0 of 'b64ndarrays': truncated array"),
        (lambda g, at: g.nodes[at["x"]]["attrs"].pop("vid"), "'name_hint' is missing"),
        (lambda g, at: g.nodes.__setitem__(at["inner"], 5), "the node is no JSON object"),
    ],
)  # fmt: skip
def test_damage_is_named_by_node_and_key(tmp_path: Path, change: Any, message: str) -> None:
    graph, root, at = module()
    change(graph, at)
    with pytest.raises(ModelError, match=rf"^model\.json: (node \d+ \(.*\): )?{message}"):
        graph.load(tmp_path, root)


def test_operator_error_names_the_node(tmp_path: Path) -> None:
    graph = Graph()
    x = graph.var("x", 1, 3)
    root = graph.module(
        main=graph.function(
            graph.call("reshape", x, attrs=graph.node("relay.attrs.ReshapeAttrs", newshape=graph.integers(5))), x
        )
    )
    with pytest.raises(
        ModelError, match=r"model.json: node \d+ \(relay.Call reshape\): reshape: shape \(1, 3\) cannot"
    ):
        graph.load(tmp_path, root)


def test_nesting_is_limited(tmp_path: Path) -> None:
    graph = Graph()
    x = graph.var("x", 1, 3)
    condition, body = graph.call("less", graph.call("sum", x), graph.constant(np.array(9, np.float32))), x
    for _ in range(200):
        body = graph.node("relay.If", cond=condition, true_branch=body, false_branch=x)
    with pytest.raises(ModelError, match="functions and branches nest more than 64 levels"):
        graph.load(tmp_path, graph.module(main=graph.function(body, x)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"model\.json:1:2: not a JSON file"),
        ('{"nodes": 3}', "not a Relay module in JSON"),
        ("{}", "not a Relay module in JSON"),
        ('[["a"]]', "not a Relay module in JSON"),
        ('{"root": 0, "nodes": [{"type_key": ""}]}', r"node 0 \(null\): no Relay module"),
        ('{"root": 1, "nodes": [{"type_key": ""}]}', "'root' refers to node '1', which is not there"),
        ('{"root": 0, "nodes": [' + "[" * 100000, "not a Relay module in JSON|not a JSON file"),
    ],
)
def test_other_json_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(ModelError, match=message):
        relay.load(path)
