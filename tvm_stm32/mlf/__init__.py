"""Model Library Format: archives of versions 1 to 7, as older TVM exported them, become a planned Library.

Their kernels are C text, which goes into the network's file as it is, on a small shim of our own
(``ai_tvm_shim.h``). Nothing of an archive is run or written to disk while it is read. TVM is not imported.

Archives this tool wrote (:mod:`.write`) hold their Library, and give it back as it was.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import memory
from .. import params as params_file
from ..cnames import network_name
from ..errors import ModelError, TargetError, quoted
from ..library import Constant, Library
from ..library.ctypes import CTYPES
from ..model import Provenance
from ..target import Target
from .adapters import Adapters
from .aot_network import AotNetwork
from .archive import Archive, read_archive
from .fields import Fields
from .graph import read_graph
from .graph_network import GraphNetwork
from .metadata import Metadata, ModuleInfo, choose_module, read_metadata
from .pools import archive_pins, archive_pools
from .restore import OtherVersionError, check_target, own_cpu, own_library, renamed
from .sources import Sources, read_sources
from .storage import archive_size, place_as_archive
from .workspace import Workspaces
from .write import write_archive

STORAGES = ("planned", "archive")


@dataclass(frozen=True)
class MlfOptions:
    """What an archive is emitted for: target, C name ("" from the file's), module, whose memory plan.

    ``pools_apart``: memory pools of the archive's build can be placed one by one (:mod:`.pools`).
    """

    target: Target
    name: str = ""
    module: str = ""
    storage: str = "planned"
    pools_apart: bool = False

    def settings(self) -> dict[str, str]:
        """Settings as shown in generated files."""
        settings = {"cpu": self.target.cpu}
        if self.module:
            settings["module"] = self.module
        if self.storage != "planned":
            settings["storage"] = self.storage
        return settings


def load_library(path: Path, options: MlfOptions) -> Library:
    """Read an archive and plan its memory. Raises :class:`ModelError` and :class:`TargetError`."""
    archive, data = read_archive(path)
    metadata = read_metadata(archive)
    module = choose_module(archive, metadata, options.module)
    if module.own is None:
        return _foreign(archive, data, metadata, module, options)
    try:
        library = own_library(archive, module)
    except OtherVersionError as other:
        note = f"read as an archive of any other tool: {other}"
        try:
            library = _foreign(archive, data, metadata, module, options)
        except (ModelError, TargetError) as error:
            raise type(error)(
                error.message,
                why=f"{note}{'; ' if error.why else ''}{error.why}",
                hint="emit it with the version of tvm-stm32 that wrote it, or compile the model again",
            ) from error
        library.notes.append(note)
        return library
    if options.storage != "planned":
        raise _no_choice(path.name, options.storage)
    check_target(library, options.target)
    return renamed(library, options.name) if options.name else library


def archive_cpu(path: Path) -> str:
    """The CPU an archive of this tool was compiled for, "" for one of another tool or of several modules.

    Raises :class:`ModelError`.
    """
    archive, _ = read_archive(path)
    modules = list(read_metadata(archive).modules.values())
    cpus = {own_cpu(module) for module in modules}
    return cpus.pop() if len(cpus) == 1 else ""


def _foreign(archive: Archive, data: bytes, metadata: Metadata, module: ModuleInfo, options: MlfOptions) -> Library:
    """The Library of a module by what every tool writes."""
    # Two modules of one archive are two networks, so each goes by its own name.
    stem = Path(archive.name).stem if len(metadata.modules) == 1 else module.name
    provenance = Provenance(
        archive.name, hashlib.sha256(data).hexdigest(), f"mlf v{metadata.version} {module.executor}"
    )
    library = Library(network_name(options.name or stem), provenance, options.settings(), [], [], [], [])
    sources = read_sources(archive, module.name, len(metadata.modules))
    _check_target(archive, sources, options.target)
    _check_variables(archive, sources)
    workspaces = Workspaces(sources.functions, module.workspaces, archive.name)
    adapters = Adapters(library.name, sources, workspaces, graph=module.executor == "graph")
    library.notes.append(f"Model Library Format version {metadata.version}, module {module.name}, {module.executor}")
    storage: dict[str, int] | None = None
    if module.executor == "graph":
        storage = _graph(library, archive, module, adapters)
    else:
        if options.storage != "planned":
            raise _no_choice(archive.name, options.storage)
        AotNetwork(library, archive, module, sources, adapters, apart=options.pools_apart).build()
    _add_kernels(library, sources, adapters)
    library.notes.append("the multiply-accumulates of its kernels are not known")
    library.notes += [*workspaces.notes, *sources.notes]
    _check_types(library)
    memory.plan(library)
    if storage is not None:
        library.arena_choices = {"planned": library.arena_size, "archive": archive_size(library, storage)}
        if options.storage == "archive":
            place_as_archive(library, storage)
    return library


def _no_choice(name: str, storage: str) -> ModelError:
    return ModelError(
        f"{name}: --storage {storage} goes with a graph-executor archive",
        why="an ahead-of-time module keeps the plan its kernels were compiled with in any case",
        hint="leave --storage out",
    )


def describe_operators(path: Path) -> str | None:
    """The functions of an operator-style archive as text; None for an archive of a model."""
    archive, _ = read_archive(path)
    metadata = read_metadata(archive)
    if not metadata.operators:
        return None
    lines = [f"{path.name}: Model Library Format version {metadata.version}, operator style", ""]
    lines += [f"{operator.name}({', '.join(operator.arguments)})" for operator in metadata.operators]
    return "\n".join([*lines, "", "functions without a network: they cannot be run", ""])


def _graph(library: Library, archive: Archive, module: ModuleInfo, adapters: Adapters) -> dict[str, int]:
    names = (
        f"executor-config/graph/{module.name}.graph",
        "executor-config/graph/graph.json",
        "runtime-config/graph/graph.json",
    )
    name = next((name for name in names if name in archive), names[0])
    graph = read_graph(Fields(f"{archive.name}: {name}", archive.json(name)))
    network = GraphNetwork(library, graph, _params(archive, module), adapters)
    network.build()
    return network.storage


def _params(archive: Archive, module: ModuleInfo) -> dict[str, np.ndarray]:
    wanted = f"parameters/{module.name}.params"
    names = [wanted] if wanted in archive else archive.find(r"parameters/.*\.params")
    if len(names) > 1:
        raise ModelError(f"{archive.name}: which of {', '.join(names)} belongs to {quoted(module.name)} is not clear")
    return params_file.read(archive.data(names[0]), f"{archive.name}: {names[0]}") if names else {}


def _add_kernels(library: Library, sources: Sources, adapters: Adapters) -> None:
    text = adapters.archive_text()
    library.kernels[text.name] = text
    library.kernels.update(adapters.kernels)
    for name, value in sources.constants.items():
        c_name = adapters.constant(name)
        library.constants[c_name] = Constant(c_name, value)
    if adapters.shares_stack:
        library.notes.append("one run at a time: kernels find their scratch memory by a variable of the network's file")


def _check_target(archive: Archive, sources: Sources, target: Target) -> None:
    if sources.needs_dsp and not target.dsp:
        raise TargetError(
            f"{archive.name}: its kernels use Arm's DSP instructions (arm_acle.h)",
            why=f"{'this computer' if target.cpu == 'host' else target.cpu} has none",
            hint="--cpu cortex-m4, or a board with a Cortex-M4, M7, M33 or M55; its emulator can run it",
        )
    if sources.needs_mve and not target.mve:
        raise TargetError(
            f"{archive.name}: its kernels use Helium's instructions (MVE)",
            why=f"{'this computer' if target.cpu == 'host' else target.cpu} has none",
            hint="--cpu cortex-m55, or a board with a Cortex-M55; its emulator can run it",
        )


def _check_variables(archive: Archive, sources: Sources) -> None:
    if any(re.fullmatch(r"tvmgen_\w+___reset__", name) for name in sources.functions):
        raise ModelError(
            f"{archive.name}: the network keeps variables from run to run",
            why="that is no part of the format, and where they lie cannot be told from the C alone",
            hint="compile the model again",
        )


def _check_types(library: Library) -> None:
    for constant in library.constants.values():
        if str(constant.data.dtype) not in CTYPES:
            raise ModelError(
                f"{library.provenance.file_name}: '{constant.name}' is of element type {constant.data.dtype}",
                why="C has no such type",
                hint="export the model with float32 or integer weights",
            )


__all__ = [
    "STORAGES",
    "MlfOptions",
    "archive_cpu",
    "archive_pins",
    "archive_pools",
    "describe_operators",
    "load_library",
    "write_archive",
]
