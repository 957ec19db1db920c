"""Weights outside the C text: one binary file with a header, included by the assembler or put where the user likes.

The file: ``AINW``, format (1), signature, payload bytes, CRC-32 of the payload, 12 bytes of zeros (little-endian
words), then the constants, each at a multiple of 16 bytes. The signature stands for everything about the network
but the values: weights of a retrained model replace others exactly when the code stays the same.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass

from ..library import Library

HEADER_BYTES = 32
_ALIGNMENT = 16
_FORMAT = 1


@dataclass(frozen=True)
class WeightsFile:
    """Content of the file; ``offsets`` are those of the constants from the start of the payload, in bytes."""

    content: bytes
    offsets: dict[str, int]
    signature: int

    @property
    def crc(self) -> int:
        """CRC-32 of the payload."""
        return zlib.crc32(self.content[HEADER_BYTES:])

    @property
    def payload_size(self) -> int:
        """Bytes behind the header."""
        return len(self.content) - HEADER_BYTES


def weights_file(library: Library) -> WeightsFile:
    """All constants of ``library`` as one file."""
    payload, offsets = bytearray(), {}
    for constant in library.constants.values():
        payload += bytes(-len(payload) % _ALIGNMENT)
        offsets[constant.name] = len(payload)
        # An array has at least one element, as in the C text.
        little = constant.data.astype(constant.data.dtype.newbyteorder("<"))
        payload += little.tobytes() or bytes(constant.data.itemsize)
    signature = _signature(library, offsets)
    words = struct.pack("<4sIIII", b"AINW", _FORMAT, signature, len(payload), zlib.crc32(payload))
    return WeightsFile(words.ljust(HEADER_BYTES, b"\0") + bytes(payload), offsets, signature)


def _signature(library: Library, offsets: dict[str, int]) -> int:
    facts = {
        "kernels": {name: kernel.source for name, kernel in library.kernels.items()},
        "calls": [
            [call.kernel, call.workspace_offset, [[a.kind, a.name, a.ctype] for a in call.arguments]]
            for call in library.calls
        ],
        "tensors": {name: [tensor.offset, tensor.size] for name, tensor in library.tensors.items()},
        "constants": [
            [name, offsets[name], str(constant.data.dtype), list(constant.data.shape)]
            for name, constant in library.constants.items()
        ],
    }
    if library.pools:
        facts["pools"] = [
            [[tensor.pool for tensor in library.tensors.values()], [call.workspace_pool for call in library.calls]],
            [[constant.pool, constant.offset] for constant in library.constants.values()],
        ]
    return zlib.crc32(json.dumps(facts, sort_keys=True).encode())
