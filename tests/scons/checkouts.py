"""Checkouts of one project in folders that differ in depth, length and blanks, and what is common to tests of them."""

from __future__ import annotations

import shutil
from pathlib import Path

from scons_support import Project, copy_tools, write_replay

# Nothing of a user's environment but PATH, as SCons has it by default.
LAUNCHER = """
env["COMPILER_LAUNCHER"] = ARGUMENTS.get("COMPILER_LAUNCHER", "")
env["ENV"] = {"PATH": os.environ["PATH"]}
"""
CACHE = """
env.Tool("stm32_cache", toolpath=["#tools/site_scons/site_tools"])
if "SHARED" in ARGUMENTS:
    env.CacheDir(ARGUMENTS["SHARED"])
"""
FOLDERS = ("a", "another folder/with/more in it", "third")


class Checkout(Project):
    """A project whose network is the one that another has generated."""

    def __init__(self, folder: Path, made: Project, more: str = "", *, own_tools: bool = False) -> None:
        super().__init__(folder)
        folder.mkdir(parents=True)
        for name in ("SConstruct", "main.c", "startup.c", "app.ld", "model.onnx"):
            shutil.copy(made.path(name), folder)
        if own_tools:
            copy_tools(folder / "tools")
        else:
            (folder / "tools").symlink_to(made.path("tools"))
        self.edit("SConstruct", "board = ", f"{more}\nboard = ")
        self.options = [f"GENERATOR={write_replay(self, made)}"]

    @property
    def image(self) -> bytes:
        """The built image."""
        return self.path("build/app.elf").read_bytes()


def garble(folder: Path) -> int:
    """Damage every file below a folder in one of several ways; returns how many there are."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size > 0)
    for index, path in enumerate(files):
        data = bytearray(path.read_bytes())
        middle = len(data) // 2
        if index % 3 == 0:
            data[middle] ^= 0x10
        elif index % 3 == 1:
            del data[middle:]
        else:
            data[:] = bytes(len(data))
        path.write_bytes(data)
    return len(files)
