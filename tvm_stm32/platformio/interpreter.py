"""The Python that generates: PlatformIO's own has no TVM, as a rule."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..errors import ToolchainError, quoted
from ..generator import package_records

VARIABLE = "TVM_STM32_PYTHON"
_PROGRAMS = ("bin/python3", "bin/python", "Scripts/python.exe", "python.exe")


def find_python(setting: str, project: Path, package: Path, environment: Mapping[str, str]) -> str:
    """Path of the Python of an environment with tvm-stm32's dependencies.

    The first of: ``setting`` (custom_tvm_python; from the folder ``project``), the variable ``TVM_STM32_PYTHON``, the
    environment ``package`` is installed in, ``.venv`` of its checkout, the environment of ``tvm-stm32`` in PATH,
    ``python3`` in PATH, PlatformIO's own. ``environment`` is the user's. No process is started. Raises
    :class:`ToolchainError`.
    """
    for source, text in (("custom_tvm_python", setting), (VARIABLE, environment.get(VARIABLE, ""))):
        if text:
            is_name = os.path.basename(text) == text  # noqa: PTH119 - of a text with any separator
            path = text if is_name else str(project / Path(text).expanduser())
            found = shutil.which(path, path=environment.get("PATH"))
            if not found:
                raise ToolchainError(
                    f"{source}: there is no program {quoted(text)}",
                    hint="the Python of the environment that tvm-stm32 is installed in",
                )
            return found
    # Packages may come from further environments there (venv --system-site-packages), so it is not judged.
    if package.parent.name.endswith("-packages"):
        prefix = next((folder.parent for folder in package.parents if folder.name.lower().startswith("lib")), package)
        for python in _pythons(prefix, f"bin/{package.parents[1].name}"):  # lib/python3.12/site-packages
            return python
    for python in _candidates(package, environment.get("PATH")):
        if _has_tvm(python):
            return python
    command = shutil.which("tvm-stm32", path=environment.get("PATH"))
    python = _python_of(Path(command)) if command else ""
    if python:
        return python
    raise ToolchainError(
        "no Python with TVM was found",
        why="PlatformIO's own need not have it: models are turned into C by another one",
        hint="pip install tvm-stm32 in an environment, then custom_tvm_python = /path/of/its/python in platformio.ini, "
        f"or the variable {VARIABLE}, or that environment's tvm-stm32 in PATH",
    )


def _candidates(package: Path, path: str | None) -> Iterator[str]:
    yield from _pythons(package.parent / ".venv")
    command = shutil.which("tvm-stm32", path=path)
    if command:
        yield from _pythons(Path(command).resolve().parent.parent)
    yield from filter(None, (shutil.which(name, path=path) for name in ("python3", "python")))
    yield sys.executable


def _pythons(prefix: Path, *first: str) -> Iterator[str]:
    return (str(prefix / name) for name in (*first, *_PROGRAMS) if (prefix / name).is_file())


def _has_tvm(python: str) -> bool:
    """Whether TVM is among the packages of an environment, judged by folder names."""
    # Not resolved: the Python of a virtual environment is a link to another one's.
    program = Path(os.path.abspath(python))  # noqa: PTH100 - Path.resolve follows links
    patterns = ("lib*/python3*/site-packages", "lib*/python3*/dist-packages", "Lib/site-packages")
    prefixes = (program.parent, program.parent.parent)
    folders = [str(found) for prefix in prefixes for pattern in patterns for found in prefix.glob(pattern)]
    return "apache_tvm" in package_records(folders)


def _python_of(command: Path) -> str:
    """The Python in the first line of a script that pip wrote, or nothing."""
    with command.open("rb") as stream:
        line = stream.readline(1000)
    found = re.fullmatch(rb'#!"?(/[^"\n]*python[\w.]*)"?\s*', line)
    return os.fsdecode(found.group(1)) if found and Path(os.fsdecode(found.group(1))).is_file() else ""
