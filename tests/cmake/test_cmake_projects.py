"""Projects that take networks in: cross builds, several networks, ST's interfaces, copies without the tool, Zephyr."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from cmake_support import CMAKE_DIR, GENERATORS, HOST_MAIN, TOOLCHAIN, CMakeProject, program, project_text
from scons_support import BOARD, REPOSITORY, write_model
from support import need_board

from tvm_stm32 import __version__
from tvm_stm32.boards import load_board
from tvm_stm32.c_api import C_APIS, core_name, interface_files, runtime_files, snippet_files
from tvm_stm32.emit import OUTPUT_SUFFIXES, WEIGHTS_SUFFIX
from tvm_stm32.project.linker import linker_script
from tvm_stm32.runtime_files import RUNTIME_FILES

# As STM32CubeMX writes a project, with the plain signature of target_link_libraries.
CUBEMX_ROOT = """
cmake_minimum_required(VERSION 3.22)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE "Debug")
endif()
set(CMAKE_PROJECT_NAME app)
set(CMAKE_EXPORT_COMPILE_COMMANDS TRUE)
project(${CMAKE_PROJECT_NAME})
enable_language(C ASM)
add_executable(${CMAKE_PROJECT_NAME})
add_subdirectory(cmake/stm32cubemx)
target_link_directories(${CMAKE_PROJECT_NAME} PRIVATE)
target_sources(${CMAKE_PROJECT_NAME} PRIVATE)
target_include_directories(${CMAKE_PROJECT_NAME} PRIVATE)
target_compile_definitions(${CMAKE_PROJECT_NAME} PRIVATE)
target_link_libraries(${CMAKE_PROJECT_NAME}
    stm32cubemx
)
"""
CUBEMX_SUBDIRECTORY = """
cmake_minimum_required(VERSION 3.22)
project(stm32cubemx)
add_library(stm32cubemx INTERFACE)
enable_language(C ASM)
target_compile_definitions(stm32cubemx INTERFACE USE_HAL_DRIVER $<$<CONFIG:Debug>:DEBUG>)
target_include_directories(stm32cubemx INTERFACE ../../Core/Inc)
target_sources(stm32cubemx INTERFACE ../../Core/Src/main.c ../../Core/Src/startup.c ../../Core/Src/port_semihosting.c
    ../../Core/Src/port_common.c ../../Core/Src/port_system.c)
target_link_libraries(stm32cubemx INTERFACE)
"""
PRESETS = """{
  "version": 3,
  "configurePresets": [
    {"name": "default", "hidden": true, "generator": "GENERATOR", "binaryDir": "${sourceDir}/b",
     "toolchainFile": "${sourceDir}/cmake/gcc-arm-none-eabi.cmake"},
    {"name": "Release", "inherits": "default", "cacheVariables": {"CMAKE_BUILD_TYPE": "Release"}}
  ]
}
"""
MAIN = """
#include "port.h"
#include "tiny.h"

int main(int argc, char **argv)
{
    ai_handle network;

    (void)argc;
    (void)argv;
    if (ai_create(&ai_tiny_network, NULL, &network) != AI_STATUS_OK || ai_run(network) != AI_STATUS_OK) {
        return 1;
    }
    port_print("the network ran\\n");
    return 0;
}
"""


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of compiled networks, for the whole session."""
    return tmp_path_factory.getbasetemp() / "cmake_networks"


def write_cubemx(project: CMakeProject) -> None:
    """A project for the board the emulator runs; the runtime's port stands for the drivers."""
    write_model(project.path("tiny.onnx"))
    project.write("CMakeLists.txt", CUBEMX_ROOT)
    project.write("cmake/stm32cubemx/CMakeLists.txt", CUBEMX_SUBDIRECTORY)
    project.write("CMakePresets.json", PRESETS.replace("GENERATOR", project.generator))
    link = '\nset(CMAKE_EXE_LINKER_FLAGS "${TARGET_FLAGS} -nostartfiles -T ${CMAKE_SOURCE_DIR}/app.ld")\n'
    project.write("cmake/gcc-arm-none-eabi.cmake", TOOLCHAIN + link)
    project.write("app.ld", linker_script(load_board(BOARD)))
    project.write("Core/Src/main.c", MAIN)
    port = REPOSITORY / "runtime" / "port"
    for name in ("port_semihosting.c", "port_common.c", "port_system.c", "port_startup.c"):
        shutil.copy(port / name, project.path("Core/Src") / name.replace("port_startup", "startup"))
    for name in ("port.h", "port_board.h"):
        project.write(f"Core/Inc/{name}", (port / name).read_text())


def run_image(project: CMakeProject, image: Path) -> str:
    emulator = load_board(BOARD).emulator
    assert emulator is not None
    return project.run(
        program("qemu-system-arm"),
        *("-M", emulator.machine, "-nographic", "-semihosting-config", "enable=on,target=native", "-kernel", image),
    )


@pytest.mark.parametrize("generator", GENERATORS)
def test_a_cubemx_project_takes_a_network_by_two_lines(generator: str, cache: Path, tmp_path: Path) -> None:
    need_board(BOARD)
    project = CMakeProject(tmp_path / "p", cache, generator)
    write_cubemx(project)
    project.write(
        "CMakeLists.txt",
        CUBEMX_ROOT
        + "find_package(tvm_stm32 CONFIG REQUIRED)\n"
        + "tvm_stm32_add_model(tiny MODEL tiny.onnx CPU cortex-m4 LINK_TO ${CMAKE_PROJECT_NAME})\n",
    )
    project.configure("--preset", "Release")
    project.build()
    if generator == "Ninja":
        assert "the network ran" in run_image(project, project.path("b/app.elf"))
    (tiny,) = re.findall(r'"command": "(.*tiny_data\.c\.o.*)"', project.path("b/compile_commands.json").read_text())
    assert "-mcpu=cortex-m4" in tiny
    assert "-Os" in tiny
    assert project.build().compiled == []


def test_what_compile_writes_is_a_library_without_the_tool(cache: Path, tmp_path: Path) -> None:
    need_board(BOARD)
    project = CMakeProject(tmp_path / "p", cache)
    write_cubemx(project)
    project.run(*project.command, "compile", "tiny.onnx", "-o", "made", "--name", "tiny", "--cpu", "cortex-m4")
    shutil.copytree(project.path("made"), project.path("Core/some where"))
    shutil.rmtree(project.path("made"))
    lines = 'include("Core/some where/tiny.cmake")\ntarget_link_libraries(${CMAKE_PROJECT_NAME} ai_tiny)\n'
    project.write("CMakeLists.txt", CUBEMX_ROOT + lines)
    calls = project.log.read_text()
    project.configure("--preset", "Release", own_tool=False)
    project.build()
    assert project.log.read_text() == calls
    assert "the network ran" in run_image(project, project.path("b/app.elf"))


def test_copies_of_networks_share_a_runtime(cache: Path, tmp_path: Path) -> None:
    project = CMakeProject(tmp_path / "p", cache)
    write_model(project.path("tiny.onnx"))
    for name, *flags in (
        ("tiny",),
        ("other", "--c-api", "st-ai"),
        ("third", "--c-api", "st-ai", "--weights", "incbin", "--no-runtime"),
    ):
        project.run(
            *(*project.command, "compile", "tiny.onnx", "-o", f"net/{name}", "--name", name, "--cpu", "host", *flags)
        )
    project.write("main.c", HOST_MAIN + '#include "stai_other.h"\n#include "stai_third.h"\n')
    names = ("tiny", "other", "third")
    project.write(
        "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.10)\nproject(p C)\n"
        + "".join(f"include(net/{name}/{name}.cmake)\n" for name in names)
        + "add_executable(app main.c)\ntarget_link_libraries(app ai_tiny ai_other ai_third)\n",
    )
    project.configure(own_tool=False)
    build = project.build()
    assert build.compiled.count("ai_runtime.c") == build.compiled.count("stai.c") == 1
    project.run(project.path("b/app"))
    project.write(
        "Makefile",
        "".join(f"include net/{name}/{name}.mk\n" for name in names)
        + "CFLAGS += $(tiny_INCLUDES) $(other_INCLUDES) $(third_INCLUDES)\n"
        + "app: main.c $(tiny_SOURCES) $(other_SOURCES) $(third_SOURCES) $(ai_runtime_SOURCES)\n"
        + "\t$(CC) $(CFLAGS) -o $@ $^\n",
    )
    output = project.run(program("make"), "app")
    assert output.count("ai_runtime.c") == output.count("stai.c") == 1
    project.run("./app")
    (project.path("net/tiny/ai_runtime.c")).unlink()
    text = project.configure(own_tool=False, fails=True)
    assert "tiny.cmake: ai_runtime.c is not beside it" in text
    assert "tvm-stm32 runtime -o FOLDER" in text


def test_networks_of_several_folders_share_runtime_and_arena(cache: Path, tmp_path: Path) -> None:
    project = CMakeProject(tmp_path / "p", cache)
    for name in ("tiny", "other"):
        project.write(f"{name}/CMakeLists.txt", f"tvm_stm32_add_model({name} MODEL tiny.onnx)\n")
        write_model(project.path(f"{name}/tiny.onnx"))
    body = """
    set(TVM_STM32_CPU host)
    add_subdirectory(tiny)
    add_subdirectory(other)
    tvm_stm32_add_arena(scratch NETWORKS tiny other)
    add_executable(app main.c)
    target_link_libraries(app PRIVATE other tiny)
    """
    project.write("CMakeLists.txt", project_text(body))
    project.write("main.c", HOST_MAIN + '#include "other.h"\nconst void *second = &ai_other_network;\n')
    project.configure()
    first = project.build()
    assert first.generated == ["arena scratch", "runtime -o", "tiny.onnx", "tiny.onnx"]
    assert first.compiled.count("ai_runtime.c") == 1
    symbols = project.run("nm", project.path("b/app"))
    assert len({line.split()[0] for line in symbols.splitlines() if re.search(r" scratch(_of_\w+)?$", line)}) == 1
    project.run(project.path("b/app"))
    assert project.build().is_null
    project.edit("CMakeLists.txt", "NETWORKS tiny other", "NETWORKS other")
    assert project.build().generated == ["arena scratch", "tiny.onnx"]


@pytest.mark.parametrize("c_api", C_APIS)
@pytest.mark.parametrize("weights", ["array", "external"])
def test_the_names_of_all_outputs_are_known(c_api: str, weights: str, cache: Path, tmp_path: Path) -> None:
    project = CMakeProject(tmp_path / "p", cache)
    write_model(project.path("tiny.onnx"))
    project.write(
        "CMakeLists.txt",
        project_text(f"tvm_stm32_add_model(net MODEL tiny.onnx NAME tiny CPU host C_API {c_api} WEIGHTS {weights})"),
    )
    project.configure("-DCMAKE_C_COMPILER_FORCED=1")
    text = project.path("b/build.ninja").read_text()

    def outputs(target: str) -> set[str]:
        (names,) = re.findall(rf"^build (tvm_stm32/{target}/{target}\.stamp [^|:]*)", text, re.MULTILINE)
        return {Path(name).name for name in names.split()} - {f"{target}.stamp"}

    suffixes = [*OUTPUT_SUFFIXES, *([WEIGHTS_SUFFIX] if weights != "array" else [])]
    network = {core_name("tiny", c_api) + suffix for suffix in suffixes}
    assert outputs("net") == network | {*interface_files("tiny", c_api), *snippet_files("tiny")}
    runtime = {Path(name).name for name in RUNTIME_FILES}
    assert outputs("ai_runtime") == runtime
    if c_api != "ai":
        own = {Path(name).name for name in runtime_files(c_api)}
        assert outputs(f"ai_runtime_{c_api.replace('-', '_')}") == runtime | own


def test_networks_behind_interfaces_of_st(cache: Path, tmp_path: Path) -> None:
    project = CMakeProject(tmp_path / "p", cache)
    write_model(project.path("tiny.onnx"))
    body = """
    tvm_stm32_add_model(one MODEL tiny.onnx NAME other CPU host C_API st-ai)
    tvm_stm32_add_model(two MODEL tiny.onnx CPU host C_API x-cube-ai)
    add_executable(app main.c)
    target_link_libraries(app one two)
    """
    project.write("CMakeLists.txt", project_text(body))
    body = "int main(void) { return ai_two_get_error(AI_HANDLE_NULL).code == 0; }"
    project.write("main.c", f'#include "stai_other.h"\n#include "two.h"\n{body}\n')
    project.configure()
    build = project.build()
    assert {"stai.c", "ai_platform.c", "stai_other.c", "two.c", "two_tvm.c"} <= set(build.compiled)
    assert project.build().is_null


# What Zephyr's build does with a module, as far as ours is concerned: a look-alike, not Zephyr.
ZEPHYR = """
function(read_defaults file)
  file(STRINGS "${file}" lines REGEX "^config |default ")
  foreach(line IN LISTS lines)
    if(line MATCHES "^config (.*)")
      set(name CONFIG_${CMAKE_MATCH_1})
    elseif(line MATCHES "default \\"(.*)\\" if (.*)")
      if(CONFIG_${CMAKE_MATCH_2})
        set(${name} "${CMAKE_MATCH_1}" PARENT_SCOPE)
      endif()
    endif()
  endforeach()
endfunction()

set(CONFIG_CPU_CORTEX_M4 y)
file(STRINGS "${APPLICATION_SOURCE_DIR}/prj.conf" settings)
foreach(setting IN LISTS settings)
  string(REGEX MATCH "(.*)=(.*)" _ "${setting}")
  set(${CMAKE_MATCH_1} "${CMAKE_MATCH_2}")
endforeach()
add_library(zephyr_interface INTERFACE)
target_compile_options(zephyr_interface INTERFACE -mcpu=cortex-m4 -mthumb -mfpu=fpv4-sp-d16 -mfloat-abi=hard)
target_compile_definitions(zephyr_interface INTERFACE KERNEL)
add_library(app STATIC)
target_link_libraries(app PUBLIC zephyr_interface)
foreach(module IN LISTS ZEPHYR_MODULES)
  file(STRINGS "${module}/zephyr/module.yml" lines)
  foreach(line IN LISTS lines)
    if(line MATCHES "^  (cmake|kconfig): (.*)")
      set(module_${CMAKE_MATCH_1} "${module}/${CMAKE_MATCH_2}")
    endif()
  endforeach()
  read_defaults("${module_kconfig}")
  add_subdirectory("${module_cmake}" modules/one)
endforeach()
"""


def test_zephyrs_functions_take_the_module(cache: Path, tmp_path: Path) -> None:
    need_board(BOARD)
    project = CMakeProject(tmp_path / "p", cache)
    write_model(project.path("tiny.onnx"))
    project.write("zephyr-like/ZephyrConfig.cmake", ZEPHYR)
    project.write("toolchain.cmake", TOOLCHAIN.replace("${TARGET_FLAGS} -W", "-W"))
    project.write("prj.conf", "CONFIG_TVM_STM32=y\n")
    project.write("main.c", '#include "tiny.h"\nconst void *used = &ai_tiny_network;\n')
    project.write(
        "CMakeLists.txt",
        """
        cmake_minimum_required(VERSION 3.20.0)
        project(hello C)
        set(APPLICATION_SOURCE_DIR ${CMAKE_CURRENT_SOURCE_DIR})
        find_package(Zephyr REQUIRED HINTS zephyr-like NO_CMAKE_FIND_ROOT_PATH)
        target_sources(app PRIVATE main.c)
        tvm_stm32_add_model(tiny MODEL tiny.onnx)
        target_link_libraries(app PRIVATE tiny)
        """,
    )
    project.configure(
        "--toolchain", "toolchain.cmake", f"-DZEPHYR_MODULES={REPOSITORY}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=1"
    )
    assert project.build().compiled == ["ai_runtime.c", "main.c", "tiny.c", "tiny_data.c"]
    commands = project.path("b/compile_commands.json").read_text()
    assert commands.count("-DAI_NO_REGISTRY") == commands.count('"command"') - 1
    assert commands.count("-mcpu=cortex-m4") == commands.count('"command"')
    assert "CORTEX_M4" not in project.run("nm", project.path("b/libtiny.a"))


def test_versions_agree() -> None:
    text = (CMAKE_DIR / "tvm_stm32-config-version.cmake").read_text()
    assert f"set(PACKAGE_VERSION {__version__})" in text
    major, minor, _ = __version__.split(".")
    assert f"MAJOR EQUAL {major} AND PACKAGE_FIND_VERSION_MINOR EQUAL {minor}" in text
