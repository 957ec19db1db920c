"""Where a network's parts lie: weights in a file, inputs and outputs of the application, alignment."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support import build_and_run, need_board, random_bytes
from tflite_builder import dense

from tvm_stm32.boards import load_board
from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.emit import emit
from tvm_stm32.emit.weights import HEADER_BYTES, weights_file
from tvm_stm32.errors import ModelError
from tvm_stm32.library import Library
from tvm_stm32.project.firmware import build_image
from tvm_stm32.project.inference import run_samples
from tvm_stm32.resources import resource_dir
from tvm_stm32.target import Target

HOST = Target.for_cpu("host")


def model(folder: Path, seed: int = 0) -> Path:
    path = folder / f"net{seed}.tflite"
    path.write_bytes(dense(seed).build())
    return path


def compiled(path: Path, **options: object) -> Library:
    return compile_model(path, replace(CompileOptions(HOST, name="net"), **options))


SAMPLES = [random_bytes(np.random.default_rng(seed), (1, 8)).tobytes() for seed in range(4)]


class Program:
    """A network as a shared library of the host."""

    def __init__(self, library: Library, folder: Path) -> None:
        need_board("host")
        emit(library, folder)
        runtime = resource_dir("runtime")
        sources = [folder / "net.c", folder / "net_data.c", runtime / "src" / "ai_runtime.c"]
        flags = ["-std=c99", "-O1", "-shared", "-fPIC", "-Werror", f"-I{folder}", f"-I{runtime / 'include'}"]
        subprocess.run(["cc", *flags, *sources, "-o", folder / "net.so"], check=True)
        self.image = ctypes.CDLL(str(folder / "net.so"))
        self.handle = ctypes.c_void_p()
        for name in ("ai_get_input", "ai_get_output"):
            getattr(self.image, name).restype = ctypes.POINTER(ctypes.c_void_p * 2)
        self.image.ai_get_error.restype = ctypes.c_char_p

    def create(self) -> str:
        """The error text, or nothing."""
        network = ctypes.c_uint8.in_dll(self.image, "ai_net_network")
        failed = self.image.ai_create(ctypes.byref(network), None, ctypes.byref(self.handle))
        return self.image.ai_get_error(None).decode() if failed else ""

    def run(self, sample: bytes, size: int) -> bytes:
        data = self.image.ai_get_input(self.handle, 0).contents
        ctypes.memmove(data[1], sample, len(sample))
        assert self.image.ai_run(self.handle) == 0, self.image.ai_get_error(self.handle)
        return ctypes.string_at(self.image.ai_get_output(self.handle, 0).contents[1], size)


def aligned(content: bytes) -> tuple[ctypes.Array[ctypes.c_char], int]:
    """Memory holding ``content``, and its first address that is a multiple of 16."""
    memory = ctypes.create_string_buffer(len(content) + 16)
    address = ctypes.addressof(memory)
    address += -address % 16
    ctypes.memmove(address, content, len(content))
    return memory, address


@pytest.mark.parametrize("board", ["host", "mps2-an386"])
def test_weights_from_a_file_the_assembler_includes(board, tmp_path):
    path = model(tmp_path)
    target = load_board(board).target
    options = CompileOptions(target, name="net")
    expected, _ = build_and_run(compile_model(path, options), board, SAMPLES, tmp_path / "array")
    library = compile_model(path, replace(options, weights="incbin"))
    assert build_and_run(library, board, SAMPLES, tmp_path / "file")[0] == expected
    text = (tmp_path / "file" / "net_data.c").read_text()
    assert ".incbin" in text
    assert str(tmp_path) not in text


@pytest.mark.parametrize("board", ["host", "mps2-an386"])
def test_weights_the_application_places(board, tmp_path):
    need_board(board)
    path = model(tmp_path)
    target = load_board(board)
    options = CompileOptions(target.target, name="net")
    expected, _ = build_and_run(compile_model(path, options), board, SAMPLES, tmp_path / "array")
    library = compile_model(path, replace(options, weights="external"))
    folder = tmp_path / "external"
    emit(library, folder)
    codes = ", ".join(str(code) for code in (folder / "net_weights.bin").read_bytes())
    (folder / "place.c").write_text(
        '#include "net.h"\n'
        f"static const uint8_t file[] __attribute__((aligned(16))) = {{{codes}}};\n"
        "__attribute__((constructor)) static void place(void)\n{\n    ai_net_weights_set(file);\n}\n"
    )
    sources = [folder / name for name in ("net.c", "net_data.c", "place.c")]
    image = build_image(sources, [folder], target, folder, "test", network="net", warnings_as_errors=True)
    assert run_samples(image, target, SAMPLES, count="none", timeout_s=60)[0] == expected


def test_a_file_of_weights_is_checked_and_can_be_replaced(tmp_path):
    first, second = (compiled(model(tmp_path, seed), weights="external") for seed in (0, 1))
    program = Program(first, tmp_path / "net")
    refused = "The weights are missing, damaged or those of another network"
    assert program.create() == refused
    good = weights_file(first).content
    damaged = bytearray(good)
    damaged[-1] ^= 1
    other = bytearray(good)
    other[8] ^= 1
    for content in (bytes(damaged), bytes(other), b"AINW" + bytes(len(good))):
        memory, address = aligned(content)
        program.image.ai_net_weights_set(ctypes.c_void_p(address))
        assert program.create() == refused
    memory, address = aligned(bytes(16) + good)
    program.image.ai_net_weights_set(ctypes.c_void_p(address + 8))
    assert program.create() == refused
    results = []
    # The same code, then the weights of a model trained anew: what an update over the air replaces.
    for library in (first, second):
        memory, address = aligned(weights_file(library).content)
        program.image.ai_net_weights_set(ctypes.c_void_p(address))
        assert program.create() == ""
        results.append([program.run(sample, 4) for sample in SAMPLES])
        program.image.ai_destroy(program.handle)
        del memory
    for seed, result in enumerate(results):
        plain = compile_model(model(tmp_path, seed), CompileOptions(HOST, name="net"))
        assert build_and_run(plain, "host", SAMPLES, tmp_path / f"plain{seed}")[0] == result


def test_signatures_tell_codes_apart(tmp_path):
    first, second = (weights_file(compiled(model(tmp_path, seed))) for seed in (0, 1))
    assert first.signature == second.signature
    assert first.content[HEADER_BYTES:] != second.content[HEADER_BYTES:]
    m4 = weights_file(compile_model(model(tmp_path), CompileOptions(Target.for_cpu("cortex-m4"), name="net")))
    assert m4.signature != first.signature


def test_inputs_and_outputs_of_the_application(tmp_path):
    path = model(tmp_path)
    plain, library = compiled(path), compiled(path, external_io=("all",))
    assert library.arena_size < plain.arena_size
    assert all(library.tensors[name].offset == -1 for name in (*library.input_tensors, *library.output_tensors))
    program = Program(library, tmp_path / "net")
    assert program.create() == ""
    assert program.image.ai_run(program.handle) == 1
    assert program.image.ai_get_error(program.handle) == b"Network input NULL"
    source, target = ctypes.create_string_buffer(8), ctypes.create_string_buffer(4)
    program.image.ai_get_input(program.handle, 0).contents[1] = ctypes.addressof(source)
    program.image.ai_get_output(program.handle, 0).contents[1] = ctypes.addressof(target)
    expected, _ = build_and_run(plain, "host", SAMPLES, tmp_path / "plain")
    assert [program.run(sample, 4) for sample in SAMPLES] == expected
    one = compiled(path, external_io=(plain.inputs[0].name,))
    assert one.tensors[one.input_tensors[0]].offset == -1
    assert one.tensors[one.output_tensors[0]].offset >= 0
    with pytest.raises(ModelError, match="no input or output"):
        compiled(path, external_io=("nothing",))


@pytest.mark.parametrize("alignment", [8, 16, 32])
def test_alignment_of_the_arena_and_its_tensors(alignment, tmp_path):
    library = compiled(model(tmp_path), alignment=alignment)
    offsets = [tensor.offset for tensor in library.tensors.values()]
    assert all(offset % alignment == 0 for offset in offsets)
    emit(library, tmp_path / "net")
    text = (tmp_path / "net" / "net.h").read_text()
    assert f"#define AI_NET_ACTIVATIONS_ALIGNMENT {alignment}U" in text
