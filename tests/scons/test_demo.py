"""The SConstruct of this repository."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from scons_support import REPOSITORY, Project, copy_tools, forbidding, require_tools, write_model

DIGITS = REPOSITORY / "examples/digits"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of what the demo needs."""
    if not (DIGITS / "digits_int8.relay").is_file():
        pytest.skip("examples/digits/digits_int8.relay does not exist")
    project = Project(tmp_path_factory.mktemp("demo") / "check out")
    copy_tools(project.folder)
    (project.folder / "examples/digits").mkdir(parents=True)
    for name in ("digits_int8.relay", "digits_test.npz"):
        shutil.copy(DIGITS / name, project.folder / "examples/digits")
    shutil.copy(REPOSITORY / "SConstruct", project.folder)
    return project


def test_the_null_build_of_the_demo_is_quick(repository: Project, tmp_path: Path) -> None:
    require_tools("arm-none-eabi-gcc")
    first = repository.scons()
    assert all(line.startswith(("  ", "digits_int8: ")) for line in first.output.splitlines()), first.output
    build = repository.scons(variables=forbidding(tmp_path / "barred", "tvm", "numpy", "jsonschema"))
    assert build.is_null, build.output
    assert build.cpu_s < 0.6


def test_clean_removes_the_build_folder(repository: Project) -> None:
    repository.scons("-c")
    assert not repository.path("build").exists()


def test_the_launcher_may_come_from_the_environment(repository: Project) -> None:
    require_tools("arm-none-eabi-gcc")
    for arguments, variables in ((["COMPILER_LAUNCHER=env"], {}), ([], {"COMPILER_LAUNCHER": "env"})):
        build = repository.scons("-n", "VERBOSE=1", *arguments, variables=variables)
        assert "\nenv arm-none-eabi-gcc -o " in build.output


def test_a_model_from_elsewhere_with_blanks_in_its_path_runs(repository: Project, tmp_path: Path) -> None:
    require_tools("arm-none-eabi-gcc", "qemu-system-arm", "cc")
    model = tmp_path / "my models/Key words.onnx"
    model.parent.mkdir()
    write_model(model)
    build = repository.scons("run", f"MODEL={model}", "BOARD=mps2-an386", "-j2")
    assert "every output byte equal" in build.output
    assert repository.path("build/mps2-an386/key_words/key_words.elf").is_file()


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("MODLE=net.tflite", "there is no variable 'MODLE'; try: MODEL"),
        ("BOARD=stm32f40", "unknown board 'stm32f40'"),
        ("BOARD=my/board.yaml", "board.yaml' does not exist"),
        ("LEVEL=fast", "'fast'. Valid values are: ('time', 'balanced', 'ram', 'size')"),
        ("MODEL=none.tflite", "`none.tflite' not found"),
    ],
)
def test_a_wrong_argument_is_one_message(repository: Project, argument: str, message: str) -> None:
    assert message in repository.scons(argument, fails=True).output
