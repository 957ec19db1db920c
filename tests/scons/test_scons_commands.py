"""ModelReport and FlashFirmware: aliases beside RunFirmware."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from replayed import GENERATOR, TOOLPATH, generated, main_of, replayed_project
from scons_support import REPOSITORY, Project, require_tools

HEAD = f"""
env = Environment(tools=["default", "stm32_model", "stm32_firmware"], {TOOLPATH})
{GENERATOR}
"""


@pytest.fixture
def project(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Project:
    """A project with a model; nothing is in its SConstruct yet."""
    require_tools("gcc")
    project = replayed_project(tmp_path / "project", tmp_path_factory)
    project.write("main.c", main_of("model"))
    return project


def test_a_report_is_shown_whenever_it_is_asked_for(project: Project) -> None:
    project.write(
        "SConstruct", HEAD + 'env.ModelReport("report", env.TvmModel("net/kws", "model.onnx"))\nDefault("main.c")\n'
    )
    for expected in (["kws"], []):
        output = project.scons("report").output
        assert generated(project) == expected
        assert "multiply-accumulates  1,728" in output
        assert "Report: net/kws_report.txt" in output
    assert "multiply-accumulates" not in project.scons("-n", "report").output


def test_the_report_of_a_source_is_that_of_its_program(project: Project) -> None:
    project.write(
        "SConstruct",
        HEAD
        + 'env["TVMSTM32LEVEL"] = "ram"\nenv.Program("app", ["main.c", "model.onnx"])\n'
        + 'other = env.TvmModel("net/other", "model.onnx", LEVEL="size")\n'
        + 'env.ModelReport("report", ["model.onnx", other])\n',
    )
    project.scons()
    assert generated(project) == ["model", "other"]
    output = project.scons("report").output
    assert not generated(project)
    assert output.count("multiply-accumulates") == 2
    assert "other: " in output


def test_a_page_is_made_with_the_options_of_the_compile_once(project: Project) -> None:
    project.write(
        "SConstruct",
        HEAD
        + f"""
env["TVMSTM32"] = ["$(", "$PYTHON", {str(REPOSITORY / "tvm_stm32/__main__.py")!r}, "$)"]
network = env.TvmModel(
    "net/kws", "model.onnx", CPU="cortex-m7", LEVEL="size", WEIGHTS="external", ALIGNMENT=16, C_API="st-ai",
    TVMSTM32FLAGS=["--input-layout", "nhwc"],
)
env.ModelReport("report", network, HTML="net/kws.html")
""",
    )
    output = project.scons("report").output
    (line,) = [line for line in output.splitlines() if " inspect model.onnx" in line]
    assert line.endswith("--input-layout nhwc --html net/kws.html")
    page = project.path("net/kws.html").read_text(encoding="utf-8")
    assert "cortex-m7" in page
    assert " -O size " in line
    output = project.scons("report").output
    assert "inspect" not in output
    assert "multiply-accumulates" in output


def test_flashing_builds_the_image_and_runs_the_program_every_time(project: Project, tmp_path: Path) -> None:
    require_tools("arm-none-eabi-gcc")
    (tmp_path / "programs").mkdir()
    openocd = tmp_path / "programs/openocd"
    openocd.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path / "arguments"}\n', encoding="utf-8")
    openocd.chmod(0o755)
    project.write("main.c", "int main(void) { return 0; }\n")
    project.write(
        "SConstruct",
        HEAD
        + f"""
env.PrependENVPath("PATH", {str(tmp_path / "programs")!r})
image = env.Firmware("build/app.elf", ["main.c"], BOARD="nucleo-f446re", CONSOLE="uart")
emulated = env.Firmware("build/emulated.elf", ["main.c"], BOARD="nucleo-f446re")
env.FlashFirmware("flash", image, BOARD="nucleo-f446re", TOOL="openocd", SERIAL="0042")
env.FlashFirmware("flash-emulated", emulated, BOARD="nucleo-f446re")
Default(image)
""",
    )
    assert "by openocd" in project.scons("flash").output
    assert project.scons("-n", "flash").returncode == 0
    project.scons("flash")
    calls = (tmp_path / "arguments").read_text(encoding="utf-8").splitlines()
    assert len(calls) == 2
    assert "adapter serial 0042" in calls[0]
    assert "program {build/app.elf} verify reset exit" in calls[0]
    output = project.scons("flash-emulated", fails=True).output
    assert "error: emulated.elf: " in output
    assert "the image is linked for the emulator of nucleo-f446re" in output
    assert "flash" not in project.scons().output


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ('env.FlashFirmware("flash", "app.elf")', "needs a BOARD"),
        ('env.FlashFirmware("flash", ["a.elf", "b.elf"], BOARD="nucleo-f446re")', "2 images for 'flash'"),
        ('env.FlashFirmware("flash", "a.elf", BOARD="nucleo")', "unknown board 'nucleo'"),
        ('env.ModelReport("report", [])', "no network for 'report'"),
        ('env.ModelReport("report", "main.c")', "'main.c' is no network"),
        ('env.ModelReport("report", 3)', "'3' is no network"),
        (
            'n = env.TvmModel("n", "model.onnx")\nenv.ModelReport("report", [n, n], HTML="a.html")',
            "page of one network",
        ),
    ],
)
def test_mistakes_stop_with_the_users_line(project: Project, call: str, expected: str) -> None:
    project.write("SConstruct", HEAD + call + "\n")
    output = project.scons(fails=True).output
    assert expected in output
    assert "in: SConstruct, line" in output


def test_an_environment_without_a_path_generates_compiles_and_reports(project: Project) -> None:
    require_tools("arm-none-eabi-gcc")
    call = 'env.Firmware("build/app.elf", ["main.c", "model.onnx"], BOARD="mps2-an386")\n'
    project.write("SConstruct", HEAD + 'env["ENV"] = {}\n' + call + 'env.ModelReport("report", "model.onnx")\n')
    project.scons("build", "report")
    assert generated(project) == ["model", "model"]
    assert project.path("build/app.elf").is_file()
    assert project.scons("build").is_null


def test_the_python_that_runs_scons_need_not_have_tvm(project: Project, tmp_path: Path) -> None:
    (tmp_path / "without/tvm").mkdir(parents=True)
    (tmp_path / "without/tvm/__init__.py").write_text("raise RuntimeError('tvm was imported')\n", encoding="utf-8")
    python = tmp_path / "python with tvm"
    python.write_text(f'#!/bin/sh\nPYTHONPATH= exec {sys.executable} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    project.write(
        "SConstruct",
        f"""
env = Environment(tools=["default", "stm32_model"], {TOOLPATH}, PYTHON=[{str(python)!r}], ENV={dict(os.environ)!r})
env["ENV"]["PYTHONPATH"] = {str(tmp_path / "without")!r}
env.TvmModel("net/kws", "model.onnx")
""",
    )
    project.scons("net", variables={"PYTHONPATH": str(tmp_path / "without")})
    assert project.path("net/kws.c").is_file()
