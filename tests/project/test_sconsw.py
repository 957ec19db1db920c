"""sconsw sets up once, repairs what is broken, installs or names what is missing, and then gets out of the way."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sconsw is a POSIX shell script")

SCONSW = Path(__file__).resolve().parents[2] / "sconsw"

# What the script itself runs; everything else on this computer is out of its sight.
COREUTILS = ("cat", "chmod", "cksum", "dirname", "env", "mkdir", "mv", "readlink", "rm", "sh", "sleep", "touch")

# Stands in for Python: makes a .venv whose pip "installs" SCons and whose scons prints its arguments.
PYTHON = r"""#!/bin/sh
case "$*" in
"-c import sys; sys.exit(sys.version_info < (3, 10))") exit ${OLD_PYTHON:-0} ;;
"-c import ensurepip, venv") [ -z "${NO_ENSUREPIP:-}" ] || [ -e "$LOG.venv" ] ;;
"-c import sys; print"*) echo 3.11 ;;
"-c import sysconfig"*) echo "${0%/bin/python}/lib/python3.11/site-packages" ;;
"-m venv "*)
    echo venv >>"$LOG"
    mkdir -p "$3/bin"
    cat "$0" >"$3/bin/python"
    chmod +x "$3/bin/python"
    ;;
"-m pip install "*)
    echo pip >>"$LOG"
    sleep ${SLOW_PIP:-0}
    [ -z "${BAD_PIP:-}" ] || exit 1
    mkdir -p "${0%/bin/python}/lib/python3.11/site-packages/SCons"
    touch "${0%/bin/python}/lib/python3.11/site-packages/SCons/__init__.py" "${0%/bin/python}/bin/scons"
    ;;
*/bin/scons*) shift; echo "scons runs: $*" ;;
*) echo "unexpected: $*" >&2; exit 99 ;;
esac
"""

APT = r"""#!/bin/sh
echo "apt-get $*" >>"$LOG"
case "$*" in
*venv*) touch "$LOG.venv" ;;
*arm*) for name in arm-none-eabi-gcc qemu-system-arm cc; do cat "$TRUE" >"$BIN/$name"; chmod +x "$BIN/$name"; done ;;
esac
"""

TRUE = "#!/bin/sh\necho /usr/lib/nano.specs\n"


class Computer:
    """A checkout and a PATH of its own."""

    def __init__(self, folder: Path) -> None:
        self.checkout = folder / "check out"
        self.bin = folder / "bin"
        self.log = folder / "log"
        self.checkout.mkdir()
        self.bin.mkdir()
        shutil.copy(SCONSW, self.checkout)
        (self.checkout / "requirements.lock").write_text("scons==4\n", encoding="utf-8")
        for name in COREUTILS:
            (self.bin / name).symlink_to(shutil.which(name) or "/missing")
        self.add("true", TRUE)
        self.add("python3", PYTHON)
        self.add("uname", "#!/bin/sh\necho Linux\n")
        self.add("id", "#!/bin/sh\necho 1000\n")
        for name in ("arm-none-eabi-gcc", "qemu-system-arm", "cc"):
            self.add(name, TRUE)

    def add(self, name: str, text: str) -> None:
        path = self.bin / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def environment(self, **more: str) -> dict[str, str]:
        return {
            "PATH": str(self.bin),
            "LOG": str(self.log),
            "BIN": str(self.bin),
            "TRUE": str(self.bin / "true"),
            "HOME": str(self.checkout),
            **more,
        }

    def run(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.checkout / "sconsw"), *arguments],
            env=self.environment(**more),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    @property
    def actions(self) -> list[str]:
        return self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []


@pytest.fixture
def computer(tmp_path: Path) -> Computer:
    return Computer(tmp_path)


def test_the_first_call_sets_up_and_the_second_only_runs(computer: Computer) -> None:
    first = computer.run("run", "BOARD=host", "two words")
    assert (first.returncode, first.stdout) == (0, "scons runs: run BOARD=host two words\n")
    assert "making .venv" in first.stderr
    second = computer.run("-j4")
    assert (second.stdout, second.stderr) == ("scons runs: -j4\n", "")
    assert computer.actions == ["venv", "pip"]


def test_the_checkouts_package_is_on_the_path_of_its_venv(computer: Computer) -> None:
    computer.run()
    path_file = next(computer.checkout.glob(".venv/lib/python*/site-packages/*.pth"))
    assert path_file.read_text(encoding="utf-8").strip() == str(computer.checkout)


BREAK: dict[str, Callable[[Path], object]] = {
    "lock": lambda root: (root / "requirements.lock").write_text("scons==5\n", encoding="utf-8"),
    "stamp": lambda root: (root / ".venv" / "sconsw.stamp").unlink(),
    "empty stamp": lambda root: (root / ".venv" / "sconsw.stamp").write_text("", encoding="utf-8"),
    "interpreter": lambda root: (root / ".venv" / "bin" / "python").unlink(),
    "dangling interpreter": lambda root: (
        (root / ".venv" / "bin" / "python").unlink(),
        (root / ".venv" / "bin" / "python").symlink_to("/nowhere/python3.9"),
    ),
    "packages": lambda root: shutil.rmtree(root / ".venv" / "lib"),
    "everything": lambda root: shutil.rmtree(root / ".venv"),
}


@pytest.mark.parametrize("damage", BREAK)
def test_what_is_broken_or_stale_is_made_again(damage: str, computer: Computer) -> None:
    computer.run()
    BREAK[damage](computer.checkout)
    again = computer.run("x")
    assert again.stdout == "scons runs: x\n"
    assert computer.actions == ["venv", "pip"] * 2
    computer.run()
    assert len(computer.actions) == 4


def test_a_moved_checkout_is_made_again(computer: Computer) -> None:
    computer.run()
    moved = computer.checkout.with_name("moved")
    computer.checkout.rename(moved)
    computer.checkout = moved
    assert computer.run("x").stdout == "scons runs: x\n"
    assert computer.actions == ["venv", "pip"] * 2


def test_another_interpreter_is_taken_when_asked_for(computer: Computer) -> None:
    computer.run()
    computer.add("python3.12", PYTHON)
    assert "with python3.12" in computer.run(PYTHON="python3.12").stderr
    assert computer.run(PYTHON="python3.12").stderr == ""


def test_a_failed_installation_is_tried_again(computer: Computer) -> None:
    failed = computer.run(BAD_PIP="1")
    assert failed.returncode == 1
    assert "pip could not install requirements.lock" in failed.stderr
    assert failed.stdout == ""
    assert computer.run("x").stdout == "scons runs: x\n"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_an_interrupted_set_up_is_repaired(how: signal.Signals, computer: Computer) -> None:
    process = subprocess.Popen(
        [str(computer.checkout / "sconsw")],
        env=computer.environment(SLOW_PIP="20"),
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    limit = time.monotonic() + 10
    while computer.actions != ["venv", "pip"] and time.monotonic() < limit:
        time.sleep(0.02)
    os.killpg(process.pid, how)
    process.wait(10)
    assert computer.run("x").stdout == "scons runs: x\n"
    assert not (computer.checkout / ".venv.lock").exists()


def test_two_calls_at_once_set_up_once(computer: Computer) -> None:
    calls = [
        subprocess.Popen(
            [str(computer.checkout / "sconsw"), "x"],
            env=computer.environment(SLOW_PIP="0.3"),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for _ in range(2)
    ]
    assert [call.communicate(timeout=30)[0] for call in calls] == ["scons runs: x\n"] * 2
    assert computer.actions == ["venv", "pip"]


def test_no_recent_python_is_said(computer: Computer) -> None:
    done = computer.run(OLD_PYTHON="1")
    assert done.returncode == 1
    assert "no Python 3.10 or newer (looked for PYTHON, python3, python3.10 to python3.14)" in done.stderr
    chosen = computer.run(OLD_PYTHON="1", PYTHON="python3")
    assert "PYTHON is 'python3', which is not Python 3.10 or newer" in chosen.stderr


def remove_tools(computer: Computer) -> None:
    for name in ("arm-none-eabi-gcc", "qemu-system-arm", "cc"):
        (computer.bin / name).unlink()


ALL_PACKAGES = "gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm gcc libc6-dev"


def test_root_installs_what_is_missing(computer: Computer) -> None:
    remove_tools(computer)
    computer.add("apt-get", APT)
    computer.add("id", "#!/bin/sh\necho 0\n")
    done = computer.run("x")
    assert done.stdout == "scons runs: x\n"
    assert computer.actions[-2:] == [
        "apt-get -q update",
        f"apt-get -q -y install --no-install-recommends {ALL_PACKAGES}",
    ]
    assert "to install" not in done.stderr
    assert computer.run().stderr == ""


def test_passwordless_sudo_installs_too(computer: Computer) -> None:
    (computer.bin / "qemu-system-arm").unlink()
    computer.add("apt-get", APT)
    computer.add("sudo", '#!/bin/sh\n[ "$1" = -n ] && shift\nexec "$@"\n')
    computer.run()
    assert computer.actions[-1].endswith("install --no-install-recommends qemu-system-arm")


def test_a_user_without_rights_gets_the_line_to_type(computer: Computer) -> None:
    remove_tools(computer)
    computer.add("apt-get", APT)
    computer.add("sudo", "#!/bin/sh\nexit 1\n")
    done = computer.run("x")
    assert done.stdout == "scons runs: x\n"
    assert "not found: arm-none-eabi-gcc, qemu-system-arm, C compiler" in done.stderr
    assert f"to install: sudo apt-get install --no-install-recommends {ALL_PACKAGES}\n" in done.stderr
    assert "apt-get" not in "".join(computer.actions)


@pytest.mark.parametrize(("system", "line"), [("Darwin", "brew install"), ("MINGW64_NT-10.0", "winget install")])
def test_other_systems_get_their_line(system: str, line: str, computer: Computer) -> None:
    remove_tools(computer)
    computer.add("uname", f"#!/bin/sh\necho {system}\n")
    assert f"to install: {line}" in computer.run().stderr


def test_tools_named_by_variables_are_found(computer: Computer) -> None:
    for name in ("arm-none-eabi-gcc", "qemu-system-arm"):
        (computer.bin / name).unlink()
    tools = computer.checkout / "tools" / "bin"
    tools.mkdir(parents=True)
    for name in ("arm-none-eabi-gcc", "qemu-system-arm"):
        shutil.copy(computer.bin / "true", tools / name)
    computer.run()
    done = computer.run(ARM_NONE_EABI_GCC=str(tools), QEMU_SYSTEM_ARM=str(tools / "qemu-system-arm"))
    assert done.stderr == ""
    assert "not found" in computer.run(ARM_NONE_EABI_GCC="/nowhere", QEMU_SYSTEM_ARM="/nowhere").stderr


def test_a_missing_venv_module_is_installed(computer: Computer) -> None:
    computer.add("apt-get", APT)
    computer.add("id", "#!/bin/sh\necho 0\n")
    done = computer.run("x", NO_ENSUREPIP="1")
    assert done.stdout == "scons runs: x\n"
    assert "apt-get -q -y install --no-install-recommends python3.11-venv" in computer.actions


def test_a_missing_venv_module_is_said(computer: Computer) -> None:
    done = computer.run(NO_ENSUREPIP="1")
    assert done.returncode == 1
    assert "cannot make virtual environments" in done.stderr
    assert "sudo apt-get install --no-install-recommends python3-venv" in done.stderr


def test_nothing_is_installed_when_told_not_to(computer: Computer) -> None:
    remove_tools(computer)
    computer.add("apt-get", APT)
    computer.add("id", "#!/bin/sh\necho 0\n")
    assert "to install" in computer.run(SCONSW_NO_INSTALL="1").stderr
    assert "apt-get" not in "".join(computer.actions)


def test_an_up_to_date_call_costs_little(computer: Computer) -> None:
    computer.run()
    times = []
    for _ in range(5):
        start = time.monotonic()
        computer.run()
        times.append(time.monotonic() - start)
    # The stand-in for scons is a shell script of its own; both together stay far below what one Python costs.
    assert min(times) < 0.05
