"""Model files that are none, options that do not go together, and C names."""

from __future__ import annotations

import os

import pytest
from support import ROOT, SHARED, shared
from tflite_builder import dense, relu

from tvm_stm32.cnames import network_name
from tvm_stm32.errors import ModelError

DIGITS = ROOT / "examples" / "digits"
PARAMS = SHARED / "fixtures" / "relay" / "f32_lenet_params"


def test_file_that_does_not_exist(refused, tmp_path):
    assert "none.onnx' does not exist" in refused("compile", tmp_path / "none.onnx", "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_folder_in_place_of_a_file(refused, tmp_path):
    assert "is a folder, not a model file" in refused("inspect", tmp_path)


def test_name_too_long_for_the_system(refused, tmp_path):
    assert "File name too long" in refused("inspect", tmp_path / ("x" * 300 + ".onnx"))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may read everything")
def test_file_without_read_permission(refused_model, tmp_path):
    (tmp_path / "m.onnx").touch(mode=0o000)
    assert "Permission denied" in refused_model("m.onnx", b"")


@pytest.mark.parametrize("name", ["m.tflite", "m.onnx", "m.relay", "m.bin"])
def test_empty_file(name, refused_model):
    assert "is empty" in refused_model(name, b"")


def test_unknown_file_type_lists_the_known_ones(refused_model):
    message = refused_model("model.h5", b"\x89HDF\r\n\x1a\n" + bytes(64))
    assert "no model file this tool knows" in message
    assert ".tflite" in message and ".onnx" in message and ".relay" in message


def test_text_called_tflite(refused_model):
    message = refused_model("m.tflite", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    assert "not a TFLite model" in message and "Git LFS" in message


def test_text_called_onnx(refused_model):
    assert "invalid ONNX model" in refused_model("m.onnx", b"this is no protobuf at all\n")


def test_text_called_relay(refused_model):
    assert "m.relay" in refused_model("m.relay", b"hello world\n")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_relay_file_cut_short(share, refused_model):
    text = (DIGITS / "digits_int8.relay").read_bytes()
    refused_model("m.relay", text[: int(len(text) * share)])


def test_relay_operator_that_is_unknown(refused_model):
    text = b'#[version = "0.0.5"]\ndef @main(%x: Tensor[(1, 8), float32]) {\n  vision.frobnicate(%x)\n}\n'
    assert "vision.frobnicate" in refused_model("m.relay", text)


def test_relay_dimension_that_is_not_fixed(refused_model):
    text = b'#[version = "0.0.5"]\ndef @main(%x: Tensor[(1, ?), float32]) {\n  nn.relu(%x)\n}\n'
    message = refused_model("m.relay", text)
    assert "%x" in message and "?" in message


def test_params_with_a_format_that_has_none(refused_model, tmp_path):
    (tmp_path / "w.params").write_bytes(b"x")
    assert "--params goes with a Relay model" in refused_model(
        "m.tflite", relu().build(), "--params", tmp_path / "w.params"
    )


def test_params_file_that_is_absent_or_damaged(refused, tmp_path):
    model, params = shared(PARAMS.with_suffix(".relay")), PARAMS.with_suffix(".params").read_bytes()
    out = ("-o", tmp_path / "out")
    assert "none.params" in refused("compile", model, *out, "--params", tmp_path / "none.params")
    for name, content in {"cut.params": params[:-100], "short.params": params[:30], "text.params": b"hello"}.items():
        (tmp_path / name).write_bytes(content)
        assert name in refused("compile", model, *out, "--params", tmp_path / name)
    assert not (tmp_path / "out").exists()


def test_params_of_another_model(refused, tmp_path):
    model = shared(SHARED / "fixtures" / "relay" / "f32_mlp.relay")
    message = refused("compile", model, "-o", tmp_path / "out", "--params", PARAMS.with_suffix(".params"))
    assert "f32_lenet_params.params" in message or "f32_mlp.relay" in message


def test_unknown_level_is_a_usage_error(refused, tmp_path):
    message = refused("compile", DIGITS / "digits_int8.onnx", "-o", tmp_path / "out", "-O", "fast", code=2)
    assert "'fast' is not one of 'time', 'balanced', 'ram', 'size'" in message


def test_board_and_cpu_together(refused):
    message = refused("inspect", DIGITS / "digits_int8.onnx", "--board", "stm32f405", "--cpu", "cortex-m4")
    assert "--board and --cpu" in message


def test_unknown_cpu_lists_the_known_ones(refused):
    assert "cortex-m4" in refused("inspect", DIGITS / "digits_int8.onnx", "--cpu", "cortex-a53")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("int", "net_int"),
        ("../x", "x"),
        ("9 Lives", "net_9_lives"),
        ("Größe*/", "gr_e"),
        ("main", "net_main"),
        ("runtime", "net_runtime"),
    ],
)
def test_any_text_becomes_a_harmless_c_name(text, name):
    assert network_name(text) == name


@pytest.mark.parametrize("text", ["数字", "../..", "*/", "x" * 100])
def test_text_without_a_usable_c_name(text):
    with pytest.raises(ModelError, match="C name"):
        network_name(text)


def test_name_of_another_folder_writes_nothing_there(command, tmp_path):
    (tmp_path / "m.tflite").write_bytes(dense().build())
    done = command("compile", tmp_path / "m.tflite", "-o", tmp_path / "a" / "out", "--name", "../evil", "--no-runtime")
    assert done.code == 0
    assert {path.name for path in (tmp_path / "a").iterdir()} == {"out"}
    assert (tmp_path / "a" / "out" / "evil.c").is_file()


def test_file_name_that_is_no_text_at_all(command, tmp_path):
    path = tmp_path / os.fsdecode(b"m\xff\xfe.tflite")
    path.write_bytes(dense().build())
    done = command("compile", path, "-o", tmp_path / "out", "--no-runtime")
    assert done.code == 0
    assert done.err == ""


def test_relay_sum_of_constants_too_large_for_memory(refused_model):
    line = 'arange(0f, 30000f, 1f, start=0f, stop=30000f, step=1f, dtype="float32")'
    sides = [f"reshape({line}, newshape=[{shape}])" for shape in ("30000, 1", "1, 30000")]
    text = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(1, 4), float32]) { %x + sum(' + " + ".join(sides) + ") }"
    assert "the result has shape (30000, 30000)" in refused_model("m.relay", text.encode())


@pytest.mark.parametrize("suffix", ["onnx", "tflite", "relay", "json", "pt2"])
def test_file_larger_than_memory_is_not_read(suffix, refused, tmp_path):
    path = tmp_path / f"m.{suffix}"
    with path.open("wb") as stream:
        stream.truncate(6 << 30)
    assert "6,442,450,944 bytes" in refused("compile", path, "-o", tmp_path / "out")


def test_pipes_and_devices_are_not_read(refused, tmp_path):
    os.mkfifo(tmp_path / "m.onnx")
    (tmp_path / "endless.onnx").symlink_to("/dev/zero")
    for name in ("m.onnx", "endless.onnx"):
        assert "is no plain file" in refused("compile", tmp_path / name, "-o", tmp_path / "out")
