"""Tensors whose data an ONNX model keeps in other files: read from the model's own folder only, checked before."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx

from ..errors import ModelError, quoted
from .limits import check_shape
from .onnx_locations import external_locations, is_inside

MOST_BYTES = 512 << 20
"""Of all external tensors of a model together; more than any Cortex-M addresses as flash."""


def read_external(file: str, folder: Path, tensors: Iterable[onnx.TensorProto]) -> None:
    """Bring the data of external ``tensors`` into them.

    A file must lie in the model's folder or below, links resolved; offset and length must be inside of it and fit the
    tensor. Raises :class:`ModelError` about the first tensor for which that is not so.
    """
    total = 0
    for tensor in tensors:
        what = f"tensor {quoted(tensor.name)}"
        options = {entry.key: entry.value for entry in tensor.external_data}
        path = _place(file, folder, what, options.get("location", ""))
        size = _size(file, what, tensor)
        total += size
        if total > MOST_BYTES:
            raise ModelError(
                f"{file}: its external tensors hold more than {MOST_BYTES:,} bytes",
                why="no Cortex-M has memory for them",
            )
        tensor.raw_data = _read(file, what, path, options, size)
        tensor.ClearField("external_data")
        tensor.data_location = onnx.TensorProto.DEFAULT


def with_external(path: Path, data: bytes) -> Iterator[bytes]:
    """The bytes a model at ``path`` consists of: its own, then those of its external files in the order of their names.

    What ``cat model.onnx a.data b.data`` prints; call it after :func:`read_external` has checked the places.
    """
    yield data
    for location in external_locations(path):
        with (path.parent / location).open("rb") as stream:
            while block := stream.read(1 << 20):
                yield block


def _refused(file: str, what: str, place: str, why: str) -> ModelError:
    return ModelError(
        f"{file}: {what} keeps its data in another file, {quoted(place)}",
        why=why,
        hint="put the data beside the model, or save the model with its weights inside: "
        "onnx.save(model, file, save_as_external_data=False)",
    )


def _place(file: str, folder: Path, what: str, location: str) -> Path:
    """The file that ``location`` names. A pure check of the text comes first, so that nothing outside is touched."""
    if not is_inside(location):
        raise _refused(file, what, location, "the place is not one inside of the model's folder")
    root = folder.resolve()
    try:
        path = (root / location).resolve(strict=True)
    except (OSError, RuntimeError):  # a circle of links is a RuntimeError on older Pythons
        raise _refused(file, what, location, "that file is absent") from None
    if not path.is_relative_to(root):
        raise _refused(file, what, location, "it is a link that leads out of the model's folder")
    if not path.is_file():
        raise _refused(file, what, location, "it is no plain file")
    return path


def _size(file: str, what: str, tensor: onnx.TensorProto) -> int:
    """Bytes the tensor's shape and type ask for."""
    try:
        width = int(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)
    except KeyError:
        width = 0
    if not width or tensor.data_type == onnx.TensorProto.STRING:
        raise ModelError(f"{file}: {what} of a type that cannot be read from another file")
    check_shape(file, what, [extent or 1 for extent in tensor.dims], width)
    return int(math.prod(tensor.dims)) * width


def _read(file: str, what: str, path: Path, options: dict[str, str], size: int) -> bytes:
    try:
        offset, length = int(options.get("offset", 0)), int(options.get("length", size))
    except ValueError:
        offset = length = -1
    available = path.stat().st_size
    if offset < 0 or length != size or offset + length > available:
        raise ModelError(
            f"{file}: {what} needs {size:,} bytes of {quoted(path.name)}, which has {available:,}",
            why=f"its offset is {options.get('offset', '0')} and its length {options.get('length', 'not given')}",
            hint="export the model again, with its data beside it",
        )
    try:
        with path.open("rb") as stream:
            stream.seek(offset)
            data = stream.read(length)
    except OSError as error:
        raise _refused(file, what, path.name, f"it cannot be read: {error.strerror}") from error
    if len(data) != length:
        raise _refused(file, what, path.name, "it ends too early")
    return data
