"""Models whose content is odd and legal: they compile without a warning and compute what they should."""

from __future__ import annotations

import numpy as np
import pytest
from support import build_and_run, need_board
from tflite_builder import FULLY_CONNECTED, INT8, RELU, Network, Operator, Tensor, dense, relu

from tvm_stm32.boards import load_board
from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.emit import emit
from tvm_stm32.project.firmware import build_image
from tvm_stm32.project.samples import array_names, unpack

NAMES = [
    "end */ of comment",
    "/* begin",
    '"quotes" and \\backslash\\',
    "line\nbreak\r\ttab",
    "trigraph ??/",
    "größe 数字 \N{ROCKET}",
    "x" * 500,
    "%s %n {{ name }} ${PATH}",
    "\x1b[31m\x07\x00end",
    "",
    "int",
]


def compiled(folder, network, name="net", board="host"):
    path = folder / f"{name}.tflite"
    path.write_bytes(network.build())
    return compile_model(path, CompileOptions(load_board(board).target, name=name))


def outputs_of(folder, network, *inputs, board="host"):
    library = compiled(folder, network, board=board)
    sample = b"".join(np.ascontiguousarray(array).tobytes() for array in inputs)
    results, _ = build_and_run(library, board, [sample], folder)
    return [column[0] for column in unpack(library.outputs, results)]


def named(first: str, second: str) -> Network:
    return relu(tensors=[Tensor(first, [1, 8]), Tensor(second, [1, 8])])


DATA = np.linspace(-1, 1, 8, dtype=np.float32).reshape(1, 8)


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_any_name_is_safe_in_c(name, tmp_path):
    (result,) = outputs_of(tmp_path, named(name, name + "!"), DATA)
    np.testing.assert_array_equal(result, np.maximum(DATA, 0))


def test_any_name_is_safe_on_a_chip(tmp_path):
    need_board("mps2-an386")
    network = dense()
    for tensor, name in zip(network.tensors, NAMES, strict=False):
        tensor.name = name
    library = compiled(tmp_path, network, board="mps2-an386")
    results, _ = build_and_run(library, "mps2-an386", [bytes(8)], tmp_path)
    assert len(results[0]) == 4


@pytest.mark.parametrize("names", [("same", "same"), (None, None), ("", "")])
def test_tensors_of_one_name_or_none_stay_apart(names, tmp_path):
    network = Network(
        [Tensor(names[0], [1, 8]), Tensor(names[1], [1, 8]), Tensor(names[0], [1, 8])],
        [Operator(RELU, [0], [1]), Operator(0, [0, 1], [2], options=(11, {}))],
        outputs=[2],
    )
    (result,) = outputs_of(tmp_path, network, DATA)
    np.testing.assert_array_equal(result, DATA + np.maximum(DATA, 0))


def test_input_that_is_an_output(tmp_path):
    first, second = outputs_of(tmp_path, relu(outputs=[0, 1]), DATA)
    np.testing.assert_array_equal(first, DATA)
    np.testing.assert_array_equal(second, np.maximum(DATA, 0))


def test_model_without_operators(tmp_path):
    (result,) = outputs_of(tmp_path, relu(operators=[], outputs=[0]), DATA)
    np.testing.assert_array_equal(result, DATA)


def test_output_listed_twice(tmp_path):
    first, second = outputs_of(tmp_path, relu(outputs=[1, 1]), DATA)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, np.maximum(DATA, 0))
    assert array_names(compiled(tmp_path, relu(outputs=[1, 1])).outputs) == ["y", "y#2"]


def test_output_that_is_constant(tmp_path):
    weights = np.arange(4, dtype=np.float32)
    network = relu(tensors=[Tensor("x", [1, 8]), Tensor("y", [1, 8]), Tensor("c", [4], data=weights)], outputs=[2, 1])
    first, second = outputs_of(tmp_path, network, DATA)
    np.testing.assert_array_equal(first, weights)
    np.testing.assert_array_equal(second, np.maximum(DATA, 0))


def test_model_without_inputs(tmp_path):
    weights = np.array([-1, 2], np.float32)
    network = Network([Tensor("c", [2], data=weights), Tensor("y", [2])], [Operator(RELU, [0], [1])], inputs=[])
    (result,) = outputs_of(tmp_path, network)
    np.testing.assert_array_equal(result, [0, 2])


def test_scalar(tmp_path):
    (result,) = outputs_of(tmp_path, relu(tensors=[Tensor("x", []), Tensor("y", [])]), np.float32(-3))
    assert result.shape == () and result == 0


def test_codes_of_the_whole_range(tmp_path):
    tensors = [Tensor("x", [1, 8], INT8, scale=[1e-30], zero_point=[127])]
    tensors.append(Tensor("y", [1, 4], INT8, scale=[1e30], zero_point=[-128]))
    network = Network([*tensors, *dense().tensors[2:]], [Operator(FULLY_CONNECTED, [0, 2, 3], [1], options=(8, {}))])
    (result,) = outputs_of(tmp_path, network, np.full((1, 8), -128, np.int8))
    np.testing.assert_array_equal(result, np.full((1, 4), -128))


def test_two_networks_of_odd_names_in_one_image(tmp_path):
    need_board("host")
    main = tmp_path / "main.c"
    includes, checks = "", ""
    for name in ("int", "one_two"):
        library = compiled(tmp_path, named("*/ ??/\n", "*/ ??/\n"), name)
        emit(library, tmp_path)
        includes += f'#include "{library.name}.h"\n'
        checks += f"    if (ai_create(&ai_{library.name}_network, NULL, &network) != AI_STATUS_OK) return 1;\n"
    main.write_text(f"{includes}\nint main(void)\n{{\n    ai_handle network;\n\n{checks}    return 0;\n}}\n")
    sources = [main, *(tmp_path / f"{name}{end}.c" for name in ("net_int", "one_two") for end in ("", "_data"))]
    image = build_image(sources, [tmp_path], load_board("host"), tmp_path, "both", warnings_as_errors=True)
    assert image.is_file()


def odd_names(count: int) -> list[str]:
    """Names that hurt: ends of comments and strings, trigraphs, controls, other scripts, C's own words."""
    parts = [
        "*/",
        "/*",
        "//",
        "\\",
        '"',
        "'",
        "??/",
        "??=",
        "\n",
        "\r",
        "\t",
        "\x7f",
        "%s",
        "{{ x }}",
        "int",
        "é",
        "模型",
        " ",
        "#",
    ]
    random = np.random.default_rng(3)
    return [f"{''.join(random.choice(parts, int(random.integers(1, 6))))}{number}" for number in range(count)]


@pytest.mark.parametrize("observer", [0, 1])
def test_two_hundred_odd_names(observer, tmp_path):
    need_board("host")
    names = odd_names(200)
    tensors = [Tensor(name, [1, 4]) for name in names]
    operators = [Operator(RELU, [index], [index + 1]) for index in range(len(names) - 1)]
    outputs = [*range(1, len(names))][-100:]
    library = compiled(tmp_path, Network(tensors, operators, inputs=[0], outputs=outputs), "odd")
    assert [info.name for info in library.outputs] == [names[index] for index in outputs]
    emit(library, tmp_path)
    main = tmp_path / "main.c"
    main.write_text('#include "odd.h"\n\nint main(void)\n{\n    return (int)ai_odd_network.n_nodes * 0;\n}\n')
    sources = [main, tmp_path / "odd.c", tmp_path / "odd_data.c"]
    build_image(
        sources, [tmp_path], load_board("host"), tmp_path, "odd", defines=[f"AI_OBSERVER={observer}"],
        warnings_as_errors=True,
    )  # fmt: skip


def test_settings_with_odd_names_stay_in_their_comment(tmp_path):
    need_board("host")
    path = tmp_path / "net.tflite"
    path.write_bytes(named("a*/b ??/", "y").build())
    options = CompileOptions(load_board("host").target, name="net", external_io=("a*/b ??/",))
    emit(compile_model(path, options), tmp_path)
    main = tmp_path / "main.c"
    main.write_text('#include "net.h"\n\nint main(void)\n{\n    return (int)ai_net_network.n_nodes - 1;\n}\n')
    sources = [main, tmp_path / "net.c", tmp_path / "net_data.c"]
    build_image(sources, [tmp_path], load_board("host"), tmp_path, "odd", warnings_as_errors=True)
