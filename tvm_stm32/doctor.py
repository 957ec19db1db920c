"""``tvm-stm32 doctor``: which tools are here, in which version, and how to get what is missing."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from .errors import ToolchainError
from .target import Target, known_cpus
from .toolchain import (
    find_clang_format,
    find_gcc,
    find_host_cc,
    find_qemu,
    install_hint,
    probe_link,
    version_of,
)

_PACKAGES = ("apache-tvm", "scons", "numpy", "onnx", "tflite", "cmsis-pack-manager")
# Packages that come with the installation, by the modules they bring.
_MODULES = {
    "tvm": "apache-tvm",
    "tvm_ffi": "apache-tvm-ffi",
    "google": "protobuf",
    "elftools": "pyelftools",
    "cmsis_pack_manager": "cmsis-pack-manager",
    "yaml": "pyyaml",
    "SCons": "scons",
    **{
        name: name
        for name in ("filelock", "flatbuffers", "jinja2", "jsonschema", "ml_dtypes", "numpy", "onnx", "tflite")
    },
}
_MINIMUM_PYTHON = (3, 10)


@dataclass(frozen=True)
class Check:
    """One line of the report; ``version`` is empty when the tool is missing, ``remedy`` what to type then."""

    tool: str
    version: str
    place: str
    remedy: str = ""
    required: bool = True

    @property
    def state(self) -> str:
        """ok, missing (required) or absent (optional)."""
        if self.version:
            return "ok"
        return "missing" if self.required else "absent"


def run_checks() -> list[Check]:
    """Look at every tool the project uses; nothing is installed and TVM is not imported."""
    return [
        _python(),
        *(_package(name) for name in _PACKAGES),
        *_compiler(),
        _qemu(),
        _host_compiler(),
        _clang_format(),
    ]


def run_doctor(write: Callable[[str], None] = print) -> int:
    """Print the report as a table; returns the exit code, 1 when something required is missing."""
    checks = run_checks()
    for line in _table(checks):
        write(line)
    lacking = [check for check in checks if not check.version]
    for check in lacking:
        write(f"\n{check.tool} is {check.state}" + ("" if check.required else " (optional)"))
        for line in check.remedy.splitlines():
            write(f"  {line}")
    return 1 if any(check.required for check in lacking) else 0


def _table(checks: list[Check]) -> Iterator[str]:
    rows = [("tool", "state", "version", "where")]
    rows += [(check.tool, check.state, check.version or "-", check.place or "-") for check in checks]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)]
        yield "  ".join([*cells, row[3]])


def _python() -> Check:
    found = sys.version_info[:2] >= _MINIMUM_PYTHON
    needed = ".".join(map(str, _MINIMUM_PYTHON))
    return Check(
        "python",
        platform.python_version() if found else "",
        sys.executable,
        f"Python {needed} or newer is needed, this is {platform.python_version()}",
    )


def _package(name: str) -> Check:
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return Check(name, "", "", f"pip install '{_requirement(name)}'")
    return Check(name, distribution.version, str(distribution.locate_file("")))


def missing_package(error: ImportError) -> ToolchainError | None:
    """The message for an import that failed because a package this project needs is absent or broken, else None."""
    module = (error.name or "").split(".")[0]
    package = _MODULES.get(module)
    if package is None:
        return None
    return ToolchainError(
        f"the Python package '{package}' cannot be imported by {sys.executable}",
        why=str(error),
        hint=f"pip install '{_requirement(package)}'",
    )


def _requirement(name: str) -> str:
    """How this project asks for a package, when it is installed itself."""
    try:
        requirements = metadata.requires("tvm-stm32") or []
    except metadata.PackageNotFoundError:
        return name
    return next((text.split(";")[0].strip() for text in requirements if text.lower().startswith(name)), name)


def _compiler() -> Iterator[Check]:
    try:
        gcc = find_gcc()
        yield Check("arm-none-eabi-gcc", version_of(gcc), str(gcc))
    except ToolchainError as error:
        yield Check("arm-none-eabi-gcc", "", "", _remedy(error, "gcc"))
        yield Check("newlib (nano)", "", "", f"comes with the compiler: {install_hint('gcc')}")
        return
    cores = [cpu for cpu in known_cpus() if cpu != "host"]
    problems = []
    for cpu in cores:
        try:
            probe_link(gcc, Target.for_cpu(cpu))
        except ToolchainError as error:
            problems.append(str(error))
    yield Check(
        "newlib (nano)",
        "" if problems else f"links for {len(cores)} cores",
        "" if problems else str(gcc.parent),
        problems[0] if problems else "",
    )


def _qemu() -> Check:
    return _program("qemu-system-arm", find_qemu, "qemu")


def _host_compiler() -> Check:
    return _program("host C compiler", find_host_cc, "cc")


def _clang_format() -> Check:
    found = find_clang_format()
    if found is None:
        return Check(
            "clang-format", "", "", f"only to work on the project: {install_hint('clang-format')}", required=False
        )
    return Check("clang-format", version_of(found), str(found), required=False)


def _program(name: str, find: Callable[[], Path], tool: str) -> Check:
    try:
        path = find()
        return Check(name, version_of(path), str(path))
    except ToolchainError as error:
        return Check(name, "", "", _remedy(error, tool))


def _remedy(error: ToolchainError, tool: str) -> str:
    return f"{error.message}\n{error.hint or install_hint(tool)}"
