"""Small networks in PyTorch, and pt2e's quantization of them with the quantizer that ships for XNNPACK."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - the name PyTorch users know


class Separable(nn.Module):
    """As MobileNet: batch norms, a depthwise convolution, a global average."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU())
        self.depthwise = nn.Sequential(nn.Conv2d(8, 8, 3, 1, 1, groups=8, bias=False), nn.BatchNorm2d(8), nn.ReLU6())
        self.pointwise = nn.Sequential(nn.Conv2d(8, 16, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.last = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.pointwise(self.depthwise(self.first(x))))


class Residual(nn.Module):
    """As ResNet: additions with and without an activation, an average pool."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (nn.Conv2d(c, 8, 3, 1, 1) for c in (3, 8, 8))
        self.norm = nn.BatchNorm2d(8)
        self.last = nn.Linear(128, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        x = torch.relu(x + self.norm(self.second(x)))
        x = x + self.third(x)
        return self.last(F.avg_pool2d(x, 2).flatten(1))


class Activations(nn.Module):
    """Functions of one element, a max pool, a mean."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third, self.fourth = (nn.Conv2d(c, 8, 1) for c in (3, 8, 8, 8))
        self.last = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.sigmoid(self.second(F.hardswish(self.first(x))))
        x = F.hardtanh(self.fourth(F.gelu(self.third(x))))
        return self.last(F.max_pool2d(x, 2).mean((2, 3)))


class Branches(nn.Module):
    """A concatenation of differently scaled branches."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.joined = nn.Conv2d(3, 4, 3, 1, 1), nn.Conv2d(3, 4, 1), nn.Conv2d(8, 8, 1)
        self.last = nn.Linear(512, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.cat([torch.relu(self.left(x)), self.right(x)], 1)
        return self.last(F.leaky_relu(self.joined(x)).flatten(1))


class Attention(nn.Module):
    """As MobileNetV3: squeeze and excitation; the quantizer leaves an activation real before an average."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.squeeze, self.excite = nn.Conv2d(3, 8, 3, 1, 1), nn.Conv2d(8, 4, 1), nn.Conv2d(4, 8, 1)
        self.depthwise, self.last = nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.hardswish(self.first(x))
        x = x * F.hardsigmoid(self.excite(torch.relu(self.squeeze(F.adaptive_avg_pool2d(x, 1)))))
        return self.last(F.adaptive_avg_pool2d(F.silu(self.depthwise(x)), 1).flatten(1))


class Perceptron(nn.Module):
    """Linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Signal(nn.Module):
    """Convolutions over time."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv1d(3, 8, 3, padding=1), nn.BatchNorm1d(8), nn.ReLU())
        self.second = nn.Sequential(nn.Conv1d(8, 8, 3, padding=2, dilation=2), nn.ReLU())
        self.last = nn.Sequential(nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.second(self.first(x)))


NETWORKS: dict[str, tuple[type[nn.Module], tuple[int, ...]]] = {
    "separable": (Separable, (1, 3, 8, 8)),
    "residual": (Residual, (1, 3, 8, 8)),
    "activations": (Activations, (1, 3, 8, 8)),
    "branches": (Branches, (1, 3, 8, 8)),
    "attention": (Attention, (1, 3, 8, 8)),
    "perceptron": (Perceptron, (1, 20)),
    "signal": (Signal, (1, 3, 16)),
}


def xnnpack(per_channel: bool) -> Any:
    """XNNPACK's quantizer: int8 activations between all layers."""
    from torchao.testing.pt2e._xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config

    return XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=per_channel))


def x86() -> Any:
    """The quantizer for desktops: uint8 activations, sums of convolutions left real."""
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as quantizers

    config = quantizers.get_default_x86_inductor_quantization_config()
    return quantizers.X86InductorQuantizer().set_global(config)


def quantized(name: str, quantizer: Any) -> tuple[nn.Module, tuple[int, ...]]:
    """A network of :data:`NETWORKS`, calibrated and converted by pt2e, and the shape of its input."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    network, shape = NETWORKS[name]
    torch.manual_seed(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = network()
        for _ in range(5):
            module(torch.randn(8, *shape[1:]))
        exported = torch.export.export(module.eval(), (torch.randn(shape),)).module()
        prepared = prepare_pt2e(exported, quantizer)
        for _ in range(20):
            prepared(torch.randn(shape))
        return convert_pt2e(prepared), shape
