"""What a command's process and the one that stays say to each other, and where they meet.

A request is its length (4 bytes, big endian) with the two descriptors of its output beside it, then fields that end in
NUL: working folder, umask, number of arguments, arguments, environment. The answer is one line, the exit code or
:data:`YOURSELF`; none means that the process has gone.
"""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import struct
import sys

from . import VARIABLE

YOURSELF = b"yourself"
"""The answer to a request that has to run in its caller's own process."""
PROCESS = "--process"
"""The only argument of a request for the number of the process."""
STOP = "--stop"
"""The same, and that it ends once the commands at work have."""

IDLE_S = 300.0

RUNTIME_FOLDERS = "/run/user"
"""Where systemd has the folders that XDG_RUNTIME_DIR names."""

_LARGEST = 8 << 20
_LENGTH = struct.Struct("!I")
# Read when Python or a library starts, so another value needs another process.
_AT_START = ("PYTHON", "TVM", "LD_", "DYLD_", "OPENBLAS", "OMP", "MKL", "LC_", "LANG")


def idle_seconds() -> float:
    """What the variable says; anything odd is taken as none."""
    try:
        return max(0.0, float(os.environ.get(VARIABLE, IDLE_S)))
    except ValueError:
        return 0.0


def address() -> str | None:
    """The socket for this Python, package and user, in a folder of the user's own; ``None`` where that cannot be."""
    if not hasattr(os, "fork") or not hasattr(socket, "AF_UNIX"):
        return None
    folder = os.path.join(_parent(), f"tvm-stm32-{os.geteuid()}")  # noqa: PTH118 - importing pathlib takes longer than all of this
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
        status = os.lstat(folder)
    except OSError:
        return None
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        return None
    started = sorted(item for item in os.environ.items() if item[0].startswith(_AT_START) and item[0] != VARIABLE)
    what = repr((sys.executable, sys.version, os.path.abspath(__file__), _relative_places(), started))  # noqa: PTH100
    path = os.path.join(folder, hashlib.sha256(what.encode("utf-8", "surrogateescape")).hexdigest()[:16])  # noqa: PTH118
    # Addresses of sockets are short.
    return path if len(os.fsencode(path)) < 100 else None


def _parent() -> str:
    """A folder that a shell and a build with few variables (SCons's have PATH only) agree on."""
    given = os.environ.get("XDG_RUNTIME_DIR")
    own = os.path.join(RUNTIME_FOLDERS, str(os.geteuid()))  # noqa: PTH118
    return given or (own if os.path.isdir(own) else "/tmp")  # noqa: PTH112


def _relative_places() -> str:
    """The working folder, where Python's path depends on it."""
    places = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.getcwd() if any(place and not os.path.isabs(place) for place in places) else ""  # noqa: PTH109, PTH117


def send_request(connection: socket.socket, arguments: list[str]) -> None:
    """Ask for a command with the folder, umask, environment and output of this process."""
    umask = os.umask(0)
    os.umask(umask)
    environment = [f"{name}={value}" for name, value in os.environ.items()]
    fields = [os.getcwd(), str(umask), str(len(arguments)), *arguments, *environment]  # noqa: PTH109
    text = b"".join(os.fsencode(field) + b"\0" for field in fields)
    socket.send_fds(connection, [_LENGTH.pack(len(text))], [1, 2])
    connection.sendall(text)


class Request:
    """A command to run; ``output`` are descriptors for its standard output and error."""

    def __init__(self, text: bytes, output: list[int]) -> None:
        folder, umask, count, *rest = map(os.fsdecode, text.split(b"\0")[:-1])
        self.folder, self.umask, self.output = folder, int(umask), output
        self.arguments = rest[: int(count)]
        self.environment = dict(item.split("=", 1) for item in rest[int(count) :])

    @classmethod
    def received(cls, connection: socket.socket) -> Request:
        """Raises ``OSError`` or ``ValueError`` for what is no request."""
        head, output, _, _ = socket.recv_fds(connection, _LENGTH.size, 2)
        try:
            if len(head) != _LENGTH.size or len(output) != 2:
                raise ValueError("no request")
            (length,) = _LENGTH.unpack(head)
            if length > _LARGEST:
                raise ValueError("a request too long")
            text = b""
            while len(text) < length and (part := connection.recv(length - len(text))):
                text += part
            if len(text) != length:
                raise ValueError("half a request")
            return cls(text, output)
        except BaseException:
            for descriptor in output:
                os.close(descriptor)
            raise
