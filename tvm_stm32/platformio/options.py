"""``custom_tvm_models`` and ``custom_tvm_options`` of platformio.ini as keywords of ``TvmModel``."""

from __future__ import annotations

import contextlib
import difflib
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..c_api import C_APIS
from ..choices import ALIGNMENTS, KERNELS, LEVELS, WEIGHTS
from ..errors import Error, quoted
from ..sizes import is_size

PREFIX = "custom_tvm_"
SETTINGS = ("models", "options", "cpu", "board", "python", "build_flags")
"""Names of the project's settings, after :data:`PREFIX`."""


def _text(_key: str, value: str) -> str:
    return value


def _one_of(*known: str) -> Callable[[str, str], str]:
    def check(key: str, value: str) -> str:
        if value not in known:
            raise Error(f"{key} is {quoted(value)}", hint=f"one of {', '.join(known)}")
        return value

    return check


def _bytes(key: str, value: str) -> str:
    if not is_size(value):
        raise Error(f"{key} is {quoted(value)}", hint="a number of bytes, 1 or more, or 32K, 1M")
    return value


def _words(_key: str, value: str) -> list[str]:
    return [word for word in value.split(",") if word]


def _pairs(key: str, value: str) -> dict[str, str]:
    pairs = {}
    for word in _words(key, value):
        name, _, given = word.rpartition("=")
        if not name or not given:
            raise Error(f"{key} has {quoted(word)}", hint=f"{key}=NAME=VALUE,NAME=VALUE")
        pairs[name] = given
    return pairs


def _arguments(key: str, value: str) -> list[str]:
    words = _split(value)
    for word in words:
        # The build says them itself, and knows beforehand which files there will be.
        option = word.partition("=")[0]
        if option in _OF_BUILD or word.startswith("-o"):
            hint = _OF_BUILD.get(option) or "leave it out"
            raise Error(f"{key} has {quoted(word)}", why="the build has to know it", hint=hint)
    return words


_KEYS: dict[str, Callable[[str, str], Any]] = {
    "name": _text,
    "level": _one_of(*LEVELS),
    "kernels": _one_of(*KERNELS),
    "max_ram": _bytes,
    "params": _text,
    "weights": _one_of(*WEIGHTS),
    "external_io": _words,
    "alignment": _one_of(*map(str, ALIGNMENTS)),
    "pools": _text,
    "pins": _pairs,
    "forms": _pairs,
    "c_api": _one_of(*C_APIS),
    "arena": _text,
    "flags": _arguments,
}
_OF_BUILD = {
    "--name": "name=...",
    "--weights": "weights=...",
    "--c-api": "c_api=...",
    "--shared-arena": "arena=...",
    **dict.fromkeys(("-o", "--output", "--depfile", "--stamp", "--help", "-h"), ""),
}
_OF_ONE_MODEL = {"name", "params", "external_io", "pins", "forms"}


@dataclass(frozen=True)
class ModelLine:
    """A line of ``custom_tvm_models``: the file as the user wrote it, and its options by their key."""

    text: str
    path: str
    options: dict[str, Any] = field(default_factory=dict)


def parse_defaults(text: str) -> dict[str, Any]:
    """Options for every model. Raises :class:`Error`."""
    return _options(_split(text), [key for key in _KEYS if key not in _OF_ONE_MODEL])


def parse_models(text: str, defaults: dict[str, Any]) -> list[ModelLine]:
    """One model a line, a path and ``key=value`` words. Raises :class:`Error` with the line."""
    models = []
    for line in filter(None, map(str.strip, text.splitlines())):
        with about(line):
            path, *words = _split(line)
            if not path:
                raise Error("there is no model file", hint="a path from the project's folder, options behind it")
            models.append(ModelLine(line, path, {**defaults, **_options(words, list(_KEYS))}))
    return models


@contextlib.contextmanager
def about(what: str) -> Iterator[None]:
    """Errors of the block say first what they are about: a setting, a line of it."""
    try:
        yield
    except Error as error:
        raise Error(f"{what}: {error.message}", why=error.why, hint=error.hint) from error


def check_settings(names: Iterable[str]) -> None:
    """Raise :class:`Error` for a ``custom_tvm_...`` that means nothing."""
    for name in names:
        setting = name.removeprefix(PREFIX)
        if setting != name and setting not in SETTINGS:
            near = difflib.get_close_matches(setting, SETTINGS, 1) or SETTINGS
            raise Error(f"there is no setting {name}", hint=" or ".join(PREFIX + known for known in near))


def _split(text: str) -> list[str]:
    """Words of a line; quotes keep blanks together, backslashes are those of Windows paths."""
    words = shlex.shlex(text, posix=True, punctuation_chars=False)
    words.whitespace_split = True
    words.escape = words.commenters = ""
    try:
        return list(words)
    except ValueError as error:
        raise Error("a quote is not closed") from error


def _options(words: list[str], known: list[str]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if key not in known or not equals or not value:
            near = difflib.get_close_matches(key, known, 1)
            why = f"'{key}' is of one model" if key in _OF_ONE_MODEL.difference(known) else ""
            example = f"{near[0]}=..." if near else f"key=value, the keys are {', '.join(known)}"
            raise Error(f"{quoted(word)} is no option", why=why, hint=example)
        if key in options:
            raise Error(f"'{key}' is given twice")
        options[key] = _KEYS[key](key, value)
    return options
