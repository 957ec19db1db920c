"""Environments and objects of images: a user's environment becomes one for a machine, sources objects. No tool."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection
from pathlib import Path

from SCons.Errors import BuildError
from SCons.Node import Node
from SCons.Script import Action
from SCons.Subst import SUBST_SIG
from SCons.Util import CLVar, is_String
from stm32_launcher import place_flags, use_launcher
from stm32_nodes import Runtime, networks_in

from tvm_stm32.errors import Error, ToolchainError
from tvm_stm32.toolchain import GCC_VARIABLE, find_gcc

SECTIONS = ["-ffunction-sections", "-fdata-sections"]
_ASSEMBLY = (".s", ".S", ".sx", ".asm")
_CPLUSPLUS = (".cc", ".cpp", ".cxx", ".c++", ".C")
COMPILED = (".c", *_CPLUSPLUS, *_ASSEMBLY)


def derive(env, overrides: dict[str, object]):
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


def use_compiler(env, kept: Callable[[list[str]], object], find: Callable[[], Path]) -> None:
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
    def fail(target, source, env):  # noqa: ARG001 - names SCons calls it by
        raise BuildError(node=target, errstr=message, status=1, exitstatus=2)

    return Action(fail, cmdstr=None)


def find_cross_compiler(env) -> Path:
    in_path = None if os.environ.get(GCC_VARIABLE) else env.WhereIs("arm-none-eabi-gcc")
    return Path(in_path) if in_path else find_gcc()


def _add_machine(env, machine: list[str], sections: list[str]) -> None:
    """Ours before the user's, so that those win; the machine's last, since nothing else fits the board."""
    env["CCFLAGS"] = CLVar(["$FIRMWARE_OPTIMIZE", "-g", *place_flags(env), *sections, *env["CCFLAGS"], *machine])
    env["ASFLAGS"] = CLVar([*env["ASFLAGS"], *machine, "-c"])
    env["LINKFLAGS"] = CLVar([*env["LINKFLAGS"], *machine])


def device_environment(env, machine: list[str]):
    """A clone of an environment that compiles for a machine with these flags, as ``Firmware`` does."""
    derived = derive(env, {})
    use_compiler(derived, lambda words: "arm" in " ".join(words), lambda: find_cross_compiler(derived))
    _add_machine(derived, machine, SECTIONS)
    return derived


def add_flags(env, sources, runtime: Runtime, machine: list[str], sections: list[str]) -> None:
    _add_machine(env, machine, sections)
    env.Append(CPPDEFINES=["AI_USE_SECTIONS"])
    env["CPPPATH"] = [*env["CPPPATH"], *(network.include for network in networks_in(sources)), *runtime.include]
    env["LIBS"] = [*env["LIBS"], "m"]


def c_apis(sources) -> list[str]:
    """The C interfaces networks among sources have, each once."""
    return list(dict.fromkeys(network.c_api for network in networks_in(sources)))


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


def runtime_objects(env, runtime: Runtime, sources: list[Node], private: list[Node], spare: Node) -> list[Node]:
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


def source_objects(env, folder: Node, sources) -> list[Node]:
    """Objects of an image's own sources. SCons misses ``#include MACRO``, so each depends on networks' headers."""
    # Another computer does not have the file of weights that the assembler includes.
    here = [network[1] for network in networks_in(sources) if network.weights is not None]
    nodes = compiled_objects(env, folder, sources, here)
    for network in networks_in(sources):
        env.Depends([node for node in nodes if node.dir == folder], network.headers[0])
    return nodes


def link_with(env, sources) -> None:
    names = [node.name for node in env.arg2nodes(env.Flatten(sources), env.fs.Entry)]
    env["LINK"] = "$CXX" if any(name.endswith(_CPLUSPLUS) for name in names) else "$CC"
