"""cmsis-pack-manager as a child process: it fetches the descriptions of many packs at once.

It hangs on some input, crashes on other, says nothing when a server is down, and writes where names of packs with
``../`` lead. So it runs apart, with a limit of time and space, on an index that was looked over, and its word is not
taken for anything: the caller looks at which files there are and asks for the others itself, which also tells why they
are missing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import TCPServer
from xml.sax.saxutils import quoteattr

from .names import PackName

# It ends by itself, too, in case this process is killed.
_PROGRAM = """
import faulthandler, sys
data, lists, seconds = sys.argv[1:]
faulthandler.dump_traceback_later(float(seconds), exit=True)
from cmsis_pack_manager import Cache
Cache(True, False, json_path=data, data_path=data, vidx_list=lists).cache_descriptors()
"""
_HERE = "127.0.0.1"
_LARGEST = 2 << 30
_GRACE = 5.0


def fetch_descriptions(entries: Iterable[tuple[PackName, str, str]], folder: Path, seconds: float) -> str:
    """Fetch PDSC files, those of (pack, folder's URL, version), to ``folder`` as ``Vendor.Name.Version.pdsc``.

    Files that are there stay. Returns what went wrong with cmsis-pack-manager itself ("": nothing it would admit).
    """
    lists = folder / "index.list"
    try:
        with _served(_index(entries)) as url, (folder / "log.txt").open("wb") as log:
            lists.write_text(f"{url}\n", encoding="utf-8")
            # In a folder without modules: "-c" looks for them where it stands.
            child = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(folder), str(lists), str(seconds + _GRACE)],
                cwd=folder,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
            try:
                return _wait(child, folder, seconds)
            finally:
                if child.poll() is None:
                    child.kill()
                    child.wait()
    except OSError as error:
        return f"it cannot be started ({error.strerror or error})"


def _index(entries: Iterable[tuple[PackName, str, str]]) -> bytes:
    lines = [
        f'<pdsc url={quoteattr(url)} vendor="{pack.vendor}" name="{pack.name}" version="{version}"/>\n'
        for pack, url, version in entries
    ]
    return f"<index><vendor>-</vendor><url>-</url><pindex>{''.join(lines)}</pindex></index>".encode()


@contextmanager
def _served(index: bytes) -> Iterator[str]:
    """The address of a server on this computer that has an index; cmsis-pack-manager reads none from files."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(index)))
            self.end_headers()
            self.wfile.write(index)

        def log_message(self, *_: object) -> None:
            pass

    # Not HTTPServer, which asks the name service for this computer's name.
    with TCPServer((_HERE, 0), Answer) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"http://{_HERE}:{server.server_address[1]}/index.pidx"
        finally:
            server.shutdown()


def _environment() -> dict[str, str]:
    """That of this process, but for its proxy, which cannot reach a server on this computer."""
    direct = os.environ.get("NO_PROXY", os.environ.get("no_proxy", ""))
    direct = f"{direct},{_HERE}" if direct else _HERE
    return {**os.environ, "NO_PROXY": direct, "no_proxy": direct}


def _wait(child: subprocess.Popen[bytes], folder: Path, seconds: float) -> str:
    deadline = time.monotonic() + seconds
    while True:
        left = deadline - time.monotonic()
        try:
            child.wait(max(min(left, 1.0), 0))
            break
        except subprocess.TimeoutExpired:
            if left <= 0:
                return f"it was ended after {seconds:g} seconds"
        if sum(entry.stat().st_size for entry in os.scandir(folder) if entry.is_file()) > _LARGEST:
            return f"it was ended when it had written {_LARGEST:,} bytes"
    code = child.returncode
    if code < 0:
        return f"it crashed ({signal.Signals(-code).name})"
    if code:
        lines = (folder / "log.txt").read_text(encoding="utf-8", errors="replace").splitlines()
        return f"it failed with code {code}" + (f" ({lines[-1][:200]})" if lines else "")
    return ""
