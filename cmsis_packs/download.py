"""Files from servers and folders, whole and with the right sum or not at all, resumed where a connection broke."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tvm_stm32.errors import PackError

from .web import DroppedError, OutdatedError, TooLargeError, Transfer, chunks, open_url

_ATTEMPTS = 3
_PAUSE = 0.2


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
            with open_url(url, what, {}, transfer, deadline) as response:
                for chunk in chunks(response, url, what, transfer, deadline, largest):
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
            except OutdatedError:
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
    with open_url(url, what, headers, transfer, deadline) as response:
        if have and not _continues(response, have):
            have = 0
        length = str(response.headers.get("Content-Length", ""))
        awaited = int(length) if length.isdigit() else 0
        total = have + awaited
        if expected and awaited and total != expected:
            raise PackError(
                f"{what} at {url} is not the file the lock names",
                why=f"it has {total:,} bytes, the lock says {expected:,}",
                hint="if its maker has replaced it and you trust the new one: tvm-stm32 packs update",
            )
        if not have:
            # In this order: a note never stands beside bytes of another file.
            part.write_bytes(b"")
            note.write_text(json.dumps({"url": url, "validator": _validator(response)}), encoding="utf-8")
        transfer.progress.expect(awaited)
        try:
            with part.open("ab") as stream:
                largest = transfer.limits.largest - have
                for chunk in chunks(response, url, what, transfer, deadline, largest):
                    stream.write(chunk)
                    transfer.progress.advance(len(chunk))
                    awaited -= len(chunk)
        except TooLargeError:
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
        yield _attempt(url, what, transfer, number)
        transfer.ended.wait(_PAUSE * number)


@contextmanager
def _attempt(url: str, what: str, transfer: Transfer, number: int) -> Iterator[None]:
    try:
        yield
    except DroppedError as error:
        if number == _ATTEMPTS or transfer.ended.is_set():
            raise PackError(
                f"the download of {what} from {url} broke off",
                why=f"{error}; {number} tries were made",
                hint="the same command continues where it stopped",
            ) from error
    except OSError as error:
        raise PackError(
            f"cannot write what {url} sends", why=error.strerror or str(error), hint="check free space and permissions"
        ) from error


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
