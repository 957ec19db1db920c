"""CMSIS packs: descriptions of devices and components, and what of a pack a firmware build takes.

:func:`~cmsis_packs.pdsc.read_pdsc` reads a pack's PDSC file into a :class:`~cmsis_packs.model.Pack`,
:func:`~cmsis_packs.resolve.resolve` says which of its files a device and a choice of components need. Nothing here
imports the compiler.
"""
