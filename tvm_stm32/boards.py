"""Boards: one YAML file each, checked against ``boards/board.schema.json`` and turned into a :class:`Board`."""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from .chips import chip_of, clock_problems
from .errors import TargetError
from .machines import MACHINES, place
from .resources import resource_dir
from .sizes import parse_bytes
from .target import Target
from .yaml_files import read_checked

Role = Literal["flash", "weights", "ram"]

DEFAULT_STACK = 4096


@dataclass(frozen=True)
class Memory:
    """An address range: ``origin`` and ``size`` in bytes, ``access`` one of rx, rw, rwx."""

    name: str
    origin: int
    size: int
    access: str

    @property
    def end(self) -> int:
        """The address after the last byte."""
        return self.origin + self.size

    def contains(self, address: int, size: int = 1) -> bool:
        """Whether ``size`` bytes from ``address`` lie inside."""
        return self.origin <= address and address + size <= self.end


@dataclass(frozen=True)
class PoolEntry:
    """A memory pool as a file describes it: see ``$defs/pools`` of the schema; "" and 0: not said."""

    name: str
    memory: str = ""
    section: str = ""
    size: int = 0
    kind: str = ""
    holds: tuple[str, ...] = ()
    read: float = 0.0
    write: float = 0.0
    alignment: int = 8


@dataclass(frozen=True)
class Emulator:
    """The QEMU machine that stands in for a board.

    ``clock_hz`` is its SysTick's clock, ``icount_shift`` the ``-icount`` shift that gives SysTick about one tick an
    instruction. ``memories`` are the machine's own when they differ from the board's, ``roles`` which of them the image
    uses when that differs too.
    """

    machine: str
    clock_hz: int
    icount_shift: int
    arguments: tuple[str, ...] = ()
    memories: tuple[Memory, ...] = ()
    roles: dict[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Clocks:
    """The PLL and the buses: ``source`` / ``m`` * ``n`` / ``divide`` is the core's clock.

    ``divide_key`` is what the chip's manual calls ``divide``: p or r, "" without one. ``source_hz`` is 0 for
    oscillators of the chip, ``supply`` "" where there is no choice.
    """

    source: str
    m: int
    n: int
    divide: int = 1
    divide_key: str = ""
    source_hz: int = 0
    ahb: int = 1
    apb1: int = 1
    apb2: int = 1
    supply: str = ""


@dataclass(frozen=True)
class Console:
    """The UART of images for the board itself, with its pins (``PA2``) and their alternate function (-1: none)."""

    uart: str
    tx: str
    rx: str
    af: int = -1
    baud: int = 115200


@dataclass(frozen=True)
class Probe:
    """The debug probe, and what flashing tools call the target; "" where a tool does not know it."""

    interface: str
    pyocd: str = ""
    openocd: str = ""
    cubeprogrammer: str = ""


@dataclass(frozen=True)
class Board:
    """A board the project can build for; :data:`HOST` is the portable C build on this computer (no memories).

    ``roles`` maps flash, weights and ram to names in ``memories``; ``stack_size`` is the stack's reserve in bytes;
    ``pools`` are memories networks may use. ``device`` is the chip as CMSIS packs name it, ``source`` the documents the
    facts are from, ``tried`` where images of the board have run, ``leds`` their pins.
    """

    name: str
    title: str
    target: Target
    clock_hz: int
    memories: tuple[Memory, ...] = ()
    roles: dict[str, str] = field(default_factory=dict, hash=False)
    stack_size: int = DEFAULT_STACK
    emulator: Emulator | None = None
    pools: tuple[PoolEntry, ...] = ()
    device: str = ""
    source: tuple[str, ...] = ()
    tried: str = "nowhere"
    note: str = ""
    clocks: Clocks | None = None
    console: Console | None = None
    leds: dict[str, str] = field(default_factory=dict, hash=False)
    probe: Probe | None = None

    @property
    def is_host(self) -> bool:
        """Whether this is the host build."""
        return self.target.cpu == "host"

    @property
    def flash(self) -> Memory:
        """Where vectors, code and constants go on the device."""
        return self.memory("flash")

    @property
    def weights(self) -> Memory:
        """Where the weights go on the device: the flash unless the board file says otherwise."""
        return self.memory("weights")

    @property
    def ram(self) -> Memory:
        """Where data, arena and stack go on the device."""
        return self.memory("ram")

    def memory(self, role: Role, *, emulated: bool = False) -> Memory:
        """The memory an image uses for ``role``; ``emulated`` gives the address the QEMU machine has for it.

        An emulated memory never counts as larger than the device's: an image that runs in QEMU fits the chip.
        """
        mine = _by_role(self.memories, self.roles, role, self.name)
        if not emulated or self.emulator is None or not self.emulator.memories:
            return mine
        other = _by_role(self.emulator.memories, {**self.roles, **self.emulator.roles}, role, self.name)
        return replace(other, size=min(other.size, mine.size))

    def other_memories(self, *, emulated: bool = False) -> list[Memory]:
        """Memories that have no role in the image; emulated those of them the machine has, none larger than here."""
        roles: tuple[Role, ...] = ("flash", "weights", "ram")
        taken = {self.memory(role).name for role in roles}
        mine = [memory for memory in self.memories if memory.name not in taken]
        if not emulated or self.emulator is None or not self.emulator.memories:
            return mine
        used = {self.memory(role, emulated=True).name for role in roles}
        known = {memory.name: memory for memory in self.emulator.memories if memory.name not in used}
        return [
            replace(known[memory.name], size=min(memory.size, known[memory.name].size))
            for memory in mine
            if memory.name in known
        ]


def pool_section(memory: str) -> str:
    """The section that lies in a memory without a role, by its name; linker scripts of boards have it."""
    return f".nn_pool_{memory.lower()}"


HOST = Board(name="host", title="This computer (portable C)", target=Target("host"), clock_hz=0)


def list_boards() -> list[str]:
    """Names of the boards that come with the project, sorted; ``host`` is not among them."""
    return sorted(path.stem for path in resource_dir("boards").glob("*.yaml"))


def load_board(name_or_path: str | Path) -> Board:
    """The board of that name, or of that YAML file. ``host`` gives :data:`HOST`.

    Raises :class:`TargetError` naming the file and the key when a board is unknown or its file is wrong.
    """
    path = board_file(name_or_path)
    if path is None:
        return HOST
    if path.parent == resource_dir("boards"):
        with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
            return _own_board(path, path.stat().st_mtime_ns)
    return _from_dict(read_checked(path, "board file", board_schema()), path)


@functools.cache
def _own_board(path: Path, _changed_ns: int) -> Board:
    """A board that comes with the project, read once.

    Tests hold their files against the schema, whose library takes longer to import than most commands run.
    """
    return _from_dict(read_checked(path, "board file", None), path)


def board_file(name_or_path: str | Path) -> Path | None:
    """The file of that board; ``host`` has none. Raises :class:`TargetError` when there is no such file."""
    text = str(name_or_path)
    if text == "host":
        return None
    if isinstance(name_or_path, Path) or "/" in text or "\\" in text or text.endswith((".yaml", ".yml")):
        path = Path(name_or_path)
        if not os.path.isfile(path):  # noqa: PTH113 - Path.is_file raises where a path cannot exist
            raise TargetError(f"board file '{text}' does not exist")
        return path
    path = resource_dir("boards") / f"{text}.yaml"
    if not os.path.isfile(path):  # noqa: PTH113 - likewise
        raise TargetError(
            f"unknown board '{text}'",
            hint="one of: host, " + ", ".join(list_boards()) + "; or the path of a board file",
        )
    return path


def board_schema() -> dict[str, Any]:
    """The JSON schema of board files; its ``$defs`` describe parts that other files have, too."""
    schema: dict[str, Any] = json.loads((resource_dir("boards") / "board.schema.json").read_text(encoding="utf-8"))
    return schema


def pool_entries(items: list[dict[str, Any]]) -> tuple[PoolEntry, ...]:
    """Pools of a file that the schema has accepted."""
    return tuple(
        PoolEntry(**{**item, "size": parse_bytes(item.get("size", 0)), "holds": tuple(item.get("holds", ()))})
        for item in items
    )


def _from_dict(data: dict[str, Any], path: Path) -> Board:
    try:
        target = Target.for_cpu(data["cpu"])
    except TargetError as error:
        raise TargetError(f"{path}: cpu: {error.message}", hint=error.hint) from error
    image = dict(data["image"])
    board = Board(
        name=data["name"],
        title=data["title"],
        target=replace(target, **data.get("features", {})),
        clock_hz=data["clock_hz"],
        memories=_memories(data["memories"], path, "memories"),
        stack_size=parse_bytes(image.pop("stack", DEFAULT_STACK)),
        roles=image,
        pools=pool_entries(data.get("pools", [])),
        device=data.get("device", ""),
        source=tuple(data.get("source", ())),
        tried=data.get("tried", "nowhere"),
        note=data.get("note", ""),
        clocks=_clocks(data["clocks"]) if "clocks" in data else None,
        console=Console(**data["console"]) if "console" in data else None,
        leds=dict(data.get("leds", {})),
        probe=Probe(**data["probe"]) if "probe" in data else None,
    )
    if "emulator" in data:
        stand_in = data["emulator"].get("stand_in", "")
        emulator = _stand_in(board, stand_in, path) if stand_in else _emulator(data["emulator"], path)
        board = replace(board, emulator=emulator)
    _check_roles(board, path)
    _check_chip(board, path)
    return board


def _check_chip(board: Board, path: Path) -> None:
    """Name the first number of the clocks the chip does not take, and a UART or pin function it has not."""
    chip = chip_of(board.device)
    if chip is None:
        if board.clocks is not None:
            raise TargetError(
                f"{path}: clocks: nothing is known of the clocks of '{board.device}'", hint="leave 'clocks' out"
            )
        return
    if chip.fixed and (board.clocks is not None or board.clock_hz != chip.reset_hz):
        key = "clock_hz" if board.clocks is None else "clocks"
        raise TargetError(
            f"{path}: {key}: the start-up leaves this chip at {chip.reset_hz / 1e6:g} MHz", hint="leave 'clocks' out"
        )
    for key, problem in clock_problems(chip, board.clocks, board.clock_hz) if board.clocks is not None else ():
        where = key if key == "clock_hz" else f"clocks.{key}"
        raise TargetError(f"{path}: {where}: {problem} ({chip.manual})")
    console = board.console
    if console is not None and console.uart not in chip.uarts:
        raise TargetError(
            f"{path}: console.uart: '{console.uart}' is not known", hint="one of: " + ", ".join(chip.uarts)
        )
    if console is not None and (console.af < 0) != (chip.gpio_kind == 1):
        raise TargetError(f"{path}: console.af: " + ("this chip has none" if console.af >= 0 else "it is needed"))


def _clocks(data: dict[str, Any]) -> Clocks:
    rest = {key: value for key, value in data.items() if key not in ("p", "r")}
    key = next((key for key in ("p", "r") if key in data), "")
    return Clocks(**rest, divide=data.get(key, 1), divide_key=key)


def _stand_in(board: Board, name: str, path: Path) -> Emulator:
    """The emulator of a board without a machine of its own: its memories, by name, at addresses ``name`` has.

    What has a role in the image comes first: the vectors have to be where the machine's core looks for them.
    """
    first = [board.roles.get("flash"), board.roles.get("weights"), board.roles.get("ram")]
    order = sorted(board.memories, key=lambda m: first.index(m.name) if m.name in first else len(first))
    code = {name for name in (first[0], *(m.name for m in board.memories if "w" not in m.access)) if name}
    try:
        places = place(name, [(memory.name, memory.size, memory.name in code) for memory in order])
    except TargetError as error:
        raise TargetError(f"{path}: emulator.stand_in: {error.message}", hint=error.hint) from error
    machine = MACHINES[name]
    memories = tuple(replace(memory, origin=places[memory.name]) for memory in board.memories)
    return Emulator(name, machine.clock_hz, machine.icount_shift, memories=memories)


def _emulator(data: dict[str, Any], path: Path) -> Emulator:
    return Emulator(
        machine=data["machine"],
        clock_hz=data["clock_hz"],
        icount_shift=data["icount_shift"],
        arguments=tuple(data.get("arguments", ())),
        memories=_memories(data.get("memories", []), path, "emulator.memories"),
        roles=dict(data.get("image", {})),
    )


def _check_roles(board: Board, path: Path) -> None:
    """Name every role that points at a memory that is not there, or that cannot do the job."""
    for emulated in (False, True):
        for role in ("flash", "ram"):
            key = f"{'emulator.' if emulated else ''}image.{role}"
            try:
                memory = board.memory(role, emulated=emulated)
            except TargetError as error:
                raise TargetError(f"{path}: {key}: {error.message}", hint=error.hint) from error
            wanted = "x" if role == "flash" else "w"
            if wanted not in memory.access:
                raise TargetError(f"{path}: {key}: memory '{memory.name}' is '{memory.access}', without '{wanted}'")
        try:
            board.memory("weights", emulated=emulated)
        except TargetError as error:
            raise TargetError(f"{path}: image.weights: {error.message}", hint=error.hint) from error
    if board.stack_size >= board.ram.size:
        raise TargetError(f"{path}: image.stack: {board.stack_size} bytes do not fit {board.ram.name}")


def _memories(entries: list[dict[str, Any]], path: Path, key: str) -> tuple[Memory, ...]:
    memories = tuple(Memory(e["name"], e["origin"], parse_bytes(e["size"]), e["access"]) for e in entries)
    for index, problem in _overlaps(memories):
        raise TargetError(f"{path}: {key}[{index}]: {problem}")
    return memories


def _overlaps(memories: tuple[Memory, ...]) -> Iterator[tuple[int, str]]:
    for index, memory in enumerate(memories):
        if memory.end > 1 << 32:
            yield index, f"'{memory.name}' ends beyond the 32-bit address space"
        for other in memories[:index]:
            if other.name == memory.name:
                yield index, f"a second memory named '{memory.name}'"
            if other.origin < memory.end and memory.origin < other.end:
                yield index, f"'{memory.name}' overlaps '{other.name}'"


def _by_role(memories: tuple[Memory, ...], roles: dict[str, str], role: str, board: str) -> Memory:
    name = roles.get(role, roles.get("flash", "") if role == "weights" else "")
    for memory in memories:
        if memory.name == name:
            return memory
    raise TargetError(
        f"board '{board}' has no memory '{name}' for {role}",
        hint="one of: " + ", ".join(memory.name for memory in memories) if memories else "",
    )
