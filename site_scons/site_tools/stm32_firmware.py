"""SCons tool ``stm32_firmware``: link an image for a board, and run it.

    env = Environment(tools=["default", "stm32_model", "stm32_firmware"])
    network = env.TvmModel("build/net/kws", "models/kws.tflite", BOARD="stm32f405")
    image = env.Firmware("build/app.elf", ["main.c", network], BOARD="stm32f405")

``Firmware(target, sources, BOARD=...)`` compiles the sources (and the runtime with its start-up code) for the board,
makes a linker script from its memories, links, checks the result and only then gives it its name. Objects go to
``<target>.obj``, those of the runtime to its folder, once for all images with the same flags; the map is beside the
image. Keywords: ``RUNTIME`` (of ``TvmRuntime``; ``tvm_runtime`` beside the image otherwise), ``LINKER_SCRIPT`` and
``STARTUP`` (of your own). ``map`` and ``linker_script`` of the result are nodes.
``BOARD`` may be a device of a CMSIS pack (``CmsisDevice`` of the tool ``stm32_packs``).

Images are for the board's emulator. ``HARDWARE=True`` makes one for the board itself: its addresses, clocks and caches
set up, and the console on its UART where that is known. ``CONSOLE`` is ``"semihosting"``, or ``"uart"``, which implies
``HARDWARE``.

``HostProgram(target, sources)`` is the same for this computer. ``RunFirmware(name, image, BOARD=..., REPORT=...)`` adds
an alias that runs the image on the board's emulator; ``REFERENCE`` (a host program), ``INPUTS`` (.npz), ``FLAGS``.

The environment is cloned, never changed; its CC (an Arm compiler: kept; a compiler for this computer: replaced for
images), CCFLAGS, CFLAGS, CPPDEFINES, CPPPATH, LINKFLAGS, LIBS, ENV and print strings are honoured. Variables:
FIRMWARE_OPTIMIZE (before CCFLAGS, default -O2); COMPILER_LAUNCHER (ccache and the like, see ``stm32_launcher``);
TVMSTM32LDCOM, TVMSTM32CONFIGCOM, TVMSTM32CHECKCOM, TVMSTM32RUNCOM and the same with STR.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path

from SCons.Errors import BuildError
from SCons.Node import Node, NodeList
from SCons.Script import Action
from SCons.Subst import SUBST_SIG
from SCons.Util import CLVar, is_String
from stm32_launcher import place_flags, use_launcher
from stm32_model import BoardUse, Network, Runtime, builder_method, content, identity, place
from stm32_sources import with_networks

from tvm_stm32.boards import load_board
from tvm_stm32.chips import chip_of, family_of
from tvm_stm32.errors import Error, ToolchainError
from tvm_stm32.project.board_config import board_port_files
from tvm_stm32.resources import resource_dir
from tvm_stm32.target import Target
from tvm_stm32.toolchain import GCC_VARIABLE, find_gcc, find_host_cc

_HOST_PORT = ("port/port_common.c", "port/port_host.c")
_ASSEMBLY = (".s", ".S", ".sx", ".asm")
_CPLUSPLUS = (".cc", ".cpp", ".cxx", ".c++", ".C")
_SECTIONS = ["-ffunction-sections", "-fdata-sections"]
COMPILED = (".c", *_CPLUSPLUS, *_ASSEMBLY)
# Code that decides what a linker script and a checked image are.
_LINKER_CODE = ("project/linker.py", "boards.py", "machines.py", "target.py")
_CHECK_CODE = ("project/image.py", "boards.py", "machines.py")
_CONFIG_CODE = ("project/board_config.py", "boards.py", "chips.py")


class Image(NodeList):
    """An image; ``map`` and ``linker_script`` are nodes of its by-products, ``networks`` and ``device`` are in it."""

    map = None
    linker_script = None
    networks = ()
    device = None


def _derive(env, overrides: dict[str, object]):
    """A clone whose flags are lists of words, with an ENV of its own."""
    derived = env.Clone(**overrides)
    if "CCCOM" not in derived or "LINKCOM" not in derived:
        raise Error(
            "the environment has no C compiler and linker tools", hint='Environment(tools=["gcc", "gnulink", ...])'
        )
    # A string would become one word of a list when something is appended to it.
    for name in ("CCFLAGS", "CFLAGS", "LINKFLAGS", "ASFLAGS"):
        derived[name] = CLVar(derived.get(name, ""))
    for name, separator in (("CPPPATH", os.pathsep), ("LIBS", None)):
        value = derived.get(name, [])
        derived[name] = value.split(separator) if is_String(value) else env.Flatten([value])
    use_launcher(derived)
    derived.Replace(PROGPREFIX="", PROGSUFFIX="", OBJPREFIX="", OBJSUFFIX=".o")
    return derived


def _use_compiler(env, kept: Callable[[list[str]], object], find: Callable[[], Path]) -> None:
    """Make the environment compile with its own CC when ``kept(words)``, else with what ``find()`` finds.

    The compiler is named without its folder, which goes to ENV's PATH. A missing one is an error of the first compile,
    not of reading SConscripts: cleaning, help and other targets do without.
    """
    words = [str(word) for word in env.subst_list("$CC")[0]]
    if not words or not kept(words):
        try:
            path = find()
        except ToolchainError as error:
            env["CCCOM"] = env["CXXCOM"] = env["LINKCOM"] = _failure(str(error))
            return
        # Without a PATH WhereIs looks into that of SCons, which the compiler is not started with.
        if "PATH" not in env["ENV"] or env.WhereIs(path.name) != str(path):
            env.PrependENVPath("PATH", str(path.parent))
        env.Replace(CC=path.name, CXX=path.name.replace("gcc", "g++"))
    env.Replace(LINK="$CC", AS="$CC")


def _failure(message: str):
    def fail(target, source, env):  # noqa: ARG001
        raise BuildError(node=target, errstr=message, status=1, exitstatus=2)

    return Action(fail, cmdstr=None)


def _find_cross_compiler(env) -> Path:
    in_path = None if os.environ.get(GCC_VARIABLE) else env.WhereIs("arm-none-eabi-gcc")
    return Path(in_path) if in_path else find_gcc()


def _add_machine(env, machine: list[str], sections: list[str]) -> None:
    """Ours before the user's, so that those win; the machine's last, since nothing else fits the board."""
    env["CCFLAGS"] = CLVar(["$FIRMWARE_OPTIMIZE", "-g", *place_flags(env), *sections, *env["CCFLAGS"], *machine])
    env["ASFLAGS"] = CLVar([*env["ASFLAGS"], *machine, "-c"])
    env["LINKFLAGS"] = CLVar([*env["LINKFLAGS"], *machine])


def device_environment(env, machine: list[str]):
    """A clone of an environment that compiles for a machine with these flags, as ``Firmware`` does."""
    derived = _derive(env, {})
    _use_compiler(derived, lambda words: "arm" in " ".join(words), lambda: _find_cross_compiler(derived))
    _add_machine(derived, machine, _SECTIONS)
    return derived


def _add_flags(env, sources, runtime: Runtime, machine: list[str], sections: list[str]) -> None:
    _add_machine(env, machine, sections)
    env.Append(CPPDEFINES=["AI_USE_SECTIONS"])
    env["CPPPATH"] = [*env["CPPPATH"], *(network.include for network in _networks(sources)), *runtime.include]
    env["LIBS"] = [*env["LIBS"], "m"]


def _networks(sources) -> Iterator[Network]:
    """The networks among sources, which may be lists of lists."""
    if isinstance(sources, Network):
        yield sources
    elif isinstance(sources, (list, tuple)):
        for item in sources:
            yield from _networks(item)


def _c_apis(sources) -> list[str]:
    """The C interfaces networks among sources have, each once."""
    return list(dict.fromkeys(network.c_api for network in _networks(sources)))


def compiled_objects(env, folder: Node, sources, here: Collection[Node] = (), **overrides) -> list[Node]:
    """Object nodes of sources, in ``folder``; anything else (objects, libraries) passes through.

    Those ``here`` are compiled without a launcher.
    """
    nodes, taken = [], set()
    for node in env.arg2nodes(env.Flatten(sources), env.fs.Entry):
        stem, suffix = os.path.splitext(node.name)
        if suffix not in COMPILED:
            nodes.append(node)
            continue
        if suffix in _ASSEMBLY and "ASCOM" not in env:
            assembler = env["AS"]
            env.Tool("as")
            env["AS"] = assembler
        name, number = stem, 2
        while name in taken:
            name, number = f"{stem}_{number}", number + 1
        taken.add(name)
        own = {**overrides, "COMPILER_LAUNCHER": ""} if node in here else overrides
        nodes += env.Object(folder.File(f"{name}.o"), node, **own)
    return nodes


def _runtime_objects(env, runtime: Runtime, sources: list[Node], private: list[Node], spare: Node) -> list[Node]:
    """Objects of the runtime's files, without what images have in ``private`` folders of headers.

    All images with the same flags share them, in a folder of the runtime's. ``spare`` is for those of an environment
    that would find another compiler of the same name, or other headers outside the project.
    """
    # It does nothing per element: for size.
    headers = [header for header in env["CPPPATH"] if header not in private]
    env = env.Override({"CPPPATH": headers, "FIRMWARE_OPTIMIZE": "-Os"})
    flags = env.subst("$CC $CFLAGS $CCFLAGS $CPPFLAGS $_CPPDEFFLAGS", raw=SUBST_SIG)
    folders = [str(env.Dir(header)) for header in headers]
    # Where packages lie differs between machines; the name of the folder may not.
    made_with = "\n".join([flags, *(path for path in folders if not os.path.isabs(path))])
    folder = runtime.include[0].dir.Dir(f"obj-{hashlib.sha256(made_with.encode()).hexdigest()[:8]}")
    shared = folder.attributes.__dict__.setdefault("tvm_stm32_objects", (env["ENV"], folders, {}))
    if shared[:2] != (env["ENV"], folders):
        return compiled_objects(env, spare, sources)
    known: dict[Node, Node] = shared[2]
    missing = [source for source in sources if source not in known]
    known.update(zip(missing, compiled_objects(env, folder, missing), strict=True))
    return [known[source] for source in sources]


def _source_objects(env, folder: Node, sources) -> list[Node]:
    """Objects of an image's own sources. SCons misses ``#include MACRO``, so each depends on networks' headers."""
    # Another computer does not have the file of weights that the assembler includes.
    here = [network[1] for network in _networks(sources) if network.weights is not None]
    nodes = compiled_objects(env, folder, sources, here)
    for network in _networks(sources):
        env.Depends([node for node in nodes if node.dir == folder], network.headers[0])
    return nodes


def _link_with(env, sources) -> None:
    names = [node.name for node in env.arg2nodes(env.Flatten(sources), env.fs.Entry)]
    env["LINK"] = "$CXX" if any(name.endswith(_CPLUSPLUS) for name in names) else "$CC"


def board_facts(board: BoardUse) -> tuple[list[str], str, bool]:
    """Compiler flags of a board, the family whose file sets up its clocks ("": none), whether its UART is known.

    Its schema is checked by the commands; here that would cost most of a null build.
    """
    return (board.flags, "", False) if board.flags is not None else _file_facts(board.path)


@functools.cache
def _file_facts(path: str) -> tuple[list[str], str, bool]:
    try:
        import yaml
    except ImportError as error:
        raise ToolchainError("the Python that runs SCons has no PyYAML", hint="pip install pyyaml") from error
    try:
        with open(path, encoding="utf-8") as stream:
            data = yaml.safe_load(stream)
        flags = replace(Target.for_cpu(data["cpu"]), **data.get("features", {})).compile_flags
        chip = chip_of(data.get("device", ""))
    except Exception:
        # Whatever is odd about the file, this says what.
        loaded = load_board(path)
        data = {"clocks": loaded.clocks, "console": loaded.console}
        flags, chip = loaded.target.compile_flags, chip_of(loaded.device)
    family = family_of(chip, bool(data.get("clocks")))
    return flags, family, bool(chip is not None and data.get("console"))


def _console(name: str, board: BoardUse, has_uart: bool, hardware: bool, console: str | None) -> str:
    """The console of an image; see ``project.board_config``, which says the same of loaded boards."""
    if console not in (None, "uart", "semihosting"):
        raise Error(f"Firmware: CONSOLE is {console!r} for '{name}'", hint="uart, semihosting")
    if console == "uart" and not has_uart:
        raise Error(
            f"Firmware: CONSOLE is 'uart' for '{name}', but no UART of the board '{board.name}' is known",
            hint="CONSOLE='semihosting', with a debugger",
        )
    return console or ("uart" if hardware and has_uart else "semihosting")


@builder_method
def firmware(
    env, target, source, BOARD=None, RUNTIME=None, LINKER_SCRIPT=None, STARTUP=None, HARDWARE=False, CONSOLE=None,
    **overrides,
) -> Image:  # fmt: skip
    """The ``Firmware`` method."""
    folder, name = place(env, env.Flatten([target])[0])
    if not BOARD or str(BOARD) == "host":
        raise Error(f"Firmware: '{name}' needs a BOARD", hint="HostProgram makes programs for this computer")
    board = BoardUse.of(env, BOARD)
    derived = _derive(env, overrides)
    source = with_networks(derived, source, folder.Dir(f"{name}.net"), BOARD=BOARD)
    derived["TVMSTM32BOARD"] = board.argument
    _use_compiler(derived, lambda words: "arm" in " ".join(words), lambda: _find_cross_compiler(derived))
    runtime = RUNTIME or derived.TvmRuntime(folder.Dir("tvm_runtime"), C_API=_c_apis(source))
    machine, family, has_uart = board_facts(board)
    hardware = bool(HARDWARE) or CONSOLE == "uart"
    console = _console(name, board, has_uart, hardware, CONSOLE)
    derived["_TVMSTM32PLACE"] = ["--hardware"] if hardware else []
    _add_flags(derived, source, runtime, machine, _SECTIONS)
    device = BOARD if hasattr(BOARD, "brings_startup") else None
    if device is not None:
        device.prepare(derived)
    derived["_TVMSTM32CONSOLE"] = console
    config = _board_config(derived, folder, name, board) if hardware else None
    _link_with(derived, source)
    own, own_startup = LINKER_SCRIPT, STARTUP
    if device is not None and device.brings_startup and STARTUP is None:
        # They go together.
        own_startup = device.startup
        own = device.linker_script if own is None else own
        # Arm's start-up code ends in newlib's, which is not there.
        derived["LINKFLAGS"] += ["-Wl,--defsym=_start=port_program_start"]
    script = _linker_script(derived, folder, name, board, hardware=hardware) if own is None else own
    script = derived.arg2nodes(env.Flatten([script]), derived.fs.File)[0]
    derived["TVMSTM32SCRIPT"] = script
    specs = [] if any("--specs=" in str(flag) for flag in derived["LINKFLAGS"]) else ["--specs=nano.specs"]
    derived["LINKFLAGS"] += ["-nostartfiles", *specs, "-Wl,--gc-sections", "$(", "-Wl,-Map=${TARGETS[1]}"]
    derived["LINKFLAGS"] += ["-T$TVMSTM32SCRIPT", "$)", *(["-Wl,-z,max-page-size=1024"] if hardware else [])]
    startup = derived.arg2nodes(env.Flatten([own_startup]), derived.fs.File) if own_startup is not None else []
    files = board_port_files(family, hardware=hardware, console=console)
    port = [runtime.files[key] for key in files if not (startup and key.endswith("startup.c"))]
    objects = folder.Dir(f"{name}.obj")
    inputs = _source_objects(derived, objects, source)
    private = [network.include for network in _networks(source)]
    common = _runtime_objects(derived, runtime, [*runtime, *port], private, objects.Dir("runtime"))
    inputs += [*common, *compiled_objects(derived, objects.Dir("runtime"), startup, FIRMWARE_OPTIMIZE="-Os")]
    if config is not None:
        # Also a main.c may include it, through a macro that SCons does not see.
        derived.Depends([*common, *(node for node in inputs if node.dir.is_under(objects))], config)
    if device is not None:
        generated = {node for network in _networks(source) for node in network}
        own_objects = [node for node in inputs if node.dir == objects and not generated.intersection(node.sources)]
        derived.Depends(own_objects, device.depends)
        inputs += device.objects
    map_file = folder.File(os.path.splitext(name)[0] + ".map")
    linked = derived.Program([objects.File("linked.elf"), map_file], inputs)
    derived.Depends(linked, script)
    derived["TVMSTM32MAP"] = map_file
    image = Image(_checked(derived, folder.File(name), linked[0], board))
    image.map = map_file
    image.linker_script = script
    image.networks = tuple(_networks(source))
    image.device = device
    derived.Clean(image, [objects, *{node.dir for node in common}])
    return image


def _board_config(env, folder: Node, name: str, board: BoardUse) -> Node:
    """``board_config.h`` of an image for the board itself, in a folder its sources are compiled with."""
    place = folder.Dir(f"{name}.board")
    node = env.Command(
        place.File("board_config.h"), [], Action("$TVMSTM32CONFIGCOM", "$TVMSTM32CONFIGCOMSTR"),
        IMPLICIT_COMMAND_DEPENDENCIES=0,
    )  # fmt: skip
    env.Depends(node, [board.node, identity(config=content(*_CONFIG_CODE))])
    env.Append(CPPDEFINES=[("PORT_BOARD", 1)])
    env["CPPPATH"] = [*env["CPPPATH"], place]
    return node[0]


def _linker_script(env, folder: Node, image: str, board: BoardUse, *, hardware: bool) -> NodeList:
    """The script of a board: one for all its images of a folder."""
    known = folder.attributes.__dict__.setdefault("tvm_stm32_scripts", {})
    key = (board.node, hardware)
    if key not in known:
        target = folder.File(f"{board.name}{'-hardware' if hardware else ''}.ld")
        if target.has_explicit_builder():
            target = folder.File(f"{image}.ld")
        node = env.Command(target, [], Action("$TVMSTM32LDCOM", "$TVMSTM32LDCOMSTR"), IMPLICIT_COMMAND_DEPENDENCIES=0)
        template = env.File(os.path.join(resource_dir("runtime"), "port", "image.ld.j2"))
        env.Depends(node, [board.node, template, identity(linker=content(*_LINKER_CODE))])
        known[key] = node
    return known[key]


def _checked(env, target: Node, linked: Node, board: BoardUse) -> NodeList:
    """The image under its own name: a copy made after the check, so a bad one never bears that name.

    SCons keeps what it knew of a target when a build of it fails. An image linked under its own name and then found bad
    would be taken for good as soon as the sources are what they were before.
    """
    node = env.Command(
        target,
        linked,
        Action("$TVMSTM32CHECKCOM", "$TVMSTM32CHECKCOMSTR"),
        IMPLICIT_COMMAND_DEPENDENCIES=0,
    )
    env.Depends(node, [board.node, identity(check=content(*_CHECK_CODE))])
    return node


@builder_method
def host_program(env, target, source, RUNTIME=None, **overrides) -> Image:
    """The ``HostProgram`` method."""
    folder, name = place(env, env.Flatten([target])[0])
    derived = _derive(env, overrides)
    source = with_networks(derived, source, folder.Dir(f"{name}.net"), CPU="host")
    _use_compiler(derived, lambda words: "arm-none" not in " ".join(words) and derived.WhereIs(words[0]), find_host_cc)
    runtime = RUNTIME or derived.TvmRuntime(folder.Dir("tvm_runtime"), C_API=_c_apis(source))
    _add_flags(derived, source, runtime, [], [])
    _link_with(derived, source)
    port = [runtime.files[key] for key in _HOST_PORT]
    objects = folder.Dir(f"{name}.obj")
    inputs = _source_objects(derived, objects, source)
    private = [network.include for network in _networks(source)]
    common = _runtime_objects(derived, runtime, [*runtime, *port], private, objects.Dir("runtime"))
    inputs += common
    program = Image(derived.Program(folder.File(name), inputs))
    program.networks = tuple(_networks(source))
    derived.Clean(program, [objects, *{node.dir for node in common}])
    return program


@builder_method
def run_firmware(env, alias, image, BOARD=None, REPORT=None, REFERENCE=None, INPUTS=None, FLAGS=(), **overrides):
    """The ``RunFirmware`` method."""
    if not BOARD or not REPORT:
        raise Error(f"RunFirmware: '{alias}' needs BOARD and REPORT", hint="REPORT=network.report")
    board = BoardUse.of(env, BOARD)
    sources = env.arg2nodes(env.Flatten([image, REPORT]), env.fs.File)
    flags = []
    for option, node in (("--reference", REFERENCE), ("--inputs", INPUTS)):
        if node:
            flags += [option, f"${{SOURCES[{len(sources)}]}}"]
            sources += env.arg2nodes(env.Flatten([node]), env.fs.File)
    derived = env.Clone(TVMSTM32BOARD=board.argument, _TVMSTM32RUNFLAGS=[*flags, *FLAGS], **overrides)
    node = derived.Alias(alias, sources, Action("$TVMSTM32RUNCOM", "$TVMSTM32RUNCOMSTR"))
    derived.AlwaysBuild(node)
    # The run leaves its instruction counter beside the image.
    derived.Clean(sources[0], sources[0].dir.glob("icount-*"))
    return node


def generate(env) -> None:
    """Add the builders to an environment."""
    if "TVMSTM32" not in env:
        env.Tool("stm32_model")
    env.SetDefault(
        COMPILER_LAUNCHER="",
        FIRMWARE_OPTIMIZE="-O2",
        TVMSTM32LDCOM="$TVMSTM32 linker-script $_TVMSTM32PLACE $( --board $TVMSTM32BOARD -o $TARGET $)",
        TVMSTM32LDCOMSTR="",
        TVMSTM32CONFIGCOM="$TVMSTM32 board-config --console $_TVMSTM32CONSOLE $( --board $TVMSTM32BOARD -o $TARGET $)",
        TVMSTM32CONFIGCOMSTR="",
        TVMSTM32CHECKCOM="$TVMSTM32 check-image $_TVMSTM32PLACE "
        "$( $SOURCE --board $TVMSTM32BOARD --map $TVMSTM32MAP --keep $TARGET $)",
        TVMSTM32CHECKCOMSTR="",
        TVMSTM32RUNCOM="$TVMSTM32 run-image $SOURCE --report ${SOURCES[1]} --board $TVMSTM32BOARD $_TVMSTM32RUNFLAGS",
        TVMSTM32RUNCOMSTR="",
    )
    env.AddMethod(firmware, "Firmware")
    env.AddMethod(host_program, "HostProgram")
    env.AddMethod(run_firmware, "RunFirmware")


def exists(_env) -> bool:
    """The compiler is looked for when an image is asked for."""
    return True
