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
import difflib
import functools
import glob
import hashlib
import json
import os
import pathlib
import sys
from collections.abc import Callable, Mapping
from typing import ClassVar

from SCons.Errors import StopError
from SCons.Node import Node, NodeList
from SCons.Node.FS import find_file
from SCons.Node.Python import ValueWithMemo
from SCons.Script import Action, Scanner
from SCons.Subst import Literal

HERE = os.path.dirname(os.path.abspath(__file__))


def _package_dir() -> str:
    """The folder of the Python package: above this file in a checkout, around it in a wheel."""
    for relative in (("..", "..", "tvm_stm32"), ("..", "..", "..")):
        folder = os.path.normpath(os.path.join(HERE, *relative))
        if os.path.isfile(os.path.join(folder, "cnames.py")):
            return folder
    raise StopError(f"the tvm_stm32 package is not around {HERE}: use the tools where they are, with toolpath=[...].")


PACKAGE = _package_dir()
# SCons takes this away again when the tool is loaded; by then the package is known by its folder.
sys.path.insert(0, os.path.dirname(PACKAGE))

from tvm_stm32.c_api import C_APIS, core_name, interface_files, runtime_files, snippet_files
from tvm_stm32.cnames import check_arena_name, network_name
from tvm_stm32.errors import Error
from tvm_stm32.frontends.onnx_locations import external_locations
from tvm_stm32.generator import generator_files, package_records
from tvm_stm32.resident import VARIABLE as RESIDENT
from tvm_stm32.resources import resource_dir
from tvm_stm32.sizes import is_size
from tvm_stm32.target import Target

SUFFIXES = (".c", ".h", "_data.c", "_data.h", "_report.json", "_report.txt")
WEIGHTS_SUFFIX = "_weights.bin"
RUNTIME_PARTS = ("include", "src", "port", "port/families", "app")
KEYWORDS = (
    "BOARD",
    "CPU",
    "LEVEL",
    "KERNELS",
    "FORMS",
    "MAX_RAM",
    "PARAMS",
    "WEIGHTS",
    "EXTERNAL_IO",
    "ALIGNMENT",
    "POOLS",
    "PINS",
    "C_API",
)


class Network(NodeList):
    """The C files of a network; ``headers``, ``include`` and ``report`` are its other nodes."""

    headers = ()
    include = None
    report = None
    report_text = None
    flags: ClassVar[list[object]] = []
    overrides: ClassVar[dict[str, object]] = {}
    c_api = "ai"
    name = ""
    arena: SharedArena
    asked: ClassVar[dict[str, object]] = {}


class SharedArena:
    """Flags of a network's compile that are known when it may have joined a group, after its builder was called."""

    def __init__(self) -> None:
        self.name = ""

    def __call__(self, target, source, env, for_signature) -> str:  # noqa: ARG002 - names SCons calls it by
        return f"--shared-arena={self.name}" if self.name else ""


class Runtime(NodeList):
    """The C file of the ai_* runtime; ``files`` maps the runtime's files to their nodes in the build."""

    files: ClassVar[dict[str, Node]] = {}
    include = ()


def builder_method(function: Callable) -> Callable:
    """A method of an environment whose user errors stop SCons with one message and the user's line."""

    @functools.wraps(function)
    def method(env, *arguments, **keywords):
        try:
            return function(env, *arguments, **keywords)
        except Error as error:
            raise StopError(f"{error}\n  in: {_user_line()}\n") from error

    return method


def _user_line() -> str:
    """``file, line N`` of the SConscript that called one of the tools."""
    frame = sys._getframe()
    while frame is not None:
        path = frame.f_code.co_filename
        if os.path.dirname(path) != HERE and f"{os.sep}SCons{os.sep}" not in path:
            return f"{os.path.relpath(path, _top())}, line {frame.f_lineno}"
        frame = frame.f_back
    return "the command line"


def _top() -> str:
    from SCons.Node.FS import get_default_fs

    return get_default_fs().Top.get_abspath()


def identity(**facts: object) -> Node:
    """A node of what a build depends on beside its files: canonical JSON, the same on every machine."""
    # Not the function of SConscripts, which makes the default environment: that looks for compilers.
    return ValueWithMemo(json.dumps(facts, sort_keys=True, separators=(",", ":")))


@functools.cache
def content(*names: str) -> str:
    """Digest of files of the package, by their path in it."""
    digest = hashlib.sha256()
    for name in names:
        digest.update(name.encode() + b"\0")
        with open(os.path.join(PACKAGE, name), "rb") as stream:
            digest.update(hashlib.sha256(stream.read()).digest())
    return digest.hexdigest()


@functools.cache
def _package_versions(python: str) -> dict[str, str]:
    """Versions of the packages the generator works with."""
    if python == sys.executable:
        folders = sys.path
    else:
        prefix = glob.escape(os.path.dirname(os.path.dirname(os.path.abspath(python))))
        folders = glob.glob(f"{prefix}/lib*/python3*/site-packages") + glob.glob(f"{prefix}/Lib/site-packages")
    return {package: version for package, (version, _) in package_records(folders).items()}


def generator(env) -> dict[str, object]:
    """Version and content of the generator as facts for :func:`identity`: an edit of it regenerates."""
    python = env.subst("$PYTHON")
    if not os.path.dirname(python):
        python = env.WhereIs(python) or python
    return {"generator": _generator_content(), "packages": _package_versions(python)}


@functools.cache
def _generator_content() -> str:
    return content(*generator_files())


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


class BoardUse:
    """A board as the tools use it: ``name``, ``argument`` of command lines, ``node`` builds depend on."""

    flags: list[str] | None = None
    """Compiler flags, where they are known without the file at ``path``."""

    @classmethod
    def of(cls, env, board: object) -> BoardUse:
        """A board given by its name, as a file, or as what ``CmsisDevice`` returned."""
        use = getattr(board, "use", None)
        return use if isinstance(use, BoardUse) else cls(env, board)

    def __init__(self, env, board: str | Node) -> None:
        text = str(board)
        if isinstance(board, Node) or "/" in text or os.sep in text or text.endswith((".yaml", ".yml")):
            self.node = env.File(board)
            self.argument = self.node
            self.path = self.node.srcnode().get_abspath()
            self.name = os.path.splitext(self.node.name)[0]
            return
        self.name = self.argument = text
        self.path = str(resource_dir("boards") / f"{text}.yaml")
        if text == "host":
            self.node = identity(board=text)
            return
        if not os.path.isfile(self.path):
            from tvm_stm32.boards import load_board

            load_board(text)
        with open(self.path, "rb") as stream:
            self.node = identity(board=text, sha256=hashlib.sha256(stream.read()).hexdigest())


def place(env, target: str | Node) -> tuple[Node, str]:
    """Folder node and file name of a target given as a string (``#`` and variables allowed) or a node."""
    if isinstance(target, Node):
        return target.dir, target.name
    folder, name = os.path.split(env.subst(str(target)))
    return env.Dir(folder or "."), name


@builder_method
def tvm_model(
    env, target, source, BOARD=None, CPU=None, LEVEL="time", KERNELS="asm", FORMS=(), MAX_RAM=None, PARAMS=None,
    WEIGHTS="array", EXTERNAL_IO=(), ALIGNMENT=8, POOLS=None, PINS=(), C_API="ai", **overrides,
) -> Network:  # fmt: skip
    """The ``TvmModel`` method."""
    folder, name = place(env, env.Flatten([target])[0])
    if network_name(name) != name:
        raise Error(f"TvmModel: '{name}' is no C name for a network", hint=f"'{network_name(name)}'")
    if BOARD and CPU:
        raise Error(f"TvmModel: BOARD and CPU are given both for '{name}'", why="a board says which CPU it has")
    _check_c_api("TvmModel", C_API)
    for unknown in set(overrides) - set(env.Dictionary()):
        # Any other keyword overrides a variable; one that nearly is ours would build for the wrong core in silence.
        for near in difflib.get_close_matches(unknown, KEYWORDS, 1, 0.75):
            raise Error(f"TvmModel: there is no keyword {unknown} for '{name}'", hint=near)
    sources = env.arg2nodes(env.Flatten([source]), env.fs.Entry)
    if len(sources) != 1:
        raise Error(f"TvmModel: {len(sources)} model files for '{name}'", hint="one; weights of Relay go into PARAMS")
    dependencies = [identity(model=sources[0].name, **generator(env))]
    _check_choice("LEVEL", LEVEL, ("time", "balanced", "ram", "size"))
    _check_choice("KERNELS", KERNELS, ("asm", "c"))
    _check_choice("WEIGHTS", WEIGHTS, ("array", "incbin", "external"))
    _check_choice("ALIGNMENT", str(ALIGNMENT), ("8", "16", "32"))
    flags = ["-O", LEVEL]
    flags += [] if KERNELS == "asm" else ["--kernels", KERNELS]
    flags += [word for text in _pairs("FORMS", FORMS, "operators and forms") for word in ("--set", Literal(text))]
    if MAX_RAM is not None and not is_size(str(MAX_RAM)):
        raise Error(f"TvmModel: MAX_RAM is {MAX_RAM!r}", hint="a number of bytes, 1 or more, or '32K', '1M'")
    flags += ["--max-ram", str(MAX_RAM)] if MAX_RAM else []
    if BOARD:
        board = BoardUse.of(env, BOARD)
        dependencies.append(board.node)
        flags += ["$(", "--board", board.argument, "$)"]
    elif CPU:
        flags += ["--cpu", Target.for_cpu(CPU).cpu]
    if PARAMS:
        sources += env.arg2nodes(env.Flatten([PARAMS]), env.fs.File)
        flags += ["$(", "--params", "${SOURCES[1]}", "$)"]
    flags += [] if WEIGHTS == "array" else ["--weights", WEIGHTS]
    flags += [word for name in env.Flatten([EXTERNAL_IO]) for word in ("--external-io", Literal(str(name)))]
    flags += [] if int(ALIGNMENT) == 8 else ["--alignment", str(ALIGNMENT)]
    if POOLS and str(POOLS) != "board":
        pools = env.arg2nodes([POOLS], env.fs.File)[0]
        dependencies.append(pools)
        flags += ["$(", "--pools", pools, "$)"]
    elif POOLS:
        flags += ["--pools", "board"]
    flags += [word for text in _pairs("PINS", PINS, "tensors and pools") for word in ("--pin", Literal(text))]
    flags += [] if C_API == "ai" else ["--c-api", C_API]
    arena = SharedArena()
    flags.append(arena)
    core, interface = core_name(name, C_API), interface_files(name, C_API)
    asked = {
        "source": [str(node) for node in sources],
        "flags": [str(flag) for flag in flags if flag is not arena and flag not in ("$(", "$)")],
        "TVMSTM32FLAGS": env.Override(overrides).subst("$TVMSTM32FLAGS"),
        "overrides": sorted(map(str, overrides.items())),
    }  # fmt: skip
    known = getattr(folder.File(f"{core}.c").attributes, "tvm_stm32_network", None)
    if known is not None:
        return _asked_again(known, asked)
    suffixes = SUFFIXES if WEIGHTS == "array" else (*SUFFIXES, WEIGHTS_SUFFIX)
    spawn = _CleanSpawn(overrides.pop("SPAWN", env["SPAWN"]))
    variables = {
        "SPAWN": spawn,
        "_TVMSTM32FLAGS": flags,
        "TVMSTM32NAME": name,
        # The first word left in the signature is no program.
        "IMPLICIT_COMMAND_DEPENDENCIES": 0,
        **overrides,
    }
    nodes = env.Command(
        [folder.File(file) for file in (*(core + suffix for suffix in suffixes), *interface, *snippet_files(name))],
        sources,
        Action("$TVMSTM32COM", "$TVMSTM32COMSTR"),
        source_scanner=Scanner(external_data, name="onnx external data"),
        **variables,
    )
    spawn.targets += nodes
    env.Depends(nodes, dependencies)
    extra = nodes[len(suffixes) :]
    network = Network([nodes[0], nodes[2], *(node for node in extra if node.name.endswith(".c"))])
    network.headers = NodeList([*(node for node in extra if node.name.endswith(".h")), nodes[1], nodes[3]])
    network.c_api = C_API
    network.name = name
    network.arena = arena
    network.include = folder
    network.report, network.report_text = nodes[4], nodes[5]
    network.weights = None if WEIGHTS == "array" else nodes[len(SUFFIXES)]
    network.asked, network.flags, network.overrides = asked, flags, overrides
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


def _check_choice(keyword: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise Error(f"TvmModel: {keyword} is {value!r}", hint=f"one of {', '.join(known)}")


def _pairs(keyword: str, given: Mapping[str, str], what: str) -> list[str]:
    """``NAME=VALUE`` of a dictionary."""
    pairs = given.items() if isinstance(given, Mapping) else [] if given == () else [(None, None)]
    if not all(isinstance(word, str) and word for pair in pairs for word in pair):
        raise Error(f"TvmModel: {keyword} is no dictionary of {what}", hint=f'{keyword}={{"NAME": "VALUE"}}')
    return [f"{name}={value}" for name, value in sorted(pairs)]


def _check_c_api(builder: str, c_api: str) -> None:
    if c_api not in C_APIS:
        raise Error(f"{builder}: there is no C_API '{c_api}'", hint=f"one of {', '.join(C_APIS)}")


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
        _check_c_api("TvmRuntime", c_api)
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
    members = list(_networks(networks))
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


def _networks(sources) -> list[Network]:
    """The networks among what may be lists of lists."""
    if isinstance(sources, Network):
        return [sources]
    return [network for item in sources for network in _networks(item)] if isinstance(sources, (list, tuple)) else []


@builder_method
def name_of_network(_env, path: str | Node) -> str:
    """The ``NetworkName`` method."""
    return network_name(os.path.splitext(os.path.basename(str(path)))[0])


def _resident(env) -> str:
    """The option, with what the variable of the shell says: ENV has it only where the project hands it on."""
    seconds = os.environ.get(RESIDENT)
    return "--resident" if seconds is None or RESIDENT in env["ENV"] else f"--resident={seconds}"


def generate(env) -> None:
    """Add the builders to an environment."""
    env.SetDefault(
        # A list keeps a path with blanks one word.
        PYTHON=[sys.executable],
        # Between $( and $): where Python and the generator lie is not part of a build's identity.
        TVMSTM32=["$(", "$PYTHON", os.path.join(PACKAGE, "__main__.py"), _resident(env), "$)"],
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
