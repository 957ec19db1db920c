"""Convolutions and dense layers on int16 activations for cores with the DSP extension or Helium: generated blocks.

int32 accumulators stand for TFLM's int64 ones where the weights prove that they suffice; else the depth is taken in
parts, each of which is proven, and C adds the parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from tvm import relax

from ..graph import dialect
from ..library import Call
from .block_call import UNROLLED, UNROLLED_MVE, block_function, block_headers, doubles
from .blocks.product import COLUMNS, Tile, product_block, product_records
from .blocks.product_mve import DEPTHS, product_mve_block, product_mve_records
from .blocks.product_vector import product_vector_block, product_vector_records
from .blocks.program import Block
from .blocks.requantize_wide import WideRequantizer, WideScales, wide_range
from .context import KernelContext, constant_argument, tensor_argument, workspace_argument
from .window import detail_text, geometry_of

# Bytes an instruction reaches behind a pointer.
_REACH = 4096
_UNROLLED_ROWS = {"time": 32, "balanced": 8, "ram": 8, "size": 2}


@dataclass
class WideOperator:
    """A ``q.conv2d16``: weights OHWI, biases, scales of each channel, bounds of codes; ``wide`` the accumulator."""

    call: relax.Call
    weight: np.ndarray
    bias: np.ndarray
    multiplier: np.ndarray
    shift: np.ndarray

    @property
    def wide(self) -> bool:
        """Whether TFLM's accumulator is an int64."""
        return str(dialect.attributes(self.call)["accumulator"]) == "int64"

    @property
    def bounds(self) -> tuple[int, int]:
        """Least and largest code."""
        attrs = dialect.attributes(self.call)
        return int(attrs["clamp_min"]), int(attrs["clamp_max"])

    def scales(self) -> WideScales | None:
        """Constants of the requantization in a block, where that is exact."""
        if not self.wide:
            return None
        return WideScales.of(self.weight, self.bias, self.multiplier, self.shift)


def lower_wide_block(
    ctx: KernelContext, operator: WideOperator, node: str, data: str, output: str, scales: np.ndarray, form: str
) -> None:
    """Any ``q.conv2d16`` that is not depthwise; ``scales`` [channels, 2] are those of the C form."""
    attrs = dialect.attributes(operator.call)
    weight, groups = operator.weight, int(attrs["groups"])
    geometry = geometry_of(operator.call, weight)
    group_in, group_out = weight.shape[3], len(weight) // groups
    contiguous = groups == 1 and geometry["dilation_w"] == 1
    total = geometry["batch"] * geometry["out_h"] * geometry["out_w"]
    fast = operator.scales()
    if fast is not None:
        weight = fast.weight
    ones = (*weight.shape[1:3], geometry["stride_h"], geometry["stride_w"], groups) == (1, 1, 1, 1, 1)
    product = _Product(ctx, operator, fast, groups, total)
    run, direct = weight.shape[2] * group_in if contiguous else group_in, ones and not geometry["padded"]
    product.make_mve(weight, direct=direct) if form == "mve" else product.make_dsp(weight, run, direct=direct)
    if not product.values["direct"]:
        # Estimated: a gathered code takes 2.3 instructions (Helium: 0.5), a pixel its share.
        ctx.usage.add(total * weight[0].size * groups * (0.5 if form == "mve" else 2.3) + total * 60)
    if fast is None:
        ctx.usage.add(total * len(weight) * 40)
    workspace = product.tile_bytes + (4 * product.pixels * group_out * product.parts if fast is None else 0)
    source = ctx.render(
        "conv2d16_block.c.j2",
        **geometry,
        **product.values,
        mve=form == "mve",
        groups=groups,
        group_in=group_in,
        group_out=group_out,
        run=run,
        contiguous=contiguous,
        total=total,
        sums=fast is None,
        sums_bytes=4 * product.pixels * group_out,
        wide=int(operator.wide),
        clamp_min=operator.bounds[0],
        clamp_max=operator.bounds[1],
        workspace=workspace,
    )
    shape = f"{weight.shape[1]}x{weight.shape[2]}_{group_in}_{len(weight)}"
    kernel = ctx.kernel(f"conv2d16_{shape}", source, workspace=workspace, headers=block_headers(ctx, form))
    constants = {"weights": product.records}
    if fast is None:
        constants |= {"bias": operator.bias.astype(np.int64), "scales": scales}
    add_wide_call(
        ctx,
        kernel.name,
        ("conv2d", node, data, output),
        constants,
        macs=total * weight.size,
        workspace=workspace,
        detail=f"{detail_text(geometry, weight, groups, 'int16')} {form}",
    )


def add_wide_call(
    ctx: KernelContext,
    kernel: str,
    names: tuple[str, str, str, str],
    constants: dict[str, np.ndarray],
    *,
    macs: int,
    workspace: int,
    detail: str,
    distance: int | None = None,
) -> None:
    """Add a call of ``kernel``: (input, constants, output[, scratch]); ``names`` are operator, node, data, output."""
    operator, node, data, output = names
    stem = f"conv2d16_{len(ctx.library.calls)}"
    arguments = [tensor_argument(data, "int16")]
    arguments += [constant_argument(ctx.constant(f"{stem}_{k}", v), v.dtype.name) for k, v in constants.items()]
    arguments.append(tensor_argument(output, "int16"))
    if workspace:
        arguments.append(workspace_argument("int8_t"))
    ctx.add_call(
        Call(
            operator,
            node,
            kernel,
            tuple(arguments),
            (data,),
            (output,),
            macs=macs,
            workspace=workspace,
            overlaps={} if distance is None else {data: distance},
            detail=detail,
        )
    )


@dataclass
class _Product:
    """Blocks of a convolution, its weights, and how its depth is cut into parts; ``values`` are for the template."""

    ctx: KernelContext
    operator: WideOperator
    fast: WideScales | None
    groups: int
    total: int
    values: dict[str, object] = field(default_factory=dict)
    records: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    pixels: int = 4
    parts: int = 1
    tile_bytes: int = 0

    def make_dsp(self, weight: np.ndarray, run: int, *, direct: bool) -> None:
        """Four pixels by two channels, or the only pixel by six."""
        rows, stage = self._split(paired_rows(weight, run), 2), self._stage()
        steps, channels = rows.shape[2] // 2, len(weight) // self.groups
        stride = 2 * len(weight) if self.fast is not None else 4 * channels
        unrolled, depth = UNROLLED[self.ctx.level], weight.shape[3]
        # Pixels of a pointwise convolution are a tile already: words of two channels.
        direct = direct and depth % 2 == 0 and self.parts * steps * 2 == depth
        vector = self.total == 1
        if vector:
            self.pixels, tile = 1, Tile(0, 4)
        elif direct and 6 * depth + 4 * (unrolled + 2) < _REACH:
            tile = Tile(2 * depth, 4)
        else:
            direct, tile = False, COLUMNS

        def block(pixels: int) -> Block:
            if vector:
                return product_vector_block(steps, channels, stage, _UNROLLED_ROWS[self.ctx.level])
            return product_block(pixels, steps, channels, stride, stage, unrolled, tile=tile, doubles=doubles(self.ctx))

        self._texts("dsp", 2 * steps, block)
        self._records(rows, product_vector_records if vector else product_records)
        self.tile_bytes = 0 if direct else self.parts * steps * tile.step
        self.values |= {
            "part_bytes": steps * tile.step,
            "row_step": tile.step,
            "pixel_step": tile.pixel,
            "tile_bytes": self.tile_bytes,
            "fill": self.parts * steps - paired_rows(weight, run).shape[1] // 2,
            "direct": direct,
        }

    def make_mve(self, weight: np.ndarray, *, direct: bool) -> None:
        """Two pixels by four channels, or the only pixel by eight."""
        rows, stage = self._split(weight.reshape(len(weight), -1), DEPTHS), self._stage()
        steps, channels, depth = rows.shape[2] // DEPTHS, len(weight) // self.groups, weight[0].size
        self.pixels = 2 if self.total >= 2 else 1
        wide, row_bytes = 8 // self.pixels, 2 * rows.shape[1] * rows.shape[2]
        stride = 2 * len(weight) if self.fast is not None else 4 * channels
        direct = direct and row_bytes == 2 * depth
        self._texts(
            "mve",
            DEPTHS * steps,
            lambda pixels: product_mve_block(
                pixels, steps, channels, row_bytes, stride, stage, UNROLLED_MVE[self.ctx.level], wide=wide
            ),
        )
        self._records(rows, partial(product_mve_records, wide=wide))
        self.tile_bytes = 0 if direct else self.pixels * row_bytes
        self.values |= {
            "part_bytes": 16 * steps,
            "row_step": 0,
            "pixel_step": row_bytes,
            "tile_bytes": self.tile_bytes,
            "fill": row_bytes - 2 * depth,
            "direct": direct,
        }

    def _texts(self, form: str, depth: int, make: Callable[[int], Block]) -> None:
        """Blocks for ``pixels`` at a time and for the last ones."""
        channels = len(self.operator.weight) // self.groups
        self.values["pixels"] = self.pixels
        whole = self.pixels if self.total >= self.pixels else 0
        for name, pixels in (("block", whole), ("tail", self.total % self.pixels)):
            calls = self.groups * self.parts * (self.total // self.pixels if name == "block" else 1)
            stem = f"product_{pixels}px_{depth}_{channels}"
            self.values[name] = block_function(self.ctx, make(pixels), stem, form, calls) if pixels else ""

    def _records(self, rows: np.ndarray, make: Callable[..., np.ndarray]) -> None:
        """Weights and tables of every part of every group; ``rows`` [channels, parts, depth of a part]."""
        pieces, channels = [], len(rows) // self.groups
        for start in range(0, len(rows), channels):
            mine = slice(start, start + channels)
            bias, multiplier = np.zeros(channels, np.int32), None
            if self.fast is not None:
                bias, multiplier = self.fast.bias[mine], self.fast.multiplier[mine]
            pieces += [make(rows[mine, part], bias, multiplier) for part in range(self.parts)]
        self.records = np.concatenate(pieces)
        self.values |= {"parts": self.parts, "part_words": len(pieces[0])}

    def _stage(self) -> WideRequantizer | None:
        return None if self.fast is None else WideRequantizer(*self.operator.bounds)

    def _split(self, rows: np.ndarray, multiple: int) -> np.ndarray:
        """[channels, parts, depth of a part] such that sums of every part fit 32 bits."""
        while True:
            length = -(-rows.shape[1] // (self.parts * multiple)) * multiple
            split = np.pad(rows, ((0, 0), (0, length * self.parts - rows.shape[1]))).reshape(len(rows), -1, length)
            # The fast form has proven the whole; a 32-bit accumulator of TFLM wraps as ours does.
            if self.fast is not None or not self.operator.wide:
                return split
            low, high = wide_range(split.reshape(-1, length), np.zeros(len(rows) * self.parts))
            if (low >= -(1 << 31)).all() and (high < (1 << 31)).all():
                return split
            self.parts += 1


def paired_rows(weight: np.ndarray, run: int) -> np.ndarray:
    """Rows [channels, depth] of weights OHWI; each run of codes takes whole pairs."""
    runs = weight.reshape(len(weight), -1, run)
    return np.pad(runs, ((0, 0), (0, 0), (0, run % 2))).reshape(len(weight), -1)
