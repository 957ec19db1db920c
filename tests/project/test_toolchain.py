"""Finding the compiler, the emulator and the host's compiler, and saying what is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tvm_stm32 import doctor, toolchain
from tvm_stm32.errors import ToolchainError
from tvm_stm32.resources import resource_dir
from tvm_stm32.target import Target


def tool(folder: Path, name: str, output: str = "", code: int = 0) -> Path:
    """A program that prints ``output`` and exits with ``code``."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{output}'\nexit {code}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A computer with an empty PATH (the folder returned), no variables and no known folders."""
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    for variable in (toolchain.GCC_VARIABLE, toolchain.QEMU_VARIABLE, "CC"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(toolchain, "_GCC_FOLDERS", ((str(tmp_path / "opt"), "*/bin"),))
    monkeypatch.setattr(toolchain, "_QEMU_FOLDERS", ())
    return folder


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("find", [toolchain.find_gcc, toolchain.find_qemu, toolchain.find_host_cc])
def test_a_missing_tool_says_how_to_get_it(find, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(ToolchainError, match="apt-get install --no-install-recommends"):
        find()
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ToolchainError, match=r"brew|xcode-select"):
        find()
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(ToolchainError, match="winget"):
        find()


def test_the_variable_wins_over_path_and_path_over_folders(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older = tool(bare.parent / "opt" / "gcc-9.3" / "bin", "arm-none-eabi-gcc")
    newer = tool(bare.parent / "opt" / "gcc-13.2" / "bin", "arm-none-eabi-gcc")
    assert toolchain.find_gcc() == newer != older
    on_path = tool(bare, "arm-none-eabi-gcc")
    assert toolchain.find_gcc() == on_path
    mine = tool(bare.parent / "mine" / "bin", "arm-none-eabi-gcc")
    for value in (mine, mine.parent, mine.parent.parent):
        monkeypatch.setenv(toolchain.GCC_VARIABLE, str(value))
        assert toolchain.find_gcc() == mine


def test_a_variable_that_points_nowhere_is_an_error(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(bare, "qemu-system-arm")
    monkeypatch.setenv(toolchain.QEMU_VARIABLE, str(bare / "nothing"))
    with pytest.raises(ToolchainError, match=r"QEMU_SYSTEM_ARM is '.*nothing'[\s\S]*unset QEMU_SYSTEM_ARM"):
        toolchain.find_qemu()


def test_cc_is_preferred_and_may_have_flags(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gcc = tool(bare, "gcc")
    assert toolchain.find_host_cc() == gcc
    mine = tool(bare, "mycc")
    monkeypatch.setenv("CC", "mycc -m64")
    assert toolchain.find_host_cc() == mine


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("arm-none-eabi-gcc (15:12.2.rel1-1) 12.2.1 20221205", "12.2.1"),
        ("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)", "7.2.22"),
        ("Debian clang-format version 14.0.6", "14.0.6"),
        ("something else", "something else"),
    ],
)
def test_versions_are_read_from_what_tools_print(line: str, version: str, bare: Path) -> None:
    assert toolchain.version_of(tool(bare, "x", line)) == version


def test_a_broken_tool_is_an_error(bare: Path) -> None:
    with pytest.raises(ToolchainError, match="failed with exit code 3"):
        toolchain.version_of(tool(bare, "x", code=3))
    with pytest.raises(ToolchainError, match="cannot run"):
        toolchain.version_of(bare / "nothing")
    with pytest.raises(ToolchainError, match="cannot build a program for cortex-m4"):
        toolchain.probe_link(tool(bare, "arm-none-eabi-gcc", code=1), Target.for_cpu("cortex-m4"))


def test_a_tool_that_never_ends_is_an_error() -> None:
    with pytest.raises(ToolchainError, match=r"did not end within 0\.2 s"):
        toolchain.run_tool([sys.executable, "-c", "import time; time.sleep(60)"], timeout_s=0.2)


@pytest.mark.parametrize("cpu", ["cortex-m0", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55"])
def test_the_compiler_here_links_for_every_core(cpu: str) -> None:
    toolchain.probe_link(toolchain.find_gcc(), Target.for_cpu(cpu))


def test_binutils_are_beside_the_compiler(bare: Path) -> None:
    gcc = tool(bare, "arm-none-eabi-gcc")
    with pytest.raises(ToolchainError, match=r"arm-none-eabi-objcopy is missing beside"):
        toolchain.tool_beside(gcc, "objcopy")
    objcopy = tool(bare, "arm-none-eabi-objcopy")
    assert toolchain.tool_beside(gcc, "objcopy") == objcopy


def test_doctor_lists_every_tool_and_succeeds_here() -> None:
    lines: list[str] = []
    assert doctor.run_doctor(lines.append) == 0
    text = "\n".join(lines)
    for name in ("python", "apache-tvm", "scons", "arm-none-eabi-gcc", "newlib", "qemu-system-arm", "host C compiler"):
        assert name in text
    assert "missing" not in text


@pytest.mark.usefixtures("bare")
def test_doctor_says_what_is_missing() -> None:
    lines: list[str] = []
    assert doctor.run_doctor(lines.append) == 1
    text = "\n".join(lines)
    assert "arm-none-eabi-gcc is missing" in text
    assert "qemu-system-arm is missing" in text
    assert toolchain.install_hint("gcc") in text


def test_doctor_does_not_import_tvm() -> None:
    code = "import sys, tvm_stm32.doctor as d; d.run_checks(); sys.exit('tvm' in sys.modules)"
    done = toolchain.run_tool([sys.executable, "-c", code], cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr


def test_a_missing_package_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_PACKAGES", ("no-such-package-of-ours",))
    lines: list[str] = []
    assert doctor.run_doctor(lines.append) == 1
    assert "pip install 'no-such-package-of-ours'" in "\n".join(lines)


@pytest.mark.parametrize("name", ["boards", "runtime"])
def test_resources_are_found_in_a_checkout(name: str) -> None:
    assert resource_dir(name).is_dir()  # type: ignore[arg-type]
