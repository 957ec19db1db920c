"""A chain of operators run in bands of rows: which rows each operator makes in each step, from which input rows.

Between two operators of a chain there is no whole tensor but a buffer of rows, in which rows that serve again move to
the start. Nothing is computed twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class RowWindow:
    """How an operator goes over rows: ``reach`` is its kernel's height with dilation, ``top`` the rows of padding."""

    in_rows: int
    out_rows: int
    reach: int = 1
    stride: int = 1
    top: int = 0

    @property
    def splits(self) -> bool:
        """Whether every output row looks at an input row: then any of them make a band."""
        below = (self.out_rows - 1) * self.stride + self.reach - self.top - self.in_rows
        return max(self.top, below) < self.reach

    def needed(self, out_row: int) -> int:
        """Input rows [0, n) that outputs up to ``out_row`` (exclusive) look at."""
        return max(0, min(self.in_rows, (out_row - 1) * self.stride + self.reach - self.top))


@dataclass(frozen=True)
class Band:
    """Rows an operator makes in a step: outputs [out_start, out_stop) from inputs [in_start, in_stop).

    ``top`` and ``bottom`` are the rows of padding this band looks at. Its result goes to a buffer whose first row is
    row ``base``; before the operator runs, ``moved`` rows that lie ``dropped`` rows behind the buffer's start move
    there.
    """

    in_start: int
    in_stop: int
    out_start: int
    out_stop: int
    top: int
    bottom: int
    base: int = 0
    dropped: int = 0
    moved: int = 0

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """What the kernel of a band depends on: input rows, output rows, padding above and below."""
        return self.in_stop - self.in_start, self.out_stop - self.out_start, self.top, self.bottom


@dataclass(frozen=True)
class Schedule:
    """``steps[t][i]`` is what operator i does in step t (None: nothing); ``rows[i]`` the most rows its buffer holds.

    The last operator writes a whole tensor: its ``base`` and ``rows`` are 0.
    """

    steps: list[list[Band | None]]
    rows: list[int]

    def base(self, step: int, position: int) -> int:
        """The first row in the buffer of operator ``position`` while ``step`` is run."""
        if position < 0:
            return 0
        bands = (self.steps[t][position] for t in range(step, -1, -1))
        return next(band.base for band in bands if band is not None)


def schedule(windows: list[RowWindow], rows: int) -> Schedule:
    """The steps of a chain whose last operator makes ``rows`` rows at a time."""
    last = len(windows) - 1
    made, base, most = [0] * len(windows), [0] * len(windows), [0] * len(windows)
    steps: list[list[Band | None]] = []
    while made[last] < windows[last].out_rows:
        targets = list(made)
        targets[last] = min(windows[last].out_rows, made[last] + rows)
        for i in range(last, 0, -1):
            if targets[i] > made[i]:
                targets[i - 1] = max(made[i - 1], windows[i].needed(targets[i]))
        step: list[Band | None] = [
            _band(window, made[i], targets[i]) if targets[i] > made[i] else None for i, window in enumerate(windows)
        ]
        for i in range(last):
            following, own = step[i + 1], step[i]
            start = min(following.in_start, made[i]) if following and own else base[i]
            if own:
                step[i] = replace(
                    own, base=start, dropped=start - base[i], moved=made[i] - start if start > base[i] else 0
                )
            base[i] = start
            most[i] = max(most[i], targets[i] - base[i])
        made = targets
        steps.append(step)
    return Schedule(steps, most)


def _band(window: RowWindow, start: int, stop: int) -> Band:
    above, below = start * window.stride - window.top, (stop - 1) * window.stride + window.reach - window.top
    return Band(
        max(0, above),
        min(window.in_rows, below),
        start,
        stop,
        max(0, -above),
        max(0, below - window.in_rows),
    )


def written_and_read(plan: Schedule) -> list[tuple[int, int]]:
    """For each step: rows of the result that are written when it ends, and the first input row still read after it."""
    found = []
    for number, step in enumerate(plan.steps):
        written = next(band.out_stop for band in reversed(step) if band is not None)
        rest = [later[0].in_start for later in plan.steps[number + 1 :] if later[0] is not None]
        found.append((written, min(rest, default=-1)))
    return found
