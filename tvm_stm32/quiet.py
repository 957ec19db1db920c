"""Silence for native code."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import traceback
from collections.abc import Iterator

from .errors import Error


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Send what is written to the process's stdout and stderr nowhere while the block runs.

    TVM logs from C++ past ``sys.stderr``, also about errors that are reported properly afterwards. It concerns every
    thread, so it belongs into commands, not into functions a program may call.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    saved: dict[int, int] = {}
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for stream in (1, 2):
            with contextlib.suppress(OSError):  # closed by the caller
                saved[stream] = os.dup(stream)
                os.dup2(nowhere, stream)
        yield
    except Error as error:
        _release(error)
        raise
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for stream, copy in saved.items():
            os.dup2(copy, stream)
            os.close(copy)
        os.close(nowhere)


def _release(error: BaseException | None) -> None:
    """Let go of what the frames of an error hold: unfinished objects of TVM log when they are destroyed."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
    # TVM's converters refer to themselves.
    gc.collect()
