"""Projects written into a folder, and SCons run on them as a user would."""

from __future__ import annotations

import os
import resource
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from project_folder import ProjectFolder

from tvm_stm32.boards import load_board
from tvm_stm32.project.linker import linker_script

REPOSITORY = Path(__file__).resolve().parents[2]
BOARD = "mps2-an386"

# What one line of the output stands for; the same words are in PRINT_STRINGS.
KINDS = ("MODEL", "COPY", "CC", "AS", "SCRIPT", "LINK", "CHECK")
PRINT_STRINGS = """dict(
    TVMSTM32COMSTR="MODEL ${TARGET.dir}/$TVMSTM32NAME",
    INSTALLSTR="COPY $TARGET",
    CCCOMSTR="CC $TARGET",
    ASCOMSTR="AS $TARGET",
    ASPPCOMSTR="AS $TARGET",
    TVMSTM32LDCOMSTR="SCRIPT $TARGET",
    LINKCOMSTR="LINK $TARGET",
    TVMSTM32CHECKCOMSTR="CHECK $TARGET",
)"""

HEAD = f"""
import os

env = Environment(
    tools=["gcc", "gnulink", "stm32_model", "stm32_firmware"],
    toolpath=["#tools/site_scons/site_tools"],
    ENV=dict(os.environ),
    CCFLAGS=["-Wall", "-Werror"],
    CFLAGS="-std=c99",
)
env.Replace(**{PRINT_STRINGS})
if "GENERATOR" in ARGUMENTS:
    env["TVMSTM32"] = ["$(", "$PYTHON", ARGUMENTS["GENERATOR"], "$)"]
if "CACHE" in ARGUMENTS:
    CacheDir(ARGUMENTS["CACHE"])
board = ARGUMENTS.get("BOARD", "{BOARD}")
"""

SCONSTRUCT = (
    HEAD
    + """
network = env.TvmModel("build/net/tiny", "model.onnx", BOARD=board, LEVEL=ARGUMENTS.get("LEVEL", "time"))
image = env.Firmware(
    "build/app.elf",
    ["main.c", network],
    BOARD=board,
    RUNTIME=env.TvmRuntime("build/runtime"),
    LINKER_SCRIPT="app.ld",
    STARTUP="startup.c",
)
"""
)

MAIN = """
#include "port.h"
#include "tiny.h"

int main(int argc, char **argv)
{
    ai_handle network;

    (void)argc;
    (void)argv;
    return (ai_create(&ai_tiny_network, NULL, &network) == AI_STATUS_OK) ? 0 : 1;
}
"""

# Gives out the files another project's generator made; everything else goes to the real one.
REPLAY = """
import os, runpy, shutil, sys

words = sys.argv[1:]
if words[0] != "compile":
    sys.argv[0] = {main!r}
    runpy.run_path({main!r}, run_name="__main__")
else:
    folder, name = words[words.index("-o") + 1], words[words.index("--name") + 1]
    for suffix in {suffixes!r}:
        shutil.copy(os.path.join({made!r}, "tiny" + suffix), os.path.join(folder, name + suffix))
"""


@dataclass(frozen=True)
class Build:
    """What a run of SCons did: exit code, output, CPU seconds, and the actions it printed, as ``KIND name``."""

    returncode: int
    output: str
    cpu_s: float

    @property
    def actions(self) -> list[str]:
        """Actions with the names of their targets, in order."""
        words = [line.split() for line in self.output.splitlines()]
        return [f"{w[0]} {Path(w[1]).name}" for w in words if len(w) == 2 and w[0] in KINDS]

    def of(self, kind: str) -> list[str]:
        """Names of the targets of one kind, sorted."""
        return sorted(action.split()[1] for action in self.actions if action.split()[0] == kind)

    @property
    def is_null(self) -> bool:
        """Whether it succeeded without doing anything."""
        return self.returncode == 0 and not self.actions and "is up to date" in self.output


class Project(ProjectFolder):
    """A folder with an SConstruct."""

    def scons(self, *arguments: str, fails: bool = False, variables: Mapping[str, str] | None = None) -> Build:
        """Run SCons; ``fails`` says which exit code is expected (0 or not), ``variables`` go to its environment."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "SCons", "-Q", *arguments]
        code, output = self.output_of(command, {**os.environ, **(variables or {})})
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        build = Build(code, output, cpu)
        assert (build.returncode != 0) == fails, build.output
        assert "Traceback" not in build.output, build.output
        return build

    def copy_to(self, folder: Path) -> Project:
        """The project with all that was built, in another place."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        return Project(folder)


def require_tools(*names: str) -> None:
    """Skip the calling test when a program is not installed."""
    for name in names:
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")


def copy_tools(folder: Path) -> None:
    """The package and the folders beside it, as in a checkout, so that a test may edit them."""
    for name in ("tvm_stm32", "cmsis_packs", "site_scons", "runtime", "boards"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / name, folder / name, ignore=ignored, dirs_exist_ok=True)


def write_model(path: Path, seed: int = 1) -> None:
    """An int8 q/dq convolution and dense layer; ``seed`` changes weights, never scales or shapes."""
    random = np.random.default_rng(seed)

    def array(name: str, values: object, dtype: str) -> onnx.TensorProto:
        return numpy_helper.from_array(np.asarray(values, dtype), name)

    def dequantized(name: str, codes: str, scale: str, zero: str) -> onnx.NodeProto:
        return helper.make_node("DequantizeLinear", [codes, scale, zero], [name])

    constants = [
        array("s_in", 0.05, "float32"),
        array("s_w", 0.02, "float32"),
        array("s_bias", 0.05 * 0.02, "float32"),
        array("s_out", 0.1, "float32"),
        array("s_bias2", 0.1 * 0.02, "float32"),
        array("z", 0, "int8"),
        array("z32", 0, "int32"),
        array("w1", random.integers(-127, 128, (4, 1, 3, 3)), "int8"),
        array("b1", random.integers(-500, 500, 4), "int32"),
        array("w2", random.integers(-127, 128, (3, 4 * 6 * 6)), "int8"),
        array("b2", random.integers(-500, 500, 3), "int32"),
    ]
    nodes = [
        dequantized("x", "input", "s_in", "z"),
        dequantized("w1_", "w1", "s_w", "z"),
        dequantized("b1_", "b1", "s_bias", "z32"),
        helper.make_node("Conv", ["x", "w1_", "b1_"], ["c"], name="conv", kernel_shape=[3, 3]),
        helper.make_node("QuantizeLinear", ["c", "s_out", "z"], ["c_q"]),
        dequantized("c_d", "c_q", "s_out", "z"),
        helper.make_node("Flatten", ["c_d"], ["f"], name="flatten", axis=1),
        dequantized("w2_", "w2", "s_w", "z"),
        dequantized("b2_", "b2", "s_bias2", "z32"),
        helper.make_node("Gemm", ["f", "w2_", "b2_"], ["g"], name="dense", transB=1),
        helper.make_node("QuantizeLinear", ["g", "s_out", "z"], ["output"]),
    ]
    inputs = [helper.make_tensor_value_info("input", TensorProto.INT8, [1, 1, 8, 8])]
    outputs = [helper.make_tensor_value_info("output", TensorProto.INT8, [1, 3])]
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString(deterministic=True))


def write_project(folder: Path) -> Project:
    """A firmware project with its own tools, linker script and start-up file; nothing is built yet."""
    project = Project(folder)
    folder.mkdir(parents=True)
    copy_tools(folder / "tools")
    write_model(folder / "model.onnx")
    project.write("SConstruct", SCONSTRUCT)
    project.write("main.c", MAIN)
    project.write("app.ld", linker_script(load_board(BOARD)))
    project.write("startup.c", (REPOSITORY / "runtime/port/port_startup.c").read_text(encoding="utf-8"))
    return project


def write_replay(project: Project, made: Project) -> str:
    """A generator that copies the network ``made`` has built, for tests that do not need TVM. Returns its name."""
    from tvm_stm32.c_api import snippet_files
    from tvm_stm32.emit import OUTPUT_SUFFIXES

    main = str(project.path("tools/tvm_stm32/__main__.py"))
    text = REPLAY.format(main=main, made=str(made.path("build/net")), suffixes=(*OUTPUT_SUFFIXES, *snippet_files("")))
    project.write("replay.py", text)
    return "replay.py"


def built_once(factory: pytest.TempPathFactory) -> Project:
    """A built project, the same one for every test of the session; tests work on copies."""
    require_tools("arm-none-eabi-gcc")
    folder = factory.getbasetemp() / "built_once"
    project = Project(folder)
    if not folder.exists():
        write_project(folder).scons()
    return project


def forbidding(folder: Path, *packages: str) -> dict[str, str]:
    """Environment in which importing one of the packages fails."""
    for name in packages:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(f"raise RuntimeError('{name} was imported')\n", encoding="utf-8")
    return {"PYTHONPATH": str(folder)}
