"""State of a C function while it is written: lines, names, temporaries, what it needs from outside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_KEYWORDS = frozenset(
    {
        "INFINITY", "NAN", "NULL", "asm", "auto", "bool", "break", "case", "char", "const", "continue",
        "default", "do", "double", "else", "enum", "errno", "extern", "false", "float", "for", "gamma", "goto",
        "if", "inline", "int", "j0", "j1", "jn", "long", "main", "register", "restrict", "return", "short",
        "signed", "signgam", "sizeof", "static", "struct", "switch", "true", "typedef", "typeof", "union",
        "unsigned", "void", "volatile", "while", "workspace", "y0", "y1", "yn",
    }
)  # fmt: skip
_WIDTH = 120
_BREAK_AFTER = (", ", " && ", " || ", " ? ", " : ", " + ", " - ", " * ", " = ")
_LOOP_NAMES = "ijklmnpqrstuv"


@dataclass
class Buffer:
    """How C names a buffer: a pointer or array to index, or (``elements``) one scalar for each element."""

    name: str
    dtype: str
    elements: tuple[str, ...] = ()


class Writer:
    """Collects the body of one C function."""

    def __init__(self, reserved: list[str]) -> None:
        self.lines: list[str] = []
        self.libm: set[str] = set()
        self.uses_float = False
        self.used: set[str] = set()  # names of parameters the body mentions
        self._taken = set(reserved) | _KEYWORDS
        self._counters: dict[str, int] = {}
        self._indent = 1
        self._loops: list[str] = []

    def line(self, text: str) -> None:
        """Append a line at the current indentation."""
        self.lines.append("    " * self._indent + text)

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Iterator[None]:
        """A braced block: ``head {``, whatever is written inside, ``tail``."""
        self.line(f"{head} {{")
        self._indent += 1
        yield
        self._indent -= 1
        self.line(tail)

    @contextmanager
    def captured(self, depth: int = 0) -> Iterator[list[str]]:
        """Divert lines into the list that is yielded, indented ``depth`` levels deeper."""
        kept, self.lines = self.lines, []
        self._indent += depth
        captured = self.lines
        try:
            yield captured
        finally:
            self.lines = kept
            self._indent -= depth

    def fresh(self, stem: str) -> str:
        """An unused name ``stem0``, ``stem1``, ..."""
        while True:
            number = self._counters.get(stem, 0)
            self._counters[stem] = number + 1
            name = f"{stem}{number}"
            if name not in self._taken:
                self._taken.add(name)
                return name

    def named(self, name: str) -> str:
        """``name`` when it is free, otherwise with a number."""
        if name in self._taken:
            return self.fresh(name)
        self._taken.add(name)
        return name

    @contextmanager
    def loop_variable(self) -> Iterator[str]:
        """A name for a loop variable that no enclosing loop uses."""
        depth = len(self._loops)
        names = [name for name in _LOOP_NAMES if name not in self._taken]
        name = names[depth] if depth < len(names) else f"i{depth}"
        self._loops.append(name)
        yield name
        self._loops.pop()


def wrap(line: str) -> list[str]:
    """A line of C as lines of at most 120 columns, broken after operators and commas."""
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    lines: list[str] = []
    while len(line) > _WIDTH:
        window = line[len(indent) : _WIDTH]
        ends = [window.rfind(mark) + len(mark) for mark in _BREAK_AFTER if mark in window]
        if not ends:
            break
        end = len(indent) + max(ends)
        lines.append(line[:end].rstrip())
        line = indent + line[end:]
    return [*lines, line]
