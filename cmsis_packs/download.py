"""Files from HTTP servers: bounded in size and time, checked, and resumed where a connection broke.

``urllib`` of the standard library is enough for it: redirects, proxies of the environment and certificates of the
system are its job, the rest (ranges, sums, limits) no library would do for us.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from tvm_stm32.errors import PackError, quoted

from .progress import Progress

_CHUNK = 1 << 16
_ATTEMPTS = 3
_PAUSE = 0.2
_BUSY = (429, 502, 503, 504)
_DROPPED = (ConnectionError, http.client.IncompleteRead, http.client.RemoteDisconnected)


@dataclass(frozen=True)
class Limits:
    """Of one download: ``seconds`` in all, ``stall`` seconds without a byte, ``largest`` file in bytes."""

    seconds: float = 600.0
    stall: float = 30.0
    largest: int = 2 << 30


@dataclass(frozen=True)
class Transfer:
    """How files are downloaded; ``stop`` set ends all of them, ``offline`` refuses to begin."""

    limits: Limits = Limits()
    progress: Progress = field(default_factory=Progress)
    offline: bool = False
    stop: threading.Event = field(default_factory=threading.Event)


class _DroppedError(Exception):
    """The connection ended before the file did; another try may bring the rest."""


class _OutdatedError(_DroppedError):
    """What is here of the file is no beginning of the server's."""


class _TooLargeError(PackError):
    """More than a limit allows: nothing of it is kept."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    max_redirections = 5

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if urlsplit(req.full_url).scheme == "https" and urlsplit(newurl).scheme != "https":
            raise urllib.error.URLError(f"it redirects to {newurl}, which is not encrypted")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file as hex digits."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def fetch_bytes(url: str, what: str, transfer: Transfer, largest: int) -> bytes:
    """The content of a small file. Raises :class:`PackError` that says what ``what`` at ``url`` lacks."""
    data = bytearray()
    for attempt in _attempts(url, what, transfer):
        with attempt:
            data.clear()
            deadline = time.monotonic() + transfer.limits.seconds
            with _open(url, what, {}, transfer) as response:
                for chunk in _chunks(response, url, what, transfer, deadline, largest):
                    data += chunk
            return bytes(data)
    raise AssertionError


def fetch_file(url: str, target: Path, what: str, transfer: Transfer, *, sha256: str = "", size: int = 0) -> None:
    """Download ``url`` to ``target``, which appears complete and, with ``sha256``, with that sum, or not at all.

    What arrived of a broken download stays beside it as ``.part`` and the next call continues there, if the server
    still has the same file. ``size`` is the expected number of bytes (0: not known).
    """
    part, note = _beside(target, ".part"), _beside(target, ".part.json")
    deadline = time.monotonic() + transfer.limits.seconds
    for attempt in _attempts(url, what, transfer):
        with attempt:
            try:
                _receive(url, part, note, what, transfer, deadline, size)
            except _OutdatedError:
                note.unlink(missing_ok=True)
                raise
            break
    try:
        found = sha256_of(part) if sha256 else ""
    finally:
        note.unlink(missing_ok=True)
    if found != sha256:
        part.unlink(missing_ok=True)
        raise wrong_sum(what, url, sha256, found)
    part.replace(target)


def wrong_sum(what: str, place: str, wanted: str, found: str) -> PackError:
    """The error for an archive that is not the one in the lock."""
    return PackError(
        f"{what} from {place} is not the file the lock names",
        why=f"its sha256 is {found}, the lock says {wanted}",
        hint="if its maker has replaced it and you trust the new one: tvm-stm32 packs update",
    )


def _receive(url: str, part: Path, note: Path, what: str, transfer: Transfer, deadline: float, expected: int) -> None:
    have, validator = _resumable(url, part, note)
    headers = {"Range": f"bytes={have}-", "If-Range": validator} if have else {}
    with _open(url, what, headers, transfer) as response:
        if have and not _continues(response, have):
            have = 0
        total = have + int(response.headers.get("Content-Length") or 0)
        if expected and total > have and total != expected:
            raise PackError(
                f"{what} at {url} is not the file the lock names",
                why=f"it has {total:,} bytes, the lock says {expected:,}",
                hint="if its maker has replaced it and you trust the new one: tvm-stm32 packs update",
            )
        note.write_text(json.dumps({"url": url, "validator": _validator(response)}), encoding="utf-8")
        awaited = max(total - have, 0)
        transfer.progress.expect(awaited)
        try:
            with part.open("ab" if have else "wb") as stream:
                largest = transfer.limits.largest - have
                for chunk in _chunks(response, url, what, transfer, deadline, largest):
                    stream.write(chunk)
                    transfer.progress.advance(len(chunk))
                    awaited -= len(chunk)
        except _TooLargeError:
            part.unlink(missing_ok=True)
            note.unlink(missing_ok=True)
            raise
        finally:
            transfer.progress.expect(-max(awaited, 0))


def _resumable(url: str, part: Path, note: Path) -> tuple[int, str]:
    """How many bytes of an earlier try there are, and what proves that the server's file is still the same."""
    try:
        data = json.loads(note.read_text(encoding="utf-8"))
        if data["url"] == url and isinstance(data["validator"], str) and data["validator"]:
            return part.stat().st_size, data["validator"]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return 0, ""


def _validator(response: Any) -> str:
    etag = str(response.headers.get("ETag", ""))
    return etag if etag.startswith('"') else str(response.headers.get("Last-Modified", ""))


def _continues(response: Any, have: int) -> bool:
    place = str(response.headers.get("Content-Range", ""))
    return bool(response.status == 206 and place.startswith(f"bytes {have}-"))


def _attempts(url: str, what: str, transfer: Transfer) -> Iterator[Any]:
    """Tries, each a context that swallows a dropped connection unless it is the last."""
    for number in range(1, _ATTEMPTS + 1):
        yield _attempt(url, what, _ATTEMPTS if transfer.stop.is_set() else number)
        transfer.stop.wait(_PAUSE * number)


@contextmanager
def _attempt(url: str, what: str, number: int) -> Iterator[None]:
    try:
        yield
    except _DroppedError as error:
        if number == _ATTEMPTS:
            raise PackError(
                f"the download of {what} from {url} broke off",
                why=f"{error}; {number} tries were made",
                hint="the same command continues where it stopped",
            ) from error
    except OSError as error:
        raise PackError(
            f"cannot write what {url} sends", why=error.strerror or str(error), hint="check free space and permissions"
        ) from error


@contextmanager
def _open(url: str, what: str, headers: dict[str, str], transfer: Transfer) -> Iterator[Any]:
    """An HTTP response with status 200 or 206. Every way to fail has its message."""
    if transfer.offline:
        raise PackError(f"{what} is not in the cache", why=f"without --offline it would come from {url}")
    if urlsplit(url).scheme not in ("http", "https"):
        raise PackError(f"{what}: {quoted(url)} is no address of the web", why="only https:// and http:// are followed")
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        _Redirects(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    limits = transfer.limits
    agent = {"User-Agent": "tvm-stm32", "Accept-Encoding": "identity"}
    try:
        request = urllib.request.Request(url, headers={**agent, **headers})
        response = opener.open(request, timeout=min(limits.stall, limits.seconds))
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in _BUSY:
            raise _DroppedError(f"the server answers {error.code} ({error.reason})") from error
        if error.code == 416:
            raise _OutdatedError("the server's file is shorter than what is here of it") from error
        raise _refused(what, url, error) from error
    except urllib.error.URLError as error:
        raise _unreachable(what, url, error.reason, limits) from error
    except _DROPPED as error:
        raise _DroppedError(str(error) or "the server closed the connection") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _unreachable(what, url, error, limits) from error
    with response:
        yield response


def _refused(what: str, url: str, error: urllib.error.HTTPError) -> PackError:
    reason = " ".join(str(error.reason).split())[:100]
    if error.code in (301, 302, 303, 307, 308):
        return PackError(
            f"{what} cannot be had from {url}", why=f"its server redirects too often, or in a circle ({reason})"
        )
    return PackError(
        f"{what} cannot be had from {url}",
        why=f"the server answers {error.code} ({reason})",
        hint="check the address" if error.code in (404, 410) else "try later, or another source in packs.yaml",
    )


def _unreachable(what: str, url: str, reason: object, limits: Limits) -> PackError:
    host = urlsplit(url).netloc
    hint = "check the network and the proxy (HTTPS_PROXY), or work from the cache: --offline"
    if isinstance(reason, TimeoutError):
        why = f"{host} did not answer within {min(limits.stall, limits.seconds):g} seconds"
    elif isinstance(reason, ssl.SSLCertVerificationError):
        why = f"the certificate of {host} is not trusted ({reason.verify_message})"
        hint = "if your company's proxy has one of its own, name it in SSL_CERT_FILE"
    elif isinstance(reason, socket.gaierror):
        why = f"no such host: {host}"
    elif isinstance(reason, OSError) and reason.strerror:
        why = f"{host}: {reason.strerror}"
    else:
        why = " ".join(str(reason).split())[:200]
    return PackError(f"{what} cannot be had from {url}", why=why, hint=hint)


def _chunks(response: Any, url: str, what: str, transfer: Transfer, deadline: float, largest: int) -> Iterator[bytes]:
    """The body, piece by piece, within the limits."""
    length = response.headers.get("Content-Length")
    left = int(length) if length and length.isdigit() else None
    too_large = _TooLargeError(f"{what} at {url} is too large", why=f"at most {max(largest, 0):,} bytes are taken")
    if left is not None and left > largest:
        raise too_large
    count = 0
    while True:
        if transfer.stop.is_set():
            raise _DroppedError("stopped")
        if time.monotonic() > deadline:
            raise PackError(
                f"the download of {what} from {url} was given up",
                why=f"it took more than {transfer.limits.seconds:g} seconds",
                hint="the same command continues where it stopped; --time-limit allows more",
            )
        try:
            chunk = response.read1(_CHUNK)
        except TimeoutError as error:
            raise PackError(
                f"the download of {what} from {url} stopped",
                why=f"no byte came for {min(transfer.limits.stall, transfer.limits.seconds):g} seconds",
                hint="the same command continues where it stopped",
            ) from error
        except _DROPPED as error:
            raise _DroppedError(str(error) or "the connection was closed") from error
        except http.client.HTTPException as error:
            raise _DroppedError(str(error) or type(error).__name__) from error
        if not chunk:
            break
        count += len(chunk)
        if count > largest:
            raise too_large
        yield chunk
    if left is not None and count < left:
        raise _DroppedError(f"{left - count:,} of {left:,} bytes are missing")


def copy_file(source: Path, target: Path, what: str, transfer: Transfer, *, sha256: str = "") -> None:
    """Copy a file of this computer as :func:`fetch_file` downloads one."""
    part = _beside(target, ".part")
    try:
        with source.open("rb") as stream, part.open("wb") as copy:
            _pump(stream, copy, source, transfer.limits.largest)
        found = sha256_of(part)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise PackError(f"cannot copy {what} from '{source}'", why=error.strerror or str(error)) from error
    except PackError:
        part.unlink(missing_ok=True)
        raise
    if sha256 and found != sha256:
        part.unlink(missing_ok=True)
        raise wrong_sum(what, f"'{source}'", sha256, found)
    part.replace(target)


def _pump(stream: IO[bytes], copy: IO[bytes], source: Path, largest: int) -> None:
    count = 0
    while chunk := stream.read(1 << 20):
        count += len(chunk)
        if count > largest:
            raise PackError(f"'{source}' is too large", why=f"at most {largest:,} bytes are taken")
        copy.write(chunk)


def _beside(target: Path, ending: str) -> Path:
    return target.with_name(target.name + ending)
