"""Whether a network fits a board: the table, and hints that hold what they say."""

from __future__ import annotations

import re
from dataclasses import replace
from textwrap import indent

import pytest
from click.testing import CliRunner
from support import MLPERF_TINY, ROOT, need_board, shared

from tvm_stm32.boards import HOST, Board, load_board
from tvm_stm32.capacity import check_capacity, elsewhere, fit, fit_text
from tvm_stm32.cli import cli
from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.errors import CapacityError
from tvm_stm32.pool_files import load_pools
from tvm_stm32.target import Target

DIGITS = ROOT / "examples" / "digits" / "digits_int8.relay"
F405 = load_board("stm32f405")


def digits(**options):
    return compile_model(DIGITS, CompileOptions(Target.for_cpu("cortex-m4"), **options))


def with_sizes(board: Board, **sizes: int) -> Board:
    """The board, and its emulator, with other sizes of memories."""
    memories = tuple(replace(memory, size=sizes.get(memory.name, memory.size)) for memory in board.memories)
    return replace(board, memories=memories)


def refusal(library, board, again=digits):
    with pytest.raises(CapacityError) as caught:
        check_capacity(library, board, again)
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
    assert "mps2-an386 (cortex-m4)" in error.hint
    assert "--max-ram" not in error.hint


def test_size_is_proposed_where_its_weights_fit():
    library, small = digits(), digits(level="size")
    assert small.constant_bytes < library.constant_bytes
    hint = f"-O size, with which constants need {small.constant_bytes:,} bytes"
    assert refusal(library, with_sizes(F405, FLASH=small.constant_bytes)).hint.startswith(hint)
    tiny = with_sizes(F405, FLASH=small.constant_bytes - 1)
    assert "-O" not in refusal(library, tiny).hint
    assert "-O" not in refusal(small, tiny).hint


def test_the_size_that_max_ram_is_given_fits():
    path = shared(MLPERF_TINY / "vww_96_int8.tflite")
    board = with_sizes(F405, SRAM=36_000, CCM=40_000)

    def again(**changes):
        return compile_model(path, CompileOptions(board.target, **changes))

    error = refusal(again(), board, again)
    limit = int(re.search(r"--max-ram (\d+), ", error.hint)[1])
    check_capacity(again(max_ram=limit), board)
    assert limit + board.stack_size < 36_000


def test_nothing_that_cannot_help_is_proposed():
    library = digits()
    # Less than the input alone, less than there is, or options given already, or kernels that came with the network.
    assert "--max-ram" not in refusal(library, with_sizes(F405, SRAM=4096 + 520)).hint
    with pytest.raises(CapacityError) as caught:
        digits(max_ram=8)
    least = caught.value.least
    board = with_sizes(F405, SRAM=4096 + least - 8)
    error = refusal(library, board)
    assert "--max-ram" not in error.hint and f"no arena of less than {least:,} bytes" in error.why
    assert "--max-ram" not in str(refusal(library, board, None))
    library.settings["max-ram"] = str(least)
    assert "--max-ram" not in refusal(library, board).hint
    # Larger than any board.
    library.arena_size = 1 << 30
    assert refusal(library, F405, None).hint.startswith("a smaller model")


def test_the_pools_of_the_board_are_proposed_where_they_help():
    path = shared(MLPERF_TINY / "vww_96_int8.tflite")
    board = with_sizes(F405, SRAM=32 << 10)

    def again(**changes):
        return compile_model(path, CompileOptions(board.target, **changes))

    assert refusal(again(), board, again).hint.startswith("--pools board, which spreads it; or --max-ram ")
    pools = load_pools("board", board)
    check_capacity(again(pools=tuple(pools)), board)
    assert "--pools" not in refusal(again(), with_sizes(board, CCM=1000), again).hint


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


def in_pools(tmp_path, pools, **options):
    file = tmp_path / "pools.yaml"
    file.write_text(f"pools:\n{pools}", encoding="utf-8")
    return digits(pools=tuple(load_pools(str(file), F405)), **options)


def test_pools_count_for_the_memories_they_lie_in(tmp_path):
    library = in_pools(
        tmp_path,
        "  - {name: FAST, memory: CCM, size: 1K, holds: [activations, constants]}\n"
        "  - {name: MAIN, memory: SRAM, read: 1, holds: [activations, io]}\n"
        "  - {name: FLASH, memory: FLASH, read: 2}\n"
        "  - {name: OTHER, section: .other, read: 9, holds: [activations]}\n",
        pins={"image": "MAIN"},
    )
    uses = {use.memory.name: dict(use.parts) for use in fit(library, F405)}
    assert uses["CCM"] == {"arena": library.arena_size}
    assert uses["SRAM"] == {"pool MAIN": library.pool("MAIN").used, "stack": 4096}
    # Copies are made of what lies in flash.
    assert any(constant.offset >= 0 for constant in library.constants.values())
    assert uses["FLASH"] == {"weights": library.constant_bytes}
    assert library.pool("FLASH").used >= library.constant_bytes
    assert "no arena" not in fit_text(library, F405)


def test_pools_in_sections_of_ones_own_are_listed_below(tmp_path):
    library = in_pools(tmp_path, "  - {name: MINE, section: .mine, holds: [activations, io]}\n")
    assert elsewhere(library, F405) == [("arena", ".mine", library.arena_size)]
    assert re.search(rf"\.mine +{library.arena_size:,} +arena\n", fit_text(library, F405))
    library = in_pools(tmp_path, "  - {name: MINE, section: .nn_pool_ccm, holds: [activations, io]}\n")
    error = refusal(library, with_sizes(F405, CCM=1000))
    assert f"CCM is to hold arena {library.arena_size:,} bytes and the board has 1,000" in error.why
