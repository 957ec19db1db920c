"""``metadata.json`` of versions 1 to 7: which modules an archive holds, and what is said about each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from ..errors import ModelError, quoted
from .archive import Archive
from .fields import Fields, is_integer

OLDEST, NEWEST = 1, 7

KEY = "tvm_stm32"
"""Our key of a module: what archives hold that this tool wrote (:mod:`.restore`)."""

Executor = Literal["graph", "aot"]


@dataclass(frozen=True)
class ModuleInfo:
    """A module: its executor, target strings, workspace bytes by function, I/O as ``{name: (bytes, dtype)}``.

    ``own`` is what stands under our key, unchecked; None in archives of other tools.
    """

    name: str
    executor: Executor
    targets: tuple[str, ...]
    workspaces: dict[str, int] = field(default_factory=dict)
    inputs: dict[str, tuple[int, str]] = field(default_factory=dict)
    outputs: dict[str, tuple[int, str]] = field(default_factory=dict)
    own: Any = None


@dataclass(frozen=True)
class OperatorInfo:
    """A function of an operator-style archive and its arguments as text (``float32 4x8``)."""

    name: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Metadata:
    """A version and its modules by name; or, in operator style, functions."""

    version: int
    modules: dict[str, ModuleInfo]
    operators: tuple[OperatorInfo, ...] = ()


def read_metadata(archive: Archive) -> Metadata:
    """The archive's metadata. Raises :class:`ModelError` for a version or a form that is unknown."""
    if "metadata.json" not in archive:
        raise ModelError(
            f"{archive.name}: there is no metadata.json in it",
            why="every Model Library Format archive has one",
            hint="a tar file of another kind cannot be read",
        )
    top = Fields(f"{archive.name}: metadata.json", archive.json("metadata.json"))
    version = top.integer("version")
    if not OLDEST <= version <= NEWEST:
        raise ModelError(
            f"{archive.name}: Model Library Format version {version}",
            why=f"versions {OLDEST} to {NEWEST} can be read",
            hint="export the model with TVM 0.18 or older",
        )
    if "modules" in top:
        modules = top.object("modules")
        found = {name: _module(name, modules.object(name), version) for name in modules}
        if not found:
            raise ModelError(f"{archive.name}: the archive has no modules")
        return Metadata(version, found)
    if "style" in top and top.text("style") == "operator":
        return Metadata(version, {}, _operators(top.object("memory")))
    name = top.text("model_name") if "model_name" in top else "default"
    return Metadata(version, {name: _module(name, top, version)})


def choose_module(archive: Archive, metadata: Metadata, wanted: str) -> ModuleInfo:
    """The module called ``wanted``, or the only one. Raises :class:`ModelError` that lists what there is."""
    if metadata.operators:
        names = ", ".join(quoted(operator.name) for operator in metadata.operators)
        raise ModelError(
            f"{archive.name}: an archive of single operators ({names}), not of a model",
            why="it has functions but nothing that calls them in order",
            hint="tvm-stm32 inspect lists them; export a whole model to run it",
        )
    names = ", ".join(metadata.modules)
    if not wanted:
        if len(metadata.modules) == 1:
            return next(iter(metadata.modules.values()))
        raise ModelError(
            f"{archive.name}: the archive has {len(metadata.modules)} modules", why=names, hint="choose with --module"
        )
    if wanted not in metadata.modules:
        raise ModelError(f"{archive.name}: there is no module {quoted(wanted)}", hint=f"--module with one of: {names}")
    return metadata.modules[wanted]


def _module(name: str, fields: Fields, version: int) -> ModuleInfo:
    key = "executors" if "executors" in fields else "runtimes"
    executors = fields.list(key)
    executor: Executor
    if "graph" in executors:
        executor = "graph"
    elif "aot" in executors:
        executor = "aot"
    else:
        raise ModelError(
            f"{fields.where}: module {quoted(name)} has no executor",
            why=f"'{key}' is {executors}; 'graph' and 'aot' can be read",
            hint="export it with the graph or the AOT executor",
        )
    target = fields.value.get("target", [])
    texts = target.values() if isinstance(target, dict) else target if isinstance(target, list) else []
    workspaces, inputs, outputs = {}, {}, {}
    # Version 1 has the list of storage ids here, which the graph says better.
    if version > 1 and "memory" in fields:
        memory = fields.object("memory")
        if "functions" in memory:
            functions = memory.object("functions")
            workspaces = _workspaces(functions)
            inputs, outputs = _io(functions, "inputs"), _io(functions, "outputs")
    targets = tuple(str(text) for text in texts)
    return ModuleInfo(name, executor, targets, workspaces, inputs, outputs, fields.value.get(KEY))


def _workspaces(functions: Fields) -> dict[str, int]:
    result = {}
    for index, value in enumerate(_optional_list(functions, "operator_functions")):
        entry = Fields(f"{functions.where}: 'operator_functions'[{index}]", value)
        rows = [Fields(f"{entry.where}: 'workspace'", row) for row in entry.list("workspace")]
        result[entry.text("function_name")] = max((row.integer("workspace_size_bytes") for row in rows), default=0)
    return result


def _io(functions: Fields, key: str) -> dict[str, tuple[int, str]]:
    result: dict[str, tuple[int, str]] = {}
    for index, value in enumerate(_optional_list(functions, "main")):
        entry = Fields(f"{functions.where}: 'main'[{index}]", value)
        if key in entry:
            tensors = entry.object(key)
            for name in tensors:
                tensor = tensors.object(name)
                result[name] = (tensor.integer("size"), tensor.text("dtype"))
    return result


def _operators(memory: Fields) -> tuple[OperatorInfo, ...]:
    result = []
    for name in memory:
        rows = [Fields(f"{memory.where}: '{name}'", row) for row in memory.list(name)]
        arguments = tuple(f"{row.text('dtype')} {shape_text(row.list('shape'))}" for row in rows)
        result.append(OperatorInfo(name, arguments))
    return tuple(result)


def _optional_list(fields: Fields, key: str) -> list[Any]:
    return fields.list(key) if key in fields else []


def shape_text(shape: list[Any]) -> str:
    """``4x8``, or ``scalar``."""
    return "x".join(str(extent) if is_integer(extent) else "?" for extent in shape) or "scalar"
