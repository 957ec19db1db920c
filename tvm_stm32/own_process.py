"""What a process that is all ours may do to its modules, and a program that calls this package may not."""

from __future__ import annotations

import sys
from typing import Any

_ours = False


def claim() -> None:
    """This process runs one of our commands and nothing else."""
    global _ours
    _ours = True


def leave_out_torch() -> None:
    """Let TVM find no PyTorch, where this command needs none: it imports one that is installed, for seconds."""
    modules: dict[str, Any] = sys.modules
    if _ours and "torch" not in modules:
        modules["torch"] = None


class NotHere(BaseException):
    """A command has to run in a process of its own. No ``Exception``: nobody on its way may take it for a failure."""


def need_torch() -> None:
    """This command needs PyTorch. Raises :class:`NotHere` where TVM was imported without it."""
    modules: dict[str, Any] = sys.modules
    if "tvm" in modules and modules.get("torch", modules) is None:
        raise NotHere


def release() -> None:
    """The command has ended; a program that called it goes on, and may want PyTorch."""
    global _ours
    _ours = False
    modules: dict[str, Any] = sys.modules
    if modules.get("torch", modules) is None:
        del modules["torch"]
