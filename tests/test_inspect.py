"""The report as text and as a page."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from support import ROOT

from tvm_stm32.commands import Choice, inspect_model
from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.emit.page import html_page
from tvm_stm32.target import Target

DIGITS = ROOT / "examples" / "digits" / "digits_int8.relay"


class Checker(HTMLParser):
    """Counts tags and notes what is left open."""

    VOID = frozenset({"meta", "br", "rect", "path", "circle"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.counts: dict[str, int] = {}

    def handle_starttag(self, tag, _attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_text_names_operators_shapes_and_sizes():
    text = inspect_model(Choice(DIGITS))
    assert "input   image  1x8x8x1 int8  scale 0.00392156979 zero point -128" in text
    assert re.search(r"depthwise_conv2d +1x8x8x12 +6,912", text)
    assert "61,184" in text
    assert "bytes of RAM" in text


def test_page_is_sound_and_has_everything(tmp_path):
    page = tmp_path / "page.html"
    inspect_model(Choice(DIGITS), page)
    checker = Checker()
    checker.feed(page.read_text())
    assert not checker.open
    library = compile_model(DIGITS, CompileOptions(Target.for_cpu("cortex-m4")))
    # A row an operator, inputs, outputs and the head; a dot for each of them but the head.
    assert checker.counts["tr"] == len(library.calls) + 3
    assert checker.counts["circle"] == len(library.calls) + 2
    assert checker.counts["path"] >= len(library.calls)
    assert "src=" not in page.read_text()


def test_names_of_the_model_are_data_not_markup():
    library = compile_model(DIGITS, CompileOptions(Target.for_cpu("cortex-m4")))
    library.calls[0].node = "<script>alert(1)</script>"
    page = html_page(library)
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
