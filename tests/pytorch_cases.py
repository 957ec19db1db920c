"""Programs of one ATen operator each: what is computed, and its inputs. Weights are made from a fixed seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed
from torch import nn
from torch.nn import functional as F  # noqa: N812 - the name PyTorch users know

Case = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]

torch.manual_seed(11)
X = torch.randn(2, 4, 6)
Y = torch.randn(2, 4, 6)
POSITIVE = X.abs() + 0.5
IMAGE = torch.randn(1, 4, 8, 8)
ROW = torch.randn(1, 4, 12)
MATRIX, SQUARE = torch.randn(4, 6), torch.randn(6, 6)
BATCH = torch.randn(2, 6, 3)
CODES = torch.randint(0, 6, (2, 4))
WEIGHT, KERNEL, KERNEL1 = torch.randn(5, 6), torch.randn(6, 4, 3, 3), torch.randn(6, 4, 3)
DEEP, TURNED = torch.randn(4, 1, 3, 3), torch.randn(4, 3, 3, 3)
ONES, STEPS = torch.rand(4) + 0.5, torch.randn(4)
BIAS = torch.randn(5)
TABLE = torch.randn(6, 3)


def _of(x: torch.Tensor, **functions: Callable[..., Any]) -> dict[str, Case]:
    return {name: (function, (x,)) for name, function in functions.items()}


def _with(x: torch.Tensor, y: torch.Tensor, **functions: Callable[..., Any]) -> dict[str, Case]:
    return {name: (function, (x, y)) for name, function in functions.items()}


FLOAT: dict[str, Case] = {
    **_of(
        X,
        abs=torch.abs,
        atan=torch.atan,
        ceil=torch.ceil,
        celu=F.celu,
        clamp=lambda x: torch.clamp(x, -0.5, 0.75),
        clamp_max=lambda x: torch.clamp_max(x, 0.5),
        clamp_min=lambda x: torch.clamp_min(x, -0.5),
        cos=torch.cos,
        elu=F.elu,
        erf=torch.erf,
        exp=torch.exp,
        floor=torch.floor,
        gelu=F.gelu,
        hardsigmoid=F.hardsigmoid,
        hardswish=F.hardswish,
        hardtanh=F.hardtanh,
        leaky_relu=F.leaky_relu,
        neg=torch.neg,
        relu=torch.relu,
        relu6=F.relu6,
        round=torch.round,
        selu=F.selu,
        sigmoid=torch.sigmoid,
        sign=torch.sign,
        silu=F.silu,
        sin=torch.sin,
        softplus=F.softplus,
        square=torch.square,
        tanh=torch.tanh,
        trunc=torch.trunc,
        add_scalar=lambda x: x + 1.5,
        sub_scalar=lambda x: x - 1.5,
        mul_scalar=lambda x: x * 1.5,
        div_scalar=lambda x: x / 1.5,
        rsub_scalar=lambda x: 1.5 - x,
        pow_scalar=lambda x: x**2,
    ),
    **_of(
        POSITIVE,
        log=torch.log,
        log1p=torch.log1p,
        log2=torch.log2,
        reciprocal=torch.reciprocal,
        rsqrt=torch.rsqrt,
        sqrt=torch.sqrt,
    ),
    **_with(
        X,
        Y,
        add=torch.add,
        cat=lambda x, y: torch.cat([x, y], 1),
        div=torch.div,
        maximum=torch.maximum,
        minimum=torch.minimum,
        mul=torch.mul,
        stack=lambda x, y: torch.stack([x, y], 1),
        sub=torch.sub,
        gt=torch.gt,
        le=torch.le,
    ),
    **_of(
        X,
        amin=lambda x: x.min(),
        argmax=lambda x: torch.argmax(x, 1),
        argmin=lambda x: torch.argmin(x, 2),
        cumsum=lambda x: torch.cumsum(x, 1),
        max_all=lambda x: x.max(),
        mean=lambda x: x.mean(1),
        prod=torch.prod,
        sum=lambda x: x.sum((0, 2), keepdim=True),
        std=lambda x: x.std(1),
        var=lambda x: x.var(1),
        softmax=lambda x: torch.softmax(x, -1),
        log_softmax=lambda x: torch.log_softmax(x, 1),
        sort=lambda x: torch.sort(x, 1)[0],
        chunk=lambda x: torch.chunk(x, 2, 1)[1],
        constant_pad=lambda x: F.pad(x, (1, 2, 0, 1), value=0.5),
        expand=lambda x: x.expand(3, 2, 4, 6),
        flatten=lambda x: x.flatten(1),
        flip=lambda x: torch.flip(x, [1]),
        narrow=lambda x: x.narrow(2, 1, 3),
        permute=lambda x: x.permute(2, 0, 1),
        repeat=lambda x: x.repeat(2, 1, 1),
        reshape=lambda x: x.reshape(4, 12),
        roll=lambda x: torch.roll(x, 2, 1),
        select=lambda x: x.select(1, 2),
        slice=lambda x: x[:, 1:3],
        split=lambda x: torch.split(x, 2, 1)[0],
        tile=lambda x: torch.tile(x, (1, 2, 1)),
        transpose=lambda x: x.transpose(1, 2),
        unbind=lambda x: x.unbind(1)[1],
        unsqueeze=lambda x: x.unsqueeze(1),
        view=lambda x: x.view(8, 6),
        tril=torch.tril,
        triu=torch.triu,
    ),
    **_with(MATRIX, SQUARE, matmul=torch.matmul, mm=torch.mm),
    "bmm": (torch.bmm, (X, BATCH)),
    "linear": (lambda x: F.linear(x, WEIGHT, BIAS), (X,)),
    "embedding": (lambda i: F.embedding(i, TABLE), (CODES,)),
    "prelu": (lambda x: F.prelu(x, ONES), (X,)),
    "batch_norm": (lambda x: F.batch_norm(x, STEPS, ONES, ONES, STEPS), (IMAGE,)),
    "group_norm": (lambda x: F.group_norm(x, 2, ONES, STEPS), (IMAGE,)),
    "instance_norm": (F.instance_norm, (IMAGE,)),
    "layer_norm": (lambda x: F.layer_norm(x, (8,)), (IMAGE,)),
    "conv1d": (lambda x: F.conv1d(x, KERNEL1, padding=1), (ROW,)),
    "conv2d": (lambda x: F.conv2d(x, KERNEL, stride=2, padding=1), (IMAGE,)),
    "conv2d_depthwise": (lambda x: F.conv2d(x, DEEP, padding=1, groups=4), (IMAGE,)),
    "conv_transpose2d": (lambda x: F.conv_transpose2d(x, TURNED, stride=2), (IMAGE,)),
    "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x, 1), (ROW,)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 2), (IMAGE,)),
    "avg_pool1d": (lambda x: F.avg_pool1d(x, 3), (ROW,)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), (IMAGE,)),
    "max_pool1d": (lambda x: F.max_pool1d(x, 2), (ROW,)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), (IMAGE,)),
    "squeeze": (lambda x: x.squeeze(0), (IMAGE,)),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), (IMAGE,)),
    "upsample_nearest": (lambda x: F.interpolate(x, scale_factor=2.0), (IMAGE,)),
    "upsample_bilinear": (lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), (IMAGE,)),
}

# A power of two: ties of products and averages are exact, and torch's rounding of them is to even, not by chance.
STEP, ZERO_POINT, WEIGHT_STEP = 0.0625, 3, 0.004


def _codes(weight: torch.Tensor) -> torch.Tensor:
    return torch.clamp(torch.round(weight / 0.03), -127, 127).to(torch.int8)


def _real(codes: torch.Tensor) -> torch.Tensor:
    ops = torch.ops.quantized_decomposed
    return ops.dequantize_per_tensor(codes, WEIGHT_STEP, 0, -127, 127, torch.int8)


WEIGHT8, KERNEL8, KERNEL18, DEEP8 = (_codes(weight) for weight in (WEIGHT, KERNEL, KERNEL1, DEEP))

_SAME = (
    *(
        "add",
        "adaptive_avg_pool1d",
        "avg_pool2d",
        "cat",
        "clamp",
        "constant_pad",
        "elu",
        "erf",
        "exp",
        "flatten",
        "gelu",
    ),
    *("hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "max_pool2d", "mul", "permute", "relu", "relu6", "reshape"),
    *("sigmoid", "silu", "slice", "softmax", "softplus", "sub", "tanh", "transpose", "unsqueeze", "view"),
)
QUANTIZED: dict[str, Case] = {
    **{name: FLOAT[name] for name in _SAME},
    "conv1d": (lambda x: F.conv1d(x, _real(KERNEL18), padding=1), (ROW,)),
    "conv2d": (lambda x: F.conv2d(x, _real(KERNEL8), stride=2, padding=1), (IMAGE,)),
    "conv2d_depthwise": (lambda x: F.conv2d(x, _real(DEEP8), padding=1, groups=4), (IMAGE,)),
    "linear": (lambda x: F.linear(x, _real(WEIGHT8), BIAS), (X,)),
}
"""Between dequantize and quantize these have integer forms."""


class Program(nn.Module):
    """A case as a module."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.function, self.inputs = case

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


class QuantizedProgram(Program):
    """A case on int8 codes."""

    def forward(self, *inputs: torch.Tensor) -> Any:
        ops, border = torch.ops.quantized_decomposed, (STEP, ZERO_POINT, -128, 127, torch.int8)
        result = self.function(*(ops.dequantize_per_tensor(codes, *border) for codes in inputs))
        return ops.quantize_per_tensor(result, *border)

    def codes(self) -> tuple[torch.Tensor, ...]:
        """The case's inputs as codes."""
        return tuple(torch.clamp(torch.round(x / STEP) + ZERO_POINT, -128, 127).to(torch.int8) for x in self.inputs)
