"""Forms of kernels: what is counted is what runs, each level takes what it promises, a form can be set by hand."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
from click.testing import CliRunner
from support import MLPERF_TINY, build_and_run, random_bytes, shared
from tvm import IRModule, relax

from tvm_stm32 import memory
from tvm_stm32.cli import cli
from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.errors import Error
from tvm_stm32.graph import operators
from tvm_stm32.kernels.blocks.assembly import assembly_text
from tvm_stm32.kernels.blocks.ctext import c_text
from tvm_stm32.kernels.blocks.depthwise import depthwise_block
from tvm_stm32.kernels.blocks.depthwise_mve import depthwise_mve_block
from tvm_stm32.kernels.blocks.matmul import Layout, matmul_block
from tvm_stm32.kernels.blocks.matmul_mve import VectorLayout, matmul_mve_block
from tvm_stm32.kernels.blocks.requantize import Requantizer
from tvm_stm32.kernels.blocks.vector import vector_block
from tvm_stm32.kernels.network import build_library
from tvm_stm32.model import Model, Provenance, TensorInfo
from tvm_stm32.target import Target

REQUANTIZERS = [
    Requantizer(zero_point, low, high, rounded, sign, common, compact)
    for zero_point, (low, high), (rounded, sign), (common, compact) in product(
        (-128, 5),
        ((-128, 127), (-10, 20)),
        ((True, True), (True, False), (False, False)),
        ((True, False), (False, True)),
    )
]


@pytest.mark.parametrize("stage", [*REQUANTIZERS, None], ids=str)
def test_every_block_finds_registers(stage):
    """Allocation fails for a wrong description only; all descriptions are tried that operators may ask for."""
    for pixels, channels, packed, doubles in product((1, 2, 3, 4), (1, 2, 9, 2000), (True, False), (True, False)):
        for layout in (Layout(1), Layout(33), Layout(700), Layout(5, 4, 12, 3, 584), Layout(48, 4, 64, 3, 2176)):
            block = matmul_block(pixels, layout, channels, channels, packed, stage, 16, doubles=doubles)
            assert "NAME" in assembly_text(block) and "NAME" in c_text(block)
    for channels, depth, codes in product((1, 6, 7, 100), (1, 4, 7, 640), (True, False)):
        assembly_text(vector_block(depth, channels, True, stage, 16, codes=codes))
    for pixels, channels in product((1, 2), (1, 4, 15, 64)):
        for vectors in (VectorLayout(1, 16), VectorLayout(40, 640), VectorLayout(3, 16, 3, 5000)):
            wide = 8 // pixels
            assembly_text(matmul_mve_block(pixels, vectors, channels, channels, stage, 8, wide=wide))
    if stage is None:
        return
    for width, (rows, stride), waiting, channels in product(
        (1, 3, 5, 8, 17), ((2, 1), (1, 1), (1, 2)), (4, 8, 16), (4, 1200)
    ):
        columns = (width - 1) * stride + 3
        assembly_text(
            depthwise_block(channels, columns, width, rows, stride, stage, small=stage.compact, waiting=waiting)
        )
    for kernel, channels, at_once in product(((1, 1), (3, 3), (5, 5)), (4, 16, 40), (1, 2, 9)):
        assembly_text(depthwise_mve_block(channels, kernel, 4096, 64, 7, 64, stage, at_once))


def convolution(channels_in: int, channels: int, size: int, kernel: int, stride: int, groups: int = 1):
    """A library maker for one convolution with a ReLU, and an input."""
    generator = np.random.default_rng(7)
    weight = np.clip(generator.normal(0, 35, (channels, kernel, kernel, channels_in // groups)), -127, 127).astype(
        np.int8
    )
    bias = generator.integers(-2000, 2000, channels).astype(np.int32)
    pad = kernel // 2
    multiplier = generator.integers(1 << 30, (1 << 31) - 1, channels)
    requantization = operators.Requantization(multiplier, np.full(channels, -8), -128, "tflm")
    data = random_bytes(generator, (1, size, size, channels_in))
    builder = relax.BlockBuilder()
    variable = relax.Var("data", relax.TensorType(data.shape, "int8"))
    with builder.function("main", [variable]):
        with builder.dataflow():
            call = operators.conv2d(
                variable,
                weight,
                bias,
                requantization,
                input_zero_point=-128,
                strides=(stride, stride),
                padding=(pad, pad, pad, pad),
                dilation=(1, 1),
                groups=groups,
            )
            result = builder.emit_output(builder.emit(call))
        builder.emit_func_output(result)
    function = builder.get()["main"]
    shape = tuple(int(extent) for extent in call.ty.shape)
    infos = [TensorInfo("data", data.shape, "int8")], [TensorInfo("result", shape, "int8")]
    module = IRModule({"main": function})
    model = Model(module, *infos, "tflm", Provenance("one", "0" * 64, "test"))

    def library(cpu: str, level: str, forms: dict[str, str]):
        made = build_library(module, model, Target.for_cpu(cpu), "one", level, {}, "asm", forms)
        memory.plan(made)
        return made

    return library, data.tobytes()


SHAPES = {
    "pointwise": ((64, 64, 12, 1, 1), ("tile", "shared")),
    "first": ((2, 16, 24, 3, 2), ("rows", "tile", "shared")),
    "3x3": ((16, 16, 16, 3, 1), ("winograd", "rows", "tile", "shared")),
    "depthwise": ((32, 32, 12, 3, 1, 32), ("pairs", "chunks-16", "chunks-8", "pixel")),
    "depthwise stride 2": ((16, 16, 24, 3, 2, 16), ("pairs", "chunks-8", "pixel")),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("level", ["time", "balanced"])
def test_counted_costs_are_what_runs(name, level, tmp_path):
    make, data = convolution(*SHAPES[name][0])
    outputs = set()
    for form in SHAPES[name][1]:
        if form == "shared" and level == "time":
            continue
        library = make("cortex-m4", level, {"#0": form})
        cost = library.calls[0].costs[0]
        assert cost.form == form and library.calls[0].reason == "set"
        results, run = build_and_run(library, "mps2-an386", [data], tmp_path / form, count=True)
        outputs.add(results[0])
        assert cost.instructions == pytest.approx(run.instructions[-1], rel=0.15), form
    assert len(outputs) == 1


def test_levels_keep_their_promises():
    make, _ = convolution(16, 16, 16, 3, 1)
    chosen = {level: make("cortex-m4", level, {}).calls[0] for level in ("time", "balanced", "ram", "size")}
    for level, key in (("time", "cycles"), ("size", "flash")):
        costs = chosen[level].costs
        assert getattr(costs[0], key) == min(getattr(cost, key) for cost in costs), level
        assert len(costs) > 1 and chosen[level].reason
    assert chosen["time"].costs[0].form == "winograd"


def test_report_and_set_option(tmp_path):
    model = shared(MLPERF_TINY / "pretrainedResnet_quant.tflite")
    options = ["--cpu", "cortex-m4", "--set", "#1=rows", "-o", str(tmp_path)]
    result = CliRunner().invoke(cli, ["compile", str(model), *options])
    assert result.exit_code == 0, result.output
    facts = json.loads((tmp_path / "pretrainedresnet_quant_report.json").read_text())
    form = facts["operators"][1]["kernel_form"]
    assert (form["form"], form["reason"]) == ("rows", "set")
    assert {other["form"] for other in form["alternatives"]} == {"winograd", "tile"}
    assert form["alternatives"][0]["cycles_model"] < form["cycles_model"]
    assert facts["settings"]["set:#1"] == "rows"
    assert " rows " in (tmp_path / "pretrainedresnet_quant_report.txt").read_text()


@pytest.mark.parametrize(
    "given, words",
    [
        ("#1=magic", ("no kernel of the form 'magic'", "winograd, rows, tile")),
        ("#2=rows", ("operator #2 is several in bands of rows", "bands-1, bands-2, bands-4, apart", "#2.0=...")),
        ("#2.0=magic", ("no kernel of the form 'magic'", "winograd, rows, tile")),
        ("#9=rows", ("operator #9 avg_pool2d has one kernel only",)),
        ("#1.7=rows", ("operator #1 conv2d has no part 7",)),
        ("#99=rows", ("there are 12 operators, #0 to #11",)),
        ("2=rows", ("#2 is the operator with this number",)),
        ("Relu;model/add/ad=plain", ("no operator with a choice of kernels",)),
        ("add=apart", ("the names of", "operators end so", "model/add/add")),
        ("nowhere=rows", ("no operator with a choice of kernels", "nowhere")),
        ("#2", ("is no OPERATOR=FORM",)),
        ("=rows", ("is no OPERATOR=FORM",)),
    ],
)
def test_wrong_set_options_are_refused(given, words, tmp_path):
    model = shared(MLPERF_TINY / "pretrainedResnet_quant.tflite")
    result = CliRunner().invoke(cli, ["compile", str(model), "--set", given, "-o", str(tmp_path / "out")])
    assert isinstance(result.exception, Error) and not (tmp_path / "out").exists()
    assert all(word in str(result.exception) for word in words), result.exception


def forms_with(*given: str) -> list[tuple[str, str]]:
    model = shared(MLPERF_TINY / "pretrainedResnet_quant.tflite")
    forms = dict(text.rsplit("=", 1) for text in given)
    library = compile_model(model, CompileOptions(Target.for_cpu("cortex-m4"), forms=forms))
    return [(call.operator, call.costs[0].form if call.costs else "") for call in library.calls]


def test_set_names_operators_of_a_report_without_it():
    whole = forms_with()
    assert whole[2][0] == "conv2d + add" and whole[2][1].startswith("bands-") and whole[3] == ("conv2d", "rows")
    assert forms_with("#2=bands-1")[2] == ("conv2d + add", "bands-1")
    apart = forms_with("#2=apart", "#3=tile", "#2.0=rows")
    assert apart[2:5] == [("conv2d", "rows"), ("add", "lanes"), ("conv2d", "tile")]
    assert forms_with("Relu;model/add/add=apart")[2:4] == [("conv2d", "winograd"), ("add", "lanes")]


def test_parts_of_a_chain_have_forms_of_their_own():
    model = shared(MLPERF_TINY / "pretrainedResnet_quant.tflite")
    options = CompileOptions(Target.for_cpu("cortex-m4"), forms={"#2.0": "rows", "#2.1": "plain"})
    call = compile_model(model, options).calls[2]
    assert [stage.form for stage in call.stages] == ["rows", "plain"]


def test_forms_by_number_and_the_search_for_ram_exclude_each_other():
    model = shared(MLPERF_TINY / "pretrainedResnet_quant.tflite")
    for more in ({"level": "ram"}, {"max_ram": 30_000}):
        with pytest.raises(Error, match="goes by a number"):
            compile_model(model, CompileOptions(Target.for_cpu("cortex-m4"), forms={"#1": "rows"}, **more))
