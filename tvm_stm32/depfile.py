"""What a file was made from, in the words of make: depfiles for Ninja, CMake and make."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from . import __version__
from .boards import board_file
from .frontends.onnx_locations import external_locations
from .generator import PACKAGE, generator_files, package_records
from .pool_files import OF_ARCHIVE, OF_BOARD

if TYPE_CHECKING:
    from .commands import Choice


def depfile_text(target: Path, files: Iterable[Path], *, one_rule: bool = False) -> str:
    """A rule that lets ``target`` depend on ``files``.

    Then one without a recipe for each file, as compilers' ``-MP``: make takes a file that is gone for changed.
    CMake does that by itself, and up to 3.22 takes them for more targets: ``one_rule`` leaves them out. Paths stay
    as they are given. Those no rule can name (with a line break) are left out.
    """
    names = [_escaped(file) for file in dict.fromkeys(files) if not {"\n", "\r"} & set(str(file))]
    rule = " \\\n  ".join([f"{_escaped(target)}:", *names])
    return "\n".join([rule, *(f"{name}:" for name in names if not one_rule)]) + "\n"


def _escaped(path: Path) -> str:
    text = path.as_posix().replace("$", "$$")
    return text.replace(" ", "\\ ").replace("#", "\\#")


def compile_dependencies(choice: Choice) -> list[Path]:
    """Files that decide what ``choice`` becomes: the model, those it names, those of the board and the generator."""
    found = [choice.file]
    if choice.file.is_dir():
        found = sorted(path for path in choice.file.rglob("*") if path.is_file())
    elif choice.file.suffix == ".onnx":
        found += [choice.file.parent / place for place in external_locations(choice.file)]
    found += [choice.params] if choice.params is not None else []
    found += [Path(choice.pools)] if choice.pools not in ("", OF_BOARD, OF_ARCHIVE) else []
    board = board_file(choice.board) if choice.board is not None else None
    found += [board, board.parent / "board.schema.json"] if board is not None else []
    return [path for path in found if path.exists()] + _generator()


def package_dependencies(*names: str) -> list[Path]:
    """Files of this package."""
    return [Path(PACKAGE, name) for name in names]


def _generator() -> list[Path]:
    """Its files, and one that comes and goes with the version of each package: files of another may not be newer."""
    own = Path(PACKAGE).with_name(f"tvm_stm32-{__version__}.dist-info")
    records = [own, *(Path(folder).absolute() for _, folder in package_records(sys.path).values())]
    found = sorted(record / "METADATA" for record in records if (record / "METADATA").is_file())
    return package_dependencies(*generator_files()) + found
