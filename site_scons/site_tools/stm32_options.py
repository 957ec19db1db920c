"""Keywords of ``TvmModel`` as options of the generator's command line. No tool itself."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass

from SCons.Node import Node
from SCons.Subst import Literal
from SCons.Util import is_String
from stm32_nodes import BoardUse

from tvm_stm32.c_api import C_APIS
from tvm_stm32.choices import ALIGNMENTS, KERNELS, LEVELS, WEIGHTS
from tvm_stm32.errors import Error
from tvm_stm32.sizes import is_size
from tvm_stm32.target import Target

DEFAULTS: dict[str, object] = {
    "BOARD": None,
    "CPU": None,
    "LEVEL": "time",
    "KERNELS": "asm",
    "FORMS": (),
    "MAX_RAM": None,
    "PARAMS": None,
    "WEIGHTS": "array",
    "EXTERNAL_IO": (),
    "ALIGNMENT": 8,
    "POOLS": None,
    "PINS": (),
    "C_API": "ai",
}
"""The keywords, and what they are where they are not given."""


@dataclass
class Options:
    """Words of the command line, and what it reads beside the model: ``params`` is one more source."""

    flags: list[object]
    dependencies: list[Node]
    params: list[Node]


def split(env, name: str, keywords: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """Keywords of ``TvmModel``, all of them, and those that override variables of the environment.

    Raises :class:`Error` for one that nearly is ours: it would build for the wrong core in silence.
    """
    overrides = {key: value for key, value in keywords.items() if key not in DEFAULTS}
    for unknown in set(overrides) - set(env.Dictionary()):
        for near in difflib.get_close_matches(unknown, DEFAULTS, 1, 0.75):
            raise Error(f"TvmModel: there is no keyword {unknown} for '{name}'", hint=near)
    return {**DEFAULTS, **{key: value for key, value in keywords.items() if key in DEFAULTS}}, overrides


def command_options(env, name: str, given: Mapping[str, object]) -> Options:
    """What keywords say. Raises :class:`Error` for values the generator would refuse much later."""
    options = Options([], [], [])
    _check_values(name, given)
    _add_choices(options, given)
    _add_target(env, options, given)
    _add_files(env, options, given)
    _add_tensors(env, options, given)
    return options


def _check_values(name: str, given: Mapping[str, object]) -> None:
    if given["BOARD"] and given["CPU"]:
        raise Error(f"TvmModel: BOARD and CPU are given both for '{name}'", why="a board says which CPU it has")
    check_c_api("TvmModel", given["C_API"])
    _check_choice("LEVEL", given["LEVEL"], LEVELS)
    _check_choice("KERNELS", given["KERNELS"], KERNELS)
    _check_choice("WEIGHTS", given["WEIGHTS"], WEIGHTS)
    if str(given["ALIGNMENT"]) not in map(str, ALIGNMENTS):
        raise Error(f"TvmModel: ALIGNMENT is {given['ALIGNMENT']!r}", hint=f"one of {', '.join(map(str, ALIGNMENTS))}")
    if given["CPU"] is not None and not isinstance(given["CPU"], str):
        raise Error(f"TvmModel: CPU is {given['CPU']!r}", hint="a name, such as 'cortex-m4'")
    if not (is_String(given["POOLS"]) or isinstance(given["POOLS"], (Node, os.PathLike)) or not given["POOLS"]):
        raise Error(f"TvmModel: POOLS is {given['POOLS']!r}", hint="a file, or 'board'")
    if given["MAX_RAM"] is not None and not is_size(str(given["MAX_RAM"])):
        raise Error(f"TvmModel: MAX_RAM is {given['MAX_RAM']!r}", hint="a number of bytes, 1 or more, or '32K', '1M'")


def _add_choices(options: Options, given: Mapping[str, object]) -> None:
    options.flags += ["-O", given["LEVEL"]]
    for keyword, option in (("KERNELS", "--kernels"), ("WEIGHTS", "--weights"), ("C_API", "--c-api")):
        options.flags += [] if given[keyword] == DEFAULTS[keyword] else [option, given[keyword]]
    options.flags += [] if str(given["ALIGNMENT"]) == "8" else ["--alignment", str(given["ALIGNMENT"])]
    options.flags += ["--max-ram", str(given["MAX_RAM"])] if given["MAX_RAM"] else []


def _add_target(env, options: Options, given: Mapping[str, object]) -> None:
    if given["BOARD"]:
        board = BoardUse.of(env, given["BOARD"])
        options.dependencies.append(board.node)
        options.flags += ["$(", "--board", board.argument, "$)"]
    elif given["CPU"]:
        options.flags += ["--cpu", Target.for_cpu(given["CPU"]).cpu]


def _add_files(env, options: Options, given: Mapping[str, object]) -> None:
    if given["PARAMS"]:
        options.params += env.arg2nodes(env.Flatten([given["PARAMS"]]), env.fs.File)
        options.flags += ["$(", "--params", "${SOURCES[1]}", "$)"]
    if given["POOLS"] and str(given["POOLS"]) != "board":
        pools = env.arg2nodes([given["POOLS"]], env.fs.File)[0]
        options.dependencies.append(pools)
        options.flags += ["$(", "--pools", pools, "$)"]
    elif given["POOLS"]:
        options.flags += ["--pools", "board"]


def _add_tensors(env, options: Options, given: Mapping[str, object]) -> None:
    words = [("--set", text) for text in _pairs("FORMS", given["FORMS"], "operators and forms")]
    words += [("--external-io", str(tensor)) for tensor in env.Flatten([given["EXTERNAL_IO"]])]
    words += [("--pin", text) for text in _pairs("PINS", given["PINS"], "tensors and pools")]
    options.flags += [word for option, text in words for word in (option, Literal(text))]


def _check_choice(keyword: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise Error(f"TvmModel: {keyword} is {value!r}", hint=f"one of {', '.join(known)}")


def _pairs(keyword: str, given: Mapping[str, str], what: str) -> list[str]:
    """``NAME=VALUE`` of a dictionary."""
    pairs = given.items() if isinstance(given, Mapping) else [] if given == () else [(None, None)]
    if not all(isinstance(word, str) and word for pair in pairs for word in pair):
        raise Error(f"TvmModel: {keyword} is no dictionary of {what}", hint=f'{keyword}={{"NAME": "VALUE"}}')
    return [f"{name}={value}" for name, value in sorted(pairs)]


def check_c_api(builder: str, c_api: str) -> None:
    if c_api not in C_APIS:
        raise Error(f"{builder}: there is no C_API '{c_api}'", hint=f"one of {', '.join(C_APIS)}")
