"""Configuring: which generator is found, what it costs, and what a mistake says."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from cmake_support import CMAKE_DIR, TOOLCHAIN, CMakeProject, project_text
from scons_support import REPOSITORY, copy_tools, require_tools

from tvm_stm32.__main__ import main

NETWORK = "tvm_stm32_add_model(tiny MODEL tiny.onnx CPU cortex-m4)"
RECORDER = "#!/bin/sh\necho started >> '{log}'\nexit 1\n"


@pytest.fixture
def project(tmp_path: Path) -> CMakeProject:
    """A project whose model nobody reads."""
    project = CMakeProject(tmp_path / "p", tmp_path / "cache")
    project.write("tiny.onnx", "")
    return project


def write_program(path: Path, log: Path) -> Path:
    """A program that says that it was started, and fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(RECORDER.format(log=log))
    path.chmod(0o755)
    return path


def generator_of(project: CMakeProject) -> str:
    """The words before ``compile`` in the build's command for the network."""
    (words,) = re.findall(r"&& ([^&\n]*) compile ", project.path("b/build.ninja").read_text())
    return str(words)


def test_configuring_starts_no_process_of_ours(project: CMakeProject) -> None:
    bin_ = project.folder / "bin"
    for name in ("python", "python3", "tvm-stm32"):
        write_program(bin_ / name, project.log)
    project.write("CMakeLists.txt", project_text(NETWORK))
    text = CMAKE_DIR.joinpath("tvm_stm32.cmake").read_text()
    assert not re.search(r"execute_process|try_run|try_compile|file\(\s*(DOWNLOAD|GLOB)", text)
    project.variables["PATH"] = os.pathsep.join([str(bin_), os.environ["PATH"], str(Path(sys.executable).parent)])
    # A copy: beside this checkout's own a .venv may be the first choice.
    place = shutil.copytree(CMAKE_DIR, project.folder / "elsewhere")
    project.configure(f"-Dtvm_stm32_DIR={place}", own_tool=False)
    assert project.log.read_text() == ""
    assert generator_of(project).startswith(str(bin_))
    project.build(fails=True)
    assert "started" in project.log.read_text()


def test_a_toolchain_file_does_not_hide_the_generator(project: CMakeProject) -> None:
    require_tools("arm-none-eabi-gcc")
    prefix = project.folder / "venv"
    tool = write_program(prefix / "bin" / "tvm-stm32", project.log)
    shutil.copytree(CMAKE_DIR, prefix / "share" / "cmake" / "tvm_stm32")
    project.write("toolchain.cmake", TOOLCHAIN)
    hidden = "set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM ONLY)\n"  # CMake needs its own tools first
    project.write("CMakeLists.txt", project_text(hidden + NETWORK))
    # As the package's folder is given, and as an active environment gives it to toolchains that leave packages alone.
    place = f"-Dtvm_stm32_DIR={prefix}/share/cmake/tvm_stm32"
    project.configure("--toolchain", "toolchain.cmake", place, own_tool=False)
    assert generator_of(project) == f"{tool} --resident"
    project.write("toolchain.cmake", TOOLCHAIN.replace("MODE_PACKAGE ONLY", "MODE_PACKAGE BOTH"))
    project.variables["PATH"] = os.pathsep.join(
        [str(tool.parent), os.environ["PATH"], str(Path(sys.executable).parent)]
    )
    shutil.rmtree(project.path("b"))
    project.configure("--toolchain", "toolchain.cmake", own_tool=False, package=False)
    assert generator_of(project) == f"{tool} --resident"


def test_an_installed_package_uses_its_own_generator(project: CMakeProject) -> None:
    prefix = project.folder / "venv"
    tool = write_program(prefix / "bin" / "tvm-stm32", project.log)
    data = prefix / "lib" / "python3.11" / "site-packages" / "tvm_stm32" / "_data" / "cmake"
    shutil.copytree(CMAKE_DIR, data)
    other = write_program(project.folder / "bin" / "tvm-stm32", project.log)
    project.variables["PATH"] = os.pathsep.join(
        [str(other.parent), os.environ["PATH"], str(Path(sys.executable).parent)]
    )
    project.write("CMakeLists.txt", project_text(NETWORK))
    project.configure(f"-Dtvm_stm32_DIR={data}", own_tool=False)
    assert generator_of(project) == f"{tool} --resident"


def test_one_file_in_the_project_is_enough(project: CMakeProject) -> None:
    tool = write_program(project.folder / "bin" / "tvm-stm32", project.log)
    project.variables["PATH"] = os.pathsep.join(
        [str(tool.parent), os.environ["PATH"], str(Path(sys.executable).parent)]
    )
    shutil.copy(CMAKE_DIR / "tvm_stm32.cmake", project.folder)
    project.write(
        "CMakeLists.txt",
        project_text(NETWORK).replace("find_package(tvm_stm32 CONFIG REQUIRED)", "include(tvm_stm32.cmake)"),
    )
    project.configure(own_tool=False)
    assert generator_of(project) == f"{tool} --resident"


def test_the_repository_as_a_folder_or_fetched(project: CMakeProject, tmp_path: Path) -> None:
    copy = tmp_path / "tvm-stm32"
    copy_tools(copy)
    shutil.copytree(REPOSITORY / "cmake", copy / "cmake")
    shutil.copy(REPOSITORY / "CMakeLists.txt", copy)
    head = "find_package(tvm_stm32 CONFIG REQUIRED)"
    fetch = f"FetchContent_Declare(tvm_stm32 SOURCE_DIR {copy})\nFetchContent_MakeAvailable(tvm_stm32)"
    fetch = f"include(FetchContent)\n{fetch}"
    for taken in (f"add_subdirectory({copy} tvm)", fetch):
        project.write("CMakeLists.txt", project_text(NETWORK).replace(head, taken))
        project.configure(f"-DTVM_STM32_PYTHON={sys.executable}", own_tool=False)
        assert generator_of(project) == f"{sys.executable} {copy}/tvm_stm32/__main__.py --resident"


MISTAKES = {
    "tvm_stm32_add_model(tiny CPU host)": (
        "tvm_stm32_add_model(tiny): there is no MODEL",
        "try: MODEL models/tiny.tflite",
    ),
    "tvm_stm32_add_model(tiny MODEL gone.onnx CPU host)": ("MODEL: there is no file 'gone.onnx'", "try: a path from"),
    "tvm_stm32_add_model(tiny MODEL tiny.onnx)": ("there is neither BOARD nor CPU", "set(TVM_STM32_CPU cortex-m4)"),
    "tvm_stm32_add_model(tiny MODEL tiny.onnx CPU host BOARD b)": ("BOARD and CPU are given both", "try: give one"),
    "tvm_stm32_add_model(tiny MODEL tiny.onnx CPU host LEVEL fast)": ("LEVEL is 'fast'", "one of: time, balanced"),
    "tvm_stm32_add_model(tiny MODEL tiny.onnx CPU host LEVELS ram)": ("'LEVELS' is no keyword", "one of: MODEL, NAME"),
    "tvm_stm32_add_model(tiny MODEL tiny.onnx CPU host NAME)": ("NAME has no value", "leave it out"),
    "tvm_stm32_add_model(my-net MODEL tiny.onnx CPU host)": ("'my-net' is no C name", "NAME with another one"),
    "tvm_stm32_add_model(tiny MODEL tiny.onnx CPU host POOLS no.yaml)": (
        "POOLS: there is no file 'no.yaml'",
        "path from",
    ),
    "tvm_stm32_add_model(tiny MODEL a:b.onnx CPU host)": ("MODEL is 'a:b.onnx'", "another name"),
    "tvm_stm32_add_model(.. MODEL tiny.onnx CPU host NAME tiny)": ("'..' is no name of a target", "letters, digits"),
    'tvm_stm32_add_model("a;b" MODEL tiny.onnx CPU host NAME tiny)': (
        "'a;b' is no name of a target",
        "letters, digits",
    ),
    'tvm_stm32_add_model("" MODEL tiny.onnx CPU host NAME tiny)': ("'' is no name of a target", "letters, digits"),
    "tvm_stm32_add_model(ai_runtime MODEL tiny.onnx CPU host)": ("is the library of the runtime", "another name"),
    "tvm_stm32_add_model(tiny MODEL tiny.onnx CPU host OPTIONS --name=x)": ("OPTIONS has '--name=x'", "keyword NAME"),
    "tvm_stm32_add_model(tiny MODEL tiny.onnx CPU host OPTIONS --c-api ai)": ("OPTIONS has '--c-api'", "keyword C_API"),
    "tvm_stm32_add_model(tiny MODEL tiny.onnx CPU host OPTIONS -o ../x)": ("OPTIONS has '-o'", "leave it out"),
    "tvm_stm32_add_model(tiny MODEL tiny.onnx CPU host OPTIONS --help)": ("OPTIONS has '--help'", "leave it out"),
    "add_custom_target(tiny)\n" + NETWORK: ("there is a target 'tiny' already", "another name"),
    NETWORK: ("the project has no language C", "LANGUAGES C"),
    "tvm_stm32_add_arena(a NETWORKS other)": ("'other' is no network", "tvm_stm32_add_model made before"),
    "tvm_stm32_add_arena(a-b NETWORKS other)": ("the target's name is no C name", "letters, digits"),
    "tvm_stm32_add_runtime(C_API cube)": ("C_API is 'cube'", "one of: ai, x-cube-ai, st-ai"),
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_one_message(text: str, project: CMakeProject) -> None:
    project.write("CMakeLists.txt", project_text(text, languages="NONE"))
    output = project.configure(fails=True)
    for part in MISTAKES[text]:
        assert part in output
    assert "  try: " in output


def test_what_links_nothing_gets_no_network(project: CMakeProject) -> None:
    model = "tvm_stm32_add_model(tiny MODEL tiny.onnx CPU host LINK_TO all_tests)"
    project.write("CMakeLists.txt", project_text(f"add_custom_target(all_tests)\n{model}"))
    assert "LINK_TO 'all_tests' is a custom target" in project.configure(fails=True)


def test_an_alias_is_the_target_it_stands_for(project: CMakeProject) -> None:
    project.write(
        "CMakeLists.txt",
        project_text("""
add_executable(app main.c)
add_executable(p::app ALIAS app)
tvm_stm32_add_model(tiny MODEL tiny.onnx CPU host LINK_TO p::app)
add_library(p::tiny ALIAS tiny)
tvm_stm32_add_arena(arena NETWORKS p::tiny)
get_target_property(libraries app LINK_LIBRARIES)
get_target_property(group tiny TVM_STM32_ARENA)
message(STATUS "app links ${libraries}, tiny is in ${group}")
"""),
    )
    project.write("main.c", "int main(void) { return 0; }")
    assert "app links tiny, tiny is in arena" in project.configure()


def test_a_missing_generator_is_one_message(project: CMakeProject) -> None:
    shutil.copy(CMAKE_DIR / "tvm_stm32.cmake", project.folder)
    head = "find_package(tvm_stm32 CONFIG REQUIRED)"
    text = project_text(NETWORK, languages="NONE").replace(
        head,
        "set(CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH FALSE)\nset(CMAKE_SYSTEM_PREFIX_PATH)\ninclude(tvm_stm32.cmake)",
    )
    project.write("CMakeLists.txt", text)
    output = project.configure(own_tool=False, fails=True)
    assert "the program tvm-stm32 was not found" in output
    assert "-DTVM_STM32_COMMAND=" in output


def test_the_folder_of_the_package_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["tvm-stm32", "--cmake-dir"])
    with pytest.raises(SystemExit, match="0"):
        main()
    assert (Path(capsys.readouterr().out.strip()) / "tvm_stm32-config.cmake").is_file()


def test_a_name_that_would_be_changed_is_refused(project: CMakeProject) -> None:
    output = project.run(
        *project.command, "compile", "tiny.onnx", "-o", "net", "--name", "float", "--stamp", "s", fails=True
    )
    assert output.startswith("error: --name: 'float' is no C name of a network\n  try: net_float")
