"""The operator table of docs/relay.md is that of the code. ``TVM_STM32_REFRESH=1`` writes it."""

from __future__ import annotations

import os
import sys

from support import ROOT

from tvm_stm32.frontends.relay.operators import MODULES, OPERATORS

PAGE = ROOT / "docs" / "relay.md"
START, END = "<!-- operators: written by tests/frontends/test_relay_docs.py -->\n", "<!-- end -->\n"


def table() -> str:
    """One row for each module of operators, described by its docstring."""
    rows = ["| what | operators |", "|---|---|"]
    for module in MODULES:
        names = sorted(name for name, function in OPERATORS.items() if function.__module__ == module.__name__)
        summary = (sys.modules[module.__name__].__doc__ or "").splitlines()[0].rstrip(".")
        rows.append(f"| {summary} | {', '.join(f'`{name}`' for name in names)} |")
    return "\n".join(rows) + "\n"


def test_operator_table_is_current() -> None:
    text = PAGE.read_text()
    before, _, rest = text.partition(START)
    written, _, after = rest.partition(END)
    if os.environ.get("TVM_STM32_REFRESH"):
        PAGE.write_text(before + START + table() + END + after)
        return
    assert written == table(), "run this test with TVM_STM32_REFRESH=1"
