"""A PrimFunc as a C function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tvm import ir, tirx

from .literals import c_type
from .lowering import flatten, maxima_from_infinity
from .schedule import schedule
from .statements import StatementPrinter
from .walk import all_statements
from .workspace import constant_elements, element_type, plan
from .writer import Buffer, Writer, wrap


class Parameter(NamedTuple):
    """A tensor a kernel works on: a pointer to elements of ``ctype`` (const for inputs)."""

    name: str
    ctype: str
    is_output: bool
    shape: tuple[int, ...]


@dataclass(frozen=True)
class TirKernel:
    """A C function made from a PrimFunc.

    ``source`` is the complete ``static void name(...)`` definition; it needs ``stdint.h``, and ``math.h`` when
    ``uses_float``. ``parameters`` are in ``call_tir`` order: inputs, then outputs. Inputs may alias each other; an
    output must not overlap anything. A kernel with ``workspace`` > 0 takes that many bytes of scratch memory, 8-byte
    aligned, as a last parameter ``uint8_t *workspace``. ``macs`` are multiply-accumulates of one call (with padding).
    """

    name: str
    source: str
    parameters: tuple[Parameter, ...]
    workspace: int
    libm: tuple[str, ...]
    uses_float: bool
    macs: int


def lower_prim_func(func: tirx.PrimFunc, name: str) -> TirKernel:
    """Schedule, lower and print a PrimFunc (inputs first, outputs last) as C function ``name``.

    Raises :class:`UnsupportedOperatorError` naming the intrinsic, type or statement that C code cannot express.
    """
    flat = flatten(schedule(maxima_from_infinity(func)))
    parameters = _parameters(flat)
    workspace = plan(flat.body)
    writer = Writer([parameter.name for parameter in parameters])
    printer = StatementPrinter(writer, workspace, constant_elements(flat.body))
    for variable, parameter in zip(flat.params, parameters, strict=True):
        printer.expressions.buffers[variable] = Buffer(parameter.name, element_type(variable))
    printer.write(flat.body)
    return TirKernel(
        name=name,
        source=_definition(name, parameters, workspace.size, writer),
        parameters=parameters,
        workspace=workspace.size,
        libm=tuple(sorted(writer.libm)),
        uses_float=writer.uses_float,
        macs=printer.macs,
    )


def _parameters(func: tirx.PrimFunc) -> tuple[Parameter, ...]:
    """Tensors of a lowered function; those it stores to are its outputs."""
    views = {variable: variable for variable in func.params}
    written = set()
    for stmt in all_statements(func.body):
        if isinstance(stmt, tirx.DeclBuffer):
            source = stmt.data.args[0] if isinstance(stmt.data, ir.Call) else stmt.data
            views[stmt.buffer] = views.get(source, source)
        elif isinstance(stmt, tirx.BufferStore):
            written.add(views.get(stmt.buffer, stmt.buffer))
    outputs = [variable in written for variable in func.params]
    numbers = {True: 0, False: 0}
    parameters = []
    for variable, is_output in zip(func.params, outputs, strict=True):
        shape = tuple(int(extent) for extent in variable.ty.shape)
        stem = "out" if is_output else "in"
        name = stem if outputs.count(is_output) == 1 else f"{stem}{numbers[is_output]}"
        numbers[is_output] += 1
        parameters.append(Parameter(name, c_type(element_type(variable)), is_output, shape))
    return tuple(parameters)


def _definition(name: str, parameters: tuple[Parameter, ...], workspace: int, writer: Writer) -> str:
    declarations = [
        f"{'' if parameter.is_output else 'const '}{parameter.ctype} *restrict {parameter.name}"
        for parameter in parameters
    ]
    if workspace:
        declarations.append("uint8_t *workspace")
    unused = [f"    (void){parameter.name};" for parameter in parameters if parameter.name not in writer.used]
    head = f"static void {name}({', '.join(declarations)})"
    lines = [head, "{", *unused, *writer.lines, "}", ""]
    return "\n".join(part for line in lines for part in wrap(line))
