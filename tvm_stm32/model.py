"""Model: what every front end produces and the graph stage consumes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tvm import IRModule

Numerics = Literal["tflm", "relay", "onnx", "torch", "float"]


@dataclass(frozen=True)
class Quantization:
    """Affine quantization, real = scale * (q - zero_point); one entry, or one for each index of ``axis``."""

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int = -1


@dataclass(frozen=True)
class TensorInfo:
    """A named input or output of a model: ``shape`` in elements, ``dtype`` as numpy spells it."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    quantization: Quantization | None = None


@dataclass(frozen=True)
class StateInfo:
    """A variable that keeps its value from run to run; ``initial`` is every element's value after a reset."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    initial: float = 0


@dataclass(frozen=True)
class Provenance:
    """Where a model came from: file name without folder, sha256 of its bytes, source format."""

    file_name: str
    sha256: str
    source_format: str


@dataclass
class Model:
    """A Relax module whose ``main`` takes the inputs (in order) and returns the outputs (a tensor or a tuple).

    With ``states``, ``main`` takes their old values after the inputs and returns their new ones after the outputs.
    ``numerics`` names the reference whose integer arithmetic is promised (design section 4). Weights are constants in
    the module. ``notes`` are remarks of the front end for the report. ``tensors`` holds the quantization of inner
    tensors by name, as far as the file states it; the graph stage adds what q/dq and qnn operators say, and how many
    channels and multiply-accumulates it found needless.
    """

    module: IRModule
    inputs: list[TensorInfo]
    outputs: list[TensorInfo]
    numerics: Numerics
    provenance: Provenance
    notes: list[str] = field(default_factory=list)
    states: list[StateInfo] = field(default_factory=list)
    tensors: dict[str, Quantization] = field(default_factory=dict)
    removed_channels: int = 0
    removed_macs: int = 0
