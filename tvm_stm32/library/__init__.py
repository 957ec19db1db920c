"""Library: everything the emitter needs to write a network, free of TVM.

Kernels are C text, constants are arrays, tensors have an offset in the arena, calls are ordered. Sizes are bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ..model import Provenance, Quantization, TensorInfo

ArgumentKind = Literal["tensor", "constant", "workspace"]
PoolKind = Literal["ram", "flash"]
Content = Literal["activations", "constants", "io"]

ARENA_SECTION, WEIGHTS_SECTION = ".nn_arena", ".nn_weights"
"""Where the arena and constants go unless a pool or the build says otherwise."""


@dataclass
class Pool:
    """A memory that holds parts of a network: one buffer in RAM, or a section of constants in flash.

    ``section`` is the linker's ("": the compiler chooses), ``size`` the bytes it may have (0: no limit), ``holds`` what
    may lie there: activations (with workspaces), constants, io (inputs and outputs). ``read_cycles`` and
    ``write_cycles`` are what a 32-bit word costs beyond one in the fastest memory. ``used`` is filled in by the memory
    stage, in bytes.
    """

    name: str
    section: str = ""
    size: int = 0
    kind: PoolKind = "ram"
    holds: tuple[Content, ...] = ("activations",)
    read_cycles: float = 0.0
    write_cycles: float = 0.0
    alignment: int = 8
    used: int = 0

    @property
    def key(self) -> str:
        """Its name as macros have it."""
        return self.name.upper()

    @property
    def variable(self) -> str:
        """Its name as C variables have it."""
        return f"{self.name.lower()}_pool"

    def names(self, network: str) -> set[str]:
        """C names it has in the code of a network."""
        return {self.variable, f"{network}_{self.variable}"}


@dataclass(frozen=True)
class Constant:
    """A weight or table in flash; ``data`` is C-contiguous.

    With an ``offset`` a copy lies there in the RAM pool ``pool`` ("": the arena), from ``ai_create`` on, and is what
    kernels read. Without one (-1) ``pool`` is the flash pool whose section holds it ("": that of all weights).
    """

    name: str
    data: np.ndarray
    pool: str = ""
    offset: int = -1


@dataclass
class Tensor:
    """A buffer in the arena, or in the RAM pool ``pool``. ``offset`` is filled in by the memory stage, ``quantization``
    is for reports.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    offset: int = -1
    quantization: Quantization | None = None
    pool: str = ""

    @property
    def size(self) -> int:
        """Bytes."""
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Kernel:
    """A C function. ``source`` holds its (static) definition; ``parameters`` are its C parameter declarations in order.

    ``workspace`` is scratch memory in bytes it needs during a call (alignment 8), handed over as an argument of kind
    ``workspace``. ``libm`` lists the math functions it calls, ``headers`` the runtime headers it includes.
    ``kind`` is ``special`` for one of this project's own forms, ``TIR`` for C generated from TVM's loops, ``MLF`` for
    C out of a Model Library Format archive. A kernel that ``fails`` returns an int32_t, which is not 0 when it did.
    """

    name: str
    source: str
    workspace: int = 0
    headers: tuple[str, ...] = ()
    libm: tuple[str, ...] = ()
    uses_float: bool = False
    kind: str = "special"
    fails: bool = False


@dataclass(frozen=True)
class Argument:
    """An argument of a call: a tensor or constant by name, or the workspace; ``ctype`` is what it points to."""

    kind: ArgumentKind
    name: str
    ctype: str


@dataclass(frozen=True)
class KernelCost:
    """What one form of a kernel costs: executed instructions and modelled cycles of a call, bytes of flash and RAM."""

    form: str
    instructions: int
    cycles: int
    flash: int
    ram: int


@dataclass(frozen=True)
class Stage:
    """An operator among several that one kernel runs; ``kernel`` is that of most of its bands."""

    operator: str
    node: str
    kernel: str
    macs: int
    detail: str
    form: str


@dataclass
class Call:
    """One operator: ``inputs`` and ``outputs`` are tensor names (for liveness), ``arguments`` the C call's arguments.

    ``overlaps`` names inputs whose memory the first output may take while the kernel still reads them: it must then
    start so many bytes below the input's start at least (0: where the input starts, or below). ``same_place`` is an
    input whose place, and no other that overlaps it, the first output may take: each byte is written when all that is
    made of the input's byte there is done. ``costs`` are those of the kernel's form and then of the others there were,
    ``reason`` says why it is this one. A kernel that runs several operators in bands of rows has them as ``stages``.
    """

    operator: str
    node: str
    kernel: str
    arguments: tuple[Argument, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    macs: int = 0
    workspace: int = 0
    overlaps: dict[str, int] = field(default_factory=dict)
    same_place: str = ""
    detail: str = ""
    workspace_offset: int = -1
    workspace_pool: str = ""
    costs: list[KernelCost] = field(default_factory=list)
    reason: str = ""
    stages: tuple[Stage, ...] = ()


@dataclass(frozen=True)
class State:
    """A tensor that keeps its value from run to run; ``initial`` is every element's value after a reset."""

    name: str
    tensor: str
    initial: float


@dataclass
class Library:
    """A compiled network.

    ``tensors`` are the arena's buffers; ``aliases`` maps a tensor that shares another's memory (reshape) to it,
    ``alias_offsets`` says how many bytes behind the other's start it lies when not at it. ``arena_choices`` are the
    arena's sizes by way of planning, where there is a choice. ``weights`` says where constants go (``array``: C text,
    ``incbin``: a binary file the assembler includes, ``external``: one the application places); ``external`` names the
    input and output tensors that get no place in the arena. ``removed_channels`` and ``removed_macs`` count what the
    graph stage proved needless. ``pools`` are the memories there are, if more than one: the first in RAM that holds
    activations is the arena, which instances bring; the others are static buffers. ``shared_arena`` is the C name of
    an arena that networks which do not run at once share, instead of a static one.
    """

    name: str
    provenance: Provenance
    settings: dict[str, str]
    inputs: list[TensorInfo]
    outputs: list[TensorInfo]
    input_tensors: list[str]
    output_tensors: list[str]
    constants: dict[str, Constant] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    alias_offsets: dict[str, int] = field(default_factory=dict)
    kernels: dict[str, Kernel] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    arena_size: int = 0
    arena_alignment: int = 8
    arena_choices: dict[str, int] = field(default_factory=dict)
    weights: str = "array"
    external: list[str] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    float_operators: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    removed_channels: int = 0
    removed_macs: int = 0
    pools: list[Pool] = field(default_factory=list)
    shared_arena: str = ""

    def root(self, name: str) -> str:
        """The tensor whose memory ``name`` lives in (itself, or what it is a reshape of)."""
        while name in self.aliases:
            name = self.aliases[name]
        return name

    def root_offset(self, name: str) -> int:
        """Bytes from the start of the tensor whose memory ``name`` lives in to ``name``."""
        offset = 0
        while name in self.aliases:
            offset += self.alias_offsets.get(name, 0)
            name = self.aliases[name]
        return offset

    def movable(self, name: str) -> bool:
        """Whether an input or output may lie anywhere: it is a buffer of its own, or all of one."""
        return self.root_offset(name) == 0 and self.tensors[self.root(name)].size == self.tensors[name].size

    @property
    def arena_pool(self) -> Pool | None:
        """The pool that is the arena; None without pools."""
        return next((pool for pool in self.pools if pool.kind == "ram" and "activations" in pool.holds), None)

    @property
    def static_pools(self) -> list[Pool]:
        """The pools in RAM that are not the arena."""
        arena = self.arena_pool
        return [pool for pool in self.pools if pool.kind == "ram" and pool is not arena]

    def pool(self, name: str) -> Pool:
        """The pool of that name, or the arena's for ""."""
        found = next((pool for pool in self.pools if pool.name == name), None) if name else self.arena_pool
        assert found is not None, name
        return found

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one inference, as executed."""
        return sum(call.macs for call in self.calls)

    @property
    def nominal_macs(self) -> int:
        """Multiply-accumulates of the model as it was trained, those of removed channels included."""
        return self.macs + self.removed_macs

    @property
    def constant_bytes(self) -> int:
        """Bytes of constants in flash."""
        return sum(constant.data.nbytes for constant in self.constants.values())
