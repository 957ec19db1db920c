"""Packs made of text, and a server on the loopback that has them and misbehaves as a test wants."""

from __future__ import annotations

import http.server
import io
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from cmsis_packs import sources
from tvm_stm32.cli import cli

Handler = http.server.BaseHTTPRequestHandler
Fault = Callable[[Handler, bytes], None]

TOY_DEVICES = """<devices><family Dfamily="Toy Series" Dvendor="Acme:77">
  <processor Dcore="Cortex-M4" Dfpu="1" Dmpu="1"/>
  <memory name="Flash" access="rx" start="0x08000000" size="0x80000" default="1" startup="1"/>
  <memory name="SRAM" access="rwx" start="0x20000000" size="0x20000" default="1"/>
  <device Dname="TOY101"/><device Dname="TOY102"/>
</family>
<family Dfamily="Twin" Dvendor="Acme:77"><device Dname="TWIN7">
  <processor Pname="CM7" Dcore="Cortex-M7" Dfpu="DP_FPU"/><processor Pname="CM4" Dcore="Cortex-M4" Dfpu="1"/>
  <memory Pname="CM7" name="DTCM" access="rw" start="0x20000000" size="0x20000" default="1"/>
</device></family></devices>"""
SAFE_DEVICES = """<devices><family Dfamily="Safe" Dvendor="Zen"><device Dname="SAFE33">
  <processor Dcore="Cortex-M33" Dfpu="SP_FPU" Dtz="TZ" Ddsp="DSP"/>
  <memory name="Flash_S" access="rxs" start="0x0C000000" size="0x100000" default="1" startup="1"/>
  <memory name="Flash_NS" access="rxn" start="0x08000000" size="0x100000" alias="Flash_S"/>
</device></family></devices>"""
COMPONENTS = """<conditions><condition id="M4"><accept Dcore="Cortex-M4"/></condition></conditions>
<components><component Cclass="Device" Cgroup="Startup" Cversion="1.0.0" condition="M4"><files>
  <file category="sourceC" name="Source/startup.c"/></files></component></components>"""


@dataclass(frozen=True)
class Toy:
    """A pack of ours in one version; ``requires`` are (vendor, name, range), ``files`` are added to the archive."""

    vendor: str
    name: str
    version: str
    older: tuple[str, ...] = ()
    requires: tuple[tuple[str, str, str], ...] = ()
    body: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)
    url: str = "https://packs.invalid/"

    @property
    def archive_name(self) -> str:
        return f"{self.vendor}.{self.name}.{self.version}.pack"

    def pdsc(self) -> bytes:
        releases = "".join(f'<release version="{version}">text</release>' for version in (self.version, *self.older))
        needs = "".join(f'<package vendor="{v}" name="{n}" version="{r}"/>' for v, n, r in self.requires)
        return (
            f'<?xml version="1.0"?><package schemaVersion="1.7.7">'
            f"<vendor>{self.vendor}</vendor><name>{self.name}</name>"
            f"<description>toy</description><url>{self.url}</url><license>LICENSE.txt</license>"
            f"<releases>{releases}</releases><requirements><packages>{needs}</packages></requirements>"
            f"{self.body}</package>"
        ).encode()

    def archive(self) -> bytes:
        """The archive's bytes, the same each time."""
        files = {f"{self.vendor}.{self.name}.pdsc": self.pdsc(), "LICENSE.txt": b"free\n", **self.files}
        return zipped(files)


def zipped(files: Mapping[str, bytes], edit: Callable[[zipfile.ZipInfo], None] = lambda _: None) -> bytes:
    """A zip file; ``edit`` may change what it says about a member."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, content in files.items():
            info = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            edit(info)
            bundle.writestr(info, content)
    return stream.getvalue()


class PackServer:
    """An index of packs at ``url``; ``faults`` of a path are used up one a request, ``always`` are not."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.faults: dict[str, list[Fault]] = {}
        self.always: dict[str, Fault] = {}
        self.requests: list[tuple[str, str]] = []
        self.index: dict[tuple[str, str], Toy] = {}
        self.ending = threading.Event()
        outer = self

        class Answer(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                outer.requests.append((self.path, self.headers.get("Range", "")))
                waiting = outer.faults.get(self.path)
                fault = waiting.pop(0) if waiting else outer.always.get(self.path, plain)
                if self.path not in outer.files and fault is plain:
                    self.send_error(404)
                    return
                fault(self, outer.files.get(self.path, b""))

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *_: Any) -> None:
                pass  # a client that went away

        self.server = Server(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=lambda: self.server.serve_forever(0.02), daemon=True).start()

    @property
    def index_url(self) -> str:
        return f"{self.url}index.pidx"

    def add(self, *packs: Toy) -> None:
        """Serve packs; the last one of a name is its newest version."""
        for pack in packs:
            here = Toy(**{**pack.__dict__, "url": self.url})
            known = self.index.get((pack.vendor, pack.name))
            if known is not None:
                here = Toy(**{**here.__dict__, "older": (known.version, *known.older)})
            self.index[pack.vendor, pack.name] = here
            self.files[f"/{pack.archive_name}"] = here.archive()
            self.files[f"/{pack.vendor}.{pack.name}.pdsc"] = here.pdsc()
        lines = "".join(
            f'<pdsc url="{self.url}" vendor="{pack.vendor}" name="{pack.name}" version="{pack.version}"/>'
            for pack in self.index.values()
        )
        self.files["/index.pidx"] = (
            f"<index><vendor>Acme</vendor><url>{self.url}</url><pindex>{lines}</pindex></index>".encode()
        )

    def asked(self, path: str) -> int:
        """How often a file was asked for."""
        return sum(name == path for name, _ in self.requests)


@contextmanager
def serving() -> Iterator[PackServer]:
    """A server with two vendors' packs in several versions."""
    server = PackServer()
    server.add(
        Toy("Zen", "Core", "5.0.0"),
        Toy("Zen", "Core", "6.0.0"),
        Toy("Zen", "Safe_DFP", "1.0.0", body=SAFE_DEVICES),
        Toy("Acme", "Toy_DFP", "1.0.0", body=TOY_DEVICES),
        Toy("Acme", "Toy_DFP", "1.1.0", body=TOY_DEVICES),
        Toy(
            "Acme",
            "Toy_DFP",
            "2.0.0",
            requires=(("Zen", "Core", "5.0.0"),),
            body=TOY_DEVICES + COMPONENTS,
            files={"Source/startup.c": b"int main(void);\n"},
        ),
    )
    try:
        yield server
    finally:
        server.ending.set()
        server.server.shutdown()
        server.server.server_close()


def plain(answer: Handler, data: bytes) -> None:
    """The file, or the rest of it that is asked for."""
    tag = f'"{sha256(data).hexdigest()}"'
    begin = 0
    wanted = answer.headers.get("Range", "")
    if wanted and answer.headers.get("If-Range") == tag:
        begin = int(wanted.removeprefix("bytes=").rstrip("-"))
        answer.send_response(206)
        answer.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
    else:
        answer.send_response(200)
    answer.send_header("ETag", tag)
    answer.send_header("Content-Length", str(len(data) - begin))
    answer.end_headers()
    answer.wfile.write(data[begin:])


def status(code: int) -> Fault:
    """An error instead of the file."""
    return lambda answer, _: answer.send_error(code)


def garbage(answer: Handler, _: bytes) -> None:
    """A page of another kind instead of the file."""
    plain(answer, b"<html><body>Please log in<br></body></html>")


def instead(data: bytes) -> Fault:
    """Other content."""
    return lambda answer, _: plain(answer, data)


def dropped(share: float = 0.5) -> Fault:
    """The connection ends after a part of what is asked for."""

    def fault(answer: Handler, data: bytes) -> None:
        class Short(io.RawIOBase):
            def write(self, body: Any) -> int:
                return answer.connection.send(body[: int(len(body) * share)])

        stream, answer.wfile = answer.wfile, stream_pair(answer, Short())
        try:
            plain(answer, data)
        finally:
            answer.wfile = stream

    return fault


def stream_pair(answer: Handler, body: Any) -> Any:
    """A stream whose first write (the head) is whole and whose second goes to ``body``."""

    class Pair:
        writes = 0

        def write(self, data: bytes) -> None:
            self.writes += 1
            if self.writes == 1:
                answer.connection.sendall(data)
            else:
                body.write(data)

        def flush(self) -> None:
            pass

    return Pair()


def hanging(server: PackServer) -> Fault:
    """No answer until the test ends."""
    return lambda *_: server.ending.wait(30) and None


def slow(server: PackServer) -> Fault:
    """A byte now and then, without an end in sight."""

    def fault(answer: Handler, _: bytes) -> None:
        answer.send_response(200)
        answer.send_header("Content-Length", "100000")
        answer.end_headers()
        while not server.ending.wait(0.05):
            answer.wfile.write(b"x")

    return fault


def trickling(server: PackServer) -> Fault:
    """A head of the answer that does not end."""

    def fault(answer: Handler, _: bytes) -> None:
        answer.wfile.write(b"HTTP/1.0 200 OK\r\n")
        while not server.ending.wait(0.2):
            answer.wfile.write(b"X-More: more\r\n")

    return fault


def redirect(place: str) -> Fault:
    """Another address."""

    def fault(answer: Handler, _: bytes) -> None:
        answer.send_response(302)
        answer.send_header("Location", place)
        answer.send_header("Content-Length", "0")
        answer.end_headers()

    return fault


@dataclass
class Project:
    """A folder with packs.yaml, and a cache of its own."""

    folder: Path
    cache: Path

    @property
    def yaml(self) -> Path:
        return self.folder / "packs.yaml"

    @property
    def lock(self) -> Path:
        return self.folder / "packs.lock"

    def wants(self, *packs: str, sources: tuple[str, ...] = ()) -> None:
        """Write packs.yaml."""
        text = "packs:\n" + "".join(f"- {pack}\n" for pack in packs)
        text += "sources:\n" + "".join(f"- {source}\n" for source in sources) if sources else ""
        self.yaml.write_text(text)

    def run(self, *arguments: str) -> None:
        """``tvm-stm32 packs ...`` in this process; errors are raised."""
        cli.main(["packs", *arguments, "--file", str(self.yaml)], standalone_mode=False)

    def content(self) -> dict[str, bytes]:
        """All files of the cache that hold packs: extracted ones, archives and what is half of one."""
        own = self.cache / ".tvm-stm32"
        return {
            str(path.relative_to(self.cache)): path.read_bytes()
            for path in sorted(self.cache.rglob("*"))
            if path.is_file() and own not in path.parents
        }


@pytest.fixture
def server() -> Iterator[PackServer]:
    with serving() as running:
        yield running


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    for name in ("CMSIS_PACK_ROOT", "TVM_STM32_SHARED_PACKS", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    folder, cache = tmp_path / "project", tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setenv("TVM_STM32_PACK_ROOT", str(cache))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return Project(folder, cache)


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """Descriptions are fetched one by one: cmsis-pack-manager takes half a second and more, each time."""
    monkeypatch.setattr(sources, "fetch_descriptions", lambda *_: "")


def seconds(call: Callable[[], None]) -> float:
    """How long a call takes."""
    begin = time.monotonic()
    call()
    return time.monotonic() - begin
