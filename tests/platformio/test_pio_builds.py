"""Models in PlatformIO projects: what is built, linked and run, and what is made again when something changed."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from pio_support import (
    BOARD,
    EXAMPLE,
    REPOSITORY,
    SCRIPT,
    PioProject,
    PlatformIO,
    input_codes,
    write_pio_project,
)
from scons_support import require_tools, write_model

from tvm_stm32.boards import load_board
from tvm_stm32.project.emulator import run_image

NETWORK = ["tiny.o", "tiny_data.o"]
PORT = ["port_common.o", "port_semihosting.o", "port_startup.o", "port_system.o"]


@pytest.fixture
def pio(tmp_path_factory: pytest.TempPathFactory) -> PlatformIO:
    """The PlatformIO of this session."""
    return PlatformIO.installed(tmp_path_factory)


STAND_IN = "platform = tiny\n"


def output_of(project: PioProject, environment: str) -> list[int]:
    """What the program of an environment prints under the emulator, as int8."""
    require_tools("qemu-system-arm")
    result = run_image(project.path(f".pio/build/{environment}/program.elf"), load_board(BOARD))
    codes = [int(word) for word in result.values["output"].split(",") if word]
    return np.array(codes, np.uint8).view(np.int8).tolist()


def expected(model: Path) -> list[int]:
    """What ONNX Runtime makes of the same input."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(None, {"input": input_codes()})[0].reshape(-1).tolist()


def test_only_what_changed_is_made_again(pio: PlatformIO, tmp_path: Path) -> None:
    project = write_pio_project(tmp_path / "a project", pio)
    hard = ("-e", "hard")

    first = project.run(*hard)
    assert first.of("Generating") == ["tiny.c"]
    assert first.of("Compiling") == sorted(["ai_runtime.o", "main.o", *NETWORK, *PORT])
    assert first.of("Linking") == ["program.elf"]
    assert output_of(project, "hard") == expected(project.path("models/tiny.onnx"))
    assert project.run(*hard).is_null

    project.edit("src/main.cpp", "return 2", "return 3")
    edited = project.run(*hard)
    assert (edited.of("Generating"), edited.of("Compiling")) == ([], ["main.o"])
    assert edited.of("Linking") == ["program.elf"]

    write_model(project.path("models/tiny.onnx"), seed=2)
    retrained = project.run(*hard)
    assert (retrained.of("Generating"), retrained.of("Compiling")) == (["tiny.c"], ["tiny_data.o"])
    assert output_of(project, "hard") == expected(project.path("models/tiny.onnx"))

    project.edit("platformio.ini", "models/tiny.onnx", "models/tiny.onnx level=size")
    # PlatformIO itself begins anew after each edit of platformio.ini.
    report = project.run(*hard, "-t", "tvm_report")
    assert (report.of("Generating"), report.of("Compiling")) == (["tiny.c"], [])
    assert "tiny: tiny.onnx (onnx), cortex-m4, -O size" in report.output

    # Cleaning needs neither the model nor the generator.
    project.path("models/tiny.onnx").unlink()
    project.run(*hard, "-t", "clean", variables={"TVM_STM32_PYTHON": "nowhere"})
    assert not project.path(".pio/build/hard").exists()


SEVERAL = """
[env:soft]
platform = tiny
board = soft
lib_ldf_mode = chain+
extra_scripts = pre:SCRIPT
build_flags = -DFROM_INI
custom_tvm_build_flags = -O2 -g0
custom_tvm_options = arena=shared_arena
custom_tvm_models =
    models/tiny.onnx  weights=incbin  ; a comment
    "models/a copy.onnx"  name=other  kernels=c  flags="--input-layout nhwc"
"""
LIBRARY = '#include "other.h"\n#include "other_size.h"\n\nunsigned other_size(void) { return AI_OTHER_IN_1_SIZE; }\n'


def test_networks_share_an_arena_and_are_seen_by_libraries(pio: PlatformIO, tmp_path: Path) -> None:
    project = write_pio_project(tmp_path / "p", pio, SEVERAL.replace("SCRIPT", str(SCRIPT)))
    write_model(project.path("models/a copy.onnx"), seed=3)
    project.write("lib/sizes/other_size.c", LIBRARY)
    project.write("lib/sizes/other_size.h", "unsigned other_size(void);\n")
    project.edit("src/main.cpp", "int main", 'extern "C" {\n#include "other_size.h"\n}\n\nint main')
    project.edit("src/main.cpp", "ai_handle network;", "ai_handle network;\n    if (other_size() != 64) return 3;")

    build = project.run("-j", "4")
    assert build.of("Generating") == ["other.c", "shared_arena.c", "tiny.c"]
    assert {"other.o", "other_data.o", "other_size.o", "shared_arena.o", *NETWORK} <= {*build.of("Compiling")}
    assert output_of(project, "soft") == expected(project.path("models/tiny.onnx"))
    assert project.run().is_null

    # The compiler's list of dependencies lacks what the assembler includes.
    write_model(project.path("models/tiny.onnx"), seed=2)
    assert project.run().of("Compiling") == ["tiny_data.o"]
    assert output_of(project, "soft") == expected(project.path("models/tiny.onnx"))

    project.run("-t", "compiledb")
    entries = json.loads(project.path("compile_commands.json").read_text(encoding="utf-8"))
    commands = {Path(entry["file"]).name: entry["command"].split() for entry in entries}
    for name in ("tiny.c", "tiny_data.c", "other.c", "shared_arena.c", "ai_runtime.c"):
        flags = commands[name]
        assert {"-mcpu=cortex-m4", "-mfloat-abi=soft", "-DFROM_INI"} <= {*flags}
        assert flags.index("-Os") < flags.index("-O2")
    assert "-O2" not in commands["main.cpp"]


def test_the_example_without_a_board_is_a_program_of_this_computer(pio: PlatformIO, tmp_path: Path) -> None:
    project = PioProject(tmp_path / "examples" / "platformio", pio)
    shutil.copytree(EXAMPLE, project.folder)
    (tmp_path / "examples" / "digits").symlink_to(REPOSITORY / "examples" / "digits")
    # Platforms are downloaded; this one is here.
    project.edit("platformio.ini", "platform = ststm32\nboard = nucleo_f446re\nframework = stm32cube\n", STAND_IN)
    command = ";".join([sys.executable, str(REPOSITORY / "tvm_stm32" / "__main__.py")])
    build = project.run(variables={"TVM_STM32_COMMAND": command})
    assert build.of("Generating") == ["digits.c"]
    assert build.of("Linking") == ["program"]
    report = project.path(".pio/build/nucleo_f446re/tvm_models/digits_report.txt").read_text(encoding="utf-8")
    assert report.startswith("digits: digits_int8.onnx (onnx), host")
    missing = project.run(fails=True, variables={"TVM_STM32_COMMAND": "no-such-program"})
    assert "no-such-program" in missing.output
    assert "try: pip install tvm-stm32" in missing.output
    project.run("-t", "clean", variables={"TVM_STM32_COMMAND": "no-such-program"})
    assert (EXAMPLE / "tvm_models.py").read_text(encoding="utf-8") in (REPOSITORY / "docs/platformio.md").read_text()
