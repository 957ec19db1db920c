"""An application of the kind ST's demos are: every network of the image, float values in and out, ten inferences."""

from __future__ import annotations

import numpy as np
import pytest
from support import ROOT, need_board

from tvm_stm32.boards import load_board
from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.emit import emit
from tvm_stm32.library import Library
from tvm_stm32.project.emulator import run_image
from tvm_stm32.project.firmware import build_image
from tvm_stm32.project.inference import run_samples

DIGITS = ROOT / "examples" / "digits"
RUNS = 10

MAIN = """
#include "digits_float.h"
#include "digits_int8.h"
#include "expected.h"
#include "port.h"

static int same(const char *a, const char *b)
{
    while ((*a == *b) && (*a != '\\0')) {
        a++;
        b++;
    }
    return *a == *b;
}

static int failed(const char *what, const char *text)
{
    port_print("status=error ");
    port_print(what);
    port_print(text);
    port_print("\\n");
    return 1;
}

static int check(const ai_model_info *model, const float *wanted)
{
    float values[OUTPUTS];
    ai_handle network = NULL;
    ai_report report;
    uint32_t run;
    uint32_t i;

    if (ai_create(model, NULL, &network) != AI_STATUS_OK) {
        return failed("create: ", ai_get_error(NULL));
    }
    if ((ai_get_report(network, &report) != AI_STATUS_OK) || !same(report.name, ai_get_name(network)) ||
        (report.macs != model->macs) || (ai_get_node_size(network) != report.n_nodes) ||
        (ai_get_activations_size(network) != report.activations_size) || (ai_get_params(network) == NULL) ||
        (ai_get_params_size(network) != report.params_size) || (ai_get_activations(network) != model->activations) ||
        (ai_get_tensor_elements(ai_get_input(network, 0U)) != INPUTS) || (ai_get_output(network, 1U) != NULL) ||
        !same(ai_get_error(network), "Output index out of range")) {
        return failed("getters of ", model->name);
    }
    for (run = 0U; run < RUNS; run++) {
        if ((ai_quantize_input(network, 0U, &inputs[run * INPUTS]) != AI_STATUS_OK) ||
            (ai_run(network) != AI_STATUS_OK) || (ai_dequantize_output(network, 0U, values) != AI_STATUS_OK)) {
            return failed("inference: ", ai_get_error(network));
        }
        for (i = 0U; i < OUTPUTS; i++) {
            const float apart = values[i] - wanted[run * OUTPUTS + i];
            if (!((apart < TOLERANCE) && (apart > -TOLERANCE))) {
                return failed("result of ", model->name);
            }
        }
    }
    return (ai_destroy(network) == AI_STATUS_OK) ? 0 : failed("destroy ", model->name);
}

int main(int argc, char **argv)
{
    ai_model_iterator it;
    uint32_t found = 0U;

    (void)argc;
    (void)argv;
    for (it = ai_model_iterator_begin(); it != ai_model_iterator_end(); it = ai_model_iterator_next(it)) {
        const ai_model_info *const model = ai_model_iterator_value(it);
        found++;
        if (check(model, same(model->name, "digits_int8") ? int8_outputs : float_outputs) != 0) {
            return 1;
        }
    }
    if (found != 2U) {
        return failed("networks in the image: ", "not two");
    }
    port_print("status=ok\\n");
    return 0;
}
"""


def coded(library: Library, values: np.ndarray) -> np.ndarray:
    """What the network's input holds for float values; ONNX rounds halves to even."""
    quantization = library.inputs[0].quantization
    if quantization is None:
        return values
    steps = np.rint(values / np.float32(quantization.scale[0])) + quantization.zero_point[0]
    return np.clip(steps, -128, 127).astype(np.int8)


def reals(library: Library, results: list[bytes]) -> np.ndarray:
    info = library.outputs[0]
    codes = np.stack([np.frombuffer(result, info.dtype) for result in results])
    if info.quantization is None:
        return codes
    return (codes.astype(np.int32) - info.quantization.zero_point[0]) * np.float32(info.quantization.scale[0])


def array(name: str, values: np.ndarray) -> str:
    numbers = ", ".join(f"{float(value).hex()}f" for value in values.ravel())
    return f"static const float {name}[{values.size}] = {{{numbers}}};\n"


@pytest.mark.parametrize("board_name", ["host", "mps2-an386", "stm32f405"])
def test_every_network_of_the_image(board_name, tmp_path):
    need_board(board_name)
    board = load_board(board_name)
    values = np.random.default_rng(1).uniform(0, 16, (RUNS, 64)).astype(np.float32)
    header = f"#define RUNS {RUNS}U\n#define TOLERANCE 1e-5f\n" + array("inputs", values)
    sources = []
    for kind in ("int8", "float"):
        # What the host computes from the same codes.
        own = compile_model(DIGITS / f"digits_{kind}.onnx", CompileOptions(load_board("host").target))
        folder = tmp_path / f"reference_{kind}"
        emit(own, folder)
        files = [folder / f"{own.name}{part}.c" for part in ("", "_data")]
        image = build_image(files, [folder], load_board("host"), folder, "reference", network=own.name)
        samples = [row.tobytes() for row in coded(own, values)]
        results, _ = run_samples(image, load_board("host"), samples, count="none", timeout_s=60)
        header += array(f"{kind}_outputs", reals(own, results))
        library = compile_model(DIGITS / f"digits_{kind}.onnx", CompileOptions(board.target))
        emit(library, tmp_path)
        sources += [tmp_path / f"{library.name}{part}.c" for part in ("", "_data")]
    (tmp_path / "expected.h").write_text(header + "#define INPUTS 64U\n#define OUTPUTS 10U\n")
    (tmp_path / "main.c").write_text(MAIN)
    image = build_image([tmp_path / "main.c", *sources], [tmp_path], board, tmp_path, "app", warnings_as_errors=True)
    run_image(image, board, timeout_s=60)
