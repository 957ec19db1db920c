"""CMSIS packs: what they say about devices and components.

:func:`~cmsis_packs.pdsc.read_pdsc` reads a pack's PDSC file into a :class:`~cmsis_packs.model.Pack`. Nothing here
imports the compiler.
"""
