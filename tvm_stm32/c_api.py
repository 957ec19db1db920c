"""The C interfaces a network can have, and the files each takes; imports nothing, since build tools read it too.

``ai`` is our own. Behind the public interfaces of ST (``x-cube-ai``, ``st-ai``) the network itself, ``NAME_tvm.c``,
stays as it is, and further files stand before it under the names an application of that interface includes.
"""

from __future__ import annotations

C_APIS = ("ai", "x-cube-ai", "st-ai")

CORE_SUFFIX = "_tvm"

_INTERFACE_FILES = {
    "ai": (),
    "x-cube-ai": (
        "{name}.c",
        "{name}_data.c",
        "{name}_tvm_st.c",
        "{name}.h",
        "{name}_config.h",
        "{name}_data.h",
        "{name}_data_params.h",
    ),
    "st-ai": (
        "{name}.c",
        "{name}_data.c",
        "{name}_tvm_st.c",
        "stai_{name}.c",
        "{name}.h",
        "{name}_data.h",
        "{name}_details.h",
        "stai_{name}.h",
    ),
}

_BRIDGE = ("st/st_bridge.c", "st/st_bridge.h")
# Code around ST's validation takes ai_bool and the like from ai_platform.h beside the stai headers.
_TYPES = ("st/ai_platform.h", "st/ai_datatypes_defines.h")
_RUNTIME_FILES = {
    "ai": (),
    "x-cube-ai": (*_BRIDGE, "st/ai_platform.c", "st/st_client.h", *_TYPES, "st/ai_platform_interface.h"),
    "st-ai": (*_BRIDGE, "st/stai.c", "st/st_stai.h", "st/stai.h", "st/stai_debug.h", "st/stai_events.h", *_TYPES),
}


def core_name(name: str, c_api: str) -> str:
    """The C name of the network itself when applications know it as ``name``."""
    return name if c_api == "ai" else name + CORE_SUFFIX


def public_name(core: str) -> str:
    """The name applications know the network of a :func:`core_name` behind one of ST's interfaces by."""
    return core.removesuffix(CORE_SUFFIX)


def interface_files(name: str, c_api: str) -> tuple[str, ...]:
    """File names an interface adds for a network, those to compile first."""
    return tuple(pattern.format(name=name) for pattern in _INTERFACE_FILES[c_api])


def snippet_files(name: str) -> tuple[str, ...]:
    """Files for builds without this tool, CMake's and make's, beside a network that applications know as ``name``."""
    return f"{name}.cmake", f"{name}.mk"


def runtime_files(c_api: str) -> tuple[str, ...]:
    """Files an interface adds to the runtime, by their path in it."""
    return _RUNTIME_FILES[c_api]
