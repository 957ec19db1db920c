"""Files of pools: what they mean for a board, and one clear message for what is wrong in them."""

from __future__ import annotations

import copy
import math
import random
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from support import MLPERF_TINY, ROOT, build_and_run, need_board, shared
from test_pools import DIGITS, SAMPLES

from tvm_stm32 import memory
from tvm_stm32.boards import Board, list_boards, load_board
from tvm_stm32.cli import cli
from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.emit import emit
from tvm_stm32.errors import CapacityError, Error, FirmwareError, TargetError
from tvm_stm32.library import Pool
from tvm_stm32.memory import cycles
from tvm_stm32.mlf.checks import check_library
from tvm_stm32.pool_files import load_pools, parse_pins
from tvm_stm32.project.firmware import build_image
from tvm_stm32.project.image import Image
from tvm_stm32.project.linker import linker_script
from tvm_stm32.target import Target

SRAM = "{name: SRAM, memory: SRAM, read: 4, write: 4}"


def loaded(folder: Path, text: str, board: Board | None = None):
    path = folder / "pools.yaml"
    path.write_text(text)
    return load_pools(str(path), board)


def test_every_boards_pools_are_sound():
    boards = [load_board(name) for name in list_boards()]
    assert sum(bool(board.pools) for board in boards) >= 2
    for board in boards:
        if board.pools:
            assert load_pools("board", board)[0].size <= board.ram.size - board.stack_size


def test_memories_of_the_board_give_section_size_and_kind(tmp_path):
    text = f"pools:\n  - {SRAM}\n  - {{name: ext, memory: PSRAM, size: 64K}}\n  - {{name: F, memory: CODE, read: 1}}\n"
    arena, external, flash = loaded(tmp_path, text, load_board("mps2-an386"))
    assert (arena.section, arena.size, arena.kind) == (".nn_arena", (4 << 20) - 16384, "ram")
    assert (external.section, external.size) == (".nn_pool_psram", 65536)
    assert (flash.section, flash.kind, flash.holds) == (".nn_weights", "flash", ("constants",))


def test_pools_without_a_board_name_their_section(tmp_path):
    (pool,) = loaded(tmp_path, "pools:\n  - {name: AXI, section: .axi_ram, size: 512K, alignment: 32}\n")
    assert (pool.section, pool.size, pool.alignment) == (".axi_ram", 512 << 10, 32)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pools: []", r"pools.yaml: pools: \[\] "),
        ("pool: []", r"unknown key 'pool': pools\?|'pools' is a required property"),
        ("- 1", "is no pool file"),
        ("pools:\n  - {name: A, speed: 3}", r"pools\[0\]: unknown key 'speed'; one of: alignment, holds, kind, "),
        ("pools:\n  - {name: A, sise: 3}", r"pools\[0\]: unknown key 'sise': size\?"),
        ("pools:\n  - {name: A, size: 3Q}", r"pools\[0\]\.size: '3Q' is wrong here: Bytes \(1 to \d+\), or 64K, 1M\."),
        (f"pools:\n  - {{name: A, size: 0x{'F' * 5000}}}", "a number has more than 64 bits"),
        ("pools:\n  - {name: A, read: 1.0e+308}", r"pools\[0\]\.read: 1e\+308 is greater than the maximum of 1000"),
        ("pools:\n  - {name: A, size: 0}", r"pools\[0\]\.size: '0' is wrong here: Bytes"),
        ("pools:\n  - {name: A, size: 3, size: 4}", r"the key 'size' is there twice \(line 2\)"),
        ("pools:\n  - {size: 3}", r"pools\[0\]: 'name' is a required property"),
        ("pools:\n  - {name: 'A B'}", r"pools\[0\]\.name"),
        ('pools:\n  - {name: "A\\n"}', r"pools\[0\]\.name"),
        ("pools:\n  - {name: A, section: '.x\"; evil'}", r"pools\[0\]\.section"),
        ('pools:\n  - {name: A, section: ".x\\n"}', r"pools\[0\]\.section"),
        ("pools:\n  - {name: A, size: 99999999999999M}", r"pools\[0\]\.size"),
        ("pools:\n  - {name: A, size: 3000000000}", r"pools\[0\]\.size"),
        ("pools:\n  - {name: A, size: 9999999M}", r"pools\[0\]\.size"),
        ("pools:\n  - {name: A, size: -1}", r"pools\[0\]\.size"),
        ("pools:\n  - {name: A, read: .nan}", r"pools\[0\]: read and write"),
        ("pools:\n  - {name: A, read: .inf}", r"pools\[0\]\.read"),
        ("pools:\n  - {name: A, alignment: 3}", r"pools\[0\]\.alignment"),
        ("pools:\n  - {name: A, holds: [code]}", r"pools\[0\]\.holds\[0\]"),
        ("pools:\n  - {name: A, kind: flash, holds: [activations]}", r"pools\[0\]\.holds: flash holds constants only"),
        ("pools:\n  - {name: A, kind: flash}", "none is RAM that holds activations"),
        ("pools:\n  - {name: A}\n  - {name: a}", r"pools\[1\]\.name: a second pool named 'a'"),
        ("pools:\n  - {name: A, memory: X}", r"pools\[0\]\.memory: board 'mps2-an386' has no memory 'X'"),
        ("pools:\n  - {name: A, memory: CODE, kind: ram}", r"pools\[0\]\.kind: ram, and CODE cannot be written"),
        ("pools:\n  - {name: A, memory: SRAM, size: 5M}", r"pools\[0\]\.size: 5,242,880 bytes, and SRAM has room for"),
        (f"pools:\n  - {SRAM}\n  - {{name: B, memory: SRAM}}", r"pools\[1\]: 'B' and 'SRAM' are one memory"),
        ("pools: &a\n  - {name: A}\nb: *a", "aliases"),
        ("pools: [" * 2000, "cannot read pool file"),
        ("pools:\n  - {name: A}\n" + " " * 70000, "larger than"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_key(text, message, tmp_path):
    with pytest.raises(TargetError, match=message) as caught:
        loaded(tmp_path, text, load_board("mps2-an386"))
    assert "pools.yaml" in str(caught.value) and len(str(caught.value)) < 700


def test_boards_without_pools_and_odd_pins_are_refused():
    with pytest.raises(TargetError, match="the board netduino2 has no pools"):
        load_pools("board", load_board("netduino2"))
    with pytest.raises(TargetError, match="there is no board"):
        load_pools("board", None)
    with pytest.raises(TargetError, match="does not exist"):
        load_pools("nowhere.yaml", None)
    assert parse_pins(("a=b=DTCM",)) == {"a=b": "DTCM"}
    for pins in (("DTCM",), ("=x",), ("a=b", "a=c")):
        with pytest.raises(Error, match="--pin"):
            parse_pins(pins)


def test_linker_scripts_have_a_section_for_each_other_memory():
    script = linker_script(load_board("mps3-an547"))
    assert "POOL_DTCM (rwx) : ORIGIN = 0x20000000, LENGTH = 0x80000" in script
    assert ".nn_pool_dtcm (NOLOAD)" in script
    device, emulated = (linker_script(load_board("stm32f405"), emulated=e) for e in (False, True))
    assert "POOL_CCM (rw) : ORIGIN = 0x10000000, LENGTH = 0x10000" in device
    assert "POOL_CCM (rwx) : ORIGIN = 0x20020000, LENGTH = 0x10000" in emulated


@pytest.mark.parametrize("board_name", ["mps3-an547", "stm32f405"])
def test_pools_of_boards_are_where_the_board_has_them(board_name, tmp_path):
    need_board(board_name)
    board = load_board(board_name)
    pools = load_pools("board", board)
    library = compile_model(DIGITS, CompileOptions(board.target, name="net", pools=pools))
    plain = compile_model(DIGITS, CompileOptions(board.target, name="net"))
    expected, _ = build_and_run(plain, board_name, SAMPLES, tmp_path / "plain")
    assert build_and_run(library, board_name, SAMPLES, tmp_path / "pooled")[0] == expected
    image = Image(tmp_path / "pooled" / "test.elf")
    memory = board.other_memories(emulated=True)[0]
    (pool,) = library.static_pools
    section = image.section(pool.section)
    assert section is not None and memory.contains(section.address, section.size) and not section.loaded
    assert pool.used <= section.size < pool.used + 16


def test_constants_in_another_flash_and_activations_in_slow_ram(tmp_path):
    need_board("mps2-an386")
    board = load_board("mps2-an386")
    text = "pools:\n  - {name: SRAM, memory: SRAM, size: 1K}\n  - {name: EXT, memory: PSRAM, read: 8, write: 8}\n"
    pools = loaded(tmp_path, text, board)
    library = compile_model(DIGITS, CompileOptions(board.target, name="net", pools=pools))
    assert 0 < library.arena_size <= 1024 and library.static_pools[0].used
    plain = compile_model(DIGITS, CompileOptions(board.target, name="net"))
    expected, _ = build_and_run(plain, "mps2-an386", SAMPLES, tmp_path / "plain")
    assert build_and_run(library, "mps2-an386", SAMPLES, tmp_path / "pooled")[0] == expected


def test_constants_have_the_section_of_their_flash(tmp_path):
    need_board("mps3-an547")
    board = load_board("mps3-an547")
    text = (
        f"pools:\n  - {SRAM}\n  - {{name: near, memory: ITCM, size: 2K}}\n  - {{name: far, memory: SSRAM, read: 9}}\n"
    )
    pools = loaded(tmp_path, text, board)
    for weights in ("array", "incbin"):
        options = CompileOptions(board.target, name="net", pools=pools, weights=weights)
        library = compile_model(DIGITS, options)
        assert {constant.pool for constant in library.constants.values()} == {"near", ""}
        folder = tmp_path / weights
        emit(library, folder)
        sources = [folder / "net.c", folder / "net_data.c"]
        image = build_image(sources, [folder], board, folder, "test", network="net", defines=["AI_USE_SECTIONS"])
        symbols = Image(image).symbols
        for constant in library.constants.values():
            memory = board.memory("flash" if constant.pool else "weights")
            assert memory.contains(symbols[constant.name])


def test_a_model_of_mlperf_tiny_gains_by_fast_memory():
    board = load_board("mps3-an547")
    path = shared(MLPERF_TINY / "kws_ref_model.tflite")
    pools = load_pools("board", board)
    spread = compile_model(path, CompileOptions(board.target, name="net", pools=pools))
    assert cycles(spread) < 1000
    assert re.search(r"modelled cycles .* fastest memory: 248; [\d,]{7,} with all", "\n".join(spread.notes))


@pytest.mark.parametrize("model", ["kws_ref_model", "pretrainedResnet_quant"])
def test_models_whose_arena_fits_no_pool_give_the_same_bytes(model, tmp_path):
    need_board("mps3-an547")
    path, board = shared(MLPERF_TINY / f"{model}.tflite"), load_board("mps3-an547")
    options = CompileOptions(board.target, name="net", level="ram")
    plain = compile_model(path, options)
    size = sum(math.prod(info.shape) for info in plain.inputs)
    samples = [np.random.default_rng(seed).integers(0, 256, size).astype(np.uint8).tobytes() for seed in range(2)]
    limit = -(-plain.arena_size * 9 // 80) * 8
    fast = Pool("DTCM", ".nn_pool_dtcm", limit, holds=("activations", "constants"))
    slow = Pool("SRAM", ".nn_arena", plain.arena_size - limit // 2, read_cycles=2, write_cycles=1)
    flash = Pool("SSRAM", ".nn_weights", 0, "flash", ("constants",), 2)
    library = compile_model(path, replace(options, pools=[slow, fast, flash]))
    assert 0 < library.arena_size <= slow.size < plain.arena_size and 0 < library.static_pools[0].used <= fast.size
    expected, _ = build_and_run(plain, "mps3-an547", samples, tmp_path / "plain")
    assert build_and_run(library, "mps3-an547", samples, tmp_path / "pooled")[0] == expected


def test_a_board_is_not_needed(tmp_path):
    page = (ROOT / "docs" / "memory.md").read_text()
    examples = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert [pool.name for pool in loaded(tmp_path, examples[0], load_board("mps3-an547"))] == ["SRAM", "DTCM", "SSRAM"]
    pools = loaded(tmp_path, examples[1])
    assert [pool.section for pool in pools] == [".axi_ram", ".dtcm_ram", ""]
    library = compile_model(DIGITS, CompileOptions(Target.for_cpu("cortex-m7"), name="net", pools=pools))
    assert library.arena_alignment == 32 and all(not c.pool or c.offset >= 0 for c in library.constants.values())


def test_every_plan_is_sound():
    generator = random.Random(2)
    plain = compile_model(DIGITS, CompileOptions(Target.for_cpu("cortex-m4"), name="net"))
    planned = 0
    for _ in range(30):
        library = copy.deepcopy(plain)
        sizes = [int(plain.arena_size * generator.choice([0.3, 0.5, 0.7, 1.1])) for _ in range(3)]
        library.pools = [
            Pool("A", "", sizes[0], "ram", ("activations",), 2, 1),
            Pool("B", "", sizes[1], "ram", ("activations", "constants", "io")),
            Pool("C", "", sizes[2], "ram", ("activations", "constants"), 1, 1, 32),
            Pool("F", ".nn_weights", 0, "flash", ("constants",), 3),
        ]
        try:
            memory.plan(library)
        except CapacityError:
            continue
        check_library(library)
        assert all(pool.used <= (pool.size or pool.used) for pool in library.pools)
        planned += 1
    assert planned > 10


def test_the_command_takes_pools_and_pins(tmp_path):
    command = [sys.executable, "-m", "tvm_stm32", "compile", str(DIGITS), "-o", str(tmp_path / "net")]
    pools = ["--board", "mps3-an547", "--pools", "board"]
    done = subprocess.run([*command, *pools, "--pin", "image=SRAM"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "AI_DIGITS_INT8_POOL_DTCM_SIZE" in (tmp_path / "net" / "digits_int8.h").read_text()
    done = subprocess.run([*command, *pools, "--pin", "nothing=DTCM"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1 and "error: " in done.stderr and "'nothing'" in done.stderr
    done = subprocess.run([*command, "--pin", "a=B"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1 and "--pin goes with --pools" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--pools", "{folder}"), "is a folder"),
        (("--pools", "board", "--pin", "x=NOPE"), "there is no pool 'NOPE'"),
        (("--pools", "board", "--pin", "x=CCM"), "inputs and outputs: 'image', 'scores'"),
        (("--max-ram", "3Q"), "such as 32768, 32K or 1M"),
        (("--max-ram", "-1"), "such as 32768, 32K or 1M"),
    ],
)
def test_options_say_what_is_wrong_with_them(tmp_path, words, message):
    words = [word.format(folder=tmp_path) for word in words]
    result = CliRunner().invoke(cli, ["inspect", str(DIGITS), "--board", "stm32f405", *words])
    assert result.exit_code != 0
    assert message in f"{result.output} {result.exception}"


def test_what_no_model_can_mend_is_said_before_it_is_read(tmp_path):
    """The file is no model, and that is not what they say."""
    file = tmp_path / "net.tflite"
    file.write_bytes(b"nothing")
    for words, message in (
        (["--shared-arena", "a b", "-o", str(tmp_path / "out")], "--shared-arena: 'a b' is no C name"),
        (["--pools", "board", "--pin", "x=NOPE", "-o", str(tmp_path / "out")], "there is no pool 'NOPE'"),
    ):
        result = CliRunner().invoke(cli, ["compile", str(file), "--board", "stm32f405", *words])
        assert result.exit_code != 0 and message in str(result.exception)


def test_sizes_are_written_alike_in_files_and_options():
    def arena(size: str) -> str:
        result = CliRunner().invoke(cli, ["inspect", str(DIGITS), "--cpu", "cortex-m4", "--max-ram", size])
        assert result.exit_code == 0, result.output
        return next(line for line in result.output.splitlines() if line.startswith("arena"))

    assert arena("3K") == arena("3072")


def test_weights_find_a_name_when_pools_have_all_that_come_to_mind(tmp_path):
    names = "".join(f"  - {{name: {name}, section: .{name.lower()}}}\n" for name in ("FLASH", "WEIGHTS", "FLASH1"))
    pools = loaded(tmp_path, f"pools:\n  - {{name: A, holds: [activations, constants]}}\n{names}")
    assert pools[-1].kind == "flash" and pools[-1].name == "FLASH2"


def test_no_pool_in_ram_lies_in_a_section_of_flash(tmp_path):
    for section in (".text", ".rodata.x", ".isr_vector"):
        with pytest.raises(TargetError, match="is one of code and constants"):
            loaded(tmp_path, f"pools:\n  - {{name: A, section: {section}}}\n")
    flash = "pools:\n  - {name: A}\n  - {name: B, section: .rodata.x, kind: flash}\n"
    assert loaded(tmp_path, flash)[1].section == ".rodata.x"


def test_sections_a_board_does_not_have_are_no_run(tmp_path):
    path = tmp_path / "pools.yaml"
    path.write_text("pools:\n  - {name: A, section: .axi_ram}\n")
    result = CliRunner().invoke(cli, ["run", str(DIGITS), "--board", "stm32f405", "--pools", str(path)])
    assert result.exit_code == 1
    assert re.search(r"arena \([\d,]+ bytes\) is to lie in section '.axi_ram'", str(result.exception))


def test_a_pool_with_no_place_in_the_linker_script_is_no_firmware(tmp_path):
    need_board("stm32f405")
    board = load_board("stm32f405")
    pool = Pool("A", ".axi_ram", holds=("activations", "io"))
    library = compile_model(DIGITS, CompileOptions(board.target, pools=(pool,)))
    emit(library, tmp_path)
    sources = [tmp_path / f"{library.name}.c", tmp_path / f"{library.name}_data.c"]
    with pytest.raises(FirmwareError, match=r"section \.axi_ram has [0-9]+ zeros in flash") as caught:
        build_image(sources, [tmp_path], board, tmp_path, "app", network=library.name, defines=["AI_USE_SECTIONS"])
    assert "(NOLOAD)" in caught.value.hint


def test_a_network_that_needs_other_kernels_for_its_pools_says_so(tmp_path):
    path = tmp_path / "pools.yaml"
    path.write_text("pools:\n  - {name: SRAM, size: 28K, holds: [activations, io]}\n  - {name: CCM, size: 6K}\n")
    model = str(shared(MLPERF_TINY / "vww_96_int8.tflite"))
    result = CliRunner().invoke(cli, ["inspect", model, "--cpu", "cortex-m4", "--pools", str(path)])
    assert "-O ram, with which it fits; or " in str(result.exception)
    result = CliRunner().invoke(cli, ["inspect", model, "--cpu", "cortex-m4", "--pools", str(path), "-O", "ram"])
    assert result.exit_code == 0


def test_arenas_are_not_called_like_what_every_image_has(tmp_path):
    for name in ("uint8_t", "NULL", "INT8_MAX", "ai_network", "memcpy", "linux", "a b", "int"):
        result = CliRunner().invoke(cli, ["arena", name, "net", "-o", str(tmp_path / "a.c")])
        assert result.exit_code == 1 and not (tmp_path / "a.c").exists(), name
