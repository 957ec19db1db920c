"""A folder of a project that a test writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass
class ProjectFolder:
    """Its files by their path in it."""

    folder: Path

    def path(self, name: str) -> Path:
        """A file of the project."""
        return self.folder / name

    def write(self, name: str, text: str) -> None:
        """Make or replace a text file."""
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        self.path(name).write_text(text, encoding="utf-8")

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace the first occurrence of a text that has to be there."""
        text = self.path(name).read_text(encoding="utf-8")
        assert old in text
        self.write(name, text.replace(old, new, 1))
