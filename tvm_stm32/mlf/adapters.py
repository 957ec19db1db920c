"""C between a network's calls and the functions of an archive: their text made private, and one adapter for each call.

An adapter is a kernel like any other: pointers in, pointers out, scratch memory last. It makes what the old calling
convention wants (values and tensor descriptions on the stack) and hands on whether the function failed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..cnames import comment_text
from ..library import Kernel
from .names import Names
from .sources import Sources
from .workspace import Workspaces

SHIM = "ai_tvm_shim.h"

# What generated kernels do that this project's own C does not.
_DIAGNOSTICS = (
    "-Wpragmas",
    "-Wunknown-warning-option",
    "-Wcast-align",
    "-Wcast-qual",
    "-Wconversion",
    "-Wdouble-promotion",
    "-Wempty-body",
    "-Wfloat-conversion",
    "-Wincompatible-pointer-types",
    "-Wmaybe-uninitialized",
    "-Wmissing-prototypes",
    "-Wparentheses",
    "-Wpedantic",
    "-Wshadow",
    "-Wsign-compare",
    "-Wsign-conversion",
    "-Wtype-limits",
    "-Wundef",
    "-Wunused-but-set-variable",
    "-Wunused-function",
    "-Wunused-parameter",
    "-Wunused-variable",
)
_CODES = {"i": "kDLInt", "u": "kDLUInt", "f": "kDLFloat", "b": "kDLUInt"}


@dataclass(frozen=True)
class Operand:
    """A tensor handed to an old function; the function may write to an ``output``."""

    shape: tuple[int, ...]
    dtype: str
    output: bool

    @property
    def text(self) -> str:
        """For a comment."""
        return f"{'x'.join(map(str, self.shape)) or 'scalar'} {self.dtype}"


class Adapters:
    """Makes the kernels of network ``name`` from a module's sources."""

    def __init__(self, name: str, sources: Sources, workspaces: Workspaces, *, graph: bool) -> None:
        self.name = name
        self.sources = sources
        self.workspaces = workspaces
        self.kernels: dict[str, Kernel] = {}
        self._known: dict[tuple[str, ...], str] = {}
        self._names = Names()
        self._constants = {name: self._names.new_c(f"{self.name}_const", name) for name in sources.constants}
        users = [function for function in sources.functions if workspaces.allocates(function)]
        self._uses_stack = bool(users)
        # Where each function that wants scratch memory is called from here, it gets its stack as an argument;
        # elsewhere a variable of the file says which is in use.
        inner = {name for function in sources.functions for name in workspaces.calls(function) - {function}}
        self._by_handle = graph and all(
            re.search(r"\bvoid\s*\*\s*resource_handle\b", sources.functions[user].head) and user not in inner
            for user in users
        )

    @property
    def shares_stack(self) -> bool:
        """Whether a variable says which scratch memory is in use, so that two runs may not be under way at once."""
        return self._uses_stack and not self._by_handle

    def archive_text(self) -> Kernel:
        """All functions of the archive."""
        own = [f"#define {constant} {self.constant(constant)}" for constant in self.sources.constants]
        lines = ["/* Functions of the archive as their generator wrote them, private to this file. */"]
        if self.shares_stack:
            lines += [f"static ai_tvm_stack {self.name}_stack;", ""]
        if self._uses_stack:
            own.append(f"#define AI_TVM_STACK {self._stack_text()}")
        lines += ["#if defined(__GNUC__)", "#pragma GCC diagnostic push"]
        lines += [f'#pragma GCC diagnostic ignored "{warning}"' for warning in _DIAGNOSTICS]
        lines += ["#endif", *(f"#include <{header}>" for header in self.sources.includes if header != "math.h")]
        lines += [*own, *self.sources.text, *(f"#undef {line.split()[1]}" for line in own)]
        lines += ["#if defined(__GNUC__)", "#pragma GCC diagnostic pop", "#endif"]
        source = "\n".join(line.rstrip() for line in "\n".join(lines).split("\n"))
        return Kernel(
            f"{self.name}_archive",
            source,
            headers=(SHIM, *self.sources.runtime),
            libm=tuple(sorted(self.sources.libm)),
            uses_float="math.h" in self.sources.includes,
            kind="MLF",
        )

    def constant(self, name: str) -> str:
        """The C name of a constant of the archive in the network's data file."""
        return self._constants[name]

    def packed(
        self, function: str, operands: Sequence[Operand], pools: Sequence[tuple[int, int]] = (), stack_at: int = 0
    ) -> str:
        """The kernel that calls a packed function on tensors; returns its name.

        ``pools`` are the (offset in the workspace, bytes) of memory handed over as further tensors, bytes 0 for a
        constant, which is an argument of the kernel. Scratch memory starts at ``stack_at``.
        """
        total = len(operands) + len(pools)
        key = (function, *(operand.text for operand in operands))
        if key in self._known:
            return self._known[key]
        kernel = self._names.new_c(f"{self.name}_op", self.operator(function))
        self._known[key] = kernel
        parameters, body = [], []
        shapes: list[str] = []
        for number, operand in enumerate(operands):
            parameters.append(f"{'' if operand.output else 'const '}void *data_{number}")
            shape = ", ".join(str(extent) for extent in operand.shape) or "1"
            shapes.append(f"static const int64_t shape_{number}[{max(1, len(operand.shape))}] = {{{shape}}};")
            bits = 1 if operand.dtype == "bool" else 8 * np.dtype(operand.dtype).itemsize
            body.append(
                f"ai_tvm_argument(tensors, values, codes, {number}U, data_{number}, shape_{number}, "
                f"{len(operand.shape)}, (uint8_t){_CODES[np.dtype(operand.dtype).kind]}, {bits}U);"
            )
        for number, (offset, size) in enumerate(pools, len(operands)):
            place = f"workspace + {offset}" if size else f"data_{number}"
            if not size:
                parameters.append(f"const void *data_{number}")
            shapes.append(f"static const int64_t shape_{number}[1] = {{{max(1, size)}}};")
            body.append(
                f"ai_tvm_argument(tensors, values, codes, {number}U, {place}, shape_{number}, 1, (uint8_t)kDLUInt, 8U);"
            )
        stack, handle = self._stack(function, stack_at)
        if stack or any(size for _, size in pools):
            parameters.append("uint8_t *workspace")
        lines = [
            *shapes,
            f"DLTensor tensors[{total}];",
            f"TVMValue values[{total}];",
            f"int32_t codes[{total}];",
            "TVMValue result;",
            "int32_t result_code = 0;",
            *(line for line in stack if line.startswith("ai_tvm_stack")),
            "",
            "result.v_int64 = 0;",
            *(line for line in stack if not line.startswith("ai_tvm_stack")),
            *body,
            f"return {function}(",
            f"    (void *)values, (void *)codes, {total}, (void *)&result, (void *)&result_code, {handle});",
        ]
        self._add(kernel, function, parameters, lines, operands)
        return kernel

    def unpacked(self, function: str, arguments: Sequence[str], operands: Sequence[Operand], stack_at: int) -> str:
        """The kernel that calls a function on plain pointers; returns its name.

        Each argument is ``tensor`` (the next operand), ``constant`` (a kernel argument) or an offset in the workspace;
        scratch memory starts at ``stack_at``.
        """
        kernel = self._names.new_c(f"{self.name}_op", self.operator(function))
        parameters, handed = [], []
        tensors = iter(operands)
        workspace = False
        for number, argument in enumerate(arguments):
            if argument == "tensor":
                const = "" if next(tensors).output else "const "
            elif argument == "constant":
                const = "const "
            else:
                handed.append(f"(void *)(workspace + {argument})")
                workspace = True
                continue
            parameters.append(f"{const}void *data_{number}")
            handed.append(f"(void *)(uintptr_t)data_{number}" if const else f"data_{number}")
        stack, _ = self._stack(function, stack_at)
        if stack or workspace:
            parameters.append("uint8_t *workspace")
        self._add(kernel, function, parameters, [*stack, *_call(function, handed)], operands)
        return kernel

    def copy(self, size: int) -> str:
        """The kernel that copies so many bytes; returns its name."""
        kernel = f"{self.name}_copy_{size}"
        if kernel not in self.kernels:
            source = (
                f"static void {kernel}(const void *input, void *output)\n{{\n"
                f"    (void)memcpy(output, input, {size}U);\n}}\n"
            )
            self.kernels[kernel] = Kernel(kernel, source, kind="MLF")
        return kernel

    def operator(self, function: str) -> str:
        """What a function computes, from its name: without the prefixes of generator and module."""
        stem = re.sub(r"^tvmgen_[a-z0-9_]*?_(?=fused_|__)", "", function)
        return stem.removeprefix("fused_").strip("_") or function

    def _add(
        self, kernel: str, function: str, parameters: list[str], lines: list[str], operands: Sequence[Operand]
    ) -> None:
        ins = ", ".join(operand.text for operand in operands if not operand.output)
        outs = ", ".join(operand.text for operand in operands if operand.output)
        indented = "\n".join(f"    {line}" if line else "" for line in lines)
        source = (
            f"/* {comment_text(self.operator(function))}: {comment_text(ins)} -> {comment_text(outs)} */\n"
            f"static int32_t {kernel}({', '.join(parameters)})\n{{\n{indented}\n}}\n"
        )
        body = self.sources.functions[function].body
        floats = re.search(r"\b(float|double)\b", body) is not None
        self.kernels[kernel] = Kernel(kernel, source, uses_float=floats, kind="MLF", fails=True)

    def _stack(self, function: str, start: int) -> tuple[list[str], str]:
        """Lines that ready the scratch memory a call needs, and the handle that goes with the call."""
        size = self.workspaces.bytes(function)
        if not size:
            return [], "NULL"
        place = f"workspace + {start}" if start else "workspace"
        if self._by_handle:
            return [f"ai_tvm_stack stack = {{{place}, {size}U, 0U}};"], "(void *)&stack"
        return [
            f"{self.name}_stack.memory = {place};",
            f"{self.name}_stack.size = {size}U;",
            f"{self.name}_stack.used = 0U;",
        ], "NULL"

    def _stack_text(self) -> str:
        return "((ai_tvm_stack *)resource_handle)" if self._by_handle else f"(&{self.name}_stack)"


def _call(function: str, arguments: list[str]) -> list[str]:
    """A call as lines of the usual length."""
    line = f"return {function}({', '.join(arguments)});"
    if len(line) <= 116:
        return [line]
    return [f"return {function}(", *(f"    {argument}," for argument in arguments[:-1]), f"    {arguments[-1]});"]
