"""Interrupts of a device: from the ``IRQn_Type`` of its header, as the compiler's preprocessor shows it, or its SVD."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tvm_stm32.errors import PackError, quoted

from .safe_xml import Element, parse_xml, read_bytes
from .values import number

MOST_INTERRUPTS = 480
"""Of an Armv8-M core with all registers of the interrupt controller; others have 240 or 32."""

_ENUM = re.compile(r"enum\s*(?:\w+\s*)?\{(?P<body>[^{}]*)\}\s*IRQn_Type\s*;")
_ENTRY = re.compile(
    r"\s*(?P<name>[A-Za-z_]\w{0,120})\s*(?:=\s*(?P<value>[-+]?\s*(?:0[xX][0-9a-fA-F]+|\d+))[uUlL]*)?\s*"
)
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
    words += ["-x", "c", str(header)]
    try:
        done = subprocess.run(words, capture_output=True, timeout=_SECONDS, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PackError(f"cannot run the preprocessor of {quoted(compiler[0])}", why=str(error)) from error
    text = done.stdout[:_LONGEST_OUTPUT].decode("utf-8", "replace")
    lines = done.stderr.decode("utf-8", "replace").splitlines()
    # Of a header that was not told which device it is for.
    refused = next((line for line in lines if "#error" in line), "")
    found = _ENUM.search(text)
    if found is None or refused:
        why = refused or next((line for line in lines if "error" in line), "")
        raise PackError(f"the header {quoted(header.name)} has no IRQn_Type", why=why)
    names: dict[int, str] = {}
    value = -1
    for entry in found["body"].split(","):
        if not entry.strip():
            continue
        match = _ENTRY.fullmatch(entry)
        if match is None:
            raise PackError(f"the header {quoted(header.name)}: {quoted(entry.strip())} in IRQn_Type is no constant")
        given = match["value"]
        value = int(given.replace(" ", ""), 0) if given else value + 1
        # Two names of one interrupt: vectors are called after the first.
        if value >= 0:
            names.setdefault(value, match["name"].removesuffix(_SUFFIX))
    return _checked(names, header.name)


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
    taken: dict[str, int] = {}
    for value, name in names.items():
        taken.setdefault(name, value)
        if value >= MOST_INTERRUPTS:
            raise PackError(f"{where}: interrupt {quoted(name)} is number {value:,} of at most {MOST_INTERRUPTS}")
        if not _NAME.fullmatch(name):
            raise PackError(f"{where}: interrupt {value} is called {quoted(name)}, which is no C name")
    return {v: name if taken[name] == v else f"{name}_{v}" for v, name in sorted(names.items())}


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
