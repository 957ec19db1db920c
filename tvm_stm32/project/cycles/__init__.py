"""Modelled cycles: the published and measured issue rules of a core, applied to what the emulator executed.

A model, not a measurement: QEMU knows no cycles, and no board was asked. What is left out is in docs/benchmarks.md.
"""

from .cores import has_model
from .profile import CycleModel, FunctionCost, InstructionCost, caches_of, model_cycles, profile

__all__ = ["CycleModel", "FunctionCost", "InstructionCost", "caches_of", "has_model", "model_cycles", "profile"]
