"""Whether an image talks to a debugger by semihosting: its code has the instruction BKPT 0xAB."""

from __future__ import annotations

from .image import Image

_BKPT_AB = 0xBEAB


def semihosting_call(image: Image) -> str:
    """The first function with a semihosting call, "" without one. Literals between instructions are left out.

    Armv7-M ARM, C1.3 (semihosting): BKPT with the immediate 0xAB. The assembler marks where code ($t) and data ($d)
    start; without those marks, as in a stripped image, nothing is found.
    """
    for start, code in image.code():
        offset = 0
        while offset + 1 < len(code):
            half = int.from_bytes(code[offset : offset + 2], "little")
            if half == _BKPT_AB:
                return image.describe(start + offset)
            # Encodings of 32 bits start with 0b11101, 0b11110 and 0b11111 (Armv7-M ARM, A5.1).
            offset += 4 if half >> 11 in (0b11101, 0b11110, 0b11111) else 2
    return ""
