"""Hands the models of platformio.ini to tvm-stm32, wherever it is installed."""

import os
import subprocess
import sys

from SCons.Script import DefaultEnvironment

env = DefaultEnvironment()
command = os.environ.get("TVM_STM32_COMMAND", "tvm-stm32").split(";")
if not env.IsCleanTarget():
    try:
        script = subprocess.check_output([*command, "--platformio-script"], text=True).strip()
    except (OSError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"Error: {error}\n  try: pip install tvm-stm32, and its program in PATH\n")
        env.Exit(1)
    else:
        env.SConscript(script, exports="env")
