"""Writes a Library as a Model Library Format archive of version 7, and with it all that :mod:`.restore` needs.

Tools that know the format find an ahead-of-time module with the C interface: its C, interface header, parameters and
sizes. The same Library gives the same bytes: members are sorted, and there are no dates.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from .. import __version__
from .. import params as params_file
from ..emit.report import report, report_text
from ..errors import Error, ModelError, quoted
from ..files import write_atomically
from ..library import Library
from .c_module import CModule, Port
from .document import to_document
from .metadata import KEY
from .names import sanitized
from .restore import SCHEMA, runtime_files

EXPORT_DATETIME = "1970-01-01 00:00:00Z"
"""Of every archive, so that the same model gives the same bytes."""

_CPU_DEVICE = 1
_README = b"Headers the C of this archive includes: add runtime/include to the include path.\n"


def write_archive(library: Library, path: Path, module: str = "") -> None:
    """Write a planned Library to ``path``, whole or not at all.

    ``module`` names the module and with it the entry point (default: the network's name).
    Raises :class:`Error` for a name that cannot be one, or a path that cannot be written.
    """
    write_atomically({path: archive_bytes(library, module)})


def archive_bytes(library: Library, module: str = "") -> bytes:
    """The archive as bytes."""
    module = module or library.name
    if not re.fullmatch("[a-z0-9][a-z0-9_]{0,62}", module, re.ASCII):
        raise Error(
            f"{quoted(module)} cannot be the name of an archive's module",
            why="C names are made of it: lower-case letters, digits and '_'",
            hint="for example 'default', the usual name of archives with one module",
        )
    if any(re.search(rf"\btvmgen_{module}_", kernel.source) for kernel in library.kernels.values()):
        raise Error(
            f"the archive's module cannot be called {quoted(module)}",
            why="functions of the archive the network came from have that name",
            hint="give another one with --archive-module",
        )
    c_module = CModule(library, module)
    arrays: dict[str, np.ndarray] = {}
    document = to_document(library, arrays)
    members: dict[str, bytes] = {name: text.encode("utf-8", "replace") for name, text in c_module.files().items()}
    members[f"parameters/{module}.params"] = params_file.write(arrays)
    runtime = runtime_files(library)
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in sorted({**members, **runtime}.items())}
    source = f"src/{module}.txt"
    members[source] = report_text(report(library)).encode("utf-8", "replace")
    members.update(runtime)
    members["runtime/README.txt"] = _README
    own = {
        "schema": SCHEMA,
        "tool": f"tvm-stm32 {__version__}",
        "source": source,
        "digests": digests,
        "library": document,
    }
    metadata = {"version": 7, "modules": {module: {**_standard(library, c_module), KEY: own}}}
    try:
        members["metadata.json"] = json.dumps(metadata, indent=1, allow_nan=False).encode("ascii") + b"\n"
    except ValueError as error:
        raise ModelError(f"{library.provenance.file_name}: {error}") from error
    return _tar(members)


def _standard(library: Library, c_module: CModule) -> dict[str, Any]:
    """What version 7 of the format has about a module."""
    main = {
        "device": _CPU_DEVICE,
        "workspace_size_bytes": c_module.workspace_bytes,
        "constants_size_bytes": library.constant_bytes,
        "io_size_bytes": sum(port.size for port in (*c_module.inputs, *c_module.outputs)),
        "inputs": _io(c_module.inputs),
        "outputs": _io(c_module.outputs),
    }
    uses: dict[str, int] = dict.fromkeys((call.kernel for call in library.calls), 0)
    for call in library.calls:
        uses[call.kernel] = max(uses[call.kernel], call.workspace)
    operators = [
        {"function_name": name, "workspace": [{"device": _CPU_DEVICE, "workspace_size_bytes": size}]}
        for name, size in uses.items()
    ]
    runtime = {
        "short_name": "tvm_stm32_runtime",
        "url": "./runtime",
        "url_type": "mlf_path",
        "version_spec": __version__,
    }
    return {
        "model_name": c_module.module,
        "export_datetime": EXPORT_DATETIME,
        "target": [_target(library.settings.get("cpu", "host"))],
        "executors": ["aot"],
        "style": "full-model",
        "external_dependencies": [runtime],
        "memory": {"functions": {"main": [main], "operator_functions": operators}},
    }


def _target(cpu: str) -> str:
    """The target as TVM writes it."""
    return "c -keys=cpu" if cpu == "host" else f"c -keys=arm_cpu,cpu -mcpu={cpu}"


def _io(ports: list[Port]) -> dict[str, dict[str, Any]]:
    """By the model's own names, where they lead to those in C."""
    result: dict[str, dict[str, Any]] = {}
    for port in ports:
        own = port.info.name
        name = own if sanitized(own) == port.member and own not in result else port.member
        result[name] = {"size": port.size, "dtype": port.info.dtype}
    return result


def _tar(members: Mapping[str, bytes]) -> bytes:
    """An uncompressed tar file of members and their folders, sorted, without times and owners of this computer."""
    folders = {parent.as_posix() for name in members for parent in PurePosixPath(name).parents}
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted((*folders, *members)):
            info = tarfile.TarInfo("." if name == "." else f"./{name}")
            info.uname = info.gname = "root"
            content = members.get(name)
            if content is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(info)
            else:
                info.size, info.mode = len(content), 0o644
                tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()
