"""Bounds of what files may ask for."""

from __future__ import annotations

ADDRESSES = 1 << 31
"""Bytes of RAM: half of what a Cortex-M addresses."""

MOST_POOLS = 16
POOL_NAME = r"[A-Za-z][A-Za-z0-9_]{0,31}"
SECTION_NAME = r"[._A-Za-z][._A-Za-z0-9]{0,63}"
"""Safe in C strings, assembly and linker scripts."""

POOL_ALIGNMENTS = (8, 16, 32, 64, 128)
SLOWEST = 1000.0
"""Cycles a 32-bit word may cost beyond one in the fastest memory."""
