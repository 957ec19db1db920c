"""PyTorch programs: float as PyTorch computes them, quantized ones (pt2e's operators) in integers."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import build_and_run, random_bytes

import tvm_stm32
from tvm_stm32.compiler import CompileOptions, compile_loaded, compile_model
from tvm_stm32.errors import ModelError
from tvm_stm32.frontends import load_model
from tvm_stm32.project.samples import unpack
from tvm_stm32.target import Target

torch = pytest.importorskip("torch", reason="PyTorch is an optional extra")
networks = pytest.importorskip("pytorch_networks")
cases = pytest.importorskip("pytorch_cases")

HOST = CompileOptions(Target.for_cpu("host"))


def small_network():
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Conv2d(2, 6, 3, padding=1),
        torch.nn.BatchNorm2d(6),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(96, 5),
        torch.nn.Softmax(-1),
    ).eval()


def quantized_network():
    """A convolution and a linear layer between quantize and dequantize, as pt2e's convert leaves them."""
    pytest.importorskip("torch.ao.quantization.fx._decomposed")
    ops = torch.ops.quantized_decomposed

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(2)
            self.register_buffer("weight", torch.randint(-127, 128, (8, 3, 3, 3), dtype=torch.int8))
            self.register_buffer("scales", torch.rand(8) * 0.01 + 0.001)
            self.register_buffer("zeros", torch.zeros(8, dtype=torch.int64))
            self.register_buffer("bias", torch.randn(8) * 0.2)
            self.register_buffer("weight2", torch.randint(-127, 128, (4, 8), dtype=torch.int8))

        def forward(self, x):
            x = ops.dequantize_per_tensor(x, 0.05, 3, -128, 127, torch.int8)
            w = ops.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -127, 127, torch.int8)
            x = torch.relu(torch.nn.functional.conv2d(x, w, self.bias, padding=1))
            x = ops.quantize_per_tensor(x, 0.11, -128, -128, 127, torch.int8)
            x = ops.dequantize_per_tensor(x, 0.11, -128, -128, 127, torch.int8)
            x = x.mean((2, 3))
            x = ops.quantize_per_tensor(x, 0.05, -128, -128, 127, torch.int8)
            x = ops.dequantize_per_tensor(x, 0.05, -128, -128, 127, torch.int8)
            w = ops.dequantize_per_tensor(self.weight2, 0.013, 0, -127, 127, torch.int8)
            x = torch.nn.functional.linear(x, w)
            return ops.quantize_per_tensor(x, 0.3, 7, -128, 127, torch.int8)

    return Net().eval()


def run(library, samples, folder, board="host"):
    results, _ = build_and_run(library, board, [sample.tobytes() for sample in samples], folder)
    return np.concatenate([np.atleast_1d(result) for result in unpack(library.outputs, results)[0]])


def test_float_module(tmp_path):
    module = small_network()
    samples = [np.random.default_rng(i).normal(size=(1, 2, 8, 8)).astype(np.float32) for i in range(3)]
    library = compile_loaded(tvm_stm32.from_torch(module, (torch.zeros(1, 2, 8, 8),), "small"), HOST)
    expected = module(torch.from_numpy(np.concatenate(samples))).detach().numpy()
    np.testing.assert_allclose(run(library, samples, tmp_path), expected, 1e-5, 1e-6)
    assert library.name == "small"


def test_exported_program_file(tmp_path):
    module, x = small_network(), torch.zeros(1, 2, 8, 8)
    path = tmp_path / "small.pt2"
    torch.export.save(torch.export.export(module, (x,)), path)
    library = compile_model(path, HOST)
    expected = module(x).detach().numpy()
    np.testing.assert_allclose(run(library, [x.numpy()], tmp_path), expected, 1e-5, 1e-6)


def test_quantized_module_is_integer_and_at_most_a_step_away(tmp_path):
    module = quantized_network()
    generator = np.random.default_rng(5)
    samples = [random_bytes(generator, (1, 3, 8, 8)) for _ in range(40)]
    model = tvm_stm32.from_torch(module, (torch.zeros(1, 3, 8, 8, dtype=torch.int8),))
    library = compile_loaded(model, HOST)
    assert not library.float_operators
    assert (model.inputs[0].quantization.zero_point, model.outputs[0].quantization.zero_point) == ((3,), (7,))
    expected = module(torch.from_numpy(np.concatenate(samples))).numpy()
    difference = np.abs(run(library, samples, tmp_path).astype(int) - expected)
    assert difference.max() <= 1
    assert (difference > 0).mean() <= 0.02


def test_dynamic_shapes_are_refused(tmp_path):
    batch = torch.export.Dim("batch")
    program = torch.export.export(small_network(), (torch.zeros(2, 2, 8, 8),), dynamic_shapes=({0: batch},))
    path = tmp_path / "dynamic.pt2"
    torch.export.save(program, path)
    with pytest.raises(ModelError, match="dynamic shape"):
        compile_model(path, HOST)


def rewritten(source: Path, target: Path, name: str, change: Callable[[bytes], bytes]) -> Path:
    """``source`` with the content of the member that ends in ``name`` changed."""
    with zipfile.ZipFile(source) as archive, zipfile.ZipFile(target, "w") as made:
        for entry in archive.infolist():
            content = archive.read(entry)
            made.writestr(entry.filename, change(content) if entry.filename.endswith(name) else content)
    return target


class Bomb:
    """Its pickle writes a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_nothing_in_a_program_file_is_executed(tmp_path):
    good, mark = tmp_path / "good.pt2", tmp_path / "mark"
    torch.export.save(torch.export.export(small_network(), (torch.zeros(1, 2, 8, 8),)), good)
    pickled = io.BytesIO()
    torch.save(((Bomb(mark),), {}), pickled)
    samples = rewritten(good, tmp_path / "samples.pt2", "sample_inputs/model.pt", lambda _content: pickled.getvalue())
    assert load_model(samples).inputs[0].shape == (1, 2, 8, 8)
    changes = {
        "model_weights_config.json": (b'"use_pickle": false', b'"use_pickle": true', "pickled"),
        "models/model.json": (b'"torch.ops.aten.relu.default"', b'"torch.hub.load"', "operators"),
    }
    for name, (old, new, message) in changes.items():

        def change(content: bytes, old: bytes = old, new: bytes = new) -> bytes:
            assert old in content
            return content.replace(old, new)

        with pytest.raises(ModelError) as caught:
            load_model(rewritten(good, tmp_path / "bad.pt2", name, change))
        assert message in str(caught.value)
    expression = b'"range_constraints": {"__import__(\'os\')": {"min_val": 1, "max_val": 2}}'
    with pytest.raises(ModelError, match="dynamic shapes"):
        load_model(
            rewritten(
                good,
                tmp_path / "bad.pt2",
                "models/model.json",
                lambda content: content.replace(b'"range_constraints": {}', expression),
            )
        )
    assert not mark.exists()


def test_a_file_that_is_no_program(tmp_path):
    path = tmp_path / "bad.pt2"
    path.write_bytes(b"PK\3\4 nothing")
    with pytest.raises(ModelError, match="not an exported PyTorch program"):
        compile_model(path, HOST)


def needs_torchao():
    pytest.importorskip("torchao.quantization.pt2e.quantize_pt2e", reason="torchao has pt2e's quantizers")
    pytest.importorskip("torchao.testing.pt2e._xnnpack_quantizer")


def float_samples(shape, count):
    generator = np.random.default_rng(7)
    return [generator.normal(size=shape).astype(np.float32) for _ in range(count)]


def last_scale(module, x):
    """The step of the codes a network's real result is made of."""
    nodes = torch.export.export(module, (x,)).graph.nodes
    return float([node for node in nodes if "dequantize_per_tensor" in str(node.target)][-1].args[1])


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("name", networks.NETWORKS)
def test_a_network_of_a_real_quantizer_is_integer_inside(name, per_channel, tmp_path):
    needs_torchao()
    module, shape = networks.quantized(name, networks.xnnpack(per_channel))
    x = torch.zeros(shape)
    library = compile_loaded(tvm_stm32.from_torch(module, (x,), name), HOST)
    # The quantizer's borders: the input becomes codes, codes become the output.
    assert [text.split()[0].removesuffix("_transpose") for text in library.float_operators] == [
        "quantize",
        "dequantize",
    ]
    samples = float_samples(shape, 40)
    step = last_scale(module, x)
    expected = np.concatenate([module(torch.from_numpy(sample)).detach().numpy() for sample in samples])
    steps = np.abs(run(library, samples, tmp_path) - expected) / step
    assert steps.max() < 1.5
    # A bias is rounded to the step of the sums, which moves up to 0.4 % of the inner codes by one.
    assert (steps > 0.5).mean() <= 0.08


@pytest.mark.parametrize("name", networks.NETWORKS)
def test_a_cortex_m4_computes_what_the_host_does(name, tmp_path):
    needs_torchao()
    module, shape = networks.quantized(name, networks.xnnpack(True))
    model = tvm_stm32.from_torch(module, (torch.zeros(shape),), name)
    samples = float_samples(shape, 3)
    results = []
    for board, cpu in (("host", "host"), ("mps2-an386", "cortex-m4")):
        folder = tmp_path / board
        folder.mkdir()
        library = compile_loaded(model, CompileOptions(Target.for_cpu(cpu)))
        results.append(run(library, samples, folder, board))
    np.testing.assert_array_equal(*results)


def test_unsigned_activations_become_signed(tmp_path):
    needs_torchao()
    module, shape = networks.quantized("separable", networks.x86())
    library = compile_loaded(tvm_stm32.from_torch(module, (torch.zeros(shape),), "net"), HOST)
    assert "uint8" not in {tensor.dtype for tensor in library.tensors.values()}
    kernels = [call.operator for call in library.calls if library.kernels[call.kernel].kind == "special"]
    # The quantizer itself leaves the sums of the third convolution real.
    assert kernels[:2] == ["conv2d", "depthwise_conv2d"]
    samples = float_samples(shape, 20)
    expected = np.concatenate([module(torch.from_numpy(sample)).detach().numpy() for sample in samples])
    step = last_scale(module, torch.zeros(shape))
    assert (np.abs(run(library, samples, tmp_path) - expected) / step).max() < 1.5


def test_a_quantized_program_file_is_read_by_a_fresh_process(tmp_path):
    needs_torchao()
    module, shape = networks.quantized("perceptron", networks.xnnpack(True))
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(module, (torch.zeros(shape),)), path)
    command = [sys.executable, "-m", "tvm_stm32", "inspect", str(path)]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    floats = shown.stdout.partition("operators in floating point:\n")[2].splitlines()
    assert [line.split()[0] for line in floats] == ["quantize", "dequantize"]


@pytest.mark.parametrize("name", cases.FLOAT)
def test_operator(name, tmp_path):
    program = cases.Program(cases.FLOAT[name])
    library = compile_loaded(tvm_stm32.from_torch(program, program.inputs, "net"), HOST)
    expected = program(*program.inputs).numpy()
    got = run(library, [packed(program.inputs)], tmp_path).reshape(expected.shape)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", cases.QUANTIZED)
def test_quantized_operator_is_integer_and_at_most_a_step_away(name, tmp_path):
    program = cases.QuantizedProgram(cases.QUANTIZED[name])
    library = compile_loaded(tvm_stm32.from_torch(program, program.codes(), "net"), HOST)
    assert not library.float_operators
    expected = program(*program.codes()).numpy().astype(int)
    difference = np.abs(run(library, [packed(program.codes())], tmp_path).reshape(expected.shape) - expected)
    assert difference.max() <= 1
    assert (difference > 0).mean() <= 0.02


def packed(tensors):
    """One sample of several inputs."""
    return np.frombuffer(b"".join(tensor.contiguous().numpy().tobytes() for tensor in tensors), np.uint8)
