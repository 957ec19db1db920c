"""A device of the locked packs and chosen components, as the facts and files a firmware build needs."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cmsis_packs.conditions import Security
from cmsis_packs.installed import InstalledPack, find_device, installed
from cmsis_packs.interrupts import interrupts_of_header, interrupts_of_svd, vector_list
from cmsis_packs.model import Device, Processor
from cmsis_packs.rte import rte_components_h
from cmsis_packs.selection import Chosen, choose
from cmsis_packs.startup import startup_source

from .board_from_pack import device_board
from .boards import Board, load_board
from .errors import PackError, TargetError
from .project.linker import linker_script

VECTORS, COMPONENTS_HEADER, STARTUP, SCRIPT = "port_vectors.h", "RTE_Components.h", "startup.c", "device.ld"


@dataclass(frozen=True)
class DeviceChoice:
    """What a build asks for: a device of the packs of ``lock``, one of its processors ("": the only one), components.

    ``security`` is Secure, Non-secure, Secure-only or TZ-disabled, of a processor with TrustZone. ``project`` is the
    folder that keeps copies of config files. ``board`` is a board (a name or a file) whose chip the device is: then
    memories and clocks are the board's, and ``device`` may be "".
    """

    lock: Path
    device: str
    processor: str = ""
    components: tuple[str, ...] = ()
    security: Security = "TZ-disabled"
    project: Path = Path("RTE")
    board: str = ""


@dataclass(frozen=True)
class DeviceFiles:
    """The device with its pack, and the files of the components."""

    choice: DeviceChoice
    pack: InstalledPack
    device: Device
    processor: Processor
    chosen: Chosen
    used: tuple[InstalledPack, ...]

    @classmethod
    def of(cls, choice: DeviceChoice) -> DeviceFiles:
        """Look everything up in the cache. Raises :class:`PackError`; reaches no network."""
        packs = installed(choice.lock)
        name = choice.device
        if choice.board and not name:
            name = load_board(choice.board).device
            if not name:
                raise PackError(f"the board '{choice.board}' does not say which device it has", hint="device: NAME")
        owner, device = find_device(packs, name)
        ordered = (owner, *(item for item in packs if item is not owner))
        chosen = choose(
            [(item.folder, item.pack) for item in ordered],
            device,
            choice.components,
            processor=choice.processor,
            security=choice.security,
            project=choice.project,
        )
        paths = [*chosen.sources, *chosen.include_folders, *chosen.libraries, *chosen.linker_scripts]
        paths += [config.source for config in chosen.configs]
        used = [item for item in ordered if item is owner or any(path.is_relative_to(item.folder) for path in paths)]
        return cls(choice, owner, device, device.processor(choice.processor), chosen, tuple(used))

    @property
    def board_name(self) -> str:
        """The name of the board, or of the board file made for the device."""
        if self.choice.board:
            return self._board().name
        suffix = f"-{self.processor.name}" if self.processor.name else ""
        name = re.sub(r"[^a-z0-9_-]", "_", f"{self.device.name}{suffix}".lower())
        return name if name[0].isalnum() else f"d{name}"

    def board_text(self) -> str:
        """The board file: the chip's core and memories."""
        secure = self.choice.security in ("Secure", "Secure-only")
        return device_board(self.board_name, self.device, self.choice.processor, secure=secure)

    def interrupts(self, compiler: Sequence[str]) -> tuple[dict[int, str], str]:
        """The device's interrupts, and the file that has them: its header, or its register description where that is
        not in the packs. ``compiler`` is the command of a C compiler.
        """
        where, found = "no file", {}
        # Headers ask which architecture it is.
        compiler = [*compiler, *self._board().target.compile_flags]
        header = self._header()
        if header is not None:
            folders = [folder for folder in self.chosen.include_folders if folder.is_dir()]
            found = interrupts_of_header(header, self.processor.defines, compiler, folders)
            where = header.name
        elif (svd := self._svd()) is not None:
            found, where = interrupts_of_svd(svd), svd.name
        elif self.processor.header:
            raise PackError(
                f"{self.pack.locked} has no file '{self.processor.header}', the header of device '{self.device.name}'",
                why="nothing else says which interrupts it has",
                hint="a component that brings it",
            )
        return found, where

    def generated(self, compiler: Sequence[str]) -> dict[str, str]:
        """The files made for the device, by name; the linker script has the chip's addresses."""
        interrupts, where = self.interrupts(compiler)
        return {
            **({} if self.choice.board else {f"{self.board_name}.yaml": self.board_text()}),
            VECTORS: vector_list(interrupts),
            COMPONENTS_HEADER: rte_components_h(self.chosen.components, self.chosen.header),
            STARTUP: startup_source(self.device.name, interrupts, where),
            SCRIPT: linker_script(self._board(), emulated=False),
        }

    def _header(self) -> Path | None:
        """The device's header: where the pack has it, or among those of the components; None when no pack has it."""
        if not self.processor.header:
            return None
        places = [self.pack.folder / self.processor.header]
        places += [folder / Path(self.processor.header).name for folder in self.chosen.include_folders]
        return next((place for place in places if place.is_file()), None)

    def plan(self) -> dict[str, Any]:
        """Everything a build system needs to know before it runs a command, as JSON has it; paths are absolute."""
        chosen, board = self.chosen, self._board()
        return {
            "board": self.board_name,
            "flags": board.target.compile_flags,
            "defines": [*self.processor.defines, "_RTE_", "AI_USE_SECTIONS"],
            "sources": [str(path) for path in chosen.sources],
            "include": [str(path) for path in [*self._header_folder(), *chosen.include_folders]],
            "configs": [
                {"source": str(c.source), "target": c.target.as_posix(), "version": c.version, "pack": c.pack}
                for c in chosen.configs
            ],
            "libraries": [str(path) for path in chosen.libraries],
            "linker_scripts": [str(path) for path in chosen.linker_scripts],
            "pre_includes": [str(path) for path in chosen.pre_includes],
            # Their content decides what is generated.
            "facts": [str(path) for path in (self.pack.description, self._header(), self._svd()) if path is not None],
            "header": str(self._header() or ""),
            "packs": {str(p.locked): {"folder": str(p.folder), "sha256": p.locked.sha256} for p in self.used},
        }

    def _svd(self) -> Path | None:
        path = self.pack.folder / self.processor.svd
        return path if self.processor.svd and path.is_file() else None

    def _header_folder(self) -> list[Path]:
        header = self._header()
        return [header.parent] if header is not None else []

    def _board(self) -> Board:
        if self.choice.board:
            return load_board(self.choice.board)
        with tempfile.TemporaryDirectory(prefix="tvm-stm32-") as folder:
            file = Path(folder) / f"{self.board_name}.yaml"
            file.write_text(self.board_text(), encoding="utf-8")
            try:
                return load_board(file)
            except TargetError as error:
                what = error.message.replace(f"{file}: ", "")
                raise PackError(
                    f"{self.pack.locked}: no board file can be made of device '{self.device.name}': {what}",
                    hint="a board file of your own, whose 'device' it is",
                ) from error


def board_files(board: Board) -> dict[str, str]:
    """Start-up code, with the vectors of the core only, and linker script of a board, by name."""
    return {
        STARTUP: startup_source(board.title, {}, "no pack"),
        SCRIPT: linker_script(board, emulated=False),
    }
