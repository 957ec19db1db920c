"""The environment of an existing repository: honoured, never changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from scons_support import HEAD, Project, built_once, require_tools

FIRMWARE = """
network = env.TvmModel("build/net/tiny", "model.onnx", BOARD=board)
image = env.Firmware("build/app.elf", SOURCES, BOARD=board)
"""

# Everything but methods and builders, which the tools add on purpose.
SNAPSHOT = """
def snapshot():
    return {key: repr(value) for key, value in env.Dictionary().items() if key != "BUILDERS"}
"""


@pytest.fixture
def project(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Project:
    """A copy of the built project."""
    return built_once(tmp_path_factory).copy_to(tmp_path / "project")


def flags(project: Project, setup: str, target: str = "main.o", sources: str = '["main.c", network]') -> list[str]:
    """Words of the command that makes ``target`` when the environment was set up that way."""
    silent = 'env.Replace(CCCOMSTR="", LINKCOMSTR="")\n'
    calls = "before = snapshot()\n" + FIRMWARE.replace("SOURCES", sources) + "assert snapshot() == before\n"
    project.write("SConstruct", HEAD + silent + setup + SNAPSHOT + calls)
    output = project.scons("-n").output
    (line,) = [line for line in output.splitlines() if f" -o build/app.elf.obj/{target} " in line]
    return line.split()


@pytest.mark.parametrize("value", ['"-O1 -g3"', '["-O1", "-g3"]', 'CLVar("-O1 -g3")'])
def test_ccflags_as_string_or_list_come_after_ours(project: Project, value: str) -> None:
    words = flags(project, f"from SCons.Util import CLVar\nenv['CCFLAGS'] = {value}\n")
    assert words.index("-O2") < words.index("-O1") < words.index("-mcpu=cortex-m4")
    assert "-g3" in words


@pytest.mark.parametrize("value", ['"-std=gnu11 -Wstrict-prototypes"', '["-std=gnu11", "-Wstrict-prototypes"]'])
def test_cflags_as_string_or_list(project: Project, value: str) -> None:
    assert {"-std=gnu11", "-Wstrict-prototypes"} <= set(flags(project, f"env['CFLAGS'] = {value}\n"))


def test_defines_paths_and_libraries_as_strings(project: Project) -> None:
    project.path("a").mkdir()
    project.path("b").mkdir()
    words = flags(project, "env.Replace(CPPDEFINES='MINE', CPPPATH='a:b')\n")
    assert {"-DMINE", "-DAI_USE_SECTIONS", "-Ia", "-Ib", "-Ibuild/net"} <= set(words)
    words = flags(project, "env.Replace(LIBS='c', LINKFLAGS='-Wl,--no-relax -Wl,-n')\n", "linked.elf")
    assert {"-lc", "-lm", "-Wl,-n", "-Wl,--no-relax", "--specs=nano.specs"} <= set(words)


def test_an_arm_compiler_of_the_environment_is_kept(project: Project) -> None:
    assert flags(project, "env['CC'] = 'wrapper arm-none-eabi-gcc'\n")[:2] == ["wrapper", "arm-none-eabi-gcc"]
    assert flags(project, "env['CC'] = ['wrapper', 'arm-none-eabi-gcc']\n")[:2] == ["wrapper", "arm-none-eabi-gcc"]
    assert flags(project, "env['CC'] = 'gcc'\n")[0] == "arm-none-eabi-gcc"


def test_the_compiler_is_looked_for_in_the_environments_path(project: Project) -> None:
    gcc = project.path("bin/arm-none-eabi-gcc")
    project.write("bin/arm-none-eabi-gcc", "#!/bin/sh\necho mine > called\nexit 1\n")
    gcc.chmod(0o755)
    text = FIRMWARE.replace("SOURCES", '["main.c", network]')
    project.write("SConstruct", HEAD + f"env.PrependENVPath('PATH', {str(gcc.parent)!r})\n" + text)
    project.scons("build/app.elf.obj/main.o", fails=True)
    assert project.path("called").exists()


def test_keywords_override_variables_of_one_image(project: Project) -> None:
    text = FIRMWARE.replace("SOURCES, BOARD", """["main.c", network], FIRMWARE_OPTIMIZE="-O3", BOARD""")
    project.write("SConstruct", HEAD + 'env["CCCOMSTR"] = ""\n' + text)
    output = project.scons("-n").output
    assert " -O3 " in next(line for line in output.splitlines() if "/main.o" in line)
    assert " -Os " in next(line for line in output.splitlines() if "/port_common.o" in line)


def test_print_strings_replace_every_command_line(project: Project) -> None:
    project.scons("-c")
    output = project.scons("-n").output
    assert all(len(line.split()) == 2 for line in output.splitlines()), output


def test_assembly_and_cpp_sources_are_compiled_for_the_board(project: Project) -> None:
    require_tools("arm-none-eabi-g++")
    project.write("extra.S", ".syntax unified\n.thumb\n.global extra\n.thumb_func\nextra:\n    bx lr\n")
    project.write("more.cpp", 'extern "C" int more(void) { return 2; }\n')
    sources = '["main.c", "extra.S", "more.cpp", network]'
    head = HEAD.replace('"gnulink"', '"g++", "gnulink"') + "env.Replace(CXXCOMSTR='CC $TARGET')\n"
    project.write("SConstruct", head + FIRMWARE.replace("SOURCES", sources))
    # Objects only: Debian has the C++ library in a package of its own.
    build = project.scons(*(f"build/app.elf.obj/{name}.o" for name in ("main", "extra", "more")))
    assert build.of("AS") == ["extra.o"]
    assert build.of("CC") == ["more.o"]


def test_a_repository_with_its_own_program_needs_only_the_model_tool(project: Project) -> None:
    require_tools("gcc")
    project.write("main.c", '#include "tiny.h"\nint main(void) { return ai_tiny_network.macs == 0U; }\n')
    project.write(
        "SConstruct",
        HEAD.replace(', "stm32_firmware"', "")
        + """
network = env.TvmModel("build/net/tiny", "model.onnx", CPU="host")
runtime = env.TvmRuntime("build/runtime")
env.Append(CPPPATH=[network.include, *runtime.include])
env.Program("build/app", ["main.c", network, runtime], LIBS=["m"])
""",
    )
    build = project.scons("build/app")
    assert build.of("LINK") == ["app"]
    assert project.scons("build/app").is_null


def test_compile_commands_name_the_generated_files(project: Project) -> None:
    text = FIRMWARE.replace("SOURCES", '["main.c", network]')
    project.write("SConstruct", HEAD + "env.Tool('compilation_db')\nenv.CompilationDatabase()\n" + text)
    project.scons("compile_commands.json")
    commands = project.path("compile_commands.json").read_text(encoding="utf-8")
    assert '"file": "build/net/tiny_data.c"' in commands
    assert '"file": "main.c"' in commands


@pytest.mark.parametrize(
    ("variables", "option"),
    [
        ({"TVM_STM32_RESIDENT": "7"}, "__main__.py --resident=7 compile"),
        ({"TVM_STM32_RESIDENT": "7", "TVM_STM32_RESIDENT_DIR": "/run"}, "__main__.py --resident=7:/run compile"),
        ({"TVM_STM32_RESIDENT": "0"}, "__main__.py compile"),
    ],
)
def test_settings_of_the_resident_process_pass_an_env_without_them(
    project: Project, variables: dict[str, str], option: str
) -> None:
    text = FIRMWARE.replace("SOURCES", '["main.c", network]')
    project.write("SConstruct", HEAD + 'env.Replace(ENV={"PATH": os.environ["PATH"]}, TVMSTM32COMSTR="")\n' + text)
    project.write("model.onnx", "another")
    assert option in project.scons("-n", variables=variables).output
