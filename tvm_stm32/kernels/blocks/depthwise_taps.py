"""The taps of a depthwise kernel of any size, row by row: what blocks of one pixel share."""

from __future__ import annotations

from collections.abc import Iterator

from .program import Block, Variable

# Taps that are written out; a larger kernel loops over its rows.
_UNROLLED = 32


def kernel_rows(
    block: Block, kernel: tuple[int, int], row: Variable, row_step: int, scratch: Variable
) -> Iterator[None]:
    """Describe a row of taps in each round: one for each row of the kernel, or the body of a loop over them.

    ``row`` goes on by ``row_step`` bytes between rows; behind a loop it is a row too far.
    """
    kernel_h, kernel_w = kernel
    if kernel_h * kernel_w > _UNROLLED:
        with block.loop("rows", kernel_h, parked=True):
            yield
            block.move(row, row_step, scratch)
        return
    for ky in range(kernel_h):
        yield
        if ky + 1 < kernel_h:
            block.move(row, row_step, scratch)


def row_taps(
    block: Block, row: Variable, count: int, column_step: int, reach: int, scratch: Variable
) -> Iterator[tuple[int, int]]:
    """Taps of a row, and each one's offset from ``row``: ``column_step`` bytes more than the one before.

    Where the last lies beyond ``reach`` bytes ``row`` goes from tap to tap itself, and back at the end.
    """
    near = (count - 1) * column_step <= reach
    for tap in range(count):
        yield tap, tap * column_step if near else 0
        if not near:
            block.move(row, column_step if tap + 1 < count else -tap * column_step, scratch)
