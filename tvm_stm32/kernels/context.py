"""What a kernel module needs while it adds calls to a library: names, constants, templates."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from tvm import relax

from ..library import Argument, Call, Constant, Kernel, Library, Tensor
from ..library.ctypes import CTYPES
from ..target import Target
from ..templates import text_templates
from .wanted import WantedForms, is_chain_form


@dataclass
class Usage:
    """What an operator executes, and the code it brings."""

    instructions: float = 0.0
    cycles: float = 0.0
    code: float = 0.0

    def add(self, instructions: float, cycles: float | None = None, code: float = 0.0) -> None:
        """Executed ``instructions``; C around blocks takes about 1.35 cycles for each."""
        self.instructions += instructions
        self.cycles += instructions * 1.35 if cycles is None else cycles
        self.code += code


@dataclass
class KernelContext:
    """Builds one library for one target. ``level`` is the optimisation level (time, balanced, ram, size);
    ``assembly`` whether inner kernels are GNU assembly, or C with the same bytes; ``macs`` are those of all integer
    convolutions and dense layers, ``weight_bytes`` their weights; ``forms`` are kernels set by hand, ``number`` is the
    operator's for them (empty: as many as there are calls). ``usage`` counts what the operator at hand executes,
    ``repeats`` how many have its shape. ``alternatives`` are the calls of every node in every form there is. A
    ``sketch`` is for costs only: blocks have no text in it.
    """

    library: Library
    target: Target
    level: str = "time"
    assembly: bool = True
    macs: int = 0
    weight_bytes: int = 0
    forms: WantedForms = field(default_factory=WantedForms)
    number: str = ""
    usage: Usage = field(default_factory=Usage)
    repeats: int = 1
    sketch: bool = False
    alternatives: dict[str, dict[str, Call]] = field(default_factory=dict)
    _by_source: dict[str, str] = field(init=False, default_factory=dict)
    _by_data: dict[tuple[str, tuple[int, ...], bytes], str] = field(init=False, default_factory=dict)

    def fork(self) -> KernelContext:
        """A context in which an operator can be lowered on trial."""
        library = replace(
            self.library,
            kernels=dict(self.library.kernels),
            constants=dict(self.library.constants),
            calls=list(self.library.calls),
            float_operators=list(self.library.float_operators),
        )
        trial = replace(self, library=library, usage=Usage(), alternatives={})
        trial._by_source, trial._by_data = dict(self._by_source), dict(self._by_data)
        return trial

    def adopt(self, trial: KernelContext) -> None:
        """What was lowered in a fork of this context becomes part of it."""
        for name in ("kernels", "constants", "calls", "float_operators"):
            setattr(self.library, name, getattr(trial.library, name))
        self._by_source, self._by_data = trial._by_source, trial._by_data

    def wanted_form(self, node: str) -> str:
        """The form of kernel set for the operator at hand, which is ``node``; empty: none."""
        form = self.forms.of(self.number or str(len(self.library.calls)), node)
        # What is set for a chain says nothing about its parts.
        return "" if "." in self.number and is_chain_form(form) else form

    def render(self, template: str, **values: Any) -> str:
        """C text of a template; ``NAME`` in it stands for the kernel's name (see :meth:`kernel`)."""
        return _templates().get_template(template).render(target=self.target, **values)

    def kernel(self, stem: str, source: str, **properties: Any) -> Kernel:
        """The kernel with this source, shared by all operators whose source is the same. ``NAME`` becomes its name."""
        known = self._by_source.get(source)
        if known is not None:
            return self.library.kernels[known]
        base = f"{self.library.name}_{re.sub('[^0-9A-Za-z_]+', '_', stem)}"
        name, number = base, 2
        while self._is_taken(name):
            name, number = f"{base}_{number}", number + 1
        kernel = Kernel(name, _tidied(re.sub(r"\bNAME(?=\b|_)", name, source)), **properties)
        self.library.kernels[name] = kernel
        self._by_source[source] = name
        return kernel

    def constant(self, stem: str, data: np.ndarray) -> str:
        """Name of a constant holding ``data``; equal data share one."""
        data = np.ascontiguousarray(data)
        key = (str(data.dtype), data.shape, data.tobytes())
        if key not in self._by_data:
            base = f"{self.library.name}_{re.sub('[^0-9A-Za-z_]+', '_', stem)}"
            name, number = base, 2
            while self._is_taken(name):
                name, number = f"{base}_{number}", number + 1
            self.library.constants[name] = Constant(name, data)
            self._by_data[key] = name
        return self._by_data[key]

    def _is_taken(self, name: str) -> bool:
        """Whether a kernel or a constant has this C name."""
        return name in self.library.kernels or name in self.library.constants

    def tensor(self, name: str, expr: relax.Expr) -> str:
        """Declare the tensor that holds ``expr``'s value under ``name``."""
        shape = tuple(int(extent) for extent in expr.ty.shape)
        self.library.tensors[name] = Tensor(name, shape, str(expr.ty.dtype))
        return name

    def add_kernel_call(
        self,
        operator: str,
        node: str,
        kernel: Kernel,
        arguments: list[Argument],
        data: str,
        output: str,
        *,
        macs: int,
        detail: str,
        workspace: int = 0,
        workspace_ctype: str = "int8_t",
        distance: int | None = None,
        same_place: bool = False,
    ) -> None:
        """Append a call of an operator with one input: ``arguments`` and, if it needs any, ``workspace`` bytes.

        ``distance``: see :mod:`.overlap`; None when input and output must lie apart, or (``same_place``) start in one
        place.
        """
        if workspace:
            arguments = [*arguments, workspace_argument(workspace_ctype)]
        self.add_call(
            Call(
                operator,
                node,
                kernel.name,
                tuple(arguments),
                (data,),
                (output,),
                macs=macs,
                workspace=workspace,
                overlaps={} if distance is None else {data: distance},
                same_place=data if same_place else "",
                detail=detail,
            )
        )

    def add_call(self, call: Call) -> None:
        """Append a call to the network."""
        self.library.calls.append(call)


@cache
def _templates() -> jinja2.Environment:
    """One for all contexts: a template is compiled once."""
    environment = text_templates(Path(__file__).with_name("templates"))
    environment.globals["step"] = _step
    return environment


_SIGNATURE = re.compile(r"^((?:static|AI_INLINE|AI_NAKED) void \w+\()([^{;]*?)(\)\n\{)", re.M | re.S)
_LINE = 120


def _tidied(source: str) -> str:
    """Source with what templates cannot know put right: lines of a signature, factors of one."""
    source = re.sub(r" \* 1(?=[;,)\]\s])", "", source)
    return _SIGNATURE.sub(lambda match: _filled(match[1], match[2].split(","), match[3]), source)


def _filled(head: str, parameters: list[str], tail: str) -> str:
    lines, line, indent = [], head, " " * len(head)
    for number, parameter in enumerate(parameters):
        last = number + 1 == len(parameters)
        text = " ".join(parameter.split()) + ("" if last else ",")
        if len(line) + len(text) + (1 if last else 0) > _LINE and line not in (head, indent):
            lines.append(line.rstrip())
            line = indent
        line += text if last else f"{text} "
    return "\n".join([*lines, line]) + tail


def _step(index: str, factor: int, minus: int) -> str:
    """``index * factor - minus`` without what does nothing."""
    text = index if factor == 1 else f"{index} * {factor}"
    return f"{text} - {minus}" if minus else text


def tensor_argument(name: str, dtype: str) -> Argument:
    """Pointer to a tensor of ``dtype``."""
    return Argument("tensor", name, CTYPES[dtype])


def constant_argument(name: str, dtype: str) -> Argument:
    """Pointer to a constant of ``dtype``."""
    return Argument("constant", name, CTYPES[dtype])


def workspace_argument(ctype: str) -> Argument:
    """Pointer to the call's scratch memory, seen as ``ctype``."""
    return Argument("workspace", "", ctype)
