"""``NAME.cmake`` and ``NAME.mk``: a network in builds that have its files and not this tool."""

from __future__ import annotations

from pathlib import Path

from .. import __version__
from ..c_api import interface_files, public_name, runtime_files, snippet_files
from ..library import Library
from ..templates import text_templates


def render_snippets(library: Library, c_api: str) -> dict[str, str]:
    """The text of each snippet of ``library``, by file name; they name files beside them and no folder."""
    environment = text_templates(Path(__file__).with_name("templates"))
    core = library.name
    name = core if c_api == "ai" else public_name(core)
    interface = interface_files(name, c_api)
    values = {
        "name": name,
        "version": __version__,
        "target": f"ai_{name}",
        "arena": f"{library.shared_arena}.c" if library.shared_arena else "",
        "sources": [f"{core}.c", f"{core}_data.c", *(file for file in interface if file.endswith(".c"))],
        "headers": [*(file for file in interface if file.endswith(".h")), f"{core}.h", f"{core}_data.h"],
        # The source that the assembler adds weights to, and their file.
        "assembled": (f"{core}_data.c", f"{core}_weights.bin") if library.weights == "incbin" else (),
        "runtimes": _runtimes(c_api),
        "runtime_flags": "" if c_api == "ai" else f" --c-api {c_api}",
    }
    templates = ("network.cmake.j2", "network.mk.j2")
    return {
        file: environment.get_template(template).render(values)
        for file, template in zip(snippet_files(name), templates, strict=True)
    }


def _runtimes(c_api: str) -> list[tuple[str, list[str], list[str]]]:
    """Libraries of the runtime: name, C files, libraries each needs. The last one is the network's own."""
    found: list[tuple[str, list[str], list[str]]] = [("ai_runtime", ["ai_runtime.c"], [])]
    interface = [file.rpartition("/")[2] for file in runtime_files(c_api) if file.endswith(".c")]
    if interface:
        found.append((f"ai_runtime_{c_api.replace('-', '_')}", interface, ["ai_runtime"]))
    return found
