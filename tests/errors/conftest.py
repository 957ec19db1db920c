"""The command, run in this process: what it says, its exit code, and that it leaves nothing behind."""

from __future__ import annotations

import gc
import importlib
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tvm_stm32 import cli


@dataclass(frozen=True)
class Finished:
    """A finished command: exit code and its two outputs."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="session", autouse=True)
def _quick_collection() -> None:
    """The command collects garbage after an error; what TVM's import made is none and need not be looked at."""
    importlib.import_module("tvm.relax.frontend.tflite")
    importlib.import_module("tvm.relax.frontend.onnx")
    gc.collect()
    gc.freeze()


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files during a test."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Finished]]:
    """``tvm-stm32`` with arguments."""
    handler = signal.getsignal(signal.SIGTERM)

    def run(*arguments: object) -> Finished:
        monkeypatch.setattr(sys, "argv", ["tvm-stm32", *map(str, arguments)])
        # Objects that tests before this one left behind may log when they go.
        gc.collect()
        capfd.readouterr()
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        out, err = capfd.readouterr()
        return Finished(code, out, err)

    yield run
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture
def refused(command: Callable[..., Finished], scratch: Path) -> Callable[..., str]:
    """A command that must fail as promised; returns its message."""

    def run(*arguments: object, code: int = 1) -> str:
        done = command(*arguments)
        assert done.code == code, done.err
        assert done.out == ""
        assert done.err.startswith("error: " if code == 1 else "Usage: ")
        assert "Traceback" not in done.err
        assert "/project/src" not in done.err  # TVM's own log
        assert len(done.err) < 2000
        assert list(scratch.iterdir()) == []
        return done.err

    return run


@pytest.fixture
def refused_model(refused: Callable[..., str], tmp_path: Path) -> Callable[..., str]:
    """The message about a model file of that content, which must name the file and leave the output folder absent."""

    def run(name: str, content: bytes, *arguments: object) -> str:
        (tmp_path / name).write_bytes(content)
        message = refused("compile", tmp_path / name, "-o", tmp_path / "out", *arguments)
        assert name in message
        assert not (tmp_path / "out").exists()
        return message

    return run
