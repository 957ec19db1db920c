"""Neural networks in PlatformIO projects: ``extra_scripts = pre:.../extra_script.py``.

``extra_script`` runs inside PlatformIO's SCons; ``options`` reads ``custom_tvm_*`` of platformio.ini, ``interpreter``
finds the Python that generates, ``build`` makes models nodes of the build. All of it runs in PlatformIO's own Python,
which has none of this project's dependencies.
"""
