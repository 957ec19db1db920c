"""Writes docs/operators.md: which operators each format may use, and how each is computed.

    python benchmarks/operators.py

Nothing here is a list kept by hand. The rows come from compiling the operators' own tests for a Cortex-M4 and looking
at the kernels (those of PyTorch where torch is installed); names without such a test come from the tables the front
ends translate with.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "frontends"), str(ROOT / "benchmarks")]

from tvm_stm32.compiler import CompileOptions, compile_loaded, compile_model
from tvm_stm32.errors import ModelError
from tvm_stm32.library import Library
from tvm_stm32.target import Target

CPU = "cortex-m4"
# Operators that leave no code of their own.
CONTROL = {"CALL", "IF", "WHILE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"}
HEAD = """# Operators

Made by `python benchmarks/operators.py`: do not edit.

- *dtypes*: of the tensors that change from run to run, as the operator's tests use them.
- *arithmetic*: integer, or float where a step uses floating point.
- *kernel*: `special` is one of this project's own forms, `TIR` is C from TVM's loops, `-` has no kernel of its own
  (part of another operator's, the operand's memory, or a constant). External generators come with a later version.
- *checked against*: the reference whose results the operator's tests compare with; `-` is read, but has no test of its
  own.
"""


@dataclass
class Row:
    """What is known of one operator of one format."""

    dtypes: set[str] = field(default_factory=set)
    arithmetic: set[str] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)
    references: set[str] = field(default_factory=set)

    def add(self, library: Library, dtypes: Iterable[str], reference: str) -> None:
        """What a compiled test of the operator shows."""
        self.dtypes.update(dtypes)
        self.arithmetic.add("float" if library.float_operators else "integer")
        self.kinds.update(library.kernels[call.kernel].kind for call in library.calls)
        self.references.add(reference)


def table(rows: dict[str, Row]) -> str:
    """Rows as a Markdown table; those without a test are one paragraph below it."""
    lines = ["| operator | dtypes | arithmetic | kernel | checked against |", "|---|---|---|---|---|"]
    for name, row in sorted(rows.items()):
        if row.references:
            cells = [cell or {"-"} for cell in (row.dtypes, row.arithmetic, row.kinds, row.references)]
            lines.append(f"| `{name}` | " + " | ".join(", ".join(sorted(cell)) for cell in cells) + " |")
    others = sorted(name for name, row in rows.items() if not row.references)
    if others:
        names = ", ".join(f"`{name}`" for name in others)
        lines += ["", f"Read, in the float or integer form TVM gives them, without a test of their own: {names}."]
    return "\n".join(lines) + "\n"


def tflite_rows(folder: Path) -> dict[str, Row]:
    """TFLite: the quantized operators' tests, and what else the converter knows."""
    import tflite
    from test_tflite_control import call, choice, loop
    from test_tflite_operators import OPERATORS
    from test_tflite_streaming import streaming_model
    from tflite_cases import GROUPS, Battery
    from tvm.relax.frontend.tflite import tflite_frontend as importer

    from tvm_stm32.frontends.tflite_rules import RULES

    names = {value: key for key, value in vars(tflite.BuiltinOperator).items() if isinstance(value, int)}
    types = {value: key.lower() for key, value in vars(tflite.TensorType).items() if isinstance(value, int)}
    rows: dict[str, Row] = {}

    def learn(data: bytes) -> None:
        path = folder / "model.tflite"
        path.write_bytes(data)
        library = compile_model(path, CompileOptions(Target.for_cpu(CPU)))
        model = tflite.Model.GetRootAsModel(data, 0)
        graph = model.Subgraphs(0)
        operators = [graph.Operators(index) for index in range(graph.OperatorsLength())]
        codes = {names[model.OperatorCodes(op.OpcodeIndex()).BuiltinCode()] for op in operators}
        for op in operators:
            code = names[model.OperatorCodes(op.OpcodeIndex()).BuiltinCode()]
            if len(codes - {"QUANTIZE", "DEQUANTIZE"}) > 1 or (code in ("QUANTIZE", "DEQUANTIZE") and len(codes) > 1):
                continue  # the kernels of several operators cannot be told apart
            tensors = [graph.Tensors(int(i)) for i in (*op.InputsAsNumpy(), *op.OutputsAsNumpy()) if i >= 0]
            live = {types[t.Type()] for t in tensors if not model.Buffers(t.Buffer()).DataLength()}
            rows.setdefault(code, Row()).add(library, live, "tflite-micro")

    for build in OPERATORS.values():
        learn(build(np.random.default_rng(0)))
    for cases in GROUPS.values():
        for name, case in cases.items():
            made = Battery(random=np.random.default_rng(0), label=name)
            case(made)
            learn(made.finish(made.inputs, made.outputs))
    for build, reference in [
        *((network, "LiteRT's reference kernels") for network in (choice, loop)),
        (call, "NumPy"),
        (streaming_model, "tflite-micro"),
    ]:
        built = build()
        model = tflite.Model.GetRootAsModel(built if isinstance(built, bytes) else built.build(), 0)
        for index in range(model.OperatorCodesLength()):
            code = names[model.OperatorCodes(index).BuiltinCode()]
            if code in CONTROL:
                rows.setdefault(code, Row()).references.add(reference)
    known = set(RULES) | set(re.findall(r'"([A-Z0-9_]+)": (?:self|functools)', Path(importer.__file__).read_text()))
    for name in known & set(names.values()):
        rows.setdefault(name, Row())
    return rows


def relay_rows(folder: Path) -> dict[str, Row]:
    """Relay: the fixtures, the tests' expressions, and the table of translations."""
    import test_relay_more_operators
    import test_relay_operators
    from relay_support import FIXTURES, load

    from tvm_stm32.frontends.relay.operators import OPERATORS

    rows = {name: Row() for name in OPERATORS}
    constants = [np.array([9, -1, 5], np.int32), np.ones(6, np.float32)], test_relay_more_operators.INTEGERS
    for module, arrays in zip((test_relay_operators, test_relay_more_operators), constants, strict=True):
        for expression in _expressions(module.test_operator):
            used = _used(expression, rows)
            if len(used) != 1:
                continue
            text = f"def @main(%x: Tensor[(1, 4, 6), float32]) {{ {expression} }}"
            try:
                library = compile_loaded(load(folder, text, [*arrays, np.array([[1, 3]], np.int32)]), _options())
            except ModelError:
                continue
            rows[used.pop()].add(library, {"float32"}, "NumPy")
    for path in sorted(FIXTURES.glob("*.relay")):
        params = path.with_suffix(".params")
        try:
            library = compile_model(path, _options(), params if params.exists() else None)
        except ModelError:
            continue  # a module without a result
        for name in _used(path.read_text(), rows):
            _learn_fixture(rows[name], name, library)
    return rows


def _learn_fixture(row: Row, name: str, library: Library) -> None:
    row.references.add("fixture's oracle")
    base = name.split(".")[-1]
    for call in library.calls:
        if base in call.operator or base in call.kernel:
            row.kinds.add(library.kernels[call.kernel].kind)
            row.arithmetic.add("float" if library.kernels[call.kernel].uses_float else "integer")
            row.dtypes.update(library.tensors[tensor].dtype for tensor in (*call.inputs, *call.outputs))


def _options() -> CompileOptions:
    return CompileOptions(Target.for_cpu(CPU))


def _expressions(test: Any) -> list[str]:
    return [case[0] for mark in test.pytestmark if mark.name == "parametrize" for case in mark.args[1]]


def _used(text: str, rows: dict[str, Row]) -> set[str]:
    return {name for name in re.findall(r"(?<![\w.%@])([a-z][\w.]*)\(", text) if name in rows}


def onnx_rows(folder: Path) -> dict[str, Row]:
    """ONNX: the node tests that docs/onnx-coverage.md does not list, and what TVM's importer knows beside them."""
    from onnx_cases import node_tests
    from tvm.relax.frontend.onnx import onnx_frontend

    failing = set(re.findall(r"test_\w+", (ROOT / "docs" / "onnx-coverage.md").read_text()))
    rows = {name: Row() for name in onnx_frontend._get_convert_map()}
    for test in node_tests():
        if test.name in failing or test.set_aside or "_expanded" in test.name:
            continue
        path = folder / "model.onnx"
        path.write_bytes(test.model.SerializeToString())
        library = compile_model(path, _options())
        dtypes = {str(array.dtype) for array in (*test.inputs, *test.outputs)}
        rows.setdefault(test.operator, Row()).add(library, dtypes, "ONNX node tests")
    return rows


def pytorch_rows() -> dict[str, Row]:
    """PyTorch: the tests' programs where torch is installed, and the overloads of ATen that TVM's importer reads."""
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

    rows = {name: Row() for name in ExportedProgramImporter().create_convert_map()}
    try:
        import torch
    except ImportError:
        return rows
    from pytorch_cases import FLOAT, QUANTIZED, Program, QuantizedProgram

    from tvm_stm32 import from_torch

    programs = [(program, program.inputs) for program in map(Program, FLOAT.values())]
    programs += [(program, program.codes()) for program in map(QuantizedProgram, QUANTIZED.values())]
    for program, inputs in programs:
        nodes = torch.export.export(program, inputs).graph.nodes
        targets = {str(node.target) for node in nodes if node.op == "call_function"}
        used = {target.removeprefix("aten.") for target in targets if target.startswith("aten.")}
        if len(used) != 1:
            continue
        library = compile_loaded(from_torch(program, inputs), _options())
        dtypes = {info.dtype for info in (*library.inputs, *library.outputs)}
        rows.setdefault(used.pop(), Row()).add(library, dtypes, "PyTorch")
    return rows


def main() -> None:
    """Write the page."""
    with tempfile.TemporaryDirectory() as name:
        parts = [HEAD]
        for title, rows in (
            ("TFLite", tflite_rows(Path(name))),
            ("Relay", relay_rows(Path(name))),
            ("ONNX", onnx_rows(Path(name))),
            ("PyTorch", pytorch_rows()),
        ):
            parts.append(f"## {title}\n\n{table(rows)}")
    (ROOT / "docs" / "operators.md").write_text("\n".join(parts))


if __name__ == "__main__":
    main()
