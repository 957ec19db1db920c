"""Answers of HTTP servers, within limits of size and time, with a message for every way to fail.

``urllib`` of the standard library is enough for it: redirects, proxies of the environment and certificates of the
system are its job; limits, ranges and sums no library would do for us.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tvm_stm32.errors import PackError, quoted

from .progress import Progress

_CHUNK = 1 << 16
_BUSY = (429, 502, 503, 504)
_CONTINUES = "the same command continues where it stopped"


@dataclass(frozen=True)
class Limits:
    """Of one file: ``seconds`` in all, ``stall`` seconds without a byte, ``largest`` size in bytes."""

    seconds: float = 600.0
    stall: float = 30.0
    largest: int = 2 << 30

    @property
    def patience(self) -> float:
        """Seconds to wait for a byte."""
        return min(self.stall, self.seconds)


@dataclass(frozen=True)
class Transfer:
    """How files are downloaded; ``offline`` refuses to begin."""

    limits: Limits = Limits()
    progress: Progress = field(default_factory=Progress)
    offline: bool = False
    ended: threading.Event = field(default_factory=threading.Event)
    _sockets: set[socket.socket] = field(default_factory=set)

    def end(self) -> None:
        """End all downloads, those that wait for a byte as well."""
        self.ended.set()
        _shut(self._sockets)

    @contextmanager
    def watched(self, deadline: float) -> Iterator[Callable[[socket.socket], None]]:
        """Takes the sockets of one answer, and shuts them at ``deadline`` (of the monotonic clock)."""
        sockets: list[socket.socket] = []

        def watch(opened: socket.socket) -> None:
            sockets.append(opened)
            self._sockets.add(opened)
            if self.ended.is_set() or time.monotonic() > deadline:  # while it was opened
                _shut([opened])

        timer = threading.Timer(max(deadline - time.monotonic(), 0), _shut, [sockets])
        timer.daemon = True
        timer.start()
        try:
            yield watch
        finally:
            timer.cancel()
            self._sockets.difference_update(sockets)


class DroppedError(Exception):
    """The connection ended before the file did; another try may bring the rest."""


class OutdatedError(DroppedError):
    """What is here of the file is no beginning of the server's."""


class TooLargeError(PackError):
    """More than a limit allows: nothing of it is kept."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    max_redirections = 5

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if urlsplit(req.full_url).scheme == "https" and urlsplit(newurl).scheme != "https":
            raise urllib.error.URLError(f"it redirects to {newurl}, which is not encrypted")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _Http(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Opens connections whose sockets somebody watches."""

    def __init__(self, watch: Callable[[socket.socket], None]) -> None:
        super().__init__()
        self._watch = watch

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._connection(http.client.HTTPConnection), req)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        context = ssl.create_default_context()
        return self.do_open(self._connection(http.client.HTTPSConnection), req, context=context)

    def _connection(self, kind: Any) -> Any:
        watch = self._watch

        class Watched(kind):  # type: ignore[misc] # one of two classes of http.client
            def connect(self) -> None:
                super().connect()
                watch(self.sock)

        return Watched


@contextmanager
def open_url(url: str, what: str, headers: dict[str, str], transfer: Transfer, deadline: float) -> Iterator[Any]:
    """An HTTP response with status 200 or 206, read by :func:`chunks`.

    Raises :class:`DroppedError` where another try makes sense, else :class:`PackError` that says why ``what`` at
    ``url`` cannot be had.
    """
    if transfer.offline:
        raise PackError(f"{what} is not in the cache", why=f"without --offline it would come from {url}")
    if urlsplit(url).scheme not in ("http", "https"):
        raise PackError(f"{what}: {quoted(url)} is no address of the web", why="only https:// and http:// are followed")
    if transfer.ended.is_set():
        raise DroppedError("stopped")
    with transfer.watched(deadline) as watch:
        response = _response(url, what, headers, transfer, deadline, watch)
        with response:
            yield response


def _response(
    url: str,
    what: str,
    headers: dict[str, str],
    transfer: Transfer,
    deadline: float,
    watch: Callable[[socket.socket], None],
) -> Any:
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        _Http(watch),
        urllib.request.HTTPDefaultErrorHandler(),
        _Redirects(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    agent = {"User-Agent": "tvm-stm32", "Accept-Encoding": "identity"}
    try:
        request = urllib.request.Request(url, headers={**agent, **headers})
        return opener.open(request, timeout=transfer.limits.patience)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in _BUSY:
            raise DroppedError(f"the server answers {error.code} ({error.reason})") from error
        if error.code == 416:
            raise OutdatedError("the server's file is shorter than what is here of it") from error
        raise _refused(what, url, error) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        if time.monotonic() > deadline:
            raise _given_up(what, url, transfer) from error
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(reason, (ConnectionResetError, http.client.RemoteDisconnected)) or transfer.ended.is_set():
            raise DroppedError(str(reason) or "the server closed the connection") from error
        raise _unreachable(what, url, reason, transfer.limits) from error


def chunks(response: Any, url: str, what: str, transfer: Transfer, deadline: float, largest: int) -> Iterator[bytes]:
    """The content of a response, piece by piece. Raises as :func:`open_url`, and :class:`TooLargeError`."""
    length = response.headers.get("Content-Length")
    left = int(length) if length and length.isdigit() else None
    too_large = TooLargeError(f"{what} at {url} is too large", why=f"at most {max(largest, 0):,} bytes are taken")
    if left is not None and left > largest:
        raise too_large
    count, problem = 0, ""
    while True:
        try:
            chunk = response.read1(_CHUNK)
        except TimeoutError as error:
            raise PackError(
                f"the download of {what} from {url} stopped",
                why=f"no byte came for {transfer.limits.patience:g} seconds",
                hint=_CONTINUES,
            ) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            chunk, problem = b"", str(error) or type(error).__name__
        if transfer.ended.is_set():
            raise DroppedError("stopped")
        if time.monotonic() > deadline:
            raise _given_up(what, url, transfer)
        if not chunk:
            break
        count += len(chunk)
        if count > largest:
            raise too_large
        yield chunk
    if left is not None and count < left:
        raise DroppedError(f"{left - count:,} of {left:,} bytes are missing")
    if problem:
        raise DroppedError(problem)


def _given_up(what: str, url: str, transfer: Transfer) -> PackError:
    return PackError(
        f"the download of {what} from {url} was given up",
        why=f"it took more than {transfer.limits.seconds:g} seconds",
        hint=f"{_CONTINUES}; --time-limit allows more",
    )


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
        why = f"{host} did not answer within {limits.patience:g} seconds"
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


def _shut(sockets: Iterable[socket.socket]) -> None:
    for opened in list(sockets):
        with suppress(OSError, ValueError):  # it is closed already
            opened.shutdown(socket.SHUT_RDWR)
