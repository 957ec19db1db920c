"""The command's own process: ask the one that stays, or start it, or do without.

Imports next to nothing: this is most of what a compile of a small network costs when the process is there.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time

from . import FOLDER_VARIABLE, VARIABLE
from .wire import PROCESS, STOP, TAKEN, address, idle_seconds, is_own, send_request

_STARTING = ("compile",)
"""Commands that are worth starting the process; others use one that is there."""
_PYTORCH = (".pt2", ".pt", ".pth")
"""Names of models whose commands import PyTorch, which the process never does."""
PATIENCE_S = 60.0
"""Seconds until the process has to take a command: it may be importing for another, or may have been stopped."""
LONGEST_LINE = 64
"""Bytes of an answer."""
LISTENER = 3
"""The descriptor at which a new process finds its socket."""


def run(arguments: list[str], settings: str = "") -> None:
    """Run a command and exit as it does. Returns when it has to run in this process.

    ``settings`` are ``SECONDS`` or ``SECONDS:FOLDER``, for callers whose environment does not hold the variables.
    """
    for name, value in zip((VARIABLE, FOLDER_VARIABLE), settings.split(":", 1), strict=False):
        if value:
            os.environ.setdefault(name, value)
    wanted = idle_seconds() and arguments not in ([PROCESS], [STOP]) and _has_streams()
    path = address() if wanted and not any(word.endswith(_PYTORCH) for word in arguments) else None
    connection = _connection(path, start=arguments[:1] in ([name] for name in _STARTING)) if path is not None else None
    if path is None or connection is None:
        return
    # The other end ends the command when this process goes.
    before = signal.getsignal(signal.SIGINT)
    if before != signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    answer = b""
    with connection, connection.makefile("rb") as answers:
        try:
            send_request(connection, arguments)
            if answers.readline(LONGEST_LINE).strip() == TAKEN:
                connection.settimeout(None)
                answer = answers.readline(LONGEST_LINE).strip()
        except TimeoutError:
            _forget(path)
        except OSError:
            pass
    if answer.isdigit():
        os._exit(int(answer))
    signal.signal(signal.SIGINT, before)


def connect(path: str, patience: float = PATIENCE_S) -> socket.socket | None:
    """A connection to this user's process that listens there, if one does; it waits for so many seconds at most."""
    end = time.monotonic() + patience
    while True:
        try:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        except OSError:
            return None
        try:
            connection.settimeout(patience)
            connection.connect(path)
            if is_own(connection):
                return connection
        except BlockingIOError:
            # As many callers wait there as may.
            if time.monotonic() < end:
                connection.close()
                time.sleep(0.05)
                continue
        except OSError:
            pass
        connection.close()
        return None


def _has_streams() -> bool:
    """Whether the standard streams are open. Else their numbers would be those of sockets and files to come."""
    try:
        return all(os.fstat(stream) for stream in (0, 1, 2))
    except OSError:
        return False


def _forget(path: str) -> None:
    """Let the next command start another process: this one takes none."""
    with contextlib.suppress(OSError):
        os.unlink(path)  # noqa: PTH108


def _connection(path: str, *, start: bool) -> socket.socket | None:
    found = connect(path)
    if found is not None or not start:
        return found
    import fcntl

    try:
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None
    try:
        # Of several builds or jobs that find none, one starts it.
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > end:
                    return None
                time.sleep(0.01)
            else:
                return connect(path) or _started(path)
    except OSError:
        return None
    finally:
        os.close(lock)


def _started(path: str) -> socket.socket | None:
    """Start the process with a socket that listens already, and connect to that."""
    if os.path.lexists(path):
        os.unlink(path)  # noqa: PTH108
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen(128)
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
            os.posix_spawn(
                sys.executable,
                [sys.executable, os.path.join(package, "__main__.py"), "--resident-server", path],  # noqa: PTH118
                os.environ,
                file_actions=[
                    *((os.POSIX_SPAWN_DUP2, null, standard) for standard in (0, 1, 2)),
                    (os.POSIX_SPAWN_DUP2, listener.fileno(), LISTENER),
                ],
            )
        finally:
            os.close(null)
    return connect(path)
