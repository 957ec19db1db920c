"""CMake builds in two checkouts: the same bytes, and with a compiler launcher nothing is compiled twice."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from cmake_support import HOST_MAIN, CMakeProject, project_text
from scons_support import REPOSITORY, require_tools, write_model

FOLDERS = ("a", "another folder/with more in it")
BODY = """
add_executable(app main.c)
tvm_stm32_add_model(tiny MODEL tiny.onnx CPU host)
target_link_libraries(app tiny m)
"""


def documented() -> list[str]:
    """What docs/cmake.md tells projects to write above their targets: for the same bytes, for ccache."""
    page = (REPOSITORY / "docs/cmake.md").read_text(encoding="utf-8")
    parts = page.partition("## More than one machine")[2].split("```cmake\n")[1:3]
    return [part.split("```")[0] for part in parts]


@pytest.fixture
def projects(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> list[CMakeProject]:
    """A project in two folders."""
    require_tools("cc")
    made = []
    for name in FOLDERS:
        project = CMakeProject(tmp_path / name, cache=tmp_path_factory.getbasetemp() / "cmake_networks")
        project.write("CMakeLists.txt", project_text(documented()[0] + BODY, minimum="3.22"))
        project.write("main.c", HOST_MAIN + '\nextern const char *text;\nconst char *text = __FILE__ " " __DATE__;\n')
        write_model(project.path("tiny.onnx"))
        made.append(project)
    return made


def test_the_same_bytes_in_two_folders(projects: list[CMakeProject]) -> None:
    for project, zone in zip(projects, ("Pacific/Auckland", "America/Los_Angeles"), strict=True):
        project.variables |= {"SOURCE_DATE_EPOCH": "1700000000", "TZ": zone, "HOME": str(project.folder)}
        project.configure("-DCMAKE_BUILD_TYPE=RelWithDebInfo")
        project.build()
    one, other = (project.path("b") for project in projects)
    folder = one / "tvm_stm32"
    generated = sorted(
        path.relative_to(one) for path in folder.rglob("*") if path.suffix in (".c", ".h", ".json", ".mk")
    )
    assert len(generated) > 10
    for name in [*generated, Path("app"), Path("libtiny.a"), Path("libai_runtime.a")]:
        content = (one / name).read_bytes()
        assert content == (other / name).read_bytes(), name
        assert str(projects[0].folder.parent).encode() not in content, name
    assert b"main.c Nov 14 2023" in (one / "app").read_bytes()


def test_another_checkout_compiles_nothing_with_ccache(projects: list[CMakeProject], tmp_path: Path) -> None:
    require_tools("ccache")
    variables = {"CCACHE_DIR": str(tmp_path / "cache"), "CCACHE_CONFIGPATH": str(tmp_path / "none.conf")}
    counts = []
    for project in projects:
        project.variables |= variables
        project.edit("CMakeLists.txt", "add_executable", f"{documented()[1]}add_executable")
        project.configure("-DCMAKE_BUILD_TYPE=RelWithDebInfo")
        assert len(project.build().compiled) == 4
        command = ["ccache", "--print-stats"]
        text = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=True)
        counts.append(dict(line.split() for line in text.stdout.splitlines()))
    assert [(found["cache_miss"], found["direct_cache_hit"]) for found in counts] == [("4", "0"), ("4", "4")]
    first, second = (project.path("b/app").read_bytes() for project in projects)
    assert first == second
