"""What platformio.ini names: ``extra_scripts = pre:<path of this file>``. See ``docs/platformio.md``.

Runs in SCons's namespace, where ``__file__`` may be missing. Kept to what every Python 3 reads, so that one which is
too old is told so.
"""

import inspect
import os
import sys

from SCons.Errors import StopError
from SCons.Script import DefaultEnvironment

if sys.version_info < (3, 10):  # noqa: UP036 - this Python is PlatformIO's, not the one tvm-stm32 was installed in
    raise StopError(
        "PlatformIO runs in Python {}.{}\n  because: the extra script of tvm-stm32 needs 3.10 or newer\n"
        "  try: install PlatformIO Core in a newer Python".format(*sys.version_info)
    )

_frame = inspect.currentframe()
assert _frame is not None
_root = os.path.abspath(_frame.f_code.co_filename)  # noqa: PTH100 - the tools of SCons count in strings
for _ in range(3):
    _root = os.path.dirname(_root)  # noqa: PTH120
# For this import only: packages beside ours are of another Python, and must not take the place of PlatformIO's.
sys.path.insert(0, _root)
try:
    from tvm_stm32.platformio.build import add_models
finally:
    sys.path.remove(_root)

add_models(DefaultEnvironment())
