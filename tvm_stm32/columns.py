"""Tables as text."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]], sides: str, longest: int = 0) -> list[str]:
    """Rows of a table as lines, columns two blanks apart; ``sides`` has l or r for each column.

    Cells longer than ``longest`` (0: any length) lose their middle.
    """
    half = longest // 2
    cells = [[f"{c[:half]}...{c[-half:]}" if longest and len(c) > longest else c for c in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(sides))]
    return [
        "  ".join(
            cell.ljust(width) if side == "l" else cell.rjust(width)
            for cell, width, side in zip(row, widths, sides, strict=True)
        ).rstrip()
        for row in cells
    ]
