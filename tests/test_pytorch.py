"""PyTorch programs: float as PyTorch computes them, quantized ones (pt2e's operators) in integers."""

from __future__ import annotations

import numpy as np
import pytest
from support import build_and_run, random_bytes

import tvm_stm32
from tvm_stm32.compiler import CompileOptions, compile_loaded, compile_model
from tvm_stm32.errors import ModelError
from tvm_stm32.project.samples import unpack
from tvm_stm32.target import Target

torch = pytest.importorskip("torch", reason="PyTorch is an optional extra")
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


def run(library, samples, folder):
    results, _ = build_and_run(library, "host", [sample.tobytes() for sample in samples], folder)
    return np.concatenate(unpack(library.outputs, results)[0])


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


def test_a_file_that_is_no_program(tmp_path):
    path = tmp_path / "bad.pt2"
    path.write_bytes(b"PK\3\4 nothing")
    with pytest.raises(ModelError, match="not an exported PyTorch program"):
        compile_model(path, HOST)
