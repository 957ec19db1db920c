"""``python -m tvm_stm32``, also runnable as a file by build systems that know only its place."""

import sys
from pathlib import Path

if __package__ in (None, ""):
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from tvm_stm32.resident.client import LISTENER, run

if sys.argv[1:2] == ["--resident"] or (sys.argv[1:] and sys.argv[1].startswith("--resident=")):
    # Build tools call it so: another process may have imported all of what comes.
    run(sys.argv.pop(1), sys.argv[1:])

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
