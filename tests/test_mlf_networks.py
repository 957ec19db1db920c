"""Archives of the tests' own making: what versions and exporters did differently, and several networks in one image."""

from __future__ import annotations

import json
import subprocess
import sys

import mlf_builder as mlf
import numpy as np
import pytest
from support import ROOT, build_and_run, need_board

from tvm_stm32.boards import load_board
from tvm_stm32.emit import emit
from tvm_stm32.emit.emitter import render
from tvm_stm32.emit.page import html_page
from tvm_stm32.errors import Error, FirmwareError, ModelError, TargetError, UnsupportedOperatorError
from tvm_stm32.mlf import MlfOptions, load_library
from tvm_stm32.project.firmware import WARNING_FLAGS, build_image
from tvm_stm32.project.samples import unpack
from tvm_stm32.target import Target

X = np.array([[1, 2, 3, -4]], np.float32)
Y = 2 * X.ravel() + mlf.WEIGHT


def load(tmp_path, members, board="host", name="small.tar", **options):
    path = mlf.write(tmp_path, members, name)
    return load_library(path, MlfOptions(load_board(board).target, **options))


def run(tmp_path, members, inputs, board="host", **options):
    library = load(tmp_path, members, board, **options)
    sample = b"".join(np.ascontiguousarray(array).tobytes() for array in inputs)
    results, _ = build_and_run(library, board, [sample], tmp_path / "out")
    return [column[0] for column in unpack(library.outputs, results)]


def copy_function(name="tvmgen_default_fused_copy", count=4):
    return mlf.packed(name, ["p0", "out"], mlf.loop(count, "((float*)out)[i] = ((float*)p0)[i];"))


# -- versions and metadata


@pytest.mark.parametrize("version", range(1, 8))
def test_each_version_is_the_same_network(version, tmp_path):
    texts = render(load(tmp_path, mlf.small_members(version)))
    reference = render(load(tmp_path, mlf.small_members(7)))

    def code(files):
        return "".join(files[suffix] for suffix in (".c", ".h"))

    assert code(texts) == code(reference)


@pytest.mark.parametrize("prefix", ["", "./"])
def test_names_of_members_may_lack_the_dot(prefix, tmp_path):
    path = tmp_path / "small.tar"
    path.write_bytes(mlf.tar(mlf.small_members(), prefix))
    assert len(load_library(path, MlfOptions(Target("host"))).calls) == 2


def test_small_network_runs(tmp_path):
    (got,) = run(tmp_path, mlf.small_members(), [X])
    np.testing.assert_array_equal(got, Y)


@pytest.mark.parametrize(("claimed", "noted"), [(None, False), (4, True), (16, False), (4096, False)])
def test_scratch_memory_is_what_the_text_takes(claimed, noted, tmp_path):
    workspaces = {} if claimed is None else {"tvmgen_default_fused_double": claimed}
    library = load(tmp_path, mlf.small_members(workspaces=workspaces))
    assert [call.workspace for call in library.calls] == [16, 0]
    assert any("scratch memory" in note for note in library.notes) == noted


def one_call(body, workspaces=None, **kinds):
    graph = mlf.Graph()
    x = graph.source("x", [4])
    graph.heads = [(graph.call("tvmgen_default_f", [x], [4]), 0)]
    function = mlf.packed("tvmgen_default_f", ["p0", "out"], body)
    return mlf.graph_members(graph, [function], workspaces=workspaces, **kinds)


def test_nested_scratch_memory_adds_up_with_its_alignment(tmp_path):
    inner = mlf.scratch("b", 9, mlf.scratch("c", 3, ""))
    library = load(tmp_path, one_call(mlf.scratch("a", 20, inner) + mlf.scratch("d", 24, "")))
    assert library.calls[0].workspace == 24 + 16 + 8


def test_scratch_memory_of_no_bytes_is_no_failure(tmp_path):
    body = mlf.scratch("nothing", 0, mlf.loop(4, "((float*)out)[i] = ((float*)p0)[i];"))
    np.testing.assert_array_equal(run(tmp_path, one_call(body), [X])[0], X.ravel())


def test_scratch_memory_beyond_its_limit_ends_the_run_with_an_error(tmp_path):
    # Never given back within the loop, so the text does not tell the size and the metadata is all there is.
    body = (
        "  for (int32_t i = 0; i < 3; ++i) {\n"
        "    void* piece = TVMBackendAllocWorkspace(1, dev_id, (uint64_t)32, 2, 32);\n"
        "    if (piece == NULL) {\n      return -1;\n    }\n"
        "    ((float*)piece)[7] = ((float*)p0)[i];\n    ((float*)out)[i] = ((float*)piece)[7];\n  }\n"
        "  ((float*)out)[3] = 0.0f;"
    )
    (got,) = run(tmp_path, one_call(body, {"tvmgen_default_f": 96}), [X])
    np.testing.assert_array_equal(got, [1, 2, 3, 0])
    with pytest.raises(FirmwareError, match="run function failed"):
        run(tmp_path, one_call(body, {"tvmgen_default_f": 95 - 8}), [X])
    with pytest.raises(ModelError, match="scratch memory of 'tvmgen_default_f' is not known"):
        load(tmp_path, one_call(body))


def test_function_that_fails_ends_the_run_with_an_error(tmp_path):
    with pytest.raises(FirmwareError, match="run function failed"):
        run(tmp_path, one_call("  if (((float*)p0)[0] > 0.5f) {\n    return -1;\n  }"), [X])


# -- graphs


def test_outputs_may_be_inputs_constants_each_other_and_used_within(tmp_path):
    graph = mlf.Graph()
    x, w = graph.source("x:0/in put", [4]), graph.source("w", [4])
    first = graph.call("tvmgen_default_fused_copy", [x], [4], name="a*/b")
    second = graph.call("tvmgen_default_fused_copy", [first], [4], name="a*/b")
    graph.heads = [(node, 0) for node in (first, x, w, second, second)]
    members = mlf.graph_members(graph, [copy_function()], {"w": mlf.WEIGHT})
    outputs = run(tmp_path, members, [X])
    wanted = [X.ravel(), X.ravel(), mlf.WEIGHT, X.ravel(), X.ravel()]
    for got, want in zip(outputs, wanted, strict=True):
        np.testing.assert_array_equal(got, want)


def test_device_copies_scalars_and_several_results(tmp_path):
    graph = mlf.Graph()
    x, s = graph.source("x", [2, 2], "int32"), graph.source("s", [], "int64")
    moved = graph.call("__copy", [x], [2, 2], dtypes=["int32"], name="__copy_0")
    kinds = ["int32", "uint8"]
    split = graph.call("tvmgen_default_split", [moved, s], [4], [2], dtypes=kinds)
    graph.heads = [(split, 1), (split, 0)]
    function = mlf.packed(
        "tvmgen_default_split",
        ["a", "b", "c", "d"],
        mlf.loop(4, "((int32_t*)c)[i] = ((int32_t*)a)[i] + (int32_t)((int64_t*)b)[0];")
        + "\n"
        + mlf.loop(2, "((uint8_t*)d)[i] = (uint8_t)((int32_t*)a)[i];"),
    )
    values = np.array([[1, 2], [300, -1]], np.int32)
    outputs = run(tmp_path, mlf.graph_members(graph, [function]), [values, np.array(-7, np.int64)])
    np.testing.assert_array_equal(outputs[0], np.array([1, 2], np.uint8))
    np.testing.assert_array_equal(outputs[1], values.ravel() - 7)


@pytest.mark.parametrize("name", ["__tvm_param__w", "fused_constant"])
def test_constants_in_the_c_text_go_to_the_data_file(name, tmp_path):
    graph = mlf.Graph()
    x = graph.source("x", [4])
    operands = [x, graph.source("w", [4])] if name.startswith("__") else [x]
    graph.heads = [(graph.call("tvmgen_default_add", operands, [4]), 0)]
    constant = (
        f'static const float __attribute__((section(".rodata.tvm"), aligned(16))) {name}[4] = {{\n'
        "    0x1p-1, -0x1p+0, 0x1p+1,\n    0x1.4p+3\n};\n"
    )
    used = "((float*)b)" if name.startswith("__") else name
    tensors = ["a", "b", "out"] if name.startswith("__") else ["a", "out"]
    body = mlf.loop(4, f"((float*)out)[i] = ((float*)a)[i] + {used}[i];")
    members = mlf.graph_members(graph, [constant, mlf.packed("tvmgen_default_add", tensors, body)])
    (got,) = run(tmp_path, members, [X])
    np.testing.assert_array_equal(got, X.ravel() + mlf.WEIGHT)
    assert "0x1p-1" not in (tmp_path / "out" / "small.c").read_text()


def test_archives_plan_with_overlapping_tensors_is_refused(tmp_path):
    graph = mlf.Graph()
    x = graph.source("x", [4], storage=0)
    first = graph.call("tvmgen_default_fused_copy", [x], [4], storage=[1])
    second = graph.call("tvmgen_default_fused_copy", [x], [4], storage=[1])
    graph.heads = [(first, 0), (second, 0)]
    members = mlf.graph_members(graph, [copy_function()])
    np.testing.assert_array_equal(run(tmp_path, members, [X])[0], X.ravel())
    with pytest.raises(ModelError, match="into one place"):
        load(tmp_path, members, storage="archive")


def test_variables_read_as_another_type_become_unions(tmp_path):
    body = mlf.loop(2, "    float v_ = ((float*)p0)[i];\n    ((float*)out)[i] = (float)((*(int32_t *)(&(v_))));")
    body += "\n" + mlf.loop(
        2, "    int32_t v_ = (int32_t)0x40490fdb + i;\n    ((float*)out)[i + 2] = (*(float *)(&(v_)));"
    )
    (got,) = run(tmp_path, one_call(body), [X])
    np.testing.assert_array_equal(got[:2], X.ravel().view(np.int32).astype(np.float32)[:2])
    np.testing.assert_array_equal(got[2:].view(np.int32), [0x40490FDB, 0x40490FDC])


# -- ahead of time

MAIN_HEAD = "TVM_DLL int32_t tvmgen_default_run_model(void* arg0, void* arg1)"

# How the earliest exporters wrapped the main function.
WRAPPER = """#include "tvm/runtime/crt/internal/aot_executor/aot_executor.h"
#include "tvm/runtime/c_runtime_api.h"
#ifdef __cplusplus
extern "C"
#endif
TVM_DLL int32_t tvmgen_default_run_model(arg0,arg1);
static int32_t __tvm_main__(void* args, void* type_code, int num_args, void* out_value, void* out_type_code) {
return tvmgen_default_run_model(((DLTensor*)(((TVMValue*)args)[0].v_handle))[0].data,((DLTensor*)args)[1].data);
}
const tvm_model_t tvmgen_default_network = {
    .run_func = &__tvm_main__,
    .num_input_tensors = 1,
    .num_output_tensors = 1,
};
;
"""


def aot_members(main, functions=(), version=2, relay="", wrapper=""):
    return {
        "metadata.json": json.dumps(mlf.metadata(version, "aot")),
        "codegen/host/src/lib0.c": wrapper,
        "codegen/host/src/lib1.c": mlf.PROLOGUE + "\n".join([*functions, main]),
        "parameters/default.params": mlf.params({}),
        **({"relay.txt": relay} if relay else {}),
    }


EARLY = aot_members(
    f"{MAIN_HEAD} {{\n  void* input = arg0;\n  void* output = arg1;\n  int32_t dev_id = 0;\n"
    + mlf.scratch("sid_1", 12, "  if (tvmgen_default_double(input, output) != 0 ) return -1;")
    + "\n  return 0;\n}\n",
    [
        "TVM_DLL int32_t tvmgen_default_double(float* a, float* b) {\n  int32_t dev_id = 0;\n"
        + mlf.scratch("t", 16, mlf.loop(4, "((float*)t)[i] = a[i]; b[i] = ((float*)t)[i] * 2;"))
        + "\n  return 0;\n}\n"
    ],
    wrapper=WRAPPER,
    relay="def @main(%input: Tensor[(1, 4), float32]) -> Tensor[(4), float32] {\n  add(%input, %input)\n}\n",
)


@pytest.mark.parametrize("board", ["host", "mps2-an386"])
def test_early_ahead_of_time_module_with_scratch_memory(board, tmp_path):
    library = load(tmp_path, EARLY, board)
    assert [(info.name, info.shape) for info in (*library.inputs, *library.outputs)] == [
        ("input", (1, 4)),
        ("output", (4,)),
    ]
    assert library.calls[0].workspace == 16 + 16
    assert any("one run at a time" in note for note in library.notes)
    (got,) = run(tmp_path, EARLY, [X], board)
    np.testing.assert_array_equal(got, 2 * X.ravel())


def test_module_for_a_device_api_is_refused(tmp_path):
    arguments = "int8_t* x_buffer_var, int8_t* output_buffer_var, void* device_context_ethos_u"
    head = f"TVM_DLL int32_t tvmgen_default___tvm_main__({arguments})"
    with pytest.raises(ModelError, match="takes a device"):
        load(tmp_path, aot_members(f"{head} {{\n  return 0;\n}}\n", version=6))


# -- targets and foreign kernels

DSP = """#include <stdint.h>
#include <arm_acle.h>
#include <tvm/runtime/crt/error_codes.h>
#ifndef ARM_CPU_INTRINSICS_EXIST
#define ARM_CPU_INTRINSICS_EXIST
__attribute__((always_inline)) uint32_t __ror(uint32_t op1, uint32_t op2)
{
  op2 %= 32U;
  return op2 == 0U ? op1 : (op1 >> op2) | (op1 << (32U - op2));
}
#define __pkhbt(ARG1,ARG2,ARG3) \\
__extension__ \\
({ \\
  uint32_t __RES, __ARG1 = (ARG1), __ARG2 = (ARG2); \\
  __asm("pkhbt %0, %1, %2, lsl %3" : "=r" (__RES) :  "r" (__ARG1), "r" (__ARG2), "I" (ARG3)  ); \\
  __RES; \\
 })
#endif
#ifdef __cplusplus
extern "C"
#endif
__attribute__((always_inline)) static inline int32_t dot_NAME(int16_t *aa, int32_t *cc) {
  int32_t low = 3, high = -2;
  if (((uint32_t)aa & 0x3) != 0) {
    return kTvmErrorFunctionCallInvalidArg;
  }
  cc[0] = __smlad(*(int32_t *)aa, (int32_t)__pkhbt(low, high, 16), (int32_t)__ror(1U, 31));
  return 0;
}
"""


def dsp_members():
    graph = mlf.Graph()
    x = graph.source("x", [2], "int16")
    graph.heads = [(graph.call(f"tvmgen_default_dot{i}", [x], [1], dtypes=["int32"]), 0) for i in range(2)]
    functions = [
        DSP.replace("NAME", str(i))
        + mlf.packed(f"tvmgen_default_dot{i}", ["a", "out"], f"  dot_{i}((int16_t*)a, (int32_t*)out);")
        for i in range(2)
    ]
    return mlf.graph_members(graph, functions)


def test_dsp_kernels_run_on_a_core_that_has_it(tmp_path):
    outputs = run(tmp_path, dsp_members(), [np.array([100, 7], np.int16)], "mps2-an386")
    assert [output.tolist() for output in outputs] == [[100 * 3 - 7 * 2 + 2]] * 2


@pytest.mark.parametrize(("cpu", "named"), [("host", "this computer"), ("cortex-m3", "cortex-m3")])
def test_dsp_kernels_are_refused_elsewhere(cpu, named, tmp_path):
    path = mlf.write(tmp_path, dsp_members())
    with pytest.raises(TargetError, match=f"DSP instructions.*\n.*{named} has none\n.*cortex-m4"):
        load_library(path, MlfOptions(Target.for_cpu(cpu)))


def replaced(old, new):
    members = one_call("  ((float*)out)[0] = 0;")
    name = "codegen/host/src/default_lib1.c"
    return {**members, name: members[name].replace(old, new)}


BODY = "((float*)out)[0] = 0;"
INCLUDE = "#include <stdbool.h>"


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (replaced(INCLUDE, "#include <arm_nnfunctions.h>"), "include 'arm_nnfunctions.h', which is not in the archive"),
        (replaced(BODY, "float* p = (float*)malloc(4);"), "calls malloc"),
        (replaced(BODY, "TVMBackendParallelLaunch(0, 0, 0);"), "calls 'TVMBackendParallelLaunch'"),
        (replaced(INCLUDE, "TVM_DLL int32_t arm_softmax_s8(void*);").copy(), ""),
        (
            {
                **replaced(INCLUDE, "TVM_DLL int32_t arm_softmax_s8(void*);"),
                "codegen/host/src/default_lib2.c": "static int32_t g(void* x) { return arm_softmax_s8(x); }",
            },
            "calls 'arm_softmax_s8', which is not in the archive",
        ),
        (replaced(BODY, "float4 v = ((float4*)p0)[0];"), "vector type float4"),
    ],
)
def test_kernels_that_need_what_is_not_there(members, message, tmp_path):
    if not message:
        assert load(tmp_path, members).calls
        return
    with pytest.raises((UnsupportedOperatorError, ModelError), match=message):
        load(tmp_path, members)


def test_archive_of_objects_is_refused(tmp_path):
    members = one_call("")
    sources = [name for name in members if name.endswith(".c")]
    members = {name: content for name, content in members.items() if name not in sources}
    with pytest.raises(ModelError, match="only objects for one machine"):
        load(tmp_path, {**members, "codegen/host/lib/lib1.o": b"\x7fELF"})
    with pytest.raises(ModelError, match=r"is C\+\+"):
        load(tmp_path, {**members, "codegen/host/src/default_lib1.cc": ""})


# -- several networks and instances

TWO_NETWORKS = """
#include "first.h"
#include "second.h"
#include "early.h"
#include <string.h>

static int check(ai_handle network, const float *input, float factor, const float *weight)
{
    const float *out;
    uint32_t i;

    (void)memcpy(ai_get_input(network, 0)->data, input, 4U * sizeof(float));
    if (ai_run(network) != AI_STATUS_OK) {
        return 1;
    }
    out = (const float *)ai_get_output(network, 0)->data;
    for (i = 0U; i < 4U; i++) {
        if (out[i] != factor * input[i] + weight[i]) {
            return 1;
        }
    }
    return 0;
}

int main(void)
{
    static const float inputs[4][4] = {{1, 2, 3, 4}, {-1, 0, 5, 9}, {0, 0, 0, 1}, {7, 7, 7, 7}};
    static const float weight[4] = {0.5f, -1.0f, 2.0f, 10.0f};
    static const float none[4] = {0, 0, 0, 0};
    static uint64_t arena[AI_FIRST_ACTIVATIONS_SIZE / 8U + 1U];
    static uint64_t early_arena[AI_EARLY_ACTIVATIONS_SIZE / 8U + 1U];
    static uint64_t memory[2][AI_INSTANCE_SIZE(1, 1) / 8U + 1U];
    ai_handle first, again, second, early, early_again;
    uint32_t i;

    if ((ai_create(&ai_first_network, NULL, &first) != AI_STATUS_OK)
        || (ai_create(&ai_second_network, NULL, &second) != AI_STATUS_OK)
        || (ai_create(&ai_early_network, NULL, &early) != AI_STATUS_OK)
        || (ai_create_in(&ai_first_network, memory[0], sizeof memory[0], (ai_ptr)arena, &again) != AI_STATUS_OK)
        || (ai_create_in(&ai_early_network, memory[1], sizeof memory[1], (ai_ptr)early_arena, &early_again)
            != AI_STATUS_OK)) {
        return 2;
    }
    for (i = 0U; i < 4U; i++) {
        if (check(first, inputs[i], 2, weight) || check(second, inputs[3U - i], 2, weight)
            || check(early, inputs[i], 2, none) || check(again, inputs[3U - i], 2, weight)
            || check(early_again, inputs[3U - i], 2, none)) {
            return 1;
        }
    }
    return 0;
}
"""


def test_three_networks_and_two_instances_of_each_kind_in_one_image(tmp_path):
    need_board("host")
    sources = []
    for name, members in (("first", mlf.small_members()), ("second", mlf.small_members(3)), ("early", EARLY)):
        emit(load(tmp_path, members, name=f"{name}.tar"), tmp_path)
        sources += [tmp_path / f"{name}.c", tmp_path / f"{name}_data.c"]
    main = tmp_path / "main.c"
    main.write_text(TWO_NETWORKS)
    board = load_board("host")
    image = build_image([main, *sources], [tmp_path], board, tmp_path, "two", flags=["-Wno-float-equal"])
    assert subprocess.run([image], check=False).returncode == 0


# -- the generated C

SHIM_CHECKS = """
#include "ai_tvm_shim.h"

#define AI_TVM_STACK (&stack)
#define ALLOC(bytes) TVMBackendAllocWorkspace(1, 0, (uint64_t)(bytes), 2, 32)
#define FREE(memory) TVMBackendFreeWorkspace(1, 0, memory)

int main(void)
{
    static uint64_t memory[8];
    ai_tvm_stack stack = {(uint8_t *)memory, 64U, 0U};
    uint8_t *a;
    uint8_t *b;

    if (ALLOC(65) || ALLOC(UINT64_MAX) || ALLOC(UINT64_MAX - 3U) || ALLOC(1ULL << 32) || ALLOC((1ULL << 32) + 8U)) {
        return 1;
    }
    a = (uint8_t *)ALLOC(9);
    b = (uint8_t *)ALLOC(48);
    if ((a != (uint8_t *)memory) || (b != a + 16) || ALLOC(1) || (ALLOC(0) == NULL)) {
        return 2;
    }
    if (!FREE(a - 1) || !FREE(b + 49) || !FREE(NULL) || FREE(b) || !FREE(a + 17) || FREE(a)) {
        return 3;
    }
    return (ALLOC(64) == a) ? 0 : 4;
}
"""


def test_shim_hands_out_what_there_is_and_no_more(tmp_path):
    need_board("host")
    (tmp_path / "checks.c").write_text(SHIM_CHECKS)
    image = build_image(
        [tmp_path / "checks.c"], [], load_board("host"), tmp_path, "checks", warnings_as_errors=True, runtime=False
    )
    assert subprocess.run([image], check=False).returncode == 0


@pytest.mark.parametrize(
    ("cpu", "flags"),
    [
        ("host", ["-std=c99", "-O0"]),
        ("host", ["-std=gnu11", "-O3"]),
        ("cortex-m0", ["-std=c99", "-Os"]),
        ("cortex-m3", ["-std=c11", "-O2"]),
        ("cortex-m55", ["-std=gnu11", "-O3"]),
    ],
)
@pytest.mark.parametrize("kind", ["graph", "aot"])
def test_generated_c_has_no_warnings_and_asks_for_nothing_unnamed(kind, cpu, flags, tmp_path):
    need_board("host" if cpu == "host" else "mps2-an386")
    members = mlf.small_members() if kind == "graph" else EARLY
    library = load_library(mlf.write(tmp_path, members), MlfOptions(Target.for_cpu(cpu)))
    emit(library, tmp_path)
    prefix = "" if cpu == "host" else "arm-none-eabi-"
    common = [*Target.for_cpu(cpu).compile_flags, *flags, *WARNING_FLAGS, "-Werror", f"-I{ROOT}/runtime/include"]
    for part in ("small", "small_data"):
        command = [f"{prefix}gcc", *common, "-c", tmp_path / f"{part}.c", "-o", tmp_path / f"{part}.o"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    listing = subprocess.run([f"{prefix}nm", tmp_path / "small.o"], capture_output=True, text=True, check=True).stdout
    symbols = [line.split()[-2:] for line in listing.splitlines()]
    asked = {name for kind, name in symbols if kind == "U" and not name.startswith(("small_", "ai_", "__aeabi_"))}
    assert asked <= {"memcpy", "memset", "_GLOBAL_OFFSET_TABLE_"}
    # Nothing of the archive is seen outside.
    assert all(name.startswith("ai_small_") for kind, name in symbols if kind in "TDBRC")


def test_page_shows_an_archives_network(tmp_path):
    assert "double" in html_page(load(tmp_path, mlf.small_members()))


# -- the command


def command(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "tvm_stm32", *map(str, arguments)], capture_output=True, text=True, cwd=ROOT, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_emit_writes_what_compile_writes_and_runs(tmp_path):
    path = mlf.write(tmp_path, mlf.small_members())
    code, said, _ = command("emit", path, "-o", tmp_path / "a", "--cpu", "host")
    assert code == 0 and said.startswith("small: 2 calls")
    assert (tmp_path / "a" / "ai_tvm_shim.h").is_file()
    code, _, _ = command("compile", path, "-o", tmp_path / "b", "--cpu", "host", "--no-runtime")
    assert code == 0
    for file in (tmp_path / "b").iterdir():
        assert file.read_bytes() == (tmp_path / "a" / file.name).read_bytes()
    np.savez(tmp_path / "in.npz", x=X)
    code, said, err = command("run", path, "--board", "host", "--inputs", tmp_path / "in.npz")
    assert code == 0, err
    assert "output output of the first sample: 2.5 3 8 2" in said


def test_errors_are_one_block(tmp_path):
    members = mlf.small_members()
    path = mlf.write(tmp_path, {**members, "metadata.json": '{"version": 9}'})
    code, said, err = command("emit", path, "-o", tmp_path / "a")
    assert code == 1 and not said and not (tmp_path / "a").exists()
    assert err.startswith("error: small.tar: Model Library Format version 9\n") and "Traceback" not in err
    model = tmp_path / "m.relay"
    model.write_text("def @main() { 1 }")
    code, _, err = command("emit", model, "-o", tmp_path / "a")
    assert code == 1 and "not a Model Library Format archive" in err


SCONSTRUCT = """
import os
tools = os.path.join({root!r}, "site_scons", "site_tools")
env = Environment(tools=["gcc", "stm32_model"], toolpath=[tools], ENV=dict(os.environ))
network = env.TvmModel("build/net", "small.tar", CPU="host", TVMSTM32FLAGS=["--storage", "archive"])
Default([network, network.headers, network.report])
"""


def test_scons_takes_an_archive_as_a_source(tmp_path):
    mlf.write(tmp_path, mlf.small_members())
    (tmp_path / "SConstruct").write_text(SCONSTRUCT.format(root=str(ROOT)))
    outputs = []
    for _ in range(2):
        command = [sys.executable, "-m", "SCons", "-Q"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert "storage=archive" in (tmp_path / "build" / "net.c").read_text()
    assert "small.tar" in outputs[0] and "is up to date" in outputs[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_layout": "nhwc"}, "--input-layout goes with a model"),
        ({"input_shapes": {"x": (1,)}}, "--input-shape goes with a model"),
        ({"module": "other"}, "no module 'other'"),
    ],
)
def test_options_that_do_not_go_with_an_archive(options, message, tmp_path):
    from tvm_stm32.compiler import CompileOptions, compile_model

    path = mlf.write(tmp_path, mlf.small_members())
    with pytest.raises(Error, match=message):
        compile_model(path, CompileOptions(Target("host"), **options))
    with pytest.raises(Error, match="--module and --storage go with"):
        compile_model(ROOT / "examples/digits/digits_int8.relay", CompileOptions(Target("host"), module="m"))


def test_archives_need_no_tvm(tmp_path):
    path = mlf.write(tmp_path, mlf.small_members())
    script = (
        "import sys; from pathlib import Path; from tvm_stm32.compiler import *; from tvm_stm32.target import Target\n"
        f"compile_model(Path({str(path)!r}), CompileOptions(Target('host')))\n"
        "assert 'tvm' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)
