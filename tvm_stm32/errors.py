"""The project's exception tree.

Every error a user can cause is an :class:`Error`; commands print it as one block and exit with 1. Anything else is a
bug of ours and keeps its traceback.
"""

from __future__ import annotations

from typing import TypeVar

_AnyError = TypeVar("_AnyError", bound="Error")
_LONGEST_NAME = 120


class Error(Exception):
    """An error the user can understand and act on.

    ``message`` says what was found and where, in the user's words (file, key, node); ``why`` says why it cannot work;
    ``hint`` says what to do. ``why`` and ``hint`` may be empty when the message already says it.
    """

    def __init__(self, message: str, *, why: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.why = why
        self.hint = hint

    def __str__(self) -> str:
        lines = [self.message]
        if self.why:
            lines.append(f"  because: {self.why}")
        if self.hint:
            lines.append(f"  try: {self.hint}")
        return "\n".join(lines)

    def about(self: _AnyError, file_name: str) -> _AnyError:
        """The same error with the file's name in front, or itself when the message names the file already."""
        if self.message.startswith(file_name) or f"{file_name}'" in self.message:
            return self
        return type(self)(f"{file_name}: {self.message}", why=self.why, hint=self.hint)


def quoted(name: str) -> str:
    """A name out of a user's file as messages show it: in quotes, on one line, the middle of a long one left out."""
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in name)
    if len(text) > _LONGEST_NAME:
        half = _LONGEST_NAME // 2
        text = f"{text[:half]}...{text[-half:]}"
    return f"'{text}'"


class ModelError(Error):
    """A model file that cannot be read, or holds something that cannot be compiled."""


class UnsupportedOperatorError(ModelError):
    """An operator (or one of its variants) no front end or kernel covers."""


class TargetError(Error):
    """An unknown CPU, an impossible feature set, or a bad board file."""


class PackError(Error):
    """A CMSIS pack that is malformed, or lacks the device, component or file that was asked for."""


class ToolchainError(Error):
    """A compiler, emulator or Python package that is missing or does not work."""


class CapacityError(Error):
    """A model or image that does not fit the memories of its target; ``least`` bytes would do where that is
    known (else 0)."""

    least = 0


class FirmwareError(Error):
    """An image that is malformed, or that failed, faulted or hung while it ran."""
