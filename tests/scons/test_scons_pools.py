"""Memory pools and shared arenas in SCons builds: what is built, and what a change rebuilds."""

from __future__ import annotations

import re
from pathlib import Path

from scons_support import HEAD, Project, copy_tools, require_tools, write_model
from support import need_board

from tvm_stm32.boards import load_board
from tvm_stm32.project.emulator import run_image
from tvm_stm32.project.image import Image

BOARD = "mps3-an547"

SCONSTRUCT = (
    HEAD.replace("mps2-an386", BOARD)
    + """
one = env.TvmModel("build/net/one", "one.onnx", BOARD=board, POOLS="pools.yaml", PINS={"input": "SRAM"})
two = env.TvmModel("build/net/two", "two.onnx", BOARD=board)
shared = env.ArenaGroup("build/net/scratch", [one, [two]])
env.Firmware("build/app.elf", ["main.c", one, two, shared], BOARD=board, RUNTIME=env.TvmRuntime("build/runtime"))
"""
)

POOLS = """pools:
  - {name: SRAM, memory: SRAM, read: 2, write: 1, holds: [activations, io]}
  - {name: DTCM, memory: DTCM, size: 64K, holds: [activations, constants]}
  - {name: SSRAM, memory: SSRAM, read: 2}
"""

MAIN = """
#include "port.h"
#include "one.h"
#include "two.h"

int main(int argc, char **argv)
{
    ai_handle first, second;

    (void)argc;
    (void)argv;
    if (ai_create(&ai_one_network, NULL, &first) != AI_STATUS_OK || ai_run(first) != AI_STATUS_OK) {
        return 1;
    }
    if (ai_create(&ai_two_network, NULL, &second) != AI_STATUS_OK || ai_run(second) != AI_STATUS_OK) {
        return 2;
    }
    if (ai_get_activations(first) != ai_get_activations(second)) {
        return 3;
    }
    port_print("status=ok\\n");
    return 0;
}
"""


def write(folder: Path) -> Project:
    require_tools("arm-none-eabi-gcc")
    project = Project(folder)
    folder.mkdir(parents=True)
    copy_tools(folder / "tools")
    write_model(folder / "one.onnx", 1)
    write_model(folder / "two.onnx", 2)
    project.write("SConstruct", SCONSTRUCT)
    project.write("pools.yaml", POOLS)
    project.write("main.c", MAIN)
    return project


def arena_size(project: Project, name: str) -> int:
    found = re.search(r"ACTIVATIONS_SIZE (\d+)U", project.path(f"build/net/{name}.h").read_text())
    assert found is not None
    return int(found.group(1))


def test_networks_share_an_arena_and_lie_in_pools(tmp_path):
    project = write(tmp_path / "project")
    assert project.scons().of("MODEL") == ["one", "two"]
    image = Image(project.path("build/app.elf"))
    section, pool = image.section(".nn_arena"), image.section(".nn_pool_dtcm")
    largest = max(arena_size(project, name) for name in ("one", "two"))
    assert section is not None and largest <= section.size < largest + 16
    assert pool is not None and load_board(BOARD).memories[2].contains(pool.address, pool.size)
    need_board(BOARD)
    run_image(project.path("build/app.elf"), load_board(BOARD), [])
    assert project.scons().is_null
    # Another size of one network: its files and the shared arena.
    before = project.path("build/net/scratch.c").read_text()
    project.edit("pools.yaml", "size: 64K", "size: 2K")
    assert project.scons().of("MODEL") == ["one"]
    project.edit("SConstruct", """POOLS="pools.yaml", PINS={"input": "SRAM"}""", "ALIGNMENT=32")
    build = project.scons()
    assert build.of("MODEL") == ["one"]
    assert {"one.o", "scratch.o"} <= set(build.of("CC"))
    assert largest < arena_size(project, "one")
    section = Image(project.path("build/app.elf")).section(".nn_arena")
    assert section is not None and arena_size(project, "one") <= section.size < arena_size(project, "one") + 16
    assert project.path("build/net/scratch.c").read_text() == before
    # Out of the group: its code has an arena of its own again.
    project.edit("SConstruct", "[one, [two]]", "[one]")
    assert project.scons().of("MODEL") == ["two"]


def test_mistakes_with_groups_are_said(tmp_path):
    project = write(tmp_path / "project")
    line = 'shared = env.ArenaGroup("build/net/scratch", [one, [two]])'
    project.edit("SConstruct", line, f'{line}\nenv.ArenaGroup("other", [two])')
    assert "ArenaGroup: 'two' is in the group 'scratch' already" in project.scons(fails=True).output
    project.edit("SConstruct", 'env.ArenaGroup("other", [two])', 'env.ArenaGroup("other", ["two.c"])')
    assert "ArenaGroup: there is no network for 'other'" in project.scons(fails=True).output
    project.write("SConstruct", SCONSTRUCT.replace("PINS=", "PIN="))
    assert "there is no keyword PIN" in project.scons(fails=True).output
