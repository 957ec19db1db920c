"""Emit stage: a planned Library becomes C files and reports."""

from __future__ import annotations

from .emitter import OUTPUT_SUFFIXES, WEIGHTS_SUFFIX, emit

__all__ = ["OUTPUT_SUFFIXES", "WEIGHTS_SUFFIX", "emit"]
