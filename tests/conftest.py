"""Puts the tests' helpers and the package of this checkout on the path."""

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

# Builds of tests start a process of their own for each command; tests of the one that stays say so.
os.environ["TVM_STM32_RESIDENT"] = "0"

if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    # Programs that tests start would compile the package anew each time. Workers inherit the folder.
    os.environ["PYTHONPYCACHEPREFIX"] = tempfile.mkdtemp(prefix="tvm-stm32-pycache-")
    atexit.register(shutil.rmtree, os.environ["PYTHONPYCACHEPREFIX"], ignore_errors=True)

TESTS = Path(__file__).resolve().parent
for folder in (TESTS, TESTS.parent):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
