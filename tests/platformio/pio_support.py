"""PlatformIO as a user has it, without its registry: its own Python, a SCons package and a small platform.

Nothing is downloaded: PlatformIO takes packages it finds in its core folder, and those are written here.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import sys
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from project_folder import ProjectFolder
from scons_support import BOARD, REPOSITORY, require_tools, write_model

from tvm_stm32.boards import load_board
from tvm_stm32.project.linker import linker_script

SCRIPT = REPOSITORY / "tvm_stm32" / "platformio" / "extra_script.py"
EXAMPLE = REPOSITORY / "examples" / "platformio"
KINDS = ("Generating", "Copying", "Compiling", "Archiving", "Linking")

RUN_SCONS = """
import SCons.Script
SCons.Script.main()
"""
PLATFORM = """
from platformio.public import PlatformBase

class TinyPlatform(PlatformBase):
    pass
"""
# What a platform does: names the tools, adds the flags of the board's core and its start-up code.
BUILDER = """
from SCons.Script import Default, DefaultEnvironment

env = DefaultEnvironment()
if "BOARD" in env:
    board = env.BoardConfig()
    env.Replace(CC="arm-none-eabi-gcc", CXX="arm-none-eabi-g++", LINK="$CC", PROGSUFFIX=".elf")
    core = ["-mcpu=" + board.get("build.cpu"), "-mthumb"] + board.get("build.float_flags").split()
    env.Append(
        CCFLAGS=core + ["-Os", "-Wall", "-Werror", "-ffunction-sections"],
        CXXFLAGS=["-fno-exceptions", "-fno-rtti"],
        CPPPATH=[{port!r}],
        LINKFLAGS=core + ["-nostartfiles", "--specs=nano.specs", "-Wl,--gc-sections", "-T", {linker_script!r}],
        LIBS=["m"],
    )
    env.BuildSources("$BUILD_DIR/port", {port!r}, ["-<*>"] + ["+<port_%s.c>" % name for name in {parts!r}])
Default(env.BuildProgram())
"""
BOARDS = {"hard": "-mfloat-abi=hard -mfpu=fpv4-sp-d16", "soft": "-mfloat-abi=soft"}


def platformio_version() -> str:
    """The version in this environment; skips the calling test without it."""
    try:
        return importlib.metadata.version("platformio")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("platformio is not installed")


def _with_dependencies(*names: str) -> set[str]:
    """The packages and what they need here, by their names in the index."""
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop().lower().replace("_", "-")
        if name in found:
            continue
        found.add(name)
        requirements = map(Requirement, importlib.metadata.requires(name) or [])
        left += [item.name for item in requirements if item.marker is None or item.marker.evaluate({"extra": ""})]
    return found


def _write_python(folder: Path) -> Path:
    """A virtual environment that has PlatformIO and SCons, and nothing else of this one: no TVM, no numpy."""
    venv.create(folder, symlinks=True, with_pip=False)
    packages = next(folder.glob("lib/python3*/site-packages"))
    for name in _with_dependencies("platformio", "scons"):
        distribution = importlib.metadata.distribution(name)
        for top in {file.parts[0] for file in distribution.files or () if file.parts[0] != ".."} - {"__pycache__"}:
            link = packages / top
            if not link.exists():
                link.symlink_to(distribution.locate_file(top))
    return folder / "bin" / "python"


def _write_package(folder: Path, manifest: str, facts: Mapping[str, object]) -> None:
    folder.mkdir(parents=True)
    (folder / manifest).write_text(json.dumps(facts), encoding="utf-8")


def _write_core(folder: Path) -> None:
    """PlatformIO's core folder with what it would download: SCons in its version, and the platform ``tiny``."""
    from platformio.dependencies import get_core_dependencies

    version = re.sub("[^0-9.]", "", get_core_dependencies()["tool-scons"])
    scons = folder / "packages" / "tool-scons"
    _write_package(scons, "package.json", {"name": "tool-scons", "version": version})
    (scons / "scons.py").write_text(RUN_SCONS, encoding="utf-8")
    spec = {"owner": "platformio", "id": None, "name": "tool-scons", "requirements": None, "uri": None}
    record = {"type": "tool", "name": "tool-scons", "version": version, "spec": spec}
    (scons / ".piopm").write_text(json.dumps(record), encoding="utf-8")

    platform = folder / "platforms" / "tiny"
    facts = {"name": "tiny", "title": "Tiny", "version": "1.0.0", "description": "One emulated board", "packages": {}}
    _write_package(platform, "platform.json", facts)
    (platform / "platform.py").write_text(PLATFORM, encoding="utf-8")
    (platform / "image.ld").write_text(linker_script(load_board(BOARD)), encoding="utf-8")
    builder = platform / "builder" / "main.py"
    builder.parent.mkdir()
    builder.write_text(
        BUILDER.format(
            port=str(REPOSITORY / "runtime" / "port"),
            linker_script=str(platform / "image.ld"),
            parts=("common", "semihosting", "startup", "system"),
        ),
        encoding="utf-8",
    )
    for name, flags in BOARDS.items():
        build = {"cpu": "cortex-m4", "mcu": "an386", "f_cpu": "25000000L", "float_flags": flags}
        upload = {"maximum_ram_size": 1 << 22, "maximum_size": 1 << 22}
        board = {"name": name, "build": build, "upload": upload, "frameworks": [], "url": "-", "vendor": "Arm"}
        (platform / "boards").mkdir(exist_ok=True)
        (platform / "boards" / f"{name}.json").write_text(json.dumps(board), encoding="utf-8")


@dataclass(frozen=True)
class PlatformIO:
    """PlatformIO's Python and its core folder."""

    python: Path
    core: Path

    @classmethod
    def installed(cls, factory: pytest.TempPathFactory) -> PlatformIO:
        """The one of this session."""
        platformio_version()
        require_tools("arm-none-eabi-gcc")
        folder = factory.getbasetemp() / "platformio"
        made = cls(folder / "python" / "bin" / "python", folder / "core")
        if not folder.exists():
            _write_python(folder / "python")
            _write_core(made.core)
        return made


@dataclass(frozen=True)
class PioBuild:
    """What a run of PlatformIO did."""

    output: str

    def of(self, kind: str) -> list[str]:
        """Names of the files of one kind of action, sorted."""
        words = [line.split() for line in self.output.splitlines()]
        return sorted(Path(w[1]).name for w in words if len(w) == 2 and w[0] == kind)

    @property
    def is_null(self) -> bool:
        """Whether nothing was made."""
        return not any(self.of(kind) for kind in KINDS)


@dataclass
class PioProject(ProjectFolder):
    """A folder with a platformio.ini."""

    pio: PlatformIO

    def run(self, *arguments: str, fails: bool = False, variables: Mapping[str, str] | None = None) -> PioBuild:
        """``pio run``; ``fails`` says whether it has to. The generator's Python is this one, unless said otherwise."""
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment = {
            **kept,
            "HOME": str(self.pio.core),
            "PLATFORMIO_CORE_DIR": str(self.pio.core),
            "PLATFORMIO_SETTING_ENABLE_TELEMETRY": "No",
            "PLATFORMIO_SETTING_CHECK_PLATFORMIO_INTERVAL": "100000",
            "PLATFORMIO_SETTING_CHECK_PRUNE_SYSTEM_THRESHOLD": "0",
            "PLATFORMIO_NO_ANSI": "true",
            # Whatever is asked for in spite of all that ends in an error.
            "http_proxy": "http://127.0.0.1:9",
            "https_proxy": "http://127.0.0.1:9",
            "TVM_STM32_PYTHON": sys.executable,
            **(variables or {}),
        }
        given = {name: value for name, value in environment.items() if value}
        code, output = self.output_of([self.pio.python, "-m", "platformio", "run", *arguments], given)
        assert code == int(fails), output
        assert "Traceback" not in output, output
        return PioBuild(output)


INI = f"""
[env]
platform = tiny
extra_scripts = pre:{SCRIPT}
custom_tvm_models = models/tiny.onnx

[env:hard]
board = hard

[env:soft]
board = soft
"""

# Prints the network's output, as bytes, for the input of input_codes().
MAIN = """
#include "port.h"
#include "tiny.h"

int main(int, char **)
{
    ai_handle network;

    if (ai_create(&ai_tiny_network, nullptr, &network) != AI_STATUS_OK) {
        return 1;
    }
    int8_t *input = static_cast<int8_t *>(ai_get_input(network, 0)->data);
    for (unsigned index = 0; index < AI_TINY_IN_1_SIZE; index++) {
        input[index] = static_cast<int8_t>((index * 37) % 256 - 128);
    }
    if (ai_run(network) != AI_STATUS_OK) {
        return 2;
    }
    const uint8_t *output = static_cast<const uint8_t *>(ai_get_output(network, 0)->data);
    port_print("output=");
    for (unsigned index = 0; index < AI_TINY_OUT_1_SIZE; index++) {
        port_print_unsigned(output[index]);
        port_print(",");
    }
    port_print("\\nstatus=ok\\n");
    return 0;
}
"""


def input_codes() -> np.ndarray:
    """The input MAIN gives the network."""
    return (np.arange(64) * 37 % 256 - 128).astype(np.int8).reshape(1, 1, 8, 8)


def write_pio_project(folder: Path, pio: PlatformIO, ini: str = INI, main: str = MAIN) -> PioProject:
    """A project with one model; nothing is built."""
    project = PioProject(folder, pio)
    project.write("platformio.ini", ini)
    project.write("src/main.cpp", main)
    project.path("models").mkdir()
    write_model(project.path("models/tiny.onnx"))
    return project
