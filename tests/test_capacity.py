"""Whether a network fits a board: the table, and hints that hold what they say."""

from __future__ import annotations

import re
from dataclasses import replace
from textwrap import indent

import pytest
from click.testing import CliRunner
from support import MLPERF_TINY, ROOT, need_board, shared

from tvm_stm32.boards import HOST, Board, load_board
from tvm_stm32.capacity import check_capacity, fit, fit_text
from tvm_stm32.cli import cli
from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.errors import CapacityError
from tvm_stm32.target import Target

DIGITS = ROOT / "examples" / "digits" / "digits_int8.relay"
F405 = load_board("stm32f405")


def digits(**options):
    return compile_model(DIGITS, CompileOptions(Target.for_cpu("cortex-m4"), **options))


def with_sizes(board: Board, **sizes: int) -> Board:
    """The board, and its emulator, with other sizes of memories."""
    memories = tuple(replace(memory, size=sizes.get(memory.name, memory.size)) for memory in board.memories)
    return replace(board, memories=memories)


def refusal(library, board, **options):
    with pytest.raises(CapacityError) as caught:
        check_capacity(library, board, **options)
    return caught.value


def test_every_memory_of_the_board_is_in_the_table():
    library = digits()
    uses = fit(library, F405)
    assert [use.memory.name for use in uses] == ["FLASH", "SRAM", "CCM"]
    assert uses[0].parts == (("weights", library.constant_bytes),)
    assert uses[1].parts == (("arena", library.arena_size), ("stack", 4096))
    assert uses[1].free == 131_072 - library.arena_size - 4096
    text = fit_text(library, F405)
    assert re.search(r"FLASH +1,048,576 .* weights [\d,]+; code comes on top\n", text)
    assert re.search(r"CCM +65,536 +0 +0.0 +65,536 +nothing\n", text)
    assert not fit_text(library, HOST)


def test_weights_have_their_own_memory_or_none():
    uses = fit(digits(), load_board("mps3-an547"))
    assert [(use.memory.name, [name for name, _ in use.parts]) for use in uses] == [
        ("ITCM", []), ("SSRAM", ["weights"]), ("DTCM", []), ("SRAM", ["arena", "stack"])
    ]  # fmt: skip
    external = digits(weights="external")
    assert fit(external, F405)[0].used == 0
    assert "where the application places them" in fit_text(external, F405)
    check_capacity(external, with_sizes(F405, FLASH=1024))


def test_too_little_flash_says_how_much_and_what_to_try():
    library = digits()
    error = refusal(library, with_sizes(F405, FLASH=4096))
    over = library.constant_bytes - 4096
    assert f"the board has 4,096 ({over:,} too many)" in error.why
    assert f"-{over:,}" in error.why
    assert error.hint.startswith("-O size, ")
    assert "mps2-an386 (cortex-m4)" in error.hint
    assert "--max-ram" not in error.hint
    assert "-O" not in refusal(digits(level="size"), with_sizes(F405, FLASH=1024)).hint


def test_the_size_that_max_ram_is_given_fits():
    path = shared(MLPERF_TINY / "vww_96_int8.tflite")
    board = with_sizes(F405, SRAM=36_000, CCM=40_000)
    error = refusal(compile_model(path, CompileOptions(board.target)), board)
    limit = int(re.match(r"--max-ram (\d+), ", error.hint)[1])
    check_capacity(compile_model(path, CompileOptions(board.target, max_ram=limit)), board)
    assert limit + board.stack_size < 36_000


def test_nothing_that_cannot_help_is_proposed():
    library = digits()
    # Less than the input alone, or options given already, or kernels that came with the network.
    assert "--max-ram" not in refusal(library, with_sizes(F405, SRAM=4096 + 520)).hint
    board = with_sizes(F405, SRAM=4096 + 2000)
    assert "--max-ram" in refusal(library, board).hint
    assert "--max-ram" not in refusal(library, board, fixed=True).hint
    library.settings["max-ram"] = "2400"
    assert "--max-ram" not in refusal(library, board).hint
    # Larger than any board.
    library.arena_size = 1 << 30
    assert refusal(library, F405).hint.startswith("a smaller model")


def test_another_memory_of_the_board_only_where_its_emulator_has_it():
    library = digits()
    small = with_sizes(F405, SRAM=5000)
    assert "'image: {ram: CCM}'" in refusal(library, small).hint
    emulator = small.emulator
    without = replace(emulator, memories=tuple(memory for memory in emulator.memories if memory.name != "CCM"))
    assert "image:" not in refusal(library, replace(small, emulator=without)).hint
    board = with_sizes(load_board("mps2-an386"), SRAM=17_000)
    assert "a board file with 'image: {ram: PSRAM}' (16,777,216 bytes)" in refusal(library, board).hint


def test_commands_print_the_table_when_a_board_is_given(tmp_path):
    def output(*words):
        result = CliRunner().invoke(cli, [str(word) for word in words])
        assert result.exit_code == 0, result.output
        return result.output

    table = fit_text(digits(), F405)
    assert table in output("inspect", DIGITS, "--board", "stm32f405")
    assert indent(table, "  ") in output("compile", DIGITS, "--board", "stm32f405", "-o", tmp_path / "out")
    assert "comes on top" not in output("inspect", DIGITS, "--cpu", "cortex-m4")
    need_board("stm32f405")
    text = output("run", DIGITS, "--board", "stm32f405")
    assert table in text
    assert re.search(r"stack bound [\d,]+ bytes, measured [\d,]+\n  deepest calls: ai_run > digits_int8_run", text)
