"""Several memories: the assignment is the cheapest there is, code over two pools gives the same bytes."""

from __future__ import annotations

import copy
import ctypes
import itertools
import random
import re
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from support import MLPERF_TINY, ROOT, build_and_run, random_bytes, shared
from test_memory import elementwise
from test_mlf_write import read, written
from test_mlf_write_hostile import attempt, put
from test_placement import Program
from test_state import accumulator

from tvm_stm32 import memory
from tvm_stm32.boards import load_board
from tvm_stm32.compiler import CompileOptions, compile_loaded, compile_model
from tvm_stm32.emit import emit
from tvm_stm32.emit.arena import arena_text
from tvm_stm32.emit.emitter import render
from tvm_stm32.emit.page import html_page
from tvm_stm32.emit.report import report
from tvm_stm32.errors import CapacityError, Error, ModelError
from tvm_stm32.library import Library, Pool
from tvm_stm32.memory.lifetimes import Buffer, placed
from tvm_stm32.memory.planner import place
from tvm_stm32.memory.pools import Assignment, Item
from tvm_stm32.memory.traffic import traffic
from tvm_stm32.pool_files import load_pools
from tvm_stm32.project.firmware import build_image
from tvm_stm32.project.inference import run_samples
from tvm_stm32.target import Target

DIGITS = ROOT / "examples" / "digits" / "digits_int8.onnx"
SLOW = Pool("SRAM", holds=("activations",), read_cycles=2, write_cycles=1)
FLASH = Pool("FLASH", section=".nn_weights", kind="flash", holds=("constants",), read_cycles=3)
SAMPLES = [random_bytes(np.random.default_rng(seed), (1, 1, 8, 8)).tobytes() for seed in range(3)]


def fast(size: int, *holds: str) -> Pool:
    return Pool("DTCM", size=size, holds=holds or ("activations", "constants"))


def pooled(*pools: Pool, board: str = "host", pins: dict[str, str] | None = None, **options: object) -> Library:
    """The digits network over copies of the pools."""
    library = compile_model(DIGITS, CompileOptions(load_board(board).target, name="net", **options))
    library.pools = [copy.copy(pool) for pool in pools]
    memory.plan(library, pins)
    return library


def random_items(generator: random.Random, count: int) -> list[Item]:
    items = []
    for number in range(count):
        first = generator.randrange(6)
        buffer = Buffer(str(number), 8 * generator.randrange(1, 20), first, first + generator.randrange(3))
        words = generator.randrange(1, 100)
        items.append(Item(buffer, {0: 3.0 * words, 1: 0.0, 2: 1.0 * words}))
    return items


def test_small_networks_get_the_cheapest_assignment():
    generator = random.Random(5)
    known = {True: 0, False: 0}
    for number in range(40):
        items = random_items(generator, 6)
        limits = [generator.choice([80, 120]) if number % 2 else 0, 160, 120]
        pools = [Pool(name, size=size) for name, size in zip("ABC", limits, strict=True)]
        assignment = Assignment(items, pools, [8, 8, 8])
        costs = [
            assignment.cost(homes)
            for homes in itertools.product(range(3), repeat=len(items))
            if all(
                not limit or needed([copy.copy(i.buffer) for i, h in zip(items, homes, strict=True) if h == n]) <= limit
                for n, limit in enumerate(limits)
            )
        ]
        best = assignment.best()
        known[bool(costs)] += 1
        assert (best is not None) == bool(costs)
        assert best is None or assignment.cost(best) == pytest.approx(min(costs))
    assert min(known.values()) >= 3


def needed(buffers: list[Buffer]) -> int:
    return place(buffers, 8).size if buffers else 0


def test_what_fits_no_single_pool_is_spread_over_two():
    library = elementwise(False)  # 128 bytes in use at once
    library.pools = [Pool("A", size=64), Pool("B", size=64)]
    memory.plan(library)
    assert [pool.used for pool in library.pools] == [64, 64]
    # Inputs and outputs are in the arena, so the tensor between them is not.
    assert [library.tensors[name].pool for name in ("in", "mid", "out")] == ["", "B", ""]


def test_without_room_the_pools_and_their_needs_are_named():
    library = elementwise(False)
    library.pools = [Pool("A", size=64), Pool("B", size=56)]
    with pytest.raises(CapacityError, match=r"A needs 128 bytes and has 64; B needs 0 bytes and has 56"):
        memory.plan(library)


def test_results_lie_over_inputs_within_a_pool_only():
    library = elementwise(True)
    library.pools = [Pool("A", size=64), Pool("B", size=64)]
    memory.plan(library, {"mid": "B"})
    assert library.tensors["mid"].pool == "B" and library.tensors["in"].offset == library.tensors["out"].offset == 0
    memory.plan(library, {"mid": "A"})
    assert [pool.used for pool in library.pools] == [64, 0]


def test_pins_are_kept_and_checked():
    library = pooled(SLOW, fast(0), FLASH)
    name = next(name for name, constant in library.constants.items() if constant.offset >= 0)
    assert pooled(SLOW, fast(0), FLASH, pins={name: "flash"}).constants[name].offset == -1
    for pins, message in (
        ({"nothing": "DTCM"}, "has no such tensor, constant or workspace"),
        ({name: "TCM"}, "there is no pool 'TCM'.*SRAM, DTCM, FLASH"),
        ({name: "SRAM"}, "cannot lie in pool SRAM"),
    ):
        with pytest.raises(Error, match=f"(?s){message}"):
            pooled(SLOW, fast(0), FLASH, pins=pins)


def test_faster_memory_is_used_for_what_is_touched_most():
    slow = memory.cycles(pooled(SLOW, FLASH))
    costs = [memory.cycles(pooled(SLOW, fast(size), FLASH)) for size in (256, 1024, 4096, 0)]
    assert slow > costs[0] > costs[1] > costs[2] > costs[3]
    library = pooled(SLOW, fast(1024), FLASH)
    touched = traffic(library)
    density = {b.name: touched[b.name].reads / b.size for b in placed(library) if b.pool == "DTCM"}
    assert library.static_pools[0].used <= 1024 and density
    assert not any(pooled(SLOW, fast(0, "activations"), FLASH).constants[name].pool for name in library.constants)


def test_variables_stay_with_their_instance():
    library = compile_loaded(accumulator(), CompileOptions(Target.for_cpu("host"), name="net"))
    library.pools = [copy.copy(SLOW), fast(0)]
    memory.plan(library)
    assert all(not library.tensors[state.tensor].pool for state in library.states)


@pytest.mark.parametrize("board", ["host", "mps2-an386", "mps3-an547"])
@pytest.mark.parametrize("weights", ["array", "incbin"])
def test_code_over_two_pools_gives_the_same_bytes(board, weights, tmp_path):
    target = load_board(board).target
    plain = compile_model(DIGITS, CompileOptions(target, name="net"))
    library = pooled(SLOW, fast(1200), FLASH, board=board, weights=weights)
    assert any(constant.offset >= 0 for constant in library.constants.values())
    assert any(tensor.pool for tensor in library.tensors.values()) or any(c.workspace_pool for c in library.calls)
    expected, _ = build_and_run(plain, board, SAMPLES, tmp_path / "plain")
    assert build_and_run(library, board, SAMPLES, tmp_path / "pooled")[0] == expected


@pytest.mark.parametrize("board", ["host", "mps3-an547"])
def test_inputs_and_outputs_in_a_pool_of_their_own(board, tmp_path):
    target = load_board(board).target
    plain = compile_model(DIGITS, CompileOptions(target, name="net"))
    library = pooled(SLOW, Pool("DMA", holds=("io",), alignment=32), FLASH, board=board)
    assert {library.tensors[name].pool for name in (*library.input_tensors, *library.output_tensors)} == {"DMA"}
    assert "AI_NO_OFFSET" in render(library)[".c"]
    expected, _ = build_and_run(plain, board, SAMPLES, tmp_path / "plain")
    assert build_and_run(library, board, SAMPLES, tmp_path / "pooled")[0] == expected
    # One of both, where the pool holds activations as well.
    for holds in (("activations", "io"), ("activations", "constants", "io")):
        library = pooled(SLOW, Pool("DMA", holds=holds), FLASH, board=board)
        assert build_and_run(library, board, SAMPLES, tmp_path / "-".join(holds))[0] == expected


def test_an_application_may_still_move_ends_and_a_reset_leaves_them(tmp_path):
    library = pooled(SLOW, Pool("DMA", holds=("io",)), FLASH)
    plain = Program(compile_model(DIGITS, CompileOptions(load_board("host").target, name="net")), tmp_path / "plain")
    program = Program(library, tmp_path / "pooled")
    assert plain.create() == program.create() == ""
    assert program.run(SAMPLES[0], 10) == plain.run(SAMPLES[0], 10)
    memory_of_application = ctypes.create_string_buffer(SAMPLES[1], len(SAMPLES[1]))
    data = program.image.ai_get_input(program.handle, 0).contents
    data[1] = ctypes.addressof(memory_of_application)
    assert program.image.ai_reset(program.handle) == 0
    assert data[1] == ctypes.addressof(memory_of_application)
    assert program.run(SAMPLES[1], 10) == plain.run(SAMPLES[1], 10)


def test_shared_arenas_are_for_networks_that_keep_nothing_there():
    options = CompileOptions(Target.for_cpu("host"), name="net", shared_arena="scratch")
    assert "#define net_arena scratch_of_net" in render(compile_model(DIGITS, options))[".c"]
    with pytest.raises(ModelError, match="cannot share its arena"):
        compile_loaded(accumulator(), options)
    keeping = replace(options, pools=[Pool("SRAM", holds=("activations", "constants")), FLASH])
    with pytest.raises(ModelError, match="copies of constants lie there"):
        compile_model(DIGITS, keeping)
    with pytest.raises(Error, match="is no C name"):
        compile_model(DIGITS, replace(options, shared_arena="int"))
    for name, networks in (("int", ["a"]), ("a b", ["a"]), ("scratch", ["A"])):
        with pytest.raises(Error, match="is no C name"):
            arena_text(name, networks)
    with pytest.raises(Error, match="one network twice"):
        arena_text("scratch", ["a", "a"])


def test_constants_are_copied_into_each_instances_arena(tmp_path):
    library = pooled(Pool("SRAM", size=6000, holds=("activations", "constants")), FLASH)
    copies = [constant for constant in library.constants.values() if constant.offset >= 0]
    assert copies and all(constant.pool == "" for constant in copies)
    plain = compile_model(DIGITS, CompileOptions(load_board("host").target, name="net"))
    expected, _ = build_and_run(plain, "host", SAMPLES, tmp_path / "plain")
    assert build_and_run(library, "host", SAMPLES, tmp_path / "pooled")[0] == expected
    assert "(void)arena" not in render(library)[".c"]


def test_a_build_may_bring_the_buffer(tmp_path):
    library = pooled(SLOW, fast(1200), FLASH)
    emit(library, tmp_path)
    (tmp_path / "own.c").write_text(
        '#include "net.h"\nextern uint8_t own[];\n'
        "__attribute__((aligned(AI_NET_POOL_DTCM_ALIGNMENT))) uint8_t own[AI_NET_POOL_DTCM_SIZE];\n"
    )
    sources = [tmp_path / name for name in ("net.c", "net_data.c", "own.c")]
    image = build_image(
        sources,
        [tmp_path],
        load_board("host"),
        tmp_path,
        "test",
        network="net",
        defines=["AI_NET_POOL_DTCM_BUFFER=own"],
        warnings_as_errors=True,
    )
    outputs, _ = run_samples(image, load_board("host"), SAMPLES, count="none", timeout_s=60)
    assert outputs == build_and_run(library, "host", SAMPLES, tmp_path / "static")[0]


def test_macros_name_a_pool():
    library = pooled(SLOW, Pool("DTCM", ".dtcm", size=1200, holds=("activations", "constants")), FLASH)
    text, header = (render(library)[suffix] for suffix in (".c", ".h"))
    assert '#define AI_NET_POOL_DTCM_SECTION ".dtcm"' in text
    assert "extern uint8_t AI_NET_POOL_DTCM_BUFFER[];" in text
    assert re.search(r"#define AI_NET_POOL_DTCM_SIZE \d+U", header)


def test_an_archive_keeps_pools_and_they_are_checked(tmp_path):
    library = pooled(SLOW, fast(1200), FLASH)
    assert render(read(written(library, tmp_path))) == render(library)
    number = next(i for i, constant in enumerate(library.constants.values()) if constant.offset >= 0)
    tensor = next(i for i, tensor in enumerate(library.tensors.values()) if tensor.offset >= 0)
    for change, message in (
        (put("pools", 1, "name", value='D"TCM'), "has no C name"),
        (put("pools", 1, "name", value="sram"), "two pools have one name"),
        (put("pools", 1, "section", value='.x"; evil'), "which is no section"),
        (put("pools", 1, "alignment", value=3), "aligned to 3"),
        (put("pools", 1, "read_cycles", value="nan"), "a speed that is none"),
        (put("pools", 1, "used", value=8), "lies outside the"),
        (put("pools", 1, "used", value=1 << 40), "are used"),
        (put("pools", 0, "kind", value="flash"), "holds more than constants"),
        (put("constants", number, "pool", value="FLASH"), "lies in the pool 'FLASH'"),
        (put("constants", number, "offset", value=1 << 20), "lies outside the pool"),
        (put("tensors", tensor, "pool", value="nowhere"), "lies in the pool 'nowhere'|is not where"),
        (put("shared_arena", value="int"), "no C name of an arena"),
    ):
        assert re.search(message, attempt(library, change, tmp_path)), message


def test_reports_show_pool_by_pool():
    pools = [
        Pool("SRAM", size=1 << 20, read_cycles=2, write_cycles=1),
        Pool("DTCM", size=16_384, holds=("activations", "constants")),
        Pool("SSRAM", kind="flash", holds=("constants",), read_cycles=2),
    ]
    model = shared(MLPERF_TINY / "kws_ref_model.tflite")
    library = compile_model(model, CompileOptions(Target.for_cpu("cortex-m55"), pools=tuple(pools)))
    facts = report(library)["memory"]
    assert [pool["name"] for pool in facts["pools"]] == ["SRAM", "DTCM"]
    assert facts["pools"][1]["bytes"] == library.pools[1].used <= facts["pools"][1]["limit"] == 16_384
    for pool in facts["pools"]:
        ends = [b["offset"] + b["bytes"] for b in facts["buffers"] if b["pool"] == pool["name"]]
        assert max(ends, default=0) <= pool["bytes"]
    assert {"constant", "activation"} <= {b["kind"] for b in facts["buffers"] if b["pool"] == "DTCM"}
    page = html_page(library)
    assert "DTCM: addresses over time" in page and "SRAM: addresses over time" in page


def test_weights_that_are_not_copied_need_no_pool_of_their_own(tmp_path):
    path = tmp_path / "pools.yaml"
    path.write_text(
        "pools:\n  - {name: SRAM, section: .a, size: 64K}\n"
        "  - {name: DTCM, section: .b, size: 16K, holds: [activations, constants]}\n"
    )
    pools = load_pools(str(path), None)
    assert [pool.name for pool in pools] == ["SRAM", "DTCM", "FLASH"]
    model = shared(MLPERF_TINY / "kws_ref_model.tflite")
    library = compile_model(model, CompileOptions(Target.for_cpu("cortex-m4"), pools=tuple(pools)))
    copies = [constant for constant in library.constants.values() if constant.offset >= 0]
    assert copies and len(copies) < len(library.constants)
    assert all(pool.used <= pool.size for pool in library.pools if pool.size)


@pytest.mark.parametrize("level", ["time", "ram"])
def test_results_in_the_place_of_inputs_have_the_same_place_in_pools(level):
    """Depthwise layers of the keyword spotter run some channels at a time, over their input."""
    pools = (Pool("SRAM", size=64 << 10), Pool("CCM", size=16 << 10, read_cycles=1, write_cycles=1))
    model = shared(MLPERF_TINY / "kws_ref_model.tflite")
    library = compile_model(model, CompileOptions(Target.for_cpu("cortex-m4"), level=level, pools=pools))
    merged = [buffer for buffer in placed(library) if len(buffer.tensors) > 1]
    assert merged
    for buffer in merged:
        places = {(library.tensors[name].pool, library.tensors[name].offset) for name in buffer.tensors}
        assert len(places) == 1 and buffer.offset >= 0
    text = render(library)[".c"]
    assert "+ -1)" not in text


def test_a_network_left_out_of_the_arena_does_not_link(tmp_path):
    """It could need more than the others."""
    for name in ("one", "two"):
        options = CompileOptions(Target.for_cpu("host"), name=name, shared_arena="scratch")
        emit(compile_model(DIGITS, options), tmp_path)
    runtime = ROOT / "runtime"
    networks = [tmp_path / f"{name}{part}.c" for name in ("one", "two") for part in ("", "_data")]
    main = tmp_path / "main.c"
    main.write_text(
        '#include "one.h"\n#include "two.h"\nint main(void)\n{\n    ai_handle a;\n    ai_handle b;\n'
        "    return ai_create(&ai_one_network, NULL, &a) != AI_STATUS_OK ||\n"
        "           ai_create(&ai_two_network, NULL, &b) != AI_STATUS_OK ||\n"
        "           ai_get_activations(a) != ai_get_activations(b);\n}\n"
    )
    command = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{tmp_path}",
               f"-I{runtime / 'include'}"]  # fmt: skip
    for members, links in ((["one", "two"], True), (["one"], False)):
        (tmp_path / "scratch.c").write_text(arena_text("scratch", members))
        sources = [main, *networks, tmp_path / "scratch.c", runtime / "src" / "ai_runtime.c"]
        program = tmp_path / "program"
        done = subprocess.run([*command, *sources, "-lm", "-o", program], capture_output=True, text=True)
        assert (done.returncode == 0) == links, done.stderr
        if links:
            assert subprocess.run([program]).returncode == 0
        else:
            assert "scratch_of_two" in done.stderr
