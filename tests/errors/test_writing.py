"""Full disks, folders that refuse, and processes that end in the middle."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import ROOT
from tflite_builder import dense

from tvm_stm32.errors import Error
from tvm_stm32.files import write_atomically

DIGITS = ROOT / "examples" / "digits" / "digits_int8.onnx"
WRITER = """
import os, sys, time
from pathlib import Path
from tvm_stm32 import files
folder = Path(sys.argv[1])
replace = Path.replace
def slow(self, target):
    print("renaming", flush=True)
    time.sleep(60 if target.name == "b.c" else 0)
    return replace(self, target)
Path.replace = slow
files.write_atomically({folder / "a.c": "new", folder / "b.c": "new"})
"""


@pytest.fixture
def full_disk(monkeypatch):
    """A disk that takes no more than some bytes of a file."""
    real = os.fdopen

    def opened(descriptor, *arguments):
        stream = real(descriptor, *arguments)

        class Limited:
            def __enter__(self):
                return self

            def __exit__(self, *_):
                stream.close()

            def write(self, data):
                stream.write(data[:100])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        return Limited()

    monkeypatch.setattr("tvm_stm32.files.os.fdopen", opened)


@pytest.mark.usefixtures("full_disk")
def test_full_disk_leaves_the_old_files(refused, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "digits_int8.c").write_text("old")
    message = refused("compile", DIGITS, "-o", folder)
    assert "No space left on device" in message and "digits_int8" in message
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"digits_int8.c": "old"}


@pytest.mark.skipif(sys.platform == "win32", reason="no such limit")
def test_file_size_limit_of_the_system(tmp_path):
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096));"
        "sys.argv[0] = 'tvm-stm32'; from tvm_stm32.cli import main; main()"
    )
    out = tmp_path / "out"
    out.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code, "compile", DIGITS, "-o", out],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "error: cannot write" in done.stderr and "File too large" in done.stderr
    assert list(out.iterdir()) == []


def test_full_disk_while_a_program_is_built(refused, tmp_path, monkeypatch):
    def full(*_arguments, **_options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "input.bin")

    monkeypatch.setattr("tvm_stm32.project.firmware.Path.mkdir", full)
    (tmp_path / "m.tflite").write_bytes(dense().build())
    assert "No space left on device" in refused("run", tmp_path / "m.tflite", "--board", "host")


def test_file_in_the_way_of_the_folder(refused, tmp_path):
    (tmp_path / "out").write_text("mine")
    message = refused("compile", DIGITS, "-o", tmp_path / "out")
    assert "cannot make the folder" in message
    assert (tmp_path / "out").read_text() == "mine"
    assert "cannot make the folder" in refused("compile", DIGITS, "-o", tmp_path / "out" / "below")


def test_folder_in_the_way_of_a_file_changes_no_other(tmp_path):
    (tmp_path / "a.c").write_text("old")
    (tmp_path / "b.c").mkdir()
    with pytest.raises(Error, match=r"b\.c"):
        write_atomically({tmp_path / "a.c": "new", tmp_path / "b.c": "new"})
    assert (tmp_path / "a.c").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.c", "b.c"]


def test_result_that_nobody_can_take(tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tvm_stm32", "inspect", DIGITS],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "error: cannot read or write a file: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_process_killed_between_two_files_leaves_no_mixture(tmp_path):
    for name in ("a.c", "b.c"):
        (tmp_path / name).write_text("old")
    process = subprocess.Popen([sys.executable, "-c", WRITER, tmp_path], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process:
        for _ in range(2):
            assert process.stdout.readline() == "renaming\n"
        process.kill()
    visible = {path.name: path.read_text() for path in tmp_path.iterdir() if not path.name.startswith(".")}
    assert visible == {"a.c": "new"}


def test_terminated_compile_leaves_nothing(tmp_path):
    out, scratch = tmp_path / "out", tmp_path / "scratch"
    scratch.mkdir()
    code = (
        "import sys, time; import tvm_stm32.files as files, tvm_stm32.cli as cli; from pathlib import Path;"
        "Path.replace = lambda *_: (print('now', flush=True), time.sleep(60)); sys.argv[0] = 'tvm-stm32'; cli.main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "compile", DIGITS, "-o", out],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == "now\n"
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) != 0
    assert time.monotonic() - started < 10
    assert list(out.iterdir()) == []
    assert list(scratch.iterdir()) == []
