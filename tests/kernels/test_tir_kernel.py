"""What the C kernels look like: registers instead of memory, exact constants, helpful refusals."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tir_support import WARNINGS, Case, compile_case, module_of
from tvm import ir, relax, te, tirx

from tvm_stm32.errors import UnsupportedOperatorError
from tvm_stm32.graph import dialect
from tvm_stm32.graph.lowering import lower_to_tir
from tvm_stm32.kernels.tir import TirKernel, lower_prim_func

_X = np.zeros((1, 8, 8, 4), "float32")
_SEVENS, _TWOS = np.array([7, -7, 7, -7], "int32"), np.array([2, 2, -2, -2], "int32")
_NHWC = {"data_layout": "NHWC", "kernel_layout": "HWIO"}


def _single(build: Callable[..., relax.Expr], *inputs: np.ndarray) -> TirKernel:
    (kernel,) = compile_case(Case("case", inputs, build), "case").kernels.values()
    return kernel


def _element_wise(function: Callable[..., tirx.Expr], *dtypes: str) -> TirKernel:
    inputs = [te.placeholder((4,), dtype, f"x{number}") for number, dtype in enumerate(dtypes)]
    output = te.compute((4,), lambda i: function(*[tensor[i] for tensor in inputs]), "y")
    return lower_prim_func(te.create_prim_func([*inputs, output]), "kernel")


def _run(kernel: TirKernel, folder: Path, output: str, *inputs: np.ndarray) -> np.ndarray:
    source = folder / "kernel.c"
    names = [parameter.name for parameter in kernel.parameters]
    head = f"void entry({', '.join(f'void *{name}' for name in names)})"
    call = f"{head};\n{head}\n{{\n    kernel({', '.join(names)});\n}}\n"
    source.write_text(f"#include <math.h>\n#include <stdint.h>\n{kernel.source}{call}")
    library = folder / "kernel.so"
    subprocess.run(["gcc", *WARNINGS, "-shared", "-fPIC", str(source), "-o", str(library), "-lm"], check=True)
    result = np.zeros(4, output)
    ctypes.CDLL(str(library)).entry(*[array.ctypes.data_as(ctypes.c_void_p) for array in (*inputs, result)])
    return result


def test_convolution_accumulates_four_outputs_in_registers_without_a_padded_copy() -> None:
    weights = relax.const(np.ones((3, 3, 4, 8), "float32"))
    kernel = _single(lambda x: relax.op.nn.relu(relax.op.nn.conv2d(x, weights, padding=1, **_NHWC)), _X)
    assert kernel.workspace == 0
    assert kernel.macs == 8 * 8 * 8 * 3 * 3 * 4
    assert [line.strip().split(" = ")[0] for line in kernel.source.splitlines() if "= 0.0f;" in line] == [
        "float acc0_0",
        "float acc0_1",
        "float acc0_2",
        "float acc0_3",
    ]
    assert "if (1 <= " in kernel.source


def test_softmax_keeps_one_row_in_the_workspace() -> None:
    kernel = _single(relax.op.nn.softmax, np.zeros((50, 10), "float32"))
    assert kernel.workspace == 40
    assert kernel.libm == ("expf",)
    assert kernel.uses_float
    assert "uint8_t *workspace)" in kernel.source


def test_softmax_over_channels_keeps_one_pixel_in_the_workspace() -> None:
    assert _single(lambda x: relax.op.nn.softmax(x, 1), np.zeros((1, 10, 8, 8), "float32")).workspace == 40


def test_producers_of_a_concatenation_need_no_buffer() -> None:
    kernel = _single(lambda x: relax.op.concat([relax.op.exp(x), relax.op.tanh(x)], 1), np.zeros((2, 30), "float32"))
    assert kernel.workspace == 0


def test_integer_kernel_uses_no_float() -> None:
    assert not _single(lambda x: relax.op.add(x, x), np.zeros(4, "int8")).uses_float


def test_parameters_come_in_call_order() -> None:
    kernel = _single(lambda x: relax.op.split(x, 2), np.zeros((4, 3), "int8"))
    assert [tuple(parameter) for parameter in kernel.parameters] == [
        ("in", "int8_t", False, (4, 3)),
        ("out0", "int8_t", True, (2, 3)),
        ("out1", "int8_t", True, (2, 3)),
    ]


def test_constant_is_written_exactly() -> None:
    value = np.float32(0.060025695711374283)
    kernel = _single(lambda x: relax.op.multiply(x, relax.const(value)), np.zeros(4, "float32"))
    (literal,) = [word.rstrip("f;") for word in kernel.source.split() if word.startswith("0.0")]
    assert np.float32(literal) == value


def test_invariant_square_root_is_taken_once_per_row() -> None:
    ones = relax.const(np.ones(8, "float32"))
    kernel = _single(lambda x: relax.op.nn.layer_norm(x, ones, ones, axes=[-1]), np.zeros((3, 8), "float32"))
    assert "const float t0 = 1.0f / sqrtf(" in kernel.source


def test_same_function_gives_the_same_text() -> None:
    case = Case("case", [_X], lambda x: relax.op.nn.softmax(relax.op.exp(x)))
    first, second = (compile_case(case, "case").kernels for _ in range(2))
    assert first == second


def test_lines_are_at_most_120_columns_wide() -> None:
    kernel = _single(lambda x: relax.op.image.resize2d(x, (5, 7), layout="NHWC"), _X)
    assert max(len(line) for line in kernel.source.splitlines()) <= 120


@pytest.mark.parametrize(
    ("function", "dtypes", "inputs", "expected"),
    [
        (tirx.popcount, ["uint32"], [np.array([0, 1, 0xFFFFFFFF, 0x80000001], "uint32")], [0, 1, 32, 2]),
        (tirx.popcount, ["int64"], [np.array([0, -1, 1 << 40, 5], "int64")], [0, 64, 1, 2]),
        (tirx.clz, ["int32"], [np.array([1, 0x7FFFFFFF, -1, 256], "int32")], [31, 1, 0, 23]),
        (
            lambda x, y: tirx.q_multiply_shift(x, y, 31, -2),
            ["int32", "int32"],
            [np.array([1000, -1000, 1 << 30, -7], "int32"), np.array([1 << 30] * 4, "int32")],
            [125, -125, 1 << 27, -1],
        ),
        (lambda x: tirx.reinterpret("int32", x), ["float32"], [np.array([0, 1, -2, np.inf], "float32")], None),
        (tirx.truncdiv, ["int32", "int32"], [_SEVENS, _TWOS], [3, -3, -3, 3]),
        (tirx.truncmod, ["int32", "int32"], [_SEVENS, _TWOS], [1, -1, 1, -1]),
        (tirx.fmod, ["float32", "float32"], [_SEVENS.astype("float32"), _TWOS.astype("float32")], [1, -1, 1, -1]),
        (
            lambda x: tirx.if_then_else(x > 0, tirx.max(tirx.log(x), x / 2), x * 2),
            ["float32"],
            [np.array([1, -1, 4, 0], "float32")],
            [0.5, -2, 2, 0],
        ),
    ],
)
def test_intrinsic(
    tmp_path: Path,
    function: Callable[..., tirx.Expr],
    dtypes: list[str],
    inputs: list[np.ndarray],
    expected: list[float] | None,
) -> None:
    kernel = _element_wise(function, *dtypes)
    output = {"uint8_t": "uint8", "float": "float32"}.get(kernel.parameters[-1].ctype)
    result = _run(kernel, tmp_path, output or kernel.parameters[-1].ctype.removesuffix("_t"), *inputs)
    np.testing.assert_array_equal(result, inputs[0].view("int32") if expected is None else expected)


def test_unknown_intrinsic_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedOperatorError, match=r"tirx\.exp' on float64|float64"):
        _element_wise(tirx.exp, "float64")
    with pytest.raises(UnsupportedOperatorError, match="call_llvm_pure_intrin"):
        _element_wise(lambda x: tirx.call_llvm_pure_intrin("float32", "llvm.fabs", x), "float32")


def test_half_precision_is_refused() -> None:
    with pytest.raises(UnsupportedOperatorError, match=r"operator 'add' of '\w+' cannot be compiled") as error:
        lower_to_tir(module_of(Case("case", [np.zeros(4, "float16")], lambda x: relax.op.add(x, x))))
    assert "float16" in error.value.why


def test_operator_without_a_rule_is_refused_by_name() -> None:
    case = Case("case", [_X], lambda x: relax.op.nonzero(x))
    with pytest.raises(UnsupportedOperatorError, match="operator 'nonzero' of '"):
        lower_to_tir(module_of(case))


def test_variant_without_a_rule_is_refused_by_name() -> None:
    weights = np.zeros((1, 4, 3), "float32")

    def build(x: relax.Expr, w: relax.Expr) -> relax.Expr:
        return relax.op.nn.conv1d(x, w, data_layout="NWC", out_layout="NCW", kernel_layout="OIW")

    with pytest.raises(UnsupportedOperatorError, match=r"operator 'nn\.conv1d' of '"):
        lower_to_tir(module_of(Case("case", [np.zeros((1, 9, 4), "float32"), weights], build)))


def test_operators_of_the_dialect_pass_through() -> None:
    def build(x: relax.Expr) -> relax.Expr:
        middle = dialect.call("q.relu", [relax.op.exp(x)], [2, 3], "float32", zero_point=3)
        return relax.op.exp(middle)

    main = lower_to_tir(module_of(Case("case", [np.zeros((2, 3), "float32")], build)))["main"]
    assert _operators(main) == ["relax.call_tir", "q.relu", "relax.call_tir"]


def test_other_functions_of_the_module_pass_through() -> None:
    builder = relax.BlockBuilder()
    x, y = (relax.Var(name, relax.TensorType((2, 3), "float32")) for name in "xy")
    with builder.function("external", [x], attrs={"Codegen": "example"}):
        with builder.dataflow():
            output = builder.emit_output(relax.op.exp(x))
        builder.emit_func_output(output)
    external = builder.finalize()
    (variable,) = external.get_global_vars()
    builder = relax.BlockBuilder(external)
    with builder.function("main", [y]):
        with builder.dataflow():
            inner = builder.emit(relax.Call(variable, [relax.op.nn.relu(y)]))
            output = builder.emit_output(relax.op.tanh(inner))
        builder.emit_func_output(output)
    lowered = lower_to_tir(builder.finalize())
    assert _operators(lowered["main"]) == ["relax.call_tir", "", "relax.call_tir"]
    assert _operators(lowered["external"]) == ["relax.exp"]


def test_reshapes_stay_visible_and_bindings_keep_their_names() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 2, 3), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value = builder.emit(relax.op.exp(x), "first")
            value = builder.emit(relax.op.nn.relu(value), "second")
            value = builder.emit(relax.op.expand_dims(value, [1]), "third")
            value = builder.emit(relax.op.permute_dims(value, [1, 0, 2, 3]), "fourth")
            output = builder.emit_output(relax.op.exp(value), "fifth")
        builder.emit_func_output(output)
    main = lower_to_tir(builder.finalize())["main"]
    assert _operators(main).count("relax.call_tir") == 2
    assert {"second", "fifth"} <= {binding.var.name for block in main.body.blocks for binding in block.bindings}


def test_weight_layout_changes_are_folded() -> None:
    weights = relax.const(np.arange(12, dtype="float32").reshape(3, 4))
    main = lower_to_tir(
        module_of(
            Case("case", [np.zeros((1, 4), "float32")], lambda x: relax.op.matmul(x, relax.op.permute_dims(weights)))
        )
    )["main"]
    (binding,) = main.body.blocks[0].bindings
    folded = binding.value.args[1].fields[1]
    assert isinstance(folded, ir.GenericConst)
    np.testing.assert_array_equal(folded.value.numpy(), weights.value.numpy().T)


def _operators(main: relax.Function) -> list[str]:
    return [dialect.name_of(binding.value) for block in main.body.blocks for binding in block.bindings]
