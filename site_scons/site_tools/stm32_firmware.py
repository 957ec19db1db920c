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
import os
from dataclasses import replace

from SCons.Node import Node, NodeList
from SCons.Script import Action
from stm32_nodes import BoardUse, builder_method, content, identity, networks_in, place
from stm32_objects import (
    SECTIONS,
    add_flags,
    c_apis,
    compiled_objects,
    derive,
    find_cross_compiler,
    link_with,
    runtime_objects,
    source_objects,
    use_compiler,
)
from stm32_sources import with_networks

from tvm_stm32.boards import load_board
from tvm_stm32.chips import chip_of, family_of
from tvm_stm32.errors import Error, ToolchainError
from tvm_stm32.project.board_config import board_port_files
from tvm_stm32.resources import resource_dir
from tvm_stm32.target import Target
from tvm_stm32.toolchain import find_host_cc

_HOST_PORT = ("port/port_common.c", "port/port_host.c")
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
    derived = derive(env, overrides)
    source = with_networks(derived, source, folder.Dir(f"{name}.net"), BOARD=BOARD)
    derived["TVMSTM32BOARD"] = board.argument
    use_compiler(derived, lambda words: "arm" in " ".join(words), lambda: find_cross_compiler(derived))
    runtime = RUNTIME or derived.TvmRuntime(folder.Dir("tvm_runtime"), C_API=c_apis(source))
    machine, family, has_uart = board_facts(board)
    hardware = bool(HARDWARE) or CONSOLE == "uart"
    console = _console(name, board, has_uart, hardware, CONSOLE)
    derived["_TVMSTM32PLACE"] = ["--hardware"] if hardware else []
    add_flags(derived, source, runtime, machine, SECTIONS)
    device = BOARD if hasattr(BOARD, "brings_startup") else None
    if device is not None:
        device.prepare(derived)
    derived["_TVMSTM32CONSOLE"] = console
    config = _board_config(derived, folder, name, board) if hardware else None
    link_with(derived, source)
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
    inputs = source_objects(derived, objects, source)
    private = [network.include for network in networks_in(source)]
    common = runtime_objects(derived, runtime, [*runtime, *port], private, objects.Dir("runtime"))
    inputs += [*common, *compiled_objects(derived, objects.Dir("runtime"), startup, FIRMWARE_OPTIMIZE="-Os")]
    if config is not None:
        # Also a main.c may include it, through a macro that SCons does not see.
        derived.Depends([*common, *(node for node in inputs if node.dir.is_under(objects))], config)
    if device is not None:
        generated = {node for network in networks_in(source) for node in network}
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
    image.networks = tuple(networks_in(source))
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
    derived = derive(env, overrides)
    source = with_networks(derived, source, folder.Dir(f"{name}.net"), CPU="host")
    use_compiler(derived, lambda words: "arm-none" not in " ".join(words) and derived.WhereIs(words[0]), find_host_cc)
    runtime = RUNTIME or derived.TvmRuntime(folder.Dir("tvm_runtime"), C_API=c_apis(source))
    add_flags(derived, source, runtime, [], [])
    link_with(derived, source)
    port = [runtime.files[key] for key in _HOST_PORT]
    objects = folder.Dir(f"{name}.obj")
    inputs = source_objects(derived, objects, source)
    private = [network.include for network in networks_in(source)]
    common = runtime_objects(derived, runtime, [*runtime, *port], private, objects.Dir("runtime"))
    inputs += common
    program = Image(derived.Program(folder.File(name), inputs))
    program.networks = tuple(networks_in(source))
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
