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


@pytest.mark.parametrize(
    ("text", "name", "kind", "reads", "writes"),
    [
        ("adds r0, #1", "add", "alu", "r0", "r0"),
        ("addeq.w sl, r1, r2, asr #3", "add", "shifted", "r1 r2", "r10"),
        ("bls.n 8000020 <f>", "b", "branch", "", ""),
        ("lsls r0, r1", "lsl", "shift", "r0 r1", "r0"),
        ("movt r3, #8192", "movt", "alu", "r3", "r3"),
        ("smlal r0, r1, r2, r3", "smlal", "mull", "r0 r1 r2 r3", "r0 r1"),
        ("strbne.w r0, [r1, r2]", "strb", "store", "r0 r1 r2", ""),
        ("ldrd r0, r1, [r2], #8", "ldrd", "loads", "r2", "r0 r1"),
        ("ldmia.w sp!, {r4-r6, pc}", "ldmia", "loads", "r13", "r15 r4 r5 r6"),
        ("vmovle.f32 s1, s2", "vmov", "transfer", "s2", "s1"),
        ("vmov r0, s2", "vmov", "transfer", "s2", "r0"),
        ("vfma.f32 s0, s1, s2", "vfma", "fma", "s0 s1 s2", "s0"),
        ("vldr d1, [r0]", "vldr", "loads", "r0", "s2 s3"),
        ("vmullt.s8 q1, q0, q2", "vmullt", "vmul", "s0 s1 s10 s11 s2 s3 s8 s9", "s4 s5 s6 s7"),
        ("vrshl.s32 q0, r5", "vrshl", "vint", "r5 s0 s1 s2 s3", "s0 s1 s2 s3"),
        ("vmlava.s8 r0, q0, q1", "vmlava", "vmul", "r0 s0 s1 s2 s3 s4 s5 s6 s7", "r0"),
        ("vmov q1[2], q1[0], r4, ip", "vmov", "vint", "r12 r4 s4 s5 s6 s7", "s4 s5 s6 s7"),
        ("vstrb.8 q0, [r0, q1]", "vstrb", "vstore", "r0 s0 s1 s2 s3 s4 s5 s6 s7", ""),
        ("le lr, 8000020 <f>", "le", "loop", "r14", "r14"),
    ],
)
def test_instructions_are_told_apart(text: str, name: str, kind: str, reads: str, writes: str) -> None:
    made = decode(0x100, 4, text)
    assert (made.name, made.kind) == (name, kind)
    assert " ".join(sorted({register for register, _ in made.reads})) == reads
    assert " ".join(sorted(made.writes)) == writes


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


# Pointwise convolution with packed weights: a weight word, four input words, 8 products, 16 MACs.
PAIR = (
    "ldr r0, [r10, #4]; ldr r1, [sp]; ldr r2, [sp, #128]; ldr r3, [sp, #256]; ldr r4, [sp, #384];"
    "smlad r5, r1, r0, r5; smlad r6, r2, r0, r6; smlad r7, r3, r0, r7; smlad r8, r4, r0, r8; sxtb16 r0, r0;"
    "smlad r9, r1, r0, r9; smlad r11, r2, r0, r11; smlad r12, r3, r0, r12; smlad r14, r4, r0, r14"
)


def test_a_known_inner_loop_on_each_core() -> None:
    # 14 instructions, and the one cycle the five loads take to start.
    assert cost("cortex-m4", PAIR) == 15
    # The loads are used late enough; the widened weights are waited for one cycle.
    assert cost("cortex-m33", PAIR) == 15
    # Loads two a cycle, a product a cycle from the third on, one cycle to widen (in first place); twice eleven.
    assert cost("cortex-m7", PAIR + "; " + PAIR, access=Access(1, 1, 1, 0, 0)) == 22


@pytest.mark.parametrize(
    ("text", "cycles"),
    [
        (LOADS, 4),
        ("ldr r0, [r8]; add r1, r0, r2", 3),
        ("ldr r0, [r8]; sub r3, r4, r5; add r1, r0, r2", 3),
        ("ldr r0, [r8]; smlad r0, r1, r2, r0", 2),
        ("ldr r0, [r8]; smlad r3, r1, r0, r3", 3),
        ("ldr r0, [r8]; str r0, [r9]", 2),
        ("smlad r0, r1, r2, r0; smlad r0, r3, r4, r0", 2),
        ("smlad r0, r1, r2, r0; add r1, r0, r2", 3),
        ("smull r0, r1, r2, r3; smull r4, r5, r0, r3", 3),
        ("add r0, r1, r2, lsl #3; add r3, r0, r4", 2),
        ("add r0, r1, r2, asr #31; add r3, r0, r4", 3),
        ("pkhbt r0, r1, r2; add r3, r0, r4", 3),
        ("sadd16 r0, r1, r2; sadd16 r3, r0, r4", 3),
        ("ldrd r0, r1, [r8]", 2),
        ("ldmia.w r8!, {r0, r1, r2, r3}", 4),
        ("adds r0, r0, r1; nop", 1),
        ("muls r0, r1, r0", 2),
        ("vfma.f32 s0, s1, s2; vfma.f32 s3, s4, s5", 4),
        ("vfma.f32 s0, s1, s2; add r0, r1, r2; add r3, r4, r5; vfma.f32 s3, s4, s5", 4),
    ],
)
def test_m33_rules(text: str, cycles: int) -> None:
    assert cost("cortex-m33", text) == cycles


def test_m33_branches() -> None:
    assert cost("cortex-m33", "subs r0, r0, #1; bne.n 1000", taken=True) == 3
    assert cost("cortex-m33", "subs r0, r0, #1; bne.n 1000") == 1
    assert cost("cortex-m33", "subs r0, r0, #1; lsls r1, r2, #1; bne.n 1000", taken=True) == 4
    assert cost("cortex-m33", "bne.w 1000", taken=True) == 3


OTHER_BANK = Access(1, 1, 1, 0, 0)
SAME_BANK = Access(1, 1, 0, 0, 0)


@pytest.mark.parametrize(
    ("text", "cycles"),
    [
        ("add r0, r1, r2; eor r3, r4, r5", 1),
        ("add r0, r1, r2; eor r3, r0, r5", 1),
        ("eor r0, r1, r2; eor r3, r0, r5", 2),
        ("smlad r0, r1, r2, r0; ldr r3, [r8]", 1),
        ("ldr r3, [r8]; smlad r0, r1, r2, r0", 1),
        ("smlad r0, r1, r2, r0; smlad r3, r4, r5, r3", 2),
        ("smlad r0, r1, r2, r0; str r3, [r8]", 2),
        ("sxtb16 r3, r4; smlad r0, r1, r2, r0", 1),
        ("smlad r0, r1, r2, r0; sxtb16 r3, r4", 2),
        ("sxtb16 r3, r4; sxtb16 r5, r6", 2),
        ("sxtb16 r3, r4; add r0, r1, r2, lsl #2", 2),
        ("add r0, r1, r2, lsl #2; add r3, r4, r5, lsl #2", 2),
        ("smlad r0, r1, r2, r0; smlad r0, r3, r4, r0; smlad r0, r5, r6, r0", 3),
        ("smlad r0, r1, r2, r0; eor r3, r0, r4", 3),
        ("ldr r0, [r8]; eor r1, r0, r2", 2),
        ("ldr r0, [r8]; smlad r3, r1, r0, r3", 3),
        ("ldr r0, [r8]; smlad r0, r1, r2, r0", 2),
        ("ldr r0, [r8]; add r1, r2, r0, lsl #2", 3),
        ("ldrb r0, [r8]; eor r1, r0, r2", 3),
        ("ldr r0, [r8]; str r1, [r9]", 1),
        ("str r0, [r8]; str r1, [r9]", 2),
        ("ldmia.w r8!, {r0, r1, r2, r3, r4}", 3),
        ("sxtb16 r0, r1; ldr r2, [r3, r0]", 3),
    ],
)
def test_m7_rules(text: str, cycles: int) -> None:
    assert cost("cortex-m7", text) == cycles


def test_m7_loads_pair_when_their_banks_differ() -> None:
    assert cost("cortex-m7", LOADS, access=OTHER_BANK) == 2
    assert cost("cortex-m7", LOADS, access=SAME_BANK) == 4
    assert cost("cortex-m7", "ldr r0, [r8]", access=Access(1, 1, 0, 1, 0)) == 4


def test_m7_byte_stores_fill_the_store_buffer() -> None:
    assert cost("cortex-m7", "; ".join(["strb r0, [r8]"] * 40)) == pytest.approx(2 * 40, abs=10)
    assert cost("cortex-m7", "; ".join(["str r0, [r8]"] * 40)) == 40


VECTORS = "vldrb.u8 q{0}, [r0], #16; vmladava.s8 r2, q{0}, q7; vldrb.u8 q{1}, [r1], #16; vmladava.s8 r4, q{1}, q7"


@pytest.mark.parametrize(
    ("text", "cycles"),
    [
        # One a cycle when they alternate; else two, and what follows need not wait for the second beat of the last.
        ("; ".join([VECTORS.format(0, 1)] * 4), 16),
        ("; ".join(["vldrb.u8 q0, [r0], #16", "vldrb.u8 q1, [r1], #16"] * 4), 15),
        ("; ".join(["vmladava.s8 r2, q0, q7", "vmladava.s8 r4, q1, q7"] * 4), 15),
        ("vadd.i32 q0, q1, q2; vmul.i32 q3, q4, q5", 2),
        ("vadd.i32 q0, q1, q2; vsub.i32 q3, q4, q5", 3),
        ("vmul.i32 q0, q1, q2; vadd.i32 q3, q0, q5", 3),
        ("vmul.i32 q0, q1, q2; vstrw.32 q0, [r0]", 2),
        ("vadd.i32 q0, q1, q2; vstrw.32 q0, [r0]", 2),
        ("vrshl.s32 q0, q1, q2; vmul.i32 q3, q0, q5", 3),
        ("vqmovnb.s32 q0, q1; vstrw.32 q0, [r0]", 3),
        ("vmlaldava.s16 r0, r1, q0, q1; add r2, r0, r3", 4),
        ("vdup.32 q0, r0; add r1, r2, r3; add r4, r5, r6", 3),
        ("vstrb.8 q0, [r0, q1]; add r1, r2, r3", 9),
        ("ldr r0, [r8]; add r1, r0, r2", 3),
        ("adds r0, r1, r2; movs r3, #4", 1),
        ("add r0, r1, r2; add r3, r4, r5", 2),
    ],
)
def test_m55_rules(text: str, cycles: int) -> None:
    assert cost("cortex-m55", text) == cycles


def test_m55_low_overhead_loops_cost_nothing_while_they_go_on() -> None:
    assert cost("cortex-m55", "dls lr, r0; vldrw.u32 q0, [r0], #16; le lr, 1000", taken=True) == 2
    assert cost("cortex-m55", "dls lr, r0; vldrw.u32 q0, [r0], #16; le lr, 1000") == 5


def test_m0plus_rules() -> None:
    assert cost("cortex-m0plus", "ldr r0, [r1]; muls r0, r2, r0; adds r3, r3, r0; ldmia.w r1!, {r2, r3, r4}") == 8
    assert cost("cortex-m0plus", "subs r0, r0, #1; bne.n 1000", taken=True) == 3
    assert cost("cortex-m0plus", "subs r0, r0, #1; bne.n 1000") == 2


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


LOOPS = {
    # Loads as a pair, a cycle until they are factors, multiply and SUBS, the branch.
    "mps2-an500": (["ldr r1, [r0]", "ldr r2, [r0, #4]", "add r4, r5, r6", "smlad r3, r1, r2, r3"], 4),
    # One each cycle, one to wait for the second load, two more for the branch.
    "mps2-an505": (["ldr r1, [r0]", "ldr r2, [r0, #4]", "smlad r3, r1, r2, r3"], 8),
    "mps3-an547": (["vldrw.u32 q0, [r0]", "vmladava.s32 r2, q0, q1"], 6),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_of_other_cores(name: str, tmp_path: Path) -> None:
    body, each = LOOPS[name]
    board = load_board(name)
    image = build_program(
        kernel([".balign 8", "movw r12, #1000", "1:", *body, "subs.w r12, r12, #1", "bne.w 1b"]), board, tmp_path
    )
    costs = {cost.symbol: cost for cost in cycles.profile(image, board)}
    assert costs["kernel"].instructions == 2 * (2 + 1000 * (len(body) + 2))
    assert costs["kernel"].cycles == pytest.approx(2000 * each, abs=60)


def test_inlined_functions_stand_apart(tmp_path: Path) -> None:
    text = (
        "static int inner(volatile int *p) { int s = 0; for (int i = 0; i < 9; i++) { s += *p; } return s; }\n"
        "static volatile int value;\n"
        'int main(void) { bench_begin(); value += inner(&value); bench_end(); port_print("status=ok\\n"); return 0; }\n'
    )
    board = load_board("mps2-an386")
    names = [cost.symbol for cost in cycles.profile(build_program(text, board, tmp_path), board)]
    assert names[0] == "inner [in main]"


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
