"""cmsis-pack-manager as a child process: it fetches all descriptions of an index at once.

It hangs on some input, crashes on other, and says nothing when a server is down. So it runs apart, with a limit of time
and space, and its word is not taken for anything: the caller looks at which files there are and asks for the others
itself, which also tells why they are missing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

_PROGRAM = """
import sys
from cmsis_pack_manager import Cache
data, lists = sys.argv[1:]
Cache(True, False, json_path=data, data_path=data, vidx_list=lists).cache_descriptors()
"""
_LARGEST = 2 << 30
_POLL = 0.1


def fetch_descriptions(index: str, folder: Path, seconds: float) -> str:
    """Fetch the PDSC files of an index that are not in ``folder`` yet, as ``Vendor.Name.Version.pdsc``.

    Returns what went wrong with cmsis-pack-manager itself ("": nothing it would admit).
    """
    lists = folder / "index.list"
    lists.write_text(f"{index}\n", encoding="utf-8")
    with (folder / "log.txt").open("wb") as log:
        # In a folder without modules: "-c" looks for them where it stands.
        child = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(folder), str(lists)],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            problem = _wait(child, folder, seconds)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
    return problem


def _wait(child: subprocess.Popen[bytes], folder: Path, seconds: float) -> str:
    deadline = time.monotonic() + seconds
    looked = time.monotonic()
    while child.poll() is None:
        now = time.monotonic()
        if now > deadline:
            return f"it was ended after {seconds:g} seconds"
        if now > looked + 1:
            looked = now
            if sum(entry.stat().st_size for entry in os.scandir(folder) if entry.is_file()) > _LARGEST:
                return f"it was ended when it had written {_LARGEST:,} bytes"
        time.sleep(_POLL)
    code = child.returncode
    if code < 0:
        return f"it crashed ({signal.Signals(-code).name})"
    if code:
        lines = (folder / "log.txt").read_text(encoding="utf-8", errors="replace").splitlines()
        return f"it failed with code {code}" + (f" ({lines[-1][:200]})" if lines else "")
    return ""
