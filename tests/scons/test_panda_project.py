"""A car interface's repository: one function an image, bare metal without any library, folder nodes as prefixes.

Structure and flags as in such a code base, written for this test: ``Environment`` of its own for each image with all
flags in CFLAGS, OBJPREFIX a folder node, a clone for the boot stub, ``-nostdlib -fno-builtin -Werror``, objcopy by a
generator, and a compilation database with absolute paths.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from replayed import GENERATOR, TOOLPATH, generated, main_of, outputs, replayed_project
from scons_support import Project, require_tools, write_model

SCONSTRUCT = """
env = Environment(COMPILATIONDB_USE_ABSPATH=True, tools=["default", "compilation_db"])
SetOption("num_jobs", 2)
env.CompilationDatabase("compile_commands.json")
SConscript("SConscript")
"""

# The three lines are those between the markers.
SCONSCRIPT = f"""
import os

def to_binary(source, target, env, for_signature):
    return f"$OBJCOPY -O binary {{source[0]}} {{target[0]}}"

def image(name, main, more):
    folder = Dir(f"./board/obj/{{name}}/")
    flags = more + [
        "-mcpu=cortex-m7", "-mhard-float", "-mfpu=fpv5-d16", "-mlittle-endian", "-mthumb", "-nostdlib", "-fno-builtin",
        "-Wall", "-Wextra", "-Wstrict-prototypes", "-Werror", "-std=gnu11", "-fmax-errors=1", "-Os", "-g",
        "-fsingle-precision-constant", f"-T{{File('./board/flash.ld').srcnode().relpath}}",
    ]
    env = Environment(
        ENV=os.environ, CC="arm-none-eabi-gcc", AS="arm-none-eabi-gcc", OBJCOPY="arm-none-eabi-objcopy",
        OBJPREFIX=folder, CFLAGS=flags, ASFLAGS=flags, LINKFLAGS=flags, CPPPATH=[Dir("./"), "./board/inc"],
        ASCOM="$AS $ASFLAGS -o $TARGET -c $SOURCES",
        BUILDERS={{"Objcopy": Builder(generator=to_binary, suffix=".bin", src_suffix=".elf")}},
        tools=["default", "compilation_db"],
    )
    # --
    env.Tool("stm32_model", {TOOLPATH})
    network = EMBED
    # --
    {GENERATOR}
    startup = env.Object("./board/startup.s")
    stub = env.Clone()
    stub.Append(CFLAGS="-DSTUB", ASFLAGS="-DSTUB", LINKFLAGS="-DSTUB")
    stub.Objcopy(f"./board/obj/stub.{{name}}.bin", stub.Program(f"{{folder}}/stub.elf", [startup, "./board/stub.c"]))
    linked = env.Program(
        f"{{folder}}/main.elf", [startup, main, network],
        LINKFLAGS=["-Wl,--section-start,.isr_vector=0x8020000"] + flags,
    )
    env.Objcopy(f"{{folder}}/main.bin", linked)

image("h7", "./board/main.c", [])
image("h7_second", "./board/second/main.c", ["-DSECOND"])
"""

STARTUP = """
    .syntax unified
    .thumb
    .section .isr_vector, "a"
    .word 0x20020000
    .word start
    .text
    .thumb_func
    .global start
start:
    bl main
    b .
"""

SCRIPT = """
ENTRY(start)
MEMORY { FLASH (rx) : ORIGIN = 0x08000000, LENGTH = 1M  RAM (rwx) : ORIGIN = 0x20000000, LENGTH = 128K }
SECTIONS {
  .isr_vector : { KEEP(*(.isr_vector)) } > FLASH
  .text : { *(.text*) *(.rodata*) } > FLASH
  .data : { *(.data*) } > RAM AT > FLASH
  .bss : { *(.bss*) *(COMMON) } > RAM
}
"""

EMBEDDED = {
    "source": '"./board/nets/model.onnx"',
    "builders": 'env.TvmModel(f"#board/obj/{name}/net/model", "board/nets/model.onnx", CPU="cortex-m7"); '
    'runtime = env.TvmRuntime(f"#board/obj/{name}/ai", NOLIBC=True); '
    "env.Append(CPPPATH=[network.include, *runtime.include]); network = [network, runtime]",
}


@pytest.fixture(params=sorted(EMBEDDED))
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Project:
    """The project with a network in both images, by a suffix or by the builders."""
    require_tools("arm-none-eabi-gcc")
    project = replayed_project(tmp_path / "project", tmp_path_factory)
    project.write("SConstruct", SCONSTRUCT)
    project.write("SConscript", SCONSCRIPT.replace("EMBED", EMBEDDED[request.param]))
    main = main_of("model", more="#include <stddef.h>\nint main(void);\n")
    for name in ("board/main.c", "board/second/main.c"):
        project.write(name, main)
    project.write("board/stub.c", "int main(void);\nint main(void)\n{\n    return 0;\n}\n")
    project.write("board/startup.s", STARTUP)
    project.write("board/flash.ld", SCRIPT)
    project.path("board/nets").mkdir()
    project.path("model.onnx").rename(project.path("board/nets/model.onnx"))
    return project


def test_both_images_link_without_libraries(project: Project) -> None:
    by_suffix = "./board/nets/model.onnx" in project.path("SConscript").read_text(encoding="utf-8")
    build = project.scons()
    networks = 1 if by_suffix else 2
    assert generated(project) == ["model"] * networks
    assert "warning" not in build.output
    names = [name.replace("h7_second", "").replace("h7", "") for name in outputs(build, kind="cc")]
    expected = ["ai_nolibc.o", "ai_runtime.o", "main.o", "model.o", "model_data.o", "startup.o", "stub.o"]
    assert sorted(names) == sorted(expected * 2)
    assert outputs(build, kind="link") == ["main.elf", "main.elf", "stub.elf", "stub.elf"]
    elf = project.path("board/obj/h7/main.elf")
    assert project.path("board/obj/h7/main.bin").stat().st_size > 500
    symbols = subprocess.run(["arm-none-eabi-nm", elf], capture_output=True, check=True, text=True).stdout
    assert " W memcpy" in symbols
    assert " T ai_create" in symbols
    assert " U " not in symbols
    assert "board/obj/h7/main.elf" in build.output
    assert outputs(project.scons(), kind="cc") == []


@pytest.mark.parametrize("project", ["source"], indirect=True)
def test_what_a_change_runs(project: Project) -> None:
    project.scons()
    generated(project)
    project.edit("board/second/main.c", "int bad = 0;", "int bad = 2;")
    build = project.scons()
    assert outputs(build, kind="cc") == ["h7_secondmain.o"]
    assert (outputs(build, kind="link"), build.output.count("objcopy")) == (["main.elf"], 1)
    write_model(project.path("board/nets/model.onnx"), seed=2)
    build = project.scons()
    assert generated(project) == ["model"]
    assert outputs(build, kind="cc") == ["h7_secondmodel_data.o", "h7model_data.o"]
    assert outputs(build, kind="link") == ["main.elf", "main.elf"]
    project.edit("board/stub.c", "return 0;", "return 1;")
    assert outputs(project.scons(), kind="link") == ["stub.elf", "stub.elf"]
    assert not generated(project)


@pytest.mark.parametrize("project", ["builders"], indirect=True)
def test_the_compilation_database_and_clean(project: Project) -> None:
    project.scons()
    commands = json.loads(project.path("compile_commands.json").read_text(encoding="utf-8"))
    files = [Path(entry["file"]) for entry in commands]
    assert len([file for file in files if file.name == "model_data.c"]) == 2
    assert all(file.is_absolute() and file.is_file() for file in files)
    (main,) = [entry["command"] for entry in commands if entry["file"].endswith("board/main.c")]
    assert "net" in main.split("-Iboard/inc")[1]
    project.scons("-c")
    left = [path.name for path in project.folder.rglob("*.[cho]")]
    assert sorted(left) == ["main.c", "main.c", "stub.c"]
