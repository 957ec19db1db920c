"""``python -m tvm_stm32``, also runnable as a file by build systems that know only its place."""

import sys
from pathlib import Path

if __package__ in (None, ""):
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from tvm_stm32.cli import main

if __name__ == "__main__":
    main()
