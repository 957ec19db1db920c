"""A plain SConstruct: the documented lines in every way the tools can be found, and what SCons users expect."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from replayed import GENERATOR, TOOLPATH, copied, generated, main_of, outputs, replayed_project
from scons_support import REPOSITORY, Project, require_tools, write_model

HEAD = f"""
env = Environment(tools=["default", "stm32_model"], {TOOLPATH}, CCFLAGS="-O1", CPPPATH="include")
{GENERATOR}
"""

BUILT = (
    HEAD
    + """
network = env.TvmModel("build/net/model", "model.onnx", CPU="host")
runtime = env.TvmRuntime("build/ai")
env.Append(CPPPATH=[network.include, *runtime.include])
program = env.Program("build/app", ["main.c", network, runtime])
env.Alias("net", network)
env.Alias("install", env.Install("dist", [program, network.report]) + env.InstallAs("dist/api.h", network.headers[0]))
Default(program)
"""
)


@pytest.fixture
def project(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Project:
    """A program of this computer."""
    require_tools("gcc")
    project = replayed_project(tmp_path / "project", tmp_path_factory)
    project.write("main.c", main_of("model"))
    project.write("SConstruct", BUILT)
    return project


def run(program: Path) -> int:
    """Its exit code."""
    return subprocess.run([program], check=False, timeout=20).returncode


@pytest.mark.parametrize("way", ["submodule", "package", "site-dir"])
def test_the_three_documented_lines(project: Project, way: str) -> None:
    page = (REPOSITORY / "docs/scons.md").read_text(encoding="utf-8")
    lines = page.split("```python\n", 1)[1].split("```", 1)[0]
    assert len(lines.splitlines()) == 3
    lines = lines.replace("cortex-m4", "host").replace("app.elf", "app").replace("models/kws.tflite", "model.onnx")
    arguments = []
    if way == "submodule":
        project.path("third_party").mkdir()
        project.path("third_party/tvm-stm32").symlink_to(REPOSITORY)
    elif way == "package":
        assert "toolpath=[tvm_stm32.scons_toolpath()]" in page
        lines = "import tvm_stm32\n" + re.sub(r"toolpath=\[.*\]", "toolpath=[tvm_stm32.scons_toolpath()]", lines)
    else:
        lines = re.sub(r", toolpath=\[.*\]", "", lines)
        arguments = [f"--site-dir={REPOSITORY / 'site_scons'}"]
    program, *rest = reversed(lines.splitlines())
    text = "\n".join([*reversed(rest), GENERATOR, program])
    project.write("SConstruct", f"env = Environment()\n{text}\n")
    build = project.scons(*arguments, variables={"PYTHONPATH": str(REPOSITORY)} if way == "package" else None)
    assert generated(project) == ["model"]
    assert outputs(build, kind="link") == ["app"]
    assert run(project.path("app")) == 0
    assert project.scons(*arguments).is_null


def test_what_a_change_runs(project: Project) -> None:
    build = project.scons("-j4")
    assert generated(project) == ["model"]
    assert outputs(build, kind="cc") == ["ai_runtime.o", "main.o", "model.o", "model_data.o"]
    assert run(project.path("build/app")) == 0
    assert project.scons("-q").returncode == 0
    project.edit("main.c", "int bad = 0;", "int bad = 0 * 7, worse = 3; bad |= worse & 0;")
    assert outputs(project.scons(), kind="cc") == ["main.o"]
    write_model(project.path("model.onnx"), seed=2)
    assert project.scons("-q", fails=True).returncode == 1
    build = project.scons()
    assert (outputs(build, kind="cc"), outputs(build, kind="link")) == (["model_data.o"], ["app"])
    # The same bytes at another time are no change.
    write_model(project.path("model.onnx"), seed=2)
    assert project.scons().is_null
    generated(project)
    project.edit("SConstruct", 'CPU="host"', 'CPU="host", LEVEL="ram"')
    build = project.scons()
    assert generated(project) == ["model"]
    assert outputs(build, kind="cc") == []


def test_aliases_and_installed_files(project: Project) -> None:
    build = project.scons("net")
    assert (generated(project), outputs(build, kind="cc")) == (["model"], [])
    project.scons("install")
    assert sorted(path.name for path in project.path("dist").iterdir()) == ["api.h", "app", "model_report.json"]
    assert run(project.path("dist/app")) == 0
    assert "up to date" in project.scons("install").output
    write_model(project.path("model.onnx"), seed=2)
    assert "dist/app" in project.scons("install").output
    project.scons("-c", "net")
    assert sorted(path.name for path in project.path("build/net").iterdir()) == ["model.o", "model_data.o"]
    assert project.path("dist/app").exists()
    project.scons("-c", "install", ".")
    assert not list(project.path("dist").iterdir())
    assert not [path for path in project.path("build").rglob("*") if path.is_file()]


@pytest.mark.parametrize("option", ["-n", "no_exec"])
def test_nothing_runs_when_nothing_may(project: Project, option: str) -> None:
    if option == "no_exec":
        listing = "print('files', *(node.rfile().get_path() for node in [*network, *network.headers, *runtime]))\n"
        project.write("SConstruct", f"{BUILT}SetOption('no_exec', 1)\n{listing}")
    build = project.scons(*([option] if option == "-n" else []))
    assert "generator.py compile model.onnx" in build.output
    assert outputs(build, kind="cc") == ["ai_runtime.o", "main.o", "model.o", "model_data.o"]
    assert not generated(project)
    assert not project.path("build").exists()
    if option == "no_exec":
        (files,) = [line.split()[1:] for line in build.output.splitlines() if line.startswith("files ")]
        names = ["model.c", "model_data.c", "model.h", "model_data.h"]
        assert files == [*(f"build/net/{name}" for name in names), "build/ai/src/ai_runtime.c"]


def test_an_old_network_stays_when_a_run_keeps_going_after_a_failure(project: Project) -> None:
    project.scons()
    generated(project)
    project.write("bad.py", "import sys\nsys.exit('error: no')\n")
    project.edit("SConstruct", GENERATOR, GENERATOR.replace("generator.py", "bad.py"))
    write_model(project.path("model.onnx"), seed=2)
    output = project.scons("-k", fails=True).output
    assert "error: no" in output
    assert not outputs(project.scons("-k", "-i", "build/ai"), kind="cc")
    project.edit("SConstruct", "bad.py", "generator.py")
    assert outputs(project.scons(), kind="link") == ["app"]
    assert generated(project) == ["model"]


def test_environments_that_ask_for_one_network_generate_it_once(project: Project) -> None:
    project.write(
        "SConstruct",
        HEAD
        + """
for name, flags in (("debug", "-O0 -g"), ("release", ["-O2"]), ("small", "-Os")):
    each = env.Clone(CCFLAGS=flags, OBJPREFIX=f"{name}/obj/")
    network = each.TvmModel("build/net/model", "model.onnx", CPU="host")
    runtime = each.TvmRuntime("build/ai")
    each.Append(CPPPATH=[network.include, *runtime.include])
    each.Program(f"build/{name}-app", ["main.c", network, runtime])
""",
    )
    build = project.scons("-j4", ".")
    assert "warning" not in build.output
    assert generated(project) == ["model"]
    # Every file of the runtime once.
    assert len(set(re.findall(r'as "(\S+)"', build.output))) == copied(build)
    assert outputs(build, kind="cc") == sorted(["ai_runtime.o", "main.o", "model.o", "model_data.o"] * 3)
    assert run(project.path("build/small-app")) == 0
    project.edit("SConstruct", 'CPU="host"', 'CPU="host", LEVEL=dict(debug="ram").get(name, "size")')
    output = project.scons(fails=True).output
    assert "build/net/model.c is asked for twice, with flags '-O ram --cpu host' and '-O size --cpu host'" in output


def test_print_strings_set_after_the_builders_are_taken(project: Project) -> None:
    project.write(
        "SConstruct",
        BUILT + 'env.Replace(CCCOMSTR="CC $TARGET", LINKCOMSTR="LINK $TARGET", INSTALLSTR="COPY $TARGET")\n'
        'env["TVMSTM32COMSTR"] = "MODEL ${TARGET.dir}/$TVMSTM32NAME"\n',
    )
    output = project.scons("-n").output
    assert "MODEL build/net/model" in output
    assert all(re.match(r"(MODEL|CC|LINK|COPY) \S+$", line) for line in output.splitlines()), output


def test_networks_link_without_libraries(project: Project) -> None:
    require_tools("arm-none-eabi-gcc")
    project.write("main.c", main_of("model", more="#include <stddef.h>\n"))
    project.write(
        "SConstruct",
        HEAD
        + """
env.Replace(CC="arm-none-eabi-gcc", CCFLAGS=["-mcpu=cortex-m4", "-mthumb", "-ffreestanding"])
network = env.TvmModel("build/net/model", "model.onnx", CPU="cortex-m4")
linked = ["-mcpu=cortex-m4", "-mthumb", "-nostdlib", "-Wl,--entry=main"]
for name, more in (("with", True), ("without", False)):
    runtime = env.TvmRuntime("build/ai", NOLIBC=more)
    env.AppendUnique(CPPPATH=[network.include, *runtime.include])
    env.Program(f"build/{name}.elf", ["main.c", network, runtime], LINKFLAGS=linked, LIBS=["gcc"])
""",
    )
    project.scons("build/with.elf")
    output = project.scons("build/without.elf", fails=True).output
    assert "undefined reference to `mem" in output
