"""Shared by the Relay tests: load a text, run the module, build metadata sections and parameter files."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path

import numpy as np
import pytest
import tvm
from support import SHARED
from tvm import relax

from tvm_stm32.frontends import relay
from tvm_stm32.graph.legalize_qnn import legalize_qnn
from tvm_stm32.model import Model

FIXTURES = SHARED / "fixtures" / "relay"
HEADER = '#[version = "0.0.5"]\n'
_CODES = {"i": 0, "u": 1, "f": 2, "b": 1}


def fixture(name: str, suffix: str = "relay") -> Path:
    """The path of a fixture; the test is skipped where fixtures are absent."""
    path = FIXTURES / f"{name}.{suffix}"
    if not path.exists():
        pytest.skip(f"no fixture {path}")
    return path


def load_fixture(name: str, suffix: str = "relay") -> Model:
    """A fixture with its parameter file, if it has one."""
    path = fixture(name, suffix)
    params = path.with_suffix(".params")
    return relay.load(path, params if params.exists() else None)


def load(folder: Path, text: str, constants: list[np.ndarray] | None = None) -> Model:
    """The model of a text; ``constants`` become its metadata section."""
    path = folder / "model.relay"
    path.write_text(HEADER + text + ("" if constants is None else metadata(constants)))
    return relay.load(path)


def run(model: Model, *inputs: np.ndarray) -> list[np.ndarray]:
    """Outputs of the model on LLVM, its quantized operators legalized."""
    virtual_machine = relax.VirtualMachine(tvm.compile(legalize_qnn(model.module), target="llvm"), tvm.cpu())
    result = virtual_machine["main"](*[tvm.runtime.tensor(array) for array in inputs])
    return [result.numpy()] if isinstance(result, tvm.runtime.Tensor) else [part.numpy() for part in result]


def blob(array: np.ndarray) -> bytes:
    """TVM's serialization of an array."""
    bits = 1 if array.dtype == np.bool_ else 8 * array.itemsize
    head = struct.pack("<QQiii", 0xDD5E40F096B4A13F, 0, 1, 0, array.ndim)
    head += struct.pack("<BBH", _CODES[array.dtype.kind], bits, 1)
    return head + struct.pack(f"<{array.ndim + 1}q", *array.shape, array.nbytes) + array.tobytes()


def metadata(constants: list[np.ndarray]) -> str:
    """A metadata section that holds ``constants``."""
    nodes: list[dict[str, object]] = [
        {"type_key": ""},
        {"type_key": "Map", "keys": ["relay.Constant"], "data": [2]},
        {"type_key": "Array", "data": list(range(3, 3 + len(constants)))},
    ]
    nodes += [{"type_key": "relay.Constant", "attrs": {"data": str(index)}} for index in range(len(constants))]
    arrays = [base64.b64encode(blob(array)).decode() for array in constants]
    return "\n#[metadata]\n" + json.dumps({"root": 1, "nodes": nodes, "b64ndarrays": arrays})


def params_file(arrays: dict[str, np.ndarray]) -> bytes:
    """What relay.save_param_dict writes."""
    data = struct.pack("<QQQ", 0xF7E58D4F05049CB7, 0, len(arrays))
    for name in arrays:
        data += struct.pack("<Q", len(name)) + name.encode()
    data += struct.pack("<Q", len(arrays))
    return data + b"".join(blob(array) for array in arrays.values())
