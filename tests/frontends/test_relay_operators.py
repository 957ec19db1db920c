"""Operators computed against numpy, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from relay_support import load, run

from tvm_stm32.errors import ModelError, UnsupportedOperatorError

X = np.arange(24, dtype=np.float32).reshape(1, 4, 6) / 5 - 2
DECLARED = "%x: Tensor[(1, 4, 6), float32]"


def compute(
    folder: Path, expression: str, *, data: np.ndarray = X, constants: list[np.ndarray] | None = None
) -> np.ndarray:
    shape = ", ".join(map(str, data.shape))
    text = f"def @main(%x: Tensor[({shape}), {data.dtype}]) {{ {expression} }}"
    return run(load(folder, text, constants), data)[0]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("reshape(%x, newshape=[0, -1])", X.reshape(1, 24)),
        ("reshape(%x, newshape=[-3, -2])", X.reshape(4, 6)),
        ("reshape(%x, newshape=[0, -4, 2, -1, -2])", X.reshape(1, 2, 2, 6)),
        ("contrib_reverse_reshape(%x, newshape=[-1, 0])", X.reshape(4, 6)),
        ("transpose(%x, axes=None)", X.T),
        ("squeeze(%x)", X[0]),
        ("expand_dims(%x, axis=-1, num_newaxis=2)", X[..., None, None]),
        ("strided_slice(%x, begin=[0, -1], end=[1, -100], strides=[1, -2], axes=[0, 1])", X[:, ::-2]),
        ("strided_slice(%x, begin=[1], end=[-1], strides=[1], slice_mode=\"size\", axes=[2])", X[:, :, 1:]),
        ("split(%x, indices_or_sections=[1, 3], axis=1).1", X[:, 1:3]),
        ("split(%x, indices_or_sections=3, axis=2).2", X[:, :, 4:]),
        ("stack((%x, %x), axis=-1)", np.stack((X, X), -1)),
        ("take(%x, meta[relay.Constant][0], axis=2)", X[:, :, [5, 0, 5]]),
        (
            "nn.mirror_pad(%x, mode=\"REFLECT\", pad_width=[[0, 0], [2, 1], [0, 0]])",
            np.pad(X, ((0, 0), (2, 1), (0, 0)), "reflect"),
        ),
        ("round(%x * 2.5f)", np.trunc(X * np.float32(2.5) + np.copysign(np.float32(0.5), X))),
        ("mean(%x, axis=[0], exclude=True)", X.mean((1, 2))),
        ("variance(%x, mean(%x, axis=[2], keepdims=True), axis=[2], unbiased=True)", X.var(2, ddof=1)),
        ("argmax(%x, axis=[1])", X.argmax(1).astype(np.int32)),
        ("if (less(1f, 2f)) { %x } else { nonsense(%x) }", X),
        ("let %r = ref((%x, 1f)); ref_write(%r, (exp(%x), 2f)); match (ref_read(%r)) { (%a, _) => %a }", np.exp(X)),
        ("cast(cast(%x, dtype=\"float16\"), dtype=\"float32\")", X.astype(np.float16).astype(np.float32)),
        ("cast(%x, dtype=\"float16\") * 0.1f16", (X.astype(np.float16) * np.float16(0.1)).astype(np.float32)),
        ("multiply(cast(%x, dtype=\"float64\"), 0.1f64)", X * np.float32(0.1)),
        ("let %f = fn (%a, Primitive=1) { %0 = (%a, exp(%a)); %0.1 }; %f(%x)", np.exp(X)),
        (
            "one_hot(cast(clip(%x, a_min=0f, a_max=2f), dtype=\"int32\"), 1f, 0f, depth=3, axis=-1, dtype=\"float32\")",
            np.eye(3, dtype=np.float32)[np.clip(X, 0, 2).astype(int)],
        ),
        (f"nn.batch_norm(%x, {', '.join(['meta[relay.Constant][1]'] * 4)}, axis=2, epsilon=0f).0", X),
        ("cumsum(%x, axis=1)", X.cumsum(1)),
        ("topk(%x, k=2, axis=1, ret_type=\"values\")", -np.sort(-X, 1)[:, :2]),
        (
            "%0 = nn.space_to_batch_nd(%x, block_shape=[2], paddings=[[1, 1]]);"
            " nn.batch_to_space_nd(%0, block_shape=[2], crops=[[1, 1]])",
            X,
        ),
    ],
)  # fmt: skip
def test_operator(tmp_path: Path, expression: str, expected: np.ndarray) -> None:
    result = compute(tmp_path, expression, constants=[np.array([9, -1, 5], np.int32), np.ones(6, np.float32)])
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_depthwise_kernel_with_a_multiplier(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    data = rng.standard_normal((1, 5, 5, 3)).astype(np.float32)
    weight = rng.standard_normal((3, 3, 3, 2)).astype(np.float32)
    call = 'nn.conv2d(%x, meta[relay.Constant][0], groups=3, data_layout="NHWC", kernel_layout="HWOI")'
    expected = np.zeros((1, 3, 3, 6), np.float32)
    for row in range(3):
        for column in range(3):
            window = data[:, row : row + 3, column : column + 3, :]
            expected += (window[..., np.newaxis] * weight[row, column]).reshape(1, 3, 3, 6)
    np.testing.assert_allclose(compute(tmp_path, call, data=data, constants=[weight]), expected, rtol=1e-5, atol=1e-5)


def test_integer_average_truncates(tmp_path: Path) -> None:
    data = np.array([-7, -2, -1, -1], np.int32).reshape(1, 1, 2, 2)
    assert compute(tmp_path, "nn.avg_pool2d(%x, pool_size=[2, 2])", data=data).item() == -2


def test_names_come_from_spans_or_operators(tmp_path: Path) -> None:
    text = f"def @main({DECLARED}) {{\n  %0 = exp(%x) /* span=model/exp;other:0:0 */;\n  %1 = exp(%0);\n  exp(%1)\n}}"
    blocks = load(tmp_path, text).module["main"].body.blocks
    assert [binding.var.name for binding in blocks[0].bindings][:3] == ["model/exp", "exp_0", "exp_1"]


def test_outputs_take_the_names_of_the_function_attribute(tmp_path: Path) -> None:
    text = f'def @main({DECLARED}, output_tensor_names=["a", "b"]) {{ (exp(%x), %x) }}'
    assert [info.name for info in load(tmp_path, text).outputs] == ["a", "b"]
    text = f"def @main({DECLARED}) {{ (%x, (%x, 1f)) }}"
    assert [info.name for info in load(tmp_path, text).outputs] == ["output_0", "output_1", "output_2"]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("vision.non_max_suppression(%x)", r"model.relay:3:3: operator vision.non_max_suppression is not supported"),
        ('layout_transform(%x, src_layout="NCW", dst_layout="NHW")', "NCW to NHW is not supported"),
    ],
)
def test_unsupported_operator_names_line_and_file(tmp_path: Path, expression: str, message: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=message):
        load(tmp_path, f"def @main({DECLARED}) {{\n  {expression}\n}}")


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("%y", "%y is not defined here"),
        ("@f(%x)", "@f is not defined"),
        ("%x.0", r"projection .0 of Tensor\[\(1, 4, 6\), float32\]"),
        ("exp(%x, %x)", "2 arguments where 1 should be"),
        ("add(%x, 1)", "(?s)add: cannot be applied to .*int32"),
        ("reshape(%x, newshape=[5, 5])", r"shape \(1, 4, 6\) cannot become \(5, 5\)"),
        ("reshape(%x)", "newshape=None"),
        ('cast(%x, dtype="float7")', "unsupported dtype 'float7'"),
        ("softmax(%x)", "operator softmax is not supported"),
        ("nn.softmax(%x, axis=3)", "axis 3 of a tensor with 3 dimensions"),
        ("nn.conv2d(%x, %x)", "data of 3 and weight of 3 dimensions"),
        ("concatenate(%x)", "is not a tuple of tensors"),
        ("if (%x) { %x } else { %x }", "not a single bool"),
        ("let %f = fn (%a) { %f(exp(%a)) }; %f(%x)", "model.relay:3:22: recursion cannot be compiled"),
        (
            "let %f = fn (%a) { if (less(sum(%a), 1f)) { %a } else { add(%f(exp(%a)), %f(%a)) } }; %f(%x)",
            "recursion cannot be compiled",
        ),
        ("fn (%a) { %a }", "the function returns a function"),
        ("zeros(shape=[100000, 100000], dtype=\"int8\")", "a constant has at most"),
        ("tile(%x, reps=[2000000000, 3, 3])", "reps="),
        ("qnn.quantize(%x, -1f, 0, out_dtype=\"int8\")", "not positive and finite"),
        ("qnn.quantize(%x, %x, 0, out_dtype=\"int8\")", "argument 2 is computed by the model"),
        ("match (%x) { Cons(%h) => %h }", r"match cannot be compiled: Tensor\[.*\] is compared with constructor Cons"),
        ("match (%x) { (%a, %b) => %a }", "match cannot be compiled"),
        ("match ((%x, %x)) { (%a) => %a }", "a pattern of 1 fields for a tuple of 2"),
        ("ref(%x)", "the function returns a reference"),
        ("ref_read(%x)", r"ref_read of Tensor\["),
        (
            "let %r = ref(%x); let %u = if (less(max(%x), 1f)) { ref_write(%r, exp(%x)) } else { () }; ref_read(%r)",
            "ref_write cannot be compiled in a branch",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_compiled_is_an_error_with_its_place(tmp_path: Path, expression: str, message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        load(tmp_path, f"def @main({DECLARED}) {{\n  {expression}\n}}")
    assert caught.value.message.startswith("model.relay:")


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        ("Tensor[(?, ?), float32]", r"dynamic shape \(\?, \?\)"),
        ("Tensor[(3, meta[tir.Var][0]), float32]", "(?s)dynamic shape .*--input-shape x:"),
        ("Tensor[(3), bfloat16]", "unsupported dtype bfloat16"),
        ("(int8, int8)", "tuple type"),
        ("fn (int8) -> int8", "function"),
        ("Tensor[(2147483647, 2147483647, 2147483647), int8]", "more than"),
    ],
)
def test_input_type_that_cannot_be_is_an_error(tmp_path: Path, type_: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load(tmp_path, f"def @main(%x: {type_}) {{ %x }}")


def test_shared_tuples_and_nested_functions_do_not_explode(tmp_path: Path) -> None:
    doubled = "".join(f"%{i} = (%{i - 1}, %{i - 1});" for i in range(1, 80))
    with pytest.raises(ModelError, match="more than 1024 tensors"):
        load(tmp_path, f"def @main({DECLARED}) {{ %0 = (%x, %x); {doubled} %79 }}")
    functions = "".join(f"def @f{i}({DECLARED}) {{ @f{i - 1}(@f{i - 1}(%x)) }}\n" for i in range(1, 40))
    with pytest.raises(ModelError, match="inlining the functions gives more than"):
        load(tmp_path, f"def @f0({DECLARED}) {{ %x }}\n{functions}def @main({DECLARED}) {{ @f39(%x) }}")


LISTS = """type List { Cons(Tensor[(1, 4, 6), float32], List), Nil, }
def @total(%l: List) -> Tensor[(1, 4, 6), float32] {
  match (%l) { Cons(%h, %t) => add(%h, @total(%t)), Nil => zeros(shape=[1, 4, 6], dtype="float32") }
}
"""


def test_match_of_known_constructors_folds_even_when_recursive(tmp_path: Path) -> None:
    text = LISTS + f"def @main({DECLARED}) {{ @total(Cons(%x, Cons(exp(%x), Nil))) }}"
    np.testing.assert_allclose(run(load(tmp_path, text), X)[0], X + np.exp(X), rtol=1e-6)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("@total(if (less(max(%x), 1f)) { Nil } else { Cons(%x, Nil) })", "the branches are a Nil and a Cons"),
        ("Cons(%x, Nil)", "the function returns a Cons"),
        ("@total(Cons(%x))", "constructor Cons has 1 fields where 2 should be"),
        ("match (Nil) { Cons(_, _) => %x }", "no clause of the match fits a Nil"),
    ],
)
def test_data_type_that_does_not_fold_is_an_error_with_its_place(tmp_path: Path, body: str, message: str) -> None:
    with pytest.raises(ModelError, match=rf"model\.relay:\d+:\d+: {message}"):
        load(tmp_path, LISTS + f"def @main({DECLARED}) {{\n  {body}\n}}")


@pytest.mark.parametrize("index", [9, 1 << 40, -9])
@pytest.mark.parametrize(
    ("call", "shape"),
    [
        ("gather(%x, meta[relay.Constant][0], axis=1)", (1, 4)),
        ("gather_nd(%x, meta[relay.Constant][0])", (2, 1)),
        ("scatter_elements(%x, meta[relay.Constant][0], %x, axis=1)", (1, 4)),
    ],
    ids=lambda part: part.split("(")[0] if isinstance(part, str) else "",
)
def test_constant_index_outside_of_a_tensor(tmp_path: Path, call: str, shape: tuple[int, ...], index: int) -> None:
    text = f"def @main(%x: Tensor[(1, 4), float32]) {{ {call} }}"
    with pytest.raises(ModelError, match=f"index {index} is outside of"):
        load(tmp_path, text, [np.full(shape, index)])
