"""Less RAM: -O ram and --max-ram, what they cost, and what they say when it cannot be done."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support import MLPERF_TINY, shared

from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.errors import CapacityError
from tvm_stm32.library import Library
from tvm_stm32.target import Target


def compiled(model: str, level: str = "time", max_ram: int = 0) -> Library:
    options = CompileOptions(Target.for_cpu("cortex-m4"), level=level, max_ram=max_ram)
    return compile_model(shared(MLPERF_TINY / f"{model}.tflite"), options)


def instructions(library: Library) -> int:
    return sum(call.costs[0].instructions for call in library.calls if call.costs)


@pytest.mark.parametrize(
    ("model", "limit"), [("ad01_int8", 1_100), ("kws_ref_model", 9_800), ("pretrainedResnet_quant", 27_500),
                         ("vww_96_int8", 29_500)],
)  # fmt: skip
def test_networks_need_less_at_level_ram_and_few_more_instructions(model, limit):
    balanced, small = compiled(model, "balanced"), compiled(model, "ram")
    assert small.arena_size <= min(limit, balanced.arena_size)
    assert instructions(small) <= 1.1 * instructions(balanced)
    changed = [call for call in small.calls if call.reason.startswith("less RAM")]
    assert bool(changed) == (small.arena_size < balanced.arena_size)


def test_a_form_set_by_hand_stays():
    free = compiled("vww_96_int8", "ram")
    nodes = [stage.node for call in free.calls for stage in call.stages if stage.operator == "depthwise_conv2d"]
    assert nodes
    options = CompileOptions(Target.for_cpu("cortex-m4"), level="ram", forms={nodes[0]: "pixel"})
    library = compile_model(shared(MLPERF_TINY / "vww_96_int8.tflite"), options)
    forms = {stage.node: stage.form for call in library.calls for stage in call.stages}
    forms |= {call.node: call.costs[0].form for call in library.calls if call.costs and not call.stages}
    assert forms[nodes[0]] == "pixel"
    assert library.arena_size <= 1.1 * free.arena_size


def test_a_limit_is_kept_with_no_more_changes_than_it_takes():
    free = compiled("vww_96_int8")
    roomy, tight = compiled("vww_96_int8", max_ram=42_000), compiled("vww_96_int8", max_ram=30_000)
    assert roomy.arena_size <= 42_000 and tight.arena_size <= 30_000
    assert instructions(free) <= instructions(roomy) <= instructions(tight) <= 1.05 * instructions(free)
    joined = [call for call in roomy.calls if call.stages]
    assert len(joined) == 1 and len(joined[0].stages) == 2
    # What fits as it is stays as it is.
    same = compiled("vww_96_int8", max_ram=free.arena_size)
    assert [call.costs for call in same.calls] == [call.costs for call in free.calls]


def test_a_limit_that_cannot_be_kept_names_the_operator_and_the_least():
    with pytest.raises(CapacityError) as caught:
        compiled("vww_96_int8", max_ram=20_000)
    text = str(caught.value)
    assert "vww_96_int8.tflite does not fit 20,000 bytes of RAM" in text
    assert "conv2d 'model/activation/Relu" in text and "bytes at once" in text
    least = int(text.rpartition("--max-ram ")[2].rstrip(")"))
    assert compiled("vww_96_int8", max_ram=least).arena_size <= least


def test_outputs_that_need_a_copy_are_no_hindrance(tmp_path):
    """An output twice, and an input that is one."""
    nodes = [
        helper.make_node("Relu", ["x"], ["y"]),
        helper.make_node("Reshape", ["y", "shape"], ["z"]),
        helper.make_node("Identity", ["x"], ["w"]),
    ]
    shape = numpy_helper.from_array(np.array([64], np.int64), "shape")
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64]) for name in ("x", "y", "w")]
    infos.insert(2, helper.make_tensor_value_info("z", TensorProto.FLOAT, [64]))
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], [shape])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    library = compile_model(path, CompileOptions(Target.for_cpu("cortex-m4"), level="ram"))
    assert [call.operator for call in library.calls].count("copy") == 2
    with pytest.raises(CapacityError, match="does not fit 8 bytes"):
        compile_model(path, CompileOptions(Target.for_cpu("cortex-m4"), max_ram=8))


def test_a_limit_from_any_level_is_one_that_ram_reaches():
    path = shared(MLPERF_TINY / "vww_96_int8.tflite")

    def of(**options):
        return compile_model(path, CompileOptions(Target.for_cpu("cortex-m4"), external_io=("all",), **options))

    least = of(level="ram").arena_size
    assert of(max_ram=least).arena_size <= least
