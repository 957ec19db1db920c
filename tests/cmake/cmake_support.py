"""CMake and make projects written into a folder, and built as a user would."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from project_folder import ProjectFolder
from scons_support import REPOSITORY

GENERATORS = ("Ninja", "Unix Makefiles")
CMAKE_DIR = REPOSITORY / "cmake"
# Speed of generation is not what these tests are about: the same model with the same options is compiled once.
MEMO = """
import hashlib, os, pickle, sys
from pathlib import Path

root, log, cache = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
del sys.argv[1:4]
with log.open("a") as stream:
    stream.write(" ".join(word for word in sys.argv[1:3]) + "\\n")
sys.path.insert(0, root)
from tvm_stm32.cli import main

if sys.argv[1] != "compile":
    sys.exit(main())
from tvm_stm32 import compiler

compile_model = compiler.compile_model

def memo(file, options, params=None):
    files = [file, *([params] if params else []), *sorted(file.parent.glob("*.data"))]
    key = hashlib.sha256(repr((file.name, options)).encode())
    for path in files:
        key.update(path.read_bytes())
    place = cache / key.hexdigest()
    if not place.exists():
        made = pickle.dumps(compile_model(file, options, params))
        cache.mkdir(exist_ok=True)
        place.with_suffix(f".{os.getpid()}").write_bytes(made)
        place.with_suffix(f".{os.getpid()}").rename(place)
    return pickle.loads(place.read_bytes())

compiler.compile_model = memo
main()
"""
TOOLCHAIN = """
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_ASM_COMPILER ${CMAKE_C_COMPILER})
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_EXECUTABLE_SUFFIX_C ".elf")
set(TARGET_FLAGS "-mcpu=cortex-m4 -mthumb -mfpu=fpv4-sp-d16 -mfloat-abi=hard")
set(CMAKE_C_FLAGS "${TARGET_FLAGS} -Wall -Wextra -Werror -fdata-sections -ffunction-sections")
set(CMAKE_ASM_FLAGS "${CMAKE_C_FLAGS} -x assembler-with-cpp")
set(CMAKE_C_FLAGS_DEBUG "-O0 -g3")
set(CMAKE_C_FLAGS_RELEASE "-Os -g0")
set(CMAKE_FIND_ROOT_PATH "${CMAKE_CURRENT_LIST_DIR}/sysroot")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
"""
HOST_MAIN = """
#include "tiny.h"

int main(void)
{
    ai_handle network;

    return (ai_create(&ai_tiny_network, NULL, &network) == AI_STATUS_OK && ai_run(network) == AI_STATUS_OK) ? 0 : 1;
}
"""


def program(name: str) -> str:
    """A program of PATH or of the environment of this Python; skips the calling test without it."""
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


@dataclass
class CMakeProject(ProjectFolder):
    """A folder with a CMakeLists.txt, built in its folder ``b``."""

    cache: Path
    """Compiled networks, for all tests of a session."""
    generator: str = "Ninja"
    tool_root: Path = REPOSITORY
    variables: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cmake = program("cmake")
        program("ninja" if self.generator == "Ninja" else "make")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.write("memo.py", MEMO)
        self.log = self.folder / "tool.log"
        self.log.touch()

    @property
    def command(self) -> list[str]:
        """The generator, as tests call it."""
        return [sys.executable, str(self.path("memo.py")), str(self.tool_root), str(self.log), str(self.cache)]

    def run(self, *command: str | Path, fails: bool = False, variables: Mapping[str, str] | None = None) -> str:
        """Output of a command in the project's folder; ``fails`` says whether it has to."""
        path = os.pathsep.join([os.environ["PATH"], str(Path(sys.executable).parent)])
        environment = {**os.environ, "PATH": path, **self.variables, **(variables or {})}
        code, output = self.output_of(command, environment)
        assert (code != 0) == fails, output
        return output

    def configure(self, *arguments: str, fails: bool = False, own_tool: bool = True, package: bool = True) -> str:
        """Run CMake; nothing it says may be a warning.

        ``own_tool`` false: the functions find the generator; ``package`` false: CMake finds the package, if any.
        """
        package = package and "find_package(tvm_stm32" in self.path("CMakeLists.txt").read_text(encoding="utf-8")
        definitions = {"tvm_stm32_DIR": str(CMAKE_DIR)} if package else {}
        definitions |= {"TVM_STM32_COMMAND": ";".join(self.command)} if own_tool else {}
        words = [f"-D{name}={value}" for name, value in definitions.items()]
        output = self.run(self.cmake, "-G", self.generator, "-S", ".", "-B", "b", *words, *arguments, fails=fails)
        assert fails or "Warning" not in output, output
        return output

    def build(self, *arguments: str, fails: bool = False) -> Build:
        """Build; what the generator was called for and what was compiled are counted."""
        before = len(self.log.read_text().splitlines())
        output = self.run(self.cmake, "--build", "b", *arguments, fails=fails)
        calls = [Path(line).name for line in self.log.read_text().splitlines()[before:]]
        compiled = re.findall(r"Building \w+ object \S*?([^/\s]+)\.(?:o|obj)\b", output)
        return Build(output, sorted(calls), sorted(compiled), "no work to do" in output)


@dataclass(frozen=True)
class Build:
    """Output, commands of the generator with their file, sources compiled, and whether Ninja had nothing to do."""

    output: str
    generated: list[str]
    compiled: list[str]
    is_null: bool


def project_text(body: str, languages: str = "C", minimum: str = "3.10") -> str:
    """A CMakeLists.txt of an old project that takes the functions in."""
    head = f"cmake_minimum_required(VERSION {minimum})\nproject(p {languages})\n"
    return f"{head}find_package(tvm_stm32 CONFIG REQUIRED)\n{body}\n"
