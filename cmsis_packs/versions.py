"""Semantic versions as packs write them: order, and the ranges of requirements."""

from __future__ import annotations

import re

_LONGEST = 100
_Key = tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]


def version_key(version: str) -> _Key:
    """A key that sorts versions: numbers as numbers, ``1.2.0-dev`` before ``1.2.0``, what follows ``+`` ignored.

    ``1.2.0-`` comes before both: ranges end with it to leave 1.2.0 out.
    """
    numbers, dash, pre = version[:_LONGEST].partition("+")[0].partition("-")
    parts = [int(part) for part in re.findall("[0-9]+", numbers)[:3]]
    words = tuple(_identifier(part) for part in pre.split(".")) if pre else ()
    return tuple(parts + [0] * (3 - len(parts))), not dash, words


def in_range(version: str, wanted: str) -> bool:
    """Whether a version lies in a condition's range: ``1.2.0`` (at least), ``1.2.0:1.9.9`` (both included)."""
    low, _, high = wanted.partition(":")
    key = version_key(version)
    return (not low or key >= version_key(low)) and (not high or key <= version_key(high))


def satisfies(version: str, wanted: str) -> bool:
    """Whether a version is one asked for: ``1.2.0``, ``>=1.2.0``, ``^1.2.0`` (same major), ``~1.2.0`` (same minor)."""
    operator = re.match(r">=|\^|~|", wanted)
    assert operator is not None
    key, low = version_key(version), version_key(wanted[operator.end() :])
    same = {">=": 0, "^": 1, "~": 2, "": 3}[operator.group()]
    return key == low if same == 3 else key >= low and key[0][:same] == low[0][:same]


def _identifier(text: str) -> tuple[bool, int, str]:
    return (False, int(text), "") if re.fullmatch("[0-9]+", text) else (True, 0, text)
