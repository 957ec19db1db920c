"""How far below its input a kernel's result must start at least, so that nothing is overwritten that is still read.

A kernel says in which order it reads and writes, step by step; the distance follows from that. A kernel whose steps
read all they need before they write (``buffered``: it gathers a patch or copies a row first) may write over what only
that step read. Distances are in bytes; 0: the result may start where the input does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_NEVER = np.int64(1) << 62


def distance(first_read: np.ndarray, written: np.ndarray, *, buffered: bool) -> int:
    """Of a kernel whose step t reads input bytes from ``first_read[t]`` on and ends with ``written[t]`` bytes written.

    Steps may go back: what counts is the first byte read in a step or later, and the last written until then.
    """
    rest = np.minimum.accumulate(np.asarray(first_read, np.int64)[::-1])[::-1]
    done = np.maximum.accumulate(np.asarray(written, np.int64))
    if buffered:
        rest, done = rest[1:], done[:-1]
    return max(0, int((done - rest).max(initial=0)))


def pixel_distance(geometry: dict[str, Any], at_once: int, *, buffered: bool = True, again: bool = False) -> int | None:
    """Of a kernel that makes ``at_once`` neighbouring output pixels a step, all channels of each.

    ``again``: the last step is a full one, too, and repeats some pixels of the one before. None for several images.
    """
    if geometry["batch"] > 1:
        return None
    total = geometry["out_h"] * geometry["out_w"]
    pixels = np.arange(total)
    rows, columns = np.divmod(pixels, geometry["out_w"])
    top = np.maximum(0, rows * geometry["stride_h"] - geometry["pad_top"])
    left = np.maximum(0, columns * geometry["stride_w"] - geometry["pad_left"])
    reads = (top * geometry["width"] + left) * geometry["channels_in"]
    starts = np.arange(0, total, at_once)
    if again and total >= at_once:
        starts = np.minimum(starts, total - at_once)
    first = np.array([reads[start : start + at_once].min() for start in starts])
    written = np.minimum(starts + at_once, total) * geometry["channels"]
    return distance(first, written, buffered=buffered)


def row_distance(geometry: dict[str, Any], rows: int = 1, reach: int | None = None) -> int | None:
    """Of a kernel that copies input rows before it makes ``rows`` output rows, each input row once.

    With ``reach`` its first step copies that many rows, padding included; without, as many as the kernel has.
    """
    if geometry["batch"] > 1:
        return None
    reach = geometry["kernel_h"] if reach is None else reach
    steps = np.arange(-(-geometry["out_h"] // rows))
    stride = rows * geometry["stride_h"]
    # A step copies the rows behind those of the one before.
    copied = np.clip(steps * stride - geometry["pad_top"] + reach - stride, 0, geometry["height"])
    copied[0] = 0
    written = np.minimum((steps + 1) * rows, geometry["out_h"]) * geometry["out_w"] * geometry["channels"]
    return distance(copied * geometry["width"] * geometry["channels_in"], written, buffered=True)


def patch_distance(geometry: dict[str, Any], rows: int, columns: int) -> int | None:
    """Of a stride-1 kernel that copies a patch before it makes ``rows`` by ``columns`` pixels, back at the ends."""
    if geometry["batch"] > 1:
        return None
    width, channels = geometry["width"], geometry["channels"]
    ys = np.minimum(np.arange(0, geometry["out_h"], rows), geometry["out_h"] - rows)
    xs = np.minimum(np.arange(0, geometry["out_w"], columns), geometry["out_w"] - columns)
    y, x = (grid.reshape(-1) for grid in np.meshgrid(ys, xs, indexing="ij"))
    top, left = np.maximum(0, y - geometry["pad_top"]), np.maximum(0, x - geometry["pad_left"])
    written = ((y + rows - 1) * geometry["out_w"] + x + columns) * channels
    return distance((top * width + left) * geometry["channels_in"], written, buffered=True)
