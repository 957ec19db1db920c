"""Parameter files: what they hold, and which parameters of @main their values go to."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from relay_support import HEADER, params_file, run

from tvm_stm32 import params
from tvm_stm32.errors import ModelError
from tvm_stm32.frontends import relay
from tvm_stm32.model import Model

DENSE = "def @main(%x: Tensor[(1, 3), float32], {weights}) {{ nn.dense(%x, %{name}, units=None) }}"
WEIGHT = np.arange(6, dtype=np.float32).reshape(2, 3)


def load(folder: Path, text: str, data: bytes, name: str = "model.params") -> Model:
    (folder / "model.relay").write_text(HEADER + text)
    (folder / name).write_bytes(data)
    return relay.load(folder / "model.relay", folder / name)


def dense(name: str) -> str:
    return DENSE.format(weights=f"%{name}: Tensor[(2, 3), float32]", name=name)


def test_arrays_are_read_by_name() -> None:
    arrays: dict[str, np.ndarray] = {
        "a": np.array([1, 2], np.int8),
        "b": np.array(2.5, np.float32),
        "c": np.array([[True]]),
    }
    found = params.read(params_file(arrays), "m.params")
    assert list(found) == ["a", "b", "c"]
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize(
    ("printed", "stored"), [("w", "w"), ("v_param_1", "_param_1"), ("w1", "w"), ("v_param_11", "_param_1"), ("z", "q")]
)
def test_parameter_is_found_under_the_name_the_printer_gave_it(tmp_path: Path, printed: str, stored: str) -> None:
    model = load(tmp_path, dense(printed), params_file({stored: WEIGHT}))
    assert [info.name for info in model.inputs] == ["x"]
    np.testing.assert_array_equal(run(model, np.ones((1, 3), np.float32))[0], WEIGHT.sum(axis=1)[np.newaxis])


def test_numpy_archive_is_read_too(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", w=WEIGHT)
    (tmp_path / "model.relay").write_text(HEADER + dense("w"))
    assert len(relay.load(tmp_path / "model.relay", tmp_path / "w.npz").inputs) == 1


def test_value_of_the_wrong_shape_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"'w' of the parameter file does not fit %w"):
        load(tmp_path, dense("w"), params_file({"w": WEIGHT.T.copy()}))


def test_missing_values_are_named(tmp_path: Path) -> None:
    text = (
        "def @main(%x: Tensor[(1, 3), float32], %w: Tensor[(2, 3), float32], %b: Tensor[(2), float32])"
        " { nn.bias_add(nn.dense(%x, %w, units=None), %b) }"
    )
    with pytest.raises(ModelError, match=r"(?s)without a value: %w, %b.*no parameter file was given.*--params"):
        (tmp_path / "model.relay").write_text(HEADER + text)
        relay.load(tmp_path / "model.relay")
    with pytest.raises(ModelError, match=r"(?s)without a value: %b.*model\.params does not hold them"):
        load(tmp_path, text, params_file({"w": WEIGHT}))


def test_unused_values_are_noted(tmp_path: Path) -> None:
    model = load(tmp_path, dense("w"), params_file({"w": WEIGHT, "other": np.zeros(7, np.int8)}))
    assert model.notes == ["1 values of model.params are not used: other"]


GOOD = params_file({"w": WEIGHT})


@pytest.mark.parametrize("length", range(0, len(GOOD), 7))
def test_truncated_file_is_an_error(length: int) -> None:
    with pytest.raises(ModelError):
        params.read(GOOD[:length], "m.params")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 64,
        GOOD + b"x",
        b"PK\x03\x04junk",
        GOOD[:16] + struct.pack("<Q", 1 << 60) + GOOD[24:],
        GOOD[:24] + struct.pack("<Q", 1 << 62) + GOOD[32:],
        GOOD.replace(struct.pack("<q", 24), struct.pack("<q", 1 << 40)),
        GOOD.replace(struct.pack("<qq", 2, 3), struct.pack("<qq", -2, -3)),
        GOOD.replace(struct.pack("<qq", 2, 3), struct.pack("<qq", 1 << 40, 1 << 40)),
        GOOD.replace(struct.pack("<BBH", 2, 32, 1), struct.pack("<BBH", 4, 16, 1)),
        GOOD.replace(struct.pack("<BBH", 2, 32, 1), struct.pack("<BBH", 2, 32, 4)),
    ],
)
def test_malformed_file_is_an_error(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "m.params").write_bytes(data)
    with pytest.raises(ModelError, match=r"^m\.params: "):
        params.load(tmp_path / "m.params")


def test_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot read"):
        params.load(tmp_path / "none.params")
