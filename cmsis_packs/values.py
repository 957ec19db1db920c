"""Attributes of elements as checked values: words, numbers, flags, and paths that stay inside the pack."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tvm_stm32.errors import quoted

from .safe_xml import Element

LONGEST_WORD = 512
_NUMBER = re.compile(r"\+?(0[xX][0-9a-fA-F]{1,32}|[0-9]{1,32})")
_FLAGS = {"1": True, "true": True, "0": False, "false": False}
_ADDRESSES = 1 << 64


def word(element: Element, name: str, *, required: bool = False) -> str:
    """The text of an attribute, trimmed; "" when it is absent and need not be there."""
    text = element.attributes.get(name, "").strip()
    if required and not text:
        raise element.problem(f"attribute {name} is missing" if name not in element.attributes else f"{name} is empty")
    return checked(element, name, text)


def checked(element: Element, name: str, text: str) -> str:
    """``text`` when it is short and printable."""
    if len(text) > LONGEST_WORD:
        raise element.problem(f"{name} has more than {LONGEST_WORD} characters")
    if not text.isprintable():
        raise element.problem(f"{name}={quoted(text)} holds control characters")
    return text


def number(element: Element, name: str, default: int | None = None, *, below: int = _ADDRESSES) -> int:
    """A whole number, decimal or 0x...; required when there is no ``default``."""
    text = word(element, name, required=default is None)
    if not text and default is not None:
        return default
    if not _NUMBER.fullmatch(text):
        raise element.problem(f"{name}={quoted(text)} is no number", hint="a decimal number, or 0x and hex digits")
    digits = text.lstrip("+")
    value = int(digits, 16 if digits[:2] in ("0x", "0X") else 10)
    if value >= below:
        raise element.problem(f"{name}={quoted(text)} is too large", why=f"it must be below {below:#x}")
    return value


def flag(element: Element, name: str) -> bool:
    """1/true or 0/false; false when the attribute is absent."""
    text = word(element, name)
    if text and text not in _FLAGS:
        raise element.problem(f"{name}={quoted(text)} is neither true nor false", hint="one of: 1, true, 0, false")
    return _FLAGS[text] if text else False


def choice(element: Element, name: str, allowed: Mapping[str, str], default: str) -> str:
    """The meaning ``allowed`` gives to an attribute's text."""
    text = word(element, name)
    if text and text not in allowed:
        raise element.problem(f"{name}={quoted(text)} is unknown", hint="one of: " + ", ".join(allowed))
    return allowed[text] if text else default


def pack_path(element: Element, name: str, *, required: bool = False) -> str:
    """A path inside the pack, with slashes; a folder keeps the one at its end. "" when absent."""
    text = word(element, name, required=required)
    return inside_pack(element, name, text) if text else ""


def inside_pack(element: Element, name: str, text: str) -> str:
    """``text`` as a path below the pack's folder. Absolute paths and those with ``..`` raise."""
    path = checked(element, name, text).replace("\\", "/")
    if path.startswith("/") or ":" in path:  # a drive, a stream, an address on the web
        raise element.problem(
            f"{name}={quoted(text)} is no path in the pack", why="packs may name their own files only"
        )
    parts = [part for part in path.split("/") if part not in ("", ".")]
    # Windows takes '.. ' and '..' followed by dots for the parent, too.
    if any(part.rstrip(" .") == "" for part in parts):
        raise element.problem(f"{name}={quoted(text)} leads out of the pack", why="packs may name their own files only")
    if not parts:
        raise element.problem(f"{name}={quoted(text)} names no file")
    return "/".join(parts) + ("/" if path.endswith("/") else "")
