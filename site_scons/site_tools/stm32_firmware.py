"""SCons tool ``stm32_firmware``: link an image for a board, and run it.

    env = Environment(tools=["default", "stm32_model", "stm32_firmware"])
    image = env.Firmware("build/app.elf", ["main.c", network], BOARD="stm32f405")

``Firmware(target, sources, BOARD=...)`` compiles the sources (and the runtime with its start-up code) for the board,
makes a linker script from its memories, links, and checks the result. ``LINKER_SCRIPT`` takes one of your own. Objects
go to ``<target>.obj``. ``HostProgram(target, sources)`` is the same for this computer.
``RunFirmware(name, image, BOARD=..., REPORT=...)`` adds an alias that runs the image on the board's emulator.

The environment's CCFLAGS, CFLAGS, CPPDEFINES and CPPPATH are honoured; FIRMWARE_OPTIMIZE (default -O2) is the level.
"""

from __future__ import annotations

import os

from SCons.Script import Action
from stm32_model import board_dependency

from tvm_stm32.boards import load_board
from tvm_stm32.project.firmware import WARNING_FLAGS
from tvm_stm32.toolchain import find_gcc, find_host_cc

_SECTIONS = ["-ffunction-sections", "-fdata-sections"]
_PORT = ("port/port_common.c", "port/port_startup.c", "port/port_semihosting.c", "port/port_system.c")
_HOST_PORT = ("port/port_common.c", "port/port_host.c")


def _derive(env, compiler, target):
    """A clone that compiles with ``compiler`` into objects beside ``target``; the compiler is named without its path."""
    derived = env.Clone()
    derived["ENV"] = dict(env["ENV"])
    derived.PrependENVPath("PATH", str(compiler.parent))
    derived.Replace(CC=compiler.name, LINK="$CC", PROGSUFFIX="", OBJPREFIX="", OBJSUFFIX=".o")
    derived["_OBJECTS"] = str(target) + ".obj"
    derived.Append(CPPDEFINES=["AI_USE_SECTIONS"], CCFLAGS=["$FIRMWARE_OPTIMIZE", "-g", *_SECTIONS, *WARNING_FLAGS])
    derived.Append(CFLAGS=["-std=c99"])
    return derived


def _objects(env, sources, **overrides):
    """Object nodes of C sources; anything else (objects, libraries) passes through."""
    nodes, taken = [], set()
    for node in env.arg2nodes(env.Flatten(sources), env.fs.Entry):
        if not str(node).endswith(".c"):
            nodes.append(node)
            continue
        stem, number = os.path.splitext(os.path.basename(str(node)))[0], 2
        name = stem
        while name in taken:
            name, number = f"{stem}_{number}", number + 1
        taken.add(name)
        nodes += env.Object(os.path.join(env["_OBJECTS"], name), node, **overrides)
    return nodes


def firmware(env, target, source, BOARD, RUNTIME=None, LINKER_SCRIPT=None, STARTUP=None):
    """The ``Firmware`` method."""
    board = load_board(str(env.File(BOARD)) if BOARD.endswith((".yaml", ".yml")) else BOARD)
    derived = _derive(env, find_gcc(), target)
    derived.Append(CCFLAGS=board.target.compile_flags, LINKFLAGS=board.target.compile_flags)
    runtime = RUNTIME or derived.TvmRuntime(str(target) + ".runtime")
    includes = sorted({os.path.dirname(str(node)) for name, node in runtime.files.items() if name.endswith(".h")})
    derived.Append(CPPPATH=["#" + path if not os.path.isabs(path) else path for path in includes])
    script = LINKER_SCRIPT
    if script is None:
        script = derived.Command(
            str(target) + ".ld",
            board_dependency(env, BOARD),
            Action("$TVMSTM32 linker-script --board $FIRMWARE_BOARD -o $TARGET", "$TVMSTM32COMSTR"),
            FIRMWARE_BOARD=BOARD,
        )
    script = derived.arg2nodes(script, derived.fs.File)[0]
    port = [node for name, node in runtime.files.items() if name in _PORT]
    if STARTUP is not None:
        port = [node for node in port if not str(node).endswith("port_startup.c")] + derived.arg2nodes(STARTUP)
    objects = _objects(derived, [source])
    # The runtime does nothing per element: for size.
    objects += _objects(derived, [*runtime, *port], FIRMWARE_OPTIMIZE="-Os")
    derived.Append(
        LINKFLAGS=["-nostartfiles", "--specs=nano.specs", "-Wl,--gc-sections", "-Wl,-Map=${TARGET.base}.map"],
        LIBS=["m"],
    )
    derived.Append(LINKFLAGS=["-T" + str(script)])
    image = derived.Program(target, objects)
    derived.SideEffect(os.path.splitext(str(target))[0] + ".map", image)
    derived.Clean(image, os.path.splitext(str(target))[0] + ".map")
    derived.Depends(image, [script, board_dependency(env, BOARD)])
    derived.AddPostAction(
        image, Action(f"$TVMSTM32 check-image $TARGET --board {BOARD}", "$TVMSTM32COMSTR")
    )
    return image


def host_program(env, target, source, RUNTIME=None):
    """The ``HostProgram`` method."""
    derived = _derive(env, find_host_cc(), target)
    runtime = RUNTIME or derived.TvmRuntime(str(target) + ".runtime")
    includes = sorted({os.path.dirname(str(node)) for name, node in runtime.files.items() if name.endswith(".h")})
    derived.Append(CPPPATH=["#" + path if not os.path.isabs(path) else path for path in includes], LIBS=["m"])
    port = [node for name, node in runtime.files.items() if name in _HOST_PORT]
    return derived.Program(target, _objects(derived, [source, *runtime, *port]))


def run_firmware(env, alias, image, BOARD, REPORT, REFERENCE=None, INPUTS=None, FLAGS=()):
    """The ``RunFirmware`` method."""
    sources = [image, REPORT]
    command = ["$TVMSTM32", "run-image", "${SOURCES[0]}", "--report", "${SOURCES[1]}", "--board", BOARD]
    for option, node in (("--reference", REFERENCE), ("--inputs", INPUTS)):
        if node is not None:
            command += [option, f"${{SOURCES[{len(env.Flatten(sources))}]}}"]
            sources.append(node)
    node = env.Alias(alias, env.Flatten(sources), Action(" ".join([*command, *FLAGS]), "$TVMSTM32COMSTR"))
    env.AlwaysBuild(node)
    return node


def generate(env):
    """Add the builders to an environment."""
    if "TVMSTM32" not in env:
        env.Tool("stm32_model")
    env.SetDefault(FIRMWARE_OPTIMIZE="-O2")
    env.AddMethod(firmware, "Firmware")
    env.AddMethod(host_program, "HostProgram")
    env.AddMethod(run_firmware, "RunFirmware")


def exists(env):
    """The compiler is looked for when an image is asked for."""
    return True
