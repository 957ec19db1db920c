"""Every int8 kernel gives the reference's bytes: random operators of each class, on the host and on each emulated core.

``TVM_STM32_PROPERTY_CASES`` sets how many cases of each class run in each of ``FORMS``; ``full`` runs as many as these
say. A case is an operator with weights, scales and offsets of its own, on two inputs. Of the kernels that fit it gets
the one a level prefers or, in every other network, any one. A case that fails is named with its shape and parameters.
"""

from __future__ import annotations

import os
import zlib

import numpy as np
import pytest
from kernels import reference
from kernels.random_cases import CLASSES, Case, cases, codes
from support import CORE_BOARDS, build_and_run
from tvm import IRModule, relax

from tvm_stm32 import memory
from tvm_stm32.choices import LEVELS
from tvm_stm32.graph import operators
from tvm_stm32.kernels import choice
from tvm_stm32.kernels.network import build_library
from tvm_stm32.library import Library
from tvm_stm32.model import Model, Provenance, TensorInfo
from tvm_stm32.target import Target

# (core, where it runs, language of inner kernels): cases of each class in a full run. The DSP extension's blocks in C
# run on this computer too.
FORMS = {("host", "host", "asm"): 2500, ("cortex-m4", "host", "c"): 2500}
FORMS |= {(core, board, "asm"): 300 for core, board in CORE_BOARDS.items()}
FORMS |= {("cortex-m4", "mps2-an386", "c"): 60, ("cortex-m55", "mps3-an547", "c"): 60}
# The M0+ has no board here: an M3 runs its code.
FORMS |= {("cortex-m0plus", "mps2-an385", "asm"): 300, ("cortex-m3", "host", "c"): 300}

# Of each class in a network: shapes, sets of weights for each, inputs of each. A network has at most 255 inputs.
SHAPES, SETS, INPUTS = 3, 4, 2
DEFAULT = SHAPES * SETS


def networks() -> list[tuple[str, str, str, int]]:
    """The form and number of every network: as many as the cases asked for need."""
    asked = os.environ.get("TVM_STM32_PROPERTY_CASES", str(DEFAULT))
    counts = {form: full if asked == "full" else int(asked) for form, full in FORMS.items()}
    return [(*form, number) for form, count in counts.items() for number in range(-(-count // (SHAPES * SETS)))]


def network(made: list[Case]) -> Model:
    """All cases side by side in one network with one output each."""
    variables, inputs, outputs = [], [], []
    builder = relax.BlockBuilder()
    for number, case in enumerate(made):
        for position, shape in enumerate(case.shapes):
            name = f"in_{number}_{position}"
            variables.append(relax.Var(name, relax.TensorType(shape, "int8")))
            inputs.append(TensorInfo(name, shape, "int8"))
    with builder.function("main", variables):
        with builder.dataflow():
            results, used = [], 0
            for number, case in enumerate(made):
                mine = variables[used : used + len(case.shapes)]
                used += len(case.shapes)
                results.append(builder.emit(case.call(mine)))
                shape = tuple(int(extent) for extent in results[-1].ty.shape)
                outputs.append(TensorInfo(f"out_{number}", shape, "int8"))
            out = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(out)
    module = IRModule({"main": builder.get()["main"]})
    return Model(module, inputs, outputs, "tflm", Provenance("zoo", "0" * 64, "test"))


def built(made: list[Case], core: str, kernels: str, level: str) -> Library:
    """The library of a network of these cases."""
    model = network(made)
    library = build_library(model.module, model, Target.for_cpu(core), "zoo", level, {}, kernels)
    memory.plan(library)
    return library


def refusal(case: Case, core: str, kernels: str, level: str) -> str:
    """Why there is no kernel for a case."""
    try:
        built([case], core, kernels, level)
    except Exception as error:
        return f"{case.kind}: {type(error).__name__} {error}\n    {case.text}"
    return ""


def differences(made, samples, core, board, kernels, level, folder, optimize="-O2") -> list[str]:
    """The cases whose codes are not the reference's, or without a kernel. ``samples`` are the inputs of all cases."""
    try:
        library = built(made, core, kernels, level)
    except Exception:
        wrong = [refusal(case, core, kernels, level) for case in made]
        rest = [number for number, text in enumerate(wrong) if not text]
        if len(rest) == len(made):
            raise
        samples = [[sample[number] for number in rest] for sample in samples]
        made = [made[number] for number in rest]
        return [*filter(None, wrong), *differences(made, samples, core, board, kernels, level, folder, optimize)]
    packed = [b"".join(array.tobytes() for arrays in sample for array in arrays) for sample in samples]
    cpu = core if core == "cortex-m0plus" and board != "host" else ""
    results, _ = build_and_run(library, board, packed, folder, optimize=optimize, cpu=cpu)
    wrong = []
    for number, (result, sample) in enumerate(zip(results, samples, strict=True)):
        offset = 0
        for call, case, arrays in zip(library.calls, made, sample, strict=True):
            expected = case.expected(arrays)
            got = np.frombuffer(result, np.int8, expected.size, offset).reshape(expected.shape)
            offset += expected.size
            if not np.array_equal(got, expected):
                place = tuple(int(i) for i in np.argwhere(got != expected)[0])
                text = f"{np.count_nonzero(got != expected)} of {got.size} codes, at {place} {got[place]}"
                text += f" instead of {expected[place]}"
                wrong.append(f"{case.kind} ({call.operator} {call.detail}), input {number}: {text}\n    {case.text}")
        assert offset == len(result)
    return wrong


@pytest.mark.parametrize("core, board, kernels, number", networks())
def test_kernels_equal_the_reference(core, board, kernels, number, tmp_path, monkeypatch):
    generator = np.random.default_rng([zlib.crc32(f"{core} {board} {kernels}".encode()), number])
    level = str(generator.choice(LEVELS))
    if generator.random() < 0.5:
        forms = np.random.default_rng(number)
        monkeypatch.setattr(choice, "pick", lambda _, costs: str(forms.choice(sorted(costs))))
    made = [case for kind in CLASSES for _ in range(SHAPES) for case in cases(generator, kind, SETS)]
    samples = [[[codes(generator, shape) for shape in case.shapes] for case in made] for _ in range(INPUTS)]
    # Most are compiled quickly, some as they are used.
    optimize = "-O2" if number % 8 == 0 else ("-O0" if board == "host" else "-O1")
    wrong = differences(made, samples, core, board, kernels, level, tmp_path, optimize)
    assert not wrong, f"level {level}:\n" + "\n".join(wrong)


def test_a_shift_that_wraps_between_equal_ends_is_no_constant(tmp_path):
    """Sums 100 and 4180 give 127; those between wrap on their way through TFLM's shift to the left."""
    x = np.arange(-128, 128, dtype=np.int8).reshape(1, 16, 16, 1)
    r = operators.Requantization(np.array([1 << 30]), np.array([20]), 0, "tflm")
    weight, bias = np.full((1, 1, 1, 1), 16, np.int8), np.array([100])
    options = {"strides": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1}
    acc = reference.conv_accumulate(x, weight, bias, *options.values(), -128)
    expected = reference.finish(acc, r.multiplier, r.shift, 0, "tflm", -128, 127)
    case = Case("pointwise", [x.shape],
                lambda v: operators.conv2d(v[0], weight, bias, r, input_zero_point=-128, **options),
                lambda _: expected, "a shift of 20 to the left")  # fmt: skip
    assert set(expected.reshape(-1).tolist()) == {-128, 127}
    assert not differences([case], [[[x]]], "host", "host", "asm", "time", tmp_path)
