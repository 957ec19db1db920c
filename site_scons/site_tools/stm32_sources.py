"""SCons tool ``stm32_sources``: model files as sources of programs, libraries and objects. ``stm32_model`` loads it.

    env = Environment(tools=["default", "stm32_model"])
    env.Program("app", ["main.c", "net.tflite"])

``Object``, ``Program``, ``Library`` and the shared ones take files with the suffixes of :data:`SUFFIXES`. A model's C
goes to a folder beside it (in its variant directory), ``net.tflite.net``, its objects as those of any C file. A program
or library with models gets the runtime once. The folders of headers are appended to the CPPPATH the call is made with:
that of the environment, or of the call when it has keywords. Nothing else of the environment changes.

Variables: TVMSTM32BOARD, TVMSTM32CPU, TVMSTM32LEVEL and so on, TVMSTM32 before each keyword of ``TvmModel``. Without
a board or CPU, the CPU is the ``-mcpu`` of the compiler's flags, cortex-m4 for an Arm compiler without one, and this
computer for any other. TVMSTM32DIR (a folder for the C of models), TVMSTM32RUNTIME (a folder for the runtime's; False:
the program brings it).
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable

from SCons.Builder import BuilderBase, ListEmitter
from SCons.Node import Node, NodeList
from SCons.Util import is_List, is_String
from stm32_model import name_of_network, tvm_model, tvm_runtime
from stm32_nodes import Network, Runtime, builder_method
from stm32_options import DEFAULTS

from tvm_stm32.errors import Error
from tvm_stm32.target import known_cpus

# Not .json and .tar, which mean many other things.
SUFFIXES = (".tflite", ".onnx", ".relay", ".pt2", ".relay.json", ".mlf.tar")
_NO_LIBC = ("-nostdlib", "-nodefaultlibs", "-nolibc")


class ModelSource(BuilderBase):
    """What makes C files of a model that is a source of a builder of objects."""

    def __init__(self) -> None:
        super().__init__(src_suffix=list(SUFFIXES))

    def _execute(self, env, target, source, overwarn=None, executor_kw=None) -> NodeList:  # noqa: ARG002 - SCons's
        if "TVMSTM32COM" not in env:
            # A clone loaded the tool, which shares its builders with the environment it is of.
            return NodeList(env.arg2nodes(source, env.fs.File))
        return NodeList([node for model in source for node in _source(env, model)])


@builder_method
def _source(env, model: str | Node) -> Network:
    """The network of a source of the environment's builders, its headers and those of the runtime in CPPPATH."""
    network = source_network(env, model)
    place = _runtime_place(env, network[0].sources[0].dir)
    _append_path(env, [network.include, *(_runtime(env, place, [network]).include if place is not None else [])])
    return network


def source_network(env, model: str | Node) -> Network:
    """The network of a model that is, or may become, a source of the environment's builders."""
    node = _model_file(env, model)
    wanted = env.get("TVMSTM32DIR")
    folder = env.Dir(wanted) if wanted else node.dir.Dir(f"{node.name}.net")
    network = network_of(env, node, folder)
    if not wanted:
        env.Clean(network, folder)
    for part in network:
        part.attributes.tvm_stm32_source = node
    return network


def _model_file(env, model: str | Node) -> Node:
    """The node of a model that is a source. Raises :class:`Error` for a folder."""
    try:
        return env.arg2nodes([model], env.fs.File)[0]
    except TypeError as error:
        raise Error(f"'{model}' is a folder, not a model file", hint="the file itself") from error


def network_of(env, model: str | Node, folder: Node, **keywords: object) -> Network:
    """The network of a model file; options that are no keyword are those of the environment's variables."""
    if "CCCOM" not in env:
        raise Error("the environment has no C compiler tool", hint='Environment(tools=["default", "stm32_model"])')
    node = _model_file(env, model)
    _check_variables(env)
    options = {key: env[f"TVMSTM32{key}"] for key in DEFAULTS if env.get(f"TVMSTM32{key}") not in (None, "")}
    if "BOARD" in keywords or "CPU" in keywords:
        options = {key: value for key, value in options.items() if key not in ("BOARD", "CPU")}
    options |= keywords
    if not options.get("BOARD") and not options.get("CPU"):
        options["CPU"] = _cpu_of_flags(env)
    stem = next(node.name.removesuffix(suffix) for suffix in reversed(SUFFIXES) if node.name.endswith(suffix))
    return tvm_model(env, folder.File(name_of_network(env, f"{stem}.model")), node, **options)


def _check_variables(env) -> None:
    """Stop at a variable that nearly is one of ours: in silence, it would be a network for another core."""
    for variable in env.Dictionary():
        key = variable.removeprefix("TVMSTM32")
        if key in (variable, *DEFAULTS) or key.endswith(("COM", "COMSTR")):
            continue
        for near in difflib.get_close_matches(key, DEFAULTS, 1, 0.75):
            raise Error(f"there is no variable {variable}", hint=f"TVMSTM32{near}")


def _cpu_of_flags(env) -> str | None:
    """The CPU the environment compiles for; None: the default of ``TvmModel``."""
    words = [str(word) for word in env.subst_list("$CC $CCFLAGS $CFLAGS")[0]]
    compiler = [os.path.basename(str(word)) for word in env.subst_list("$CC")[0]]
    targets = [word for word in words if word.startswith(("--target=", "-target"))]
    crosses = any("arm" in word and "linux" not in word for word in [*compiler, *targets])
    match = re.search(r"(?:^|\s)-(?:mcpu=|-cpu[= ])(\S+)", " ".join(words))
    cpu, *extensions = match[1].lower().split("+") if match else [""]
    if cpu in known_cpus() and not {"nodsp", "nomve"} & set(extensions):
        return cpu
    if match and (crosses or cpu in known_cpus()):
        raise Error(
            f"the compiler's flags say {match[0].strip()}, which is no CPU networks are generated for",
            hint=f"env['TVMSTM32CPU'] = one of {', '.join(known_cpus())}; or a board in env['TVMSTM32BOARD']",
        )
    return None if crosses else "host"


def _runtime_place(env, beside: Node) -> Node | None:
    """The folder of the runtime of a program whose first model is in the folder ``beside``; None: not from here."""
    wanted = env.get("TVMSTM32RUNTIME", "")
    if wanted is False:
        return None
    return env.Dir(wanted) if wanted else beside.Dir("tvm_stm32.runtime")


def _runtime(env, place: Node, networks: list[Network], **keywords: bool) -> Runtime:
    """The runtime networks need. Its port is of images this project starts."""
    interfaces = list(dict.fromkeys(network.c_api for network in networks))
    runtime = tvm_runtime(env, place, C_API=interfaces, parts=("include", "src"), **keywords)
    env.Clean(runtime, place)
    return runtime


def _append_path(env, folders: list[Node]) -> None:
    """Folders at the end of CPPPATH, which may be a string or a list; the value there was is left as it is."""
    path = env.get("CPPPATH", [])
    known = path.split(os.pathsep) if is_String(path) else list(path) if is_List(path) else [path]
    known = [part for part in known if part != ""]
    env["CPPPATH"] = [*known, *(folder for folder in folders if folder not in known)]


def with_networks(env, sources, folder: Node, **keywords: object):
    """Sources (lists of lists) with models replaced by their networks, whose C goes to ``folder``."""
    if isinstance(sources, (list, tuple)):
        return [with_networks(env, source, folder, **keywords) for source in sources]
    if isinstance(sources, Node) or is_String(sources):
        name = sources.name if isinstance(sources, Node) else env.subst(sources)
        return network_of(env, sources, folder, **keywords) if name.endswith(SUFFIXES) else sources
    return sources


def _once(nodes: list[Node]) -> list[Node]:
    """Nodes without repeated objects of networks and runtime: some projects also find what was generated before."""
    known: set[Node] = set()
    kept = []
    for node in nodes:
        ours = any(hasattr(source.attributes, "tvm_stm32_generated") for source in node.sources)
        if not ours or node not in known:
            kept.append(node)
        known.add(node)
    return kept


@builder_method
def _check_names(_env, networks: list[Network]) -> None:
    """Raise :class:`Error` for two networks with the same names in C, which the linker would refuse at length."""
    known: dict[str, Network] = {}
    for network in networks:
        other = known.setdefault(network.name, network)
        if other is not network:
            models = [str(each[0].sources[0]) for each in (other, network)]
            raise Error(
                f"'{models[0]}' and '{models[1]}' are both the network '{network.name}' of one program",
                why="their C has the same names",
                hint="another file name, or TvmModel with a target of another name",
            )


def _sources_of(nodes: list[Node]) -> list[Node]:
    """Nodes, and what the objects among them are made from."""
    return [*nodes, *(source for node in nodes for source in node.sources)]


class _RuntimeEmitter:
    """Adds the runtime's objects to the sources of a program or library with models, once."""

    def __init__(self, objects: str) -> None:
        self.objects = objects

    def __call__(self, target, source, env):
        objects = env.arg2nodes(env.Flatten([source]), env.fs.Entry)
        nodes = _sources_of(objects)
        parts = [node for node in nodes if hasattr(node.attributes, "tvm_stm32_source")]
        if not parts:
            return target, source
        _check_names(env, [part.attributes.tvm_stm32_network for part in parts])
        source = _once(objects)
        if any(hasattr(node.attributes, "tvm_stm32_runtime") for node in nodes):
            return target, source
        place = _runtime_place(env, parts[0].attributes.tvm_stm32_source.dir)
        if place is None:
            return target, source
        words = [str(word) for word in env.subst_list("$LINKFLAGS")[0]]
        networks = [part.attributes.tvm_stm32_network for part in parts]
        runtime = _runtime(env, place, networks, NOLIBC=any(word in words for word in _NO_LIBC))
        # SCons misses #include MACRO. Only the order: what SCons does see decides what is compiled again.
        headers = [network.headers[0] for network in networks] + [runtime.files["include/ai_runtime.h"]]
        env.Requires([node for node in source if node.is_derived()], headers)
        return target, [*source, *(self._object(env, node) for node in runtime)]

    def _object(self, env, node: Node) -> Node:
        """The object of a file of the runtime; that of another program, if it has been compiled the same way."""
        builder = env["BUILDERS"][self.objects]
        name = f"{builder.get_prefix(env, [node])}{os.path.splitext(node.name)[0]}{builder.get_suffix(env, [node])}"
        known = node.dir.File(name)
        if known.has_explicit_builder():
            contents = [builder.action.get_contents([known], [node], each) for each in (known.env, env)]
            if contents[0] == contents[1]:
                return known
        return builder(env, source=[node])[0]


def _hook(builder, objects: str) -> None:
    """Let a builder of programs or libraries add the runtime. Clones share builders: each is hooked once."""
    emitters = list(builder.emitter) if isinstance(builder.emitter, ListEmitter) else [builder.emitter]
    if not any(isinstance(emitter, _RuntimeEmitter) for emitter in emitters):
        builder.emitter = ListEmitter([*(emitter for emitter in emitters if emitter), _RuntimeEmitter(objects)])


def generate(env) -> None:
    """Make models sources of the environment's builders."""
    from SCons.Tool import createObjBuilders, createProgBuilder, createStaticLibBuilder

    for builder in createObjBuilders(env):
        if not any(isinstance(known, ModelSource) for known in builder.src_builder):
            builder.add_src_builder(ModelSource())
    create: dict[str, Callable[[object], object]] = {
        "Program": createProgBuilder,
        "StaticLibrary": createStaticLibBuilder,
    }
    for name, make in create.items():
        make(env)
        _hook(env["BUILDERS"][name], "StaticObject")
    # Their tools give them suffixes, and come before this one where there are any.
    for name in ("SharedLibrary", "LoadableModule"):
        if name in env["BUILDERS"]:
            _hook(env["BUILDERS"][name], "SharedObject")


def exists(_env) -> bool:
    """The generator comes with this file."""
    return True
