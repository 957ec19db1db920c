"""An ahead-of-time module as a Library: one call of its main function over memory of the arena.

Its planner's work is kept: kernels name places in its memory pools by number. The pools lie in the arena, so each
instance has its own; constants lie in flash.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from ..errors import ModelError, quoted
from ..library import Argument, Call, Constant, Library, Tensor
from ..model import TensorInfo
from .adapters import Adapters, Operand
from .archive import Archive
from .interface import Header, Interface, MainFunction, main_function, read_header
from .metadata import ModuleInfo
from .names import Names, sanitized
from .sources import Sources
from .values import LARGEST_POOL, byte_list
from .workspace import Workspaces

_POOL_ALIGNMENT = 16
_MAPPED = re.compile(r"\.(\w+)\s*=\s*&\(\(uint8_t\s*\*\)\s*workspace_pools->(\w+)\)\[(\d{1,10})\]")


@dataclass(frozen=True)
class Pool:
    """Memory the main function takes: constants, or ``size`` bytes of RAM."""

    name: str
    size: int
    data: np.ndarray | None = None


class AotNetwork:
    """Fills ``library`` from a module whose C runs the whole network.

    ``apart``: each RAM pool its build named becomes a tensor of its own, so that it can lie anywhere.
    """

    def __init__(
        self,
        library: Library,
        archive: Archive,
        module: ModuleInfo,
        sources: Sources,
        adapters: Adapters,
        *,
        apart: bool = False,
    ) -> None:
        self._library = library
        self._archive = archive
        self._module = module
        self._sources = sources
        self._adapters = adapters
        self._apart = apart
        self._names = Names()

    def build(self) -> None:
        """Inputs, outputs, constants and the one call. Raises :class:`ModelError`."""
        header = read_header(self._archive, self._module.name)
        main = main_function(self._archive, self._sources, header)
        inputs, outputs = Interface(self._archive, self._module, self._sources, header).tensors(main)
        pools = [self._pool(name, header) for name in main.pools]
        places = {} if main.tensors else self._mapped_places(header, pools)
        for info in (*inputs, *outputs):
            name = self._names.new(info.name)
            self._library.tensors[name] = Tensor(name, info.shape, info.dtype)
            is_input = len(self._library.inputs) < len(inputs)
            (self._library.inputs if is_input else self._library.outputs).append(info)
            (self._library.input_tensors if is_input else self._library.output_tensors).append(name)
        held = self._tensors_in_pools(inputs, outputs, places, pools)
        if self._apart and not main.packed:
            for pool in pools:
                if pool.data is None and pool.name not in held and not pool.name.startswith("global_workspace"):
                    held[pool.name] = self._tensor_of(pool.name, pool.size)
        self._call(main, pools, held)

    def _pool(self, name: str, header: Header) -> Pool:
        """A pool of the main function, by its name there."""
        prefix = f"TVMGEN_{sanitized(self._module.name)}_{name}".upper()
        sizes = header.numbers
        if name == "global_const_workspace" and self._sources.pool is not None:
            return Pool(name, self._sources.pool.size, self._sources.pool)
        if name == "global_workspace" and self._sources.pool_bytes:
            size = self._sources.pool_bytes
        elif f"{prefix}_CONSTANT_POOL_SIZE" in sizes:
            size = sizes[f"{prefix}_CONSTANT_POOL_SIZE"]
            text = header.lists.get(f"{prefix}_CONSTANT_POOL_DATA", "")
            return Pool(name, size, byte_list(text, size, self._archive.name, name))
        else:
            size = sizes.get(f"{prefix}_WORKSPACE_POOL_SIZE", 0)
        if not 0 < size <= LARGEST_POOL:
            raise ModelError(
                f"{self._archive.name}: the size of the memory pool {quoted(name)} is not known",
                why="neither the C files nor the interface header tell it",
                hint="export the archive again",
            )
        return Pool(name, size)

    def _mapped_places(self, header: Header, pools: list[Pool]) -> dict[str, tuple[str, int]]:
        """Pool and offset of each input and output, where pools hold them."""
        text = "\n".join(self._archive.text(name) for name in self._archive.find(r"codegen/host/src/.*\.c"))
        sizes = {pool.name: pool.size for pool in pools if pool.data is None}
        result = {}
        prefix = f"tvmgen_{re.escape(sanitized(self._module.name))}_map_"
        for kind, members in (("inputs", header.inputs), ("outputs", header.outputs)):
            body = re.search(rf"{prefix}{kind}\s*\([^()]*\)\s*\{{(.*?)\breturn\b", text, re.DOTALL)
            found = {member: (pool, int(at)) for member, pool, at in _MAPPED.findall(body.group(1) if body else "")}
            for member in members:
                if member not in found or found[member][0] not in sizes:
                    raise ModelError(f"{self._archive.name}: where the pools hold {quoted(member)} cannot be told")
                result[f"{kind}:{member}"] = found[member]
        return result

    def _tensors_in_pools(
        self,
        inputs: list[TensorInfo],
        outputs: list[TensorInfo],
        places: dict[str, tuple[str, int]],
        pools: list[Pool],
    ) -> dict[str, str]:
        """Make each pool that holds inputs or outputs a tensor, of which they are parts. Returns tensors by pool."""
        held: dict[str, str] = {}
        sizes = {pool.name: pool.size for pool in pools}
        for kind, infos, names in (
            ("inputs", inputs, self._library.input_tensors),
            ("outputs", outputs, self._library.output_tensors),
        ):
            for info, name in zip(infos, names, strict=True):
                if not places:
                    continue
                pool, offset = places[f"{kind}:{sanitized(info.name)}"]
                if pool not in held:
                    held[pool] = self._tensor_of(pool, sizes[pool])
                if offset + self._library.tensors[name].size > sizes[pool] or offset % 8:
                    raise ModelError(f"{self._archive.name}: {quoted(info.name)} does not fit its place in '{pool}'")
                self._library.aliases[name] = held[pool]
                self._library.alias_offsets[name] = offset
        return held

    def _tensor_of(self, pool: str, size: int) -> str:
        name = self._names.new(f"pool {pool}")
        self._library.tensors[name] = Tensor(name, (size,), "uint8")
        return name

    def _call(self, main: MainFunction, pools: list[Pool], held: dict[str, str]) -> None:
        library = self._library
        names = [*library.input_tensors, *library.output_tensors] if main.tensors else []
        arguments = [Argument("tensor", name, "uint8_t") for name in names]
        kinds = ["tensor"] * len(names)
        offsets: list[tuple[int, int]] = []
        end = 0
        operands = [
            Operand(library.tensors[name].shape, library.tensors[name].dtype, name in library.output_tensors)
            for name in names
        ]
        for pool in pools:
            if pool.data is not None:
                constant = f"{library.name}_pool_{pool.name}"
                library.constants[constant] = Constant(constant, pool.data)
                arguments.append(Argument("constant", constant, "uint8_t"))
                kinds.append("constant")
                offsets.append((0, 0))
            elif pool.name in held:
                arguments.append(Argument("tensor", held[pool.name], "uint8_t"))
                operands.append(Operand((pool.size,), "uint8", True))
                kinds.append("tensor")
            else:
                kinds.append(str(end))
                offsets.append((end, pool.size))
                end += -(-pool.size // _POOL_ALIGNMENT) * _POOL_ALIGNMENT
        if main.packed and held:
            raise ModelError(
                f"{self._archive.name}: a packed module whose memory pools hold inputs and outputs",
                why="no exporter makes one",
                hint="export it with the C interface",
            )
        if main.packed:
            kernel = self._adapters.packed(main.name, operands, offsets, end)
        else:
            kernel = self._adapters.unpacked(main.name, kinds, operands, end)
        workspace = end + self._adapters.workspaces.bytes(main.name)
        if workspace:
            arguments.append(Argument("workspace", "", "uint8_t"))
        operators = operator_names(self._adapters, self._sources, self._adapters.workspaces, main.name)
        library.calls.append(
            Call(
                "tvm_main",
                f"{len(operators)} operators",
                kernel,
                tuple(arguments),
                tuple(library.input_tensors),
                (*library.output_tensors, *held.values()),
                workspace=workspace,
                detail=", ".join(operators),
            )
        )
        library.notes.append(f"tvm_main runs {', '.join(operators)}")
        library.float_operators += [
            f"{self._adapters.operator(name)}"
            for name in sorted(self._adapters.workspaces.calls(main.name))
            if re.search(r"\b(float|double)\b", self._sources.functions[name].body)
        ]


def operator_names(adapters: Adapters, sources: Sources, workspaces: Workspaces, main: str) -> list[str]:
    """The operators a main function calls, in its order."""
    calls = workspaces.calls(main) - {main}
    words = re.findall(r"\b([A-Za-z_]\w*)\s*\(", sources.functions[main].body)
    return [adapters.operator(word) for word in words if word in calls]
