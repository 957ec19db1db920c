"""Modelled cycles of an executed trace, function by function.

Each way from one block to the next is run through the core's model once, after the block most often executed before,
and weighed with how often it was taken. A branch belongs to the function it is in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ...boards import Board
from ...errors import FirmwareError
from ..emulator import DEFAULT_TIMEOUT_S, run_image
from ..inference import run_samples
from ..trace import OUTSIDE, Block, Cache, Trace
from .cores import pipeline_of
from .disassembly import disassemble
from .instruction import Instruction, decode
from .pipeline import NO_ACCESS, Pipeline
from .symbols import Symbols


class FunctionCost(NamedTuple):
    """What a function's own instructions cost in one inference, without those of the functions it calls.

    A function the compiler inlined by its own choice stands apart, as ``name [in caller]``; its calls are 0 where the
    debug information does not know its first instruction.
    """

    symbol: str
    instructions: int
    cycles: int
    calls: int


class InstructionCost(NamedTuple):
    """An instruction of the image: how often it was executed, and what that took in all."""

    address: int
    executed: int
    cycles: float
    symbol: str
    text: str


@dataclass(frozen=True)
class CycleModel:
    """Instructions and modelled cycles of one inference, and of its functions, the dearest first.

    ``listing`` has its instructions in the order of their addresses.
    """

    instructions: int
    cycles: int
    functions: list[FunctionCost]
    listing: list[InstructionCost]

    def listed(self, symbol: str) -> str:
        """The instructions of a function: times executed, cycles each time, address, text."""
        lines = [
            f"{cost.executed:>10,} {cost.cycles / cost.executed:>6.2f}  {cost.address:08x}  {cost.text}"
            for cost in self.listing
            if cost.symbol == symbol
        ]
        return "\n".join(lines)


def profile(
    image: Path,
    board: Board,
    arguments: Sequence[str] = (),
    *,
    samples: Sequence[bytes] = (),
    wait_states: int = 0,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    cwd: Path | None = None,
    cache_dir: Path | None = None,
) -> list[FunctionCost]:
    """Run ``image`` on the board's emulator and model the cycles of what it does between the two bench markers.

    ``arguments`` are the program's; with ``samples`` it is the runner and gets those. The last inference counts.
    ``wait_states`` are those of the flash. Raises what :func:`run_image` does, and :class:`FirmwareError` for a core
    without a model.
    """
    caches = caches_of(board, wait_states)
    if samples:
        _, run = run_samples(
            image, board, samples, timeout_s=timeout_s, count="trace", cache_dir=cache_dir, caches=caches
        )
    else:
        run = run_image(
            image, board, arguments, timeout_s=timeout_s, cwd=cwd, count="trace", cache_dir=cache_dir, caches=caches
        )
    assert run.trace is not None
    return model_cycles(image, board, run.trace, wait_states).functions


def caches_of(board: Board, wait_states: int) -> tuple[Cache, Cache] | None:
    """The caches to simulate for a trace that is modelled with that many wait states of the flash."""
    return type(pipeline_of(board.target.cpu)).caches if wait_states else None


def model_cycles(image: Path, board: Board, trace: Trace, wait_states: int = 0) -> CycleModel:
    """The cycles of ``trace``, recorded from ``image`` on ``board``. Raises :class:`FirmwareError`."""
    texts = disassemble(image, board.target)
    code = {address: decode(address, width, text) for address, (width, text) in texts.items()}
    walk = _Walk(trace, code, pipeline_of(board.target.cpu), wait_states)
    walk.run()
    return _by_function(Symbols(image), walk, trace, {address: text for address, (_, text) in texts.items()})


@dataclass
class _Walk:
    """Sums over the trace, by address of the instruction."""

    trace: Trace
    code: dict[int, Instruction]
    empty: Pipeline
    wait_states: int
    cycles: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    executed: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def run(self) -> None:
        self.bodies = {number: self._body(block) for number, block in self.trace.blocks.items()}
        self.usual: dict[int, int] = {}
        for (origin, goal), _ in sorted(self.trace.edges.items(), key=lambda item: item[1]):
            self.usual[goal] = origin
        for (origin, goal), count in self.trace.edges.items():
            self._follow(origin, goal, count)
        if self.empty.mispredicted:
            self._mispredict()
        if self.wait_states:
            for number, block in self.trace.blocks.items():
                self._wait(self.bodies[number], block)
            for address, access in self.trace.accesses.items():
                self.cycles[address] += access.misses * self.wait_states

    def _body(self, block: Block) -> list[Instruction]:
        body, address = [], block.address
        for _ in range(block.instructions):
            instruction = self.code.get(address)
            if instruction is None:
                raise FirmwareError(f"the instruction executed at 0x{address:08x} is not in the image's disassembly")
            body.append(instruction)
            address = instruction.end
        return body

    def _target(self, body: list[Instruction], goal: int) -> Instruction | None:
        """Where the last instruction of a block jumps to when ``goal`` follows; None when it does not."""
        if not body or not self.bodies.get(goal):
            return body[-1] if body and goal == OUTSIDE and body[-1].branches else None
        first = self.bodies[goal][0]
        return first if first.address != body[-1].end else None

    def _follow(self, origin: int, goal: int, count: int) -> None:
        """Charge the last instruction of ``origin`` and all but the last of ``goal``."""
        before, body = self.bodies.get(origin, []), self.bodies.get(goal, [])
        pipeline = self.empty.copy()
        earlier = self.bodies.get(self.usual.get(origin, OUTSIDE), [])
        for instruction in earlier[:-1]:
            self._issue(pipeline, instruction)
        if earlier:
            self._issue(pipeline, earlier[-1], self._target(earlier, origin))
        for instruction in before[:-1]:
            self._issue(pipeline, instruction)
        if before:
            self._charge(pipeline, before[-1], count, self._target(before, goal))
        for instruction in body[:-1]:
            self._charge(pipeline, instruction, count)
        for instruction in body:
            self.executed[instruction.address] += count

    def _issue(self, pipeline: Pipeline, instruction: Instruction, target: Instruction | None = None) -> None:
        pipeline.issue(instruction, self.trace.accesses.get(instruction.address, NO_ACCESS), target)

    def _charge(
        self, pipeline: Pipeline, instruction: Instruction, count: int, target: Instruction | None = None
    ) -> None:
        start = pipeline.cycle
        self._issue(pipeline, instruction, target)
        self.cycles[instruction.address] += count * (pipeline.cycle - start)

    def _mispredict(self) -> None:
        """The rarer way of a conditional branch is taken to be mispredicted each time."""
        ways: dict[int, list[int]] = defaultdict(lambda: [0, 0])
        for (origin, goal), count in self.trace.edges.items():
            body = self.bodies.get(origin, [])
            if body and body[-1].kind == "branch" and not body[-1].indirect:
                ways[body[-1].address][self._target(body, goal) is not None] += count
        for address, (straight, taken) in ways.items():
            self.cycles[address] += min(straight, taken) * self.empty.mispredicted

    def _wait(self, body: list[Instruction], block: Block) -> None:
        """Missing code lines: jumped to, a whole access; in sequence, what the prefetch could not hide."""
        if not block.jumps and not block.lines:
            return
        line = self.empty.caches[0].line
        size = body[-1].end - body[0].address
        spent = sum(self.cycles[i.address] / max(1, self.executed[i.address]) for i in body)
        hidden = spent * min(line, size) / size
        sequential = block.lines * max(0.0, self.wait_states + 1 - hidden)
        self.cycles[block.address] += block.jumps * self.wait_states + sequential


def _by_function(symbols: Symbols, walk: _Walk, trace: Trace, texts: dict[int, str]) -> CycleModel:
    listing = [
        InstructionCost(address, count, walk.cycles[address], symbols.name(address), texts[address])
        for address, count in sorted(walk.executed.items())
    ]
    sums: dict[str, list[float]] = defaultdict(lambda: [0, 0, 0])
    for cost in listing:
        total = sums[cost.symbol]
        total[0] += cost.executed
        total[1] += cost.cycles
        total[2] += cost.executed if symbols.is_entry(cost.address) else 0
    functions = [FunctionCost(name, int(i), round(c), int(calls)) for name, (i, c, calls) in sums.items()]
    functions.sort(key=lambda cost: (-cost.cycles, cost.symbol))
    return CycleModel(trace.instructions, sum(cost.cycles for cost in functions), functions, listing)
