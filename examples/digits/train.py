"""Train the digits network, quantize it and write the files of this folder.

Everything is seeded and single-threaded: a second run writes the same bytes.
"""

from __future__ import annotations

from pathlib import Path

import export_onnx
import export_relay
import numpy as np
import onnxruntime
import reference
import torch
from quantize import quantize_network
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional

HERE = Path(__file__).parent
SEED = 1
TEST_IMAGES = 360
EPOCHS = 120
BATCH = 64
LEARNING_RATE = 4e-3
WEIGHT_DECAY = 1e-3
# Augmentation: rotation in radians, relative scale, shift in half image widths.
ROTATION, SCALE, SHIFT = 0.17, 0.1, 0.12


class Digits(nn.Module):
    """Logits of 8x8 images, NCHW."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 12, 3, padding=1)
        self.depthwise = nn.Conv2d(12, 12, 3, padding=1, groups=12)
        self.pointwise = nn.Conv2d(12, 24, 1)
        self.head = nn.Conv2d(24, 32, 3)
        self.classifier = nn.Linear(32 * 2 * 2, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Logits (N, 10) of images (N, 1, 8, 8) in [0, 1]."""
        return self.stages(image)["classifier"]

    def stages(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        """The input and each layer's activated output, by name."""
        stem = functional.relu(self.stem(image))
        depthwise = functional.relu(self.depthwise(stem))
        pointwise = functional.relu(self.pointwise(depthwise))
        head = functional.relu(self.head(functional.max_pool2d(pointwise, 2)))
        return {
            "image": image,
            "stem": stem,
            "depthwise": depthwise,
            "pointwise": pointwise,
            "head": head,
            "classifier": self.classifier(torch.flatten(head, 1)),
        }


def load_split() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """``(train images, test images, train labels, test labels)``; images (N, 1, 8, 8) float32 in [0, 1]."""
    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)[:, None]
    labels = digits.target.astype(np.uint8)
    return tuple(train_test_split(images, labels, test_size=TEST_IMAGES, stratify=labels, random_state=0))


def train(images: np.ndarray, labels: np.ndarray) -> Digits:
    """The network after a fixed number of epochs; the test images take no part in it."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    model = Digits()
    steps = EPOCHS * -(-len(images) // BATCH)
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps)
    data, targets = torch.from_numpy(images), torch.from_numpy(labels.astype(np.int64))
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(data)).split(BATCH):
            loss = functional.cross_entropy(model(augment(data[batch])), targets[batch], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return model.eval()


def augment(images: torch.Tensor) -> torch.Tensor:
    """Each image slightly rotated, scaled and shifted."""
    angle, scale, x, y = (2 * torch.rand(4, len(images)) - 1) * torch.tensor([[ROTATION], [SCALE], [SHIFT], [SHIFT]])
    zoom = 1 + scale
    cos, sin = zoom * torch.cos(angle), zoom * torch.sin(angle)
    matrix = torch.stack([torch.stack([cos, -sin, x], 1), torch.stack([sin, cos, y], 1)], 1)
    grid = functional.affine_grid(matrix, list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, align_corners=False)


def activation_ranges(model: Digits, images: np.ndarray) -> dict[str, tuple[float, float]]:
    """(min, max) of the input and of each layer's output over the calibration images."""
    with torch.no_grad():
        stages = model.stages(torch.from_numpy(images))
    return {key: (float(values.min()), float(values.max())) for key, values in stages.items()}


def run_onnx(path: Path, images: np.ndarray) -> np.ndarray:
    """Scores (N, 10) by onnxruntime, one image at a time."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(["scores"], {"image": image[None]})[0] for image in images])


def main() -> None:
    """Write the models and the test set, and print the figures of the README."""
    train_images, test_images, train_labels, test_labels = load_split()
    model = train(train_images, train_labels)
    parameters = {name: value.numpy() for name, value in model.state_dict().items()}
    layers = quantize_network(parameters, activation_ranges(model, train_images))
    codes = reference.quantize(test_images, layers[0].input)
    expected = reference.run(layers, codes.transpose(0, 2, 3, 1))

    float_path, int8_path, relay_path = (HERE / f"digits_{kind}" for kind in ("float.onnx", "int8.onnx", "int8.relay"))
    export_onnx.write_float(float_path, parameters)
    export_onnx.write_int8(int8_path, layers)
    export_relay.write(relay_path, layers, codes.transpose(0, 2, 3, 1).shape[1:])
    np.savez_compressed(
        HERE / "digits_test.npz", image=codes.transpose(0, 2, 3, 1), labels=test_labels, expected=expected
    )

    def report(what: str, path: Path, scores: np.ndarray) -> None:
        right = int((scores.argmax(axis=1) == test_labels).sum())
        print(f"{what}: {right}/{len(scores)} = {right / len(scores):.2%}, {path.stat().st_size:,} bytes")

    quantized = run_onnx(int8_path, codes)
    report("float ONNX, onnxruntime", float_path, run_onnx(float_path, test_images))
    report("int8 ONNX, onnxruntime", int8_path, quantized)
    report("int8 Relay, numpy reference", relay_path, expected)
    steps = np.abs(quantized.astype(int) - expected)
    print(f"scores of int8 ONNX and Relay: {np.count_nonzero(steps)} of {steps.size} differ, by at most {steps.max()}")
    weights = sum(layer.weight.nbytes + layer.bias.nbytes for layer in layers if isinstance(layer, reference.Linear))
    print(f"weights and biases: {weights:,} bytes")


if __name__ == "__main__":
    main()
