"""A model file among the sources of Program, Library and Object."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from replayed import GENERATOR, TOOLPATH, copied, generated, main_of, outputs, replayed_project
from scons_support import Project, require_tools, write_model

from tvm_stm32.errors import ModelError
from tvm_stm32.frontends import detect_format

HEAD = f"""
env = Environment(tools=["default", "stm32_model"], {TOOLPATH})
{GENERATOR}
"""
OBJECTS = ["ai_runtime.o", "main.o", "model.o", "model_data.o"]


@pytest.fixture
def project(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Project:
    """A program of this computer with one model."""
    require_tools("gcc")
    project = replayed_project(tmp_path / "project", tmp_path_factory)
    project.write("SConstruct", HEAD + 'env.Program("app", ["main.c", "model.onnx"])\n')
    project.write("main.c", main_of("model"))
    return project


def run(program: Path) -> int:
    """Its exit code."""
    return subprocess.run([program], check=False, timeout=20).returncode


def test_a_program_takes_a_model_like_a_c_file(project: Project) -> None:
    build = project.scons()
    assert generated(project) == ["model"]
    assert outputs(build, kind="cc") == OBJECTS
    assert outputs(build, kind="link") == ["app"]
    assert run(project.path("app")) == 0
    assert project.scons().is_null


def test_what_a_change_runs(project: Project) -> None:
    project.scons()
    generated(project)
    project.edit("main.c", "return bad;", "return bad + 0 * 2 + (bad << 1);")
    build = project.scons()
    assert (outputs(build, kind="cc"), outputs(build, kind="link")) == (["main.o"], ["app"])
    write_model(project.path("model.onnx"), seed=2)
    build = project.scons()
    assert generated(project) == ["model"]
    assert (outputs(build, kind="cc"), outputs(build, kind="link")) == (["model_data.o"], ["app"])
    assert copied(build) == 0


def test_clean_leaves_the_users_files(project: Project) -> None:
    before = sorted(path.name for path in project.folder.rglob("*"))
    project.scons()
    project.scons("-c")
    project.path("generator.log").unlink()
    project.path(".sconsign.dblite").unlink()
    assert sorted(path.name for path in project.folder.rglob("*")) == before


def test_a_dry_run_makes_nothing(project: Project) -> None:
    build = project.scons("-n")
    assert "generator.py compile model.onnx" in build.output
    assert outputs(build, kind="cc") == OBJECTS
    assert not generated(project)
    assert not project.path("model.onnx.net").exists()


def test_two_models_of_a_program_link_one_runtime(project: Project) -> None:
    write_model(project.path("other.onnx"), seed=3)
    project.write("main.c", main_of("model", "other"))
    project.edit("SConstruct", '"model.onnx"', '"model.onnx", "other.onnx"')
    build = project.scons("-j4")
    assert sorted(generated(project)) == ["model", "other"]
    assert outputs(build, kind="cc").count("ai_runtime.o") == 1
    assert build.output.count("src/ai_runtime.o") == 2  # its compile, and the link
    assert run(project.path("app")) == 0


def test_models_of_different_folders_link_one_runtime(project: Project) -> None:
    for folder, seed in (("first", 2), ("second", 3)):
        project.path(folder).mkdir()
        write_model(project.path(f"{folder}/{folder}_net.onnx"), seed=seed)
    project.write("main.c", main_of("first_net", "second_net"))
    project.edit("SConstruct", '"model.onnx"', '"first/first_net.onnx", "second/second_net.onnx"')
    assert outputs(project.scons("-j4"), kind="cc").count("ai_runtime.o") == 1
    assert run(project.path("app")) == 0
    assert project.scons().is_null


def test_a_header_that_a_macro_names_is_made_first(project: Project) -> None:
    project.write("main.c", main_of("model").replace('#include "model.h"', '#define NET "model.h"\n#include NET'))
    project.write("generator.py", "import time\ntime.sleep(1)\n" + project.path("generator.py").read_text())
    project.scons("-j4")
    assert run(project.path("app")) == 0
    assert project.scons().is_null


def test_two_programs_share_network_and_runtime(project: Project) -> None:
    project.write("main2.c", main_of("model"))
    project.edit("SConstruct", 'env.Program("app"', 'env.Program("app2", ["main2.c", "model.onnx"])\nenv.Program("app"')
    build = project.scons("-j4")
    assert generated(project) == ["model"]
    assert outputs(build, kind="cc") == sorted([*OBJECTS, "main2.o"])
    assert "warning" not in build.output
    assert run(project.path("app")) == run(project.path("app2")) == 0


@pytest.mark.parametrize("value", ['"include:more"', '["include", "more"]', 'env.Dir(["include", "more"])', '""', "[]"])
def test_the_path_of_headers_keeps_what_was_there(project: Project, value: str) -> None:
    project.write("include/mine.h", "#define MINE 1\n")
    project.write("more/other.h", "#define OTHER 1\n")
    used = ("include" in value) * '#include "mine.h"\n#include "other.h"\n'
    project.write("main.c", main_of("model", more=used))
    snapshot = '{k: repr(v) for k, v in env.Dictionary().items() if k not in ("BUILDERS", "CPPPATH")}'
    project.write(
        "SConstruct",
        # SCons loads the tool install itself when something is copied.
        f"{HEAD}env.Tool('install')\nenv['CPPPATH'] = given = {value}\nbefore, kept = {snapshot}, repr(given)\n"
        'env.Program("app", ["main.c", "model.onnx"])\n'
        f"assert {snapshot} == before\nassert repr(given) == kept\n",
    )
    project.scons()
    assert run(project.path("app")) == 0


def test_keywords_of_a_call_leave_the_environment_alone(project: Project) -> None:
    project.write("include/mine.h", "#define MINE 1\n")
    project.write("main.c", main_of("model", more='#include "mine.h"\n'))
    project.edit("SConstruct", '"model.onnx"]', '"model.onnx"], CPPPATH=["include"], LIBS=["m"]')
    text = project.path("SConstruct").read_text(encoding="utf-8")
    project.write("SConstruct", f"{text}assert 'CPPPATH' not in env, env['CPPPATH']\n")
    project.scons()
    assert run(project.path("app")) == 0


def test_libraries_bring_the_runtime(project: Project) -> None:
    project.write(
        "SConstruct",
        f"""{HEAD}
env.Library("nn", ["model.onnx"])
env.SharedLibrary("nns", ["model.onnx"])
env.LoadableModule("nnm", ["model.onnx"])
env.Program("app", ["main.c"], LIBS=["nn"], LIBPATH=".")
""",
    )
    build = project.scons("-j4")
    assert generated(project) == ["model"]
    assert "warning" not in build.output
    assert outputs(build, kind="cc") == sorted([*OBJECTS, "ai_runtime.os", "model.os", "model_data.os"])
    assert run(project.path("app")) == 0
    for name in ("libnns.so", "libnnm.so"):
        symbols = subprocess.run(["nm", "-D", project.path(name)], capture_output=True, check=True).stdout
        assert b" T ai_create" in symbols
    assert project.scons().is_null


def test_objects_of_a_model_are_linked_by_a_program_later(project: Project) -> None:
    text = 'objects = env.Object(["main.c", "model.onnx"])\nenv.Program("app", sorted(objects))\n'
    project.write("SConstruct", HEAD + text)
    assert outputs(project.scons(), kind="cc") == OBJECTS
    assert run(project.path("app")) == 0


def test_a_program_that_brings_the_runtime_gets_no_other(project: Project) -> None:
    project.edit("SConstruct", '["main.c"', '[env.TvmRuntime("ai"), "main.c"')
    assert outputs(project.scons(), kind="cc").count("ai_runtime.o") == 1
    project.edit("SConstruct", '[env.TvmRuntime("ai"), ', "[")
    project.edit("SConstruct", GENERATOR, f'{GENERATOR}\nenv["TVMSTM32RUNTIME"] = False')
    build = project.scons("app", fails=True)
    assert "ai_runtime.h" in build.output
    project.edit("SConstruct", "False", '"ai/of/mine"')
    assert outputs(project.scons(), kind="cc").count("ai_runtime.o") == 1
    assert project.path("ai/of/mine/src/ai_runtime.o").is_file()


@pytest.mark.parametrize("duplicate", [0, 1])
def test_variants_have_networks_of_their_own(project: Project, duplicate: int) -> None:
    project.path("src").mkdir()
    project.path("model.onnx").rename(project.path("src/model.onnx"))
    project.path("main.c").rename(project.path("src/main.c"))
    project.write("src/SConscript", 'Import("env")\nenv.Program("app", ["main.c", "model.onnx"])\n')
    project.write(
        "SConstruct",
        HEAD
        + f"""
for name, flags in (("debug", ["-g"]), ("release", ["-O2"])):
    each = env.Clone(CCFLAGS=flags)
    SConscript("src/SConscript", exports=dict(env=each), variant_dir=f"build/{{name}}", duplicate={duplicate})
""",
    )
    build = project.scons("-j4")
    assert generated(project) == ["model", "model"]
    assert outputs(build, kind="cc") == sorted(OBJECTS * 2)
    assert "warning" not in build.output
    assert sorted(path.name for path in project.path("src").iterdir()) == ["SConscript", "main.c", "model.onnx"]
    assert run(project.path("build/debug/app")) == run(project.path("build/release/app")) == 0
    assert project.scons().is_null
    project.edit("src/main.c", "return bad;", "return bad * 2;")
    assert outputs(project.scons(), kind="cc") == ["main.o", "main.o"]


def test_environments_with_objects_of_their_own_generate_once(project: Project) -> None:
    project.write(
        "SConstruct",
        HEAD
        + """
for name, flags in (("debug", ["-g"]), ("release", ["-O2"])):
    each = env.Clone(CCFLAGS=flags, OBJPREFIX=f"{name}/")
    each.Program(name + "-app", ["main.c", "model.onnx"])
""",
    )
    build = project.scons("-j4")
    assert generated(project) == ["model"]
    assert copied(build) > 5
    assert outputs(build, kind="cc") == sorted(OBJECTS * 2)
    assert "warning" not in build.output
    assert run(project.path("debug-app")) == run(project.path("release-app")) == 0
    assert project.scons().is_null


def test_options_are_variables_of_the_environment(project: Project) -> None:
    project.edit("SConstruct", "env.Program", 'env.Replace(TVMSTM32LEVEL="ram", TVMSTM32MAX_RAM="32K")\nenv.Program')
    project.edit("SConstruct", '"model.onnx"]', '"model.onnx"], TVMSTM32ALIGNMENT=16, TVMSTM32DIR="#generated"')
    output = project.scons().output
    assert all(f" {option}" in output for option in ("-O ram", "--max-ram 32K", "--cpu host", "--alignment 16"))
    assert project.path("generated/model.c").is_file()


@pytest.mark.parametrize(
    ("setup", "expected"),
    [
        ("", "--cpu host"),
        ('env.Replace(CC="arm-none-eabi-gcc", CCFLAGS="-mthumb -mcpu=cortex-m7")', "--cpu cortex-m7"),
        ('env.Replace(CC="arm-none-eabi-gcc", CFLAGS=["-mcpu=cortex-m33+nofp"])', "--cpu cortex-m33"),
        ('env.Replace(CC="arm-none-eabi-gcc")', "-O time"),
        ('env.Replace(CC="iccarm", CCFLAGS="--cpu=Cortex-M4")', "--cpu cortex-m4"),
        ('env.Replace(CCFLAGS="-mcpu=cortex-a53")', "--cpu host"),
        ('env.Replace(CC="arm-linux-gnueabihf-gcc")', "--cpu host"),
        ('env["TVMSTM32CPU"] = "cortex-m3"', "--cpu cortex-m3"),
        ('env["TVMSTM32BOARD"] = "stm32f405"', "--board stm32f405"),
    ],
)
def test_the_cpu_is_that_of_the_compilers_flags(project: Project, setup: str, expected: str) -> None:
    project.edit("SConstruct", "env.Program", f"{setup}\nenv.Program")
    (line,) = [line for line in project.scons("-n").output.splitlines() if "generator.py" in line]
    assert line.endswith(expected)


@pytest.mark.parametrize(
    ("setup", "expected"),
    [
        ('env.Replace(CC="arm-none-eabi-gcc", CCFLAGS="-mcpu=cortex-a7")', "say -mcpu=cortex-a7.*TVMSTM32CPU"),
        ('env.Replace(CC="arm-none-eabi-gcc", CCFLAGS="-mcpu=cortex-m33+nodsp")', "cortex-m33.nodsp.*TVMSTM32CPU"),
        ('env["TVMSTM32BOARD"] = "nucleo"', "unknown board 'nucleo'"),
        ('env["TVMSTM32LEVEL"] = "fast"', "LEVEL is 'fast'"),
        ('env["TVMSTM32CPU"] = "z80"', "unknown CPU 'z80'"),
        ('env["TVMSTM32BORD"] = "nucleo"', "no variable TVMSTM32BORD.*try: TVMSTM32BOARD"),
        ('env = Environment(tools=["stm32_model"], ' + TOOLPATH + ")", "no C compiler tool"),
        ('env.Object("model.onnx", TVMSTM32LEVEL="ram")', "asked for twice.*variant_dir"),
    ],
)
def test_mistakes_stop_with_the_users_line(project: Project, setup: str, expected: str) -> None:
    project.edit("SConstruct", "env.Program", f"{setup}\nenv.Program")
    output = project.scons(fails=True).output
    assert re.search(expected, output, re.DOTALL), output
    assert re.search(r"in: SConstruct, line \d", output), output


def test_a_folder_or_a_pipe_is_no_model(project: Project) -> None:
    model = project.path("model.onnx")
    model.unlink()
    model.mkdir()
    assert "'model.onnx' is a folder, not a model file" in project.scons(fails=True).output
    model.rmdir()
    os.mkfifo(model)
    assert "is no plain file" in project.scons(fails=True).output


def test_two_models_with_one_c_name_are_named(project: Project) -> None:
    project.path("b").mkdir()
    write_model(project.path("b/model.onnx"), seed=2)
    project.edit("SConstruct", '"model.onnx"', '"model.onnx", "b/model.onnx"')
    output = project.scons(fails=True).output
    assert "'model.onnx' and 'b/model.onnx' are both the network 'model'" in output
    assert re.search(r"in: SConstruct, line \d", output), output


def test_a_tool_of_a_clone_leaves_the_environment_it_is_of_alone(project: Project) -> None:
    project.write(
        "SConstruct",
        f'base = Environment()\nenv = base.Clone(tools=["stm32_model"], {TOOLPATH})\n{GENERATOR}\n'
        'env.Program("app", ["main.c", "model.onnx"])\nbase.Program("plain", ["plain.c"])\n',
    )
    project.write("plain.c", "int main(void) { return 0; }\n")
    project.scons()
    assert run(project.path("app")) == run(project.path("plain")) == 0
    text = project.path("SConstruct").read_text(encoding="utf-8")
    project.write("SConstruct", text + 'base.Program("bad", ["model.onnx"])\n')
    assert "suffix `.onnx'" in project.scons(fails=True).output


def test_the_default_environment_and_global_functions(project: Project) -> None:
    project.write(
        "SConstruct",
        f"env = DefaultEnvironment()\nTool('stm32_model', {TOOLPATH})(env)\n{GENERATOR}\n"
        'objects = Object("model.onnx")\nProgram("app", ["main.c", objects])\n',
    )
    project.scons()
    assert run(project.path("app")) == 0


def test_the_compilation_database_has_the_generated_files(project: Project) -> None:
    project.edit("SConstruct", '"default", ', '"default", "compilation_db", ')
    project.edit("SConstruct", "env.Program", "env.CompilationDatabase()\nenv.Program")
    project.scons("compile_commands.json")
    commands = json.loads(project.path("compile_commands.json").read_text(encoding="utf-8"))
    assert {entry["file"] for entry in commands} >= {"main.c", "model.onnx.net/model.c", "model.onnx.net/model_data.c"}
    (main,) = [entry["command"] for entry in commands if entry["file"] == "main.c"]
    assert "-Imodel.onnx.net" in main


def test_a_shared_cache_and_a_print_string_set_later(project: Project, tmp_path: Path) -> None:
    text = project.path("SConstruct").read_text(encoding="utf-8")
    later = 'env["TVMSTM32COMSTR"] = "MODEL $TARGET"\n'
    project.write("SConstruct", f"{text}CacheDir({str(tmp_path / 'cache')!r})\n{later}")
    assert "MODEL model.onnx.net/model.c" in project.scons().output
    project.scons("-c")
    generated(project)
    build = project.scons("--cache-show", "-Q")
    assert not generated(project)
    assert "MODEL model.onnx.net/model.c" in build.output
    assert outputs(build, kind="cc") == OBJECTS


def test_a_firmware_image_takes_models(project: Project) -> None:
    require_tools("arm-none-eabi-gcc")
    project.write(
        "SConstruct",
        HEAD.replace('"stm32_model"', '"stm32_model", "stm32_firmware"')
        + 'env["TVMSTM32CPU"] = "host"\n'
        + 'env.Firmware("build/app.elf", ["main.c", ["model.onnx"]], BOARD="mps2-an386")\n'
        + 'env.HostProgram("build/host/app", ["main.c", "model.onnx"])\n',
    )
    project.scons("-j2", "build")
    assert generated(project) == ["model", "model"]
    assert project.path("build/app.elf.net/model.c").is_file()
    assert not project.path("model.onnx.net").exists()
    assert run(project.path("build/host/app")) == 0
    assert project.scons("build").is_null


def test_every_suffix_is_one_of_a_front_end(tmp_path: Path) -> None:
    tool = (Path(TOOLPATH.split("'")[1]) / "stm32_sources.py").read_text(encoding="utf-8")
    suffixes = re.findall(r'"(\.[\w.]+)"', re.search(r"^SUFFIXES = \((.*)\)$", tool, re.MULTILINE)[1])  # type: ignore[index]
    assert {".tflite", ".onnx", ".relay", ".pt2"} <= set(suffixes)
    for suffix in suffixes:
        file = tmp_path / f"net{suffix}"
        file.write_bytes(b"\0" * 600)
        assert detect_format(file)
    with pytest.raises(ModelError):
        detect_format(Path(__file__))
