"""The bound of the stack: as deep as runs get, known for every way a function may call another, or none and why."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from firmware_support import build_program
from support import MLPERF_TINY, build_and_run, need_board, random_bytes, shared

from tvm_stm32.boards import load_board
from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.errors import FirmwareError
from tvm_stm32.project.stack import StackBound, check_measured, frame_sizes, run_stack, stack_bound
from tvm_stm32.target import Target

M4 = load_board("mps2-an386")
MODELS = ("kws_ref_model", "pretrainedResnet_quant")
CORES = {"cortex-m4": "mps2-an386", "cortex-m55": "mps3-an547", "cortex-m0plus": "mps2-an385"}


@pytest.mark.parametrize("cpu", CORES)
@pytest.mark.parametrize("name", MODELS)
def test_the_bound_is_what_runs_reach(name: str, cpu: str, tmp_path: Path) -> None:
    target = Target.for_cpu(cpu)
    library = compile_model(shared(MLPERF_TINY / f"{name}.tflite"), CompileOptions(target))
    sample = random_bytes(np.random.default_rng(1), library.inputs[0].shape).tobytes()
    _, result = build_and_run(library, CORES[cpu], [sample], tmp_path, cpu=cpu)
    bound = run_stack(tmp_path / "test.elf", target, library.name)
    assert bound.size is not None, bound.reasons
    measured = int(result.values["stack"])
    assert measured <= bound.size <= measured + 200
    assert bound.path[:2] == ("ai_run", f"{library.name}_run")


def bound_of(text: str, tmp_path: Path, **pointers: str) -> StackBound:
    """The bound of ``f`` in a C program."""
    need_board("mps2-an386")
    program = f"{text}\nint main(void) {{ return f(1); }}\n"
    image = build_program(f"{KEEP}\n{program}", M4, tmp_path, flags=["-Wno-all"])
    return stack_bound(image, M4.target, "f", pointers)


KEEP = """#define WHOLE __attribute__((noinline, noclone))
#define APART WHOLE static
WHOLE int f(int);
volatile int seen;"""
LEAF = 'APART __attribute__((naked)) int leaf(int x) { __asm__("push {r4-r7, lr}\\nvpush {d8-d9}\\nsub sp, #40\\n'
LEAF += 'add sp, #40\\nvpop {d8-d9}\\npop {r4-r7, pc}"); }\n'


def test_naked_functions_count_what_they_push(tmp_path: Path) -> None:
    bound = bound_of(LEAF + "int f(int x) { return leaf(x) + 1; }", tmp_path)
    assert bound == StackBound(8 + 20 + 16 + 40, ("f", "leaf"))


def test_a_call_counts_at_the_depth_where_it_is_made(tmp_path: Path) -> None:
    text = 'APART __attribute__((naked)) int two(int x) { __asm__("push {r4, lr}\\nbl leaf\\npush {r0-r7}\\n'
    text += 'pop {r0-r7}\\npop {r4, pc}"); }\nint f(int x) { return two(x) + leaf(x); }'
    assert bound_of(LEAF.replace("APART", "__attribute__((used)) APART") + text, tmp_path).size == 16 + 8 + 76


def test_a_jump_behind_everything_is_a_call_without_a_frame(tmp_path: Path) -> None:
    assert bound_of(LEAF + "int f(int x) { return leaf(x); }", tmp_path).size == 76


def test_switches_and_functions_of_the_c_library_have_bounds(tmp_path: Path) -> None:
    cases = "".join(f"case {i}: seen = x * {i}; a[{i}] = leaf(x); break;\n" for i in range(12))
    text = LEAF + f"#include <string.h>\nint f(int x) {{ volatile int a[16]; switch (seen) {{ {cases} }} "
    text += "memset((void *)a, x, sizeof a); return a[x]; }"
    bound = bound_of(text, tmp_path)
    assert bound.size is not None
    assert 64 + 76 <= bound.size <= 64 + 76 + 32


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("APART int g(int x) { return x > 1 ? g(x - 1) * g(x - 2) : 1; } int f(int x) { return g(x) + 1; }", "g calls"),
        ("int f(int x) { volatile char a[x]; a[0] = 1; return a[x - 1] + a[0]; }", "a number that is not known"),
        ("int (*volatile p)(int); int f(int x) { return p(x) + 1; }", "f calls a function through a pointer"),
        (
            'int f(int x) { __asm__ volatile("1: push {r0-r3}\\nsubs %0, #1\\nbne 1b" : "+r"(x)); return x; }',
            "in a loop",
        ),
        ('int f(int x) { __asm__ volatile("mov sp, %0" :: "r"(x)); return x; }', "a number that is not known"),
    ],
)
def test_what_has_no_bound_says_why(text: str, reason: str, tmp_path: Path) -> None:
    bound = bound_of(text, tmp_path)
    assert bound.size is None
    assert reason in bound.text


def test_a_known_pointer_is_a_call(tmp_path: Path) -> None:
    text = LEAF + "int (*volatile p)(int) = leaf; int f(int x) { return p(x) + 1; }"
    assert bound_of(text, tmp_path, f="leaf").size == 8 + 76


def test_compiled_functions_have_the_frames_gcc_says(tmp_path: Path) -> None:
    text = "APART int g(int x) { volatile int a[20]; a[x] = x; return a[1]; }\n"
    text += "int f(int x) { volatile double d[4]; d[x] = g(x); return (int)d[1] + g(2); }\n"
    text += "int main(void) { return f(1); }"
    need_board("mps2-an386")
    image = build_program(f"{KEEP}\n{text}", M4, tmp_path, flags=["-Wno-all", "-fstack-usage"])
    usage = next(tmp_path.rglob("*program.su")).read_text(encoding="utf-8")
    said = {line.split("\t")[0].rsplit(":", 1)[1]: int(line.split("\t")[1]) for line in usage.splitlines()}
    found = frame_sizes(image, M4.target)
    assert said.keys() >= {"f", "g"}
    assert {name: found[name] for name in ("f", "g")} == {name: said[name] for name in ("f", "g")}


def test_a_run_deeper_than_its_bound_is_an_error() -> None:
    check_measured(StackBound(100, ("f",)), 100)
    check_measured(StackBound(None, ("f",)), 5000)
    with pytest.raises(FirmwareError, match="took 101 bytes of stack, and its bound is 100"):
        check_measured(StackBound(100, ("f", "g")), 101)
