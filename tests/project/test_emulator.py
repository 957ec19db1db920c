"""Programs on the emulator: good ones succeed and are measured, every way of going wrong is told apart."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from firmware_support import build_fake, build_program

from tvm_stm32.boards import load_board
from tvm_stm32.errors import FirmwareError, ToolchainError
from tvm_stm32.project import icount
from tvm_stm32.project.emulator import run_image
from tvm_stm32.project.inference import run_samples

CORES = ["mps2-an385", "mps2-an386", "mps2-an500", "mps2-an505", "mps3-an547"]
M4 = load_board("stm32f405")

MAIN = "int main(int argc, char **argv) {{ (void)argc; (void)argv; {body} return 0; }}\n"


def program(body: str, before: str = "") -> str:
    return before + MAIN.format(body=body)


@pytest.mark.parametrize("name", [*CORES, "stm32f405", "netduino2", "host"])
def test_the_runner_gives_the_networks_bytes(name: str, tmp_path: Path) -> None:
    board = load_board(name)
    samples = [bytes((first + i) % 256 for i in range(16)) for first in (0, 100, 250)]
    outputs, result = run_samples(build_fake(board, tmp_path), board, samples)
    assert outputs == [bytes((value + 1) % 256 for value in sample) for sample in samples]
    assert result.values["network"] == "fake"
    assert (result.values["samples"], result.values["arena"], result.values["params"]) == ("3", "32", "16")


def test_the_stack_of_an_inference_is_measured(tmp_path: Path) -> None:
    depths = []
    for size in (64, 1064):
        image = build_fake(M4, tmp_path / str(size), defines=[f"FAKE_STACK={size}"])
        _, result = run_samples(image, M4, [bytes(16)])
        depths.append(int(result.values["stack"]))
    assert depths[1] - depths[0] == 1000
    assert depths[0] < 64 + 80


def test_constructors_run_before_main_and_main_may_take_nothing(tmp_path: Path) -> None:
    text = (
        "static int made;\n"
        "__attribute__((constructor)) static void make(void) { made = 42; }\n"
        'int main(void) { if (made != 42) { return 1; } port_print("status=ok\\n"); return 0; }\n'
    )
    assert run_image(build_program(text, M4, tmp_path), M4).exit_code == 0


@pytest.mark.parametrize("name", ["stm32f405", "mps2-an505"])
def test_a_stack_overflow_is_no_success(name: str, tmp_path: Path) -> None:
    board = load_board(name)
    # Below the stack lies what the runner would not miss, so only the fault (v8-M) or the paint (v7-M) tells.
    image = build_fake(board, tmp_path, defines=[f"FAKE_STACK={board.stack_size + 64}"])
    with pytest.raises(FirmwareError, match="stack overflow"):
        run_samples(image, board, [bytes(16)])


@pytest.mark.parametrize(("size", "message"), [(15, "whole samples"), (17, "whole samples"), (0, "whole samples")])
def test_a_broken_sample_is_reported(size: int, message: str, tmp_path: Path) -> None:
    with pytest.raises(FirmwareError, match=message):
        run_samples(build_fake(M4, tmp_path), M4, [bytes(size)])


def test_files_that_are_missing_are_reported(tmp_path: Path) -> None:
    image = build_fake(M4, tmp_path)
    with pytest.raises(FirmwareError, match=r"cannot open input file nothing\.bin"):
        run_image(image, M4, ["nothing.bin", "out.bin"], cwd=tmp_path)
    (tmp_path / "in.bin").write_bytes(bytes(16))
    with pytest.raises(FirmwareError, match="cannot open output file no/folder"):
        run_image(image, M4, ["in.bin", "no/folder"], cwd=tmp_path)
    with pytest.raises(FirmwareError, match="expected the arguments INPUT OUTPUT"):
        run_image(image, M4, cwd=tmp_path)


def test_an_argument_with_a_blank_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FirmwareError, match="cannot be handed"):
        run_image(build_fake(M4, tmp_path), M4, ["my input.bin", "out.bin"])


def test_commas_reach_the_program(tmp_path: Path) -> None:
    (tmp_path / "a,b.bin").write_bytes(bytes(16))
    run_image(build_fake(M4, tmp_path), M4, ["a,b.bin", "out,,.bin"], cwd=tmp_path)
    assert (tmp_path / "out,,.bin").read_bytes() == bytes([1] * 16)


@pytest.mark.parametrize("name", ["stm32f405", "mps3-an547"])
def test_a_hang_is_ended_and_located(name: str, tmp_path: Path) -> None:
    spin = 'void spin(void); __attribute__((noinline)) void spin(void) { for (;;) { __asm__ volatile(""); } }\n'
    board = load_board(name)
    image = build_program(program('port_print("step=1\\n"); spin();', spin), board, tmp_path)
    with pytest.raises(FirmwareError, match=r"within 1 s at 0x[0-9a-f]{8}: spin.*program\.c:\d+[\s\S]*step=1"):
        run_image(image, board, timeout_s=1)


@pytest.mark.parametrize("name", CORES)
def test_a_fault_names_place_and_reason(name: str, tmp_path: Path) -> None:
    crash = 'void crash(void); __attribute__((noinline)) void crash(void) { __asm__ volatile("udf #1"); }\n'
    board = load_board(name)
    image = build_program(program('port_print("status=ok\\n"); crash();', crash), board, tmp_path)
    with pytest.raises(
        FirmwareError, match=r"hardfault\) at 0x[0-9a-f]{8}: crash \(program\.c:2\)[\s\S]*undefined inst"
    ):
        run_image(image, board, timeout_s=10)


def test_a_fault_outside_every_function_is_still_a_fault(tmp_path: Path) -> None:
    jump = "((void (*)(void))0x60000001U)();"
    image = build_program(program(jump), M4, tmp_path)
    with pytest.raises(FirmwareError, match=r"faulted .* at 0x60000000: no function of the image"):
        run_image(image, M4, timeout_s=10)


def test_a_bad_stack_pointer_is_a_fault(tmp_path: Path) -> None:
    image = build_program(program('__asm__ volatile("mov sp, %0\\n push {r0}" : : "r"(0x60001000));'), M4, tmp_path)
    with pytest.raises(
        FirmwareError, match=r"faulted[\s\S]*bus error while stacking for an exception[\s\S]*sp=0x60000f"
    ):
        run_image(image, M4, timeout_s=10)


@pytest.mark.parametrize("name", ["mps2-an385", "stm32f405", "mps2-an505", "mps3-an547"])
def test_endless_recursion_is_a_stack_overflow(name: str, tmp_path: Path) -> None:
    dive = "int dive(volatile int *n);\nint dive(volatile int *n) { volatile int m = *n + 1; return dive(&m) + m; }\n"
    board = load_board(name)
    image = build_program(program("volatile int n = argc; return dive(&n);", dive), board, tmp_path)
    # Below the AN385's RAM nothing faults: the stack pointer goes on until the time is up.
    with pytest.raises(FirmwareError, match=r"(faulted|did not end)[\s\S]*stack overflow"):
        run_image(image, board, timeout_s=2)


def test_the_port_survives_link_time_optimization(tmp_path: Path) -> None:
    outputs, result = run_samples(build_fake(M4, tmp_path, flags=["-flto"]), M4, [bytes(16)], count="plugin")
    assert outputs == [bytes([1] * 16)]
    assert int(result.values["stack"]) > 0


# The plain semihosting exit (0x18): the emulator's exit code is 0 for a normal end and 1 for every other reason.
PLAIN_EXIT = '__asm__ volatile("movs r0, #0x18\\n ldr r1, =%c0\\n bkpt 0xAB" : : "i"({reason}) : "r0", "r1");'


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (PLAIN_EXIT.format(reason="0x20026"), "exit code 0 without status=ok"),
        (PLAIN_EXIT.format(reason="0x20023"), "exit code 1 without status=ok"),
        ("return 0;", "exit code 0 without status=ok[\\s\\S]*it printed nothing"),
        ("port_exit(256);", "exit code 0 without status=ok"),
        ('port_print("status=ok\\n"); port_exit(3);', "exit code 3 after status=ok"),
        ('port_print("status=ok\\n"); port_print("more\\n");', "exit code 0 without status=ok"),
        ('port_print("status=error broken\\n"); port_print("status=ok\\n");', "reported an error .*: broken"),
        ('port_print("half a li");', "without status=ok[\\s\\S]*half a li"),
    ],
)
def test_an_early_end_is_no_success(body: str, message: str, tmp_path: Path) -> None:
    image = build_program(program(body), M4, tmp_path)
    with pytest.raises(FirmwareError, match=message):
        run_image(image, M4, timeout_s=10)


def test_a_host_program_is_judged_alike(tmp_path: Path) -> None:
    host = load_board("host")
    with pytest.raises(FirmwareError, match="without status=ok"):
        run_image(build_program(program("__builtin_abort();"), host, tmp_path), host)
    with pytest.raises(FirmwareError, match=r"within 0\.5 s"):
        run_image(build_program(program('for (;;) { __asm__ volatile(""); }'), host, tmp_path), host, timeout_s=0.5)


def loop(count: int) -> str:
    return program(
        f'bench_begin(); __asm__ volatile("ldr r0, ={count}\\n1: subs r0, #1\\n bne 1b" ::: "r0", "cc"); bench_end();'
        'port_print("status=ok\\n");'
    )


@pytest.mark.parametrize("name", CORES)
def test_the_plugin_counts_every_instruction(name: str, tmp_path: Path) -> None:
    board = load_board(name)
    image = build_program(loop(1000), board, tmp_path)
    runs = [run_image(image, board, count="plugin") for _ in range(3)]
    # bx lr, ldr, 1000 times subs and bne, bl.
    assert [run.instructions for run in runs] == [(2003,)] * 3
    assert runs[0].count_method == "plugin"


def test_a_loop_of_a_million_counts_exactly(tmp_path: Path) -> None:
    image = build_program(loop(1_000_000), M4, tmp_path)
    assert run_image(image, M4, count="plugin").instructions == (2_000_003,)


def test_every_inference_is_counted(tmp_path: Path) -> None:
    _, result = run_samples(build_fake(M4, tmp_path), M4, [bytes(16)] * 4, count="plugin")
    assert len(result.instructions) == 4
    assert len(set(result.instructions)) == 1


@pytest.mark.parametrize("name", ["stm32f405", *CORES])
def test_systick_agrees_with_the_plugin(name: str, tmp_path: Path) -> None:
    board = load_board(name)
    image = build_fake(board, tmp_path, defines=["FAKE_STACK=2048"], optimize="-O1")
    _, exact = run_samples(image, board, [bytes(16)], count="plugin")
    _, near = run_samples(image, board, [bytes(16)], count="systick")
    assert near.count_method == "systick"
    assert 0 <= near.instructions[0] - exact.instructions[0] < 60


def test_without_a_host_compiler_systick_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_compiler() -> Path:
        raise ToolchainError("no C compiler")

    monkeypatch.setattr(icount, "find_host_cc", no_compiler)
    image = build_fake(M4, tmp_path)
    _, result = run_samples(image, M4, [bytes(16)], count="auto")
    assert result.count_method == "systick"
    with pytest.raises(ToolchainError, match="no C compiler"):
        run_samples(image, M4, [bytes(16)], count="plugin")


def test_the_plugin_is_built_once(tmp_path: Path) -> None:
    image = build_fake(M4, tmp_path)
    for _ in range(2):
        run_samples(image, M4, [bytes(16)], count="plugin", cache_dir=tmp_path / "cache")
    built = list((tmp_path / "cache").iterdir())
    assert len(built) == 1
    assert built[0].name.startswith("icount-")


def test_an_unknown_machine_is_the_emulators_fault(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "boards" / "stm32f405.yaml").read_text(encoding="utf-8")
    mine = tmp_path / "mine.yaml"
    mine.write_text(text.replace("machine: netduinoplus2", "machine: stm32z99"), encoding="utf-8")
    with pytest.raises(ToolchainError, match="does not start the machine stm32z99"):
        run_image(build_program(program(""), M4, tmp_path), load_board(mine))


def test_a_missing_emulator_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = build_program(program(""), M4, tmp_path)
    monkeypatch.delenv("QEMU_SYSTEM_ARM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    if not os.path.exists("/usr/local/bin/qemu-system-arm"):  # noqa: PTH110
        with pytest.raises(ToolchainError, match=r"qemu-system-arm was not found[\s\S]*try: "):
            run_image(image, M4)


def test_a_missing_image_is_named(tmp_path: Path) -> None:
    with pytest.raises(FirmwareError, match=r"nothing\.elf does not exist"):
        run_image(tmp_path / "nothing.elf", M4)
