"""``ai_nolibc.c``: what compilers call on their own account, in images that take it from there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT, need_board

from tvm_stm32.boards import load_board
from tvm_stm32.project.emulator import run_image
from tvm_stm32.project.firmware import build_image
from tvm_stm32.resources import resource_dir

SOURCE = Path(str(resource_dir("runtime"))) / "src/ai_nolibc.c"

NUMBERS = (0, 1, 2, 3, 7, 10, 255, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x100000001, 10**12, 2**62 + 3, 2**63 - 1)

PROGRAM = """
#include "port.h"
#include <stdint.h>
#include <string.h>

typedef struct {
    uint64_t n, d, quotient, rest;
} pair;

static const pair unsigned_pairs[] = {UNSIGNED};
static const pair signed_pairs[] = {SIGNED};
static volatile char text[9] = "abcdefgh";

int main(void)
{
    int bad = 0;
    size_t i;

    for (i = 0; i < sizeof(unsigned_pairs) / sizeof(pair); i++) {
        const volatile pair *const p = &unsigned_pairs[i];

        bad += (p->n / p->d != p->quotient) || (p->n % p->d != p->rest);
    }
    for (i = 0; i < sizeof(signed_pairs) / sizeof(pair); i++) {
        const volatile pair *const p = &signed_pairs[i];
        const int64_t n = (int64_t)p->n;
        const int64_t d = (int64_t)p->d;

        bad += ((uint64_t)(n / d) != p->quotient) || ((uint64_t)(n % d) != p->rest);
    }
    memmove((char *)text + 1, (char *)text, 6);
    bad += memcmp((char *)text, "aabcdefh", 8) != 0;
    if (bad == 0) {
        port_print("status=ok\\n");
    }
    return bad;
}
"""


def _rows(pairs: list[tuple[int, int]]) -> str:
    rows = []
    for n, d in pairs:
        quotient = abs(n) // abs(d) * (1 if (n < 0) == (d < 0) else -1)
        rows.append(", ".join(f"{value % 2**64:#x}ULL" for value in (n, d, quotient, n - quotient * d)))
    return ", ".join(f"{{{row}}}" for row in rows)


# An M0+ has other instructions; its image runs on an M3.
@pytest.mark.parametrize("board", ["nucleo-g071rb", "mps2-an386", "mps3-an547"])
def test_divisions_and_copies_are_those_of_c(board: str, tmp_path: Path) -> None:
    need_board(board)
    large = [*NUMBERS, 2**63, 2**64 - 1, 2**64 - 2**32]
    plain = [(n, d) for n in large for d in large if d]
    both = [(s * n, t * d) for n in NUMBERS for d in NUMBERS if d for s in (1, -1) for t in (1, -1)]
    both += [(-(2**63), d) for d in (1, 2, -3, 2**63 - 1, -(2**63))]
    program = tmp_path / "program.c"
    program.write_text(PROGRAM.replace("UNSIGNED", _rows(plain)).replace("SIGNED", _rows(both)), encoding="utf-8")
    loaded = load_board(board)
    image = build_image([program, SOURCE], [], loaded, tmp_path, "nolibc", flags=["-fno-builtin"])
    # The image has ours: no other function steps through the bits.
    symbols = subprocess.run(["arm-none-eabi-nm", image], capture_output=True, text=True, check=True).stdout
    assert " W __aeabi_ldivmod" in symbols
    assert " T ai_nolibc_divide" in symbols
    assert run_image(image, loaded).exit_code == 0


def test_it_needs_nothing_itself(tmp_path: Path) -> None:
    need_board("mps2-an386")
    for flags in (["-mcpu=cortex-m0plus"], ["-mcpu=cortex-m7", "-O3"], ["-mcpu=cortex-m4", "-Os", "-fno-builtin"]):
        strict = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wmissing-prototypes", "-pedantic", "-Werror"]
        command = ["arm-none-eabi-gcc", *flags, "-mthumb", *strict, "-c", SOURCE, "-o", tmp_path / "nolibc.o"]
        subprocess.run(command, check=True, timeout=60)
        symbols = subprocess.run(["arm-none-eabi-nm", "-u", tmp_path / "nolibc.o"], capture_output=True, check=True)
        assert symbols.stdout == b"", flags


def test_a_quantized_network_links_without_any_library(tmp_path: Path) -> None:
    """Its softmax divides 64 bits."""
    need_board("mps2-an386")
    model = ROOT / "examples/digits/digits_int8.relay"
    made = [sys.executable, "-m", "tvm_stm32", "compile", model, "-o", tmp_path, "--cpu", "cortex-m4"]
    subprocess.run(made, check=True, timeout=120, cwd=ROOT)
    main = tmp_path / "main.c"
    main.write_text(
        '#include "digits_int8.h"\nint main(void)\n{\n    ai_handle network = 0;\n'
        "    return ai_create(&ai_digits_int8_network, 0, &network) != AI_STATUS_OK || ai_run(network);\n}\n",
        encoding="utf-8",
    )
    machine = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"]
    sources = sorted(tmp_path.glob("*.c"))
    for optimize in ("-O2", "-Os"):
        options = [optimize, "-fno-builtin", "-nostdlib", "-Wl,--entry=main", "-I", tmp_path]
        command = ["arm-none-eabi-gcc", *machine, *options, *sources, "-o", tmp_path / "app.elf"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
