"""SCons tool ``stm32_model``: a neural-network file is a source like any other.

    env = Environment(tools=["default", "stm32_model"])
    network = env.TvmModel("build/net/kws", "models/kws.tflite", CPU="cortex-m4")
    runtime = env.TvmRuntime("build/runtime")
    env.Append(CPPPATH=[network.include, *runtime.include])
    env.Program("firmware.elf", ["main.c", network, runtime])

``TvmModel(target, source, ...)`` makes ``target.c``, ``.h``, ``_data.c``, ``_data.h``, ``_report.json``,
``_report.txt``, and for builds without this tool ``.cmake`` and ``.mk``; the network's C name is the target's file
name. It returns the C files; ``headers``, ``include`` (their folder) and ``report`` of the result are the other nodes.
Keywords: ``BOARD`` (name or board file) or ``CPU``, ``LEVEL`` (time, balanced, ram, size), ``KERNELS`` (asm, or c for
compilers other than GCC and Clang), ``FORMS`` (a dictionary: operators of the report and the form of kernel each shall
have), ``MAX_RAM`` (bytes the arena may have, or "32K"), ``PARAMS`` (weights of a Relay model), ``WEIGHTS`` (array,
incbin, external; the last two make ``target_weights.bin`` too: ``weights`` of the result), ``EXTERNAL_IO`` (names of
inputs and outputs the application places), ``ALIGNMENT`` (8, 16, 32), ``POOLS`` (a file of memory pools, or board),
``PINS`` (a dictionary: tensors and the pool of each) and ``C_API`` (ai; x-cube-ai, st-ai: ST's interface under the
target's name before the network ``target_tvm.c``). Files in which an ONNX model keeps its weights are dependencies,
found at each build.

``TvmRuntime(folder)`` copies the ai_* runtime into a folder of the build, with ``C_API`` (one or a list) what ST's
interfaces need as well, and returns the C files; ``files`` of the
result maps every file of the runtime (``port/port_startup.c``) to its node, ``include`` lists the header folders.
``NOLIBC=True`` adds the file with ``memcpy`` and its kin, for programs linked with ``-nostdlib``.

Environments may ask for the same network or runtime again, and get the one there is. ``stm32_sources``, which this tool
loads, makes model files sources of ``Program`` and the other builders; ``stm32_commands`` adds ``ModelReport`` and
``FlashFirmware``.

``ArenaGroup(target, networks)`` makes ``target.c``: one arena under the target's name for networks that do not run at
once. It is linked like any source.

``NetworkName(path)`` is the C name of a model file.

Variables: PYTHON and TVMSTM32 (how the generator is called), TVMSTM32COM and TVMSTM32COMSTR (the command and what is
printed for it), TVMSTM32ARENACOM and TVMSTM32ARENACOMSTR (those of an arena), TVMSTM32FLAGS (more flags). Other
keywords of a call override variables, as with every builder.

What a build depends on goes into ``Value`` nodes (digests as canonical JSON); places of files stay out of signatures,
so checkouts in different folders share a CacheDir.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import sys
from collections.abc import Callable

from SCons.Node import Node, NodeList
from SCons.Node.FS import find_file
from SCons.Script import Action, Scanner
from stm32_nodes import (
    HERE,
    PACKAGE,
    Network,
    Runtime,
    SharedArena,
    builder_method,
    content,
    generator,
    identity,
    networks_in,
    place,
)
from stm32_options import Options, check_c_api, command_options, split

from tvm_stm32.c_api import core_name, interface_files, runtime_files, snippet_files
from tvm_stm32.cnames import check_arena_name, network_name
from tvm_stm32.errors import Error
from tvm_stm32.files import check_model_file
from tvm_stm32.frontends.onnx_locations import external_locations
from tvm_stm32.resident import FOLDER_VARIABLE as RESIDENT_DIR
from tvm_stm32.resident import VARIABLE as RESIDENT
from tvm_stm32.resources import resource_dir

SUFFIXES = (".c", ".h", "_data.c", "_data.h", "_report.json", "_report.txt")
WEIGHTS_SUFFIX = "_weights.bin"
RUNTIME_PARTS = ("include", "src", "port", "port/families", "app")


def external_data(node: Node, _env, _path) -> list[Node]:
    """Files beside an ONNX model that hold its tensors. Of an absent one the compile says which tensor misses it."""
    if not str(node).endswith(".onnx") or not node.rexists():
        return []
    places = external_locations(pathlib.Path(node.rfile().get_abspath()))
    return [found for place in places if (found := find_file(place, (node.dir,))) is not None]


class _CleanSpawn:
    """Runs a command as SPAWN does, and removes the targets when it fails.

    SCons keeps what it knew of a target when a build of it fails: files of a killed generator would be taken for good
    as soon as the sources are what they were before.
    """

    def __init__(self, spawn: Callable[..., int]) -> None:
        self.spawn = spawn
        self.targets: list[Node] = []

    def __call__(self, shell, escape, command, arguments, variables) -> int:
        status = self.spawn(shell, escape, command, arguments, variables)
        if status:
            for target in self.targets:
                with contextlib.suppress(OSError):
                    os.remove(target.get_abspath())
        return status


@builder_method
def tvm_model(env, target, source, **keywords) -> Network:
    """The ``TvmModel`` method; keywords are those of ``stm32_options.DEFAULTS``, others override variables."""
    folder, name = place(env, env.Flatten([target])[0])
    if network_name(name) != name:
        raise Error(f"TvmModel: '{name}' is no C name for a network", hint=f"'{network_name(name)}'")
    given, overrides = split(env, name, keywords)
    sources = env.arg2nodes([part for part in env.Flatten([source]) if part is not None], env.fs.Entry)
    if len(sources) != 1:
        raise Error(f"TvmModel: {len(sources)} model files for '{name}'", hint="one; weights of Relay go into PARAMS")
    # SCons reads it for its sum, of a pipe for ever.
    check_model_file(pathlib.Path(sources[0].get_abspath()))
    options = command_options(env, name, given)
    sources += options.params
    asked = {
        "source": [str(node) for node in sources],
        "flags": [str(flag) for flag in options.flags if flag not in ("$(", "$)")],
        "TVMSTM32FLAGS": env.Override(overrides).subst("$TVMSTM32FLAGS"),
        "overrides": sorted(map(str, overrides.items())),
    }  # fmt: skip
    known = getattr(folder.File(f"{core_name(name, given['C_API'])}.c").attributes, "tvm_stm32_network", None)
    if known is not None:
        return _asked_again(known, asked)
    network = _network(env, folder, name, sources, given, options, overrides)
    network.asked, network.overrides = asked, overrides
    env.Depends(network.outputs, [identity(model=sources[0].name, **generator(env)), *options.dependencies])
    return network


def _network(env, folder: Node, name: str, sources, given, options: Options, overrides) -> Network:
    """The nodes of a network, made by the generator's command."""
    core, c_api = core_name(name, given["C_API"]), given["C_API"]
    suffixes = SUFFIXES if given["WEIGHTS"] == "array" else (*SUFFIXES, WEIGHTS_SUFFIX)
    files = [*(core + suffix for suffix in suffixes), *interface_files(name, c_api), *snippet_files(name)]
    arena = SharedArena()
    spawn = _CleanSpawn(overrides.get("SPAWN", env["SPAWN"]))
    variables = {
        "_TVMSTM32FLAGS": [*options.flags, arena],
        "TVMSTM32NAME": name,
        # The first word left in the signature is no program.
        "IMPLICIT_COMMAND_DEPENDENCIES": 0,
        **overrides,
        "SPAWN": spawn,
    }
    nodes = env.Command(
        [folder.File(file) for file in files],
        sources,
        Action("$TVMSTM32COM", "$TVMSTM32COMSTR"),
        source_scanner=Scanner(external_data, name="onnx external data"),
        **variables,
    )
    spawn.targets += nodes
    extra = nodes[len(suffixes) :]
    network = Network([nodes[0], nodes[2], *(node for node in extra if node.name.endswith(".c"))])
    network.outputs = nodes
    network.headers = NodeList([*(node for node in extra if node.name.endswith(".h")), nodes[1], nodes[3]])
    network.report, network.report_text = nodes[4], nodes[5]
    network.weights = None if given["WEIGHTS"] == "array" else nodes[len(SUFFIXES)]
    network.name, network.c_api, network.include, network.arena = name, c_api, folder, arena
    network.flags = options.flags
    for node in network:
        node.attributes.tvm_stm32_network, node.attributes.tvm_stm32_generated = network, True
    return network


def _asked_again(network: Network, asked: dict[str, object]) -> Network:
    """The network another environment has asked for, when it is the same."""
    if network.asked == asked:
        return network
    other = next(key for key, value in asked.items() if value != network.asked[key])
    texts = [
        " ".join(map(str, facts[other])) if isinstance(facts[other], list) else facts[other]
        for facts in (network.asked, asked)
    ]
    raise Error(
        f"TvmModel: {network[0]} is asked for twice, with {other} '{texts[0]}' and '{texts[1]}'",
        hint="another target (or variant_dir, or TVMSTM32DIR) for each",
    )


@builder_method
def tvm_runtime(env, folder: str | Node, C_API=(), NOLIBC=False, parts=RUNTIME_PARTS) -> Runtime:
    """The ``TvmRuntime`` method, of all ``parts`` of the runtime. A folder may be asked for more than once."""
    root = str(resource_dir("runtime"))
    folder = folder if isinstance(folder, Node) else env.Dir(folder)
    files = {}
    for part in parts:
        for name in sorted(os.listdir(os.path.join(root, part))):
            if name.endswith((".c", ".h", ".hpp")):
                node = folder.Dir(part).File(name)
                if not node.has_explicit_builder():
                    env.InstallAs(node, os.path.join(root, part, name))
                files[f"{part}/{name}"] = node
    interface = {}
    for c_api in env.Flatten([C_API]):
        check_c_api("TvmRuntime", c_api)
        for path in runtime_files(c_api):
            interface[path] = folder.File(path)
            if not interface[path].has_explicit_builder():
                env.InstallAs(interface[path], os.path.join(root, path))
    files |= interface
    runtime = Runtime([files["src/ai_runtime.c"], *(node for path, node in interface.items() if path.endswith(".c"))])
    if NOLIBC:
        runtime.append(files["src/ai_nolibc.c"])
    files["src/ai_runtime.c"].attributes.tvm_stm32_runtime = True
    for node in (*runtime, files["src/ai_nolibc.c"]):
        node.attributes.tvm_stm32_generated = True
    runtime.files = files
    runtime.include = [folder.Dir(part) for part in ("include", "port") if part in parts]
    runtime.include += [folder.Dir("st")] if interface else []
    return runtime


@builder_method
def arena_group(env, target, networks, **overrides) -> NodeList:
    """The ``ArenaGroup`` method. Networks may be given in lists of lists; each belongs to one group at most."""
    folder, name = place(env, env.Flatten([target])[0])
    check_arena_name(name, "ArenaGroup")
    members = list(networks_in(networks))
    if not members:
        raise Error(f"ArenaGroup: there is no network for '{name}'", hint="give what TvmModel returned")
    for network in members:
        if network.c_api != "ai":
            raise Error(
                f"ArenaGroup: '{network.name}' has the C_API {network.c_api}",
                why="its application brings the activations",
                hint="give both networks the same activations there",
            )
        if network.arena.name not in ("", name):
            raise Error(f"ArenaGroup: '{network.name}' is in the group '{network.arena.name}' already")
        network.arena.name = name
    node = env.Command(
        folder.File(f"{name}.c"),
        [],
        Action("$TVMSTM32ARENACOM", "$TVMSTM32ARENACOMSTR"),
        TVMSTM32NAME=name,
        _TVMSTM32NETWORKS=list(dict.fromkeys(network.name for network in members)),
        IMPLICIT_COMMAND_DEPENDENCIES=0,
        **overrides,
    )
    env.Depends(node, identity(arena=content("emit/arena.py", "cnames.py")))
    return node


@builder_method
def name_of_network(_env, path: str | Node) -> str:
    """The ``NetworkName`` method."""
    return network_name(os.path.splitext(os.path.basename(str(path)))[0])


def _resident_option() -> list[str]:
    """How commands ask the process that stays: ENV has no variables of the user's, so settings go into the option."""
    seconds, folder = os.environ.get(RESIDENT, ""), os.environ.get(RESIDENT_DIR, "")
    if seconds == "0":
        return []
    settings = f"{seconds}:{folder}".removesuffix(":")
    return [f"--resident={settings}" if settings else "--resident"]


def generate(env) -> None:
    """Add the builders to an environment."""
    env.SetDefault(
        # A list keeps a path with blanks one word.
        PYTHON=[sys.executable],
        # Between $( and $): where Python and the generator lie is not part of a build's identity.
        TVMSTM32=["$(", "$PYTHON", os.path.join(PACKAGE, "__main__.py"), *_resident_option(), "$)"],
        TVMSTM32FLAGS=[],
        # Places are left out as well: the files are dependencies, and the model's name is one of the facts.
        TVMSTM32COM="$TVMSTM32 compile $( $SOURCE -o ${TARGET.dir} $) --name $TVMSTM32NAME --no-runtime "
        "$_TVMSTM32FLAGS $TVMSTM32FLAGS",
        TVMSTM32COMSTR="",
        TVMSTM32ARENACOM="$TVMSTM32 arena $TVMSTM32NAME $_TVMSTM32NETWORKS $( -o $TARGET $)",
        TVMSTM32ARENACOMSTR="",
    )
    env.AddMethod(arena_group, "ArenaGroup")
    env.AddMethod(tvm_model, "TvmModel")
    env.AddMethod(tvm_runtime, "TvmRuntime")
    env.AddMethod(name_of_network, "NetworkName")
    for tool in ("stm32_sources", "stm32_commands"):
        env.Tool(tool, toolpath=[HERE])


def exists(_env) -> bool:
    """The generator comes with this file."""
    return True
