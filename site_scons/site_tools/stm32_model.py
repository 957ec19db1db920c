"""SCons tool ``stm32_model``: a neural-network file is a source like any other.

    env = Environment(tools=["default", "stm32_model"])
    network = env.TvmModel("build/net/kws", "models/kws.tflite", CPU="cortex-m4")
    runtime = env.TvmRuntime("build/runtime")
    env.Append(CPPPATH=["build/net", "build/runtime/include"])
    env.Program("firmware.elf", ["main.c", network, runtime])

``TvmModel(target, source, ...)`` makes ``target.c``, ``.h``, ``_data.c``, ``_data.h``, ``_report.json`` and
``_report.txt``; the network's C name is the target's file name. It returns the C files; ``.headers`` and ``.report`` of
the result are the other nodes. Keywords: ``BOARD`` (name or board file) or ``CPU``, ``LEVEL`` (time, balanced, ram,
size), ``PARAMS`` (weights of a Relay model).

``TvmRuntime(folder)`` copies the ai_* runtime into a folder of the build and returns its C file; ``.files`` of the
result maps every file of the runtime (``port/port_startup.c``) to its node.

Variables: TVMSTM32 (how the generator is called), TVMSTM32COM and TVMSTM32COMSTR (the command and what is printed for
it), TVMSTM32FLAGS (more flags).
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from importlib import metadata

from SCons.Node import NodeList
from SCons.Script import Action, Value


def _package_dir():
    """The folder of the Python package: above this file in a checkout, around it in a wheel."""
    here = os.path.dirname(os.path.abspath(__file__))
    for relative in (("..", "..", "tvm_stm32"), ("..", "..", "..")):
        folder = os.path.normpath(os.path.join(here, *relative))
        if os.path.isfile(os.path.join(folder, "cnames.py")):
            return folder
    raise RuntimeError(f"the tvm_stm32 package is not around {here}")


PACKAGE = _package_dir()
if os.path.dirname(PACKAGE) not in sys.path:
    sys.path.append(os.path.dirname(PACKAGE))

from tvm_stm32.cnames import network_name  # noqa: E402
from tvm_stm32.resources import resource_dir  # noqa: E402

SUFFIXES = (".c", ".h", "_data.c", "_data.h", "_report.json", "_report.txt")
# Stages of the generator: what they hold decides what is generated.
_STAGES = ("frontends", "graph", "kernels", "memory", "library", "emit")
_generator = None


class Network(NodeList):
    """The C files of a network; ``headers`` and ``report`` are its other nodes."""

    headers = ()
    report = None


class Runtime(NodeList):
    """The C file of the ai_* runtime; ``files`` maps the runtime's files to their nodes in the build."""

    files = {}


def generator_identity():
    """Version and content of the generator as canonical JSON: an edit of it regenerates."""
    global _generator
    if _generator is None:
        digest = hashlib.sha256()
        for name in sorted(_generator_files()):
            digest.update(name.encode())
            with open(os.path.join(PACKAGE, name), "rb") as stream:
                digest.update(stream.read())
        identity = {"generator": digest.hexdigest(), "tvm": metadata.version("apache-tvm")}
        _generator = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    return _generator


def _generator_files():
    for name in sorted(os.listdir(PACKAGE)):
        if name.endswith(".py"):
            yield name
    for stage in _STAGES:
        for folder, _, names in os.walk(os.path.join(PACKAGE, stage)):
            for name in names:
                if not name.endswith(".pyc"):
                    yield os.path.relpath(os.path.join(folder, name), PACKAGE).replace(os.sep, "/")


def board_dependency(env, board):
    """The board file's node, or its content when it is one of ours (whose place must not matter)."""
    if os.sep in board or "/" in board or board.endswith((".yaml", ".yml")):
        return env.File(board)
    path = resource_dir("boards") / f"{board}.yaml"
    return Value(path.read_text(encoding="utf-8") if path.is_file() else board)


def tvm_model(env, target, source, BOARD=None, CPU=None, LEVEL="time", PARAMS=None):
    """The ``TvmModel`` method."""
    folder, name = os.path.split(str(target))
    if network_name(name) != name:
        raise ValueError(f"TvmModel: '{name}' is no C name for a network; use '{network_name(name)}'")
    sources = [source] if not isinstance(source, list) else list(source)
    flags = ["-O", LEVEL]
    if BOARD:
        flags += ["--board", BOARD]
    elif CPU:
        flags += ["--cpu", CPU]
    if PARAMS:
        sources.append(PARAMS)
        flags += ["--params", "${SOURCES[1]}"]
    nodes = env.Command(
        [os.path.join(folder, name + suffix) for suffix in SUFFIXES],
        sources,
        Action("$TVMSTM32COM", "$TVMSTM32COMSTR"),
        _TVMSTM32FLAGS=flags,
        TVMSTM32NAME=name,
    )
    env.Depends(nodes, Value(generator_identity()))
    if BOARD:
        env.Depends(nodes, board_dependency(env, BOARD))
    network = Network([nodes[0], nodes[2]])
    network.headers = NodeList([nodes[1], nodes[3]])
    network.report = nodes[4]
    return network


def tvm_runtime(env, folder):
    """The ``TvmRuntime`` method."""
    root = str(resource_dir("runtime"))
    files = {}
    for part in ("include", "src", "port", "app"):
        for name in sorted(os.listdir(os.path.join(root, part))):
            if name.endswith((".c", ".h")):
                target = os.path.join(str(folder), part, name)
                files[f"{part}/{name}"] = env.InstallAs(target, os.path.join(root, part, name))[0]
    runtime = Runtime([files["src/ai_runtime.c"]])
    runtime.files = files
    return runtime


def generate(env):
    """Add the builders to an environment."""
    env.SetDefault(
        PYTHON=sys.executable,
        # Between $( and $): where Python and the generator lie is not part of a build's identity.
        TVMSTM32="$( $PYTHON " + os.path.join(PACKAGE, "__main__.py") + " $)",
        TVMSTM32FLAGS=[],
        TVMSTM32COM="$TVMSTM32 compile $SOURCE -o ${TARGET.dir} --name $TVMSTM32NAME --no-runtime "
        "$_TVMSTM32FLAGS $TVMSTM32FLAGS",
        TVMSTM32COMSTR="",
    )
    env.AddMethod(tvm_model, "TvmModel")
    env.AddMethod(lambda _env, path: network_name(os.path.basename(str(path)).split(".")[0]), "NetworkName")
    env.AddMethod(tvm_runtime, "TvmRuntime")


def exists(env):
    """The generator comes with this file."""
    return True
