"""Neural networks as ordinary C in STM32 firmware builds."""

from __future__ import annotations

__version__ = "0.1.0"
