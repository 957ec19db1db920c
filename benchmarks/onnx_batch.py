"""Node tests through the whole pipeline: each a network, many networks in one shared library called by ctypes."""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from onnx_cases import NodeTest

from tvm_stm32.boards import load_board
from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.emit import emit
from tvm_stm32.library import Library
from tvm_stm32.project.firmware import WARNING_FLAGS, runtime_include_dirs
from tvm_stm32.resources import resource_dir
from tvm_stm32.toolchain import find_host_cc


class BuildError(Exception):
    """The C compiler refuses generated code."""


class _Info(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("quant", ctypes.c_void_p),
        ("size", ctypes.c_uint32),
        ("offset", ctypes.c_uint32),
        ("ndim", ctypes.c_uint8),
        ("dtype", ctypes.c_uint8),
    )


class _Tensor(ctypes.Structure):
    _fields_ = (("info", ctypes.POINTER(_Info)), ("data", ctypes.c_void_p))


def network_name(test: NodeTest) -> str:
    """A short C name; those of the tests are longer than compilers must tell apart."""
    return f"net_{hashlib.sha256(test.name.encode()).hexdigest()[:10]}"


def generate(test: NodeTest, folder: Path, board: str = "host") -> Library:
    """Compile a test's model to C in ``folder``. Raises the errors of :mod:`tvm_stm32.errors`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{test.name}.onnx"
    path.write_bytes(test.model.SerializeToString())
    library = compile_model(path, CompileOptions(load_board(board).target, name=network_name(test)))
    emit(library, folder)
    return library


class Batch:
    """Networks of one shared library. Raises :class:`BuildError` with the compiler's first line."""

    def __init__(self, libraries: Sequence[Library], folder: Path, name: str) -> None:
        source = folder / f"{name}.c"
        parts = [f'#include "{library.name}{suffix}"\n' for library in libraries for suffix in (".c", "_data.c")]
        source.write_text("".join(parts))
        image = folder / f"{name}.so"
        runtime = resource_dir("runtime") / "src" / "ai_runtime.c"
        includes = [f"-I{path}" for path in (folder, *runtime_include_dirs())]
        flags = ["-std=c99", "-O1", "-shared", "-fPIC", *WARNING_FLAGS, "-Werror", *includes]
        command = [find_host_cc(), *flags, source, runtime, "-o", image, "-lm"]
        words = [str(word) for word in command]
        done = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "error:" in line]
            raise BuildError(lines[0].split("error: ")[-1] if lines else done.stderr[:200])
        self.image = ctypes.CDLL(str(image))
        for kind in ("input", "output"):
            getattr(self.image, f"ai_get_{kind}").restype = ctypes.POINTER(_Tensor)

    def run(self, library: Library, test: NodeTest) -> list[np.ndarray]:
        """Outputs of one inference, as the C descriptor says they are."""
        model = ctypes.c_uint8.in_dll(self.image, f"ai_{library.name}_network")
        handle = ctypes.c_void_p()
        if self.image.ai_create(ctypes.byref(model), None, ctypes.byref(handle)):
            raise RuntimeError("ai_create failed")
        for position, array in enumerate(test.inputs):
            tensor = self.image.ai_get_input(handle, position).contents
            data = np.ascontiguousarray(array).tobytes()
            if len(data) != tensor.info.contents.size:
                raise RuntimeError(f"input {position} takes {tensor.info.contents.size} bytes, not {len(data)}")
            ctypes.memmove(tensor.data, data, len(data))
        if self.image.ai_run(handle):
            raise RuntimeError("ai_run failed")
        outputs = []
        for position, info in enumerate(library.outputs):
            tensor = self.image.ai_get_output(handle, position).contents
            data = ctypes.string_at(tensor.data, tensor.info.contents.size)
            outputs.append(np.frombuffer(data, info.dtype).reshape(info.shape))
        self.image.ai_destroy(handle)
        return outputs
