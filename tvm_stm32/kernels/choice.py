"""Which form of a kernel an operator gets: every form that fits is made, what it costs is counted, the best stays.

Costs are those of the blocks, counted from their description, and of the C around them, estimated from measured counts
(``benchmarks/kernels.py`` compares both with what the emulator executes).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ..errors import Error, quoted
from ..library import KernelCost
from .context import KernelContext

Lower = Callable[[KernelContext], None]

# How a share of the network's flash weighs against the same share of its cycles.
_FLASH_WEIGHT = 3.0
_CYCLES_PER_MAC = 1.3
_CODE_BYTES = 16384

_REASONS = {
    "time": "fewest cycles",
    "balanced": "least cycles and flash together",
    "ram": "least cycles and flash together",
    "size": "least flash",
}


def lower_best(ctx: KernelContext, node: str, candidates: Mapping[str, Lower]) -> None:
    """Lower an operator in the form that suits ``ctx.level``, or the one set for ``node``.

    Raises :class:`Error` when the form set for it is none of ``candidates``.
    """
    wanted = ctx.wanted_form(node)
    if wanted and wanted not in candidates:
        raise Error(
            f"--set: operator {quoted(node)} has no kernel of the form {quoted(wanted)} here",
            hint=f"its forms on {ctx.target.cpu} at -O {ctx.level}: " + ", ".join(candidates),
        )
    trials: dict[str, tuple[KernelContext, KernelCost]] = {}
    for name, lower in candidates.items():
        trial = ctx.fork()
        lower(trial)
        trials[name] = trial, _cost(ctx, trial, name)
    costs = {name: cost for name, (_, cost) in trials.items()}
    name = wanted or pick(ctx, costs)
    ctx.adopt(trials[name][0])
    call = ctx.library.calls[-1]
    others = sorted((cost for other, cost in costs.items() if other != name), key=lambda cost: cost.cycles)
    call.costs = [costs[name], *others]
    ctx.alternatives[node] = {
        other: replace(trial.library.calls[-1], costs=[costs[other]]) for other, (trial, _) in trials.items()
    }
    call.reason = "set" if wanted else reason(ctx, len(costs))


def reason(ctx: KernelContext, forms: int) -> str:
    """Why the form of an operator that has so many was picked."""
    return _REASONS[ctx.level] if forms > 1 else "the only form that fits"


def _cost(before: KernelContext, trial: KernelContext, name: str) -> KernelCost:
    old, new = before.library, trial.library
    call = new.calls[-1]
    # Constants may be shared with others, but what an operator reads is what it costs.
    weights = sum(new.constants[a.name].data.nbytes for a in call.arguments if a.kind == "constant")
    assert len(new.calls) == len(old.calls) + 1
    usage = trial.usage
    return KernelCost(
        name,
        round(usage.instructions),
        round(usage.cycles),
        # Operators of one shape share their code.
        weights + round(usage.code / before.repeats),
        call.workspace,
    )


def pick(ctx: KernelContext, costs: Mapping[str, KernelCost]) -> str:
    """The form that suits ``ctx.level``."""
    if ctx.level == "size":
        return min(costs, key=lambda name: (costs[name].flash, costs[name].cycles))
    if ctx.level == "time":
        return min(costs, key=lambda name: (costs[name].cycles, costs[name].flash))
    cycles, flash = max(1.0, ctx.macs * _CYCLES_PER_MAC), ctx.weight_bytes + _CODE_BYTES
    # -O ram begins with these, and takes others where the network needs most (:mod:`tvm_stm32.ram_search`).
    return min(costs, key=lambda name: costs[name].cycles / cycles + _FLASH_WEIGHT * costs[name].flash / flash)
