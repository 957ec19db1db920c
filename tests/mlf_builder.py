"""Model Library Format archives of the tests' own making, written as old exporters did."""

from __future__ import annotations

import io
import json
import struct
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

PROLOGUE = """// tvm target: c -keys=cpu
#define TVM_EXPORTS
#include "tvm/runtime/c_runtime_api.h"
#include "tvm/runtime/c_backend_api.h"
#include <math.h>
#include <stdbool.h>
"""
_CODES = {"i": 0, "u": 1, "f": 2}
_GRAPHS = {7: "executor-config/graph/default.graph", 6: "executor-config/graph/graph.json"}


def tar(members: Mapping[str, str | bytes], prefix: str = "./") -> bytes:
    """An uncompressed archive of these files."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in members.items():
            data = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(prefix + name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def params(arrays: Mapping[str, np.ndarray]) -> bytes:
    """What relay.save_param_dict writes."""
    data = struct.pack("<QQQ", 0xF7E58D4F05049CB7, 0, len(arrays))
    for name in arrays:
        data += struct.pack("<Q", len(name.encode())) + name.encode()
    data += struct.pack("<Q", len(arrays))
    for array in arrays.values():
        kind = (_CODES[array.dtype.kind], 8 * array.dtype.itemsize, 1)
        data += struct.pack("<QQiiiBBH", 0xDD5E40F096B4A13F, 0, 1, 0, array.ndim, *kind)
        data += struct.pack(f"<{array.ndim + 1}q", *array.shape, array.nbytes) + array.tobytes()
    return data


def packed(name: str, tensors: Sequence[str], body: str) -> str:
    """A packed function; in its body each tensor is a ``void *`` of that name."""
    lines = [f"  void* h_{tensor} = (((TVMValue*)args)[{index}].v_handle);" for index, tensor in enumerate(tensors)]
    lines += [f"  void* {tensor} = (((DLTensor*)h_{tensor})[0].data);" for tensor in tensors]
    lines += [f"  int32_t {tensor}_code = arg_type_ids[{index}];" for index, tensor in enumerate(tensors)]
    lines += [f"  int32_t dev_id = (((DLTensor*)h_{tensors[0]})[0].device.device_id);"]
    head = (
        f"TVM_DLL int32_t {name}(void* args, int32_t* arg_type_ids, int32_t num_args, void* out_ret_value, "
        "int32_t* out_ret_tcode, void* resource_handle)"
    )
    guard = '#ifdef __cplusplus\nextern "C"\n#endif\n'
    return f"{guard}{head};\n{guard}{head} {{\n" + "\n".join([*lines, body, "  return 0;", "}", ""])


def loop(count: int, statement: str) -> str:
    """A loop over ``i``."""
    return f"  for (int32_t i = 0; i < {count}; ++i) {{\n    {statement}\n  }}"


def scratch(name: str, size: int, body: str) -> str:
    """Statements with scratch memory ``name`` around them."""
    return (
        f"  void* {name} = TVMBackendAllocWorkspace(1, dev_id, (uint64_t){size}, 2, 32);\n"
        f"  if ({name} == NULL) {{\n    return -1;\n  }}\n{body}\n"
        f"  if (TVMBackendFreeWorkspace(1, dev_id, {name}) != 0) {{\n    return -1;\n  }}"
    )


@dataclass
class Graph:
    """A graph.json under construction; tensors are ``(node, output)``."""

    nodes: list[dict[str, Any]] = field(default_factory=list)
    shapes: list[list[int]] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)
    storage: list[int] = field(default_factory=list)
    heads: list[tuple[int, int]] = field(default_factory=list)

    def source(self, name: str, shape: Sequence[int], dtype: str = "float32", storage: int | None = None) -> int:
        """An input or a parameter; returns its node."""
        return self._add({"op": "null", "name": name, "inputs": []}, [shape], [dtype], [storage])

    def call(
        self,
        function: str,
        inputs: Sequence[int | tuple[int, int]],
        *shapes: Sequence[int],
        dtypes: Sequence[str] = (),
        storage: Sequence[int] = (),
        name: str = "",
    ) -> int:
        """A call of a function; returns its node."""
        places = [place if isinstance(place, tuple) else (place, 0) for place in inputs]
        attributes = {"num_outputs": str(len(shapes)), "num_inputs": str(len(inputs)), "func_name": function}
        node = {
            "op": "tvm_op",
            "name": name or f"node {len(self.nodes)}",
            "attrs": {**attributes, "flatten_data": "0"},
            "inputs": [[node, index, 0] for node, index in places],
        }
        return self._add(node, shapes, dtypes or ["float32"] * len(shapes), storage or [None] * len(shapes))

    def _add(self, node: dict[str, Any], shapes: Any, dtypes: Any, storage: Any) -> int:
        self.nodes.append(node)
        self.shapes += [list(shape) for shape in shapes]
        self.dtypes += dtypes
        self.storage += [len(self.storage) + i if s is None else s for i, s in enumerate(storage)]
        return len(self.nodes) - 1

    def document(self) -> dict[str, Any]:
        """The JSON document."""
        return {
            "nodes": self.nodes,
            "arg_nodes": [index for index, node in enumerate(self.nodes) if node["op"] == "null"],
            "heads": [[node, index, 0] for node, index in self.heads],
            "attrs": {
                "dltype": ["list_str", self.dtypes],
                "shape": ["list_shape", self.shapes],
                "storage_id": ["list_int", self.storage],
            },
        }


def metadata(version: int, executor: str, memory: Any = None, module: str = "default") -> dict[str, Any]:
    """``metadata.json`` of a version."""
    facts = {"model_name": module, "export_datetime": "2022-06-17 12:00:00Z", "memory": memory or {"functions": {}}}
    if version == 1:
        facts["memory"] = []
    if version >= 4:
        facts["style"] = "full-model"
    facts["runtimes" if version < 5 else "executors"] = [executor]
    facts["target"] = ["c -keys=cpu"] if version > 5 else {"1": "c -keys=cpu"}
    return {"version": version, **facts} if version < 7 else {"version": 7, "modules": {module: facts}}


def graph_members(
    graph: Graph | Mapping[str, Any],
    functions: Sequence[str],
    weights: Mapping[str, np.ndarray] | None = None,
    *,
    version: int = 7,
    workspaces: Mapping[str, int] | None = None,
) -> dict[str, str | bytes]:
    """The files of a graph-executor archive."""
    document = graph.document() if isinstance(graph, Graph) else dict(graph)
    rows = [
        {"function_name": name, "workspace": [{"device": 1, "workspace_size_bytes": size}]}
        for name, size in (workspaces or {}).items()
    ]
    name = _GRAPHS.get(
        version, "executor-config/graph/graph.json" if version == 5 else "runtime-config/graph/graph.json"
    )
    stem = "lib" if version < 3 else "default_lib"
    return {
        "metadata.json": json.dumps(metadata(version, "graph", {"functions": {"operator_functions": rows}})),
        f"codegen/host/src/{stem}0.c": ";",
        f"codegen/host/src/{stem}1.c": PROLOGUE + "\n".join(functions),
        name: json.dumps(document),
        "parameters/default.params": params(weights or {}),
    }


def small_members(version: int = 7, workspaces: Mapping[str, int] | None = None) -> dict[str, str | bytes]:
    """``y = 2 x + w`` over four floats, the doubling by way of scratch memory."""
    graph = Graph()
    x = graph.source("x", [1, 4], storage=0)
    w = graph.source("w", [4], storage=1)
    doubled = graph.call("tvmgen_default_fused_double", [x], [1, 4], storage=[2])
    flat = graph.call("__nop", [doubled], [4], storage=[2], name="reshape_nop")
    graph.heads = [(graph.call("tvmgen_default_fused_add", [flat, w], [4], storage=[3]), 0)]
    functions = [
        packed(
            "tvmgen_default_fused_double",
            ["p0", "out"],
            scratch(
                "twice",
                16,
                loop(4, "((float*)twice)[i] = ((float*)p0)[i] * 2.000000e+00f;")
                + "\n"
                + loop(4, "((float*)out)[i] = ((float*)twice)[i];"),
            ),
        ),
        packed(
            "tvmgen_default_fused_add",
            ["a", "b", "out"],
            loop(4, "((float*)out)[i] = ((float*)a)[i] + ((float*)b)[i];"),
        ),
    ]
    return graph_members(graph, functions, {"w": WEIGHT}, version=version, workspaces=workspaces)


WEIGHT = np.array([0.5, -1, 2, 10], np.float32)


def write(folder: Path, members: Mapping[str, str | bytes], name: str = "small.tar") -> Path:
    """The archive as a file."""
    path = folder / name
    path.write_bytes(tar(members))
    return path
