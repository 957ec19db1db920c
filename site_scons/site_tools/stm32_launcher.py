"""SCons tool ``stm32_launcher``: C and C++ are compiled through ccache, sccache or distcc.

    env = Environment(tools=["default", "stm32_launcher"], COMPILER_LAUNCHER="ccache")

COMPILER_LAUNCHER is a program, with options if wanted, that is put before every compile command; not before links, nor
before assembly, whose ``.incbin`` such programs do not see. It stays out of signatures: what is up to date or in a
CacheDir is so with and without. ``Firmware``, ``HostProgram`` and ``CmsisDevice`` honour it without this tool.

Commands get the launcher's own variables (CCACHE_DIR, SCCACHE_DIR, DISTCC_HOSTS ...) from SCons's environment, unless
ENV has them, and objects are the same in every folder, so that another checkout finds them.
"""

from __future__ import annotations

import os
import re

from SCons.Script import GetOption
from stm32_nodes import builder_method

from tvm_stm32.errors import Error

_COMMANDS = ("CCCOM", "SHCCCOM", "CXXCOM", "SHCXXCOM")
_PREFIX = "$( $COMPILER_LAUNCHER $) "
_FAMILIES = ("CCACHE_", "SCCACHE_", "DISTCC_")
# Where launchers look for their settings and keep what they have.
_VARIABLES = ("HOME", "LOCALAPPDATA", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR")
# The compiler's __DATE__.
_EPOCH = "SOURCE_DATE_EPOCH"
# The folder a process is in, by a name that is the same for all; Linux has it.
_HERE = "/proc/self/cwd"


def use_launcher(env) -> None:
    """Put COMPILER_LAUNCHER before the compile commands of an environment that is the caller's own.

    Raises :class:`Error` for a launcher that is not there.
    """
    for command in _COMMANDS:
        text = env.get(command, "")
        if isinstance(text, str) and text and _PREFIX not in text:
            # Signs that SCons takes off: not printed (@), failures ignored (-).
            signs, rest = re.fullmatch(r"(\s*[@-]*)(.*)", text, re.DOTALL).groups()
            env[command] = f"{signs}{_PREFIX}{rest}"
    env["ENV"] = dict(env["ENV"])
    words = _words(env)
    for name, value in os.environ.items():
        if name == _EPOCH or (words and (name.startswith(_FAMILIES) or name in _VARIABLES)):
            env["ENV"].setdefault(name, value)
    if not words:
        return
    if not (env.WhereIs(words[0]) or GetOption("clean") or GetOption("help")):
        raise Error(
            f"COMPILER_LAUNCHER: there is no program '{words[0]}'",
            why="it is neither a path nor in the PATH of ENV",
            hint="install it, or leave COMPILER_LAUNCHER empty",
        )
    if _is_sccache(words):
        env["ENV"]["PWD"] = _HERE


def place_flags(env) -> list[str]:
    """Flags that keep the place of the checkout out of objects: debug information and ``__FILE__``.

    Both name sources from the top folder, wherever that is.
    """
    # sccache looks up the flag itself, too: the folder has to have a name that is the same everywhere.
    top = _HERE if _is_sccache(_words(env)) else env.Dir("#").get_abspath()
    return ["$(", f"-ffile-prefix-map={top}=.", "$)"]


def _words(env) -> list[str]:
    return [str(word) for word in env.subst_list("$COMPILER_LAUNCHER")[0]]


def _is_sccache(words: list[str]) -> bool:
    return bool(words) and os.path.basename(words[0]).startswith("sccache") and os.path.isdir(_HERE)


@builder_method
def _generate(env) -> None:
    use_launcher(env)


def generate(env) -> None:
    """Prefix the environment's compile commands."""
    env.SetDefault(COMPILER_LAUNCHER="")
    _generate(env)


def exists(_env) -> bool:
    """The launcher is looked for when one is named."""
    return True
