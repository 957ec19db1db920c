"""Chains of operators run in bands of rows: a convolution and the sum behind it, or several convolutions.

A band is the same operator on fewer rows, so each one's kernel is lowered like any other (:mod:`.dispatch`), for the
few shapes of bands there are: the first, those in the middle, the last. A C function runs them in turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import relax

from ..errors import Error, quoted
from ..graph import dialect
from ..graph.ssa import constant, dtype_of, normalized, shape_of
from ..library import Argument, Call, KernelCost, Stage
from . import choice
from .block_call import block_function
from .blocks.matmul import copy_block
from .context import KernelContext, tensor_argument, workspace_argument
from .dispatch import BINARY, lower_operator
from .row_schedule import Band, RowWindow, Schedule, schedule, written_and_read
from .wanted import APART, WantedForms, is_chain_form

_POOLS = {"q.avg_pool2d", "q.max_pool2d"}
_LINE = 112
# Instructions of C around a kernel's call in a band.
_AROUND = 12
# Instructions to move a byte.
_MOVED = 0.15


@dataclass(frozen=True)
class Link:
    """An operator of a chain: ``chained`` says which of its operands comes from the one before.

    ``other`` is the name of its other tensor, if it has one that is not constant.
    """

    label: str
    call: relax.Call
    chained: int = 0
    other: str = ""


def row_window(call: relax.Call, chained: int = 0) -> RowWindow | None:
    """How an operator goes over rows; None when it cannot be run in bands."""
    window = _row_window(call, chained)
    return window if window is not None and window.splits else None


def _row_window(call: relax.Call, chained: int = 0) -> RowWindow | None:
    name = dialect.name_of(call)
    data, shape = shape_of(call.args[chained]) if call.args else (), shape_of(call)
    if len(shape) != 4 or len(data) != 4 or shape[0] != 1 or dtype_of(call) != "int8":
        return None
    if dtype_of(call.args[chained]) != "int8":
        return None
    attrs = dialect.attributes(call)
    if name == "q.conv2d":
        weight = constant(call.args[1])
        assert weight is not None
        reach = (weight.shape[1] - 1) * attrs["dilation"][0] + 1
        return RowWindow(data[1], shape[1], reach, attrs["strides"][0], attrs["padding"][0])
    if name in _POOLS:
        return RowWindow(data[1], shape[1], attrs["pool"][0], attrs["strides"][0], attrs["padding"][0])
    if name == "q.table":
        return RowWindow(data[1], shape[1])
    if name in BINARY and data == shape:
        other = call.args[1 - chained]
        value = constant(other)
        fits = shape_of(other) == shape if value is None else all(n == 1 for n in value.shape[-3:-2])
        return RowWindow(data[1], shape[1]) if fits and dtype_of(other) == "int8" else None
    return None


def lower_bands(ctx: KernelContext, links: Sequence[Link], data: str, output: str, choices: Sequence[int]) -> bool:
    """Add one call for a chain; False when no kernels fit its bands.

    Every operator, two or more, has a :func:`row_window`. ``choices`` are numbers of rows at a time: the best is taken.
    Set by hand, the chain's form is ``bands-`` and a number of rows, or ``apart``.
    """
    wanted = _wanted_rows(ctx, links, choices)
    choices = choices if wanted is None else wanted
    trials: dict[str, KernelContext] = {}
    for rows in choices:
        trial = ctx.fork()
        chain = _Chain(trial, list(links), data, output, rows)
        if chain.choose():
            chain.add()
            trials[f"bands-{rows}"] = trial
    if not trials:
        return False
    costs = {name: trial.library.calls[-1].costs[0] for name, trial in trials.items()}
    name = choice.pick(ctx, costs)
    ctx.adopt(trials[name])
    call = ctx.library.calls[-1]
    call.costs = [costs[name], *sorted((c for n, c in costs.items() if n != name), key=lambda cost: cost.cycles)]
    call.reason = "set" if wanted else choice.reason(ctx, costs, name)
    return True


def _wanted_rows(ctx: KernelContext, links: Sequence[Link], choices: Sequence[int]) -> Sequence[int] | None:
    """The rows set by hand for a chain: none when its operators shall run apart; None: nothing is set.

    Raises :class:`Error` for a form it does not have.
    """
    number = ctx.number or str(len(ctx.library.calls))
    forms = [ctx.forms.of(number, link.label) for link in links if is_chain_form(ctx.forms.of("", link.label))]
    form = ctx.forms.given.get(f"#{number}") or next(iter(forms), "")
    if not form:
        return None
    ctx.forms.of(number, links[-1].label)
    known = [f"bands-{rows}" for rows in sorted(choices)]
    if form not in (*known, APART):
        raise Error(
            f"--set: operator #{number} is several in bands of rows and has no form {quoted(form)}",
            hint=f"its forms: {', '.join(known)}, {APART}; those of its parts: #{number}.0=..., #{number}.1=...",
        )
    return [] if form == APART else [int(form.removeprefix("bands-"))]


@dataclass(frozen=True)
class _Variant:
    """A kernel for bands of one shape, and its call with ``@data``, ``@other`` and ``@out`` for tensors."""

    call: Call
    cost: KernelCost


def _part_form(ctx: KernelContext, part: int, link: Link) -> str:
    """The form set for an operator of the chain at hand."""
    own, ctx.number = ctx.number, f"{ctx.number or len(ctx.library.calls)}.{part}"
    form = ctx.wanted_form(link.label)
    ctx.number = own
    return form


class _Chain:
    def __init__(self, ctx: KernelContext, links: list[Link], data: str, output: str, rows: int) -> None:
        self.ctx, self.links, self.data, self.output, self.rows = ctx, links, data, output, rows
        self.windows = []
        for link in links:
            window = row_window(link.call, link.chained)
            assert window is not None
            self.windows.append(window)
        self.plan: Schedule = schedule(self.windows, rows)
        self.wanted = [_part_form(ctx, number, link) for number, link in enumerate(links)]
        self.variants: list[dict[tuple[int, int, int, int], _Variant]] = []
        self.headers: set[str] = set()

    def choose(self) -> bool:
        """Lower every operator's bands; False when one has none of a form."""
        for position in range(len(self.links)):
            found = self._variants(position)
            if found is None:
                return False
            self.variants.append(found)
        return True

    def _variants(self, position: int) -> dict[tuple[int, int, int, int], _Variant] | None:
        """Kernels of all bands of an operator in the form that suits the level; they share weights."""
        link = self.links[position]
        times = self._times(position)
        wanted = self.wanted[position]
        main = times.most_common(1)[0][0]
        trial = self._lower(self.ctx.fork(), link, main, wanted)
        if trial is None:
            return None
        forms = [wanted] if wanted else [cost.form for cost in trial.costs] or [""]
        found: dict[str, tuple[KernelContext, dict[tuple[int, int, int, int], _Variant]]] = {}
        costs: dict[str, KernelCost] = {}
        for form in forms:
            fork = self.ctx.fork()
            calls = {shape: self._lower(fork, link, shape, form) for shape in times}
            made = {shape: call for shape, call in calls.items() if call is not None}
            tables = {tuple(a.name for a in call.arguments if a.kind == "constant") for call in made.values()}
            if len(made) < len(calls) or len(tables) > 1:
                continue
            variants = {shape: _Variant(call, _cost(call, form)) for shape, call in made.items()}
            found[form] = fork, variants
            costs[form] = _total(form, [(variants[shape].cost, count) for shape, count in times.items()])
        if not found:
            return None
        fork, chosen = found[choice.pick(self.ctx, costs)]
        self.ctx.adopt(fork)
        return chosen

    def _lower(self, ctx: KernelContext, link: Link, shape: tuple[int, int, int, int], form: str) -> Call | None:
        """The call of a kernel for a band, taken out of the library again."""
        ctx.forms = WantedForms(chosen={link.label: form} if form else {})
        operands = ["@data"]
        if dialect.name_of(link.call) in BINARY:
            operands = ["@other" if link.other else ""] * 2 + [""] * (len(link.call.args) - 2)
            operands[link.chained] = "@data"
        try:
            lower_operator(ctx, _band_call(link, shape), link.label, operands, "@out")
        except Error:
            return None
        finally:
            ctx.forms = self.ctx.forms
        return ctx.library.calls.pop()

    def add(self) -> None:
        """The function that runs the chain, and its call."""
        buffers, offset = [], 0
        for position, count in enumerate(self.plan.rows[:-1]):
            size = count * self._row_bytes(position)
            buffers.append({"offset": offset, "rows": count, "row_bytes": self._row_bytes(position)})
            # Rows are moved in words: the last may reach beyond them.
            offset += -(-(size + 3) // 8) * 8
        work = max(v.call.workspace for found in self.variants for v in found.values())
        constants: dict[str, str] = {}
        for found in self.variants:
            for argument in (a for variant in found.values() for a in variant.call.arguments):
                if argument.kind == "constant":
                    constants.setdefault(argument.name, argument.ctype)
        names = {name: f"weights_{number}" for number, name in enumerate(constants)}
        others = {f"operand_{n}": link.other for n, link in enumerate(self.links) if link.other}
        parameters = [
            "const int8_t *input",
            *(f"const int8_t *{name}" for name in others),
            *(f"const {ctype} *{names[name]}" for name, ctype in constants.items()),
            "int8_t *output",
            "int8_t *scratch",
        ]
        stages = self._stages()
        workspace = offset + work
        operators = " + ".join(stage.operator for stage in stages)
        source = self.ctx.render(
            "bands.c.j2",
            title=operators,
            rows=self.rows,
            parameters=parameters,
            buffers=buffers,
            work=offset if work else None,
            runs=[self._run(run, names) for run in _runs(self.plan)],
        )
        kernel = self.ctx.kernel(
            "_then_".join(stage.operator.removesuffix("_conv2d") for stage in stages),
            source,
            workspace=workspace,
            headers=tuple(sorted(self.headers)),
        )
        arguments = [
            tensor_argument(self.data, "int8"),
            *(tensor_argument(name, "int8") for name in others.values()),
            *(Argument("constant", name, ctype) for name, ctype in constants.items()),
            tensor_argument(self.output, "int8"),
            workspace_argument("int8_t"),
        ]
        self.ctx.add_call(
            Call(
                operators,
                self.links[-1].label,
                kernel.name,
                tuple(arguments),
                tuple(dict.fromkeys((self.data, *others.values()))),
                (self.output,),
                macs=sum(stage.macs for stage in stages),
                workspace=workspace,
                overlaps=self._overlaps(),
                detail=f"bands of {self.rows} rows",
                costs=[self._cost(workspace)],
                stages=tuple(stages),
            )
        )

    def _cost(self, workspace: int) -> KernelCost:
        """All bands of all operators, and the rows moved between them."""
        parts = [
            _total("", [(found[shape].cost, count) for shape, count in self._times(position).items()])
            for position, found in enumerate(self.variants)
        ]
        moved = sum(
            band.moved * self._row_bytes(position)
            for step in self.plan.steps
            for position, band in enumerate(step)
            if band is not None
        )
        return KernelCost(
            f"bands-{self.rows}",
            sum(cost.instructions for cost in parts) + round(moved * _MOVED),
            sum(cost.cycles for cost in parts) + round(1.35 * moved * _MOVED),
            sum(cost.flash for cost in parts),
            workspace,
        )

    def _times(self, position: int) -> Counter[tuple[int, int, int, int]]:
        """How often an operator runs on a band of each shape."""
        return Counter(band.shape for step in self.plan.steps if (band := step[position]) is not None)

    def _stages(self) -> list[Stage]:
        """The operators, as the report shows them."""
        stages = []
        for position, (link, found) in enumerate(zip(self.links, self.variants, strict=True)):
            times = self._times(position)
            main = found[times.most_common(1)[0][0]].call
            macs = sum(found[shape].call.macs * count for shape, count in times.items())
            form = main.costs[0].form if main.costs else ""
            stages.append(Stage(main.operator, link.label, main.kernel, macs, main.detail, form))
        return stages

    def _overlaps(self) -> dict[str, int]:
        """What the result may be written over: the chain's input, and the last operator's other operand.

        A step reads its input rows before it writes, and of the other operand the rows it writes.
        """
        out_bytes, in_bytes = self._row_bytes(-1), _row_bytes(shape_of(self.links[0].call.args[self.links[0].chained]))
        steps = [(written, read) for written, read in written_and_read(self.plan) if read >= 0]
        own = max(0, max((written * out_bytes - read * in_bytes for written, read in steps), default=0))
        others = {link.other for link in self.links[:-1] if link.other}
        overlaps = {} if self.data in others else {self.data: own}
        last = self.links[-1].other
        if last and last not in others and all(v.call.overlaps.get("@other") == 0 for v in self.variants[-1].values()):
            overlaps.setdefault(last, 0)
        elif last == self.data:
            overlaps = {}
        return overlaps

    def _row_bytes(self, position: int) -> int:
        return _row_bytes(shape_of(self.links[position].call))

    def _run(self, run: tuple[int, int], names: dict[str, str]) -> dict[str, Any]:
        first, count = run
        lines: list[str] = []
        for position in range(len(self.links)):
            band = self.plan.steps[first][position]
            if band is None:
                continue
            following = self.plan.steps[first + 1][position] if count > 1 else None
            if band.moved:
                bytes_moved, distance = (rows * self._row_bytes(position) for rows in (band.moved, band.dropped))
                lines.append(self._move(position, bytes_moved, distance, count))
            lines += self._call(position, band, following, self.plan.base(first, position - 1), names)
        made = [step[-1] for step in self.plan.steps[first : first + count] if step[-1] is not None]
        title = f"Rows {made[0].out_start} to {made[-1].out_stop - 1}." if made else "Rows ahead."
        return {"count": count, "lines": lines, "title": title}

    def _move(self, position: int, count: int, distance: int, times: int) -> str:
        """Move ``count`` bytes down in a buffer, in whole words: what lies behind them is written anew."""
        ctx, rows, words = self.ctx, f"rows_{position}", -(-count // 4) * 4
        if ctx.target.mve:
            self.headers.add("ai_kernels_mve.h")
            return f"(void)ai_copy_vectors({rows}, {rows} + {distance}, {count});"
        if ctx.target.dsp and distance % 4 == 0:
            move = block_function(ctx, copy_block(words), f"move_{words}", "dsp", times)
            self.headers.update(ctx.library.kernels[move].headers)
            return f"{move}({rows} + {distance}, {rows});"
        self.headers.add("ai_blocks.h")
        return f"(void)ai_copy_words({rows}, {rows} + {distance}, {words});"

    def _call(self, position: int, band: Band, following: Band | None, before: int, names: dict[str, str]) -> list[str]:
        """``before`` is the first row in the buffer of the operator before."""
        call, link = self.variants[position][band.shape].call, self.links[position]
        in_bytes = _row_bytes(shape_of(link.call.args[link.chained]))
        out_bytes, last = self._row_bytes(position), position + 1 == len(self.links)

        def whole(name: str, row: int, next_row: int | None, size: int) -> str:
            step = (next_row - row) * size if next_row is not None else 0
            terms = [name, *([str(row * size)] if row else []), *([f"step * {step}"] if step else [])]
            return " + ".join(terms)

        def within(name: str, row: int, size: int) -> str:
            return f"{name} + {row * size}" if row else name

        texts = []
        for argument in call.arguments:
            if argument.kind == "constant":
                texts.append(names[argument.name])
            elif argument.kind == "workspace":
                texts.append("work" if argument.ctype == "int8_t" else f"({argument.ctype} *)(void *)work")
            elif argument.name == "@other":
                texts.append(
                    whole(f"operand_{position}", band.out_start, following.out_start if following else None, out_bytes)
                )
            elif argument.name == "@out":
                texts.append(
                    whole("output", band.out_start, following.out_start if following else None, out_bytes)
                    if last
                    else within(f"rows_{position}", band.out_start - band.base, out_bytes)
                )
            elif position == 0:
                texts.append(whole("input", band.in_start, following.in_start if following else None, in_bytes))
            else:
                texts.append(within(f"rows_{position - 1}", band.in_start - before, in_bytes))
        return _wrapped(call.kernel, texts)


def _row_bytes(shape: Sequence[int]) -> int:
    return int(shape[2] * shape[3])


def _band_call(link: Link, shape: tuple[int, int, int, int]) -> relax.Call:
    """The operator on a band: fresh variables of fewer rows, its own padding."""
    in_rows, out_rows, top, bottom = shape
    attrs = dialect.attributes(link.call)
    out_shape = list(attrs.pop("out_shape"))
    out_shape[1] = out_rows
    dtype = attrs.pop("out_dtype")
    if "padding" in attrs:
        _, left, _, right = attrs["padding"]
        attrs["padding"] = [top, left, bottom, right]
    args = list(link.call.args)
    for index, argument in enumerate(args):
        if index == link.chained or (link.other and index == 1 - link.chained):
            extents = list(shape_of(argument))
            extents[1] = in_rows
            args[index] = relax.Var(f"band_{index}", relax.TensorType(extents, dtype_of(argument)))
    return normalized(dialect.call(dialect.name_of(link.call), args, out_shape, dtype, **attrs))


def _cost(call: Call, form: str) -> KernelCost:
    if call.costs:
        return call.costs[0]
    return KernelCost(form, 0, 0, 0, call.workspace)


def _total(form: str, parts: list[tuple[KernelCost, int]]) -> KernelCost:
    """Cost of all bands: flash of the weights counts once."""
    return KernelCost(
        form,
        sum((cost.instructions + _AROUND) * count for cost, count in parts),
        sum((cost.cycles + 2 * _AROUND) * count for cost, count in parts),
        max(cost.flash for cost, _ in parts),
        max(cost.ram for cost, _ in parts),
    )


def _runs(plan: Schedule) -> list[tuple[int, int]]:
    """Steps in which operators do the same to rows ever further down, as (first, count)."""
    runs: list[tuple[int, int]] = []
    for number in range(len(plan.steps)):
        if runs and _alike(plan, runs[-1][0], number):
            runs[-1] = runs[-1][0], runs[-1][1] + 1
        else:
            runs.append((number, 1))
    return runs


def _alike(plan: Schedule, first: int, number: int) -> bool:
    """Whether step ``number`` may follow those from ``first`` on in one loop."""

    last = len(plan.rows) - 1

    def key(t: int) -> list[tuple[object, ...] | None]:
        return [
            (band.shape, band.dropped if band.moved else 0, band.moved, 0 if i == last else band.out_start - band.base)
            if band
            else None
            for i, band in enumerate(plan.steps[t])
        ]

    def starts(t: int) -> list[tuple[int, int]]:
        return [(band.in_start, band.out_start) if band else (0, 0) for band in plan.steps[t]]

    def advance(t: int) -> list[tuple[int, int]]:
        return [(b[0] - a[0], b[1] - a[1]) for a, b in zip(starts(t - 1), starts(t), strict=True)]

    def lags(t: int) -> list[int]:
        return [band.in_start - plan.base(t, i - 1) if band and i else 0 for i, band in enumerate(plan.steps[t])]

    same = key(first) == key(number) and lags(first) == lags(number)
    return same and (number == first + 1 or advance(number) == advance(first + 1))


def _wrapped(kernel: str, texts: list[str]) -> list[str]:
    """The call as lines of at most 120 columns behind their indentation."""
    lines, line = [], f"{kernel}("
    indent = " " * len(line)
    for number, text in enumerate(texts):
        piece = text + (");" if number + 1 == len(texts) else ", ")
        if len(line) + len(piece.rstrip()) > _LINE and line != indent:
            lines.append(line.rstrip())
            line = indent
        line += piece
    return [*lines, line]
