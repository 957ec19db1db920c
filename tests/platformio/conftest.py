"""The tests of SCons builds have the models, too."""

import sys
from pathlib import Path

SCONS = Path(__file__).resolve().parents[1] / "scons"
if str(SCONS) not in sys.path:
    sys.path.append(str(SCONS))
