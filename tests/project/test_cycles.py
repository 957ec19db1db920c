"""The cycle models: short sequences cost what the published rules say, and a trace adds up function by function."""

from __future__ import annotations

from pathlib import Path

import pytest
from firmware_support import build_program

from tvm_stm32.boards import load_board
from tvm_stm32.errors import FirmwareError
from tvm_stm32.project import cycles
from tvm_stm32.project.cycles.cores import pipeline_of
from tvm_stm32.project.cycles.instruction import decode
from tvm_stm32.project.trace import Access

SHORT = ("adds", "subs", "movs", "cmp", "muls", "bne.n", "nop", "it ", "b.n", "lsls", "bx")


def cost(cpu: str, text: str, *, taken: bool = False, access: Access | None = None) -> int:
    """Cycles of instructions, separated by semicolons; the last is a branch that is ``taken`` to an aligned place."""
    pipeline = pipeline_of(cpu)
    lines = [line.strip() for line in text.split(";")]
    address = 0x1000
    for number, line in enumerate(lines):
        short = line.startswith(SHORT)
        # Wide instructions stay aligned, so that only the rule under test counts.
        address += 0 if short else -address % 4
        made = decode(address, 2 if short else 4, line)
        target = decode(0x2000, 2, "nop") if taken and number == len(lines) - 1 else None
        pipeline.issue(made, access or Access(1, 1, 0, 0, 0), target)
        address = made.end
    return pipeline.cycle


LOADS = "ldr r0, [r8]; ldr r1, [r8, #4]; ldr r2, [r8, #8]; ldr r3, [r8, #12]"


@pytest.mark.parametrize(
    ("text", "cycles"),
    [
        ("add r0, r1, r2; sub r3, r4, r5, lsl #3", 2),
        ("smlad r0, r1, r2, r0; smlad r0, r3, r4, r0; smmlar r5, r6, r7, r8; smlal r0, r1, r2, r3", 4),
        ("ldr r0, [r1]", 2),
        (LOADS, 5),
        ("ldrd r0, r1, [r8]", 3),
        ("ldrd r0, r1, [r8]; ldrd r2, r3, [r8, #8]", 6),
        ("ldmia.w r8!, {r0, r1, r2, r3}", 5),
        ("push {r4, r5, lr}", 4),
        ("str r0, [r8]", 1),
        ("str r0, [r8, r1]", 2),
        ("ldr r0, [r8]; str r1, [r9]", 2),
        ("str r0, [r8]; ldr r1, [r9]", 4),
        ("ldr r0, [r8]; ldr r1, [r0]", 4),
        ("ldr r0, [r8], #4; ldr r1, [r8], #4", 4),
        ("ldr r0, [r8], #4; ldr r1, [r9], #4", 3),
        ("add r8, r9, r10; ldr r0, [r8]", 4),
        ("sxtb16 r0, r1; sxtab16 r2, r3, r1, ror #8", 2),
        ("vadd.f32 s0, s1, s2; vadd.f32 s3, s0, s1", 3),
        ("vmul.f32 s0, s1, s2; vadd.f32 s3, s4, s5", 2),
        ("vfma.f32 s0, s1, s2", 3),
        ("vmov r0, r1, s0, s1", 2),
        ("vmov s0, r0", 1),
        ("cmp r0, r1; it eq; moveq r0, r1", 2),
    ],
)
def test_m4_rules(text: str, cycles: int) -> None:
    assert cost("cortex-m4", text) == cycles


def test_m4_branches() -> None:
    assert cost("cortex-m4", "bne.n 1000") == 1
    assert cost("cortex-m4", "bne.n 1000", taken=True) == 2
    assert cost("cortex-m4", "bx lr", taken=True) == 3
    assert cost("cortex-m4", "pop.w {r4, r5, pc}", taken=True) == 6


def test_m4_loads_of_two_memories_do_not_overlap() -> None:
    assert cost("cortex-m4", LOADS, access=Access(10, 0, 0, 0, 0)) == 8


def test_m3_multiplies_take_longer_and_only_the_first_load_updates() -> None:
    assert cost("cortex-m3", "mul r0, r1, r2; mla r0, r1, r2, r3") == 3
    assert cost("cortex-m3", "ldr r0, [r8], #4; ldr r1, [r9]") == 3
    assert cost("cortex-m3", "ldr r0, [r8]; ldr r1, [r9], #4") == 4


KERNEL = """
void kernel(int *p);
__attribute__((naked, noinline)) void kernel(int *p)
{{
    (void)p;
    __asm__ volatile({body} "bx lr");
}}
int main(void)
{{
    static int values[64];
    bench_begin();
    kernel(values);
    kernel(values);
    bench_end();
    port_print("status=ok\\n");
    return 0;
}}
"""


def kernel(lines: list[str]) -> str:
    return KERNEL.format(body="".join(f'"{line}\\n"\n' for line in lines))


def test_a_kernels_cycles_add_up(tmp_path: Path) -> None:
    board = load_board("mps2-an386")
    body = [".balign 8", "movs r3, #10", "nop", "1: ldr.w r1, [r0]", "ldr.w r2, [r0, #4]", "smlad r1, r2, r1, r1"]
    image = build_program(kernel([*body, "subs r3, #1", "bne 1b"]), board, tmp_path)
    costs = {cost.symbol: cost for cost in cycles.profile(image, board)}
    # movs, nop, ten times (2 loads 3, smlad 1, subs 1, bne taken 2 or not 1), bx lr 3; called twice.
    assert costs["kernel"] == cycles.FunctionCost("kernel", 2 * 53, 2 * (2 + 9 * 7 + 6 + 3), 2)
    assert sum(cost.instructions for cost in costs.values()) == 2 * 53 + costs["main"].instructions + 1


def test_wait_states_charge_code_and_constants_of_the_flash(tmp_path: Path) -> None:
    board = load_board("mps2-an386")
    # 4096 bytes in sequence: longer than the accelerator's cache, each line fetched while the one before it executes.
    image = build_program(kernel(["1: .rept 1023", "add.w r1, r1, r2", ".endr"]), board, tmp_path)
    spent = [cycles.profile(image, board, wait_states=states)[0].cycles for states in (0, 3, 5)]
    assert 0 <= spent[1] - spent[0] < 40
    assert 2 * 256 * 2 <= spent[2] - spent[0] < 2 * 256 * 2 + 60


def test_a_core_without_a_model_is_named() -> None:
    with pytest.raises(FirmwareError, match="no cycle model of cortex-m0"):
        pipeline_of("cortex-m0")
