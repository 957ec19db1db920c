"""Build many small Relax functions at once, run their C on the host, and run the same functions with TVM."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import ir, relax, tirx

from tvm_stm32.graph.dialect import name_of
from tvm_stm32.graph.lowering import lower_to_tir
from tvm_stm32.kernels.tir import TirKernel, lower_prim_func

WARNINGS = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wdouble-promotion", "-Wmissing-prototypes", "-Wshadow"]
WARNINGS += ["-Wstrict-prototypes", "-Wundef", "-Wcast-qual", "-Wcast-align=strict", "-pedantic", "-Werror"]

Build = Callable[..., relax.Expr]
Reference = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """One function: ``build`` turns Relax variables into its result; ``reference`` (numpy) stands in for TVM's own."""

    name: str
    inputs: Sequence[np.ndarray]
    build: Build
    reference: Reference | None = None
    rtol: float = 1e-5
    atol: float = 1e-6


@dataclass
class Compiled:
    """The C kernels of one case and the graph that calls them."""

    case: Case
    main: relax.Function
    kernels: dict[str, TirKernel] = field(default_factory=dict)


def module_of(case: Case) -> ir.IRModule:
    """The case as a Relax module with one function ``main``."""
    builder = relax.BlockBuilder()
    variables = [
        relax.Var(f"x{index}", relax.TensorType(array.shape, str(array.dtype)))
        for index, array in enumerate(case.inputs)
    ]
    with builder.function("main", variables):
        with builder.dataflow():
            output = builder.emit_output(case.build(*variables))
        builder.emit_func_output(output)
    return builder.finalize()


def compile_case(case: Case, prefix: str) -> Compiled:
    """Lower a case; C functions are named ``<prefix>_<PrimFunc>``."""
    lowered = lower_to_tir(module_of(case))
    compiled = Compiled(case, lowered["main"])
    for variable, function in lowered.functions.items():
        if isinstance(function, tirx.PrimFunc):
            name = variable.name_hint
            compiled.kernels[name] = lower_prim_func(function, f"{prefix}_{name}")
    return compiled


class Batch:
    """All cases in one shared library; ``run`` and ``expected`` give the outputs of a case."""

    def __init__(self, cases: Sequence[Case], folder: Path) -> None:
        self.compiled = {case.name: compile_case(case, case.name) for case in cases}
        source = folder / "kernels.c"
        source.write_text(self._source())
        subprocess.run(
            ["gcc", "-O1", *WARNINGS, "-shared", "-fPIC", str(source), "-o", str(folder / "kernels.so"), "-lm"],
            check=True,
        )
        if shutil.which("arm-none-eabi-gcc"):
            cpu = ["-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"]
            command = ["arm-none-eabi-gcc", "-Os", *cpu, *WARNINGS, "-c", str(source), "-o", str(folder / "kernels.o")]
            subprocess.run(command, check=True)
        self._library = ctypes.CDLL(str(folder / "kernels.so"))
        self._machine = _virtual_machine([case for case in cases if case.reference is None])

    def _source(self) -> str:
        parts = ["#include <math.h>\n#include <stdint.h>\n"]
        for compiled in self.compiled.values():
            for kernel in compiled.kernels.values():
                names = [parameter.name for parameter in kernel.parameters] + ["workspace"] * (kernel.workspace > 0)
                head = f"void call_{kernel.name}({', '.join(f'void *{name}' for name in names)})"
                parts.append(f"{kernel.source}\n{head};\n{head}\n{{\n    {kernel.name}({', '.join(names)});\n}}\n")
        return "\n".join(parts)

    def run(self, name: str) -> list[np.ndarray]:
        """Outputs of the C code."""
        compiled = self.compiled[name]
        values: dict[Any, Any] = dict(zip(compiled.main.params, compiled.case.inputs, strict=True))
        for block in compiled.main.body.blocks:
            for binding in block.bindings:
                values[binding.var] = self._value(compiled, binding.value, values)
        result = self._value(compiled, compiled.main.body.body, values)
        return result if isinstance(result, list) else [result]

    def _value(self, compiled: Compiled, expr: relax.Expr, values: dict[Any, Any]) -> Any:
        if isinstance(expr, relax.Var):
            return values[expr]
        if isinstance(expr, ir.GenericConst):
            return np.array(expr.value.numpy(), order="C")
        if isinstance(expr, relax.Tuple):
            return [self._value(compiled, item, values) for item in expr.fields]
        if isinstance(expr, relax.TupleGetItem):
            return self._value(compiled, expr.tuple_value, values)[expr.index]
        if name_of(expr) == "relax.reshape":
            return self._value(compiled, expr.args[0], values).reshape([int(extent) for extent in expr.ty.shape])
        assert name_of(expr) == "relax.call_tir", expr
        kernel = compiled.kernels[expr.args[0].name_hint]
        inputs = self._value(compiled, expr.args[1], values)
        types = list(expr.ty.fields) if isinstance(expr.ty, relax.TupleType) else [expr.ty]
        outputs = [np.zeros([int(extent) for extent in type_.shape], str(type_.dtype)) for type_ in types]
        arrays = [*inputs, *outputs]
        assert [parameter.is_output for parameter in kernel.parameters] == [False] * len(inputs) + [True] * len(types)
        assert [parameter.shape for parameter in kernel.parameters] == [array.shape for array in arrays]
        scratch = [np.zeros(kernel.workspace // 8 + 1, np.int64)] if kernel.workspace else []
        function = getattr(self._library, f"call_{kernel.name}")
        function(*[array.ctypes.data_as(ctypes.c_void_p) for array in arrays + scratch])
        return outputs if isinstance(expr.ty, relax.TupleType) else outputs[0]

    def expected(self, name: str) -> list[np.ndarray]:
        """Outputs of the case's reference: numpy, or TVM's own code for this machine."""
        case = self.compiled[name].case
        if case.reference is not None:
            result = case.reference(*case.inputs)
        else:
            result = self._machine[name](*[tvm.runtime.tensor(array) for array in case.inputs])
        items = list(result) if isinstance(result, tuple | list | tvm.ir.Array) else [result]
        return [item if isinstance(item, np.ndarray) else np.asarray(item.numpy()) for item in items]


def _virtual_machine(cases: Sequence[Case]) -> Any:
    functions = {case.name: module_of(case)["main"].with_attr("global_symbol", case.name) for case in cases}
    executable = tvm.compile(ir.IRModule(functions), tvm.target.Target("llvm"))
    return relax.VirtualMachine(executable, tvm.cpu())
