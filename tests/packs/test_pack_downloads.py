"""Servers that are down, slow, wrong or hostile: one clear message for each, and nothing half-written."""

from __future__ import annotations

import os
import random
import re
import shutil
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pack_server import (
    Fault,
    Handler,
    PackServer,
    Project,
    Toy,
    dropped,
    garbage,
    hanging,
    instead,
    plain,
    redirect,
    seconds,
    slow,
    status,
    trickling,
)

from cmsis_packs.cache import Cache
from cmsis_packs.download import fetch_bytes, fetch_file
from cmsis_packs.manager import fetch_descriptions
from cmsis_packs.manifest import PUBLIC_INDEX
from cmsis_packs.names import PackName
from cmsis_packs.web import Limits, Transfer
from tvm_stm32.errors import PackError

INDEX, PDSC, PACK = "/index.pidx", "/Acme.Toy_DFP.pdsc", "/Acme.Toy_DFP.2.0.0.pack"
RELEASES = b"<package><vendor>Acme</vendor><name>Toy_DFP</name>%s</package>"


def fails(project: Project, server: PackServer, *arguments: str) -> PackError:
    """The error of adding the toy pack; nothing of it is left behind."""
    with pytest.raises(PackError) as caught:
        project.run("add", "Acme::Toy_DFP", "--source", server.index_url, *arguments)
    assert not project.yaml.exists() and not project.lock.exists()
    assert [name for name in project.content() if not name.endswith((".part", ".json"))] == []
    return caught.value


@pytest.mark.parametrize(
    ("path", "fault", "why"),
    [
        (INDEX, status(404), "the server answers 404"),
        (INDEX, status(500), "the server answers 500"),
        (INDEX, status(503), r"the server answers 503 \(Service Unavailable\); 3 tries"),
        (INDEX, garbage, "mismatched tag"),
        (INDEX, instead(b"<index><pindex/></index>"), "lists no packs"),
        (INDEX, instead(b"<package/>"), "this is no index of packs"),
        (INDEX, instead(b""), "no element found"),
        (INDEX, redirect("/index.pidx"), "redirects too often, or in a circle"),
        (INDEX, redirect("file:///etc/passwd"), "index.pidx"),
        (INDEX, redirect("ftp://127.0.0.1/x"), "unknown url type: ftp"),
        (INDEX, dropped(), "broke off"),
        (PDSC, status(404), "the description of Acme::Toy_DFP cannot be had .*[\\s\\S]*404"),
        (PDSC, garbage, "Acme.Toy_DFP.pdsc"),
        (PDSC, instead(RELEASES % b""), "the pack has no <release>"),
        (PDSC, instead(RELEASES % b"<releases><release version='../1'/></releases>"), "version '../1' is none"),
        (PDSC, instead(Toy("Zen", "Core", "6.0.0").pdsc()), "does not describe Acme::Toy_DFP"),
        (PACK, status(404), "Acme::Toy_DFP@2.0.0 cannot be had .*[\\s\\S]*404"),
        (PACK, garbage, "is no sound pack"),
        (PACK, redirect(PACK), "redirects too often, or in a circle"),
        (PACK, dropped(0.0), "broke off"),
        (PACK, instead(Toy("Zen", "Core", "6.0.0").archive()), "is not Acme::Toy_DFP@2.0.0"),
    ],
)
def test_each_stage_of_a_download_fails_with_a_message(
    project: Project, server: PackServer, path: str, fault: Fault, why: str
) -> None:
    server.always[path] = fault
    error = fails(project, server)
    assert re.search(why, str(error)), str(error)


@pytest.mark.parametrize(
    ("path", "make"),
    [(INDEX, hanging), (INDEX, slow), (INDEX, trickling), (PDSC, hanging), (PDSC, slow), (PACK, hanging), (PACK, slow)],
)
def test_a_server_that_never_ends_is_given_up(
    project: Project, server: PackServer, path: str, make: Callable[[PackServer], Fault]
) -> None:
    server.always[path] = make(server)
    taken = seconds(lambda: print(fails(project, server, "--time-limit", "1")))
    assert taken < 15


def test_a_server_that_is_down_and_a_host_that_is_not_there(project: Project, server: PackServer) -> None:
    server.server.shutdown()
    server.server.server_close()
    error = fails(project, server)
    assert "Connection refused" in error.why and "--offline" in error.hint
    with pytest.raises(PackError, match=r"no such host: nowhere\.invalid"):
        project.run("add", "A::P", "--source", "https://nowhere.invalid/index.pidx")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_certificates_are_checked_and_encryption_is_not_given_up(
    server: PackServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=toy -addext subjectAltName=IP:127.0.0.1"
    subprocess.run([*command.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.server.socket = context.wrap_socket(server.server.socket, server_side=True)
    url = server.index_url.replace("http:", "https:")
    with pytest.raises(PackError, match=r"the certificate of 127[\s\S]*is not trusted[\s\S]*SSL_CERT_FILE"):
        fetch_bytes(url, "the index", Transfer(), 1 << 20)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert fetch_bytes(url, "the index", Transfer(), 1 << 20) == server.files[INDEX]
    server.always[INDEX] = redirect(server.index_url)
    with pytest.raises(PackError, match="which is not encrypted"):
        fetch_bytes(url, "the index", Transfer(), 1 << 20)


@pytest.mark.usefixtures("direct")
def test_a_pack_no_source_has_is_named_with_who_asks(project: Project, server: PackServer) -> None:
    server.add(Toy("Acme", "Odd", "1.0.0", requires=(("No", "Where", ""),)))
    with pytest.raises(PackError, match=r"no source has the pack No::Where[\s\S]*Acme::Odd@1\.0\.0: No::Where"):
        project.run("add", "Acme::Odd", "--source", server.index_url)


@pytest.mark.usefixtures("direct")
def test_a_mistaken_name_gets_those_that_are_like_it(project: Project, server: PackServer) -> None:
    for name, known in (("Keil::Toy_DFP", "Acme::Toy_DFP"), ("Zen::Cor", "Zen::Core")):
        with pytest.raises(PackError, match=f"there is {known}"):
            project.run("add", name, "--source", server.index_url)


def test_a_description_that_crashes_the_manager_does_not_stop_another_pack(
    project: Project, server: PackServer, capsys: pytest.CaptureFixture[str]
) -> None:
    # cmsis-pack-manager 0.6.0 ends with a segmentation fault at a pack without releases.
    server.add(Toy("Acme", "Bad", "1.0.0"))
    server.files["/Acme.Bad.pdsc"] = re.sub(rb"<release .*</release>", b"", server.files["/Acme.Bad.pdsc"])
    server.faults[PDSC] = [status(500)]  # so that this one is still to be fetched
    project.run("add", "Acme::Toy_DFP", "--source", server.index_url)
    assert "cmsis-pack-manager: it crashed (SIGSEGV); Acme::Toy_DFP is fetched without it" in capsys.readouterr().err
    with pytest.raises(PackError, match="the pack has no <release>"):
        project.run("add", "Acme::Bad")


def test_a_server_that_is_gone_is_tried_once_until_its_pack_is_asked_for(project: Project, server: PackServer) -> None:
    server.always["/Zen.Safe_DFP.pdsc"] = status(500)
    project.run("add", "Zen::Core", "--source", server.index_url)
    tries = server.asked("/Zen.Safe_DFP.pdsc")
    project.run("update")
    assert server.asked("/Zen.Safe_DFP.pdsc") == tries
    del server.always["/Zen.Safe_DFP.pdsc"]
    project.run("add", "Zen::Safe_DFP")


def test_the_manager_is_ended_where_it_hangs(server: PackServer, tmp_path: Path) -> None:
    server.always[PDSC] = hanging(server)
    entries = [(PackName("Acme", "Toy_DFP"), server.url, "2.0.0")]
    assert fetch_descriptions(entries, tmp_path, 1.0) == "it was ended after 1 seconds"


def test_the_manager_finds_its_index_beside_a_proxy(
    server: PackServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert fetch_descriptions([(PackName("Zen", "Core"), server.url, "6.0.0")], tmp_path, 20) == ""
    assert (tmp_path / "Zen.Core.6.0.0.pdsc").read_bytes() == server.files["/Zen.Core.pdsc"]


def test_an_index_cannot_make_the_manager_write_elsewhere(project: Project, server: PackServer) -> None:
    # cmsis-pack-manager 0.6.0 writes {vendor}.{name}.{version}.pdsc without a look at the names.
    server.files[INDEX] = server.files[INDEX].replace(b'vendor="Acme"', b'vendor="../../evil"')
    server.always["/evil.Toy_DFP.pdsc"] = server.always["/../../evil.Toy_DFP.pdsc"] = instead(b"<package/>")
    project.run("add", "Zen::Core", "--source", server.index_url)
    assert not list(project.folder.parent.rglob("evil*")) and server.asked("/evil.Toy_DFP.pdsc") == 0


@pytest.mark.usefixtures("direct")
def test_a_broken_download_goes_on_where_it_stopped(project: Project, server: PackServer) -> None:
    server.faults[PACK] = [dropped(), dropped()]
    project.run("add", "Acme::Toy_DFP", "--source", server.index_url)
    ranges = [wanted for path, wanted in server.requests if path == PACK]
    assert ranges[0] == "" and all(wanted.startswith("bytes=") for wanted in ranges[1:]) and len(ranges) == 3
    project.run("verify")


@pytest.mark.usefixtures("direct")
def test_the_next_command_goes_on_where_the_last_one_was_given_up(project: Project, server: PackServer) -> None:
    server.always[PACK] = dropped(0.3)
    fails(project, server)
    part = project.cache / ".Download" / f"{PACK[1:]}.part"
    have = part.stat().st_size
    assert have > 0
    del server.always[PACK]
    server.requests.clear()
    project.run("add", "Acme::Toy_DFP", "--source", server.index_url)
    assert (PACK, f"bytes={have}-") in server.requests
    assert not part.exists() and not part.with_name(f"{part.name}.json").exists()


@pytest.mark.usefixtures("direct")
def test_a_file_that_changed_meanwhile_is_fetched_from_its_start(project: Project, server: PackServer) -> None:
    server.always[PACK] = dropped(0.3)
    fails(project, server)
    del server.always[PACK]
    server.files[PACK] = Toy("Acme", "Toy_DFP", "2.0.0", files={"new.h": random.Random(1).randbytes(3000)}).archive()
    project.run("add", "Acme::Toy_DFP", "--source", server.index_url)
    assert (project.cache / "Acme" / "Toy_DFP" / "2.0.0" / "new.h").is_file()


@pytest.mark.usefixtures("direct")
def test_a_pack_with_another_sum_than_the_lock_says_is_refused(
    project: Project, server: PackServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.run("add", "Acme::Toy_DFP", "--source", server.index_url)
    lock = project.lock.read_bytes()
    second = Project(project.folder, tmp_path / "second")
    monkeypatch.setenv("TVM_STM32_PACK_ROOT", str(second.cache))
    good = server.files[PACK]
    for bad, why in ((good + b"x", "bytes, the lock says"), (good[:-9] + b"x" * 9, "its sha256 is")):
        server.files[PACK] = bad
        with pytest.raises(PackError, match=r"Acme::Toy_DFP@2\.0\.0 .* is not the file the lock names") as caught:
            second.run("install")
        assert why in caught.value.why and "packs update" in caught.value.hint
        assert not [name for name in second.content() if "Toy_DFP" in name]
    assert project.lock.read_bytes() == lock
    server.files[PACK] = good
    second.run("install")


def test_a_file_larger_than_allowed_is_not_kept(server: PackServer, tmp_path: Path) -> None:
    server.files["/big"] = bytes(100_000)
    target = tmp_path / "big"
    for known in (False, True):

        def endless(answer: Handler, data: bytes, *, known: bool = known) -> None:
            answer.send_response(200)
            if known:
                answer.send_header("Content-Length", str(len(data)))
            answer.end_headers()
            answer.wfile.write(data)

        server.always["/big"] = endless
        with pytest.raises(PackError, match=r"the big file at .* is too large"):
            fetch_file(f"{server.url}big", target, "the big file", Transfer(Limits(largest=50_000)))
        assert list(tmp_path.iterdir()) == []


def late(answer: Handler, data: bytes) -> None:
    """The file after a while."""
    time.sleep(0.7)
    plain(answer, data)


@pytest.mark.usefixtures("direct")
def test_a_failure_ends_downloads_that_wait(project: Project, server: PackServer) -> None:
    server.always[PACK] = hanging(server)
    server.always["/Zen.Core.6.0.0.pack"] = status(404)
    begin = time.monotonic()
    with pytest.raises(PackError, match=r"Zen\.Core\.6\.0\.0\.pack[\s\S]*404"):
        project.run("add", "Acme::Toy_DFP", "Zen::Core", "--source", server.index_url, "--time-limit", "20")
    assert time.monotonic() < begin + 10


@pytest.mark.usefixtures("direct")
def test_files_are_fetched_several_at_a_time(project: Project, server: PackServer) -> None:
    server.add(*(Toy("Acme", f"P{number}", "1.0.0") for number in range(4)))
    all_asked = threading.Barrier(4, timeout=20)

    def together(answer: Handler, data: bytes) -> None:
        all_asked.wait()
        plain(answer, data)

    for number in range(4):
        server.always[f"/Acme.P{number}.1.0.0.pack"] = together
    project.run("add", *(f"Acme::P{number}" for number in range(4)), "--source", server.index_url)


class Apart:
    """A command in a process of its own."""

    def __init__(self, project: Project, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tvm_stm32", "packs", *arguments, "--file", str(project.yaml)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        )

    def wait_for(self) -> Apart:
        self.output, self.error = self._process.communicate(timeout=60)
        self.code = self._process.returncode
        return self


def test_the_command_prints_one_block_and_no_traceback(project: Project, server: PackServer) -> None:
    server.always[INDEX] = status(404)
    done = Apart(project, "add", "Acme::Toy_DFP", "--source", server.index_url).wait_for()
    assert done.code == 1 and done.error.startswith("error: the index of packs cannot be had from http://127.0.0.1")
    assert "  because: the server answers 404" in done.error and "Traceback" not in done.error


def test_two_processes_at_once_leave_one_sound_cache(project: Project, server: PackServer, tmp_path: Path) -> None:
    server.always[PACK] = late
    other = Project(tmp_path / "other", project.cache)
    other.folder.mkdir()
    for each in (project, other):
        each.wants("Acme::Toy_DFP", "Zen::Safe_DFP", sources=(server.index_url,))
    running = [Apart(each, "install") for each in (project, other, project)]
    for process in running:
        assert process.wait_for().code == 0, process.error
    assert server.asked(PACK) == 1
    assert project.lock.read_bytes() == other.lock.read_bytes()
    project.run("verify")
    assert list((project.cache / ".tvm-stm32" / "tmp").glob("*")) == []


@pytest.mark.usefixtures("direct")
def test_a_process_waits_for_another_one_and_says_so(
    project: Project, server: PackServer, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting = threading.Thread(target=project.run, args=("add", "Zen::Core", "--source", server.index_url))
    with Cache(project.cache).locked(10, lambda: None):
        waiting.start()
        time.sleep(1)
        assert server.requests == []
    waiting.join(30)
    assert "another process is at work" in capsys.readouterr().err and project.lock.exists()


@pytest.mark.usefixtures("direct")
def test_what_an_ended_process_left_is_cleared_away(project: Project, server: PackServer) -> None:
    left = project.cache / ".tvm-stm32" / "tmp" / "x1" / "p"
    left.mkdir(parents=True)
    project.run("add", "Zen::Core", "--source", server.index_url)
    assert not left.exists()


@pytest.mark.usefixtures("direct")
def test_the_public_index_has_a_pack(project: Project) -> None:
    """Where the network allows. Without cmsis-pack-manager, which would fetch thousands of descriptions."""
    try:
        fetch_bytes(PUBLIC_INDEX, "the index", Transfer(Limits(seconds=10, stall=5)), 16 << 20)
    except PackError as error:
        pytest.skip(f"the public index cannot be reached: {error.why}")
    project.wants("ARM::CMSIS-NN@7.0.0")
    project.run("install", "--time-limit", "60")
    project.run("verify")
