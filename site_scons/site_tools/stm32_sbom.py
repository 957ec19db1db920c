"""SCons tool ``stm32_sbom``: the bill of materials of an image, when it is asked for.

    env = Environment(tools=["default", "stm32_model", "stm32_firmware", "stm32_sbom"])
    image = env.Firmware("build/app.elf", ["main.c", network], BOARD="stm32f405")
    env.Sbom("build/app.cdx.json", image, VERSION="1.4.0")

``Sbom(target, image)`` makes a CycloneDX document of what ``Firmware`` or ``HostProgram`` returned: its networks'
models with their sums, the runtime, libraries by the linker's map, CMSIS packs with versions and licences, the compiler
and the generator. It is made by ``scons sbom`` (all of them) or by its name, and by no other build. Keywords:
``VERSION`` of the image, ``NETWORKS`` (of ``TvmModel``, where an image has some in libraries).

Variables: TVMSTM32SBOMCOM and TVMSTM32SBOMCOMSTR.
"""

from __future__ import annotations

import os

from SCons.Node import NodeList
from SCons.Script import Action
from SCons.Subst import Literal
from stm32_nodes import Network, builder_method, content, identity, place

from tvm_stm32.errors import Error

_EPOCH = "SOURCE_DATE_EPOCH"


@builder_method
def sbom(env, target, image, VERSION="", NETWORKS=(), **overrides) -> NodeList:
    """The ``Sbom`` method."""
    folder, name = place(env, env.Flatten([target])[0])
    sources = env.arg2nodes(env.Flatten([image]), env.fs.File)
    if len(sources) != 1:
        raise Error(f"Sbom: {len(sources)} images for '{name}'", hint="one document each")
    words = ["--image-version", Literal(str(VERSION))] if VERSION else []
    device, map_file = getattr(image, "device", None), getattr(image, "map", None)
    others = [NETWORKS] if isinstance(NETWORKS, Network) else NETWORKS
    files = [("--report", network.report) for network in (*getattr(image, "networks", ()), *others)]
    files += [("--map", map_file)] if map_file else []
    if device is not None and device.packs:
        files += [("--packs", device.lock)]
        words += [word for pack in sorted(device.packs) for word in ("--pack", Literal(pack))]
    for option, node in dict.fromkeys(files):
        words += ["$(", option, f"${{SOURCES[{len(sources)}]}}", "$)"]
        sources.append(node)
    epoch = env["ENV"].get(_EPOCH, os.environ.get(_EPOCH, ""))
    node = env.Command(
        folder.File(name),
        sources,
        Action("$TVMSTM32SBOMCOM", "$TVMSTM32SBOMCOMSTR"),
        ENV={**env["ENV"], **({_EPOCH: epoch} if epoch else {})},
        _TVMSTM32SBOMFLAGS=words,
        IMPLICIT_COMMAND_DEPENDENCIES=0,
        **overrides,
    )
    env.Depends(node, identity(image=sources[0].name, epoch=epoch, sbom=content("project/sbom.py")))
    # Sums of libraries are this computer's.
    env.NoCache(node)
    # No part of what is built by default.
    env.Ignore(folder, node)
    env.Alias("sbom", node)
    return node


def generate(env) -> None:
    """Add the builder to an environment."""
    if "TVMSTM32" not in env:
        env.Tool("stm32_model")
    env.SetDefault(
        TVMSTM32SBOMCOM="$TVMSTM32 sbom $( $SOURCE -o $TARGET $) $_TVMSTM32SBOMFLAGS",
        TVMSTM32SBOMCOMSTR="",
    )
    env.AddMethod(sbom, "Sbom")


def exists(_env) -> bool:
    """The command comes with this file."""
    return True
