"""Interrupts of a device: from the ``IRQn_Type`` of its header, as the compiler's preprocessor shows it, or its SVD."""

from __future__ import annotations

import ast
import operator
import re
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tvm_stm32.errors import PackError, quoted

from .safe_xml import Element, parse_xml, read_bytes
from .values import number

MOST_INTERRUPTS = 480
"""Of an Armv8-M core with all registers of the interrupt controller; others have 240 or 32."""

_ATTRIBUTES = r"(?:__attribute__\s*\(\([^()]*\)\)\s*)?"
_ENUM = re.compile(rf"enum\s*{_ATTRIBUTES}(?:\w+\s*)?{{(?P<body>[^{{}}]*)}}\s*{_ATTRIBUTES}IRQn_Type\s*;")
_NAMED = re.compile(r"typedef\s+enum\s+(\w+)\s+IRQn_Type\s*;")
_ENTRY = re.compile(r"\s*(?P<name>[A-Za-z_]\w{0,120})\s*(?:=\s*(?P<value>[^=,;{}]{1,200}))?\s*")
_NUMBER = re.compile(r"(?i)\b(0x[0-9a-f]{1,8}|0b[01]{1,32}|[0-9]{1,10})[ul]*\b")
_OPERATIONS: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.BitOr: operator.or_, ast.Mult: operator.mul,
    ast.LShift: lambda a, b: a << min(b, 32) if b >= 0 else 0,
}  # fmt: skip
_NAME = re.compile(r"[A-Za-z_]\w{0,120}")
_SUFFIX = "_IRQn"
_SECONDS = 60
_LONGEST_OUTPUT = 64 << 20
# Parts of a register description that say nothing of interrupts.
_SKIPPED = frozenset({"registers", "addressBlock", "cpu", "vendorExtensions", "dimArrayIndex"})


def interrupts_of_header(
    header: Path, defines: Sequence[str], compiler: Sequence[str], folders: Sequence[Path] = ()
) -> dict[int, str]:
    """Numbers and names (``USART1``) of the interrupts in a device header, those of the core (below 0) left out.

    ``compiler`` is the command of a C compiler; only its preprocessor runs. ``folders`` are searched for what the
    header includes; what is not found there matters only when it comes before the interrupts.
    """
    words = [*compiler, "-E", "-P", *(f"-D{define}" for define in defines)]
    words += [f"-I{folder}" for folder in (header.parent, *folders)]
    text, complaints = _preprocessed([*words, "-x", "c", str(header)])
    # Of a header that was not told which device it is for.
    refused = next((line for line in complaints if "error: #error" in line), "")
    found = _ENUM.search(text)
    if found is None and (named := _NAMED.search(text)) is not None:
        found = re.search(rf"enum\s+{named[1]}\s*{{(?P<body>[^{{}}]*)}}", text)
    if found is None or refused:
        why = refused or next((line for line in complaints if "error" in line), "")
        raise PackError(f"the header {quoted(header.name)} has no IRQn_Type", why=why)
    names: dict[int, str] = {}
    values: dict[str, int] = {}
    value = -1
    for entry in found["body"].split(","):
        if not entry.strip():
            continue
        match = _ENTRY.fullmatch(entry)
        given = match["value"] if match is not None else None
        known_value = _constant(given, values) if given else value + 1
        if match is None or known_value is None:
            raise PackError(f"the header {quoted(header.name)}: {quoted(entry.strip())} in IRQn_Type is no constant")
        value = values[match["name"]] = known_value
        # Two names of one interrupt: vectors are called after the first.
        if value >= 0:
            names.setdefault(value, match["name"].removesuffix(_SUFFIX))
    return _checked(names, header.name)


def _preprocessed(words: Sequence[str]) -> tuple[str, list[str]]:
    """What a preprocessor writes, and the lines of its complaints; neither without bound."""
    try:
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
            timer = threading.Timer(_SECONDS, process.kill)
            timer.start()
            assert process.stdout is not None
            text = process.stdout.read(_LONGEST_OUTPUT)
            process.kill()
            process.stdout.close()
            process.wait()
            timer.cancel()
            errors.seek(0)
            return text.decode("utf-8", "replace"), errors.read(1 << 20).decode("utf-8", "replace").splitlines()
    except OSError as error:
        raise PackError(f"cannot run the preprocessor of {quoted(words[0])}", why=str(error)) from error


def _constant(text: str, known: Mapping[str, int]) -> int | None:
    """The value of an expression of numbers and names of the enumeration; None for anything else."""

    def plain(match: re.Match[str]) -> str:
        digits = match[1]
        return str(int(digits, 8)) if re.fullmatch("0[0-7]+", digits) else str(int(digits, 0) if digits != "0" else 0)

    def value(node: ast.AST) -> int:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.Name):
            return known[node.id]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            return -value(node.operand) if isinstance(node.op, ast.USub) else value(node.operand)
        if isinstance(node, ast.BinOp):
            return _OPERATIONS[type(node.op)](value(node.left), value(node.right))
        raise ValueError

    try:
        return value(ast.parse(_NUMBER.sub(plain, text.strip()), mode="eval").body)
    except (ValueError, KeyError, SyntaxError, RecursionError, MemoryError):
        return None


def interrupts_of_svd(path: Path) -> dict[int, str]:
    """Numbers and names of the interrupts in a register description (CMSIS-SVD)."""
    root = parse_xml(read_bytes(path), path.name, _SKIPPED)
    if root.tag != "device":
        raise root.problem("this is no register description", hint="its root element must be <device>")
    names: dict[int, str] = {}
    for interrupt in root.each("peripherals", "peripheral", "interrupt"):
        texts = {child.tag: child for child in interrupt.children}
        if "name" not in texts or "value" not in texts:
            raise interrupt.problem("<name> or <value> is missing")
        names.setdefault(_value(texts["value"]), texts["name"].text)
    return _checked(names, path.name)


def _value(element: Element) -> int:
    element.attributes["value"] = element.text
    return number(element, "value", below=MOST_INTERRUPTS)


def _checked(names: Mapping[int, str], where: str) -> dict[int, str]:
    """``names`` by number; a second interrupt of one name has its number behind it."""
    taken: set[str] = set()
    checked = {}
    for value, name in sorted(names.items()):
        if value >= MOST_INTERRUPTS:
            raise PackError(f"{where}: interrupt {quoted(name)} is number {value:,} of at most {MOST_INTERRUPTS}")
        if not _NAME.fullmatch(name):
            raise PackError(f"{where}: interrupt {value} is called {quoted(name)}, which is no C name")
        unique = name
        while unique in taken or (unique != name and unique in names.values()):
            unique = f"{unique}_{value}"
        taken.add(unique)
        checked[value] = unique
    return checked


def vector_list(interrupts: Mapping[int, str]) -> str:
    """A C header with the vectors behind those of the core, one a line: ``PORT_INTERRUPTS(HANDLER, RESERVED)``."""
    lines = [
        f"HANDLER({interrupts[index]}_IRQHandler)" if index in interrupts else f"RESERVED({index})"
        for index in range(max(interrupts, default=-1) + 1)
    ]
    body = "".join(f" \\\n    {line}" for line in lines)
    return (
        "/* Interrupts of the device, in the order of their numbers. Generated by tvm-stm32; do not edit. */\n"
        "#ifndef PORT_VECTORS_H\n#define PORT_VECTORS_H\n\n"
        f"#define PORT_INTERRUPTS(HANDLER, RESERVED){body}\n\n#endif\n"
    )
