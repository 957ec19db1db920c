"""What a linked image says about itself: whether it can start, and what its bytes are spent on.

Everything is read from the ELF and the linker's map with pyelftools; no binutils are run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..boards import Board, Memory, Role
from ..errors import FirmwareError
from ..resources import resource_dir

_VECTOR_WORDS = 16
_WEIGHTS_SECTION = ".nn_weights"
_ARENA_SECTION = ".nn_arena"
_POOL_SECTION = ".nn_pool_"
# Others that are called writable hold tables for start-up code.
_VARIABLES = (".data", ".bss", _ARENA_SECTION, _POOL_SECTION)


@dataclass(frozen=True)
class Section:
    """An allocated section: run address, size in bytes, whether it occupies the file, whether it holds code.

    ``zeros``: it occupies the file with variables that are all zero.
    """

    name: str
    address: int
    size: int
    loaded: bool
    code: bool
    writable: bool
    zeros: bool = False


@dataclass(frozen=True)
class Segment:
    """A loadable segment: run and load address, bytes in memory and in the file."""

    address: int
    load_address: int
    memory_size: int
    file_size: int


class Image:
    """A parsed ELF: entry, symbols, sections, bytes by load address, and names of addresses.

    Raises :class:`FirmwareError` when the file is no 32-bit Arm ELF.
    """

    def __init__(self, path: Path) -> None:
        # Only commands that build or run firmware pay for it.
        from elftools.common.exceptions import ELFError
        from elftools.elf.elffile import ELFFile

        self.path = path
        try:
            if path.exists() and not (path.is_file() or path.is_dir()):
                raise FirmwareError(f"image {path} is no plain file", hint="check the path")
            self._stream = path.open("rb")
        except OSError as error:
            raise FirmwareError(f"cannot read image {path}", why=error.strerror or str(error)) from error
        with self._stream:
            try:
                elf = ELFFile(self._stream)
                if elf["e_machine"] != "EM_ARM" or elf.elfclass != 32:
                    raise FirmwareError(f"{path} is not an image for 32-bit Arm")
                self.entry = int(elf["e_entry"])
                for section in elf.iter_sections():
                    if section["sh_type"] != "SHT_NOBITS":
                        self._check_extent(section["sh_offset"], section["sh_size"])
                self.sections = list(_sections(elf))
                self._read_segments(elf)
                self._read_symbols(elf)
            except (ELFError, UnicodeDecodeError, OverflowError) as error:
                raise FirmwareError(f"{path} is not a sound ELF file", why=str(error)) from error

    def _check_extent(self, offset: int, size: int) -> None:
        """Raise :class:`FirmwareError` for content that is said to be behind the end of the file."""
        if offset + size > os.fstat(self._stream.fileno()).st_size:
            raise FirmwareError(f"{self.path} is not a sound ELF file", why="it is shorter than its headers say")

    def _read_segments(self, elf: Any) -> None:
        self.segments: list[Segment] = []
        self._chunks: list[tuple[int, bytes]] = []
        for segment in elf.iter_segments("PT_LOAD"):
            header = segment.header
            self._check_extent(header.p_offset, header.p_filesz)
            self.segments.append(Segment(header.p_vaddr, header.p_paddr, header.p_memsz, header.p_filesz))
            self._chunks.append((int(header.p_paddr), segment.data()))

    def _read_symbols(self, elf: Any) -> None:
        self.symbols: dict[str, int] = {}
        self._functions: list[tuple[int, int, str]] = []
        self._marks: list[tuple[int, str]] = []
        table = elf.get_section_by_name(".symtab")
        if table is not None and table["sh_type"] != "SHT_SYMTAB":
            raise FirmwareError(f"{self.path} is not a sound ELF file", why=".symtab is no table of symbols")
        for symbol in table.iter_symbols() if table is not None else ():
            if symbol["st_shndx"] == "SHN_UNDEF" or not symbol.name:
                continue
            value = int(symbol["st_value"])
            self.symbols.setdefault(symbol.name, value)
            if symbol.name[:2] in ("$t", "$d"):
                self._marks.append((value, symbol.name[:2]))
            if symbol["st_info"]["type"] == "STT_FUNC":
                self._functions.append((value & ~1, int(symbol["st_size"]), symbol.name))
        self._functions.sort()
        self._marks.sort()

    def code(self) -> Iterator[tuple[int, bytes]]:
        """Run address and bytes of each run of instructions, as the assembler marked them ($t up to $d)."""
        for (start, kind), (end, _) in zip(self._marks, [*self._marks[1:], (1 << 32, "")], strict=True):
            if kind != "$t":
                continue
            for section in self.sections:
                if section.loaded and section.address <= start < section.address + section.size:
                    yield start, self._run_bytes(start, min(end, section.address + section.size))

    def load_chunks(self) -> list[tuple[int, bytes]]:
        """Load address and bytes of what is stored."""
        return [chunk for chunk in self._chunks if chunk[1]]

    def _run_bytes(self, start: int, end: int) -> bytes:
        """Bytes by their run addresses."""
        for segment, (_, data) in zip(self.segments, self._chunks, strict=True):
            if segment.address <= start < segment.address + segment.file_size:
                return data[start - segment.address : end - segment.address]
        return b""

    def section(self, name: str) -> Section | None:
        """The allocated section of that name."""
        return next((section for section in self.sections if section.name == name), None)

    def words(self, address: int, count: int) -> list[int] | None:
        """``count`` little-endian words at a load address, None when the image does not hold them all."""
        for start, data in self._chunks:
            if start <= address and address + 4 * count <= start + len(data):
                offset = address - start
                return [
                    int.from_bytes(data[place : place + 4], "little") for place in range(offset, offset + 4 * count, 4)
                ]
        return None

    def function_address(self, name: str) -> int:
        """Address of a function without the Thumb bit. Raises :class:`FirmwareError` when there is none."""
        for address, _, known in self._functions:
            if known == name:
                return address
        raise FirmwareError(f"{self.path} has no function '{name}'")

    def functions(self) -> list[tuple[int, str]]:
        """Start address (without the Thumb bit) and name of each function, by address; of aliases the last."""
        return sorted({address: name for address, _, name in self._functions}.items())

    def describe(self, address: int) -> str:
        """``function+0xoffset (file.c:line)`` of an address, as much of it as the image knows."""
        address &= ~1
        name = ""
        for start, size, known in self._functions:
            if start <= address < start + max(size, 2):
                name = known if address == start else f"{known}+{address - start:#x}"
        line = self._line_of(address)
        if name and line:
            return f"{name} ({line})"
        return name or line or "no function of the image"

    def _line_of(self, address: int) -> str:
        from elftools.elf.elffile import ELFFile

        with self.path.open("rb") as stream:
            elf = ELFFile(stream)
            if not elf.has_dwarf_info():
                return ""
            dwarf = elf.get_dwarf_info()
            for unit in dwarf.iter_CUs():
                program = dwarf.line_program_for_CU(unit)
                found = _line_in_program(program, address) if program is not None else ""
                if found:
                    return found
        return ""


def _sections(elf: Any) -> Iterator[Section]:
    for section in elf.iter_sections():
        flags = int(section["sh_flags"])
        if flags & 2 and section["sh_size"] > 0:
            loaded = section["sh_type"] != "SHT_NOBITS"
            writable = bool(flags & 1)
            zeros = writable and loaded and not any(section.data())
            yield Section(
                section.name, section["sh_addr"], section["sh_size"], loaded, bool(flags & 4), writable, zeros
            )


def _line_in_program(program: Any, address: int) -> str:
    files = program.header.file_entry
    # DWARF 5 counts files from 0, older versions from 1.
    base = 0 if program.header.version >= 5 else 1
    previous = None
    for entry in program.get_entries():
        state = entry.state
        if state is None:
            continue
        if previous is not None and previous.address <= address < state.address:
            index = previous.file - base
            if 0 <= index < len(files):
                return f"{files[index].name.decode('utf-8', 'replace')}:{previous.line}"
        previous = None if state.end_sequence else state
    return ""


def check_image(elf: Path, board: Board, *, emulated: bool = True) -> None:
    """Whether a core can start this image on ``board`` (with the addresses of its emulator, or its own).

    Checks the vector table at the start of the flash, the initial stack pointer, the reset vector against the entry,
    that every section lies in a memory of the board, variables in one that can be written, and that what is loaded is
    loaded into flash. Raises :class:`FirmwareError`.
    """
    image = Image(elf)
    flash = board.memory("flash", emulated=emulated)
    weights = board.memory("weights", emulated=emulated)
    ram = board.memory("ram", emulated=emulated)
    _check_vectors(image, flash, ram)
    homes = _homes(board, emulated)
    for section in image.sections:
        home = next((home for home in homes if home.contains(section.address, section.size)), None)
        place = f"{elf.name}: section {section.name} (0x{section.address:08x}, {section.size} bytes)"
        if home is None:
            raise FirmwareError(
                f"{place} is outside " + ", ".join(home.name for home in homes),
                hint="check the linker script's MEMORY regions",
            )
        is_variables = not section.loaded or section.name.startswith(_VARIABLES)
        if section.writable and is_variables and "w" not in home.access:
            raise FirmwareError(
                f"{place} holds variables, but {home.name} cannot be written",
                hint=f"a linker script that places it: {section.name} (NOLOAD) : {{ *({section.name}) }} > RAM",
            )
    _check_buffers(image)
    for segment in image.segments:
        size = segment.file_size
        lasting = [home for home in homes if home.name in (flash.name, weights.name) or "w" not in home.access]
        if size and not any(home.contains(segment.load_address, size) for home in lasting):
            raise FirmwareError(
                f"{elf.name}: {size} bytes are loaded at 0x{segment.load_address:08x}, outside {flash.name}",
                why="only the flash keeps its content without power",
                hint="give initialised data a load address in flash ('> RAM AT > FLASH')",
            )


def _check_buffers(image: Image) -> None:
    """No buffer of a section the linker script does not know: it would take as much flash, for zeros."""
    start, end = image.symbols.get("__data_start__", 0), image.symbols.get("__data_end__", 0)
    for section in image.sections:
        if section.zeros and not start <= section.address < end:
            raise FirmwareError(
                f"{image.path.name}: section {section.name} has {section.size} zeros in flash",
                why="the linker script does not name it, or not as (NOLOAD)",
                hint=f"give it a place: {section.name} (NOLOAD) : {{ *({section.name}) }} > RAM",
            )


def _homes(board: Board, emulated: bool) -> list[Memory]:
    """The memories a section may be in: those of the image with the size it may use, and the machine's others."""
    roles: tuple[Role, ...] = ("flash", "weights", "ram")
    homes = {memory.name: memory for memory in (board.memory(role, emulated=emulated) for role in roles)}
    machine = board.emulator.memories if emulated and board.emulator is not None else ()
    for memory in machine or board.memories:
        homes.setdefault(memory.name, memory)
    return list(homes.values())


def _check_vectors(image: Image, flash: Memory, ram: Memory) -> None:
    name = image.path.name
    table = image.words(flash.origin, _VECTOR_WORDS)
    if table is None or not any(table):
        raise FirmwareError(
            f"{name} has no vector table at the start of {flash.name} (0x{flash.origin:08x})",
            why="the core reads its stack pointer and reset address there",
            hint="link a start-up file, and keep its .isr_vector section first in the linker script",
        )
    stack, reset = table[0], table[1]
    # A full-descending stack starts at the byte after the RAM.
    if stack % 8 or not ram.origin < stack <= ram.end:
        raise FirmwareError(f"{name}: the initial stack pointer 0x{stack:08x} is not an aligned address in {ram.name}")
    if not reset & 1:
        raise FirmwareError(f"{name}: the reset vector 0x{reset:08x} has no Thumb bit")
    if not flash.contains(reset & ~1):
        raise FirmwareError(f"{name}: the reset vector 0x{reset:08x} is outside {flash.name}")
    if image.entry | 1 != reset:
        raise FirmwareError(
            f"{name}: the reset vector 0x{reset:08x} is not the entry 0x{image.entry:08x}",
            why="the core would start another function than the debugger and the linker's garbage collection assume",
            hint="name the reset handler in the linker script's ENTRY()",
        )
    for number, vector in enumerate(table[2:], start=2):
        if vector and (not vector & 1 or not flash.contains(vector & ~1)):
            raise FirmwareError(
                f"{name}: exception vector {number} is 0x{vector:08x}, no Thumb address in {flash.name}"
            )


def image_sizes(elf: Path, map_file: Path | None = None, *, runtime_objects: Collection[str] = ()) -> dict[str, Any]:
    """What an image's bytes are spent on, all in bytes.

    ``flash``: everything stored in flash, initialisers of .data included; of it ``code`` (sections with instructions),
    ``weights`` (.nn_weights) and ``rodata`` (the rest). ``ram``: static RAM with the arena, without the stack and pools
    in other memories, which ``pools`` has by section; ``arena``; ``stack_reserve``. ``flash_split``: the flash as
    ``weights``, ``kernels`` (objects of the network and everything else that is not known), ``runtime`` (ai_* API,
    port, applications of the project, objects whose stem is in ``runtime_objects``, and alignment) and ``libc``
    (archives of the toolchain). The split needs the linker's map, ``map_file`` (default: beside the image with the
    suffix .map), and is left out when there is none.

    Raises :class:`FirmwareError` for files that cannot be read.
    """
    image = Image(elf)
    loaded = [section for section in image.sections if section.loaded]
    weights = sum(section.size for section in loaded if section.name.startswith(_WEIGHTS_SECTION))
    code = sum(section.size for section in loaded if section.code)
    arena = image.section(_ARENA_SECTION)
    sizes: dict[str, Any] = {
        "flash": sum(section.size for section in loaded),
        "weights": weights,
        "code": code,
        "rodata": sum(section.size for section in loaded) - weights - code,
        "ram": sum(s.size for s in image.sections if s.writable and not s.name.startswith(_POOL_SECTION)),
        "pools": {s.name: s.size for s in image.sections if s.writable and s.name.startswith(_POOL_SECTION)},
        "arena": arena.size if arena is not None else 0,
        "stack_reserve": image.symbols.get("__stack_top", 0) - image.symbols.get("__stack_limit", 0),
    }
    listing = map_file if map_file is not None else elf.with_suffix(".map")
    if listing.is_file():
        names = {section.name for section in loaded}
        sizes["flash_split"] = _split(listing, names, sizes["flash"], weights, set(runtime_objects))
    return sizes


# " .text.name  0x08000040  0x1c path/to/object.o", the name sometimes alone on the line before.
_DISCARDED = re.compile(r"^ \.text\.(?P<name>\w+_IRQHandler)\s+0x0+\s+0x(?P<size>[0-9a-f]+)", re.MULTILINE)
_PIECE = re.compile(r"^ (?P<name>\S+)?\s+0x(?P<address>[0-9a-f]+)\s+0x(?P<size>[0-9a-f]+)\s+(?P<origin>\S.*)$")
_OUTPUT = re.compile(r"^(?P<name>\.\S+)(\s|$)")


def lost_handlers(map_file: Path) -> list[str]:
    """Interrupt handlers that the linker left out since no vector names them, by the linker's map; sorted."""
    try:
        text = map_file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    found = {match["name"] for match in _DISCARDED.finditer(text) if int(match["size"], 16)}
    # One name may stand for several functions, of which another is there.
    return sorted(name for name in found if not re.search(rf"^ \.text\.{name}\s+0x0*[1-9a-f]", text, re.MULTILINE))


def _pieces(map_file: Path) -> Iterator[tuple[str, str, int]]:
    """Output section, origin (object or archive member) and bytes of each input section that was kept."""
    try:
        text = map_file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise FirmwareError(f"cannot read map file {map_file}", why=error.strerror or str(error)) from error
    _, _, placed = text.partition("Linker script and memory map")
    output = ""
    for line in placed.splitlines():
        section = _OUTPUT.match(line)
        if section is not None:
            output = section["name"]
            continue
        piece = _PIECE.match(line)
        if piece is not None and not (piece["name"] or "").startswith("*"):
            yield output, piece["origin"], int(piece["size"], 16)


def _split(map_file: Path, loaded: set[str], flash: int, weights: int, extra: set[str]) -> dict[str, int]:
    ours = extra | {path.stem for path in resource_dir("runtime").rglob("*.c")}
    split = {"weights": weights, "kernels": 0, "runtime": 0, "libc": 0}
    for output, origin, size in _pieces(map_file):
        if output not in loaded or output.startswith(_WEIGHTS_SECTION):
            continue
        split[_owner(origin, ours)] += size
    # What is left is alignment between pieces.
    split["runtime"] += flash - sum(split.values())
    return split


def _owner(origin: str, runtime_objects: set[str]) -> str:
    archive = re.match(r"^(?P<archive>.*\.a)\((?P<member>.*)\)$", origin)
    if archive is not None:
        library = Path(archive["archive"]).name
        if re.match(r"^lib(c|m|g|gcc|nosys|rdimon)(_nano)?\.a$", library):
            return "libc"
        origin = archive["member"]
    stem = Path(origin).name.removesuffix(".obj").removesuffix(".o").removesuffix(".c")
    # build_image() numbers its objects: runtime_2_port_system.o.
    stem = re.sub(r"^(runtime|runner|network)_\d+_", "", stem)
    return "runtime" if stem in runtime_objects else "kernels"
