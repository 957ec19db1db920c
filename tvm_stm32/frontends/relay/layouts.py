"""Layout names with split axes, such as ``NCHW4c``: C in two parts, the inner of extent 4."""

from __future__ import annotations

import re
from dataclasses import dataclass

_AXIS = re.compile(r"([A-Z])|([1-9][0-9]{0,4})([a-z])")


@dataclass(frozen=True)
class Axis:
    """``letter`` is upper case; ``factor`` is the extent of an inner part, 0 for the outer part."""

    letter: str
    factor: int


def parse_layout(name: str) -> list[Axis] | None:
    """The axes of a layout in order, or ``None`` when the name is no layout."""
    axes: list[Axis] = []
    end = 0
    while end < len(name):
        match = _AXIS.match(name, end)
        if match is None or len(axes) > 16:
            return None
        axes.append(Axis(match.group(1) or match.group(3).upper(), int(match.group(2) or 0)))
        end = match.end()
    outer = [axis.letter for axis in axes if not axis.factor]
    whole = len(set(outer)) == len(outer) and all(axis.letter in outer for axis in axes)
    return axes if axes and whole else None


def parts(axes: list[Axis], letter: str) -> list[int]:
    """Positions of the parts of ``letter`` in a layout, the outer one first."""
    return [index for index, axis in enumerate(axes) if axis.letter == letter and not axis.factor] + [
        index for index, axis in enumerate(axes) if axis.letter == letter and axis.factor
    ]
