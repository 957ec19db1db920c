"""``run`` with arrays that are not what the model takes."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from support import need_board
from tflite_builder import Operator, Tensor, dense, relu

from tvm_stm32.errors import Error
from tvm_stm32.project.arrays import load_arrays


@pytest.fixture
def refused_inputs(refused, tmp_path):
    """The message about inputs of the int8 dense layer; nothing may be written."""
    (tmp_path / "m.tflite").write_bytes(dense().build())

    def run(path, *arguments):
        outputs = tmp_path / "outputs.npz"
        message = refused(
            "run", tmp_path / "m.tflite", "--board", "host", "--inputs", path, "--outputs", outputs, *arguments
        )
        assert not outputs.exists()
        return message

    return run


def npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def archive(path, **members: bytes):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as stream:
        for name, content in members.items():
            stream.writestr(f"{name}.npy", content)
    return path


def test_file_that_does_not_exist(refused_inputs, tmp_path):
    assert "none.npz'" in refused_inputs(tmp_path / "none.npz")


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04 cut"])
def test_file_that_is_no_archive(content, refused_inputs, tmp_path):
    (tmp_path / "x.npz").write_bytes(content)
    assert "'x.npz' is no sound .npz file" in refused_inputs(tmp_path / "x.npz")


def test_archive_cut_short(refused_inputs, tmp_path):
    np.savez(tmp_path / "x.npz", x=np.zeros((1000, 8), np.int8))
    data = (tmp_path / "x.npz").read_bytes()
    (tmp_path / "x.npz").write_bytes(data[:-200])
    assert "'x.npz' is no sound .npz file" in refused_inputs(tmp_path / "x.npz")


def test_archive_with_a_flipped_byte(refused_inputs, tmp_path):
    np.savez(tmp_path / "x.npz", x=np.zeros((1000, 8), np.int8))
    data = bytearray((tmp_path / "x.npz").read_bytes())
    data[4000] ^= 1
    (tmp_path / "x.npz").write_bytes(bytes(data))
    assert "Bad CRC-32" in refused_inputs(tmp_path / "x.npz")


def test_wrong_name_lists_those_that_are_there(refused_inputs, tmp_path):
    np.savez(tmp_path / "x.npz", image=np.zeros((1, 8), np.int8))
    message = refused_inputs(tmp_path / "x.npz")
    assert "has no array for input 'x'" in message and "'image'" in message


def test_wrong_element_type(refused_inputs, tmp_path):
    np.savez(tmp_path / "x.npz", x=np.zeros((1, 8), np.float32))
    assert "array 'x' has element type float32, the model's input is int8" in refused_inputs(tmp_path / "x.npz")


@pytest.mark.parametrize("shape", [(9,), (1, 9), (3, 2, 4), ()])
def test_wrong_shape(shape, refused_inputs, tmp_path):
    np.savez(tmp_path / "x.npz", x=np.zeros(shape, np.int8))
    assert f"array 'x' has shape {shape}, the model's input is (1, 8)" in refused_inputs(tmp_path / "x.npz")


def test_no_samples(refused_inputs, tmp_path):
    np.savez(tmp_path / "x.npz", x=np.zeros((0, 1, 8), np.int8))
    assert "x.npz holds no samples" in refused_inputs(tmp_path / "x.npz")


def test_labels_for_another_number_of_samples(refused_inputs, tmp_path):
    np.savez(tmp_path / "x.npz", x=np.zeros((2, 1, 8), np.int8), labels=np.zeros(3))
    assert "'labels' has shape (3,) for 2 samples" in refused_inputs(tmp_path / "x.npz")


class Trap:
    """Leaves a trace when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


def test_pickle_is_never_loaded(refused_inputs, tmp_path):
    trace = tmp_path / "trace"
    np.savez(tmp_path / "x.npz", x=np.array([Trap(str(trace))], object))
    message = refused_inputs(tmp_path / "x.npz")
    assert "array 'x' holds Python objects" in message and "pickle" in message
    assert not trace.exists()


def test_array_that_declares_more_than_it_holds(refused_inputs, tmp_path):
    header = "{'descr': '|i1', 'fortran_order': False, 'shape': (1099511627776, 8), }"
    path = archive(tmp_path / "x.npz", x=npy(header, bytes(16)))
    assert "array 'x' is damaged" in refused_inputs(path)


def test_archive_that_unpacks_to_gigabytes(tmp_path):
    header = npy("{'descr': '|i1', 'fortran_order': False, 'shape': (320000000,), }")
    path = archive(tmp_path / "x.npz", x=header + bytes(320_000_000))
    with pytest.raises(Error, match="bytes of arrays"):
        load_arrays(path, {"x"})


@pytest.mark.parametrize("header", ["{'descr': '|i1'}", "__import__('os').system('true')", "{'descr': 'zz'", "\0"])
def test_header_that_is_none(header, refused_inputs, tmp_path):
    assert "'x.npz' is no sound .npz file" in refused_inputs(archive(tmp_path / "x.npz", x=npy(header)))


def test_array_that_is_not_asked_for_is_not_read(tmp_path):
    content = io.BytesIO()
    np.save(content, np.arange(3))
    path = archive(tmp_path / "x.npz", x=content.getvalue(), other=b"no array at all")
    arrays = load_arrays(path, {"x"})
    assert arrays["other"] is None
    np.testing.assert_array_equal(arrays["x"], np.arange(3))


def test_folder_of_the_outputs_does_not_exist(refused, tmp_path):
    (tmp_path / "m.tflite").write_bytes(dense().build())
    message = refused("run", tmp_path / "m.tflite", "--board", "host", "--outputs", tmp_path / "none" / "y.npz")
    assert "does not exist" in message and "none" in message


def test_outputs_cannot_be_a_folder(refused, tmp_path):
    need_board("host")
    (tmp_path / "m.tflite").write_bytes(dense().build())
    (tmp_path / "y.npz").mkdir()
    message = refused("run", tmp_path / "m.tflite", "--board", "host", "--outputs", tmp_path / "y.npz")
    assert "a folder of that name is in the way" in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.tflite", "scratch", "y.npz"]


def test_inputs_and_outputs_of_one_name(command, tmp_path):
    need_board("host")
    tensors = [Tensor("v", [1, 8]), Tensor("v", [1, 8]), Tensor("v", [1, 8])]
    network = relu(
        tensors=tensors, operators=[Operator(0, [0, 1], [2], options=(11, {}))], inputs=[0, 1], outputs=[2, 2]
    )
    (tmp_path / "m.tflite").write_bytes(network.build())
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 1, 8)).astype(np.float32)
    np.savez(tmp_path / "x.npz", **{"v": a, "v#2": b})
    done = command(
        "run", tmp_path / "m.tflite", "--board", "host", "--inputs", tmp_path / "x.npz", "--outputs", tmp_path / "y.npz"
    )
    assert done.code == 0, done.err
    with np.load(tmp_path / "y.npz") as outputs:
        assert outputs.files == ["v#3", "v#3#2"]
        for name in outputs.files:
            np.testing.assert_array_equal(outputs[name], a + b)
