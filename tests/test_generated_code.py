"""What generated C promises: clean under every standard and compiler, no heap, no float in int8 code, deterministic."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT, need_board

from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.emit import emit
from tvm_stm32.emit.emitter import render
from tvm_stm32.project.firmware import WARNING_FLAGS
from tvm_stm32.target import Target

DIGITS = ROOT / "examples" / "digits"
RUNTIME = ROOT / "runtime" / "include"
STRICT = [*WARNING_FLAGS, "-Werror"]


CPUS = ("host", "cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m33", "cortex-m55")
CLANG_TARGETS = {
    "cortex-m0plus": "thumbv6m-none-eabi",
    "cortex-m3": "thumbv7m-none-eabi",
    "cortex-m4": "thumbv7em-none-eabihf",
    "cortex-m33": "thumbv8m.main-none-eabihf",
    "cortex-m55": "thumbv8.1m.main-none-eabihf",
}
# Of cppcheck's MISRA rules those that judge a whole program: a header offers more than one application uses.
MISRA_OF_PROGRAMS = ("2.3", "2.4", "2.5")


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    """Folders with the int8 and the float digits network, compiled for each core."""
    folder = tmp_path_factory.mktemp("networks")
    for kind in ("int8", "float"):
        for cpu in CPUS:
            library = compile_model(DIGITS / f"digits_{kind}.onnx", CompileOptions(Target.for_cpu(cpu)))
            emit(library, folder / cpu)
    return folder


def compile_c(compiler, flags, folder, name, out):
    command = [compiler, *flags, f"-I{RUNTIME}", "-c", str(folder / f"{name}.c"), "-o", str(out)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("standard", ["c99", "gnu11", "c11"])
@pytest.mark.parametrize("optimize", ["-O0", "-O3", "-Os"])
@pytest.mark.parametrize("cpu", CPUS)
def test_no_warning_under_any_standard(networks, cpu, optimize, standard, tmp_path):
    need_board("host" if cpu == "host" else "mps2-an386")
    compiler = "cc" if cpu == "host" else "arm-none-eabi-gcc"
    for kind in ("int8", "float"):
        for part in ("", "_data"):
            flags = [*Target.for_cpu(cpu).compile_flags, f"-std={standard}", optimize, *STRICT]
            done = compile_c(compiler, flags, networks / cpu, f"digits_{kind}{part}", tmp_path / "x.o")
            assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("cpu", CPUS)
def test_no_warning_under_clang(networks, cpu, tmp_path):
    if shutil.which("clang") is None:
        pytest.skip("clang is not installed")
    flags = ["-std=c99", "-O1", *(flag for flag in STRICT if flag != "-Wcast-align=strict"), "-Wcast-align"]
    if cpu != "host":
        need_board("mps2-an386")
        search = subprocess.run(
            ["arm-none-eabi-gcc", "-xc", "-E", "-v", os.devnull], capture_output=True, text=True, check=True
        ).stderr
        folders = [Path(line.strip()).resolve() for line in search.splitlines() if line.startswith(" /")]
        flags += [f"--target={CLANG_TARGETS[cpu]}", f"-mcpu={cpu}"]
        # Those of the C library; GCC's own would hide clang's.
        flags += [f"-isystem{folder}" for folder in folders if "/lib/gcc/" not in folder.as_posix()]
    for kind in ("int8", "float"):
        for part in ("", "_data"):
            done = compile_c("clang", flags, networks / cpu, f"digits_{kind}{part}", tmp_path / "x.o")
            assert done.returncode == 0, done.stderr


def test_headers_keep_misra(networks, tmp_path):
    """No hit of cppcheck's addon in the headers an application includes."""
    if shutil.which("cppcheck") is None:
        pytest.skip("cppcheck is not installed")
    user = tmp_path / "user.c"
    user.write_text('#include "digits_int8.h"\n')
    command = ["cppcheck", "--addon=misra", "--std=c99", "--language=c", "--quiet", "--enable=style"]
    command += ["--suppress=missingIncludeSystem", f"-I{networks / 'host'}", f"-I{RUNTIME}", str(user)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    hits = re.findall(r"(\w+\.h:\d+).*\[misra-c2012-([\d.]+)\]", done.stdout + done.stderr)
    assert not [hit for hit in hits if hit[1] not in MISRA_OF_PROGRAMS]


def test_header_is_clean_cpp(networks, tmp_path):
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    source = tmp_path / "user.cpp"
    source.write_text('#include "digits_int8.h"\nint main() { return ai_digits_int8_network.n_inputs == 1 ? 0 : 1; }\n')
    for standard in ("c++11", "c++17"):
        flags = [f"-std={standard}", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror", "-fsyntax-only"]
        command = ["g++", *flags, f"-I{RUNTIME}", f"-I{networks / 'host'}", str(source)]
        assert subprocess.run(command, check=False).returncode == 0


@pytest.mark.parametrize("kind", ["int8", "float"])
def test_only_named_symbols_are_asked_for(networks, kind, tmp_path):
    need_board("mps2-an386")
    folder = networks / "cortex-m3"
    target = Target.for_cpu("cortex-m3").compile_flags
    assert compile_c("arm-none-eabi-gcc", [*target, "-O2"], folder, f"digits_{kind}", tmp_path / "x.o").returncode == 0
    listing = subprocess.run(["arm-none-eabi-nm", "-u", tmp_path / "x.o"], capture_output=True, text=True, check=True)
    asked = set(re.findall(r"U (\w+)", listing.stdout))
    own = {name for name in asked if name.startswith("digits_")}
    report = (folder / f"digits_{kind}_report.json").read_text()
    allowed = {name for name in asked if f'"{name}"' in report}
    rest = asked - own - allowed
    # What is left is the compiler's own arithmetic: 64-bit division, and soft floats only in the float network.
    assert all(name.startswith("__aeabi_") for name in rest)
    if kind == "int8":
        assert not [name for name in rest if re.match(r"__aeabi_(f|d|i2f|ui2f|l2f|ul2f|i2d|h)", name)]


@pytest.mark.parametrize("cpu", ["cortex-m0plus", "cortex-m4"])
@pytest.mark.parametrize("optimize", ["-Os", "-O3"])
def test_links_without_a_c_library(networks, cpu, optimize, tmp_path):
    need_board("mps2-an386")
    main = tmp_path / "main.c"
    main.write_text(
        '#include "digits_int8.h"\n'
        "void Reset_Handler(void);\n"
        "void Reset_Handler(void)\n{\n    ai_handle network;\n"
        "    float values[64] = {0};\n"
        "    (void)ai_create(&ai_digits_int8_network, NULL, &network);\n"
        "    (void)ai_quantize_input(network, 0U, values);\n"
        "    (void)ai_run(network);\n    for (;;) {\n    }\n}\n"
    )
    folder, source = networks / cpu, RUNTIME.parent / "src"
    sources = [main, folder / "digits_int8.c", folder / "digits_int8_data.c", *source.glob("ai_*.c")]
    flags = [*Target.for_cpu(cpu).compile_flags, "-std=c99", optimize, *STRICT, f"-I{RUNTIME}", f"-I{folder}"]
    link = ["-nostdlib", "-Wl,-e,Reset_Handler", "-Wl,-Ttext=0x8000", "-lgcc", "-o", str(tmp_path / "x.elf")]
    command = ["arm-none-eabi-gcc", *flags, *map(str, sources), *link]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    listing = subprocess.run(["arm-none-eabi-objdump", "-d", tmp_path / "x.elf"], capture_output=True, text=True)
    body = re.search(r"<memcpy>:\n(.*?)\n\n", listing.stdout, re.S)
    assert body is None or "<memcpy>" not in re.sub(r"<memcpy\+0x[0-9a-f]+>", "", body[1])


def test_no_stack_arrays_no_allocation(networks):
    for kind in ("int8", "float"):
        text = (networks / "cortex-m4" / f"digits_{kind}.c").read_text()
        assert not re.search(
            r"\b(malloc|free|alloca|printf|errno|double)\b", re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        )
        arrays = re.findall(r"^    +(?!static|extern|const)\w+ \w+\[\d+\];", text, re.M)
        assert not arrays


def test_one_symbol_prefix_everything_else_static(networks, tmp_path):
    need_board("host")
    for part in ("", "_data"):
        assert compile_c("cc", ["-O1"], networks / "host", f"digits_int8{part}", tmp_path / "x.o").returncode == 0
        listing = subprocess.run(["nm", "-g", "--defined-only", tmp_path / "x.o"], capture_output=True, text=True)
        names = [line.split()[-1] for line in listing.stdout.splitlines()]
        assert names
        assert all(name.startswith(("digits_int8_", "ai_digits_int8_")) for name in names)


def test_same_bytes_whatever_the_hash_seed_and_folder(tmp_path):
    copy = tmp_path / "elsewhere" / "digits_int8.onnx"
    copy.parent.mkdir()
    shutil.copy(DIGITS / "digits_int8.onnx", copy)
    outputs = []
    for seed, model in (("1", DIGITS / "digits_int8.onnx"), ("2", copy)):
        out = tmp_path / f"out{seed}"
        command = [sys.executable, "-m", "tvm_stm32", "compile", str(model), "-o", str(out), "--no-runtime"]
        subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": seed}, cwd=ROOT, check=True, capture_output=True)
        outputs.append({path.name: path.read_bytes() for path in sorted(out.iterdir())})
    assert outputs[0] == outputs[1]
    assert all(str(tmp_path).encode() not in content for content in outputs[0].values())


def test_provenance_is_in_the_files():
    library = compile_model(DIGITS / "digits_int8.relay", CompileOptions(Target.for_cpu("cortex-m4")))
    texts = render(library)
    assert library.provenance.sha256 in texts["_data.c"]
    assert "digits_int8.relay" in texts[".c"]
    assert "cpu=cortex-m4 level=time" in texts[".c"]
    # Retraining must not touch the code: nothing in it may depend on the model file's content.
    assert library.provenance.sha256 not in texts[".c"] + texts[".h"] + texts["_data.h"]


def test_a_runtime_of_another_major_version_is_refused(networks, tmp_path):
    need_board("host")
    header = tmp_path / "ai_runtime.h"
    text = (RUNTIME / "ai_runtime.h").read_text().replace("VERSION_MAJOR 2", "VERSION_MAJOR 3")
    header.write_text(text)
    done = compile_c("cc", [f"-I{tmp_path}", "-O0"], networks / "host", "digits_int8", tmp_path / "x.o")
    assert done.returncode != 0
    assert "generate it again" in done.stderr
