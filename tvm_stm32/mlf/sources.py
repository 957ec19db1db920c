"""The C of a module: its functions, made private to the network's file; its constants; and what of it is not needed."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from ..errors import ModelError, UnsupportedOperatorError, quoted
from ..resources import resource_dir
from .archive import Archive
from .ctext import Item, items
from .values import constant_array, constant_pool

_FOLDER = r"codegen/host/src/"
_HEADERS = frozenset(
    f"{name}.h"
    for name in ("arm_acle", "float", "inttypes", "limits", "math", "stdbool", "stddef", "stdint", "stdlib", "string")
)
# What the registry of an archive consists of; the network has no use for it.
_REGISTRY = re.compile(
    r"\b(TVMBackendPackedCFunc|TVMFuncRegistry|TVMModule|tvm_model_t|TVM(Tensor|Constant)Info|TVMMetadata)\b"
)
_ENTRY = re.compile(r"TVMSystemLibEntryPoint|tvmgen_\w+_(run|map_inputs|map_outputs|get_c_metadata)")
_METADATA = re.compile(r"kTvmgenMetadata\w*")
_POOL = re.compile(r"uint8_t\s+(\w*global_workspace\w*)\s*\[\s*(\d{1,10})\s*\]")
_REINTERPRETED = re.compile(
    r"^[ \t]*(?P<kind>\w+ ?\**) (?P<declared>v_\w*) = "
    r"|\(\*\((?P<target>[\w ]+\**) ?\*\)\(&\((?P<name>v_\w*)\)\)\)",
    re.MULTILINE,
)
_SHIM = frozenset(("TVMBackendAllocWorkspace", "TVMBackendFreeWorkspace", "TVMAPISetLastError"))

# fmt: off
_REAL = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign", "cos", "cosh", "erf",
    "erfc", "exp", "exp2", "expm1", "fabs", "floor", "fma", "fmax", "fmin", "fmod", "hypot", "ldexp", "lgamma",
    "log", "log10", "log1p", "log2", "nearbyint", "nextafter", "pow", "rint", "round", "sin", "sinh", "sqrt", "tan",
    "tanh", "tgamma", "trunc",
)
# fmt: on
_LIBM = frozenset(f"{name}{suffix}" for name in _REAL for suffix in ("", "f"))
_LIBC = _LIBM | frozenset(("abs", "labs", "llabs", "memcpy", "memmove", "memset"))
_VECTOR = re.compile(r"\b(float|double|u?int(?:8|16|32|64)?(?:_t)?)(?:2|3|4|8|16)\b\s*(?=[\w*()])")
_FILE = re.compile(r"^\s*#\s*(include|import|embed)|\.inc(bin|lude)\b", re.MULTILINE)
_HEAP = ("malloc", "calloc", "realloc", "free", "TVMPlatformMemoryAllocate", "TVMPlatformMemoryFree")


@dataclass
class Sources:
    """What a module's C files hold.

    ``functions`` by name; ``text`` is everything to compile, private to one file; ``constants`` are arrays the
    functions name; ``pool`` and ``pool_bytes`` are the constants and the size of the RAM behind ``global_workspace``
    of an ahead-of-time module; ``metadata`` is the C text of its description. ``includes`` are headers of the C
    library, ``runtime`` those of this project's runtime.
    """

    functions: dict[str, Item] = field(default_factory=dict)
    text: list[str] = field(default_factory=list)
    includes: list[str] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    pool: np.ndarray | None = None
    pool_bytes: int = 0
    metadata: dict[str, str] = field(default_factory=dict)
    runtime: list[str] = field(default_factory=list)
    libm: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)

    @property
    def needs_dsp(self) -> bool:
        """Whether the kernels use instructions of Cortex-M's DSP extension."""
        return "arm_acle.h" in self.includes or "ai_kernels_dsp.h" in self.runtime

    @property
    def needs_mve(self) -> bool:
        """Whether the kernels use Helium's instructions."""
        return "ai_kernels_mve.h" in self.runtime


def read_sources(archive: Archive, module: str, modules: int) -> Sources:
    """The C of ``module``, one of so many in the archive. Raises :class:`ModelError`."""
    names = _files(archive, module, modules)
    sources = Sources()
    parts: list[Item] = []
    for name in names:
        parts += items(_corrected(archive.text(name)), f"{archive.name}: {name}")
    _take_functions(archive, sources, parts)
    declared: set[str] = set()
    for item in parts:
        if item.kind == "directive":
            _directive(archive, sources, item)
        elif item.kind == "function":
            if not _ENTRY.fullmatch(item.name):
                sources.text.append(_private(item.text))
        elif item.kind == "prototype":
            # Files of one archive declare a function with different types; its definition has the right ones.
            if item.name in sources.functions and item.name not in declared:
                declared.add(item.name)
                sources.text.append(_private(f"{sources.functions[item.name].head};"))
        elif item.kind == "data":
            _data(archive, sources, item)
        else:
            sources.text.append(item.text)
    _check_calls(archive, sources, parts)
    return sources


def _corrected(text: str) -> str:
    """Text of old generators as a C99 compiler should see it."""
    # They called the device of a tensor its context.
    text = re.sub(r"\.ctx\.device_(id|type)\b", r".device.device_\1", text)
    # They read a variable v_ through a pointer to another type, which C leaves undefined; a union does not.
    kinds: dict[str, str] = {}

    def union(match: re.Match[str]) -> str:
        if match["kind"] is not None:
            # The same name is declared with another type elsewhere; the last declaration counts.
            kinds[match["declared"]] = match["kind"]
            return match.group()
        kind, target, name = kinds.get(match["name"]), match["target"], match["name"]
        return match.group() if kind is None else f"(((union {{{kind} from; {target} to;}}){{{name}}}).to)"

    return _REINTERPRETED.sub(union, text)


def _files(archive: Archive, module: str, modules: int) -> list[str]:
    found = archive.find(_FOLDER + r".*\.(c|cc|cpp)")
    if modules > 1:
        found = [name for name in found if re.fullmatch(_FOLDER + re.escape(module) + r"_lib\d+\.\w+", name)]
    for name in found:
        if not name.endswith(".c"):
            raise ModelError(
                f"{archive.name}: {name} is C++",
                why="a network is C, and firmware need not have a C++ compiler",
                hint="export the model with kernels in C only",
            )
    if not found:
        objects = sorted(name for name in archive.names if name.endswith((".o", ".a")))
        what = f"only objects for one machine ({objects[0]})" if objects else "no C files"
        raise ModelError(
            f"{archive.name}: module {quoted(module)} has {what}",
            why="kernels are compiled for the network's own target",
            hint="export the model with target 'c'",
        )
    return sorted(found, key=_by_number)


def _by_number(name: str) -> list[tuple[int, str]]:
    """``lib2.c`` before ``lib10.c``."""
    return [(int(word) if word.isdecimal() else 0, word) for word in re.split(r"(\d{1,9})", name)]


def _take_functions(archive: Archive, sources: Sources, parts: Iterable[Item]) -> None:
    for item in parts:
        if item.kind != "function" or _ENTRY.fullmatch(item.name):
            continue
        # The same text twice stands between guards.
        if item.name in sources.functions and sources.functions[item.name].text != item.text:
            raise ModelError(
                f"{archive.name}: the function {quoted(item.name)} is there twice", hint="export the archive again"
            )
        sources.functions[item.name] = item


def _directive(archive: Archive, sources: Sources, item: Item) -> None:
    header = included(item, archive.name)
    if header is None:
        if not re.match(r"#\s*define\s+TVM_EXPORTS\b", item.text):
            sources.text.append(item.text)
        return
    if re.search(r"(^|/)(tvm/runtime|dlpack)/[\w/]+\.h$", header) or re.fullmatch(r"tvmgen_\w+\.h", header):
        return
    known = sources.includes if header in _HEADERS else sources.runtime
    if header not in known:
        known.append(header)


def included(item: Item, where: str) -> str | None:
    """The header a directive includes, None when it includes none.

    Raises :class:`ModelError` for one that kernels have no use for.
    """
    match = re.match(r"#\s*include\s*[<\"](.*?)[>\"]", item.text)
    if match is None:
        if re.match(r"#\s*(include|import|embed)", item.text):
            raise ModelError(f"{where}: '{item.text[:60]}' in its C files is no plain file name")
        return None
    header = match.group(1)
    if re.search(r"(^|/)(tvm/runtime|dlpack)/[\w/]+\.h$", header) or re.fullmatch(r"tvmgen_\w+\.h", header):
        return header
    # The shim belongs to adapters of kernels, not to kernels.
    if header not in _HEADERS | runtime_headers() - {"ai_tvm_shim.h"}:
        raise ModelError(
            f"{where}: its kernels include {quoted(header)}, which is not in the archive",
            why="kernels may include " + ", ".join(sorted(_HEADERS)),
            hint="export the model for the plain 'c' target, without external libraries",
        )
    return header


@functools.cache
def runtime_headers() -> frozenset[str]:
    """Names of the headers of this project's runtime."""
    return frozenset(path.name for path in (resource_dir("runtime") / "include").glob("*.h"))


def _data(archive: Archive, sources: Sources, item: Item) -> None:
    if _METADATA.fullmatch(item.name):
        sources.metadata[item.name] = item.text
        return
    if _REGISTRY.search(item.text.split("=", 1)[0]):
        return
    if item.name == "global_const_workspace":
        sources.pool = constant_pool(item, archive.name)
        return
    pool = _POOL.search(item.text)
    if pool is not None and "=" not in item.text:
        sources.pool_bytes = int(pool.group(2))
        return
    constant = constant_array(item)
    if constant is not None:
        known = sources.constants.get(constant[0], constant[1])
        if known.dtype != constant[1].dtype or known.tobytes() != constant[1].tobytes():
            raise ModelError(f"{archive.name}: the constant {quoted(constant[0])} is there twice")
        sources.constants[constant[0]] = constant[1]
        return
    sources.text.append(_private(item.text))
    if "const" not in item.text.split("=", 1)[0].split():
        sources.notes.append(f"the archive's variable '{item.name}' is shared by all instances of the network")


def _private(text: str) -> str:
    """A function, prototype or variable as ``static``."""
    text = re.sub(r"\b(TVM_DLL|extern)\b\s*", "", text)
    head = text.split("{")[0].split("=")[0]
    if re.match(r"\s*AI_INLINE\b", head):  # which says static itself
        return text
    if "always_inline" in head and not re.search(r"\b(__)?inline(__)?\b", head):
        text = f"inline {text}"
    return text if re.search(r"\bstatic\b", head) else f"static {text}"


def _check_calls(archive: Archive, sources: Sources, parts: list[Item]) -> None:
    declared = {item.name for item in parts if item.kind == "prototype"}
    check_files(parts, archive.name)
    for item in sources.functions.values():
        vector = _VECTOR.search(item.body)
        if vector is not None and vector.group().strip() not in ("int8", "int16"):
            raise UnsupportedOperatorError(
                f"{archive.name}: the function {quoted(item.name)} uses the vector type {vector.group().strip()}",
                why="C has no such type",
                hint='export the model with the pass option {"tir.disable_vectorize": True}',
            )
        for name in sorted(set(re.findall(r"\b([A-Za-z_]\w*)\s*\(", item.body))):
            if name in sources.functions or name in _SHIM:
                continue
            if name in _HEAP:
                raise UnsupportedOperatorError(
                    f"{archive.name}: the function {quoted(item.name)} calls {name}",
                    why="a network has static memory only",
                    hint="export the model without external kernels that use a heap",
                )
            if name in _LIBM:
                sources.libm.add(name)
            elif name not in _LIBC and (name in declared or name.startswith(("TVM", "tvmgen_", "tvm_"))):
                raise UnsupportedOperatorError(
                    f"{archive.name}: {quoted(item.name)} calls {quoted(name)}, which is not in the archive",
                    why="it belongs to another library, or the archive is incomplete",
                    hint="export the model for the plain 'c' target, without external libraries",
                )


def check_files(parts: Iterable[Item], where: str) -> None:
    """Raise :class:`ModelError` for C that takes in a file of the computer that compiles it."""
    for item in parts:
        if item.kind != "directive" and _FILE.search(item.text):
            raise ModelError(
                f"{where}: the {'function' if item.kind == 'function' else item.kind} {quoted(item.name)} "
                "includes a file",
                why="no generator writes that",
                hint="do not use this archive",
            )
