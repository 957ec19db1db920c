"""The process that stays: the same bytes, the caller's surroundings, and an end to everything."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner

from tvm_stm32.resident import client, wire
from tvm_stm32.resident.cli import resident_command

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "examples" / "digits" / "digits_int8.relay"
COMPILE = ("compile", str(MODEL), "-o", "out", "--name", "digits", "--no-runtime", "--cpu", "cortex-m4")

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


class Place:
    """A folder with a runtime folder of its own, so that no other process is met."""

    def __init__(self, folder: Path, runtime: Path) -> None:
        self.folder, self.runtime = folder, runtime

    def start(self, *arguments: str, stdout: int = subprocess.PIPE, **variables: str) -> subprocess.Popen[str]:
        """Run ``tvm-stm32`` in the folder."""
        return subprocess.Popen(
            [sys.executable, str(ROOT / "tvm_stm32"), *arguments],
            cwd=self.folder,
            env={**os.environ, "TVM_STM32_RESIDENT_DIR": str(self.runtime), "TVM_STM32_RESIDENT": "60", **variables},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, code: int = 0, **variables: str) -> str:
        """Standard output and error of a command that has to end with ``code``."""
        process = self.start(*arguments, **variables)
        output, errors = process.communicate(timeout=120)
        assert process.returncode == code, output + errors
        return output + errors

    def process(self) -> int | None:
        """The number of the process that stays."""
        words = self.run("resident").split()
        return int(words[1]) if words[0] == "process" else None


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder for sockets: their names are short."""
    with tempfile.TemporaryDirectory(prefix="tvm-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def place(tmp_path: Path, short: Path) -> Iterator[Place]:
    """A place whose process is ended behind the test."""
    here = Place(tmp_path, short)
    yield here
    here.run("resident", "--stop")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A place whose process has compiled, for tests that leave it alive."""
    with tempfile.TemporaryDirectory(prefix="tvm-", dir="/tmp") as runtime:
        here = Place(tmp_path_factory.mktemp("shared"), Path(runtime))
        here.run("--resident", *COMPILE)
        yield here
        here.run("resident", "--stop")


def until(happened: Callable[[], bool]) -> None:
    """Wait for it."""
    for _ in range(600):
        if happened():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen")


def lives(process: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


def children(process: int | None) -> list[int]:
    """Processes that a process has started."""
    return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


@contextlib.contextmanager
def full_pipe() -> Iterator[int]:
    """A pipe that nobody reads, so that a command never ends."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, bytes(4096))
    os.set_blocking(writer, True)
    yield writer
    os.close(writer)
    os.close(reader)


def files(folder: Path) -> dict[str, bytes]:
    """Contents by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_files_and_output_are_those_of_a_process_of_its_own(shared: Place) -> None:
    texts = [shared.run("--resident", *COMPILE) for _ in range(2)]
    resident = files(shared.folder / "out")
    assert shared.process() is not None
    assert shared.run("--resident", *COMPILE, TVM_STM32_RESIDENT="0") == texts[0] == texts[1]
    assert files(shared.folder / "out") == resident


def test_several_callers_at_once_share_one_process(shared: Place) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: shared.run("--resident", *COMPILE[:3], f"out{number}", *COMPILE[4:]), range(4)))
    (first, *others) = [files(shared.folder / f"out{number}") for number in range(4)]
    assert all(other == first for other in others)
    assert shared.run("resident").count("stays") == 1


def test_only_compiles_start_it(place: Place) -> None:
    place.run("--resident", "linker-script", "--board", "mps2-an386", "-o", "app.ld")
    assert place.process() is None
    place.run("--resident", *COMPILE)
    resident = place.process()
    script = (place.folder / "app.ld").read_bytes()
    place.run("--resident", "linker-script", "--board", "mps2-an386", "-o", "app.ld")
    assert (place.folder / "app.ld").read_bytes() == script
    assert place.process() == resident


def test_errors_and_exit_codes_arrive(shared: Place) -> None:
    assert "absent.onnx" in shared.run("--resident", "compile", "absent.onnx", "-o", "x", code=1)
    assert "No such option" in shared.run("--resident", "compile", "--absent", code=2)


def test_folder_and_umask_and_variables_are_the_callers(shared: Place) -> None:
    other = shared.folder / "other"
    other.mkdir()
    process = subprocess.run(
        f"umask 077 && {sys.executable} {ROOT / 'tvm_stm32'} --resident {' '.join(COMPILE)}",
        shell=True, cwd=other, check=True, stdout=subprocess.DEVNULL,
        env={**os.environ, "TVM_STM32_RESIDENT_DIR": str(shared.runtime), "TVM_STM32_RESIDENT": "60"},
    )  # fmt: skip
    assert process.returncode == 0
    assert (other / "out" / "digits.c").stat().st_mode & 0o777 == 0o600
    assert shared.run("resident").count("stays") == 1


def test_it_ends_when_nothing_was_asked_for_a_while(place: Place) -> None:
    place.run("--resident", *COMPILE, TVM_STM32_RESIDENT="0.5")
    until(lambda: place.process() is None)


def test_a_time_without_end_is_long(place: Place) -> None:
    for time_ in ("1e999", "1e12"):
        place.run("--resident", *COMPILE, TVM_STM32_RESIDENT=time_)
        assert place.process() is not None
        place.run("resident", "--stop")


def test_words_that_mean_something_to_it_are_ordinary_arguments(shared: Place) -> None:
    resident = shared.process()
    for word in ("--stop", "--process"):
        assert "No such option" in shared.run("--resident", word, code=2)
    assert shared.process() == resident


def test_closed_standard_streams(shared: Place) -> None:
    for closed in (">&-", "2>&-", "<&- >&- 2>&-"):
        shutil.rmtree(shared.folder / "out", ignore_errors=True)
        for variables in ({}, {"TVM_STM32_RESIDENT": "0"}):
            words = f"{sys.executable} {ROOT / 'tvm_stm32'} --resident {' '.join(COMPILE)} {closed}"
            environment = {**os.environ, "TVM_STM32_RESIDENT_DIR": str(shared.runtime), **variables}
            process = subprocess.run(words, shell=True, cwd=shared.folder, env=environment, capture_output=True)
            assert (process.returncode, process.stderr) == (0, b"")
        assert (shared.folder / "out" / "digits.c").is_file()


class Silent:
    """A socket that takes callers and never answers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / f"tvm-stm32-{os.geteuid()}"
        self.folder.mkdir(0o700)
        self.path = self.folder / "0123456789abcdef"
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(self.path))
        self.socket.listen(1)


def test_a_process_that_takes_nothing_is_left_alone(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = Silent(short)
    monkeypatch.setenv(wire.VARIABLE, "60")
    monkeypatch.setattr(client, "address", lambda: str(silent.path))
    monkeypatch.setattr(client, "_connection", lambda path, **_: client.connect(path, 0.2))
    client.run(["compile"])
    # The next caller starts another.
    assert not silent.path.exists()


def test_one_that_does_not_answer_is_shown(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = Silent(short)
    monkeypatch.setenv("TVM_STM32_RESIDENT_DIR", str(short))
    monkeypatch.setattr("tvm_stm32.resident.cli._PATIENCE_S", 0.2)
    assert f"{silent.path}: no answer" in CliRunner().invoke(resident_command).output
    # As many wait as may: connecting takes for ever as well.
    for _ in range(3):
        assert CliRunner().invoke(resident_command, ["--stop"]).exit_code == 0


def test_a_folder_by_a_relative_name_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    for name in ("run", str(tmp_path / "absent")):
        monkeypatch.setenv("TVM_STM32_RESIDENT_DIR", name)
        assert wire.address() is None
    assert not (tmp_path / "absent").exists()


def test_stop_ends_it_and_the_next_build_starts_another(place: Place) -> None:
    place.run("--resident", *COMPILE)
    first = place.process()
    assert first is not None
    assert f"process {first} ends" in place.run("resident", "--stop")
    until(lambda: not lives(first))
    place.run("--resident", *COMPILE)
    assert place.process() not in (None, first)


def test_a_caller_that_is_ended_takes_its_command_along(shared: Place) -> None:
    resident = shared.process()
    for number in (signal.SIGTERM, signal.SIGKILL):
        with full_pipe() as pipe:
            caller = shared.start("--resident", *COMPILE, stdout=pipe)
            until(lambda: len(children(resident)) == 1)
            caller.send_signal(number)
            caller.wait()
            until(lambda: not children(resident))
    assert shared.process() == resident


@pytest.mark.skipif(sys.platform != "linux", reason="no other system tells a process of its parent's end")
def test_a_process_that_is_killed_takes_its_commands_along(place: Place) -> None:
    place.run("--resident", *COMPILE)
    resident = place.process()
    assert resident is not None
    with full_pipe() as pipe:
        caller = place.start("--resident", *COMPILE, stdout=pipe)
        until(lambda: len(children(resident)) == 1)
        (command,) = children(resident)
        os.kill(resident, signal.SIGKILL)
        until(lambda: not lives(command))
        caller.kill()
        caller.wait()


def test_a_process_that_was_killed_is_replaced(place: Place) -> None:
    place.run("--resident", *COMPILE)
    first = place.process()
    assert first is not None
    os.kill(first, signal.SIGKILL)
    until(lambda: not lives(first))
    place.run("--resident", *COMPILE)
    assert place.process() not in (None, first)


def test_no_socket_in_a_folder_that_others_may_enter(place: Place) -> None:
    place.run("--resident", *COMPILE)
    (folder,) = place.runtime.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    place.run("resident", "--stop")
    folder.chmod(0o755)
    place.run("--resident", *COMPILE)
    assert not [path for path in folder.iterdir() if path.is_socket()]
    folder.chmod(0o700)


def test_an_edited_package_is_read_again(place: Place) -> None:
    from scons.scons_support import copy_tools

    copy_tools(place.folder / "tools")
    package = place.folder / "tools" / "tvm_stm32"

    def compiled() -> bytes:
        subprocess.run(
            [sys.executable, str(package), "--resident", *COMPILE], cwd=place.folder, check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "TVM_STM32_RESIDENT_DIR": str(place.runtime), "TVM_STM32_RESIDENT": "60"},
        )  # fmt: skip
        return (place.folder / "out" / "digits.c").read_bytes()

    before = compiled()
    path = package / "__init__.py"
    path.write_text(path.read_text(encoding="utf-8").replace('"0.1.0"', '"0.1.1"'), encoding="utf-8")
    after = compiled()
    assert b"0.1.0" in before
    assert after == before.replace(b"0.1.0", b"0.1.1")


def test_requests_that_are_none_are_dropped(shared: Place) -> None:
    (path,) = [path for path in next(shared.runtime.iterdir()).iterdir() if path.is_socket()]
    for text in (b"", b"\0", b"\xff\xff\xff\xff", b"\0\0\0\1"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            connection.sendall(text)
            connection.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionError):
                assert connection.recv(10) == b""
    assert shared.process() is not None
