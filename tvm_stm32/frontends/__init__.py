"""Front ends: a model file becomes a :class:`~tvm_stm32.model.Model`. One module a format; TVM is imported on use."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..errors import ModelError
from ..model import Model, Provenance

SUPPORTED = (
    ".relay (Relay text), .json (Relay, tvm.ir.save_json), .tflite, .onnx, .pt2 (PyTorch exported program), "
    ".tar (Model Library Format)"
)


def load_model(
    path: Path, params: Path | None = None, input_shapes: Mapping[str, tuple[int, ...]] | None = None
) -> Model:
    """Read a model file; ``params`` are separate weights (Relay ``.params``), ``input_shapes`` fix dynamic inputs.

    Raises :class:`ModelError`.
    """
    kind = detect_format(path)
    if input_shapes and kind not in ("onnx", "relay", "tflite"):
        raise ModelError(
            f"--input-shape goes with an ONNX, Relay or TFLite model, and '{path.name}' is a {kind} file",
            hint="leave --input-shape out",
        )
    if params is not None and kind != "relay":
        raise ModelError(
            f"--params goes with a Relay model, and '{path.name}' is a {kind} file", hint="leave --params out"
        )
    if kind == "mlf":
        raise ModelError(
            f"'{path.name}' is a Model Library Format archive",
            why="its operators are C already, and no model to compile",
            hint="tvm-stm32 emit, compile, inspect and run take it as it is",
        )
    if kind == "relay":
        from .relay import load as load_relay

        return load_relay(path, params, input_shapes)
    if kind == "tflite":
        from .tflite import load as load_tflite

        return load_tflite(path, input_shapes)
    if kind == "pytorch":
        from .pytorch import load as load_pytorch

        return load_pytorch(path)
    from .onnx import load as load_onnx

    return load_onnx(path, input_shapes)


def detect_format(path: Path) -> str:
    """``relay``, ``tflite``, ``onnx``, ``pytorch`` or ``mlf``, by name and first bytes. Raises :class:`ModelError`."""
    try:
        with path.open("rb") as stream:
            head = stream.read(4096)
    except IsADirectoryError:
        raise ModelError(f"'{path}' is a folder, not a model file") from None
    except FileNotFoundError:
        raise ModelError(f"model file '{path}' does not exist") from None
    except OSError as error:
        raise ModelError(f"cannot read model file '{path}': {error.strerror}") from None
    if not head:
        raise ModelError(f"model file '{path}' is empty")
    if head[4:8] == b"TFL3" or path.suffix == ".tflite":
        return "tflite"
    if path.suffix == ".relay" or head.lstrip()[:10] == b"#[version " or head.lstrip()[:5] == b"def @":
        return "relay"
    if path.suffix == ".json" or (head.lstrip()[:1] == b"{" and b'"root"' in head):
        return "relay"
    if path.suffix == ".onnx":
        return "onnx"
    if path.suffix == ".pt2":
        return "pytorch"
    if path.suffix == ".tar" or head[257:262] == b"ustar":
        return "mlf"
    raise ModelError(
        f"'{path.name}' is no model file this tool knows",
        why="neither its name nor its first bytes are those of a supported format",
        hint=f"supported formats: {SUPPORTED}",
    )


def provenance(path: Path, data: bytes | Iterable[bytes], source_format: str) -> Provenance:
    """Provenance of a model read from ``path`` with content ``data``, whole or in pieces."""
    digest = hashlib.sha256()
    for piece in (data,) if isinstance(data, bytes) else data:
        digest.update(piece)
    return Provenance(path.name, digest.hexdigest(), source_format)
