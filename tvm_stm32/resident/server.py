"""The process that stays: it imports, and forks a child for every command."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import selectors
import signal
import socket
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..generator import package_records
from ..own_process import NotHere, claim, leave_out_torch
from .wire import PROCESS, STOP, YOURSELF, Request, idle_seconds

_OURS = ("tvm_stm32", "cmsis_packs")
_KEPT = (*_OURS, "elftools", "jinja2", "jsonschema", "onnx", "referencing", "tflite", "yaml")
"""Packages that stay imported once a command needed them, TVM aside."""
_REQUEST_S = 10.0


def serve(path: str, listener: int) -> None:
    """Serve commands of callers that connect to ``listener``, with address ``path``, until none came for a while."""
    os.setsid()
    sys.path[:] = [str(Path(place).absolute()) for place in sys.path]
    os.chdir("/")
    # What the caller's own caller left open; a build may wait for its end.
    for descriptor in map(int, os.listdir("/dev/fd")):  # noqa: PTH208 - numbers
        with contextlib.suppress(OSError):
            if descriptor > listener:
                os.close(descriptor)
    claim()
    gc.disable()
    with socket.socket(fileno=listener) as accepting:
        _Server(path, accepting).run()


@dataclass
class _Job:
    """A command at work: its process, its caller, and a pipe that brings the names of modules it imported."""

    pid: int
    caller: socket.socket
    imported: int


class _Server:
    def __init__(self, path: str, listener: socket.socket) -> None:
        self.path, self.listener = path, listener
        self.jobs: dict[int, _Job] = {}
        self.selector = selectors.DefaultSelector()
        self.wake, self.woken = os.pipe()
        for descriptor in (self.wake, self.woken):
            os.set_blocking(descriptor, False)
        self.last_work = time.monotonic()
        self.sources = _sources()

    def run(self) -> None:
        """Serve until nothing was asked for so long, or the package has changed."""
        # Both only wake the selector.
        signal.set_wakeup_fd(self.woken)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._leave)
        self.listener.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ, self._accept)
        self.selector.register(self.wake, selectors.EVENT_READ, self._drain)
        while self.listener.fileno() >= 0 or self.jobs:
            for key, _ in self.selector.select(None if self.jobs else self._time_left()):
                work: Callable[[], None] = key.data
                work()
            self._reap()
            if not self.jobs and self._time_left() <= 0:
                self._leave()

    def _time_left(self) -> float:
        return max(0.0, self.last_work + idle_seconds() - time.monotonic())

    def _leave(self, *_: object) -> None:
        """Take no more callers. The next starts a process of its own."""
        if self.listener.fileno() >= 0:
            with contextlib.suppress(OSError):
                Path(self.path).unlink()
            self.selector.unregister(self.listener)
            self.listener.close()

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self.wake, 4096)

    def _accept(self) -> None:
        try:
            caller, _ = self.listener.accept()
        except OSError:
            return
        caller.settimeout(_REQUEST_S)
        try:
            request = Request.received(caller)
        except (OSError, ValueError):
            caller.close()
            return
        if request.arguments in ([PROCESS], [STOP]):
            if request.arguments == [STOP]:
                self._leave()
            _answer(caller, str(os.getpid()).encode())
        elif _sources() != self.sources:
            # This process holds code that is no more.
            self._leave()
            _answer(caller, YOURSELF)
        else:
            self._start(request, caller)
        for descriptor in request.output:
            os.close(descriptor)

    def _start(self, request: Request, caller: socket.socket) -> None:
        if request.arguments[:1] == ["compile"]:
            leave_out_torch()
            self._import(["tvm", "tvm_stm32.compiler"])
        imported, report = os.pipe()
        with warnings.catch_warnings():
            # Threads that libraries keep for later are idle here.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):
                caller.close()
                self._child(request, report)
            os._exit(1)
        os.close(report)
        with contextlib.suppress(OSError):
            # The child does it, too; whoever is first.
            os.setpgid(pid, pid)
        job = _Job(pid, caller, imported)
        self.jobs[pid] = job
        caller.setblocking(False)
        self.selector.register(caller, selectors.EVENT_READ, lambda: self._gone(job))

    def _gone(self, job: _Job) -> None:
        """The caller was ended, so its command ends, too."""
        self.selector.unregister(job.caller)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGTERM)

    def _reap(self) -> None:
        while self.jobs:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            job = self.jobs.pop(pid)
            code = os.waitstatus_to_exitcode(status)
            with contextlib.suppress(KeyError):
                self.selector.unregister(job.caller)
            _answer(job.caller, YOURSELF if code == _YOURSELF else str(code if code >= 0 else 128 - code).encode())
            with os.fdopen(job.imported, "rb") as stream:
                self._import(stream.read().decode().split())
            self.last_work = time.monotonic()

    def _import(self, names: list[str]) -> None:
        """Import modules for the commands to come."""
        new = [name for name in names if name not in sys.modules]
        for name in new:
            # A child said it could; whatever is wrong with it, the child will say again.
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        if new:
            # What is known stays as it was when it was imported, whatever has happened to its file since.
            self.sources = {**_sources(), **self.sources}
            gc.freeze()

    def _child(self, request: Request, report: int) -> None:
        """Become the command's process."""
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        self.listener.close()
        for job in self.jobs.values():
            # Else their callers would wait for this command, too, should the server be killed.
            job.caller.close()
        os.setpgid(0, 0)
        gc.enable()
        for descriptor, standard in zip(request.output, (1, 2), strict=True):
            os.dup2(descriptor, standard)
        code = 1
        before = set(sys.modules)
        try:
            code = _run(request)
        finally:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
            names = [name for name in set(sys.modules) - before if name.partition(".")[0] in _KEPT]
            # More than fits the pipe would wait for a reader that waits for this process.
            os.set_blocking(report, False)
            with contextlib.suppress(OSError):
                os.write(report, "\n".join(names).encode())
            os._exit(code)


_YOURSELF = 71
"""Exit code of a child whose command has to run in its caller's process."""


def _run(request: Request) -> int:
    """Exit code of the command."""
    os.environ.clear()
    os.environ.update(request.environment)
    os.umask(request.umask)
    tempfile.tempdir = None
    sys.argv = ["tvm-stm32", *request.arguments]
    from ..cli import main

    try:
        os.chdir(request.folder)
        main()
    except NotHere:
        return _YOURSELF
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def _answer(caller: socket.socket, text: bytes) -> None:
    with contextlib.suppress(OSError):
        caller.settimeout(_REQUEST_S)
        caller.sendall(text + b"\n")
    caller.close()


def _sources() -> dict[str, object]:
    """What the imported code was made of: time and size of our modules' files, versions of others' packages."""
    found: dict[str, object] = dict(package_records(sys.path))
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name.partition(".")[0] in _OURS and file:
            with contextlib.suppress(OSError):
                status = os.stat(file)  # noqa: PTH116 - hundreds at every request
                found[file] = (status.st_mtime_ns, status.st_size)
    return found
