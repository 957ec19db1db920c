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


def release() -> None:
    """The command has ended; a program that called it goes on, and may want PyTorch."""
    global _ours
    _ours = False
    modules: dict[str, Any] = sys.modules
    if modules.get("torch", modules) is None:
        del modules["torch"]
