"""Random int8 graphs with constant and unread channels planted in them."""

from __future__ import annotations

import numpy as np
from support import random_bytes
from tvm import relax

from tvm_stm32 import numerics
from tvm_stm32.graph import dialect, operators
from tvm_stm32.graph.ssa import normalized, shape_of

CHANNELS = (1, 2, 3, 4, 6, 8, 12, 16)


class RandomGraph:
    """``bindings`` of a graph with one ``input``; ``outputs`` are some of its values."""

    def __init__(self, generator: np.random.Generator, name: str) -> None:
        self.random = generator
        self.name = name
        side = int(generator.integers(3, 8))
        self.input = relax.Var(name, relax.TensorType((1, side, side, int(generator.choice([1, 3, 4]))), "int8"))
        self.bindings: list[relax.VarBinding] = []
        x, self.zero_point = self.convolution(self.input), -128
        for _ in range(int(generator.integers(2, 6))):
            step = generator.choice(
                [self.convolution, self.depthwise, self.residual, self.broadcast, self.pool, self.table,
                 self.pad, self.widen, self.concatenation, self.clip, self.turn, self.twice]
            )  # fmt: skip
            x = step(x)
        self.outputs = [self.dense(x) if generator.random() < 0.6 else self.convolution(x)]
        if generator.random() < 0.2:
            self.outputs.append(generator.choice(self.bindings).var)

    def values(self) -> list[relax.Var]:
        """Every value of the graph."""
        return [binding.var for binding in self.bindings]

    def emit(self, value: relax.Expr) -> relax.Var:
        call = normalized(value)
        variable = relax.DataflowVar(f"{self.name}_{len(self.bindings)}", call.ty)
        self.bindings.append(relax.VarBinding(variable, call))
        return variable

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def code(self) -> int:
        """A zero point: usually that of a rectified activation."""
        return -128 if self.chance(0.6) else int(self.random.integers(-128, 128))

    def parameters(self, weight, bound):
        """``(weight, bias, requantization)`` with rows that never change and columns nobody reads."""
        rows = len(weight)
        weight = weight.copy()
        bias = self.random.integers(-300, 300, rows) * max(1, int(bound) // 100)
        kind = self.random.choice(4, rows, p=[0.5, 0.2, 0.15, 0.15])
        weight[kind == 1] = 0
        bias[kind == 2] = -(1 << 22)
        bias[kind == 3] = 1 << 22
        if weight.ndim > 1 and weight.shape[-1] > 1:
            weight[..., self.random.random(weight.shape[-1]) < 0.3] = 0
        multiplier, shift = numerics.quantize_multipliers(200.0 / bound * self.random.uniform(0.2, 3.0, rows))
        # What trainers write for rows without weights: a scale out of all proportion.
        wild = (kind == 1) & (self.random.random(rows) < 0.3)
        bias[wild], shift[wild] = self.random.integers(-(2**31), 2**31, rows)[wild], self.random.integers(0, 9)
        rounding = str(self.random.choice(["tflm", "tflm", "upward", "tonearest", "even"]))
        if rounding != "tflm":
            bias[wild] >>= 8
        zero_point = self.code()
        low = zero_point if self.chance(0.6) else -128
        high = 127 if self.chance(0.7) else int(self.random.integers(low, 128))
        return weight, bias, operators.Requantization(multiplier, shift, zero_point, rounding, low, high)

    def convolution(self, x, *, shape=None):
        _, height, width, channels_in = shape_of(x)
        kernel = [int(self.random.integers(1, min(4, extent + 1))) for extent in (height, width)]
        rows, groups = int(self.random.choice(CHANNELS)), 1
        strides, dilation, padding = [1, 1], [1, 1], [0, 0, 0, 0]
        if shape is None and self.chance(0.1) and channels_in % 2 == 0 and channels_in > 2:
            rows, groups = 2 * rows, 2
        if shape is not None:
            kernel, rows = [1, 1], shape[3]
        elif self.chance(0.5):
            padding = [int(self.random.integers(0, 3)) for _ in range(4)]
            strides = [int(s) for s in self.random.integers(1, 3, 2)]
        weight = random_bytes(self.random, (rows, *kernel, channels_in // groups))
        weight, bias, r = self.parameters(weight, 2000 * np.sqrt(weight[0].size))
        return self.emit(
            operators.conv2d(x, weight, bias, r, strides=strides, padding=padding, dilation=dilation,
                             groups=groups, input_zero_point=self.code())
        )  # fmt: skip

    def depthwise(self, x):
        _, height, width, channels = shape_of(x)
        kernel = [int(self.random.integers(1, min(4, extent + 1))) for extent in (height, width)]
        multiplier = 2 if self.chance(0.2) else 1
        weight = random_bytes(self.random, (channels * multiplier, *kernel, 1))
        padding = [int(self.random.integers(0, 2)) for _ in range(4)] if self.chance(0.6) else [0] * 4
        weight, bias, r = self.parameters(weight, 2000 * np.sqrt(weight[0].size))
        return self.emit(
            operators.conv2d(x, weight, bias, r, strides=[1, 1], padding=padding, dilation=[1, 1],
                             groups=channels, input_zero_point=self.code())
        )  # fmt: skip

    def binary(self, left, right, shape):
        name = str(self.random.choice(["add", "sub", "mul"]))
        common = {f"{side}_zero_point": self.code() for side in ("lhs", "rhs", "output")}
        low = -128 if self.chance(0.5) else common["output_zero_point"]
        common |= {"rounding": "tflm", "clamp_min": low, "clamp_max": 127}
        scales = self.random.uniform(0.01, 0.2, 3)
        if name == "mul":
            multiplier, shift = numerics.quantize_multiplier(scales[0] * scales[1] / scales[2])
            return dialect.call("q.mul", [left, right], shape, "int8", multiplier=multiplier, shift=shift, **common)
        twice = 2 * max(scales[0], scales[1])
        for key, real in (("lhs_", scales[0] / twice), ("rhs_", scales[1] / twice), ("", twice / (scales[2] * 2**20))):
            common[f"{key}multiplier"], common[f"{key}shift"] = numerics.quantize_multiplier(real)
        return dialect.call(f"q.{name}", [left, right], shape, "int8", left_shift=20, **common)

    def residual(self, x):
        left = self.convolution(x) if self.chance(0.5) else x
        right = self.convolution(left, shape=shape_of(left)) if self.chance(0.8) else left
        return self.emit(self.binary(left, right, shape_of(left)))

    def broadcast(self, x):
        shape = shape_of(x) if self.chance(0.3) else (shape_of(x)[3],) if self.chance(0.6) else (1,)
        sides = [x, operators.const(random_bytes(self.random, shape), "int8")]
        return self.emit(self.binary(*(sides if self.chance(0.5) else sides[::-1]), shape_of(x)))

    def pool(self, x):
        batch, height, width, channels = shape_of(x)
        size = [int(self.random.integers(1, min(3, extent) + 1)) for extent in (height, width)]
        padding = [int(self.random.integers(0, n)) for n in (*size, *size)] if self.chance(0.4) else [0] * 4
        out = [height + padding[0] + padding[2] - size[0] + 1, width + padding[1] + padding[3] - size[1] + 1]
        attrs = {"pool": size, "strides": [1, 1], "padding": padding, "clamp_min": -128, "clamp_max": 127}
        shape = (batch, *out, channels)
        if self.chance(0.5):
            if self.chance(0.5):
                x = self.table(x)
            elif self.chance(0.3):
                wide = [0, 0, 1, 0, 1, 0, 0, 0]
                x = self.emit(relax.op.nn.pad(x, wide, "constant", -128.0 if self.chance(0.7) else 3.0))
                shape = (batch, out[0] + 1, out[1] + 1, channels)
            return self.emit(dialect.call("q.max_pool2d", [x], shape, "int8", **attrs))
        mode = str(self.random.choice(["tflm", "upward", "truncate"]))
        if not any(padding) and self.chance(0.4):
            multiplier, shift = numerics.quantize_multiplier(float(self.random.uniform(0.5, 1.5)) / (size[0] * size[1]))
            attrs |= {"input_zero_point": self.code(), "output_zero_point": self.code(), "rounding": "tflm",
                      "multiplier": multiplier, "shift": shift}  # fmt: skip
            mode = "requantize"
        return self.emit(dialect.call("q.avg_pool2d", [x], shape, "int8", mode=mode, **attrs))

    def table(self, x):
        codes = np.arange(-128, 128)
        entries = random_bytes(self.random, (256,))
        if self.chance(0.5):
            entries = np.clip(codes // 2 + int(self.random.integers(-20, 20)), -128, 127)
        elif self.chance(0.4):
            entries = np.clip(codes, *sorted(self.random.integers(-128, 128, 2).tolist()))
        return self.emit(operators.table(x, entries, "table"))

    def pad(self, x):
        width = [0, 0, *(int(n) for n in self.random.integers(0, 2, 4)), 0, 0]
        return self.emit(relax.op.nn.pad(x, width, "constant", float(self.code())))

    def widen(self, x):
        width = [0] * 6 + [int(n) for n in self.random.integers(0, 5, 2)]
        return self.emit(relax.op.nn.pad(x, width, "constant", float(self.code())))

    def concatenation(self, x):
        axis = int(self.random.choice([3, 3, 3, 1]))
        parts = [x, self.convolution(x, shape=shape_of(x))]
        if self.chance(0.4):
            parts.append(operators.const(random_bytes(self.random, shape_of(x)), "int8"))
        return self.emit(relax.op.concat([parts[n] for n in self.random.permutation(len(parts))], axis))

    def clip(self, x):
        low, high = sorted(self.random.integers(-128, 128, 2).tolist())
        return self.emit(relax.op.clip(x, low, high))

    def turn(self, x):
        """A function of each element between two transposes."""
        turned = self.emit(relax.op.permute_dims(x, [0, 3, 1, 2]))
        return self.emit(relax.op.permute_dims(self.table(turned), [0, 2, 3, 1]))

    def twice(self, x):
        """A value computed two times."""
        state = self.random.bit_generator.state
        first = self.table(x)
        self.random.bit_generator.state = state
        return self.emit(self.binary(first, self.table(x), shape_of(x)))

    def dense(self, x):
        flat = self.emit(relax.op.reshape(x, (1, int(np.prod(shape_of(x))))))
        weight = random_bytes(self.random, (int(self.random.choice(CHANNELS)), shape_of(flat)[1]))
        weight, bias, r = self.parameters(weight, 2000 * np.sqrt(weight.shape[1]))
        result = operators.dense(flat, weight, bias, r, input_zero_point=self.code(), out_shape=(1, len(weight)))
        return self.emit(result)
