"""Texts are read as the printer wrote them, odd names and literals included; bad ones end in an error with a place."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from relay_support import HEADER, load, metadata

from tvm_stm32.errors import ModelError
from tvm_stm32.frontends import relay
from tvm_stm32.frontends.relay import ast, parser
from tvm_stm32.frontends.relay.metadata import Metadata
from tvm_stm32.frontends.relay.source import Source

X = "%x: Tensor[(2, 3), float32]"


def parse(text: str) -> ast.Module:
    return parser.parse(Source("t.relay", text))


def literal(text: str) -> np.ndarray:
    body = parse(f"def @main() {{ {text} }}").functions["main"].body
    assert isinstance(body, ast.Literal)
    return body.value


@pytest.mark.parametrize(
    ("text", "value", "dtype"),
    [
        ("3", 3, "int32"),
        ("--3", 3, "int32"),
        ("-3i16", -3, "int16"),
        ("5000000000", 5000000000, "int64"),
        ("1 /* ty=int64 */", 1, "int64"),
        ("1i64 /* ty=int64 span=from_string:1:2 */", 1, "int64"),
        ("-128f", -128.0, "float32"),
        ("9.53674e-07f", np.float32(9.53674e-07), "float32"),
        ("1e+30f", np.float32(1e30), "float32"),
        ("0.1f64", 0.1, "float64"),
        ("1.5f16", 1.5, "float16"),
        ("inff", np.inf, "float32"),
        ("-inff64", -np.inf, "float64"),
        ("True", True, "bool"),
    ],
)
def test_literal(text: str, value: float, dtype: str) -> None:
    assert (literal(text).item(), str(literal(text).dtype)) == (value, dtype)


def test_nan_literal() -> None:
    assert np.isnan(literal("nanf"))


@pytest.mark.parametrize("text", ["1.5", "3i7", "300i8", "1f8", "99999999999999999999999", "3x"])
def test_malformed_number_is_an_error_with_a_place(text: str) -> None:
    with pytest.raises(ModelError, match=r"t\.relay:1:15: "):
        literal(text)


@pytest.mark.parametrize("name", ["serving_default_x:0", "cmsis-nn_0_i0", "a;b/c.d|e", "a[0]", "v0", "x.1", "a b"])
def test_variable_names_are_taken_as_printed(name: str) -> None:
    function = parse(f"def @main(%{name}: Tensor[(2), int8], %y: int8) {{ add(%{name}, %y) }}").functions["main"]
    assert function.parameters[0].name == name
    assert isinstance(function.body, ast.Call) and function.body.args[0] == ast.Local(name, function.body.args[0].at)


def test_odd_names_end_with_their_function() -> None:
    text = "def @f(%a.1: int8) { %a.1 }\ndef @main(%a: (int8, int8)) { %a.1 }"
    functions = parse(text).functions
    assert isinstance(functions["f"].body, ast.Local)
    assert isinstance(functions["main"].body, ast.Projection)


def test_every_construct_of_the_grammar_parses() -> None:
    text = """#[ version = "0.0.5" ]
    /* nested /* comment */ */ // and a line
    type List[A] { Cons(A, List[A]), Nil, }
    extern type Blob
    def @main[T](%x {virtual_device_=meta[VirtualDevice][0]}: Tensor[(2, 3i64), float32], %n: int32, Primitive=1,
        Composite="a \\"b\\"", names=["p", "q"], tir.noalias=True, none=None, layout=meta[DictAttrs][0]) -> (float32,) {
      free_var %f: fn (Tensor[(), bool], _, ref(int8)) -> List[int8];
      let %t = (%x, (%n,), ());
      %0 = fn (%a, %b: Tensor[(?, meta[tir.Var][0]), float32]) { %a };
      %1 = %t.0;
      if (True) { ref_write(ref(%1), ref_read(%1)) } else { %0(%1, %1)(%1) };
      match? (Cons(%x, Nil)) { Cons(%h, _) => %h, (%p: int8, Nil) => { %p }, _ => %x };
      -3 + %n * 2 - %n / 4 <= %n;
      nn.conv2d(%1, meta[relay.Constant][0], strides=[1, 2], pads=[[0, 1], [2, 3]] eps=1e-05f, meta_=meta[Map][0],)
    }
    def @second() { @main() }
    """.replace("meta_=meta[Map][0],)", "meta_=meta[Map][0])")
    module = parse(text)
    assert list(module.functions) == ["main", "second"]
    assert module.functions["main"].attrs["Composite"] == 'a "b"'
    assert list(module.constructors) == ["Cons", "Nil"]


def test_operators_bind_as_in_python() -> None:
    body = parse("def @main(%a: int32) { %a - 1 * 2 -3 < 4 }").functions["main"].body
    assert isinstance(body, ast.Chain) and body.rest[0][0] == "less"
    difference = body.first
    assert isinstance(difference, ast.Chain) and [name for name, _, _ in difference.rest] == ["subtract", "subtract"]


def test_span_may_hold_a_comment_start(tmp_path: Path) -> None:
    text = (
        f"def @main({X} /* ty=Tensor[(2, 3), float32] span=a/*b:1:2 */) {{\n  exp(%x) /* ty=float32 span=c/*:0:0 */\n}}"
    )
    assert load(tmp_path, text).outputs[0].shape == (2, 3)


def test_text_without_header_or_definition(tmp_path: Path) -> None:
    path = tmp_path / "bare.relay"
    path.write_text("free_var %x: Tensor[(2, 3), float32];\n%0 = exp(%x);\nadd(%0, %x)\n")
    assert [info.name for info in relay.load(path).inputs] == ["x"]


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ('#[version = "0.0.4"]\n', "1:14", "version 0.0.4"),
        ("def @main(%x: Tensor[(2), float32]) {\n  exp(%x\n}", "3:1", r"'}' found where '\)' should be"),
        ("def @main() { $ }", "1:15", "no meaning"),
        ("def @main() { 1f ", "1:18", "the end of the text"),
        ("def @main() { /* }", "1:15", "comment without an end"),
        ('def @main() { full(1f, shape=["a) }', "1:31", "string without an end"),
        ("def @main() { 1f }\ndef @main() { 1f }", "2:5", "defined twice"),
        ("def @main(%x: Tensor[(-2), int8]) { %x }", "1:23", "no extent"),
        ("def @main(%x: Tensor[(2), int9]) { %x }", "1:27", "dtype"),
        ("@main = primfn(x)", "1:1", "TIR"),
        ("def @main(%x: int8, %x: int8) { %x }", "1:21", "parameter %x occurs twice"),
        ("type 3", "1:6", "type definition"),
    ],
)
def test_syntax_error_names_place_and_shows_the_line(text: str, place: str, message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        parse(text)
    lines = caught.value.message.splitlines()
    assert lines[0].startswith(f"t.relay:{place}: ")
    assert lines[2].index("^") - 2 == int(place.split(":")[1]) - 1


@pytest.mark.parametrize("pair", ["()", "{}"])
def test_deep_nesting_is_refused(pair: str) -> None:
    with pytest.raises(ModelError, match="nested more than"):
        parse(f"def @main() {{ {pair[0] * 5000}1f{pair[1] * 5000} }}")


def test_long_chains_are_read(tmp_path: Path) -> None:
    lines = "".join(f"%{i} = add(%{i - 1 if i else 'x'}, 1f);\n" for i in range(3000))
    model = load(tmp_path, f"def @main({X}) {{ {lines} %2999 }}")
    assert model.outputs[0].shape == (2, 3)


def resolve(section: str, key: str = "relay.Constant", index: int = 0) -> object:
    text = f"#[metadata]{section}"
    return Metadata(Source("t.relay", text), len("#[metadata]")).constant(ast.Meta(key, index, 0))


def test_metadata_constant_keeps_dtype_and_shape() -> None:
    arrays: list[np.ndarray] = [
        np.array([[1, -2]], np.int8),
        np.array(3.5, np.float32),
        np.array([True, False]),
        np.zeros((0, 2), np.int64),
    ]
    for index, array in enumerate(arrays):
        found = resolve(metadata(arrays).strip().removeprefix("#[metadata]"), index=index)
        assert isinstance(found, np.ndarray) and found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


def _section(**changes: object) -> str:
    document = json.loads(metadata([np.arange(4, dtype=np.int8)]).strip().removeprefix("#[metadata]"))
    return json.dumps(document | changes)


@pytest.mark.parametrize(
    "section",
    [
        "",
        "{",
        "[" * 100000,
        "[]",
        "{}",
        _section(root=99),
        _section(root="x"),
        _section(nodes=[]),
        _section(nodes=[1, 2]),
        _section(b64ndarrays=[]),
        _section(b64ndarrays=["!!"]),
        _section(b64ndarrays=["AAAA"]),
        _section(b64ndarrays=[3]),
        metadata([np.zeros(4, np.int8)]).replace("root", "foot"),
    ],
)
def test_malformed_metadata_is_an_error(section: str) -> None:
    with pytest.raises(ModelError):
        resolve(section)


def test_reference_beyond_the_metadata_is_an_error() -> None:
    section = metadata([np.zeros(4, np.int8)]).strip().removeprefix("#[metadata]")
    with pytest.raises(ModelError, match=r"meta\[relay.Constant\]\[1\] cannot be resolved"):
        resolve(section, index=1)


def test_reference_without_metadata_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"(?s)model\.relay:2:.*show_meta_data=True"):
        load(tmp_path, f"def @main({X}) {{ add(%x, meta[relay.Constant][0]) }}")


def test_attribute_object_of_the_metadata(tmp_path: Path) -> None:
    document = {
        "root": 1,
        "nodes": [
            {"type_key": ""},
            {"type_key": "Map", "keys": ["relay.attrs.TransposeAttrs"], "data": [2]},
            {"type_key": "Array", "data": [3]},
            {"type_key": "relay.attrs.TransposeAttrs", "attrs": {"axes": "4"}},
            {"type_key": "Array", "data": [5, 6]},
            {"type_key": "IntImm", "attrs": {"dtype": "int32", "value": "1"}},
            {"type_key": "IntImm", "attrs": {"dtype": "int32", "value": "0"}},
        ],
        "b64ndarrays": [],
    }
    text = (
        f"def @main({X}) {{ transpose(%x, meta[relay.attrs.TransposeAttrs][0]) }}\n#[metadata]\n{json.dumps(document)}"
    )
    assert load(tmp_path, text).outputs[0].shape == (3, 2)


def test_header_constant_is_the_printed_one() -> None:
    assert parse(HEADER + "def @main() { 1f }").metadata_at == -1
