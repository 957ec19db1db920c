"""Printing TIR statements as C99."""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx

from ...errors import UnsupportedOperatorError
from .bounds import Bounds
from .expressions import ExpressionPrinter
from .literals import c_type
from .text import atom, dtype_of
from .walk import Stmt, accesses, loads, statement_expressions
from .workspace import LOCAL_BYTES, Workspace, byte_size, element_count, element_type
from .writer import Buffer, Writer

_COMPOUND = {tirx.Add: "+=", tirx.Sub: "-=", tirx.Mul: "*="}
_COMPOUND_TYPES = frozenset({"float32", "int32", "int64", "uint32", "uint64"})
_INT32_MAX = (1 << 31) - 1


class StatementPrinter:
    """Writes the statements of one function; ``macs`` counts multiply-accumulates as it goes."""

    def __init__(self, writer: Writer, workspace: Workspace, constant_elements: set[ir.Var]) -> None:
        self.writer = writer
        self.bounds = Bounds()
        self.expressions = ExpressionPrinter(writer, self.bounds)
        self.workspace = workspace
        self.constant_elements = constant_elements
        self.macs = 0
        self._trips = 1
        self._pending: dict[str, str] = {}  # scalars to be declared by their first store: name -> C type

    def write(self, stmt: Stmt) -> None:
        """Write a statement and everything below it."""
        handler = getattr(self, f"_write_{type(stmt).__name__}", None)
        if handler is None:
            raise UnsupportedOperatorError(f"statement '{type(stmt).__name__}' cannot be written in C")
        self.expressions.begin_statement(statement_expressions(stmt))
        handler(stmt)

    def _write_SeqStmt(self, stmt: tirx.SeqStmt) -> None:  # noqa: N802
        children = list(stmt.seq)
        for position, child in enumerate(children):
            if isinstance(child, tirx.AllocBuffer):
                self._allocate(child.buffer, children[position + 1 :])
            else:
                self.write(child)

    def _write_AllocBuffer(self, _stmt: tirx.AllocBuffer) -> None:  # noqa: N802
        """Alone in its block: nothing uses the buffer."""

    def _allocate(self, buffer: Any, following: list[Stmt]) -> None:
        if not any(used.same_as(buffer) for stmt in following for used, _ in accesses(stmt)):
            return
        dtype = element_type(buffer)
        kind = c_type(dtype)
        name = self.writer.fresh("acc" if byte_size(buffer) <= LOCAL_BYTES else "tmp")
        if byte_size(buffer) > LOCAL_BYTES:
            if buffer in self.workspace.offsets:
                offset = self.workspace.offsets[buffer]
                place = f"workspace + {offset}" if offset else "workspace"
                address = f"({place})" if offset else place
                cast = f"({kind} *)(void *)" if kind != "uint8_t" else ""
                self.writer.line(f"{kind} *const {name} = {cast}{address if cast else place};")
                self.writer.used.add("workspace")
            self.expressions.buffers[buffer] = Buffer(name, dtype)
        elif buffer in self.constant_elements or element_count(buffer) == 1:
            count = element_count(buffer)
            names = (name,) if count == 1 else tuple(f"{name}_{lane}" for lane in range(count))
            self.expressions.buffers[buffer] = Buffer(name, dtype, names)
            initialized = _initialized(buffer, following)
            for lane, scalar in enumerate(names):
                if lane in initialized:
                    self._pending[scalar] = kind
                else:
                    self.writer.line(f"{kind} {scalar} = 0;" if kind != "float" else f"{kind} {scalar} = 0.0f;")
        else:
            self.expressions.buffers[buffer] = Buffer(name, dtype)
            self.writer.line(f"{kind} {name}[{element_count(buffer)}] = {{0}};")

    def _write_DeclBuffer(self, stmt: tirx.DeclBuffer) -> None:  # noqa: N802
        data = stmt.data
        source = data.args[0] if isinstance(data, ir.Call) else data
        original = self.expressions.buffers.get(source)
        offset = getattr(stmt.buffer.ty, "elem_offset", None)
        if original is None or original.dtype != element_type(stmt.buffer) or (offset is not None and int(offset) != 0):
            raise UnsupportedOperatorError(f"a view of '{stmt.buffer.name}' cannot be written in C")
        self.expressions.buffers[stmt.buffer] = original

    def _write_BufferStore(self, stmt: tirx.BufferStore) -> None:  # noqa: N802
        buffer = self.expressions.buffers[stmt.buffer]
        self.writer.used.add(buffer.name)
        if buffer.elements:
            target = buffer.elements[int(stmt.indices[0])]
        else:
            target = f"{buffer.name}[{self.expressions.index(stmt.indices[0])}]"
        value = stmt.value
        if type(value) in _COMPOUND and buffer.dtype in _COMPOUND_TYPES and self._loads(value.a, target):
            if isinstance(value, tirx.Add) and isinstance(value.b, tirx.Mul):
                self.macs += self._trips
            self.writer.line(f"{target} {_COMPOUND[type(value)]} {self.expressions.value(value.b)};")
            return
        text = self.expressions.value(value)
        declaration = self._pending.pop(target, "")
        self.writer.line(f"{declaration} {target} = {text};" if declaration else f"{target} = {text};")

    def _loads(self, expr: Any, target: str) -> bool:
        return isinstance(expr, ir.TensorLoad) and self.expressions.text(expr).text == target

    def _write_For(self, stmt: tirx.For) -> None:  # noqa: N802
        if stmt.thread_binding is not None:
            raise UnsupportedOperatorError("a loop over GPU threads cannot be written in C")
        variable = stmt.loop_var
        dtype = dtype_of(variable)
        fixed = isinstance(stmt.min, tirx.IntImm) and isinstance(stmt.extent, tirx.IntImm)
        fits = fixed and int(stmt.min) + int(stmt.extent) <= _INT32_MAX
        if fixed:
            self.bounds.analyzer.bind(variable, ir.Range.from_min_extent(stmt.min, stmt.extent))
        kind = "int32_t" if fits else c_type(dtype)
        show = self.expressions.index if fits else self.expressions.value
        start = show(stmt.min)
        stop = show(stmt.min + stmt.extent) if not fixed else str(int(stmt.min) + int(stmt.extent))
        step = "" if stmt.step is None else show(stmt.step)
        with self.writer.loop_variable() as name:
            self.expressions.variables[variable] = atom(name)
            if fits and dtype == "int64":
                self.expressions.narrowed.add(variable)
            advance = f"++{name}" if step in ("", "1") else f"{name} += {step}"
            outer = self._trips
            self._trips *= int(stmt.extent) if fixed else 1
            with self.writer.block(f"for ({kind} {name} = {start}; {name} < {stop}; {advance})"):
                self.write(stmt.body)
            self._trips = outer

    def _write_While(self, stmt: tirx.While) -> None:  # noqa: N802
        with self.writer.block("for (;;)"):
            condition = self.expressions.condition(stmt.condition)
            with self.writer.block(f"if (!({condition.text}))"):
                self.writer.line("break;")
            self.write(stmt.body)

    def _write_IfThenElse(self, stmt: tirx.IfThenElse) -> None:  # noqa: N802
        condition = self.expressions.condition(stmt.condition)
        if stmt.else_case is None:
            with self.writer.block(f"if ({condition.text})"):
                self._write_under(stmt.condition, stmt.then_case)
            return
        with self.writer.block(f"if ({condition.text})", "} else {"):
            self._write_under(stmt.condition, stmt.then_case)
        with self.writer.captured(1) as lines:
            self.write(stmt.else_case)
        self.writer.lines.extend(lines)
        self.writer.line("}")

    def _write_under(self, condition: Any, stmt: Stmt) -> None:
        """Write a statement that only runs when a condition holds, which may spare it sign checks."""
        with self.bounds.analyzer.constraint_scope(condition):
            self.write(stmt)

    def _write_Bind(self, stmt: tirx.Bind) -> None:  # noqa: N802
        self.expressions.bind(stmt.var, stmt.value)

    def _write_AttrStmt(self, stmt: tirx.AttrStmt) -> None:  # noqa: N802
        self.write(stmt.body)

    def _write_AssertStmt(self, stmt: tirx.AssertStmt) -> None:  # noqa: N802
        """Shapes are checked when the model is compiled."""

    def _write_Evaluate(self, stmt: tirx.Evaluate) -> None:  # noqa: N802
        if isinstance(stmt.value, tirx.IntImm):
            return
        self.writer.line(f"{self.expressions.text(stmt.value).text};")

    def _write_Break(self, _stmt: tirx.Break) -> None:  # noqa: N802
        self.writer.line("break;")

    def _write_Continue(self, _stmt: tirx.Continue) -> None:  # noqa: N802
        self.writer.line("continue;")


def _initialized(buffer: Any, following: list[Stmt]) -> set[int]:
    """Elements that statements of the same block store before anything else touches the buffer."""
    stored: set[int] = set()
    for stmt in following:
        if isinstance(stmt, tirx.BufferStore) and stmt.buffer.same_as(buffer):
            if any(load.source.same_as(buffer) for load in loads(stmt.value)):
                return stored
            stored.add(int(stmt.indices[0]))
        elif any(used.same_as(buffer) for used, _ in accesses(stmt)):
            return stored
    return stored
