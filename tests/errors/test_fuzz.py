"""Random damage to model files: an error of ours or a success, and the process lives on."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from support import ROOT
from tflite_builder import dense

from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.emit.emitter import render
from tvm_stm32.errors import Error
from tvm_stm32.target import Target

ROUNDS = 250
WORDS = (0, 1, 2, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 1 << 30, 65536, 0x7F800000, 0x7FC00000)
MODELS = {
    "m.tflite": lambda: dense().build(),
    "m.onnx": lambda: (ROOT / "examples" / "digits" / "digits_int8.onnx").read_bytes(),
}


def damaged(data: bytes, seed: int) -> bytes:
    generator = random.Random(seed)
    content = bytearray(data)
    for _ in range(generator.choice([1, 1, 2, 4])):
        place, kind = generator.randrange(len(content)), generator.random()
        if kind < 0.5:
            content[place] = generator.randrange(256)
        elif kind < 0.7:
            content[place] ^= 1 << generator.randrange(8)
        elif kind < 0.9:
            place &= ~3
            content[place : place + 4] = generator.choice(WORDS).to_bytes(4, "little")
        elif kind < 0.95:
            del content[place : place + generator.randrange(1, 9)]
        else:
            content[place:place] = generator.randbytes(generator.randrange(1, 9))
    return bytes(content)


def texts(error: BaseException) -> Iterator[str]:
    yield from str(error).splitlines()


@pytest.mark.parametrize("name", MODELS)
def test_damaged_models_never_do_worse_than_an_error(name, tmp_path):
    data, path = MODELS[name](), tmp_path / name
    options = CompileOptions(Target.for_cpu("cortex-m4"))
    outcomes = {True: 0, False: 0}
    for seed in range(ROUNDS):
        path.write_bytes(damaged(data, seed))
        try:
            render(compile_model(path, options))
        except Error as error:
            assert name in error.message, f"seed {seed}"
            assert max(len(line) for line in texts(error)) < 700, f"seed {seed}"
            outcomes[False] += 1
        else:
            outcomes[True] += 1
    # Both happen, or the damage is not of the right kind.
    assert min(outcomes.values()) > ROUNDS // 20
