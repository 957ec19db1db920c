"""Sums of up to four pixels by two channels, for cores with the DSP extension: what matrix products share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from .program import Block, Index, Variable
from .requantize import Requantizer, Scaling
from .requantize_wide import WideRequantizer

Stage = TypeVar("Stage", bound=Requantizer | WideRequantizer)


class PixelSums:
    """Accumulators of an ``even`` and an ``odd`` channel; the words of neighbouring pixels lie ``pixel_bytes`` apart.

    ``doubles``: those of two pixels are one LDRD. ``lanes``: so many bits of the odd sums hold the even ones (0: none).
    """

    def __init__(self, block: Block, pixels: int, pixel_bytes: int, lanes: int, *, doubles: bool) -> None:
        self.block, self.pixels, self.pixel_bytes = block, pixels, pixel_bytes
        self.lanes, self.doubles = lanes, doubles
        self.even = [block.variable(f"even_{pixel}") for pixel in range(pixels)]
        self.odd = [block.variable(f"odd_{pixel}") for pixel in range(pixels)]
        self.both = block.variable("both")
        self.low = block.variable("low")
        self.inputs = [block.variable(f"x{number}") for number in range(2)]

    def multiply(
        self,
        tile: Variable,
        offset: int | Index,
        channels: int,
        unpack: Callable[[], None],
        start: tuple[Variable, Variable] | None = None,
    ) -> None:
        """Add a word of each pixel, times ``low`` to the even and times ``both`` to the odd channel (of two).

        ``unpack`` makes the two while the first inputs arrive. Sums begin from ``start`` (even, odd) instead.
        """
        block = self.block
        for first in range(0, self.pixels, 2):
            pair = range(first, min(first + 2, self.pixels))
            if self.doubles and len(pair) == 2:
                block.emit("load_2", tuple(self.inputs), tile, constant=offset + self.pixel_bytes * first)
            else:
                for pixel, x in zip(pair, self.inputs, strict=False):
                    block.emit("load", x, tile, constant=offset + self.pixel_bytes * pixel)
            if first == 0:
                unpack()
            for factor, totals, begin in ((self.both, self.odd, 1), (self.low, self.even, 0))[2 - channels :]:
                for pixel, x in zip(pair, self.inputs, strict=False):
                    block.emit("smlad", totals[pixel], x, factor, start[begin] if start else totals[pixel])

    def store(
        self,
        output: Variable,
        channels: int,
        stride: int,
        stage: Stage | None,
        scaling: Scaling,
        load: Callable[[Stage, int], None],
        first: int = 0,
    ) -> None:
        """Unpark ``output`` and store codes (or sums) there; its pixels lie ``stride`` bytes apart.

        They are of the channels from ``first`` on. ``load`` makes the scaling of a channel that has its own.
        """
        block, size = self.block, 4 if stage is None else stage.size
        near = stride * (self.pixels - 1) + size * (first + 1) < 4096
        block.unpark(output)
        for channel, totals in ((1, self.odd), (0, self.even))[2 - channels :]:
            if isinstance(stage, Requantizer) and stage.common:
                stage.recall_common(block, scaling)
            elif stage is not None:
                load(stage, channel)
            for pixel, total in enumerate(totals):
                if channel == 1 and self.lanes:
                    block.emit("subtract", total, total, self.even[pixel])
                    block.emit("shift_right", total, total, constant=self.lanes)
                place = size * (first + channel) + (pixel * stride if near else 0)
                if stage is not None:
                    stage.code(block, total, scaling)
                block.emit(stage.store if stage else "store", None, output, total, constant=place)
                if not near:
                    block.move(output, stride if pixel + 1 < self.pixels else -pixel * stride, scaling.scratch)
