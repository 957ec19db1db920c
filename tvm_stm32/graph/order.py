"""The order of operators that keeps least memory in use at once."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import relax

from .dialect import name_of
from .ssa import Function, operands

# Operators looked at before the search gives up, in all states together: about a second.
_LOOKS = 1_000_000
_ALIASES = {"relax.reshape", "relax.squeeze", "relax.expand_dims", "relax.flatten", "v.slice"}


@dataclass(frozen=True)
class Work:
    """Operators by what they read and make: ``sizes`` of tensors in bytes, the first ``given`` of which are inputs.

    Operator i makes tensor ``given + i`` from ``reads[i]``; ``kept`` are in use to the end.
    """

    sizes: Sequence[int]
    given: int
    reads: Sequence[frozenset[int]]
    kept: frozenset[int]

    def peak(self, order: Sequence[int]) -> int:
        """Most bytes in use at once: what is still to be read, and the result of the operator at hand."""
        state = _State(self)
        return max((state.run(number) for number in order), default=0)

    @property
    def bound(self) -> int:
        """No order needs less: some operator's inputs and result."""
        return max(
            (self.sizes[self.given + i] + sum(self.sizes[t] for t in read) for i, read in enumerate(self.reads)),
            default=0,
        )


def least_memory(function: relax.Function) -> relax.Function:
    """``function`` with its bindings in an order that needs less memory, if one is found."""
    view = Function(function)
    work, moves = _work_of(view)
    given = list(range(len(work.reads)))
    if work.peak(given) <= work.bound:
        return function
    order = best_order(work)
    if work.peak(order) >= work.peak(given):
        return function
    bindings = [view.bindings[moves[number]] for number in order]
    body = relax.SeqExpr([relax.DataflowBlock(_with_aliases(view, bindings))], function.body.body)
    return relax.Function(function.params, body, function.ret_ty, attrs=function.attrs)


def best_order(work: Work) -> list[int]:
    """The order with the lowest peak, by exact search; beyond its limit, by what leaves least at each step."""
    found = _exact(work)
    if found is not None:
        return found
    state = _State(work)
    while len(state.order) < len(work.reads):
        state.run(min(state.ready(), key=lambda number: (state.needs(number), state.leaves(number), number)))
    return state.order


class _State:
    """Operators run so far, and the bytes in use after them."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.readers = [0] * len(work.sizes)
        for read in work.reads:
            for tensor in read:
                self.readers[tensor] += 1
        self.order: list[int] = []
        self.live = sum(work.sizes[t] for t in range(work.given) if self.readers[t] or t in work.kept)
        self.missing = [sum(1 for t in read if t >= work.given) for read in work.reads]
        self.followers: dict[int, list[int]] = {}
        for number, read in enumerate(work.reads):
            for tensor in read:
                self.followers.setdefault(tensor, []).append(number)
        self._ready = {number for number, missing in enumerate(self.missing) if not missing}

    def ready(self) -> set[int]:
        return self._ready

    def needs(self, number: int) -> int:
        return self.live + self.work.sizes[self.work.given + number]

    def leaves(self, number: int) -> int:
        """Bytes in use after ``number`` has run."""
        own = self.work.given + number
        made = self.work.sizes[own] if self.readers[own] or own in self.work.kept else 0
        freed = sum(
            self.work.sizes[t] for t in self.work.reads[number] if self.readers[t] == 1 and t not in self.work.kept
        )
        return self.live + made - freed

    def run(self, number: int) -> int:
        """Run an operator; what was in use meanwhile, in bytes."""
        needed, self.live = self.needs(number), self.leaves(number)
        for tensor in self.work.reads[number]:
            self.readers[tensor] -= 1
        self._ready.discard(number)
        for follower in self.followers.get(self.work.given + number, ()):
            self.missing[follower] -= 1
            if not self.missing[follower]:
                self._ready.add(follower)
        self.order.append(number)
        return needed


def _exact(work: Work) -> list[int] | None:
    """Best first over sets of operators that have run; None when there are too many."""
    count = len(work.reads)
    needs = [sum(1 << (t - work.given) for t in read if t >= work.given) for read in work.reads]
    readers: dict[int, int] = {}
    for number, read in enumerate(work.reads):
        for tensor in read:
            readers[tensor] = readers.get(tensor, 0) | 1 << number
    start = sum(work.sizes[t] for t in range(work.given) if t in readers or t in work.kept)
    done = (1 << count) - 1
    best = {0: 0}
    came: dict[int, tuple[int, int]] = {}
    queue = [(0, count, 0, start)]
    for _ in range(_LOOKS // max(1, count)):
        if not queue:
            return None
        peak, _, ran, live = heapq.heappop(queue)
        if ran == done:
            return _path(came, ran)
        if best[ran] < peak:
            continue
        for number in range(count):
            bit = 1 << number
            if ran & bit or needs[number] & ~ran:
                continue
            own = work.given + number
            after = live + (work.sizes[own] if own in readers or own in work.kept else 0)
            for tensor in work.reads[number]:
                if tensor not in work.kept and not readers[tensor] & ~(ran | bit):
                    after -= work.sizes[tensor]
            reached = max(peak, live + work.sizes[own])
            if reached < best.get(ran | bit, 1 << 62):
                best[ran | bit] = reached
                came[ran | bit] = ran, number
                left = count - (ran | bit).bit_count()
                heapq.heappush(queue, (reached, left, ran | bit, after))
    return None


def _path(came: dict[int, tuple[int, int]], ran: int) -> list[int]:
    order = []
    while ran:
        ran, number = came[ran]
        order.append(number)
    return order[::-1]


def _work_of(view: Function) -> tuple[Work, list[int]]:
    """The operators of a function, and which binding each is; aliases are what they stand for."""
    roots: dict[relax.Var, frozenset[int]] = {}
    sizes: list[int] = []
    for parameter in view.function.params:
        roots[parameter] = frozenset([len(sizes)])
        sizes.append(_bytes(parameter.ty))
    given = len(sizes)
    reads, moves = [], []
    for number, binding in enumerate(view.bindings):
        read = frozenset(root for operand in _variables(binding.value) for root in roots.get(operand, frozenset()))
        if _is_alias(binding.value):
            roots[binding.var] = read
            continue
        roots[binding.var] = frozenset([len(sizes)])
        sizes.append(_bytes(binding.var.ty))
        reads.append(read)
        moves.append(number)
    kept: set[int] = set()
    for variable in _variables(view.function.body.body):
        kept |= roots.get(variable, frozenset())
    return Work(sizes, given, reads, frozenset(kept)), moves


def _is_alias(value: relax.Expr) -> bool:
    return not isinstance(value, relax.Call) or name_of(value) in _ALIASES


def _variables(value: relax.Expr) -> list[relax.Var]:
    found = []
    for operand in operands(value):
        # The arguments of R.call_tir are a tuple of their own.
        found += (
            [part for part in operands(operand) if isinstance(part, relax.Var)]
            if isinstance(operand, relax.Tuple)
            else [operand]
            if isinstance(operand, relax.Var)
            else []
        )
    return found


def _bytes(kind: relax.Type) -> int:
    if isinstance(kind, relax.TupleType):
        return sum(_bytes(field) for field in kind.fields)
    if not isinstance(kind, relax.TensorType) or kind.shape is None:
        return 0
    size = np.dtype("int8" if str(kind.dtype) == "bool" else str(kind.dtype)).itemsize
    return int(np.prod([int(extent) for extent in kind.shape], dtype=np.int64)) * size


def _with_aliases(view: Function, ordered: list[relax.VarBinding]) -> list[relax.VarBinding]:
    """The bindings of operators with those of aliases as soon as what they stand for is there."""
    waiting = [binding for binding in view.bindings if _is_alias(binding.value)]
    known = set(view.function.params)
    result: list[relax.VarBinding] = []

    def take_aliases() -> None:
        nonlocal waiting
        taken = True
        while taken:
            taken = False
            for binding in waiting:
                if all(v in known or v not in view.definitions for v in _variables(binding.value)):
                    result.append(binding)
                    known.add(binding.var)
                    taken = True
            waiting = [binding for binding in waiting if binding.var not in known]

    take_aliases()
    for binding in ordered:
        result.append(binding)
        known.add(binding.var)
        take_aliases()
    return result
