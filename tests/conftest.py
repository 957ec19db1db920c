"""Puts the tests' helpers and the package of this checkout on the path."""

import os
import sys
from pathlib import Path

# Builds of tests start a process of their own for each command; tests of the one that stays say so.
os.environ["TVM_STM32_RESIDENT"] = "0"

TESTS = Path(__file__).resolve().parent
for folder in (TESTS, TESTS.parent):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
