"""Which Python generates the networks of a PlatformIO project."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tvm_stm32.errors import ToolchainError
from tvm_stm32.platformio.interpreter import find_python


def program(path: Path, text: str = "#!/bin/sh\n") -> str:
    """Make a program."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def environment(prefix: Path, *, tvm: bool = True) -> str:
    """Make what looks like a virtual environment; its Python."""
    packages = prefix / "lib" / "python3.12" / "site-packages"
    (packages / ("apache_tvm-0.27.0.dist-info" if tvm else "click-8.1.dist-info")).mkdir(parents=True)
    return program(prefix / "bin" / "python3")


@pytest.fixture(autouse=True)
def without_tvm_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """PlatformIO's own Python, which has no TVM."""
    monkeypatch.setattr(sys, "executable", environment(tmp_path / "penv", tvm=False))


def find(tmp_path: Path, package: Path | None = None, setting: str = "", **variables: str) -> str:
    """What is found for a project beside a checkout, with nothing in PATH unless that is a variable."""
    names = {"PATH": str(tmp_path / "empty"), **variables}
    return find_python(setting, tmp_path / "project", package or tmp_path / "checkout" / "tvm_stm32", names)


def test_the_setting_comes_first_and_is_from_the_project(tmp_path: Path) -> None:
    mine = environment(tmp_path / "project" / "venv", tvm=False)
    other = environment(tmp_path / "other")
    assert find(tmp_path, setting="venv/bin/python3", TVM_STM32_PYTHON=other) == mine
    assert find(tmp_path, setting=other) == other
    assert find(tmp_path, setting="python3", PATH=str(Path(other).parent)) == other


def test_then_the_variable(tmp_path: Path) -> None:
    environment(tmp_path / "checkout" / ".venv")
    other = environment(tmp_path / "other", tvm=False)
    assert find(tmp_path, TVM_STM32_PYTHON=other) == other
    with pytest.raises(ToolchainError, match="TVM_STM32_PYTHON: there is no program 'nowhere'"):
        find(tmp_path, TVM_STM32_PYTHON="nowhere")


def test_then_the_environment_of_the_package(tmp_path: Path) -> None:
    python = environment(tmp_path / "env", tvm=False)
    path = str(Path(environment(tmp_path / "other")).parent)
    package = tmp_path / "env/lib/python3.12/site-packages/tvm_stm32"
    assert find(tmp_path, package, PATH=path) == python
    # A prefix may have several Pythons.
    python = program(tmp_path / "env" / "bin" / "python3.12")
    assert find(tmp_path, package, PATH=path) == python


def test_then_that_of_the_checkout(tmp_path: Path) -> None:
    python = environment(tmp_path / "checkout" / ".venv")
    path = str(Path(environment(tmp_path / "other")).parent)
    assert find(tmp_path, PATH=path) == python


def test_an_environment_without_tvm_is_passed_over(tmp_path: Path) -> None:
    environment(tmp_path / "checkout" / ".venv", tvm=False)
    python = environment(tmp_path / "other")
    assert find(tmp_path, PATH=str(Path(python).parent)) == python


def test_a_linked_command_leads_to_its_environment(tmp_path: Path) -> None:
    python = environment(tmp_path / "pipx" / "tvm-stm32")
    script = program(tmp_path / "pipx" / "tvm-stm32" / "bin" / "tvm-stm32")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tvm-stm32").symlink_to(script)
    assert find(tmp_path, PATH=str(tmp_path / "bin")) == python


def test_the_first_line_of_the_command_is_the_last_resort(tmp_path: Path) -> None:
    python = program(tmp_path / "usr" / "bin" / "python3.12")
    program(tmp_path / "local" / "bin" / "tvm-stm32", f"#!{python}\nimport sys\n")
    assert find(tmp_path, PATH=str(tmp_path / "local" / "bin")) == python


def test_with_none_one_message_says_what_to_do(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "tvm-stm32", "#!/bin/sh\n")
    with pytest.raises(ToolchainError) as error:
        find(tmp_path, PATH=str(tmp_path / "bin"))
    assert str(error.value).startswith("no Python with TVM was found\n  because: ")
    assert "custom_tvm_python = /path/of/its/python in platformio.ini" in str(error.value)
