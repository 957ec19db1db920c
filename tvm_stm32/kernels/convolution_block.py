"""Convolution on cores with the DSP extension or Helium: generated blocks on a tile of input patches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from tvm import relax

from ..graph import dialect
from .block_call import (
    UNROLLED,
    UNROLLED_MVE,
    add_block_call,
    block_function,
    block_headers,
    doubles,
    finish_values,
    packs_lanes,
    part_of,
    requantizer_of,
)
from .blocks.matmul import Layout, matmul_block, matmul_records, spread_block
from .blocks.matmul_any import CHUNK, matmul_any_block, matmul_any_records, spread_any_block
from .blocks.matmul_mve import VectorLayout, matmul_mve_block, matmul_mve_records
from .blocks.nibbles_mve import nibbles_mve_block, nibbles_mve_records
from .blocks.product import product_block
from .blocks.program import Block
from .blocks.requantize import Requantizer
from .choice import Lower, lower_best
from .context import KernelContext
from .convolution_rows import fits_rows, lower_convolution_rows
from .nibbles import bits_text, nibble_records, weight_bits
from .overlap import pixel_distance
from .stage import OutputStage
from .window import Site, detail_text, geometry_of
from .winograd import fits_winograd, lower_winograd


def lower_convolution_block(
    ctx: KernelContext,
    call: relax.Call,
    node: str,
    data: str,
    output: str,
    weight: np.ndarray,
    stage: OutputStage,
    form: str,
) -> None:
    """Any ``q.conv2d`` (``form`` dsp or mve) by the form of kernel that suits best."""
    geometry = geometry_of(call, weight)
    groups = int(dialect.attributes(call)["groups"])
    site = Site((node, data, output), weight, stage, geometry)
    requantizer = requantizer_of(ctx, stage, weight, form)
    candidates: dict[str, Lower] = {}
    if form == "dsp" and fits_winograd(weight, stage, geometry, groups):
        candidates["winograd"] = lambda trial: lower_winograd(trial, site)
    if requantizer is not None and fits_rows(weight, geometry, groups, form):
        candidates["rows"] = lambda trial: lower_convolution_rows(trial, site, requantizer, form)
    convolution = _Convolution(site, groups, form)
    candidates["tile"] = convolution.lower
    if ctx.level != "time" and convolution.shareable(ctx):
        candidates["shared"] = lambda trial: convolution.lower(trial, shared=True)
    if weight_bits(ctx, weight, stage) < 8:
        candidates["narrow"] = lambda trial: convolution.lower(trial, narrow=True)
        if ctx.level != "time" and not ctx.wanted_form(node):
            candidates = {"narrow": candidates["narrow"]}
    lower_best(ctx, node, candidates)


@dataclass(frozen=True)
class _Convolution:
    """A convolution on a tile of gathered patches, or of pixels as they lie in the input."""

    site: Site
    groups: int
    form: str

    @property
    def total(self) -> int:
        """Output pixels."""
        return int(self.site.geometry["batch"] * self.site.geometry["out_h"] * self.site.geometry["out_w"])

    def in_place(self, ctx: KernelContext) -> bool:
        """Whether a pixel's depths lie in the input as in the tile."""
        geometry, weight = self.site.geometry, self.site.weight
        ones = (weight.shape[1], weight.shape[2], geometry["stride_h"], geometry["stride_w"], self.groups)
        requantizer = requantizer_of(ctx, self.site.stage, weight, self.form)
        return ones == (1, 1, 1, 1, 1) and not geometry["padded"] and requantizer is not None

    def together(self, ctx: KernelContext) -> bool:
        """Whether four pixels that lie one behind the other are widened together."""
        depth = self.site.weight.shape[3]
        fits = self.form == "dsp" and depth % 4 == 0 and self.total >= 4 and 3 * depth < 4092
        return fits and self.in_place(ctx)

    def shareable(self, ctx: KernelContext) -> bool:
        """Whether blocks for any shape will do."""
        requantizer = requantizer_of(ctx, self.site.stage, self.site.weight, self.form)
        fits = self.form == "dsp" and requantizer is not None and len(self.site.weight) % 2 == 0 and self.groups == 1
        return fits and (self.together(ctx) or self.total % 4 == 0)

    def lower(self, ctx: KernelContext, shared: bool = False, narrow: bool = False) -> None:
        """Make the kernel; ``shared``: from blocks that other layers use too, ``narrow``: weights stay packed."""
        geometry, weight, groups, form = self.site.geometry, self.site.weight, self.groups, self.form
        group_in, group_out, total = weight.shape[3], weight.shape[0] // groups, self.total
        contiguous = groups == 1 and geometry["dilation_w"] == 1
        run = weight.shape[2] * group_in if contiguous else group_in
        matrix = weight.reshape(weight.shape[0], -1)
        requantizer = requantizer_of(ctx, self.site.stage, weight, form)
        direct = form == "mve" and self.in_place(ctx) and group_in % 16 == 0
        together = self.together(ctx)
        product = _Product(ctx, group_out, total, self.site.stage, requantizer, geometry["input_zero_point"], groups)
        product.bits = weight_bits(ctx, weight, self.site.stage) if narrow else 8
        if form == "mve":
            product.make_mve(matrix)
        elif shared:
            product.make_shared(matrix, run)
        else:
            product.make_dsp(matrix, run)
        spread = ""
        if together and shared:
            fours, words = -(-total // 4), {"words": group_in // 4}
            spread = block_function(ctx, spread_any_block(), "spread", form, fours, words)
        elif together:
            spread = block_function(ctx, spread_block(group_in), f"spread_{group_in}", form, total // 4)
        elif not direct:
            # Counted: a gathered code takes 2.3 instructions (Helium: 0.25), a kernel row and a pixel their share.
            codes = total * groups * matrix.shape[1]
            rows = total * groups * weight.shape[1] * (1 if contiguous else weight.shape[2])
            ctx.usage.add(codes * (0.25 if form == "mve" else 2.3) + rows * 14 + total * 20)
        if requantizer is None:
            ctx.usage.add(total * weight.shape[0] * 30)
        workspace = product.tile_bytes + (0 if requantizer else 4 * product.pixels * group_out)
        patched = form == "dsp" and bool(geometry["padded"]) and contiguous and group_in % 4 > 0
        source = ctx.render(
            "conv2d_block.c.j2",
            **geometry,
            **finish_values(self.site.stage, requantizer),
            **product.texts,
            mve=form == "mve",
            pixels=product.pixels,
            groups=groups,
            group_in=group_in,
            group_out=group_out,
            group_words=len(product.records) // groups,
            run=run,
            run_steps=_steps(run),
            row_length=product.row_length,
            tile_bytes=product.tile_bytes,
            fill=product.row_length - matrix.shape[1] if form == "mve" else 0,
            contiguous=contiguous,
            direct=direct,
            # Where codes do not come in fours, a run at the border is put together before it is widened.
            patch=workspace if patched else 0,
            spread_block=spread,
            spread_words=group_in // 4 if shared else 0,
            again=shared and total % 4 > 0,
            total=total,
        )
        shape = f"{weight.shape[1]}x{weight.shape[2]}_{group_in}_{weight.shape[0]}"
        scratch = 0 if direct else workspace + (run if patched else 0)
        kernel = ctx.kernel(f"conv2d_{shape}", source, workspace=scratch, headers=block_headers(ctx, form))
        add_block_call(
            ctx,
            kernel,
            "conv2d",
            *self.site.names,
            product.records,
            macs=total * weight.size,
            detail=detail_text(geometry, weight, groups, form) + bits_text(product.bits),
            finish=None if requantizer else self.site.stage,
            distance=None
            if groups > 1
            else pixel_distance(
                geometry, product.pixels, buffered=not direct, again=together and shared and total % 4 > 0
            ),
        )


@dataclass
class _Product:
    """The matrix product of a convolution: blocks for ``pixels`` at a time and for the last ones, their weights.

    ``row_length`` are bytes of a pixel's row of the tile (Helium).
    """

    ctx: KernelContext
    group_out: int
    total: int
    stage: OutputStage
    requantizer: Requantizer | None
    zero_point: int
    groups: int
    texts: dict[str, str] = field(default_factory=dict)
    records: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    pixels: int = 4
    bits: int = 8
    row_length: int = 0
    tile_bytes: int = 0

    def make_dsp(self, matrix: np.ndarray, run: int) -> None:
        """Four pixels by two channels, on a tile of input words."""
        rows = tile_rows(matrix, run)
        steps = rows.shape[1] // 2
        # Packed lanes save an instruction a step and cost eight at the end.
        packed = steps > 8 and packs_lanes(matrix, self.stage.params[:, 0], self.group_out)
        stride = len(matrix) if self.requantizer else 4 * self.group_out
        self.tile_bytes, unrolled = 16 * steps, UNROLLED[self.ctx.level]
        if self.bits < 8:
            self._texts(
                "dsp",
                matrix.shape[1],
                lambda pixels: product_block(
                    pixels,
                    steps,
                    self.group_out,
                    stride,
                    self.requantizer,
                    unrolled,
                    bits=self.bits,
                    doubles=doubles(self.ctx),
                ),
            )
            self.records = self._grouped(rows, nibble_records, self.bits)
            return
        self._texts(
            "dsp",
            matrix.shape[1],
            lambda pixels: matmul_block(
                pixels,
                Layout(steps),
                self.group_out,
                stride,
                packed,
                self.requantizer,
                unrolled,
                doubles=doubles(self.ctx),
            ),
        )
        self.records = self._grouped(rows, matmul_records, packed)

    def make_shared(self, matrix: np.ndarray, run: int) -> None:
        """The same with blocks that all such layers share; the last pixels are done together with some before them."""
        assert self.requantizer is not None
        rows = tile_rows(matrix, run)
        packed = packs_lanes(matrix, self.stage.params[:, 0])
        block = matmul_any_block(packed, self.requantizer, doubles=doubles(self.ctx))
        chunks = -(-rows.shape[1] // (2 * CHUNK))
        times = {"pairs": self.group_out // 2, "turns": chunks}
        calls = -(-self.total // 4)
        self.texts = {"block": block_function(self.ctx, block, "matmul_4px", "dsp", calls, times), "tail": ""}
        self.records = matmul_any_records(rows, self.stage, self.zero_point, packed, self.requantizer)
        # The tile ends where the records' depths do, which come in whole chunks.
        self.tile_bytes = 16 * chunks * CHUNK

    def make_mve(self, matrix: np.ndarray) -> None:
        """Two pixels by four channels, or the only pixel by eight."""
        self.pixels = 2 if self.total >= 2 else 1
        steps, wide = -(-matrix.shape[1] // 16), 8 // self.pixels
        layout = VectorLayout(steps, 16 * steps)
        stride = len(matrix) if self.requantizer else 4 * self.group_out
        make = matmul_mve_block if self.bits == 8 else nibbles_mve_block
        self._texts(
            "mve",
            matrix.shape[1],
            lambda pixels: make(
                pixels, layout, self.group_out, stride, self.requantizer, UNROLLED_MVE[self.ctx.level], wide=wide
            ),
        )
        self.row_length = 16 * steps
        self.tile_bytes = self.pixels * self.row_length
        self.records = self._grouped(matrix, matmul_mve_records if self.bits == 8 else nibbles_mve_records, wide)

    def _texts(self, form: str, depth: int, make: Callable[[int], Block]) -> None:
        whole = self.pixels if self.total >= self.pixels else 0
        for name, pixels in (("block", whole), ("tail", self.total % self.pixels)):
            stem = f"matmul_{pixels}px_{depth}_{self.group_out}"
            calls = self.groups * (self.total // self.pixels if name == "block" else 1)
            self.texts[name] = block_function(self.ctx, make(pixels), stem, form, calls) if pixels else ""

    def _grouped(self, rows: np.ndarray, make: Callable[..., np.ndarray], how: bool | int) -> np.ndarray:
        return np.concatenate(
            [
                make(
                    rows[start : start + self.group_out],
                    part_of(self.stage, start, self.group_out),
                    self.zero_point,
                    how,
                    self.requantizer,
                )
                for start in range(0, len(rows), self.group_out)
            ]
        )


def _steps(run: int) -> int:
    """Pairs of depths a run of codes takes in the tile."""
    return run // 4 * 2 + (run % 4 + 1) // 2


def tile_rows(rows: np.ndarray, run: int) -> np.ndarray:
    """Rows [channels, depth] in the order ``ai_spread`` gives each run: 0 2 1 3 of each four, a rest in pairs."""
    channels = len(rows)
    runs = rows.reshape(channels, -1, run)
    whole = run - run % 4
    order = [base + offset for base in range(0, whole, 4) for offset in (0, 2, 1, 3)] + list(range(whole, run))
    runs = np.pad(runs[:, :, order], ((0, 0), (0, 0), (0, 2 * _steps(run) - run)))
    return np.ascontiguousarray(runs.reshape(channels, -1))
