"""Networks behind ST's C interfaces: one more keyword, and the runtime comes along."""

from __future__ import annotations

from pathlib import Path

import pytest
from scons_support import HEAD, Project, copy_tools, write_model

LEGACY = """
#include "port.h"
#include "tiny.h"
#include "tiny_data.h"

AI_ALIGNED(4) static ai_u8 activations[AI_TINY_DATA_ACTIVATIONS_SIZE];

int main(int argc, char **argv)
{
    const ai_handle acts[] = {activations};
    ai_handle network;

    (void)argc;
    (void)argv;
    if (ai_tiny_create_and_init(&network, acts, NULL).type != AI_ERROR_NONE) {
        return 1;
    }
    return (ai_tiny_run(network, AI_TINY_IN, AI_TINY_OUT) == 1) ? 0 : 1;
}
"""

STAI = """
#include "port.h"
#include "tiny.h"

STAI_NETWORK_CONTEXT_DECLARE(context, STAI_TINY_CONTEXT_SIZE)
STAI_ALIGNED(4) static uint8_t activations[STAI_TINY_ACTIVATIONS_SIZE_BYTES];

int main(int argc, char **argv)
{
    const stai_ptr acts[] = {activations};

    (void)argc;
    (void)argv;
    if ((stai_tiny_init(context) != STAI_SUCCESS) ||
        (stai_tiny_set_activations(context, acts, STAI_TINY_ACTIVATIONS_NUM) != STAI_SUCCESS)) {
        return 1;
    }
    return (stai_tiny_run(context, STAI_MODE_SYNC) == STAI_SUCCESS) ? 0 : 1;
}
"""


def write_project(folder: Path, c_api: str, main: str) -> Project:
    folder.mkdir()
    copy_tools(folder / "tools")
    write_model(folder / "model.onnx")
    project = Project(folder)
    project.write(
        "SConstruct",
        HEAD
        + f'network = env.TvmModel("build/net/tiny", "model.onnx", BOARD=board, C_API="{c_api}")\n'
        + 'env.Firmware("build/app.elf", ["main.c", network], BOARD=board)\n',
    )
    project.write("main.c", main)
    return project


@pytest.mark.parametrize(("c_api", "main"), [("x-cube-ai", LEGACY), ("st-ai", STAI)], ids=["x-cube-ai", "st-ai"])
def test_firmware_with_an_interface_of_st(c_api: str, main: str, tmp_path: Path) -> None:
    project = write_project(tmp_path / "project", c_api, main)
    build = project.scons()
    assert project.path("build/app.elf").is_file(), build.output
    assert build.of("MODEL") == ["tiny"]
    assert project.scons().is_null


def test_an_unknown_interface_is_named(tmp_path: Path) -> None:
    project = write_project(tmp_path / "project", "st", LEGACY)
    build = project.scons(fails=True)
    assert "there is no C_API 'st'" in build.output
    assert "ai, x-cube-ai, st-ai" in build.output
