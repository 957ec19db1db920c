"""Ahead-of-time modules of the tests' own making: memory pools of all kinds, and where their interface is written."""

from __future__ import annotations

import json

import mlf_builder as mlf
import numpy as np
import pytest
from support import build_and_run

from tvm_stm32.boards import load_board
from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.emit.emitter import render
from tvm_stm32.errors import ModelError
from tvm_stm32.library import Pool
from tvm_stm32.mlf import MlfOptions, load_library
from tvm_stm32.project.samples import unpack
from tvm_stm32.target import Target

X = np.array([[1, 2], [3, -4]], np.float32)
SCALE = np.array([2, 0.5, -1, 10], np.float32)
SHIFT = np.array([7, -9], np.int16)
Y = X.ravel() * SCALE + SHIFT[0]

CONSTANTS = """#include "tvm/runtime/c_runtime_api.h"
#ifdef __cplusplus
extern "C" {
#endif
__attribute__((section(".rodata.tvm"), ))
static struct global_const_workspace {
  int16_t shift_let[2] __attribute__((aligned(16))); // 4 bytes, aligned offset: 0
  float scale_let[4] __attribute__((packed, aligned(16))); // 16 bytes, aligned offset: 16
} global_const_workspace = {
  .shift_let = {
    +0x0007, -0x0009
  },
  .scale_let = {
    0x1p+1, 0x1p-1, -0x1p+0, 0x1.4p+3
  },
};// of total size 32 bytes
__attribute__((section(".bss.noinit.tvm"), aligned(16)))
static uint8_t global_workspace[48];
"""
RUN = """#include <tvmgen_default.h>
TVM_DLL int32_t tvmgen_default___tvm_main__(void* x,void* output0);
int32_t tvmgen_default_run(struct tvmgen_default_inputs* inputs,struct tvmgen_default_outputs* outputs) {
return tvmgen_default___tvm_main__(inputs->x,outputs->output);
}
#ifdef __cplusplus
}
#endif
;
"""
HEADER = """#ifndef TVMGEN_DEFAULT_H_
#define TVMGEN_DEFAULT_H_
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
/*!
 * \\brief Input tensor x size (in bytes) for TVM module "default"
 */
#define TVMGEN_DEFAULT_X_SIZE 16
#define TVMGEN_DEFAULT_OUTPUT_SIZE 16
struct tvmgen_default_inputs {
  void* x;
};
struct tvmgen_default_outputs {
  void* output;
};
MORE
#ifdef __cplusplus
}
#endif
#endif // TVMGEN_DEFAULT_H_
"""
RELAY = "def @main(%x: Tensor[(2, 2), float32]) {\n  %0 = multiply(%x, meta[relay.Constant][0]);\n  cast(%0)\n}\n"


API = '#include "tvm/runtime/c_runtime_api.h"\n'
MAP = """struct tvmgen_default_{kind} tvmgen_default_map_{kind}(
  struct tvmgen_default_workspace_pools* workspace_pools

){{
struct tvmgen_default_{kind} ret = {{
\t.{name} = &((uint8_t*)workspace_pools->sram)[{place}],
}};
return ret;
}}
"""


def kernel(constants, ram):
    """The operator, over pools of those names."""
    pools = f"uint8_t* {constants}_2_var, uint8_t* {ram}_3_var"
    return (
        f"TVM_DLL int32_t tvmgen_default_fused_scale(float* a, float* b, {pools}) {{\n"
        f"  void* scale_let = (&({constants}_2_var[16]));\n  void* shift_let = (&({constants}_2_var[0]));\n"
        f"  void* t = (&({ram}_3_var[32]));\n"
        + mlf.loop(4, "((float*)t)[i] = a[i] * ((float*)scale_let)[i];")
        + "\n"
        + mlf.loop(4, "b[i] = ((float*)t)[i] + ((int16_t*)shift_let)[0];")
        + "\n  return 0;\n}\n"
    )


def main(arguments, values, pools):
    return (
        f"TVM_DLL int32_t tvmgen_default___tvm_main__({arguments}) {{\n{values}"
        f"  if (tvmgen_default_fused_scale(x_buffer_var, output_buffer_var, {pools}) != 0 ) return -1;\n"
        "  return 0;\n}\n"
    )


def members(lib0, code, header="", relay=RELAY, **facts):
    memory = {"functions": {"main": [{"device": 1, **facts}], "operator_functions": []}}
    result = {
        "metadata.json": json.dumps(mlf.metadata(7, "aot", memory)),
        "codegen/host/src/default_lib0.c": lib0,
        "codegen/host/src/default_lib1.c": mlf.PROLOGUE + code,
        "parameters/default.params": mlf.params({}),
        "src/default.relay": relay,
    }
    return {**result, "codegen/host/include/tvmgen_default.h": header} if header else result


IO = "float* x_buffer_var, float* output_buffer_var, "
INTERNAL = "uint8_t* global_const_workspace_0_var, uint8_t* global_workspace_1_var"


def internal_pools(**changes):
    """Constants and RAM of the module's own."""
    code = kernel("global_const_workspace", "global_workspace")
    code += main(IO + INTERNAL, "", "global_const_workspace_0_var, global_workspace_1_var")
    return members(CONSTANTS + RUN, code, **{"header": HEADER.replace("MORE", ""), **changes})


def constant_bytes():
    pool = np.zeros(32, np.uint8)
    pool[:4], pool[16:] = SHIFT.view(np.uint8), SCALE.view(np.uint8)
    lines = ["    " + ", ".join(f"0x{byte:02x}" for byte in pool[start : start + 16]) for start in (0, 16)]
    return ", \\\n".join(lines)


POOLS = f"""struct tvmgen_default_workspace_pools {{
  void* flash;
  void* sram;
}};
#define TVMGEN_DEFAULT_WORKSPACE_SIZE 80
#define TVMGEN_DEFAULT_FLASH_CONSTANT_POOL_SIZE 32
#define TVMGEN_DEFAULT_FLASH_CONSTANT_POOL_DATA \\
{constant_bytes()}
#define TVMGEN_DEFAULT_SRAM_WORKSPACE_POOL_SIZE 80
"""


def user_pools(pools=POOLS):
    """Pools the build named."""
    code = kernel("flash", "sram")
    code += main(IO + "uint8_t* flash_0_var, uint8_t* sram_1_var", "", "flash_0_var, sram_1_var")
    return members(
        '#include "tvm/runtime/c_runtime_api.h"\n' + RUN[: RUN.index("#ifdef")], code, HEADER.replace("MORE", pools)
    )


def io_in_pools():
    """Inputs and outputs lie in a pool: the main function takes pools only."""
    places = "".join(
        MAP.format(kind=k, name=n, place=p) for k, n, p in (("inputs", "x", 16), ("outputs", "output", 64))
    )
    values = "  void* output_buffer_var = (&(sram_1_var[64]));\n  void* x_buffer_var = (&(sram_1_var[16]));\n"
    code = kernel("flash", "sram")
    code += main("uint8_t* flash_0_var, uint8_t* sram_1_var", values, "flash_0_var, sram_1_var")
    return members(API + places, code, HEADER.replace("MORE", POOLS))


DESCRIPTION = """#include <inttypes.h>
#include <tvm/runtime/metadata_types.h>
static const int64_t kTvmgenMetadata_inputs_0_shape[2] = {
2L,\x20
2L};
static const struct TVMTensorInfo kTvmgenMetadata_inputs[1] = {
{
"x:0" /* name*/,\x20
kTvmgenMetadata_inputs_0_shape,\x20
2L /* num_shape*/,\x20
{2, 32, 1} /* dtype*/}
};
static const int64_t kTvmgenMetadata_outputs_0_shape[1] = {
4L};
static const struct TVMTensorInfo kTvmgenMetadata_outputs[1] = {
{
"output0" /* name*/,\x20
kTvmgenMetadata_outputs_0_shape,\x20
1L /* num_shape*/,\x20
{2, 32, 1} /* dtype*/}
};
TVM_DLL int32_t tvmgen_default_get_c_metadata(TVMValue* arg_values, int* arg_tcodes, int num_args) {
    return 0;
};
"""


def packed_functions():
    """Everything through tensors, also the pools."""
    names = ["x", "output", "global_const_workspace_0_var", "global_workspace_1_var"]
    body = (
        "  if (tvmgen_default_fused_scale(x, output, global_const_workspace_0_var, global_workspace_1_var) != 0 )"
        " return -1;"
    )
    entry = mlf.packed("tvmgen_default___tvm_main__", names, body)
    # As generators name the handles and the data.
    for name in names:
        entry = entry.replace(f"h_{name}", f"{name}_H").replace(f"void* {name} =", f"void* {name}_1 =")
        entry = entry.replace(f"{name}_H", name)
    entry = entry.replace("(x, output, global_const_workspace_0_var, global_workspace_1_var)",
                          "(x_1, output_1, global_const_workspace_0_var_1, global_workspace_1_var_1)")  # fmt: skip
    code = kernel("global_const_workspace", "global_workspace") + entry
    result = members(CONSTANTS, code, relay="")
    # The run function and the description are files of their own.
    result["codegen/host/src/default_lib0.c"] += "#ifdef __cplusplus\n}\n#endif\n;"
    result["codegen/host/src/default_lib2.c"] = DESCRIPTION
    return result


KINDS = {
    "internal pools": (internal_pools, 16 + 16 + 48),
    "user pools": (user_pools, 16 + 16 + 80),
    "inputs and outputs in a pool": (io_in_pools, 80),
    "packed": (packed_functions, 16 + 16 + 48),
}


def load(tmp_path, files, board="host"):
    return load_library(mlf.write(tmp_path, files), MlfOptions(load_board(board).target))


@pytest.mark.parametrize("board", ["host", "mps2-an386"])
@pytest.mark.parametrize("kind", KINDS)
def test_pools_lie_in_arena_and_flash(kind, board, tmp_path):
    make, arena = KINDS[kind]
    library = load(tmp_path, make(), board)
    assert library.arena_size == arena and library.constant_bytes == 32
    results, _ = build_and_run(library, board, [X.tobytes(), (2 * X).tobytes()], tmp_path / "out")
    (got,) = unpack(library.outputs, results)
    np.testing.assert_array_equal(got.reshape(2, 4), [Y, 2 * X.ravel() * SCALE + SHIFT[0]])
    text = (tmp_path / "out" / "small.c").read_text()
    assert "global_workspace[48]" not in text and "tvmgen_default_run" not in text


def interface(library):
    return [(info.name, info.shape, info.dtype) for info in (*library.inputs, *library.outputs)]


def test_interface_from_the_description_of_a_packed_module(tmp_path):
    assert interface(load(tmp_path, packed_functions())) == [("x:0", (2, 2), "float32"), ("output", (4,), "float32")]


@pytest.mark.parametrize(
    ("changes", "shape"),
    [
        ({}, (2, 2)),
        ({"relay": "no relay"}, (4,)),
        ({"relay": RELAY.replace("(2, 2)", "(3, 2)")}, (4,)),
        ({"relay": RELAY.replace("(2, 2)", "(?, 2)")}, (4,)),
        ({"relay": RELAY.replace("%x", "%other")}, (4,)),
        ({"header": "", "outputs": {"output": {"size": 16, "dtype": "float32"}}}, (2, 2)),
    ],
)
def test_interface_of_an_unpacked_module(changes, shape, tmp_path):
    library = load(tmp_path, internal_pools(**changes))
    assert interface(library) == [("x", shape, "float32"), ("output", (4,), "float32")]


def test_description_that_contradicts_the_code(tmp_path):
    files = packed_functions()
    name = "codegen/host/src/default_lib2.c"
    rest = "};\nstatic const int64_t kTvmgenMetadata_outputs"
    second = '{\n"y", \nkTvmgenMetadata_inputs_0_shape, \n2L, \n{2, 32, 1}}\n' + rest
    text = files[name].replace(rest, second)
    with pytest.raises(ModelError, match="description has 2 inputs, and 'tvmgen_default___tvm_main__' takes 1"):
        load(tmp_path, {**files, name: text})


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (internal_pools(relay="", header=""), "has no known size"),
        (internal_pools(inputs={"x": {"size": 16, "dtype": "int32"}}), "'x' is int32 in metadata, float in C"),
        (internal_pools(inputs={"x": {"size": 15, "dtype": "float32"}}, relay=""), "has no known size"),
        (internal_pools(inputs={"x": {"size": "a", "dtype": "float32"}}), "'size' is 'a', not a whole number"),
        (internal_pools(outputs={f"o{i}": {"size": 4, "dtype": "float32"} for i in range(9)}, header=""), "9 outputs"),
        (user_pools(POOLS.replace("POOL_SIZE 80", "POOL_SIZE none")), "size of the memory pool 'sram' is not known"),
        (user_pools(POOLS.replace("0x07, ", "")), "lists 31 bytes, not 32"),
        (user_pools(POOLS.replace("POOL_SIZE 80", "POOL_SIZE 999999999999")), "'sram' is not known"),
        (user_pools(POOLS.replace("workspace_pools", "devices")), "C device API"),
    ],
)
def test_wrong_interface(files, message, tmp_path):
    with pytest.raises(ModelError, match=message):
        load_library(mlf.write(tmp_path, files), MlfOptions(Target("host")))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0x1p-1,", "", "'scale_let' does not hold 4 numbers"),
        ("0x1p-1", "0x1p-1 + 1", "'scale_let' does not hold 4 numbers"),
        ("0x1p-1", "0x1p+99999", "'scale_let' does not hold 4 numbers"),
        ("+0x0007", "+0x10007", "'shift_let' does not hold 2 numbers"),
        ("float scale_let[4]", "half scale_let[4]", "is no array of numbers"),
        ("aligned(16))); // 4", "aligned(0))); // 4", "does not hold"),
        ("float scale_let[4]", "float scale_let[999999999]", "does not hold 999999999"),
    ],
)
def test_wrong_constants(old, new, message, tmp_path):
    files = internal_pools()
    name = "codegen/host/src/default_lib0.c"
    assert old in files[name]
    with pytest.raises(ModelError, match="the constants 'global_const_workspace' cannot be read\n.*" + message):
        load(tmp_path, {**files, name: files[name].replace(old, new)})


@pytest.mark.parametrize("place", ["[68]", "[72]", "[4096]"])
def test_outputs_that_do_not_fit_their_pool(place, tmp_path):
    files = io_in_pools()
    name = "codegen/host/src/default_lib0.c"
    with pytest.raises(ModelError, match="'output' does not fit its place in 'sram'"):
        load(tmp_path, {**files, name: files[name].replace("[64]", place)})


def test_module_without_a_main_function(tmp_path):
    files = internal_pools()
    name = "codegen/host/src/default_lib1.c"
    with pytest.raises(ModelError, match="0 functions that run the network"):
        load(tmp_path, {**files, name: files[name].replace("___tvm_main__", "_other")})


def pooled(tmp_path, files, **options):
    path = mlf.write(tmp_path, files)
    return compile_model(path, CompileOptions(load_board("host").target, name="net", **options))


def test_pools_of_the_build_are_pools_of_the_network(tmp_path):
    library = pooled(tmp_path, user_pools(), archive_pools=True)
    assert [(pool.name, pool.size, pool.kind) for pool in library.pools] == [
        ("arena", 0, "ram"), ("sram", 80, "ram"), ("flash", 32, "flash"),
    ]  # fmt: skip
    assert library.tensors["pool sram"].pool == "sram" and library.constants["net_pool_flash"].pool == "flash"
    assert ".nn_pool_sram" in render(library)[".c"] and ".nn_pool_flash" in render(library)["_data.c"]
    plain = pooled(tmp_path, user_pools())
    outputs = [build_and_run(each, "host", [X.tobytes()], tmp_path / str(number))[0]
               for number, each in enumerate((plain, library))]  # fmt: skip
    assert outputs[0] == outputs[1]
    # One that holds inputs and outputs is the arena.
    library = pooled(tmp_path, io_in_pools(), archive_pools=True)
    assert [(pool.name, pool.kind) for pool in library.pools] == [("sram", "ram"), ("flash", "flash")]
    with pytest.raises(ModelError, match="has no memory pools of its build"):
        pooled(tmp_path, internal_pools(), archive_pools=True)


def test_pools_of_a_file_take_those_of_their_names(tmp_path):
    pools = [Pool("MAIN"), Pool("SRAM", ".fast", 1024), Pool("FLASH", ".qspi", 0, "flash", ("constants",))]
    library = pooled(tmp_path, user_pools(), pools=pools)
    assert library.tensors["pool sram"].pool == "SRAM" and library.constants["net_pool_flash"].pool == "FLASH"
    library = pooled(tmp_path, user_pools(), pools=pools, pins={"pool sram": "MAIN"})
    assert library.tensors["pool sram"].pool == ""
