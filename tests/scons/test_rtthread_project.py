"""A real-time operating system's repository: groups of sources, flags as one string each, exports without building.

Structure as in such a code base, written for this test: ``rtconfig.py`` with flags as strings, ``building.py`` whose
``DefineGroup`` collects source nodes, one ``Program`` at the end, a variant folder without duplicates, print strings
replaced after tools are loaded, groups with flags of their own, and ``--target`` that lists files with ``no_exec``.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from replayed import GENERATOR, TOOLPATH, generated, main_of, replayed_project
from scons_support import Project, require_tools, write_model

RTCONFIG = """
import os, shutil

EXEC_PATH = os.path.dirname(shutil.which("arm-none-eabi-gcc"))
DEVICE = " -mcpu=cortex-m4 -mthumb -mfpu=fpv4-sp-d16 -mfloat-abi=hard -ffunction-sections -fdata-sections"
CFLAGS = DEVICE + " -Wall -Werror -O2 -g"
AFLAGS = " -c" + DEVICE + " -x assembler-with-cpp"
LFLAGS = DEVICE + " -Wl,--gc-sections,-u,Reset_Handler -nostartfiles --specs=nano.specs -T link.ld"
"""

BUILDING = """
import os
from SCons.Script import *
import rtconfig

Env = None
Groups = []

def PrepareBuilding(env):
    global Env
    Env = env
    AddOption("--target", dest="target", type="string")
    if GetOption("target"):
        SetOption("no_exec", 1)
    env.PrependENVPath("PATH", rtconfig.EXEC_PATH)
    env.Replace(ARCOMSTR="AR $TARGET", ASCOMSTR="AS $TARGET", ASPPCOMSTR="AS $TARGET", CCCOMSTR="CC $TARGET",
                LINKCOMSTR="LINK $TARGET", INSTALLSTR="COPY $TARGET",
                TVMSTM32COMSTR="MODEL ${TARGET.dir}/$TVMSTM32NAME")
    return SConscript("SConscript", variant_dir="build", duplicate=0)

def DefineGroup(name, src, **parameters):
    group = dict(parameters, name=name, src=File(sorted(set(src), key=str)))
    for key in ("CFLAGS", "CCFLAGS", "CPPDEFINES", "LINKFLAGS"):
        if group.get(key):
            Env.AppendUnique(**{key: group[key]})
    if group.get("CPPPATH"):
        Env.AppendUnique(CPPPATH=[os.path.abspath(item) for item in group["CPPPATH"]])
    Groups.append(group)
    return group["src"]

def DoBuilding(target, objects):
    def flat(items):
        return [leaf for item in items for leaf in (flat(item) if type(item) == type([]) else [item])]

    objects = flat(objects)
    local = []
    for group in Groups:
        if "LOCAL_CFLAGS" in group:
            for source in group["src"]:
                objects = [node for node in objects if node.abspath != source.abspath]
                local.append(Env.Object(source, CFLAGS=Env.get("CFLAGS", "") + group["LOCAL_CFLAGS"]))
    program = Env.Program(target, sorted(objects) + local)
    Env.AddPostAction(target, "arm-none-eabi-objcopy -O binary $TARGET rtthread.bin")
    if GetOption("target"):
        with open("project.txt", "w") as stream:
            for group in Groups:
                for node in group["src"]:
                    stream.write(f"{group['name']}: {os.path.relpath(node.rfile().abspath)}\\n")
            stream.write("".join(f"include: {Dir(path).path}\\n" for path in Env["CPPPATH"]))
"""

SCONSTRUCT = f"""
import os, sys
sys.path.append(Dir("#").abspath)
import rtconfig
from building import *

env = Environment(tools=["gcc", "gnulink", "as", "ar"],
    AS="arm-none-eabi-gcc", ASFLAGS=rtconfig.AFLAGS, CC="arm-none-eabi-gcc", CFLAGS=rtconfig.CFLAGS,
    AR="arm-none-eabi-ar", LINK="arm-none-eabi-gcc", LINKFLAGS=rtconfig.LFLAGS, PROGSUFFIX=".elf", OBJPREFIX="obj/")
env.PrependENVPath("PATH", rtconfig.EXEC_PATH)
env["ASCOM"] = env["ASPPCOM"]
env.Tool("stm32_model", {TOOLPATH})
{GENERATOR}
objs = PrepareBuilding(env)
DoBuilding("rtthread.elf", objs)
"""

SCONSCRIPT = """
from building import *
objs = DefineGroup("Applications", Glob("applications/*.c"), CPPPATH=[Dir("applications").srcnode().abspath])
objs += SConscript("drivers/SConscript")
objs += SConscript("networks/SConscript")
Return("objs")
"""

DRIVERS = """
from building import *
objs = DefineGroup("Drivers", Glob("*.c") + ["start.S"], LOCAL_CFLAGS=" -Wextra -Os")
Return("objs")
"""

NETWORKS = {
    "builders": """
import building
from building import *
network = building.Env.TvmModel("model", "model.onnx", CPU="cortex-m4")
runtime = building.Env.TvmRuntime("ai")
src = list(network) + list(runtime)
include = [network.include.abspath] + [folder.abspath for folder in runtime.include]
objs = DefineGroup("Networks", src, CPPPATH=include)
Return("objs")
""",
    "source": """
from building import *
objs = DefineGroup("Networks", ["model.onnx"])
Return("objs")
""",
}

START = """
    .syntax unified
    .section .isr_vector, "a"
    .word 0x20020000
    .word Reset_Handler
    .text
    .thumb_func
    .global Reset_Handler
Reset_Handler:
    bl main
    b .
"""

SCRIPT = """
ENTRY(Reset_Handler)
MEMORY { ROM (rx) : ORIGIN = 0x08000000, LENGTH = 1M  RAM (rwx) : ORIGIN = 0x20000000, LENGTH = 128K }
SECTIONS {
  .text : { KEEP(*(.isr_vector)) *(.text*) *(.rodata*) } > ROM
  .data : { *(.data*) } > RAM AT > ROM
  .bss : { *(.bss*) *(COMMON) } > RAM
}
"""

KERNEL = ["main.o", "led.o"]
NETWORK = ["ai_runtime.o", "model.o", "model_data.o"]


@pytest.fixture(params=sorted(NETWORKS))
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Project:
    """A board's project with a group for the network, by the builders or as a source of the group."""
    require_tools("arm-none-eabi-gcc")
    project = replayed_project(tmp_path / "project", tmp_path_factory)
    files = {"rtconfig.py": RTCONFIG, "building.py": BUILDING, "SConstruct": SCONSTRUCT, "SConscript": SCONSCRIPT}
    files |= {"drivers/SConscript": DRIVERS, "networks/SConscript": NETWORKS[request.param], "link.ld": SCRIPT}
    files |= {"drivers/start.S": START, "drivers/led.c": "int led;\n", "applications/main.c": main_of("model")}
    for name, text in files.items():
        project.write(name, text)
    project.path("model.onnx").rename(project.path("networks/model.onnx"))
    return project


def sources(project: Project) -> list[str]:
    """Every file that is not built: what the folder had before the first build."""
    beside = ("build", "__pycache__")
    paths = (path for path in project.folder.rglob("*") if path.is_file() and not set(path.parts) & set(beside))
    return sorted(path.name for path in paths if path.name not in ("generator.log", ".sconsign.dblite"))


def test_a_board_is_built_and_what_a_change_runs(project: Project) -> None:
    before = sources(project)
    build = project.scons("-j2")
    assert generated(project) == ["model"]
    assert build.of("CC") == sorted([*KERNEL, *NETWORK])
    assert build.of("AS") == ["start.o"]
    assert build.of("LINK") == ["rtthread.elf"]
    assert build.of("MODEL") == ["model"]
    # In the variant folder, below the prefix.
    assert len(list(project.path("build/networks").rglob("obj/model_data.o"))) == 1
    assert project.path("rtthread.bin").stat().st_size > 500
    assert sources(project) == sorted([*before, "rtthread.bin", "rtthread.elf"])
    assert project.scons().is_null
    project.edit("applications/main.c", "int bad = 0;", "int bad = 2;")
    assert project.scons().actions == ["CC main.o", "LINK rtthread.elf"]
    write_model(project.path("networks/model.onnx"), seed=2)
    assert project.scons().actions == ["MODEL model", "CC model_data.o", "LINK rtthread.elf"]
    assert generated(project) == ["model"]
    project.edit("drivers/led.c", "led;", "led = 3;")
    assert project.scons().actions == ["CC led.o", "LINK rtthread.elf"]
    project.scons("-c")
    assert not [path for path in project.path("build").rglob("*") if path.is_file()]


@pytest.mark.parametrize("project", ["builders"], indirect=True)
def test_an_export_lists_generated_files_and_runs_nothing(project: Project) -> None:
    build = project.scons("--target=mdk5")
    assert not generated(project)
    assert not project.path("rtthread.elf").exists()
    assert not list(project.folder.rglob("model.c"))
    assert build.of("MODEL") == ["model"]
    listed = project.path("project.txt").read_text(encoding="utf-8").splitlines()
    assert "Applications: applications/main.c" in listed
    assert [line for line in listed if line.startswith("Networks")] == [
        "Networks: build/networks/ai/src/ai_runtime.c",
        "Networks: build/networks/model.c",
        "Networks: build/networks/model_data.c",
    ]
    assert {"include: build/networks", "include: build/networks/ai/include"} <= set(listed)
    project.scons()
    for line in listed:
        assert project.path(line.split(": ")[1]).exists()
