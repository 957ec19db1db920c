"""Inferences on a board or on this computer: samples in, outputs and measurements out."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..boards import Board
from ..errors import FirmwareError
from .emulator import DEFAULT_TIMEOUT_S, CountMethod, RunResult, run_image
from .trace import Cache

_INPUT = "input.bin"
_OUTPUT = "output.bin"


def run_samples(
    image: Path,
    board: Board,
    samples: Sequence[bytes],
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    count: CountMethod = "none",
    cache_dir: Path | None = None,
    caches: tuple[Cache, Cache] | None = None,
) -> tuple[list[bytes], RunResult]:
    """Run an image that has the runner as its application; returns the outputs of each sample and the run itself.

    A sample is the bytes of all inputs in order, little-endian, concatenated; so are its outputs. The other parameters
    and the errors are those of :func:`run_image`; also raises :class:`FirmwareError` when the outputs are incomplete.
    """
    if not samples:
        raise FirmwareError("there are no samples to run")
    # The program sees short names without blanks, whatever the caller's folders are called.
    with tempfile.TemporaryDirectory(prefix="tvm-stm32-") as folder:
        cwd = Path(folder)
        (cwd / _INPUT).write_bytes(b"".join(samples))
        result = run_image(
            image,
            board,
            [_INPUT, _OUTPUT],
            timeout_s=timeout_s,
            cwd=cwd,
            count=count,
            cache_dir=cache_dir,
            caches=caches,
        )
        output = (cwd / _OUTPUT).read_bytes() if (cwd / _OUTPUT).is_file() else b""
    done = int(result.values.get("samples", "0"))
    if done != len(samples) or len(output) % len(samples):
        raise FirmwareError(
            f"{image.name} ran {done} of {len(samples)} samples and wrote {len(output)} bytes",
            hint="check that a sample holds the bytes of all inputs",
        )
    size = len(output) // len(samples)
    return [output[start : start + size] for start in range(0, len(output), size)] if size else [b""] * done, result
