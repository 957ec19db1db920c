"""``python -m tvm_stm32``, also runnable as a file by build systems that know only its place."""

import os
import sys

if __package__ in (None, ""):
    # Not pathlib: it takes longer to import than asking the resident process.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120

from tvm_stm32.resident.client import LISTENER, run

if sys.argv[1:] and sys.argv[1].partition("=")[0] == "--resident":
    # Build tools call it so: another process may have imported all of what comes.
    run(sys.argv[2:], sys.argv.pop(1).partition("=")[2])

try:
    from tvm_stm32.cli import main
except ModuleNotFoundError as error:
    # A build tool may have found another Python than the one with our packages.
    if error.name in (None, "tvm_stm32"):
        raise
    sys.exit(
        f"error: {sys.executable} has no package {error.name}\n  because: tvm-stm32 runs in this Python here\n"
        "  try: the Python of the environment that tvm-stm32 is installed in"
    )

if __name__ == "__main__":
    if sys.argv[1:2] == ["--resident-server"]:
        from tvm_stm32.resident.server import serve

        serve(sys.argv[2], LISTENER)
    else:
        main()
