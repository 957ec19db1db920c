"""The text of a model file and errors that point into it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from ...errors import ModelError

_SHOWN_COLUMNS = 120


@dataclass
class Source:
    """A text file; every place in it is an offset in characters. ``name`` is its file name without folder."""

    name: str
    text: str
    _line_starts: list[int] = field(default_factory=list, repr=False)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of ``offset``, both counted from 1."""
        if not self._line_starts:
            self._line_starts = [0]
            self._line_starts += [place + 1 for place, char in enumerate(self.text) if char == "\n"]
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def where(self, offset: int) -> str:
        """A place in words, for remarks: ``line 3``."""
        return f"line {self.position(offset)[0]}"

    def error(
        self, offset: int, message: str, *, why: str = "", hint: str = "", kind: type[ModelError] = ModelError
    ) -> ModelError:
        """An error whose message names file, line and column and shows the line with a caret below it."""
        offset = max(0, min(offset, len(self.text)))
        line, column = self.position(offset)
        excerpt = self._excerpt(offset, column)
        return kind(f"{self.name}:{line}:{column}: {message}\n{excerpt}", why=why, hint=hint)

    def _excerpt(self, offset: int, column: int) -> str:
        start = offset - column + 1
        end = self.text.find("\n", offset)
        end = len(self.text) if end < 0 else end
        # Printed Relay has lines of thousands of characters; show a window of such a line around the caret.
        first = max(start, offset - _SHOWN_COLUMNS // 2)
        last = min(end, first + _SHOWN_COLUMNS)
        shown = "".join(char if char.isprintable() else " " for char in self.text[first:last])
        before = "..." if first > start else ""
        after = "..." if last < end else ""
        return f"  {before}{shown}{after}\n  {' ' * (len(before) + offset - first)}^"
