"""Projects of other code bases' making, whose networks are generated once a session and given out again and again.

The generator of such a project copies C that the real one made of ``scons_support.write_model``'s network, under the
name it is asked for, with a constant that the model's bytes decide. It notes each call, so tests count them.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from scons_support import REPOSITORY, Build, Project, built_once, write_model

TOOLPATH = f"toolpath=[{str(REPOSITORY / 'site_scons/site_tools')!r}]"
"""What a project says to Environment or Tool, with this repository as its submodule."""

GENERATOR = 'env["TVMSTM32"] = ["$(", "$PYTHON", File("#generator.py"), "$)"]'
"""The line that takes the generator of :func:`write_generator`."""

_GENERATOR = """
import os, runpy, sys, zlib

words = sys.argv[1:]
if words[0] != "compile":
    sys.argv[0] = {main!r}
    runpy.run_path({main!r}, run_name="__main__")
    sys.exit()
name = words[words.index("--name") + 1]
with open(words[1], "rb") as stream:
    digest = zlib.crc32(stream.read())
with open({log!r}, "a") as stream:
    stream.write(" ".join(words) + "\\n")
host = "--cpu" in words and words[words.index("--cpu") + 1] == "host"
made, folder = ({host!r} if host else {arm!r}), words[words.index("-o") + 1]
for suffix in (".c", ".h", "_data.c", "_data.h", "_report.json", "_report.txt", ".cmake", ".mk"):
    with open(os.path.join(made, "tiny" + suffix)) as stream:
        text = stream.read().replace("tiny", name).replace("TINY", name.upper())
    if suffix == "_data.c":
        text += f"extern const unsigned ai_{{name}}_digest;\\nconst unsigned ai_{{name}}_digest = {{digest}}U;\\n"
    with open(os.path.join(folder, name + suffix), "w") as stream:
        stream.write(text)
"""


def main_of(*names: str, more: str = "") -> str:
    """A program that creates each of the networks: exit code 0 when all could be."""
    includes = "".join(f'#include "{name}.h"\n' for name in names)
    body = "".join(
        f"    bad |= ai_create(&ai_{name}_network, NULL, &network) != AI_STATUS_OK;\n    ai_destroy(network);\n"
        for name in names
    )
    return (
        f"{includes}{more}\nint main(void)\n{{\n    ai_handle network;\n    int bad = 0;\n\n{body}    return bad;\n}}\n"
    )


def replayed_project(folder: Path, factory: pytest.TempPathFactory) -> Project:
    """An empty project with ``model.onnx`` and ``generator.py``."""
    host = factory.getbasetemp() / "host_network"
    if not host.exists():
        write_model(factory.getbasetemp() / "tiny.onnx")
        command = [sys.executable, "-m", "tvm_stm32", "compile", factory.getbasetemp() / "tiny.onnx"]
        subprocess.run([*command, "-o", host, "--cpu", "host", "--no-runtime"], check=True, cwd=REPOSITORY, timeout=120)
    project = Project(folder)
    folder.mkdir(parents=True)
    arm = built_once(factory).path("build/net")
    log, main = str(folder / "generator.log"), str(REPOSITORY / "tvm_stm32/__main__.py")
    project.write("generator.py", _GENERATOR.format(main=main, log=log, host=str(host), arm=str(arm)))
    write_model(project.path("model.onnx"))
    return project


def generated(project: Project) -> list[str]:
    """Names of the networks generated since the last call, in order."""
    log = project.path("generator.log")
    calls = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    return [re.search(r"--name (\S+)", call)[1] for call in calls]  # type: ignore[index] - each has one


def outputs(build: Build, *, kind: str) -> list[str]:
    """Names of what commands printed in full made, sorted: ``kind`` is cc (objects) or link (everything else)."""
    lines = [line for line in build.output.splitlines() if re.match(r"\S*(gcc|g\+\+|cc) ", line)]
    wanted = [line for line in lines if (" -c " in line) == (kind == "cc")]
    return sorted(Path(re.search(r" -o (\S+)", line)[1]).name for line in wanted)  # type: ignore[index] - likewise


def copied(build: Build) -> int:
    """How many files of the runtime were copied."""
    return sum(line.startswith("Install file") for line in build.output.splitlines())
