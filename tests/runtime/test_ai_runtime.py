"""The ai_* API behaves as its header says, on this computer and on each core."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tvm_stm32.boards import load_board
from tvm_stm32.project.emulator import run_image
from tvm_stm32.project.firmware import build_image
from tvm_stm32.resources import resource_dir
from tvm_stm32.toolchain import run_tool

HERE = Path(__file__).resolve().parent
NETWORK = HERE / "fake_network"


@pytest.mark.parametrize("board", ["host", "mps2-an385", "stm32f405", "mps2-an500", "mps2-an505", "mps3-an547"])
@pytest.mark.parametrize(("optimize", "observer"), [("-O0", 0), ("-O2", 1)])
def test_every_function_and_error_text(board: str, optimize: str, observer: int, tmp_path: Path) -> None:
    sources = [HERE / "api_checks.c", *sorted(NETWORK.glob("*.c"))]
    image = build_image(
        sources,
        [NETWORK],
        load_board(board),
        tmp_path,
        "checks",
        optimize=optimize,
        defines=[f"AI_OBSERVER={observer}"],
        warnings_as_errors=True,
    )
    run_image(image, load_board(board), timeout_s=20)


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
def test_header_is_clean_cpp(tmp_path: Path) -> None:
    source = tmp_path / "use.cpp"
    source.write_text(
        '#include "fake.h"\n#include "port.h"\nai_status use(ai_handle *h);\n'
        "ai_status use(ai_handle *h) { return ai_create(&ai_fake_network, nullptr, h); }\n",
        encoding="utf-8",
    )
    runtime = resource_dir("runtime")
    folders = [f"-I{folder}" for folder in (runtime / "include", NETWORK)]
    done = run_tool(
        ["g++", "-std=c++11", "-Wall", "-Wextra", "-Wundef", "-Werror", *folders, f"-I{runtime / 'port'}",
         "-fsyntax-only", source]
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("standard", ["c++11", "c++17", "c++20"])
def test_cpp_view(standard: str, tmp_path: Path) -> None:
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    runtime = resource_dir("runtime")
    folders = [f"-I{folder}" for folder in (runtime / "include", NETWORK)]
    objects = []
    for source in (runtime / "src" / "ai_runtime.c", *sorted(NETWORK.glob("*.c"))):
        objects.append(tmp_path / f"{source.stem}.o")
        assert run_tool(["gcc", "-std=c99", *folders, "-c", source, "-o", objects[-1]]).returncode == 0
    flags = ["-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-pedantic", "-Werror", "-fno-exceptions", "-fno-rtti"]
    program = tmp_path / "checks"
    done = run_tool(["g++", f"-std={standard}", *flags, *folders, HERE / "cpp_checks.cpp", *objects, "-o", program])
    assert done.returncode == 0, done.stderr
    assert run_tool([program]).returncode == 0


def test_a_32_bit_build_of_this_computer(tmp_path: Path) -> None:
    """Pointers of 32 bits without an emulator: the form upstream's emitter was tested in."""
    runtime = resource_dir("runtime")
    probe = tmp_path / "probe.c"
    probe.write_text("#include <stdint.h>\nint main(void) { return sizeof(void *) != 4; }\n", encoding="utf-8")
    gcc = ["gcc", "-m32", "-std=c99"]
    if shutil.which("gcc") is None or run_tool([*gcc, probe, "-o", tmp_path / "probe"]).returncode:
        pytest.skip("gcc cannot build for 32 bits here (Debian: gcc-multilib)")
    port = [runtime / "port" / name for name in ("port_host.c", "port_common.c")]
    sources = [HERE / "api_checks.c", *sorted(NETWORK.glob("*.c")), runtime / "src" / "ai_runtime.c", *port]
    folders = [f"-I{folder}" for folder in (runtime / "include", runtime / "port", NETWORK)]
    program = tmp_path / "checks"
    done = run_tool([*gcc, "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror", *folders, *sources, "-o", program])
    assert done.returncode == 0, done.stderr
    assert run_tool([program]).returncode == 0
