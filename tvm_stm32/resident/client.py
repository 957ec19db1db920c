"""The command's own process: ask the one that stays, or start it, or do without.

Imports next to nothing: this is most of what a compile of a small network costs when the process is there.
"""

from __future__ import annotations

import os
import signal
import socket
import sys

from . import VARIABLE
from .wire import YOURSELF, address, idle_seconds, send_request

_STARTING = ("compile",)
"""Commands that are worth starting the process; others use one that is there."""
_PYTORCH = (".pt2", ".pt", ".pth")
"""Names of models whose commands import PyTorch, which the process never does."""
LISTENER = 3
"""The descriptor at which a new process finds its socket."""


def run(option: str, arguments: list[str]) -> None:
    """Run a command and exit as it does. Returns when it has to run in this process.

    ``option`` is ``--resident``, or ``--resident=SECONDS`` from a build that hands few variables on.
    """
    if "=" in option:
        os.environ[VARIABLE] = option.partition("=")[2]
    path = address() if idle_seconds() and not any(word.endswith(_PYTORCH) for word in arguments) else None
    connection = _connection(path, start=arguments[:1] in ([name] for name in _STARTING)) if path is not None else None
    if connection is None:
        return
    # The other end ends the command when this process goes.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        send_request(connection, arguments)
        answer = connection.makefile("rb").readline().strip()
    except OSError:
        answer = b""
    if answer in (b"", YOURSELF):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        return
    os._exit(int(answer))


def connect(path: str) -> socket.socket | None:
    """A connection to the process that listens there, if one does."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        return None
    return connection


def _connection(path: str, *, start: bool) -> socket.socket | None:
    found = connect(path)
    if found is not None or not start:
        return found
    import fcntl

    try:
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        # Of several builds or jobs that find none, one starts it.
        fcntl.flock(lock, fcntl.LOCK_EX)
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
