"""What a file was made from, in the words of make: depfiles for Ninja, CMake and make."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from . import __version__
from .files import make_folder, write_atomically
from .generator import PACKAGE, generator_files, package_records


@dataclass(frozen=True)
class Record:
    """What a build tool is left of a command, beside its outputs: ``depfile`` says what ``stamp`` was made from.

    ``stamp`` is touched last, when all is written, with the time at which the command began: a file that changes while
    it is read counts as changed. Without one the depfile is about the first output. ``one_rule``: see
    :func:`depfile_text`.
    """

    depfile: Path | None = None
    stamp: Path | None = None
    one_rule: bool = False
    begun_ns: int = field(default_factory=time.time_ns, compare=False)

    def __bool__(self) -> bool:
        return self.depfile is not None or self.stamp is not None

    def write(self, first_output: Path, dependencies: Callable[[], Iterable[Path]]) -> None:
        """Write both. Raises :class:`Error` naming the file."""
        for file in (self.depfile, self.stamp):
            if file is not None:
                make_folder(file.parent)
        if self.depfile is not None:
            text = depfile_text(self.stamp or first_output, dependencies(), one_rule=self.one_rule)
            write_atomically({self.depfile: text})
        if self.stamp is not None:
            write_atomically({self.stamp: ""})
            os.utime(self.stamp, ns=(self.begun_ns, self.begun_ns))


NO_RECORD = Record()


def depfile_text(target: Path, files: Iterable[Path], *, one_rule: bool = False) -> str:
    """A rule that lets ``target`` depend on ``files``.

    Then one without a recipe for each file, as compilers' ``-MP``: make takes a file that is gone for changed.
    CMake does that by itself, and 3.22 fails on them: ``one_rule`` leaves them out. Paths stay
    as they are given. Those no rule can name (with a line break) are left out.
    """
    names = [_escaped(file) for file in dict.fromkeys(files) if not {"\n", "\r"} & set(str(file))]
    rule = " \\\n  ".join([f"{_escaped(target)}:", *names])
    return "\n".join([rule, *(f"{name}:" for name in names if not one_rule)]) + "\n"


def _escaped(path: Path) -> str:
    text = path.as_posix().replace("$", "$$")
    return text.replace(" ", "\\ ").replace("#", "\\#")


def package_dependencies(*names: str) -> list[Path]:
    """Files of this package."""
    return [Path(PACKAGE, name) for name in names]


def generator_dependencies() -> list[Path]:
    """Its files, and one that comes and goes with the version of each package: files of another may not be newer."""
    own = Path(PACKAGE).with_name(f"tvm_stm32-{__version__}.dist-info")
    records = [own, *(Path(folder).absolute() for _, folder in package_records(sys.path).values())]
    found = sorted(record / "METADATA" for record in records if (record / "METADATA").is_file())
    return package_dependencies(*generator_files()) + found
