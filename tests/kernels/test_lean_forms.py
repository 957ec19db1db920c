"""Forms of kernels that need little memory give the reference's bytes, in assembly and in C."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import random_cases
from kernels.random_cases import codes
from kernels.test_int8_operators import differences

from tvm_stm32.kernels import choice

# Core, where it runs, language of inner kernels.
BUILDS = [("cortex-m4", "host", "c"), ("cortex-m4", "mps2-an386", "asm"), ("cortex-m7", "mps2-an500", "asm")]


def take(monkeypatch: pytest.MonkeyPatch, prefix: str) -> list[str]:
    """Have every operator take a form whose name begins with ``prefix``; returns the list of those that are taken."""
    taken: list[str] = []

    def pick(_, costs):
        name = min(costs, key=lambda form: (not form.startswith(prefix), form))
        taken.append(name)
        return name

    monkeypatch.setattr(choice, "pick", pick)
    return taken


@pytest.mark.parametrize("level", ["time", "ram"])
@pytest.mark.parametrize("build", BUILDS, ids=" ".join)
def test_dense_layers_that_read_codes_themselves(build, level, tmp_path, monkeypatch):
    """Rows of a second batch begin at any address, with a rest of one to three codes at the end of the memory."""
    core, board, kernels = build
    taken = take(monkeypatch, "codes")
    generator = np.random.default_rng(5)
    made = []
    for depth in (*range(1, 10), 13, 64, 257):
        for batch, units in ((1, 7), (3, 12)):
            common = random_cases._Finish.draw(generator)
            made.append(random_cases._dense_case(generator, (batch, depth), units, common))
    samples = [[[codes(generator, shape) for shape in case.shapes] for case in made] for _ in range(2)]
    wrong = differences(made, samples, core, board, kernels, level, tmp_path)
    assert not wrong, "\n".join(wrong)
    # Weights that happen to fit fewer bits are "narrow" at every level but time.
    assert set(taken) <= {"codes", "narrow"} and taken.count("codes") > len(made) / 2


@pytest.mark.parametrize("level", ["time", "ram"])
@pytest.mark.parametrize("build", BUILDS, ids=" ".join)
def test_depthwise_layers_some_channels_at_a_time(build, level, tmp_path, monkeypatch):
    """Results as large as their input lie over it: strides of one with padding that keeps the size."""
    core, board, kernels = build
    taken = take(monkeypatch, "chunks")
    generator = np.random.default_rng(6)
    made = []
    for channels in (8, 20, 32, 36, 48):
        for stride, height, padding in ((1, 7, (1, 1, 1, 1)), (1, 4, (0, 2, 2, 0)), (2, 6, (0, 0, 1, 1))):
            data = (1 + (channels == 20), height, int(generator.integers(3, 9)), channels)
            window = random_cases._Window(data, (3, 3), channels, (stride, stride), padding, groups=channels)
            common = random_cases._Finish.draw(generator)
            made.append(random_cases._convolution(generator, "depthwise 3x3", window, common))
    samples = [[[codes(generator, shape) for shape in case.shapes] for case in made] for _ in range(2)]
    wrong = differences(made, samples, core, board, kernels, level, tmp_path)
    assert not wrong, "\n".join(wrong)
    assert sum(form.startswith("chunks") for form in taken) > len(made) / 2
