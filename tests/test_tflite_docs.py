"""The operator table of docs/tflite.md is the code's, and every rule has a test. ``TVM_STM32_REFRESH=1`` writes it."""

from __future__ import annotations

import os

import test_tflite_operators
import tflite
from support import ROOT
from test_tflite_quantized import battery
from tflite_cases import GROUPS, LITERT_ONLY, Battery

from tvm_stm32.frontends.tflite_coverage import page
from tvm_stm32.frontends.tflite_rules import RULES

PAGE = ROOT / "docs" / "tflite.md"
START, END = "<!-- operators: written by tests/test_tflite_docs.py -->\n", "<!-- end -->\n"
NAMES = {value: name for name, value in vars(tflite.BuiltinOperator).items() if isinstance(value, int)}


def test_operator_table_is_current():
    text = PAGE.read_text()
    before, _, rest = text.partition(START)
    written, _, after = rest.partition(END)
    if os.environ.get("TVM_STM32_REFRESH"):
        PAGE.write_text(before + START + page() + END + after)
        return
    assert written == page(), "run this test with TVM_STM32_REFRESH=1"


def test_every_rule_is_compared_with_its_reference():
    seen = {
        (NAMES[operator.code], made.tensors[operator.inputs[RULES[NAMES[operator.code]].subject]].type)
        for made in (*_batteries(),)
        for operator in made.operators
    }
    types = {value: name.lower() for name, value in vars(tflite.TensorType).items() if isinstance(value, int)}
    compared = {(code, types[kind]) for code, kind in seen} | set(_earlier())
    wanted = {
        (code, dtype)
        for code, rule in RULES.items()
        for dtype, form in rule.forms.items()
        if form not in ("move", "float")
    }
    assert wanted <= compared, wanted - compared
    # Moves do not look at codes: one element type stands for all.
    moves = {code for code, rule in RULES.items() if "move" in rule.forms.values()}
    assert moves <= {code for code, _ in compared}


def _batteries():
    names = [(group, name) for group, cases in GROUPS.items() for name in cases]
    yield from (battery(names, 1, seed) for seed in range(4))
    made = Battery()
    for case in LITERT_ONLY.values():
        case(made)
    yield made


def _earlier():
    """Operators of test_tflite_operators.py, all int8."""
    models = {
        "conv2d": "CONV_2D", "depthwise": "DEPTHWISE_CONV_2D", "dense": "FULLY_CONNECTED", "add": "ADD", "sub": "SUB",
        "mul": "MUL", "average_pool": "AVERAGE_POOL_2D", "max_pool": "MAX_POOL_2D", "pad": "PAD", "reshape": "RESHAPE",
        "transpose": "TRANSPOSE", "softmax": "SOFTMAX", "concatenation": "CONCATENATION", "relu": "RELU",
    }  # fmt: skip
    return [(code, "int8") for name, code in models.items() if name in test_tflite_operators.OPERATORS]
