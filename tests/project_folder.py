"""A folder of a project that a test writes."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
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

    def output_of(self, command: Sequence[str | Path], environment: Mapping[str, str]) -> tuple[int, str]:
        """Exit code and output, errors among it, of a command in the folder. It has two minutes."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
            check=False,
        )
        return done.returncode, done.stdout.decode("utf-8", "replace")
