"""The Library inside an archive this tool wrote, as it was when it was written.

It stands in ``metadata.json`` under one key of the module; its constants are the module's parameters. An archive whose
C was edited, or that another version of this tool wrote, is read as any other archive instead.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from .. import params as params_file
from ..choices import WEIGHTS
from ..cnames import network_name
from ..errors import ModelError, TargetError, quoted
from ..library import Argument, Call, Kernel, Library
from ..resources import resource_dir
from ..target import Target, known_cpus
from .archive import Archive
from .checks import check_library
from .document import Rules, from_document, schema
from .metadata import KEY, ModuleInfo

SCHEMA = 3
"""Version of what stands under it; a field with a default may be added without a new one."""

_MOST = 65535
_FEATURES = {"ai_kernels_dsp.h": "dsp", "ai_kernels_mve.h": "mve"}
_RULES: Rules = {
    (Library, "weights"): {"enum": list(WEIGHTS)},
    (Library, "calls"): {"maxItems": _MOST},
    (Library, "tensors"): {"maxProperties": 4 * _MOST},
    (Library, "kernels"): {"maxProperties": _MOST},
    (Library, "constants"): {"maxProperties": 4 * _MOST},
}


class OtherVersionError(Exception):
    """Why what stands under our key is not to be used; the rest of the archive may be."""


@functools.cache
def _validator() -> Any:
    import jsonschema

    envelope = {
        "type": "object",
        "required": ["schema", "tool", "digests", "library"],
        "properties": {
            "schema": {"const": SCHEMA},
            "tool": {"type": "string", "maxLength": 100},
            "digests": {"type": "object", "additionalProperties": {"type": "string"}},
            "library": schema(Library, _RULES),
        },
    }
    return jsonschema.Draft202012Validator(envelope)


def own_library(archive: Archive, module: ModuleInfo) -> Library:
    """The module's Library, checked.

    Raises :class:`OtherVersionError` when it is another version's or no longer that of the archive's C, and
    :class:`ModelError` when it is damaged.
    """
    document = module.own
    where = f"{archive.name}: metadata.json: '{KEY}' of module {quoted(module.name)}"
    if not isinstance(document, dict):
        raise ModelError(f"{where} is no object", hint="write the archive again")
    if document.get("schema") != SCHEMA:
        raise OtherVersionError(
            f"it was written by {_shown(document.get('tool'))} in schema {_shown(document.get('schema'))}, "
            f"and this version knows schema {SCHEMA}"
        )
    problem = next(_validator().iter_errors(document), None)
    if problem is not None:
        if problem.validator == "additionalProperties":
            raise OtherVersionError(
                f"{_shown(document.get('tool'))} wrote facts this version does not know ({_shown(problem.message)})"
            )
        place = problem.json_path.removeprefix("$").lstrip(".")
        raise ModelError(f"{where}: {_shown(place)}: {_shown(problem.message)}", hint="write the archive again")
    parameters = f"parameters/{module.name}.params"
    _check_digests(archive, document["digests"], [*archive.find(r"codegen/.*"), parameters])
    arrays = params_file.read(archive.data(parameters), f"{archive.name}: {parameters}")
    try:
        library = from_document(Library, document["library"], arrays)
        check_library(library)
    except ModelError as error:
        raise ModelError(f"{where}: {error.message}", why=error.why, hint="write the archive again") from error
    current = runtime_digests(library)
    for name in sorted(current):
        if document["digests"].get(name) != current[name]:
            library.notes.append(f"written for another version of {PurePosixPath(name).name} than this one's")
    return library


def runtime_digests(library: Library) -> dict[str, str]:
    """The sha256 of the runtime's headers the kernels include, by their names in an archive."""
    return {name: hashlib.sha256(content).hexdigest() for name, content in runtime_files(library).items()}


def runtime_files(library: Library) -> dict[str, bytes]:
    """The runtime's headers the kernels include, with those they include, by their names in an archive."""
    folder = resource_dir("runtime") / "include"
    wanted = sorted({header for kernel in library.kernels.values() for header in kernel.headers} - {"math.h"})
    files: dict[str, bytes] = {}
    while wanted:
        name = wanted.pop()
        content = files[f"runtime/include/{name}"] = (folder / name).read_bytes()
        inner = re.findall(rb'^#include "(\w+\.h)"', content, re.MULTILINE)
        wanted += [header.decode() for header in inner if f"runtime/include/{header.decode()}" not in files]
    return files


def own_cpu(module: ModuleInfo) -> str:
    """The CPU the module's Library was compiled for; "" where that is not told."""
    document = module.own if isinstance(module.own, dict) else {}
    library = document.get("library")
    settings = library.get("settings") if isinstance(library, dict) else None
    cpu = settings.get("cpu") if isinstance(settings, dict) and document.get("schema") == SCHEMA else None
    return cpu if isinstance(cpu, str) and cpu in known_cpus() else ""


def check_target(library: Library, target: Target) -> None:
    """Raise :class:`TargetError` when the kernels use instructions ``target`` lacks."""
    headers = {header for kernel in library.kernels.values() for header in kernel.headers}
    for header, feature in _FEATURES.items():
        if header in headers and not getattr(target, feature):
            raise TargetError(
                f"the archive's kernels are for {library.settings['cpu']} and use its {feature.upper()} instructions",
                why=f"{'this computer' if target.cpu == 'host' else target.cpu} has none",
                hint="leave --cpu out, or compile the model again for this core",
            )


def renamed(library: Library, wanted: str) -> Library:
    """The library under another C name: of itself, its kernels and constants, and in their C text."""
    name = network_name(wanted)
    if name == library.name:
        return library
    names = {old: f"{name}{old.removeprefix(library.name)}" for old in (*library.kernels, *library.constants)}
    # Helpers of a kernel have its name in front of theirs.
    pattern = re.compile(rf"\b{re.escape(library.name)}_\w+")
    longest = max((len(old) for old in library.kernels), default=0)

    def replaced(match: re.Match[str]) -> str:
        word = match.group()
        if word in names:
            return names[word]
        ends = (end.start() for end in re.finditer("_", word) if end.start() <= longest)
        return (
            f"{name}{word.removeprefix(library.name)}" if any(word[:end] in library.kernels for end in ends) else word
        )

    def kernel(old: Kernel) -> Kernel:
        return dataclasses.replace(old, name=names[old.name], source=pattern.sub(replaced, old.source))

    def argument(old: Argument) -> Argument:
        return dataclasses.replace(old, name=names[old.name]) if old.kind == "constant" else old

    def call(old: Call) -> Call:
        return dataclasses.replace(old, kernel=names[old.kernel], arguments=tuple(map(argument, old.arguments)))

    return dataclasses.replace(
        library,
        name=name,
        kernels={names[key]: kernel(old) for key, old in library.kernels.items()},
        constants={names[key]: dataclasses.replace(old, name=names[key]) for key, old in library.constants.items()},
        calls=[call(old) for old in library.calls],
    )


def _check_digests(archive: Archive, digests: Mapping[str, Any], names: Iterable[str]) -> None:
    for name in names:
        if name not in archive or digests.get(name) != hashlib.sha256(archive.data(name)).hexdigest():
            raise OtherVersionError(f"{_shown(name)} is not as this tool wrote it")


def _shown(value: Any) -> str:
    text = str(value)[:400]
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= 160 else f"{text[:120]}...{text[-37:]}"
