"""Sums, differences, products and quotients of two tensors, with broadcasting.

Of int8 codes there are 65,536 pairs: whatever computes a sum or product here in another way than the reference does has
been compared with it for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from tvm import relax

from .. import numerics
from ..graph import dialect
from ..graph.ssa import constant, dtype_of, shape_of
from ..library import Argument, Call
from ..library.ctypes import CTYPES
from .block_call import block_function, block_headers
from .blocks.affine import CODES, Affine, SumOfCodes, fit_affine
from .blocks.elementwise import (
    FRACTION,
    Rounding,
    TableSum,
    fit_rounding,
    fit_table,
    product_block,
    sum_block,
    table_block,
)
from .blocks.program import Block
from .choice import Lower, lower_best
from .context import KernelContext, constant_argument, tensor_argument
from .elementwise import HEADER, paren
from .stage import ROUNDING

# Codes a row must have for a block to be called for it.
_SHORTEST = 8
# Words of a turn of a block's loop.
_UNROLLED = {"time": 4, "balanced": 1, "ram": 1, "size": 1}
# Instructions of the C form for an output, measured: the function of :mod:`.blocks.affine`, the reference's steps.
_AFFINE, _STEPS = 9, {"add": 19, "sub": 19, "mul": 14, "div": 40}


@dataclass(frozen=True)
class Loop:
    """A loop over one (merged) axis of a broadcast operator: steps of both operands in elements."""

    extent: int
    lhs_step: int
    rhs_step: int


def broadcast_loops(out: tuple[int, ...], lhs: tuple[int, ...], rhs: tuple[int, ...]) -> list[Loop]:
    """Loops over the output in memory order; neighbouring axes that step alike are merged."""
    loops: list[Loop] = []
    for extent, lhs_step, rhs_step in zip(out, _steps(out, lhs), _steps(out, rhs), strict=True):
        if extent == 1:
            continue
        if loops and loops[-1].lhs_step == lhs_step * extent and loops[-1].rhs_step == rhs_step * extent:
            loops[-1] = Loop(loops[-1].extent * extent, lhs_step, rhs_step)
        else:
            loops.append(Loop(extent, lhs_step, rhs_step))
    return loops or [Loop(1, 0, 0)]


def _steps(out: tuple[int, ...], shape: tuple[int, ...]) -> list[int]:
    padded = (1,) * (len(out) - len(shape)) + shape
    steps, step = [], 1
    for extent in reversed(padded):
        steps.append(0 if extent == 1 else step)
        step *= extent
    return steps[::-1]


def _index(loops: list[Loop], attribute: str) -> str:
    terms = []
    for number, loop in enumerate(loops):
        step = getattr(loop, attribute)
        if step:
            terms.append(f"i{number}" if step == 1 else f"i{number} * {step}")
    return " + ".join(terms) or "0"


@dataclass(frozen=True)
class _Binary:
    """An operator to be lowered. A constant has an empty name in ``operands``."""

    node: str
    operands: list[str]
    output: str
    call: relax.Call

    @property
    def operator(self) -> str:
        return dialect.name_of(self.call).removeprefix("q.")

    @property
    def attrs(self) -> dict[str, Any]:
        return dialect.attributes(self.call)

    @property
    def dtype(self) -> str:
        return dtype_of(self.call)

    @property
    def count(self) -> int:
        return int(np.prod(shape_of(self.call), dtype=np.int64))

    @property
    def loops(self) -> list[Loop]:
        return broadcast_loops(shape_of(self.call), *map(shape_of, self.call.args[:2]))

    @property
    def _scaling(self) -> tuple[tuple[str, Any], ...]:
        return tuple((name, value) for name, value in sorted(self.attrs.items()) if isinstance(value, int | str))

    def affine(self, fraction: int) -> Affine | None:
        """How a sum of int8 codes is one of two products."""
        if self.dtype != "int8" or self.operator not in ("add", "sub"):
            return None
        return _affine(self.operator, self._scaling, fraction)

    def product(self) -> Rounding | None:
        """How a product of int8 codes is rounded in lanes."""
        if self.dtype != "int8" or self.operator != "mul":
            return None
        return _product(self._scaling)

    def table(self) -> TableSum | None:
        """How a sum of int8 codes is made with a table."""
        if self.dtype != "int8" or self.operator not in ("add", "sub"):
            return None
        return _table(self.operator, self._scaling)


def lower_binary(ctx: KernelContext, call: relax.Call, node: str, operands: list[str], output: str) -> None:
    """``q.add``, ``q.sub``, ``q.mul``, ``q.div`` with broadcasting. A constant has an empty name in ``operands``."""
    site = _Binary(node, operands, output, call)
    candidates: dict[str, Lower] = {}
    last = site.loops[-1]
    if ctx.target.dsp and not ctx.target.mve and (last.lhs_step, last.rhs_step) == (1, 1) and last.extent >= _SHORTEST:
        affine, product = site.affine(FRACTION), site.product()
        table = site.table() if affine is None else None
        if affine is not None:
            candidates["lanes"] = lambda trial: _lower_sum(trial, site, affine)
        if product is not None:
            candidates["lanes"] = lambda trial: _lower_product(trial, site, product)
        if table is not None:
            candidates["table"] = lambda trial: _lower_table(trial, site, table)
    candidates["plain"] = lambda trial: _lower_plain(trial, site)
    # Scales are constants in the code, so that operators of one shape do not share it.
    ctx.repeats = 1
    lower_best(ctx, node, candidates)


def _lower_sum(ctx: KernelContext, site: _Binary, affine: Affine) -> None:
    limits = int(site.attrs["clamp_min"]), int(site.attrs["clamp_max"])
    _lower_block(ctx, site, sum_block(site.loops[-1].extent, affine, *limits, _UNROLLED[ctx.level]))


def _lower_product(ctx: KernelContext, site: _Binary, rounding: Rounding) -> None:
    zero_points = int(site.attrs["lhs_zero_point"]), int(site.attrs["rhs_zero_point"])
    _lower_block(ctx, site, product_block(site.loops[-1].extent, zero_points, rounding, _UNROLLED[ctx.level]))


def _lower_table(ctx: KernelContext, site: _Binary, table: TableSum) -> None:
    _lower_block(ctx, site, table_block(site.loops[-1].extent, table, _UNROLLED[ctx.level]), table)


def _lower_block(ctx: KernelContext, site: _Binary, block: Block, table: TableSum | None = None) -> None:
    *outer, row = site.loops
    calls = site.count // row.extent
    source = ctx.render(
        "binary_block.c.j2",
        operator=site.operator,
        table=table,
        loops=outer,
        count=row.extent,
        lhs_index=_index(outer, "lhs_step"),
        rhs_index=_index(outer, "rhs_step"),
        block=block_function(ctx, block, f"{site.operator}_{row.extent}", "dsp", calls),
    )
    ctx.usage.add(6 * (calls - 1), code=60)
    entries = None if table is None else np.array(table.entries, np.int32)
    _add(ctx, site, source, block_headers(ctx, "dsp"), "dsp lanes" if table is None else "dsp table", entries)


def _lower_plain(ctx: KernelContext, site: _Binary) -> None:
    operator, attrs, loops, count = site.operator, site.attrs, site.loops, site.count
    affine, product = site.affine(0), site.product()
    vector = ctx.target.mve and site.dtype == "int8" and _is_plain(site, affine, product)
    source = ctx.render(
        "binary.c.j2",
        paren=paren,
        operator=operator,
        vector=vector,
        affine=affine,
        product=product,
        long_products=ctx.target.cpu not in ("cortex-m0", "cortex-m0plus"),
        count=count,
        ctype=CTYPES[site.dtype],
        loops=loops,
        lhs_index=_index(loops, "lhs_step"),
        rhs_index=_index(loops, "rhs_step"),
        **{**attrs, "rounding": ROUNDING[attrs["rounding"]]},
    )
    ctx.usage.add(count * (_AFFINE if affine else _STEPS[operator]) / (4 if vector else 1), code=120)
    headers = ("ai_kernels_mve.h",) if vector else HEADER
    _add(ctx, site, source, ("ai_blocks.h", *headers) if affine or product else headers, "")


def _is_plain(site: _Binary, affine: Affine | None, product: Rounding | None) -> bool:
    """Whether both operands are walked alike and four sums or products are made at a time as one is."""
    attrs, loops = site.attrs, site.loops
    if len(loops) != 1 or (loops[0].lhs_step, loops[0].rhs_step) != (1, 1):
        return False
    if site.operator not in ("add", "sub"):
        return product is not None
    steps = attrs["rounding"] == "tflm" and max(attrs["lhs_shift"], attrs["rhs_shift"], attrs["shift"]) <= 0
    return affine is not None or steps


def _add(
    ctx: KernelContext,
    site: _Binary,
    source: str,
    headers: tuple[str, ...],
    detail: str,
    entries: np.ndarray | None = None,
) -> None:
    """A call of the kernel of this text; ``entries`` are its table of words."""
    operator, dtype, call = site.operator, site.dtype, site.call
    stem = f"{operator}{'' if dtype == 'int8' else dtype.removeprefix('int')}_{site.count}"
    kernel = ctx.kernel(stem, source, headers=headers)
    arguments: list[Argument] = []
    for name, expr in zip(site.operands, call.args, strict=True):
        if name:
            arguments.append(tensor_argument(name, dtype))
        else:
            codes = constant(expr)
            assert codes is not None
            label = ctx.constant(f"{operator}_{len(ctx.library.calls)}_operand", codes)
            arguments.append(constant_argument(label, dtype_of(expr)))
    if entries is not None:
        label = ctx.constant(f"{operator}_{len(ctx.library.calls)}_table", entries)
        arguments.append(constant_argument(label, "int32"))
    inputs = tuple(name for name in site.operands if name)
    same = [n for n, e in zip(site.operands, call.args, strict=True) if n and shape_of(e) == shape_of(call)]
    ctx.add_call(
        Call(
            operator,
            site.node,
            kernel.name,
            (*arguments, tensor_argument(site.output, dtype)),
            inputs,
            (site.output,),
            overlaps=dict.fromkeys(same, 0),
            detail=detail,
        )
    )


@cache
def _affine(operator: str, items: tuple[tuple[str, Any], ...], fraction: int) -> Affine | None:
    attrs = dict(items)
    sign = 1 if operator == "add" else -1
    common = attrs["multiplier"] * 2.0 ** (attrs["shift"] + attrs["left_shift"] - 62)
    scales = tuple(attrs[f"{name}_multiplier"] * 2.0 ** attrs[f"{name}_shift"] * common for name in ("lhs", "rhs"))
    wanted = SumOfCodes(
        binary_codes(operator, attrs),
        (scales[0], sign * scales[1]),
        (attrs["lhs_zero_point"], attrs["rhs_zero_point"]),
        attrs["output_zero_point"],
        attrs["clamp_min"],
        attrs["clamp_max"],
    )
    return fit_affine(wanted, fraction)


@cache
def _product(items: tuple[tuple[str, Any], ...]) -> Rounding | None:
    attrs = dict(items)
    lhs, rhs = (CODES - attrs[f"{name}_zero_point"] for name in ("lhs", "rhs"))
    return fit_rounding(binary_codes("mul", attrs), 2 * np.outer(lhs, rhs), attrs)


@cache
def _table(operator: str, items: tuple[tuple[str, Any], ...]) -> TableSum | None:
    attrs = dict(items)
    lhs, rhs = _contributions(attrs)
    return fit_table(binary_codes(operator, attrs), (lhs, rhs if operator == "add" else -rhs), attrs)


def _contributions(attrs: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """What each code of each operand adds to a sum, before the sum is scaled."""
    lhs, rhs = (
        numerics.MULTIPLY[attrs["rounding"]](
            (CODES - attrs[f"{name}_zero_point"]) << attrs["left_shift"],
            attrs[f"{name}_multiplier"],
            attrs[f"{name}_shift"],
        ).astype(np.int64)
        for name in ("lhs", "rhs")
    )
    return lhs, rhs


def binary_codes(operator: str, attrs: dict[str, Any]) -> np.ndarray:
    """What ``q.add``, ``q.sub`` or ``q.mul`` gives for each pair of int8 codes, [256, 256]."""
    multiply = numerics.MULTIPLY[attrs["rounding"]]
    if operator == "mul":
        values = np.outer(*(CODES - attrs[f"{name}_zero_point"] for name in ("lhs", "rhs")))
    else:
        lhs, rhs = _contributions(attrs)
        values = lhs[:, None] + (rhs if operator == "add" else -rhs)[None, :]
    codes = multiply(values, attrs["multiplier"], attrs["shift"]).astype(np.int64) + attrs["output_zero_point"]
    return np.asarray(np.clip(codes, attrs["clamp_min"], attrs["clamp_max"]))
