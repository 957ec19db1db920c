"""The report as text and as a page."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support import MLPERF_TINY, ROOT, shared

from tvm_stm32.commands import Choice, inspect_model
from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.emit.memory_map import peak_text
from tvm_stm32.emit.page import html_page
from tvm_stm32.emit.report import report
from tvm_stm32.target import Target

DIGITS = ROOT / "examples" / "digits" / "digits_int8.relay"


class Checker(HTMLParser):
    """Counts tags and notes what is left open."""

    VOID = frozenset({"meta", "br", "path", "circle", "line"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.counts: dict[str, int] = {}
        self.classes: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.classes += [f"{tag}.{value}" for name, value in attrs if name == "class"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_text_names_operators_shapes_and_sizes():
    text, misfit = inspect_model(Choice(DIGITS))
    assert misfit is None
    assert "input   image  1x8x8x1 int8  scale 0.00392156979 zero point -128" in text
    assert re.search(r"depthwise_conv2d +pairs +1x8x8x12 +6,912", text)
    assert "61,184" in text
    assert "bytes of RAM" in text


def page_of(library):
    """The page's text and what is in it; everything opened is closed, nothing comes from elsewhere."""
    page = html_page(library)
    checker = Checker()
    checker.feed(page)
    assert not checker.open
    assert not re.search(r"<script|src=|href=|@import|https?://", page)
    return page, checker


def compiled(path, level="time"):
    return compile_model(path, CompileOptions(Target.for_cpu("cortex-m4"), level))


def test_page_is_sound_and_has_everything(tmp_path):
    inspect_model(Choice(DIGITS), tmp_path / "page.html")
    library = compiled(DIGITS)
    page, checker = page_of(library)
    assert (tmp_path / "page.html").read_text() == page
    # A row an operator, inputs and outputs; a dot for each.
    assert checker.classes.count("tr.row") == len(library.calls) + 2
    assert checker.counts["circle"] == len(library.calls) + 2
    assert checker.counts["path"] >= len(library.calls)
    assert "prefers-color-scheme: dark" in page


def test_page_draws_every_buffer_and_marks_the_peak():
    library = compiled(shared(MLPERF_TINY / "vww_96_int8.tflite"), "ram")
    facts = report(library)
    page, checker = page_of(library)
    boxes = [name for name in checker.classes if name.startswith("rect.")]
    buffers = facts["memory"]["buffers"]
    over = sum(len(buffer["over"]) for buffer in buffers)
    assert over > 5
    assert boxes.count("rect.over") == over
    assert sum(name.startswith("rect.block") for name in boxes) == len(buffers) + over
    assert boxes.count("rect.tensors") == len(library.calls) - 1
    assert boxes.count("rect.peak") == 1
    assert f"The peak: {peak_text(facts)}." in page
    chains = [row for row in facts["operators"] if "stages" in row]
    assert boxes.count("rect.chain") == len(chains) > 0
    assert checker.classes.count("tr.stage") == sum(len(row["stages"]) for row in chains)


def test_a_network_without_operators_has_a_page():
    library = compiled(DIGITS)
    library.calls, library.output_tensors = [], library.input_tensors
    page, checker = page_of(library)
    assert "The peak" not in page
    assert checker.counts["circle"] == 2


def test_names_of_the_model_are_data_not_markup():
    library = compiled(DIGITS, "ram")
    library.calls[0].node = library.calls[0].detail = "<script>alert(1)</script>"
    library.notes = ['"><script>alert(1)</script>']
    library.inputs[0] = replace(library.inputs[0], name="\"'><script>alert(1)</script>")
    page = html_page(library)
    assert "<script>" not in page
    assert page.count("&lt;script&gt;") > 3


def outputs(path):
    """Name, scale and zero point of each operator's output, by operator."""
    facts = report(compile_model(path, CompileOptions(Target.for_cpu("cortex-m4"))))
    found = [(row["operator"], row["outputs"][0]) for row in facts["operators"]]
    return [(operator, out["name"], out["scale"], out["zero_point"]) for operator, out in found]


def test_inner_tensors_of_a_relay_model_show_their_quantization(tmp_path):
    found = outputs(DIGITS)
    assert found[0] == ("conv2d", "stem/conv", [pytest.approx(0.0130837)], [-128])
    assert all(scale is not None for _, _, scale, _ in found)
    page = tmp_path / "page.html"
    inspect_model(Choice(DIGITS), page)
    assert "scale 0.0130837, zero point -128" in page.read_text()


def test_inner_tensors_of_a_tflite_file_show_their_quantization():
    found = outputs(shared(MLPERF_TINY / "kws_ref_model.tflite"))
    assert found[0][2:] == ([0.07872539758682251], [-128])
    assert all(scale is not None for _, _, scale, _ in found)


def test_inner_tensors_of_a_qdq_graph_show_their_quantization_and_turned_operands_do_not(tmp_path):
    constants = {
        "s": np.float32(0.05),
        "s2": np.float32(0.125),
        "z": np.int8(0),
        "z2": np.int8(-3),
        "w": np.ones((4, 2, 3, 3), np.int8),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["xr"]),
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["wr"]),
        helper.make_node("Conv", ["xr", "wr"], ["c"], name="first"),
        helper.make_node("QuantizeLinear", ["c", "s2", "z2"], ["cq"]),
        helper.make_node("DequantizeLinear", ["cq", "s2", "z2"], ["cr"]),
        helper.make_node("Sigmoid", ["cr"], ["d"], name="second"),
        helper.make_node("QuantizeLinear", ["d", "s", "z"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.INT8, [1, 2, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.INT8, [1, 4, 6, 6])],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    found = {operator: (scale, zero) for operator, _, scale, zero in outputs(path)}
    assert found["conv2d"] == ([0.125], [-3])
    assert found["sigmoid"] == ([pytest.approx(0.05)], [0])


def test_a_command_imports_no_pytorch_it_does_not_need(tmp_path):
    """TVM imports one that is installed, which takes longer than everything else."""
    pytest.importorskip("torch")
    code = (
        "import sys, contextlib, tvm_stm32.cli as cli\n"
        "with contextlib.suppress(SystemExit): cli.main()\n"
        "print('tvm' in sys.modules, 'torch' in sys.modules)"
    )
    words = [sys.executable, "-c", code, "compile", str(DIGITS), "-o", str(tmp_path / "out")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "True False"
