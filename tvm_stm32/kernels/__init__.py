"""Kernel stage: every operator becomes a call of a C function for one target."""
