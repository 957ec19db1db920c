"""Applications of ST's C interfaces, written from scratch, compile unchanged and get our own interface's bytes.

``applications/`` has one for each compile-compatibility case: real applications use exactly these elements. They are
compiled with the warnings an author has (``-Wall -Wextra``) as errors.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support import ROOT, build_and_run, need_board

from tvm_stm32 import __version__
from tvm_stm32.boards import load_board
from tvm_stm32.c_api import interface_files, runtime_files, snippet_files
from tvm_stm32.commands import Choice, compile_to_folder, emit_archive
from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.emit.st import axes, render_interface
from tvm_stm32.errors import ModelError
from tvm_stm32.model import Quantization, TensorInfo
from tvm_stm32.project.firmware import WARNING_FLAGS, build_image
from tvm_stm32.project.inference import run_samples
from tvm_stm32.target import Target
from tvm_stm32.toolchain import run_tool

APPLICATIONS = Path(__file__).resolve().parent / "applications"
RUNTIME = ROOT / "runtime"
DIGITS = ROOT / "examples" / "digits"
# What -Wall -Wextra does not ask of an application.
AUTHORS_FLAGS = [f"-Wno-{flag[2:].partition('=')[0]}" for flag in WARNING_FLAGS[2:-1]]
AUTHORS_FLAGS += ["-std=c11", "-Wno-pedantic"]
M4 = "mps2-an386"


@dataclass(frozen=True)
class Case:
    """An application, its networks (model, C name), and what its build defines."""

    application: str
    c_api: str
    networks: tuple[tuple[str, str], ...]
    defines: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "-".join([self.application, *(model for model, _ in self.networks), *self.defines])


P0, P1, OBSERVED = "AI_PLATFORM_LAYOUT=0", "AI_PLATFORM_LAYOUT=1", "AI_OBSERVER=1"
CASES = [
    *(Case("template", "x-cube-ai", ((kind, "network"),)) for kind in ("int8", "float")),
    Case("template_outputs", "x-cube-ai", (("face", "face"),)),
    *(Case("flat", "x-cube-ai", ((kind, "mnist"),), (P1,)) for kind in ("int8", "float")),
    Case("flat_info", "x-cube-ai", (("int8", "network"),), (P1,)),
    Case("triple_brace", "x-cube-ai", (("float", "io_gate"),)),
    *(Case("quantized", "x-cube-ai", ((kind, "network"),)) for kind in ("int8", "float")),
    Case("report", "x-cube-ai", (("int8", "network"),)),
    Case("glue", "x-cube-ai", (("int8", "network"),)),
    Case("observer", "x-cube-ai", (("int8", "net_2_digits"),), (OBSERVED,)),
    *(Case("stai_mcu", "st-ai", ((kind, "network"),)) for kind in ("int8", "float")),
    Case("stai_template", "st-ai", (("int8", "network"),)),
    *(Case("stai_validation", "st-ai", ((kind, "network"),), (OBSERVED,)) for kind in ("int8", "float")),
    Case("stai_n6", "st-ai", (("int8", "od"), ("float", "reid"))),
    *(Case("p0", "x-cube-ai", ((kind, "network"),), (P0,)) for kind in ("int8", "float")),
    *(Case("pair", "x-cube-ai", (("pair", "pair"),), defines) for defines in ((P0,), (P1,), ())),
    Case("stai_pair", "st-ai", (("pair", "pair"),)),
    Case("two_networks", "x-cube-ai", (("int8", "first"), ("float", "second"))),
    *(Case("buffers", "x-cube-ai", (("int8", "network"),), defines) for defines in ((), (P1,))),
    *(Case("client_errors", "x-cube-ai", (("int8", "network"),), (OBSERVED, layout)) for layout in (P0, P1)),
    *(Case("client_errors", "x-cube-ai", ((kind, "network"),), (OBSERVED,)) for kind in ("int8", "float")),
    *(Case("stai_errors", "st-ai", ((kind, "network"),), (OBSERVED,)) for kind in ("int8", "float")),
]
ON_M4 = ("template", "template_outputs", "flat", "report", "observer", "stai_mcu", "stai_n6", "p0", "client_errors")
ON_M4 += ("stai_errors",)


def runs_on_m4(case: Case) -> bool:
    """Whether a case runs on the emulated core as well; in floats one application of each interface is enough."""
    is_float = case.networks[0][0] == "float"
    return case.application in (("template", "stai_mcu") if is_float else ON_M4)


def face_model() -> onnx.ModelProto:
    """Four float outputs, two of them halves of one tensor: those cannot move, the interface copies them."""
    weights = np.random.default_rng(0).normal(size=(2, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["image", "weights"], ["scores"], pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["scores"], ["boxes"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Relu", ["boxes"], ["points"]),
        helper.make_node("Split", ["points"], ["left", "right"], axis=1, num_outputs=2),
    ]
    shapes = {"scores": (1, 2, 4, 6), "boxes": (1, 2, 2, 3), "left": (1, 1, 2, 3), "right": (1, 1, 2, 3)}
    graph = helper.make_graph(
        nodes,
        "face",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 3, 4, 6))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
        [numpy_helper.from_array(weights, "weights")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def pair_model() -> onnx.ModelProto:
    """Two float inputs; the first is an output as well. No weights."""
    nodes = [
        helper.make_node("Concat", ["a", "b"], ["both"], axis=1),
        helper.make_node("Identity", ["a"], ["same"]),
    ]
    infos = {
        name: helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, size))
        for name, size in (("a", 4), ("b", 6), ("both", 10), ("same", 4))
    }
    graph = helper.make_graph(nodes, "pair", [infos["a"], infos["b"]], [infos["both"], infos["same"]])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    onnx.save(face_model(), folder / "face.onnx")
    onnx.save(pair_model(), folder / "pair.onnx")
    return {
        "int8": DIGITS / "digits_int8.onnx",
        "float": DIGITS / "digits_float.onnx",
        "face": folder / "face.onnx",
        "pair": folder / "pair.onnx",
    }


@pytest.fixture(scope="module")
def generated(models, tmp_path_factory):
    """Folder of a network's files, made once: ``generated(model, name, c_api, cpu)``."""
    made: dict[tuple[str, ...], Path] = {}

    def make(model: str, name: str, c_api: str, cpu: str) -> Path:
        key = (model, name, c_api, cpu)
        if key not in made:
            made[key] = tmp_path_factory.mktemp("generated")
            compile_to_folder(Choice(models[model], cpu=cpu, name=name, c_api=c_api), made[key], with_runtime=False)
        return made[key]

    return make


@pytest.fixture(scope="module")
def references(models, tmp_path_factory):
    """Samples, and what our own interface makes of them: ``references(model, board)``."""
    made: dict[tuple[str, str], tuple[list[bytes], list[bytes]]] = {}

    def make(model: str, board: str) -> tuple[list[bytes], list[bytes]]:
        if (model, board) not in made:
            library = compile_model(models[model], CompileOptions(load_board(board).target))
            generator = np.random.default_rng(1)
            size = sum(library.tensors[tensor].size for tensor in library.input_tensors)
            if library.inputs[0].dtype == "float32":
                samples = [generator.random(size // 4, np.float32).tobytes() for _ in range(3)]
            else:
                samples = [generator.bytes(size) for _ in range(3)]
            outputs, _ = build_and_run(library, board, samples, tmp_path_factory.mktemp("reference"))
            made[model, board] = samples, outputs
        return made[model, board]

    return make


def build(case: Case, board: str, generated, folder: Path) -> Path:
    target = load_board(board).target
    folders = [generated(model, name, case.c_api, target.cpu) for model, name in case.networks]
    # A Cortex-M compiler has uint32_t as unsigned long, and authors print shapes with %d all the same.
    formats = ["-Wno-format"] if case.application == "report" else []
    return build_image(
        [
            APPLICATIONS / "harness.c",
            APPLICATIONS / f"{case.application}.c",
            *(source for path in folders for source in sorted(path.glob("*.c"))),
            *(RUNTIME / name for name in runtime_files(case.c_api) if name.endswith(".c")),
        ],
        [*folders, RUNTIME / "st", APPLICATIONS],
        load_board(board),
        folder,
        "application",
        defines=case.defines,
        flags=[*AUTHORS_FLAGS, *formats],
        warnings_as_errors=True,
    )


@pytest.mark.parametrize(
    ("case", "board"),
    [
        pytest.param(case, board, id=f"{case}-{board}")
        for case in CASES
        for board in ("host", M4)
        if board == "host" or runs_on_m4(case)
    ],
)
def test_application_gets_the_bytes_of_our_own_interface(case, board, generated, references, tmp_path):
    need_board(board)
    pairs = [references(model, board) for model, _ in case.networks]
    samples = [b"".join(parts) for parts in zip(*(pair[0] for pair in pairs), strict=True)]
    expected = [b"".join(parts) for parts in zip(*(pair[1] for pair in pairs), strict=True)]
    image = build(case, board, generated, tmp_path)
    outputs, _ = run_samples(image, load_board(board), samples, timeout_s=60)
    assert outputs == expected


@pytest.mark.parametrize("case", [case for case in CASES if case.application not in ON_M4], ids=str)
def test_other_applications_link_for_cortex_m4(case, generated, tmp_path):
    need_board(M4)
    build(case, M4, generated, tmp_path)


@pytest.mark.parametrize(
    ("application", "c_api", "placement"),
    [
        ("weights_outside", "x-cube-ai", {"weights": "external"}),
        ("stai_weights_outside", "st-ai", {"weights": "external"}),
        ("outside", "x-cube-ai", {"external_io": ("all",), "alignment": 32}),
    ],
)
def test_placement_goes_through_the_interface(application, c_api, placement, models, references, tmp_path):
    need_board("host")
    folder = tmp_path / "generated"
    choice = Choice(models["int8"], cpu="host", name="network", c_api=c_api, **placement)
    compile_to_folder(choice, folder, with_runtime=False)
    if "weights" in placement:
        content = ", ".join(str(byte) for byte in (folder / "network_tvm_weights.bin").read_bytes())
        text = "extern const unsigned char weights_file[];\n__attribute__((aligned(16))) const unsigned char "
        (folder / "weights_file.c").write_text(f"{text}weights_file[] = {{{content}}};\n")
    case = Case(application, c_api, (("int8", "network"),))
    samples, expected = references("int8", "host")
    image = build(case, "host", lambda *_: folder, tmp_path)
    assert run_samples(image, load_board("host"), samples, timeout_s=60)[0] == expected


def test_tensors_that_cannot_move_are_copied(generated, references, tmp_path):
    need_board("host")
    case = Case("template_outputs", "x-cube-ai", (("face", "face"),))
    folder = tmp_path / "fixed"
    shutil.copytree(generated("face", "face", "x-cube-ai", "host"), folder)
    text = (folder / "face_tvm.c").read_text()
    # As where a tensor is part of another one; the code of the operators does not differ.
    assert text.count("AI_DTYPE_FLOAT32, 4U, 0U}") == 5
    (folder / "face_tvm.c").write_text(
        text.replace("AI_DTYPE_FLOAT32, 4U, 0U}", "AI_DTYPE_FLOAT32, 4U, AI_TENSOR_FIXED}")
    )
    samples, expected = references("face", "host")
    image = build(case, "host", lambda *_: folder, tmp_path)
    assert run_samples(image, load_board("host"), samples, timeout_s=60)[0] == expected


@pytest.mark.parametrize("cpu", ["host", "cortex-m4"])
@pytest.mark.parametrize(
    ("c_api", "define"),
    [("x-cube-ai", P0), ("x-cube-ai", P1), ("x-cube-ai", "AI_PLATFORM_LAYOUT=2"), ("st-ai", OBSERVED)],
)
def test_generated_files_and_runtime_are_clean_c99(cpu, c_api, define, generated, tmp_path):
    need_board("host" if cpu == "host" else M4)
    compiler = "cc" if cpu == "host" else "arm-none-eabi-gcc"
    folder = generated("int8", "network", c_api, cpu)
    runtime = [RUNTIME / name for name in runtime_files(c_api) if name.endswith(".c")]
    flags = [*Target.for_cpu(cpu).compile_flags, "-std=c99", "-O2", *WARNING_FLAGS, "-Werror", f"-D{define}"]
    folders = [f"-I{place}" for place in (folder, RUNTIME / "st", RUNTIME / "include")]
    for source in [*sorted(folder.glob("*.c")), *runtime]:
        done = run_tool([compiler, *flags, *folders, "-c", source, "-o", tmp_path / "x.o"])
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("c_api", ["x-cube-ai", "st-ai"])
def test_headers_are_clean_cpp(c_api, generated, tmp_path):
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    folder = generated("int8", "network", c_api, "host")
    headers = [name for name in interface_files("network", c_api) if name.endswith(".h")]
    source = tmp_path / "user.cpp"
    source.write_text("".join(f'#include "{name}"\n' for name in headers) + "int main() { return 0; }\n")
    folders = [f"-I{folder}", f"-I{RUNTIME / 'st'}"]
    for standard in ("c++11", "c++17"):
        flags = [f"-std={standard}", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror", "-fsyntax-only"]
        done = run_tool(["g++", *flags, *folders, source])
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("layout", [0, 1, 2])
def test_client_api_from_cpp(layout, generated, tmp_path):
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    folder = generated("int8", "network", "x-cube-ai", "host")
    folders = [f"-I{place}" for place in (folder, RUNTIME / "st", RUNTIME / "include")]
    runtime = [RUNTIME / name for name in (*runtime_files("x-cube-ai"), "src/ai_runtime.c") if name.endswith(".c")]
    objects = []
    for path in (*folder.glob("*.c"), *runtime):
        objects.append(tmp_path / f"{path.stem}.o")
        done = run_tool(["cc", f"-DAI_PLATFORM_LAYOUT={layout}", *folders, "-c", path, "-o", objects[-1]])
        assert done.returncode == 0, done.stderr
    flags = ["-std=c++11", "-Wall", "-Wextra", "-pedantic", "-Werror", f"-DAI_PLATFORM_LAYOUT={layout}"]
    program = tmp_path / "program"
    done = run_tool(["g++", *flags, *folders, APPLICATIONS / "client.cpp", *objects, "-lm", "-o", program])
    assert done.returncode == 0, done.stderr
    assert run_tool([program]).returncode == 0


SIZES = {
    P0: "sizeof(ai_buffer) == 16 && sizeof(ai_buffer_format) == 2",
    P1: "sizeof(ai_buffer) == 24 && offsetof(ai_buffer, channels) == 12 && offsetof(ai_buffer, data) == 16 &&"
    " offsetof(ai_buffer, meta_info) == 20",
    "AI_PLATFORM_LAYOUT=2": "sizeof(ai_buffer) == 28 && offsetof(ai_buffer, data) == 4 &&"
    " offsetof(ai_buffer, flags) == 12 && offsetof(ai_buffer, size) == 16 && offsetof(ai_buffer, shape) == 20 &&"
    " sizeof(ai_network_params) == 56 && offsetof(ai_network_params, activations) == 28 && sizeof(ai_error) == 4",
}


@pytest.mark.parametrize("layout", SIZES)
def test_legacy_structures_have_their_layout(layout, tmp_path):
    need_board(M4)
    source = tmp_path / "sizes.c"
    source.write_text(f'#include "ai_platform.h"\ntypedef char fits[({SIZES[layout]}) ? 1 : -1];\n')
    done = run_tool(["arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb", f"-D{layout}", f"-I{RUNTIME / 'st'}",
                     "-fsyntax-only", source])  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_stai_structures_have_their_layout(tmp_path):
    need_board(M4)
    source = tmp_path / "sizes.c"
    facts = {"c_model_signature": 16, "runtime_version": 20, "n_macc": 32, "n_nodes": 40, "n_inputs": 48, "inputs": 60}
    checks = " && ".join(f"offsetof(stai_network_info, {name}) == {offset}" for name, offset in facts.items())
    checks += " && sizeof(stai_network_info) == 80 && sizeof(stai_tensor) == 40"
    source.write_text(f'#include "stai.h"\ntypedef char fits[({checks}) ? 1 : -1];\n')
    done = run_tool(["arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb", f"-I{RUNTIME / 'st'}", "-fsyntax-only", source])
    assert done.returncode == 0, done.stderr


def test_stai_headers_do_not_include_the_legacy_ones(generated, tmp_path):
    folder = generated("int8", "network", "st-ai", "host")
    source = tmp_path / "all.c"
    source.write_text("".join(f'#include "{n}"\n' for n in interface_files("network", "st-ai") if n.endswith(".h")))
    done = run_tool(["cc", f"-I{folder}", f"-I{RUNTIME / 'st'}", "-M", source])
    assert done.returncode == 0, done.stderr
    assert "stai.h" in done.stdout
    assert "ai_platform" not in done.stdout
    assert "ai_runtime" not in done.stdout


def test_every_file_is_known_in_advance(models, tmp_path):
    for c_api in ("x-cube-ai", "st-ai"):
        folder = tmp_path / c_api
        compile_to_folder(Choice(models["int8"], cpu="host", name="s", c_api=c_api), folder, with_runtime=True)
        core = [f"s_tvm{end}" for end in (".c", ".h", "_data.c", "_data.h", "_report.json", "_report.txt")]
        runtime = {Path(name).name for name in runtime_files(c_api)}
        own = {path.name for path in folder.iterdir() if not path.name.startswith("ai_")}
        assert own | {name for name in runtime if name.startswith("ai_")} == {
            *core,
            *interface_files("s", c_api),
            *snippet_files("s"),
            *runtime,
        }


@pytest.mark.parametrize("c_api", ["x-cube-ai", "st-ai"])
def test_symbols_have_one_prefix_and_nothing_is_asked_for_but_memory_and_text(c_api, generated, tmp_path):
    need_board(M4)
    folder = generated("int8", "network", c_api, "cortex-m4")
    runtime = [RUNTIME / name for name in runtime_files(c_api) if name.endswith(".c")]
    folders = [f"-I{place}" for place in (folder, RUNTIME / "st", RUNTIME / "include")]
    flags = [*Target.for_cpu("cortex-m4").compile_flags, "-Os", "-DAI_OBSERVER=1"]
    defined, asked = set(), set()
    for path in (*sorted(folder.glob("*.c")), *runtime, RUNTIME / "src" / "ai_runtime.c"):
        done = run_tool(["arm-none-eabi-gcc", *flags, *folders, "-c", path, "-o", tmp_path / "x.o"])
        assert done.returncode == 0, done.stderr
        for line in run_tool(["arm-none-eabi-nm", "-g", tmp_path / "x.o"]).stdout.splitlines():
            kind, name = line.split()[-2:]
            (asked if kind in "Uw" else defined).add(name)
            if path.parent == folder and kind not in "Uw":
                assert re.match(r"(ai_|g_|s_|stai_|stai_ext_)?network_", name), name
    linker = {"__start_ai_models", "__stop_ai_models"}
    rest = {name for name in asked - defined - linker if not name.startswith("__aeabi_")}
    assert rest <= {"memcpy", "memset", "strlen", "strncmp"}


def test_files_of_different_layouts_do_not_link(generated, tmp_path):
    need_board("host")
    folder = generated("int8", "network", "x-cube-ai", "host")
    folders = [f"-I{place}" for place in (folder, RUNTIME / "st", RUNTIME / "include")]
    runtime = [RUNTIME / name for name in runtime_files("x-cube-ai") if name.endswith(".c")]
    source = tmp_path / "main.c"
    source.write_text('#include "network.h"\nint main(void) { return (int)ai_network_create(NULL, NULL).type; }\n')
    objects = []
    for path, layout in ((source, 1), *((path, 2) for path in (*folder.glob("*.c"), *runtime))):
        objects.append(tmp_path / f"{path.stem}.o")
        define = f"-DAI_PLATFORM_LAYOUT={layout}"
        assert run_tool(["cc", define, *folders, "-c", path, "-o", objects[-1]]).returncode == 0
    done = run_tool(["cc", *objects, RUNTIME / "src" / "ai_runtime.c", *folders, "-lm", "-o", tmp_path / "program"])
    assert done.returncode != 0
    assert "ai_network_create_layout_1" in done.stderr


@pytest.mark.parametrize(
    ("dtype", "quantization", "expected"),
    [
        ("uint8", Quantization((0.5, 0.25), (200, 3), 1), ("ai_u8", "U8", "{0.5f, 0.25f}", "{200, 3}")),
        ("int8", Quantization((2.0,), (-128,)), ("ai_i8", "S8", "{2.0f}", "{-128}")),
        ("int16", Quantization((0.1,), (0,)), ("ai_i8", "S8", "{0.100000001f}", "{0}")),
        ("int16", Quantization((0.1,), (300,)), ("ai_i16", "S16", "{0.100000001f}", "{300}")),
        ("uint16", Quantization((1e-9,), (40000,)), ("ai_u16", "U16", "{9.99999972e-10f}", "{40000}")),
    ],
)
def test_zero_points_have_the_type_their_flag_says(dtype, quantization, expected, models):
    library = compile_model(models["int8"], CompileOptions(Target.for_cpu("host"), name="network_tvm"))
    library.inputs = [TensorInfo("image", (1, 1, 8, 8), dtype, quantization)]
    text = render_interface(library, "x-cube-ai")["network.c"]
    ctype, flag, scales, points = expected
    size = len(quantization.scale)
    assert f"const ai_float network_input_1_scale[{size}] = {scales};" in text
    assert f"const {ctype} network_input_1_zero_point[{size}] = {points};" in text
    assert f"AI_BUFFER_META_FLAG_SCALE_FLOAT | AI_BUFFER_META_FLAG_ZEROPOINT_{flag},\n    {size}U," in text


def test_archives_get_the_same_files(models, tmp_path):
    choice = Choice(models["int8"], cpu="cortex-m4", name="network", c_api="st-ai")
    compile_to_folder(choice, tmp_path / "compiled", with_runtime=False, archive=tmp_path / "network.tar")
    archive = Choice(tmp_path / "network.tar", name="network", c_api="st-ai")
    emit_archive(archive, tmp_path / "emitted", with_runtime=False)
    names = sorted(path.name for path in (tmp_path / "compiled").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "emitted").iterdir())
    for name in names:
        assert (tmp_path / "emitted" / name).read_bytes() == (tmp_path / "compiled" / name).read_bytes()


def test_a_name_that_hides_a_header_is_refused(models, tmp_path):
    for name in ("debug", "events"):
        choice = Choice(models["int8"], cpu="host", name=name, c_api="st-ai")
        with pytest.raises(ModelError, match=f"stai_{name}.h is a header"):
            compile_to_folder(choice, tmp_path, with_runtime=False)


def test_version_of_the_header_is_the_tools():
    numbers = __version__.split(".")
    text = (RUNTIME / "st" / "stai.h").read_text()
    for part, number in zip(("MAJOR", "MINOR", "MICRO"), numbers, strict=False):
        assert f"#define STAI_TOOLS_VERSION_{part} {number}\n" in text


@pytest.mark.parametrize(
    ("shape", "channel_first", "expected"),
    [
        ((), False, (None, None, None, 1)),
        ((5,), False, (None, None, None, 5)),
        ((1, 10), False, (1, None, None, 10)),
        ((3, 10), False, (None, 3, None, 10)),
        ((1, 49, 10), False, (1, 49, None, 10)),
        ((1, 4, 6, 3), False, (1, 4, 6, 3)),
        ((1, 3, 4, 6), True, (1, 4, 6, 3)),
        ((2, 4, 6, 3), False, (None, 8, 6, 3)),
        ((1, 2, 4, 6, 3), False, (1, 8, 6, 3)),
    ],
)
def test_dimensions_get_their_names(shape, channel_first, expected):
    assert axes(shape, channel_first=channel_first) == expected
