"""What may be chosen when a network is compiled, for the command line and for build tools. Imports nothing."""

LEVELS = ("time", "balanced", "ram", "size")
"""What is optimised for."""
KERNELS = ("asm", "c")
"""How inner kernels are written."""
WEIGHTS = ("array", "incbin", "external")
"""Where weights lie."""
ALIGNMENTS = (8, 16, 32)
"""Bytes the arena and everything in it are aligned to."""
