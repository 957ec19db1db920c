"""The operator table of docs/tflite.md, written from the rules themselves."""

from __future__ import annotations

import tflite

from .tflite_converter import CODES_PASS, Converter
from .tflite_folding import FOLDED
from .tflite_rules import RULES

_CODES = ("int8", "int16")
# tflite-micro has no kernel for these; LiteRT's reference kernels are followed.
_BY_LITERT = {"TILE", "REVERSE_V2", "SELECT"}


def rows() -> list[tuple[str, ...]]:
    """Operator, how each element type is computed, reference, remark; sorted by name. Without those only on floats."""
    imported = _imported()
    found = []
    for code in sorted({*RULES, *imported} - set(only_floats())):
        rule = RULES.get(code)
        forms = dict(rule.forms) if rule is not None else {}
        otherwise = "refused"
        if code in imported and code in Converter._SUPPORTED_QUANTIZED_OPS:
            otherwise = "move" if code in CODES_PASS else "float"
        cells = [forms.get(dtype, otherwise) for dtype in _CODES]
        floats = forms.get("float32", "float" if code in imported else "refused")
        reference = ("LiteRT" if code in _BY_LITERT else "tflite-micro") if rule is not None else ""
        found.append((code, *cells, floats, reference, rule.remark if rule is not None else ""))
    return found


def only_floats() -> list[str]:
    """Operators on floats, integers and bools that are refused on quantized tensors."""
    return sorted(_imported() - set(RULES) - Converter._SUPPORTED_QUANTIZED_OPS)


def page() -> str:
    """The generated part of the page."""
    head = ("operator", *_CODES, "float32", "codes checked against", "remark")
    lines = [head, tuple("---" for _ in head), *rows()]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    names = ", ".join(f"`{name}`" for name in only_floats())
    return (
        f"{table}\nOn floats, plain integers and bools only: {names}.\n\n"
        f"Folded where the operands are constants: {', '.join(f'`{name}`' for name in sorted(FOLDED))}.\n"
    )


def _imported() -> set[str]:
    """Operators TVM's importer converts, by the names of the schema; dialects of other tools set aside."""
    names = {name for name, value in vars(tflite.BuiltinOperator).items() if isinstance(value, int)}
    return {name for name in Converter.known_operators() if name in names and not name.startswith("STABLEHLO")}
