"""What goes into an ahead-of-time module and what comes out: names, shapes and element types.

No version writes all of it in one place. Names and order come from the C function itself; shapes from the description
compiled into packed modules, else from the Relay text; sizes from the interface header or the metadata. A tensor whose
shape nothing tells is flat.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from ..errors import ModelError, quoted
from ..model import TensorInfo
from .archive import Archive
from .ctext import items, parameters
from .graph import checked_shape
from .metadata import ModuleInfo
from .names import sanitized
from .sources import Sources
from .values import DTYPES

_CODES = {(0, 8): "int8", (0, 16): "int16", (0, 32): "int32", (0, 64): "int64", (1, 1): "bool", (1, 8): "uint8"}
_CODES |= {(1, 16): "uint16", (1, 32): "uint32", (1, 64): "uint64", (2, 32): "float32", (2, 64): "float64"}
_TENSOR = re.compile(r"\"(?P<name>(?:\\.|[^\"\\])*)\"\s*,\s*(?P<shape>\w+)\s*,\s*\d+L?\s*,\s*\{(?P<dtype>[^}]*)\}")
_RELAY_TENSOR = re.compile(r"Tensor\[\(([^()]*)\),\s*(\w+)\]")


@dataclass(frozen=True)
class Header:
    """An interface header: members of its structures in order, its sizes by macro, constant pools by macro."""

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    numbers: dict[str, int] = field(default_factory=dict)
    lists: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class MainFunction:
    """The function that runs the network: its tensors in order (name, C type or ""), its memory pools in order."""

    name: str
    packed: bool
    tensors: tuple[tuple[str, str], ...]
    pools: tuple[str, ...]


def read_header(archive: Archive, module: str) -> Header:
    """The header ``tvmgen_<module>.h``, an empty one where there is none."""
    name = f"codegen/host/include/tvmgen_{sanitized(module)}.h"
    if name not in archive:
        return Header()
    structures: dict[str, tuple[str, ...]] = {}
    numbers: dict[str, int] = {}
    lists: dict[str, str] = {}
    for item in items(archive.text(name), f"{archive.name}: {name}"):
        if item.kind == "type":
            match = re.match(r"struct\s+\w*?_(inputs|outputs|workspace_pools|devices)\s*\{(.*)\}", item.text, re.DOTALL)
            if match is not None:
                structures[match.group(1)] = tuple(re.findall(r"\*\s*(\w+)\s*;", match.group(2)))
        define = re.match(r"#\s*define\s+(\w+)\s+(.*)", item.text, re.DOTALL) if item.kind == "directive" else None
        if define is not None and re.fullmatch(r"\d{1,12}", define.group(2).strip()):
            numbers[define.group(1)] = int(define.group(2))
        elif define is not None:
            lists[define.group(1)] = define.group(2)
    if "devices" in structures:
        raise ModelError(
            f"{archive.name}: the module takes devices of the C device API ({', '.join(structures['devices'])})",
            why="their drivers are not in the archive",
            hint="export the model for the CPU alone",
        )
    return Header(
        structures.get("inputs", ()),
        structures.get("outputs", ()),
        structures.get("workspace_pools", ()),
        numbers,
        lists,
    )


def main_function(archive: Archive, sources: Sources, header: Header) -> MainFunction:
    """The module's main function. Raises :class:`ModelError` when there is none."""
    names = [name for name in sources.functions if re.fullmatch(r"(tvmgen_\w+_|tvm__)(__tvm_main__|run_model)", name)]
    # Without a module's name in front it is a wrapper, unless it is alone.
    names = names or [name for name in sources.functions if name in ("__tvm_main__", "run_model")]
    if len(names) != 1:
        raise ModelError(
            f"{archive.name}: the C files have {len(names)} functions that run the network",
            why="an ahead-of-time module has one, whose name ends in __tvm_main__",
            hint="the archive is incomplete or damaged: export it again",
        )
    item = sources.functions[names[0]]
    taken = parameters(item.head)
    packed = any(name == "resource_handle" for _, name in taken) and len(taken) == 6
    if packed:
        found = re.findall(
            r"\bvoid\s*\*\s*(\w+)\s*=\s*\(\(\(TVMValue\s*\*\)\s*args\)\[\(?(\d{1,6})\)?\]\.v_handle\)", item.body
        )
        taken = [("", name) for name, _ in sorted(found, key=lambda pair: int(pair[1]))]
        if not taken or [int(index) for _, index in found] != list(range(len(found))):
            raise ModelError(f"{archive.name}: the arguments of '{item.name}' cannot be told from its text")
    known = {*(sanitized(pool) for pool in header.pools), "global_workspace", "global_const_workspace"}
    tensors: list[tuple[str, str]] = []
    pools = []
    for ctype, name in taken:
        pool = re.fullmatch(r"(\w+?)_\d+_var(?:_\d+)?", name)
        if pool is not None and pool.group(1) in known:
            pools.append(pool.group(1))
        elif re.match(r"device_context|.*_device_context", name):
            raise ModelError(
                f"{archive.name}: '{item.name}' takes a device context", hint="export it for the CPU alone"
            )
        else:
            # Early generators number the arguments and name them in the text.
            alias = re.search(rf"\bvoid\s*\*\s*(\w+)\s*=\s*{name}\s*;", item.body) if not packed else None
            plain = re.sub(r"(_buffer)?_var$", "", alias.group(1) if alias is not None else name)
            tensors.append((plain, ctype.replace("*", "").replace("const", "").strip() if "*" in ctype else ""))
    return MainFunction(item.name, packed, tuple(tensors), tuple(pools))


class Interface:
    """Finds the inputs and outputs of an ahead-of-time module. Raises :class:`ModelError` where nothing tells."""

    def __init__(self, archive: Archive, module: ModuleInfo, sources: Sources, header: Header) -> None:
        self._archive = archive
        self._module = module
        self._header = header
        self._sources = sources
        self._described = {kind: _described(sources, kind) for kind in ("inputs", "outputs")}
        self._relay = _relay_signature(archive, module.name)

    def tensors(self, main: MainFunction) -> tuple[list[TensorInfo], list[TensorInfo]]:
        """Inputs and outputs in the order of the main function (of the header, when memory pools hold them)."""
        if not main.tensors:
            inputs = [(name, self._ctype(main, name)) for name in self._header.inputs]
            outputs = [(name, self._ctype(main, name)) for name in self._header.outputs]
        else:
            count = self._output_count(main)
            inputs, outputs = list(main.tensors[:-count]), list(main.tensors[-count:])
        for kind, known in (("inputs", inputs), ("outputs", outputs)):
            if self._described[kind] and len(self._described[kind]) != len(known):
                raise ModelError(
                    f"{self._archive.name}: the module's C description has {len(self._described[kind])} {kind}, "
                    f"and '{main.name}' takes {len(known)}",
                    hint="export the archive again",
                )
        if not outputs:
            raise ModelError(f"{self._archive.name}: what the module computes cannot be told", hint="export it again")
        return (
            [self._info("inputs", number, *tensor) for number, tensor in enumerate(inputs)],
            [self._info("outputs", number, *tensor) for number, tensor in enumerate(outputs)],
        )

    def _ctype(self, main: MainFunction, tensor: str) -> str:
        """What a tensor in a pool consists of, from the functions the main function hands it to; "" where unclear."""
        functions = self._sources.functions
        for name, arguments in re.findall(r"\b(\w+)\s*\(([^()]*)\)", functions[main.name].body):
            for index, argument in enumerate(arguments.split(",")):
                if name in functions and re.fullmatch(rf"{tensor}_buffer_var(_let)?", argument.strip()):
                    taken = parameters(functions[name].head)
                    return taken[index][0].replace("*", "").strip() if index < len(taken) else ""
        return ""

    def _output_count(self, main: MainFunction) -> int:
        for count in (len(self._header.outputs), len(self._described["outputs"]), len(self._module.outputs)):
            if count:
                break
        else:
            names = [name for name, _ in main.tensors]
            relay = sum(1 for name in names if name in {sanitized(known) for known in self._relay[0]})
            count = len(names) - relay if relay else sum(1 for name in names if re.fullmatch(r"output\d*", name))
        if not 0 < count <= len(main.tensors):
            raise ModelError(
                f"{self._archive.name}: '{main.name}' takes {len(main.tensors)} tensors, and {count} outputs are known",
                why="header, metadata and Relay text do not tell them from inputs",
                hint="export the archive again",
            )
        return count

    def _info(self, kind: str, number: int, name: str, ctype: str) -> TensorInfo:
        described = self._described[kind]
        facts = self._module.inputs if kind == "inputs" else self._module.outputs
        own = next((known for known in facts if sanitized(known) == name), name)
        if number < len(described):
            shown, shape, dtype = described[number]
            return TensorInfo(shown if kind == "inputs" else own, shape, dtype)
        size, dtype = facts.get(own, (0, ""))
        macro = f"TVMGEN_{sanitized(self._module.name)}_{sanitized(name)}_SIZE".upper()
        size = size or self._header.numbers.get(macro, 0)
        dtype = dtype or DTYPES.get(ctype, "")
        if ctype in DTYPES and DTYPES[ctype] != dtype and "bool" not in (dtype, DTYPES[ctype]):
            raise ModelError(
                f"{self._archive.name}: the {kind[:-1]} {quoted(own)} is {dtype} in metadata, {ctype} in C",
                hint="export the archive again",
            )
        relay = self._relay_tensor(kind, number, own)
        if relay is not None and dtype in ("", relay[1]) and size in (0, _bytes(*relay)):
            return TensorInfo(own, *relay)
        if dtype not in DTYPES.values() or size <= 0 or size % np.dtype(dtype).itemsize:
            raise ModelError(
                f"{self._archive.name}: the {kind[:-1]} {quoted(own)} has no known size",
                why="neither header, metadata nor Relay text tell it",
                hint="export the archive again with TVM 0.11 or newer",
            )
        where = f"{self._archive.name}: the {kind[:-1]} {quoted(own)}"
        return TensorInfo(own, checked_shape([size // np.dtype(dtype).itemsize], where), dtype)

    def _relay_tensor(self, kind: str, number: int, name: str) -> tuple[tuple[int, ...], str] | None:
        inputs, outputs = self._relay
        if kind == "outputs":
            return outputs[number] if number < len(outputs) else None
        found = next((tensor for known, tensor in inputs.items() if sanitized(known) == sanitized(name)), None)
        # Arguments without names of their own come in the order of the model's, when it has no others.
        plain = re.fullmatch(r"arg\d+", name) and number < len(inputs)
        return list(inputs.values())[number] if found is None and plain else found


def _described(sources: Sources, kind: str) -> list[tuple[str, tuple[int, ...], str]]:
    """Name, shape and element type of the tensors in the C description of a packed module."""
    text = sources.metadata.get(f"kTvmgenMetadata_{kind}", "")
    result = []
    for match in _TENSOR.finditer(text):
        numbers = [int(number) for number in re.findall(r"\d{1,4}", match["dtype"])]
        values = sources.metadata.get(match["shape"], "").partition("{")[2]
        shape = [int(number) for number in re.findall(r"\d{1,12}", values)]
        dtype = _CODES.get((numbers[0], numbers[1])) if len(numbers) == 3 and numbers[2] == 1 else None
        if dtype is None:
            return []
        result.append((match["name"], checked_shape(shape, f"the {kind} of the module's C description"), dtype))
    return result


def _relay_signature(
    archive: Archive, module: str
) -> tuple[dict[str, tuple[tuple[int, ...], str]], list[tuple[tuple[int, ...], str]]]:
    """Types of the parameters of ``@main`` by name, and of its results where the text states them."""
    for name in (f"src/{module}.relay", "src/relay.txt", "relay.txt"):
        if name in archive:
            match = re.search(r"def @main\((.*?)\)\s*(?:->\s*([^{]*))?\{", archive.text(name), re.DOTALL)
            break
    else:
        match = None
    if match is None:
        return {}, []
    inputs = {}
    for parameter in re.split(r",\s*(?=%)", match.group(1)):
        found = re.match(r"\s*%([\w.:/]+)[^:]*:\s*(.*)", parameter, re.DOTALL)
        tensor = _relay_tensors(found.group(2))[:1] if found is not None else []
        if found is not None and tensor:
            inputs[found.group(1)] = tensor[0]
    return inputs, _relay_tensors(match.group(2) or "")


def _relay_tensors(text: str) -> list[tuple[tuple[int, ...], str]]:
    result = []
    for extents, dtype in _RELAY_TENSOR.findall(text):
        words = [word.strip() for word in extents.split(",") if word.strip()]
        if not all(re.fullmatch(r"[1-9]\d{0,8}", word) for word in words) or dtype not in DTYPES.values():
            return []
        result.append((checked_shape([int(word) for word in words], "a tensor of the Relay text"), dtype))
    return result


def _bytes(shape: tuple[int, ...], dtype: str) -> int:
    return int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
