"""What decides what is generated, beside the model and the settings: our own files, and packages of others.

Build tools ask this at every build, so nothing is imported that costs time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

PACKAGE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - SCons counts in strings
# Folders of the package that do not decide what is generated.
_ELSEWHERE = {"platformio", "project", "resident", "_data", "__pycache__"}
# Packages whose version may.
_PACKAGES = ("apache_tvm", "jinja2", "numpy", "onnx", "tflite")
_RECORD = ".dist-info"


def generator_files() -> list[str]:
    """Everything in the package that may decide what is generated, by its path in :data:`PACKAGE`, sorted."""
    found = []
    for folder, folders, names in os.walk(PACKAGE):
        folders[:] = [name for name in folders if name not in _ELSEWHERE]
        relative = os.path.relpath(folder, PACKAGE).replace(os.sep, "/")
        wanted = (name for name in names if name[0] != "." and not name.endswith((".pyc", "~")))
        found += [f"{relative}/{name}" for name in wanted]
    return sorted(found)


def package_records(folders: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Version and record (a folder) of each package the generator works with, as Python finds it in ``folders``.

    From folder names: importlib.metadata costs ten times that.
    """
    records: dict[str, tuple[str, str]] = {}
    for folder in folders:
        try:
            names = os.listdir(folder or ".")  # noqa: PTH208 - likewise
        except OSError:
            continue
        for name in names:
            package, dash, rest = name.partition("-")
            if dash and package in _PACKAGES and rest.endswith(_RECORD):
                records.setdefault(package, (rest.removesuffix(_RECORD), os.path.join(folder, name)))  # noqa: PTH118
    return records
