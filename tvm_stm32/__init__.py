"""Neural networks as ordinary C in STM32 firmware builds."""

from __future__ import annotations

__version__ = "0.1.0"


def scons_toolpath() -> str:
    """Folder of the SCons tools: ``Environment(toolpath=[tvm_stm32.scons_toolpath()], tools=["stm32_model"])``."""
    from .resources import resource_dir

    return str(resource_dir("site_scons") / "site_tools")
