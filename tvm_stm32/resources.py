"""Folders of files that are not Python: boards, the C runtime, SCons tools, CMake functions.

A wheel carries them in ``tvm_stm32/_data``; in a checkout (or an editable install) they are the repository's folders.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from .errors import ToolchainError

Resource = Literal["boards", "runtime", "site_scons", "cmake"]

_PACKAGE = Path(__file__).resolve().parent


def resource_dir(name: Resource) -> Path:
    """The folder ``name``. Raises :class:`ToolchainError` when this installation lacks it."""
    for folder in (_PACKAGE / "_data" / name, _PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    raise ToolchainError(
        f"the folder '{name}' of tvm-stm32 is missing beside {_PACKAGE}",
        why="the installation is incomplete",
        hint="install it again: pip install --force-reinstall tvm-stm32",
    )
