"""Builds that fail: one clear message, no traceback, and nothing that a later build takes for good."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
from scons_support import HEAD, Project, built_once, require_tools, write_model, write_replay

SUFFIXES = (".c", ".h", "_data.c", "_data.h", "_report.json", "_report.txt", ".cmake", ".mk")


@pytest.fixture
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A built project; read only."""
    return built_once(tmp_path_factory)


@pytest.fixture
def project(built: Project, tmp_path: Path) -> Project:
    """A copy of it."""
    return built.copy_to(tmp_path / "project")


def test_a_killed_compile_is_done_again(project: Project, built: Project) -> None:
    generator = write_replay(project, built)
    project.write(
        "killed.py",
        f"""
import os, signal, sys

folder, name = (sys.argv[sys.argv.index(option) + 1] for option in ("-o", "--name"))
for suffix in {SUFFIXES!r}:
    with open(os.path.join(folder, name + suffix), "w") as stream:
        stream.write("half of a fi")
os.kill(os.getpid(), signal.SIGKILL)
""",
    )
    write_model(project.path("model.onnx"), seed=2)
    project.scons("GENERATOR=killed.py", fails=True)
    build = project.scons(f"GENERATOR={generator}")
    assert build.of("MODEL") == ["tiny"]
    assert project.path("build/net/tiny.c").read_bytes() == built.path("build/net/tiny.c").read_bytes()


def test_a_killed_compile_is_not_taken_for_the_model_before_it(project: Project, built: Project) -> None:
    # SCons remembers what a target was made from before the failed build; files of that build must not pass for it.
    generator = write_replay(project, built)
    project.write(
        "killed.py",
        f"""
import os, signal, sys

folder, name = (sys.argv[sys.argv.index(option) + 1] for option in ("-o", "--name"))
for suffix in {SUFFIXES!r}:
    open(os.path.join(folder, name + suffix), "w").close()
os.kill(os.getpid(), signal.SIGKILL)
""",
    )
    good = project.path("model.onnx").read_bytes()
    write_model(project.path("model.onnx"), seed=2)
    project.scons("GENERATOR=killed.py", fails=True)
    project.path("model.onnx").write_bytes(good)
    assert project.scons(f"GENERATOR={generator}").of("MODEL") == ["tiny"]
    assert project.path("build/net/tiny.c").read_bytes() == built.path("build/net/tiny.c").read_bytes()


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of file sizes")
def test_a_full_disk_leaves_no_file_behind(project: Project) -> None:
    main = project.path("tools/tvm_stm32/__main__.py")
    project.write(
        "full.py",
        f"""
import resource, runpy, sys

resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
sys.argv[0] = {str(main)!r}
runpy.run_path({str(main)!r}, run_name="__main__")
""",
    )
    write_model(project.path("model.onnx"), seed=2)
    build = project.scons("GENERATOR=full.py", fails=True)
    assert "error: cannot write 'build/net/tiny" in build.output
    assert list(project.path("build/net").iterdir()) == []


def test_an_image_that_fails_its_check_never_passes_later(project: Project) -> None:
    script = project.path("app.ld").read_text(encoding="utf-8")
    # Links, but the core looks for its vectors at the start of the flash.
    project.edit("app.ld", "FLASH (rx)  : ORIGIN = 0x00000000", "FLASH (rx)  : ORIGIN = 0x00000400")
    build = project.scons(fails=True)
    assert "CHECK app.elf" in build.actions
    assert "error: " in build.output
    assert not project.path("build/app.elf").exists()
    assert "CHECK app.elf" in project.scons(fails=True).actions
    # Back to what SCons knows as built: the bad image would be up to date if it bore that name.
    project.write("app.ld", script)
    assert project.scons().of("CHECK") == ["app.elf"]
    assert project.scons().is_null


def test_an_unknown_board_is_one_message_with_the_users_line(project: Project) -> None:
    build = project.scons("BOARD=mps2-an38", fails=True)
    assert build.output.startswith("scons: *** unknown board 'mps2-an38'\n  try: one of: host, ")
    assert "in: SConstruct, line " in build.output


def test_a_bad_board_file_is_named_with_its_key(project: Project) -> None:
    project.write("my.yaml", "cpu: cortex-m9\n")
    assert "my.yaml: file: 'name' is a required property" in project.scons("BOARD=my.yaml", fails=True).output


def test_a_missing_model_is_named(project: Project) -> None:
    project.path("model.onnx").unlink()
    assert "`model.onnx' not found, needed by target `build/net/tiny.c'" in project.scons(fails=True).output


def test_a_corrupt_model_is_one_block(project: Project) -> None:
    project.path("model.onnx").write_bytes(b"\x00\x01")
    build = project.scons(fails=True)
    assert build.output.count("error: ") == 1
    assert "model.onnx" in build.output


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ('env.TvmModel("build/int", "model.onnx")', "'int' is no C name for a network\n  try: 'net_int'"),
        ('env.TvmModel("build/a", "model.onnx", CPU="cortex-m9")', "unknown CPU 'cortex-m9'"),
        ('env.TvmModel("build/a", "model.onnx", BOARD=board, CPU="cortex-m4")', "BOARD and CPU are given both"),
        ('env.TvmModel("build/a", ["model.onnx", "b.params"])', "weights of Relay go into PARAMS"),
        ('env.Firmware("build/a.elf", ["main.c"])', "'a.elf' needs a BOARD"),
        ('env.Firmware("build/a.elf", ["main.c"], BOARD="host")', "HostProgram makes programs for this computer"),
        ('env.RunFirmware("run", "a.elf", BOARD=board)', "'run' needs BOARD and REPORT"),
        ('Environment(tools=["stm32_firmware"], toolpath=env["toolpath"]).Firmware("a", [], BOARD=board)',
         "the environment has no C compiler and linker tools"),
    ],
)  # fmt: skip
def test_a_wrong_call_is_one_message(project: Project, call: str, message: str) -> None:
    project.write("SConstruct", HEAD + call + "\n")
    output = project.scons(fails=True).output
    assert message in output
    assert f"in: SConstruct, line {len(HEAD.splitlines()) + 1}" in output


def test_a_missing_compiler_stops_the_first_compile_and_nothing_else(project: Project, tmp_path: Path) -> None:
    require_tools("gcc")
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "gcc", "cp", "mv"):
        (folder / name).symlink_to(str(shutil.which(name)))
    variables = {"PATH": str(folder), "HOME": str(tmp_path), "ARM_NONE_EABI_GCC": ""}
    build = project.scons("build/app.elf", variables=variables, fails=True)
    assert build.output.count("arm-none-eabi-gcc was not found") == 1
    assert "try: " in build.output
    project.scons("build/net/tiny.c", variables=variables)
    project.scons("-c", variables=variables)


@pytest.mark.parametrize(
    "given, words",
    [
        ('FORMS="#1=rows"', "FORMS is no dictionary of operators and forms"),
        ("FORMS={1: 'rows'}", "FORMS is no dictionary of operators and forms"),
        ("FORMS={'conv': None}", "FORMS is no dictionary of operators and forms"),
        ('PINS=["input=AXI"]', "PINS is no dictionary of tensors and pools"),
        ("MAX_RAM=0", "MAX_RAM is 0"),
        ('MAX_RAM="32Q"', "MAX_RAM is '32Q'"),
        ('LEVEL="fast"', "LEVEL is 'fast'"),
        ("KERNELS=None", "KERNELS is None"),
        ("WEIGHTS='flash'", "WEIGHTS is 'flash'"),
        ("ALIGNMENT='x'", "ALIGNMENT is 'x'"),
        ("ALIGNMENT=None", "ALIGNMENT is None"),
        ("POOLS=5", "POOLS is 5"),
    ],
)
def test_a_keyword_of_the_wrong_kind_is_named(project: Project, given: str, words: str) -> None:
    project.write("SConstruct", HEAD + f'env.TvmModel("build/net/tiny", "model.onnx", CPU="cortex-m4", {given})\n')
    build = project.scons(fails=True)
    assert words in build.output and "Traceback" not in build.output


def test_names_of_operators_are_no_shell_commands(project: Project) -> None:
    forms = "FORMS={'#1': 'x', '$CC; touch evil; \"': 'y'}"
    project.write("SConstruct", HEAD + f'env.TvmModel("build/net/tiny", "model.onnx", CPU="cortex-m4", {forms})\n')
    build = project.scons(fails=True)
    assert not project.path("evil").exists()
    assert "--set '#1=x'" in build.output or '--set "#1=x"' in build.output, build.output


@pytest.mark.parametrize("call", ["None, CPU='host'", "'model.onnx', CPU=['host']"])
def test_a_model_or_cpu_of_the_wrong_kind_is_named(project: Project, call: str) -> None:
    project.write("SConstruct", HEAD + f'env.TvmModel("build/net/tiny", {call})\n')
    build = project.scons(fails=True)
    assert re.search("0 model files for 'tiny'|CPU is ..host", build.output)
    assert "in: SConstruct, line " in build.output


def test_a_misspelt_keyword_is_named(project: Project) -> None:
    project.edit("SConstruct", "BOARD=board, LEVEL", "BORD=board, LEVEL")
    build = project.scons(fails=True)
    assert "no keyword BORD" in build.output
    assert "BOARD" in build.output
