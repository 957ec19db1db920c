"""The planner: what is in use together never overlaps, and sizes reach the bound where it is known."""

from __future__ import annotations

import itertools
import random

import pytest
from support import MLPERF_TINY, shared

from tvm_stm32 import compiler, memory
from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.errors import CapacityError
from tvm_stm32.library import Argument, Call, Library, Tensor
from tvm_stm32.memory.lifetimes import Buffer
from tvm_stm32.memory.planner import lower_bound, place
from tvm_stm32.model import Provenance, TensorInfo
from tvm_stm32.target import Target


def check(buffers, size):
    for a, b in itertools.combinations(buffers, 2):
        if a.overlaps(b):
            assert a.offset + a.size <= b.offset or b.offset + b.size <= a.offset
    assert all(buffer.offset % 8 == 0 and buffer.offset + buffer.size <= size for buffer in buffers)


def test_random_lifetimes_never_overlap():
    generator = random.Random(7)
    for _ in range(100):
        buffers = []
        for number in range(generator.randrange(1, 40)):
            first = generator.randrange(20)
            last = first + generator.randrange(6)
            buffers.append(Buffer(str(number), generator.randrange(1, 500), first, last))
        size = place(buffers, 8).size
        check(buffers, size)
        assert size >= lower_bound(buffers, 8)


def test_a_chain_takes_its_largest_pair():
    buffers = [Buffer(str(i), size, i, i + 1) for i, size in enumerate([100, 400, 200, 300, 80])]
    assert place(buffers, 8).size == lower_bound(buffers, 8) == 704 - 104


@pytest.mark.parametrize(
    ("name", "limit"),
    [("ad01_int8", 2048), ("kws_ref_model", 11_584), ("pretrainedResnet_quant", 38_400), ("vww_96_int8", 43_136)],
)
def test_real_models_stay_within_their_arena(name, limit):
    library = compile_model(shared(MLPERF_TINY / f"{name}.tflite"), CompileOptions(Target.for_cpu("cortex-m4")))
    assert library.arena_size <= limit


def elementwise(in_place):
    """input -> table -> output, same size."""
    tensors = {name: Tensor(name, (64,), "int8") for name in ("in", "mid", "out")}
    argument = Argument("tensor", "in", "int8_t")
    calls = [
        Call("table", "a", "k", (argument,), ("in",), ("mid",), overlaps={"in": 0} if in_place else {}),
        Call("table", "b", "k", (argument,), ("mid",), ("out",), overlaps={"mid": 0} if in_place else {}),
    ]
    info = TensorInfo("x", (64,), "int8")
    return Library(
        "net", Provenance("f", "0", "test"), {}, [info], [info], ["in"], ["out"], tensors=tensors, calls=calls
    )


def test_elementwise_chains_work_in_place():
    apart, together = elementwise(False), elementwise(True)
    memory.plan(apart)
    memory.plan(together)
    assert (apart.arena_size, together.arena_size) == (128, 64)


def test_a_tensor_used_later_is_not_overwritten():
    library = elementwise(True)
    library.calls.append(Call("add", "c", "k", (), ("in", "out"), ("sum",)))
    library.tensors["sum"] = Tensor("sum", (64,), "int8")
    library.output_tensors = ["sum"]
    memory.plan(library)
    assert library.tensors["in"].offset != library.tensors["mid"].offset


def test_more_inputs_than_the_api_counts_are_refused():
    tensors = {f"in{i}": Tensor(f"in{i}", (1,), "int8") for i in range(256)}
    library = Library("net", Provenance("many.onnx", "0" * 64, "onnx"), {}, [], [], list(tensors), [], tensors=tensors)
    with pytest.raises(CapacityError, match=r"many\.onnx has 256 inputs"):
        compiler._check_addresses(library)


def test_results_over_inputs_keep_their_distance():
    generator = random.Random(3)
    for _ in range(60):
        buffers = []
        count = generator.randrange(2, 25)
        for step in range(count):
            last = step + generator.choice([1, 1, 1, 3])
            buffers.append(Buffer(f"t{step}", generator.randrange(1, 400), step, last))
            dying = [b for b in buffers[:-1] if b.last == step]
            buffers[-1].below = {b.name: generator.randrange(0, 200) for b in dying if generator.random() < 0.7}
        apart = [Buffer(b.name, b.size, b.first, b.last) for b in buffers]
        placement = place(buffers, 8)
        for a, b in itertools.combinations(buffers, 2):
            if a.overlaps(b):
                below, above = sorted((a, b), key=lambda buffer: buffer.offset)
                if a.offset == b.offset:
                    assert 0 in (a.room_below(b), b.room_below(a))
                else:
                    assert below.offset + below.room_below(above) <= above.offset
        assert max(b.offset + b.size for b in buffers) <= placement.size
        assert placement.bound <= placement.size <= place(apart, 8).size


def test_a_shrinking_chain_takes_its_largest_tensor():
    buffers = [Buffer(f"t{i}", 800 >> i, i, i + 1, below={f"t{i - 1}": 16} if i else {}) for i in range(5)]
    placement = place(buffers, 8)
    assert placement.size == 816 and placement.optimal
