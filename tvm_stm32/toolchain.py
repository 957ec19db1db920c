"""The programs the project runs but does not bring: arm-none-eabi-gcc, QEMU, the host's C compiler.

Each is looked for in a variable, then in PATH, then in the folders its usual installers use. Nothing is cached: a
look-up costs a few file accesses.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import ToolchainError
from .target import Target

GCC_VARIABLE = "ARM_NONE_EABI_GCC"
QEMU_VARIABLE = "QEMU_SYSTEM_ARM"

DEBIAN_PACKAGES = {
    "gcc": "gcc-arm-none-eabi libnewlib-arm-none-eabi",
    "qemu": "qemu-system-arm",
    "cc": "gcc libc6-dev",
    "clang-format": "clang-format",
}
"""Packages of each tool on Debian and Ubuntu."""

_OTHER_INSTALLS = {
    "gcc": {
        "darwin": "brew install --cask gcc-arm-embedded",
        "win32": "winget install Arm.GnuArmEmbeddedToolchain",
    },
    "qemu": {"darwin": "brew install qemu", "win32": "winget install SoftwareFreedomConservancy.QEMU"},
    "cc": {"darwin": "xcode-select --install", "win32": "winget install LLVM.LLVM"},
    "clang-format": {"darwin": "brew install clang-format", "win32": "pip install clang-format"},
}

# (root, pattern of folders in it, newest version first).
_GCC_FOLDERS: tuple[tuple[str, str], ...] = (
    ("/usr/local/bin", ""),
    ("/opt/homebrew/bin", ""),
    ("/opt", "*arm*none-eabi*/bin"),
    ("/opt", "gcc-arm-*/bin"),
    ("/Applications/ArmGNUToolchain", "*/arm-none-eabi/bin"),
    ("/Applications/ARM", "bin"),
    ("~/.local/xPacks/@xpack-dev-tools/arm-none-eabi-gcc", "*/.content/bin"),
    ("~/Library/xPacks/@xpack-dev-tools/arm-none-eabi-gcc", "*/.content/bin"),
    ("%APPDATA%/xPacks/@xpack-dev-tools/arm-none-eabi-gcc", "*/.content/bin"),
    ("C:/Program Files (x86)/Arm GNU Toolchain arm-none-eabi", "*/bin"),
    ("C:/Program Files/Arm GNU Toolchain arm-none-eabi", "*/bin"),
    ("C:/Program Files (x86)/GNU Arm Embedded Toolchain", "*/bin"),
)
_QEMU_FOLDERS: tuple[tuple[str, str], ...] = (
    ("/usr/local/bin", ""),
    ("/opt/homebrew/bin", ""),
    ("~/.local/xPacks/@xpack-dev-tools/qemu-arm", "*/.content/bin"),
    ("~/Library/xPacks/@xpack-dev-tools/qemu-arm", "*/.content/bin"),
    ("%APPDATA%/xPacks/@xpack-dev-tools/qemu-arm", "*/.content/bin"),
    ("C:/Program Files/qemu", ""),
)

_PROBE = """
#include <math.h>
#include <string.h>
volatile float x = 2.0f;
char a[8], b[8];
int main(void) { memcpy(a, b, sizeof a); return (int)expf(x); }
"""


@dataclass(frozen=True)
class CompletedTool:
    """What a finished program said: exit code, and its two outputs as text."""

    returncode: int
    stdout: str
    stderr: str


def run_tool(command: Sequence[str | Path], *, cwd: Path | None = None, timeout_s: float = 300.0) -> CompletedTool:
    """Run a program without a terminal. Raises :class:`ToolchainError` when it cannot start or takes too long."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False
        )
    except OSError as error:
        raise ToolchainError(f"cannot run {words[0]}", why=error.strerror or str(error)) from error
    except subprocess.TimeoutExpired as error:
        raise ToolchainError(f"{words[0]} did not end within {timeout_s:g} s", why=" ".join(words)) from error
    return CompletedTool(
        done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
    )


def install_hint(tool: str) -> str:
    """The one line that installs ``tool`` (gcc, qemu, cc or clang-format) on this operating system."""
    other = _OTHER_INSTALLS[tool].get(sys.platform)
    if other is not None:
        return other
    return f"sudo apt-get install --no-install-recommends {DEBIAN_PACKAGES[tool]}"


def find_gcc() -> Path:
    """arm-none-eabi-gcc: ``ARM_NONE_EABI_GCC`` (the compiler or its folder), PATH, known folders.

    Raises :class:`ToolchainError` when there is none, or when the variable points at none.
    """
    return _find("arm-none-eabi-gcc", GCC_VARIABLE, _GCC_FOLDERS, "gcc")


def find_qemu() -> Path:
    """qemu-system-arm: ``QEMU_SYSTEM_ARM`` (the program or its folder), PATH, known folders.

    Raises :class:`ToolchainError` when there is none, or when the variable points at none.
    """
    return _find("qemu-system-arm", QEMU_VARIABLE, _QEMU_FOLDERS, "qemu")


def find_host_cc() -> Path:
    """The host's C compiler: ``CC``, else cc, gcc or clang in PATH. Raises :class:`ToolchainError`."""
    wanted = os.environ.get("CC", "").split()
    for name in [*wanted[:1], "cc", "gcc", "clang"]:
        found = shutil.which(name)
        if found is not None:
            return Path(found)
    raise ToolchainError("no C compiler for this computer (looked for CC, cc, gcc, clang)", hint=install_hint("cc"))


def find_clang_format() -> Path | None:
    """clang-format, needed only to work on the project itself; None when there is none."""
    found = shutil.which("clang-format") or shutil.which("clang-format", path=str(Path(sys.executable).parent))
    return Path(found) if found else None


def version_of(tool: Path) -> str:
    """The version a tool prints, for example ``12.2.1``; its first line when there is no number in it."""
    done = run_tool([tool, "--version"], timeout_s=30)
    if done.returncode != 0:
        raise ToolchainError(f"{tool} --version failed with exit code {done.returncode}", why=first_lines(done.stderr))
    first = done.stdout.split("\n", 1)[0].strip()
    # Distributors put their own version in brackets, before or after the real one.
    match = re.search(r"\d+\.\d+(\.\d+)?", re.sub(r"\([^)]*\)", "", first)) or re.search(r"\d+\.\d+(\.\d+)?", first)
    return match.group(0) if match else first


def qemu_major(qemu: Path) -> int:
    """QEMU's major version, 0 when it cannot be told."""
    head = version_of(qemu).split(".", 1)[0]
    return int(head) if head.isdigit() else 0


def tool_beside(gcc: Path, name: str) -> Path:
    """A binutils program of the same toolchain (``objcopy``, ``size``). Raises :class:`ToolchainError`."""
    path = gcc.with_name(gcc.name.replace("gcc", name))
    if not path.is_file():
        raise ToolchainError(f"{path.name} is missing beside {gcc}", hint=install_hint("gcc"))
    return path


def probe_link(gcc: Path, target: Target) -> None:
    """Compile and link a tiny program for ``target`` with nano.specs.

    A compiler that answers ``--version`` may still lack newlib, libgcc's multilib or the core: this finds out. Raises
    :class:`ToolchainError` with the compiler's first lines.
    """
    with tempfile.TemporaryDirectory(prefix="tvm-stm32-") as folder:
        source = Path(folder) / "probe.c"
        source.write_text(_PROBE, encoding="utf-8")
        flags = [*target.compile_flags, "-Os", "--specs=nano.specs", "-nostartfiles", "-Wl,--entry=main"]
        done = run_tool([gcc, *flags, source, "-lm", "-o", source.with_suffix(".elf")], timeout_s=60)
    if done.returncode != 0:
        raise ToolchainError(
            f"{gcc} cannot build a program for {target.cpu}",
            why=first_lines(done.stderr, 3),
            hint=f"newlib and the core's libraries are needed: {install_hint('gcc')}",
        )


def first_lines(text: str, count: int = 12) -> str:
    """The first ``count`` lines of a tool's output, with a note when there are more."""
    lines = text.strip().splitlines()
    if len(lines) <= count:
        return "\n".join(lines)
    return "\n".join([*lines[:count], f"... {len(lines) - count} more lines"])


def _find(name: str, variable: str, folders: Iterable[tuple[str, str]], tool: str) -> Path:
    wanted = os.environ.get(variable, "")
    if wanted:
        place = Path(wanted).expanduser()
        found = shutil.which(name, path=f"{place}{os.pathsep}{place / 'bin'}") if place.is_dir() else None
        if found is None and place.is_file():
            found = shutil.which(str(place))
        if found is None:
            raise ToolchainError(
                f"{variable} is '{wanted}', which is neither {name} nor a folder with it",
                hint=f"unset {variable}, or give the program's path",
            )
        return Path(found)
    on_path = shutil.which(name)
    if on_path is not None:
        return Path(on_path)
    for root, pattern in folders:
        base = Path(os.path.expandvars(root)).expanduser()
        candidates = base.glob(pattern) if pattern else [base]
        for folder in sorted(candidates, key=_version_key, reverse=True):
            found = shutil.which(name, path=str(folder))
            if found is not None:
                return Path(found)
    raise ToolchainError(
        f"{name} was not found in {variable}, PATH and the usual folders",
        hint=f"{install_hint(tool)}; or set {variable} to its path",
    )


def _version_key(folder: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", str(folder))]
