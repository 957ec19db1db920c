"""CMSIS packs: which a project wants, where they are, and what of a pack a firmware build takes.

:func:`~cmsis_packs.install.install` brings the packs of a packs.yaml into the cache, in the versions of its packs.lock;
:func:`~cmsis_packs.installed.installed` is what builds read. :func:`~cmsis_packs.pdsc.read_pdsc` reads a pack's PDSC
file into a :class:`~cmsis_packs.model.Pack`, :func:`~cmsis_packs.resolve.resolve` says which of its files a device and
a choice of components need. Nothing here imports the compiler.
"""
