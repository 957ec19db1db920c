"""Neural networks as ordinary C in STM32 firmware builds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .model import Model

__version__ = "0.1.0"


def from_torch(module: Any, example_inputs: tuple[Any, ...], name: str = "module") -> Model:
    """A ``torch.nn.Module`` as a model: ``compiler.compile_loaded(from_torch(...), options)`` makes its library.

    ``example_inputs`` give shapes and element types. pt2e-quantized modules become integer. Needs the extra ``torch``.
    """
    from .frontends.pytorch import from_torch as read

    return read(module, example_inputs, name)


def scons_toolpath() -> str:
    """Folder of the SCons tools: ``Environment(toolpath=[tvm_stm32.scons_toolpath()], tools=["stm32_model"])``."""
    from .resources import resource_dir

    return str(resource_dir("site_scons") / "site_tools")
