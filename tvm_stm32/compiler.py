"""From a model file to a planned Library: the whole compile, the only place that imports TVM on purpose."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from .cnames import network_name
from .errors import Error
from .library import Library
from .target import Target

LEVELS = ("time", "balanced", "ram", "size")


@dataclass(frozen=True)
class CompileOptions:
    """What a compile depends on besides the model; part of the generated files' provenance."""

    target: Target
    level: str = "time"
    name: str = ""

    def settings(self) -> dict[str, str]:
        """Settings as shown in generated files."""
        return {"cpu": self.target.cpu, "level": self.level}


def compile_model(path: Path, options: CompileOptions, params: Path | None = None) -> Library:
    """Read, prepare, choose kernels, plan memory. Raises the errors of :mod:`tvm_stm32.errors`."""
    # TVM prints notes of its own on stderr at import and while it lowers; none helps a user of this tool.
    os.environ.setdefault("TVM_LOG_DEBUG", "")
    from . import graph, memory
    from .frontends import load_model
    from .kernels.network import build_library

    name = network_name(options.name or path.name.split(".")[0])
    try:
        model = load_model(path, params)
        library = build_library(graph.prepare(model), model, options.target, name, options.level, options.settings())
    except Error as error:
        raise error.about(path.name) from error
    memory.plan(library)
    return library
