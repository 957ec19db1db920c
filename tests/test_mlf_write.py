"""What compile writes as an archive: old tools can run it, and emit gives from it what compile gives, byte for byte."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import mlf_builder as mlf
import numpy as np
import pytest
from mlf_driver import members, run_archive, unpack
from support import MLPERF_TINY, ROOT, SHARED, build_and_run, need_board, shared
from test_state import accumulator, expected

from tvm_stm32 import params
from tvm_stm32.compiler import CompileOptions, compile_loaded, compile_model
from tvm_stm32.emit.emitter import render
from tvm_stm32.errors import Error, ModelError, TargetError
from tvm_stm32.library import Library
from tvm_stm32.mlf import MlfOptions, archive_cpu, load_library, write
from tvm_stm32.project.samples import generated
from tvm_stm32.target import Target

DIGITS = ROOT / "examples" / "digits"
MODELS = {
    **{name: DIGITS / name for name in ("digits_int8.relay", "digits_int8.onnx", "digits_float.onnx")},
    **{
        f"{name}.tflite": MLPERF_TINY / f"{name}.tflite"
        for name in ("ad01_int8", "kws_ref_model", "pretrainedResnet_quant", "vww_96_int8", "kws_ref_model_float32")
    },
    # Several inputs and outputs; quantization along an axis; a recurrent network.
    **{
        f"{name}.relay": SHARED / "fixtures" / "relay" / f"{name}.relay"
        for name in ("f32_ops_shape", "q_ops_binary", "q_conv_per_channel", "f32_lstm_unrolled")
    },
}
CPUS = ("host", "cortex-m4", "cortex-m55")


@functools.cache
def network(name: str, cpu: str = "host") -> Library:
    """The library of one of ``MODELS``; not to be changed."""
    return compile_model(shared(MODELS[name]), CompileOptions(Target.for_cpu(cpu)))


def written(library: Library, folder: Path, module: str = "") -> Path:
    path = folder / "model.tar"
    write.write_archive(library, path, module)
    return path


def read(path: Path, cpu: str = "host", **options: str) -> Library:
    return load_library(path, MlfOptions(Target.for_cpu(cpu), **options))


def packed_samples(library: Library, count: int = 2) -> list[bytes]:
    return [
        b"".join(generated(info, 10 * seed + number) for number, info in enumerate(library.inputs))
        for seed in range(1, count + 1)
    ]


@pytest.fixture(scope="module")
def digits() -> Library:
    return network("digits_int8.onnx")


# -- the same Library again


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("name", MODELS)
def test_emit_of_the_archive_equals_compile(name, cpu, tmp_path):
    library = network(name, cpu)
    assert render(read(written(library, tmp_path), cpu)) == render(library)


def test_variables_are_restored(tmp_path):
    library = compile_loaded(accumulator(), CompileOptions(Target.for_cpu("host")))
    restored = read(written(library, tmp_path))
    assert [state.initial for state in restored.states] == [5, -1]
    assert render(restored) == render(library)


@pytest.mark.parametrize("weights", ["array", "incbin", "external"])
def test_where_weights_and_tensors_lie_is_restored(weights, tmp_path):
    options = CompileOptions(Target.for_cpu("host"), weights=weights, external_io=("all",), alignment=16)
    library = compile_model(DIGITS / "digits_int8.onnx", options)
    path = written(library, tmp_path)
    assert render(read(path)) == render(library)
    assert render(compile_model(path, CompileOptions(Target.for_cpu("host")))) == render(library)
    samples = packed_samples(library)
    want, _ = build_and_run(network("digits_int8.onnx"), "host", samples, tmp_path / "own")
    assert run_archive(path, library.name, samples, tmp_path / "archive") == want


def test_quantization_along_an_axis_and_odd_values_are_restored(digits, tmp_path):
    axis = dataclasses.replace(digits.outputs[0].quantization, scale=(0.1,) * 10, zero_point=(3,) * 10, axis=1)
    library = dataclasses.replace(
        digits,
        outputs=[dataclasses.replace(digits.outputs[0], quantization=axis)],
        constants={**digits.constants},
        notes=["a note with ünïcode, a\nnew line and */"],
    )
    for number, value in enumerate((np.float32([np.inf, -np.inf, np.nan, -0.0]), np.int64([-(1 << 63)]), np.zeros(0))):
        constant = dataclasses.replace(
            next(iter(digits.constants.values())), name=f"{digits.name}_odd{number}", data=value
        )
        library.constants[constant.name] = constant
    assert render(read(written(library, tmp_path))) == render(library)


def test_archive_of_an_archive(tmp_path):
    path = mlf.write(tmp_path, mlf.small_members())
    library = read(path)
    assert render(read(written(library, tmp_path))) == render(library)


def test_command_line(tmp_path):
    def run(*arguments: object, **variables: str) -> None:
        command = [sys.executable, "-m", "tvm_stm32", *map(str, arguments)]
        subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, check=True, capture_output=True)

    model = DIGITS / "digits_int8.onnx"
    run("compile", model, "--cpu", "cortex-m55", "-o", tmp_path / "compiled", "--archive", tmp_path / "model.tar")
    run("compile", model, "--cpu", "cortex-m55", "-o", tmp_path / "alone.tar")
    # Without --cpu it is emitted for the core it was compiled for. TVM is not needed.
    (tmp_path / "barred").mkdir()
    (tmp_path / "barred" / "tvm.py").write_text("raise AssertionError('tvm is imported')\n")
    run("emit", tmp_path / "model.tar", "-o", tmp_path / "emitted", PYTHONPATH=str(tmp_path / "barred"))
    content = [
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("compiled", "emitted")
    ]
    assert content[0] == content[1]
    assert (tmp_path / "model.tar").read_bytes() == (tmp_path / "alone.tar").read_bytes()


def test_same_bytes_whatever_the_hash_seed_and_folder(tmp_path):
    copy = tmp_path / "elsewhere" / "digits_int8.onnx"
    copy.parent.mkdir()
    shutil.copy(DIGITS / "digits_int8.onnx", copy)
    archives = []
    for seed, model in (("1", DIGITS / "digits_int8.onnx"), ("2", copy)):
        out = tmp_path / f"out{seed}.tar"
        command = [sys.executable, "-m", "tvm_stm32", "compile", str(model), "--archive", str(out)]
        subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": seed}, cwd=ROOT, check=True, capture_output=True)
        archives.append(out.read_bytes())
    assert archives[0] == archives[1]
    assert str(tmp_path).encode() not in archives[0]


def test_another_name_goes_through_all_of_it(digits, tmp_path):
    path = written(digits, tmp_path)
    texts = render(read(path, name="other"))
    assert "digits_int8_" not in texts[".c"] + texts["_data.c"] + texts[".h"] + texts["_data.h"]
    samples = packed_samples(digits)
    results = [
        build_and_run(library, "host", samples, tmp_path / library.name)[0]
        for library in (digits, read(path, name="other"))
    ]
    assert results[0] == results[1]


@pytest.mark.parametrize("name", ["int8", "int32", "memory", "void_t", "uint8"])
def test_names_that_kernels_use_for_other_things(name, tmp_path):
    library = compile_model(DIGITS / "digits_int8.onnx", CompileOptions(Target.for_cpu("host"), name=name))
    path = written(library, tmp_path)
    texts = render(read(path, name="other"))
    direct = render(compile_model(DIGITS / "digits_int8.onnx", CompileOptions(Target.for_cpu("host"), name="other")))
    # But for where lines are broken.
    for suffix in (".c", "_data.c"):
        assert texts[suffix].split() == direct[suffix].split()


def test_core_without_the_instructions_is_refused(tmp_path):
    path = written(network("digits_int8.onnx", "cortex-m55"), tmp_path)
    assert archive_cpu(path) == "cortex-m55"
    with pytest.raises(TargetError, match="use its MVE instructions") as caught:
        read(path, "cortex-m4")
    assert "leave --cpu out" in str(caught.value)
    m4 = written(network("digits_int8.onnx", "cortex-m4"), tmp_path)
    # The settings stay those it was compiled with.
    assert read(m4, "cortex-m7").settings["cpu"] == "cortex-m4"


# -- what other tools find


def test_fields_of_version_7(digits, tmp_path):
    unpack(written(digits, tmp_path), tmp_path)
    document = json.loads((tmp_path / "metadata.json").read_text())
    assert set(document) == {"version", "modules"}
    assert document["version"] == 7
    (module,) = document["modules"].values()
    own = module.pop("tvm_stm32")
    assert own["schema"] == 3 and own["source"] == "src/digits_int8.txt"
    assert module["model_name"] == "digits_int8"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", module["export_datetime"])
    assert module["target"] == ["c -keys=cpu"]
    assert (module["executors"], module["style"]) == (["aot"], "full-model")
    assert [row["url"] for row in module["external_dependencies"]] == ["./runtime"]
    (main,) = module["memory"]["functions"]["main"]
    assert main["inputs"] == {"image": {"size": 64, "dtype": "int8"}}
    assert main["outputs"] == {"scores": {"size": 10, "dtype": "int8"}}
    assert main["io_size_bytes"] == 74
    assert main["constants_size_bytes"] == digits.constant_bytes
    operators = module["memory"]["functions"]["operator_functions"]
    source = (tmp_path / "codegen/host/src/digits_int8_lib1.c").read_text()
    assert {row["function_name"] for row in operators} == set(digits.kernels)
    assert all(f"{row['function_name']}(" in source for row in operators)
    header = (tmp_path / "codegen/host/include/tvmgen_digits_int8.h").read_text()
    assert "#ifndef TVMGEN_DIGITS_INT8_H_" in header
    assert (members(header, "inputs"), members(header, "outputs")) == (["image"], ["scores"])
    assert "#define TVMGEN_DIGITS_INT8_IMAGE_SIZE 64\n" in header
    size = int(re.search(r"_WORKSPACE_SIZE (\d+)", header).group(1))
    assert main["workspace_size_bytes"] == size <= digits.arena_size
    assert set(params.read((tmp_path / "parameters/digits_int8.params").read_bytes(), "x")) == set(digits.constants)


def test_interface_header_is_clean_cpp(digits, tmp_path):
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    unpack(written(digits, tmp_path), tmp_path)
    source = tmp_path / "user.cpp"
    source.write_text(
        '#include "tvmgen_digits_int8.h"\nint main() { return tvmgen_digits_int8_run(nullptr, nullptr); }\n'
    )
    flags = ["-std=c++17", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"]
    subprocess.run(["g++", *flags, f"-I{tmp_path / 'codegen/host/include'}", source], check=True)


def test_members_are_those_of_old_exporters(digits, tmp_path):
    with tarfile.open(written(digits, tmp_path)) as tar:
        infos = tar.getmembers()
    names = [info.name for info in infos]
    assert names == sorted(names)
    assert {"./codegen/host/src", "./codegen/host/include", "./parameters", "./runtime", "./src"} <= set(names)
    assert {(info.mtime, info.uid, info.gid, info.uname, info.gname) for info in infos} == {(0, 0, 0, "root", "root")}
    assert {info.mode for info in infos if info.isfile()} == {0o644}


@pytest.mark.parametrize("name", MODELS)
def test_its_c_alone_gives_the_numbers(name, tmp_path):
    library = network(name)
    samples = packed_samples(library)
    want, _ = build_and_run(library, "host", samples, tmp_path / "own")
    assert run_archive(written(library, tmp_path), library.name, samples, tmp_path / "archive") == want


@pytest.mark.parametrize("cpu", ["cortex-m3", "cortex-m4", "cortex-m55"])
def test_its_c_alone_compiles_for_cores(cpu, tmp_path):
    need_board("mps2-an386")
    unpack(written(network("digits_int8.onnx", cpu), tmp_path), tmp_path)
    flags = [*Target.for_cpu(cpu).compile_flags, "-std=c99", "-O2", "-Wall", "-Wextra", "-Werror"]
    includes = [f"-I{tmp_path / 'codegen/host/include'}", f"-I{tmp_path / 'runtime/include'}"]
    for path in (tmp_path / "codegen/host/src").glob("*.c"):
        command = ["arm-none-eabi-gcc", *flags, *includes, "-c", path, "-o", tmp_path / "x.o"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_variables_last_from_run_to_run_there(tmp_path):
    library = compile_loaded(accumulator(), CompileOptions(Target.for_cpu("host")))
    samples = [np.array([[i, 2 * i, -i, 7]], np.int32) for i in range(1, 6)]
    packed = [sample.tobytes() for sample in samples]
    results = run_archive(written(library, tmp_path), library.name, packed, tmp_path / "archive")
    for result, want in zip(results, expected([sample[0] for sample in samples]), strict=True):
        np.testing.assert_array_equal(np.frombuffer(result, np.int32), want)


def test_program_written_for_the_usual_module_name(digits, tmp_path):
    path = written(digits, tmp_path, "default")
    samples = packed_samples(digits)
    want, _ = build_and_run(digits, "host", samples, tmp_path / "own")
    assert run_archive(path, "default", samples, tmp_path / "archive") == want
    assert render(read(path)) == render(digits)
    assert render(read(path, module="default")) == render(digits)
    with pytest.raises(Error, match=r"'\.\./x' cannot be the name"):
        written(digits, tmp_path, "../x")


@pytest.mark.parametrize(
    ("archive", "model"),
    [
        ("f32_mlp_aot_unpacked_c", "f32_mlp"),
        ("q_conv_aot_usmp", "q_conv_per_channel"),
        ("tfl_kws_aot_plain_c", "tfl_kws_int8"),
        ("f32_lenet_aot_unpacked_c", "f32_lenet_params"),
    ],
)
def test_interface_is_that_of_the_old_archive_of_the_model(archive, model, tmp_path):
    """So a program written for one compiles against the other."""
    fixtures = SHARED / "fixtures"
    relay = shared(fixtures / "relay" / f"{model}.relay")
    weights = relay.with_suffix(".params")
    options = CompileOptions(Target.for_cpu("host"))
    library = compile_model(relay, options, weights if weights.exists() else None)
    unpack(written(library, tmp_path, "default"), tmp_path / "new")
    unpack(shared(fixtures / "mlf" / f"{archive}.tar"), tmp_path / "old")
    texts = [
        (tmp_path / age / "codegen/host/include/tvmgen_default.h").read_text().replace("void* ", "void *")
        for age in ("old", "new")
    ]
    for what in (r"void \*\w+;", r"#define TVMGEN_DEFAULT_(?!WORKSPACE)\w+ \d+", r"int32_t \w+\(", r"struct \w+ \{"):
        found = [re.findall(what, text) for text in texts]
        assert found[0] == found[1] != []


def test_names_of_tensors_are_made_c_names(tmp_path):
    names = ["int", "2nd", "a*/b\n", "A__b_", "workspace", "", "é" * 80]
    model = accumulator()
    library = compile_loaded(model, CompileOptions(Target.for_cpu("host")))
    for name in names:
        odd = dataclasses.replace(
            library,
            inputs=[dataclasses.replace(library.inputs[0], name=name)],
            outputs=[dataclasses.replace(library.outputs[0], name=name)],
        )
        sample = np.array([[1, 2, 3, 4]], np.int32).tobytes()
        folder = tmp_path / str(names.index(name))
        folder.mkdir()
        path = written(odd, folder)
        assert len(run_archive(path, odd.name, [sample], folder / "x")[0]) == 16
        restored = read(path)
        assert (restored.inputs[0].name, restored.outputs[0].name) == (name, name)
        build_and_run(restored, "host", [sample], folder / "y")


# -- other versions, and archives that were changed


def edited(path: Path, change) -> bytes:
    """The archive with ``change(members)`` applied to its files."""
    with tarfile.open(path) as tar:
        content = {info.name[2:]: tar.extractfile(info).read() for info in tar if info.isfile()}
    change(content)
    return mlf.tar(content)


def own(change):
    """A change of the document under our key, for :func:`edited`."""

    def edit(content):
        document = json.loads(content["metadata.json"])
        (module,) = document["modules"].values()
        change(module["tvm_stm32"])
        content["metadata.json"] = json.dumps(document).encode()

    return edit


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (own(lambda own: own.update(schema=4, tool="tvm-stm32 9.0")), "tvm-stm32 9.0 in schema 4"),
        (own(lambda own: own.update(schema="new", library=[])), "in schema new"),
        (own(lambda own: own["library"].update(colour="blue")), "facts this version does not know"),
        (lambda content: content.update({"parameters/digits_int8.params": b""}), "params is not as this tool wrote it"),
        (
            lambda content: content.update(
                {"codegen/host/src/digits_int8_lib1.c": content["codegen/host/src/digits_int8_lib1.c"] + b"/* x */\n"}
            ),
            "lib1.c is not as this tool wrote it",
        ),
    ],
)
def test_other_version_or_edited_c_is_read_like_any_archive(change, note, digits, tmp_path):
    path = tmp_path / "changed.tar"
    path.write_bytes(edited(written(digits, tmp_path), change))
    library = read(path)
    assert note in library.notes[-1]
    assert [call.operator for call in library.calls] == ["tvm_main"]
    assert library.inputs[0].name == "image"
    samples = packed_samples(digits)
    want, _ = build_and_run(digits, "host", samples, tmp_path / "own")
    assert build_and_run(library, "host", samples, tmp_path / "plain")[0] == want


def test_remark_is_shown(digits, tmp_path):
    path = tmp_path / "changed.tar"
    path.write_bytes(edited(written(digits, tmp_path), own(lambda own: own.update(schema=4))))
    command = [sys.executable, "-m", "tvm_stm32", "emit", str(path), "-o", str(tmp_path / "out"), "--cpu", "host"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stderr.startswith("note: read as an archive of any other tool: it was written by tvm-stm32")


def test_kernels_for_another_runtime_are_noted(digits, tmp_path):
    path = tmp_path / "changed.tar"
    digest = {"runtime/include/ai_kernels.h": "0" * 64}
    path.write_bytes(edited(written(digits, tmp_path), own(lambda own: own["digests"].update(digest))))
    library = read(path)
    assert library.notes == [*digits.notes, "written for another version of ai_kernels.h than this one's"]
    assert render(library)[".c"] == render(digits)[".c"]


def test_variables_of_another_version_are_refused(tmp_path):
    library = compile_loaded(accumulator(), CompileOptions(Target.for_cpu("host")))
    path = tmp_path / "changed.tar"
    path.write_bytes(edited(written(library, tmp_path), own(lambda own: own.update(schema=4))))
    with pytest.raises(ModelError, match=r"keeps variables(.|\n)*in schema 4(.|\n)*version of tvm-stm32 that wrote it"):
        read(path)


def test_document_without_a_field_that_has_a_default(digits, tmp_path):
    def change(own):
        del own["library"]["arena_choices"], own["library"]["states"]

    path = tmp_path / "old.tar"
    path.write_bytes(edited(written(digits, tmp_path), own(change)))
    assert render(read(path)) == render(digits)
