"""The start-up code of a device as one C file, for images that are not linked by this project's builders."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tvm_stm32.cnames import comment_text
from tvm_stm32.templates import text_templates

# Vectors 2 to 15 of the core; "" are reserved.
_CORE = (
    *("NMI_Handler", "HardFault_Handler", "MemManage_Handler", "BusFault_Handler", "UsageFault_Handler"),
    *("SecureFault_Handler", "", "", "", "SVC_Handler", "DebugMon_Handler", "", "PendSV_Handler", "SysTick_Handler"),
)


def startup_source(title: str, interrupts: Mapping[int, str], where: str) -> str:
    """C of vector table and reset handler; ``where`` is the file that ``interrupts`` were found in."""
    templates = text_templates(Path(__file__).parent)
    last = max(interrupts, default=-1)
    return templates.get_template("startup.c.j2").render(
        title=comment_text(title),
        where=comment_text(where),
        count=len(interrupts),
        core=list(_CORE),
        handlers=[f"{interrupts[n]}_IRQHandler" if n in interrupts else "" for n in range(last + 1)],
    )
