"""A C++ library generator's application: tools that move every object, and a tree that is searched for sources.

Structure as in such a code base, written for this test: a ``DefaultEnvironment`` without tools, which a generated
SConscript gives its tools by ``env.Tool``, emitters of Object, StaticLibrary and Program that put everything below a
build folder outside of any variant, a library linked whole, print strings that use ``BUILDPATH``, and sources found by
a walk through the tree at each build.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from replayed import GENERATOR, TOOLPATH, generated, main_of, replayed_project
from scons_support import Build, Project, require_tools, write_model

SCONSTRUCT = f"""
import os
from os.path import abspath

env = DefaultEnvironment(tools=[], ENV=os.environ)
env["CONFIG_PROJECT_NAME"] = "app"
env["CONFIG_BUILD_BASE"] = abspath("build")
libraries = env.SConscript(dirs=["library"], exports="env")
env.Append(CPPPATH=abspath("."))
sources = env.FindSourceFiles(".", [env["CONFIG_BUILD_BASE"], "library"])
# --
env.Tool("stm32_model", {TOOLPATH})
env.Replace(TVMSTM32DIR="$BUILDPATH/networks", TVMSTM32RUNTIME="$BUILDPATH/ai")
sources += env.FindFiles(".", [".onnx"], [env["CONFIG_BUILD_BASE"]])
# --
{GENERATOR}
program = env.Program(target=env["CONFIG_PROJECT_NAME"] + ".elf", source=sources)
env.Alias("build", program)
env.Clean(program, os.path.join(env["BUILDPATH"], "app.bin"))
env.Depends(target=program, dependency="library/link.ld")
env.Default("build")
"""

LIBRARY = """
from os.path import abspath, join
Import("env")
env["CONFIG_PROFILE"] = ARGUMENTS.get("profile", "release")
env["BUILDPATH"] = join(env["CONFIG_BUILD_BASE"], "scons-" + env["CONFIG_PROFILE"])
env["BASEPATH"] = abspath("..")
env.Append(toolpath=[abspath("tools")])
for tool in ("cross", "find_sources", "moved"):
    env.Tool(tool)
env["CCFLAGS"] = ["-Os", "-ffunction-sections", "-fdata-sections", "-Wall", "-Wextra", "-Werror=maybe-uninitialized"]
env["CFLAGS"] = ["-std=gnu2x"]
env["LINKFLAGS"] = ["-nostdlib", "-Tlibrary/link.ld", "-Wl,--gc-sections", "-Wl,-ureset"]
env["ARCHFLAGS"] = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"]
env.Append(CCFLAGS="$ARCHFLAGS", ASFLAGS="$ARCHFLAGS", LINKFLAGS="$ARCHFLAGS")
env["_LIBFLAGS"] = "-Wl,--whole-archive " + env["_LIBFLAGS"] + " -Wl,--no-whole-archive -lgcc"
env.AppendUnique(CPPPATH=[abspath("src")])
files = [env.File("src/startup.c"), env.Object("src/special.c", CCFLAGS=["$CCFLAGS", "-O3"])]
library = env.StaticLibrary(target="hal", source=files)
env.AppendUnique(LIBS=[library], LIBPATH=[abspath(str(library[0].get_dir()))])
Return("library")
"""

CROSS = """
def generate(env, **kw):
    for tool in ("gcc", "gnulink", "ar", "as"):
        env.Tool(tool)
    for name, tool in dict(CC="gcc", AR="ar", RANLIB="ranlib", AS="as", LINK="gcc").items():
        env[name] = "arm-none-eabi-" + tool
    place = "${str(TARGET).replace(BUILDPATH, CONFIG_PROFILE)}"
    for name, word in dict(CC="CC", AR="AR", RANLIB="RANLIB", LINK="LINK").items():
        env[name + "COMSTR"] = word + " " + place

def exists(env):
    return True
"""

FIND = """
import os

def find(env, base, suffixes, ignored):
    found = []
    for folder, folders, names in os.walk(base):
        folders[:] = [n for n in folders if not os.path.abspath(os.path.join(folder, n)).startswith(
            tuple(map(os.path.abspath, ignored)))]
        found += [os.path.join(folder, name) for name in names if os.path.splitext(name)[1] in suffixes]
    return sorted(found)

def generate(env, **kw):
    env.AddMethod(lambda env, base, ignored: find(env, base, (".c", ".cpp"), ignored), "FindSourceFiles")
    env.AddMethod(find, "FindFiles")

def exists(env):
    return True
"""

MOVED = """
import os

def build_path(env, path):
    path = os.path.abspath(str(path))
    if not path.startswith(env["BUILDPATH"]):
        path = os.path.relpath(path, env["BASEPATH"])
        while path.startswith(".."):
            path = path[3:]
        path = os.path.join(env["BUILDPATH"], path)
    return path

def emitter(target, source, env):
    return [env.File(build_path(env, node.get_abspath())) for node in target], source

def generate(env, **kw):
    for suffix in (".c", ".cpp", ".s", ".S"):
        env["BUILDERS"]["Object"].add_emitter(suffix, emitter)
    env["LIBEMITTER"] = emitter
    env["PROGEMITTER"] = emitter

def exists(env):
    return True
"""

STARTUP = """
int main(void);
void reset(void);
void reset(void)
{
    main();
    for (;;) {
    }
}
__attribute__((section(".vectors"), used)) static void *const vectors[] = {(void *)0x20020000, (void *)reset};
"""

SCRIPT = """
ENTRY(reset)
MEMORY { FLASH (rx) : ORIGIN = 0x08000000, LENGTH = 1M  RAM (rwx) : ORIGIN = 0x20000000, LENGTH = 128K }
SECTIONS {
  .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) } > FLASH
  .data : { *(.data*) } > RAM AT > FLASH
  .bss : { *(.bss*) *(COMMON) } > RAM
}
"""

OBJECTS = ["ai_nolibc.o", "ai_runtime.o", "main.o", "model.o", "model_data.o", "other.o", "special.o", "startup.o"]


@pytest.fixture
def project(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Project:
    """An application with a network somewhere in its tree."""
    require_tools("arm-none-eabi-gcc")
    project = replayed_project(tmp_path / "project", tmp_path_factory)
    tools = {"cross": CROSS, "find_sources": FIND, "moved": MOVED}
    files = {f"library/tools/{name}.py": text for name, text in tools.items()}
    files |= {"SConstruct": SCONSTRUCT, "library/SConscript": LIBRARY, "library/link.ld": SCRIPT}
    files |= {"library/src/startup.c": STARTUP, "library/src/special.c": "int special = 1;\n"}
    files |= {"main.c": main_of("model", more="#include <stddef.h>\n"), "source/other.c": "int other = 1;\n"}
    for name, text in files.items():
        project.write(name, text)
    project.path("model.onnx").rename(project.path("source/model.onnx"))
    return project


def test_generated_files_that_the_walk_finds_are_linked_once(project: Project) -> None:
    project.edit("SConstruct", 'env.Replace(TVMSTM32DIR="$BUILDPATH/networks", TVMSTM32RUNTIME="$BUILDPATH/ai")', "")
    project.scons()
    assert project.path("source/model.onnx.net/model.c").is_file()
    # They come in another order now, and ai_nolibc.c is one more way to say what is there.
    project.scons()
    assert generated(project) == ["model"]
    assert not project.scons().actions


def compiled(build: Build) -> list[str]:
    """Names of the objects that were compiled."""
    return build.of("CC")


def test_everything_is_below_the_build_folder(project: Project) -> None:
    before = sorted(path.name for path in project.folder.iterdir())
    build = project.scons("-j2")
    assert generated(project) == ["model"]
    assert compiled(build) == OBJECTS
    assert build.of("LINK") == ["app.elf"]
    assert "warning" not in build.output
    new = {path.name for path in project.folder.iterdir()} - set(before)
    assert new == {"build", ".sconsign.dblite"}
    assert project.path("build/scons-release/networks/model.c").is_file()
    assert project.path("build/scons-release/ai/src/ai_runtime.o").is_file()
    # The walk through the tree does not find what was generated.
    second = project.scons()
    assert not second.actions
    assert "`build' is up to date" in second.output


def test_what_a_change_runs(project: Project) -> None:
    project.scons()
    generated(project)
    project.edit("main.c", "int bad = 0;", "int bad = 2;")
    build = project.scons()
    assert (compiled(build), build.of("LINK")) == (["main.o"], ["app.elf"])
    write_model(project.path("source/model.onnx"), seed=2)
    build = project.scons()
    assert generated(project) == ["model"]
    assert (compiled(build), build.of("LINK")) == (["model_data.o"], ["app.elf"])
    project.edit("library/src/special.c", "= 1", "= 2")
    assert compiled(project.scons()) == ["special.o"]
    build = project.scons("profile=debug")
    assert generated(project) == ["model"]
    assert compiled(build) == OBJECTS
    project.scons("-c")
    project.scons("-c", "profile=debug")
    assert not [path for path in project.path("build").rglob("*") if path.is_file()]
