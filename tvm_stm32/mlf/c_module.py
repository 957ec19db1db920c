"""The C of a written archive: a Library as an ahead-of-time module with the C interface.

An application gives pointers to its inputs and outputs; everything else lies in one static workspace. Nothing but the
archive's own files and the C library is needed to compile it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..cnames import comment_text, is_reserved
from ..emit.literals import initialiser
from ..library import Argument, Call, Library, State
from ..library.ctypes import CTYPES
from ..memory.lifetimes import lifetimes, workspace_name
from ..memory.planner import place
from ..model import TensorInfo
from ..templates import text_templates

_LINE = 120
_LONGEST = 48


@dataclass(frozen=True)
class Port:
    """An input or output: its C name (``member``), C type, sizes in bytes.

    One that ``shares`` memory with another tensor is copied; the network works on all others where they are.
    """

    info: TensorInfo
    tensor: str
    member: str
    ctype: str
    size: int
    alignment: int
    shares: bool

    @property
    def variable(self) -> str:
        """The parameter of the main function."""
        return f"{self.member}_buffer_var"

    @property
    def text(self) -> str:
        """For a comment."""
        return f"{self.info.name}: {self.info.dtype} {'x'.join(map(str, self.info.shape)) or 'scalar'}"


class CModule:
    """The C files of ``library`` as module ``module``."""

    def __init__(self, library: Library, module: str) -> None:
        self.library = library
        self.module = module
        self._offsets: dict[str, int] = {}
        self.inputs = self._ports([info.name for info in library.inputs], library.inputs, library.input_tensors, [])
        self.outputs = self._ports(_output_names(library.outputs), library.outputs, library.output_tensors, self.inputs)
        self.workspace_bytes = self._place_workspace()

    def files(self) -> dict[str, str]:
        """Text of each file by its name in the archive."""
        environment = text_templates(Path(__file__).with_name("templates"), comment=comment_text)
        library = self.library
        kernels = library.kernels.values()
        values: dict[str, Any] = {
            "library": library,
            "module": self.module,
            "upper": self.module.upper(),
            "version": __version__,
            "settings": " ".join(f"{key}={value}" for key, value in sorted(library.settings.items())),
            "inputs": self.inputs,
            "outputs": self.outputs,
            "address": self.address,
            "workspace": max(1, self.workspace_bytes),
            "headers": sorted({header for kernel in kernels for header in kernel.headers} - {"math.h"}),
            "uses_math": any(kernel.libm or kernel.uses_float for kernel in kernels)
            or any(constant.data.dtype.kind == "f" for constant in library.constants.values()),
            "constants": [self._constant(name) for name in library.constants],
            "states": [self._state(state) for state in library.states],
            "calls": [{"call": call, "text": self._call(step, call)} for step, call in enumerate(library.calls)],
        }
        main = "".join(row["text"] for row in values["calls"])
        ports = [*self.inputs, *self.outputs]
        values["uses_workspace"] = "global_workspace_0_var" in main or any(port.shares for port in ports)
        values["unused"] = [port for port in ports if not port.shares and not self._is_used(port, main)]
        folder = "codegen/host"
        return {
            f"{folder}/include/tvmgen_{self.module}.h": environment.get_template("interface.h.j2").render(values),
            f"{folder}/src/{self.module}_lib0.c": environment.get_template("entry.c.j2").render(values),
            f"{folder}/src/{self.module}_lib1.c": environment.get_template("operators.c.j2").render(values),
        }

    def _ports(self, names: list[str], infos: list[TensorInfo], tensors: list[str], earlier: list[Port]) -> list[Port]:
        """Names are distinct over inputs and outputs, whatever the case: macros are made of them, too."""
        library = self.library
        ports: list[Port] = []
        taken = {"WORKSPACE", *(port.member.upper() for port in earlier)}
        for name, info, tensor in zip(names, infos, tensors, strict=True):
            stem = re.sub(r"\W", "_", name, flags=re.ASCII)[:_LONGEST] or "tensor"
            if stem[0].isdigit() or is_reserved(stem):
                stem = f"tensor_{stem}"
            member, number = stem, 1
            while member.upper() in taken:
                number += 1
                member = f"{stem}_{number}"
            taken.add(member.upper())
            root = library.root(tensor)
            known = [*earlier, *ports]
            shares = not library.movable(tensor) or any(library.root(port.tensor) == root for port in known)
            size, alignment = library.tensors[tensor].size, np.dtype(info.dtype).itemsize
            ports.append(Port(info, tensor, member, CTYPES[info.dtype], size, alignment, shares))
        return ports

    def _place_workspace(self) -> int:
        """Plan the memory anew, without what the application brings; returns the bytes of all."""
        library = self.library
        brought = {library.root(port.tensor) for port in (*self.inputs, *self.outputs) if not port.shares}
        buffers = [buffer for buffer in lifetimes(library) if not buffer.tensors or set(buffer.tensors) - brought]
        size = place(buffers, library.arena_alignment).size
        self._offsets = {name: buffer.offset for buffer in buffers for name in buffer.tensors or [buffer.name]}
        return size

    def address(self, tensor: str) -> str:
        """Where the memory of a tensor starts: at that of an input or output, or in the workspace."""
        library = self.library
        root = library.root(tensor)
        for port in (*self.inputs, *self.outputs):
            if not port.shares and library.root(port.tensor) == root:
                offset = library.root_offset(tensor)
                return f"((const uint8_t *){port.variable} + {offset})" if offset else port.variable
        return _place(self._offsets[root] + library.root_offset(tensor))

    def _is_used(self, port: Port, main: str) -> bool:
        """Whether the main function names a port's variable: in its calls, or to copy from it."""
        copied = any(other.shares and self.address(other.tensor) == port.variable for other in self.outputs)
        return copied or re.search(rf"\b{port.variable}\b", main) is not None

    def _call(self, step: int, call: Call) -> str:
        """The call as a statement, its arguments filled into lines."""
        fails = self.library.kernels[call.kernel].fails
        lines, line = [], f"    {'if (' if fails else ''}{call.kernel}("
        end = ") != 0) {\n        return -1;\n    }" if fails else ");"
        indent = " " * len(line)
        texts = [self._argument(step, call, argument) for argument in call.arguments]
        for number, text in enumerate(texts):
            text += ", " if number + 1 < len(texts) else end
            if len(line) + len(text.partition("\n")[0].rstrip()) > _LINE and line.endswith(" ") and line != indent:
                lines.append(line.rstrip())
                line = indent
            line += text
        return "\n".join([*lines, line if texts else line + end])

    def _argument(self, step: int, call: Call, argument: Argument) -> str:
        if argument.kind == "constant":
            return argument.name
        writes = argument.kind == "workspace" or argument.name in call.outputs
        if argument.kind == "workspace":
            address = _place(self._offsets[workspace_name(step)])
        else:
            address = self.address(argument.name)
        if writes:
            return f"({argument.ctype} *)(void *){address.replace('(const uint8_t *)', '(uint8_t *)')}"
        return f"(const {argument.ctype} *)(const void *){address}"

    def _constant(self, name: str) -> dict[str, Any]:
        data = self.library.constants[name].data
        return {
            "name": name,
            "ctype": CTYPES[str(data.dtype)],
            "count": max(1, data.size),
            "values": initialiser(data) if data.size else "    0,",
        }

    def _state(self, state: State) -> dict[str, Any]:
        tensor = self.library.tensors[state.tensor]
        initial = np.full(1, state.initial, tensor.dtype)
        return {
            "name": state.name,
            "address": self.address(state.tensor),
            "count": tensor.size // initial.itemsize,
            "ctype": CTYPES[tensor.dtype],
            "value": initialiser(initial).strip().rstrip(","),
        }


def _output_names(infos: list[TensorInfo]) -> list[str]:
    """Outputs without names of their own are called as the exporters of the format called them."""
    plain = ["output"] if len(infos) == 1 else [f"output{number}" for number in range(len(infos))]
    return [
        usual if info.name == f"output_{number}" else info.name
        for number, (info, usual) in enumerate(zip(infos, plain, strict=True))
    ]


def _place(offset: int) -> str:
    return f"(global_workspace_0_var + {offset})" if offset else "global_workspace_0_var"
