"""C names from the user's names."""

from __future__ import annotations

import re

from .errors import Error, ModelError, quoted

# fmt: off
_RESERVED = frozenset((
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern",
    "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed",
    "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while", "alignas",
    "alignof", "and", "asm", "atomic", "bool", "catch", "class", "complex", "constexpr", "delete", "export", "false",
    "friend", "generic", "main", "mutable", "namespace", "new", "not", "noreturn", "nullptr", "operator", "or",
    "private", "protected", "public", "template", "this", "thread", "throw", "true", "try", "typeid", "typename",
    "using", "virtual", "xor", "errno", "stdin", "stdout", "stderr",
))
# fmt: on
_TAKEN = frozenset(("linux", "unix", "arm", "memcpy", "memset", "memmove", "memcmp", "printf"))
_LONGEST = 63  # significant characters of an internal identifier in C99 (5.2.4.1)


# Names whose NAME.h would hide a header of the C library or of the runtime; those with `ai_` in front would have
# their guards (AI_RUNTIME_H).
# fmt: off
_HEADERS = frozenset((
    "assert", "complex", "ctype", "errno", "fenv", "float", "inttypes", "iso646", "limits", "locale", "math",
    "setjmp", "signal", "stdalign", "stdarg", "stdbool", "stddef", "stdint", "stdio", "stdlib", "stdnoreturn",
    "string", "tgmath", "threads", "time", "uchar", "wchar", "wctype", "ai_runtime", "ai_blocks", "ai_kernels",
    "ai_kernels_dsp", "ai_kernels_float", "ai_kernels_mve", "ai_tvm_shim", "port", "ai_platform",
    "ai_datatypes_defines",
    "ai_platform_interface", "st_bridge", "st_client", "st_stai", "stai", "stai_debug", "stai_events",
))
# fmt: on


def is_reserved(name: str) -> bool:
    """Whether C or C++ has a use of its own for a name."""
    return name in _RESERVED


def network_name(text: str) -> str:
    """The C prefix of a network: lower case, every run of other characters one ``_``.

    A keyword, a digit in front, ``ai``, or the name of a header gets ``net_`` in front.

    Raises :class:`ModelError` when nothing usable is left.
    """
    name = re.sub("[^0-9a-z]+", "_", text.lower()).strip("_")
    if not name:
        raise ModelError(f"no C name can be made from '{text}'", hint="give one with --name")
    if len(name) > _LONGEST:
        raise ModelError(
            f"the C name '{name[:20]}...' is {len(name)} characters long",
            why=f"compilers need not tell names apart that differ after {_LONGEST} characters",
            hint="give a shorter one with --name",
        )
    if name[0].isdigit() or name in _RESERVED | _HEADERS or f"ai_{name}" in _HEADERS or name == "ai":
        name = f"net_{name}"
    return name


def comment_text(text: str) -> str:
    """Text that is safe inside a C block comment, printable ASCII, at most about a line long."""
    clean = "".join(c if " " <= c <= "~" else "?" for c in text).replace("*/", "* /").replace("/*", "/ *")
    clean = clean.replace("??", "? ?")
    return clean if len(clean) <= 90 else f"{clean[:43]}...{clean[-44:]}"


def string_literal(text: str) -> str:
    """A C string literal of UTF-8 text."""
    out = []
    for byte in text.encode("utf-8", "surrogateescape"):
        char = chr(byte)
        if char in '"\\' or char == "?":
            out.append("\\" + char)
        elif " " <= char <= "~":
            out.append(char)
        else:
            out.append(f"\\{byte:03o}")
    return '"' + "".join(out) + '"'


def check_arena_name(name: str, where: str) -> None:
    """Raise :class:`Error` for a name that no shared arena can have in C."""
    if not re.fullmatch(r"[A-Za-z]\w{0,62}", name, re.ASCII) or is_reserved(name):
        raise Error(f"{where}: {quoted(name)} is no C name", hint="letters, digits and _, a letter first")
    # Types, macros, and functions every image has.
    if name.endswith("_t") or name.isupper() or name.lower().startswith("ai_") or name in _TAKEN:
        raise Error(f"{where}: the C name {quoted(name)} has another meaning", hint="for example shared_arena")
