"""The generic route: any TIR PrimFunc as one exact, warning-free C99 function."""

from .kernel import Parameter, TirKernel, lower_prim_func

__all__ = ["Parameter", "TirKernel", "lower_prim_func"]
