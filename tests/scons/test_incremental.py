"""What is rebuilt when: a project is built once, then copied, changed and built again."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest
from scons_support import (
    BOARD,
    HEAD,
    MAIN,
    REPOSITORY,
    Project,
    built_once,
    forbidding,
    require_tools,
    write_model,
    write_project,
    write_replay,
)

RUNTIME_OBJECTS = ["ai_runtime.o", "port_common.o", "port_semihosting.o", "port_system.o", "startup.o"]
OBJECTS = sorted(["main.o", "tiny.o", "tiny_data.o", *RUNTIME_OBJECTS])


@pytest.fixture
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A built project; read only."""
    return built_once(tmp_path_factory)


@pytest.fixture
def project(built: Project, tmp_path: Path) -> Project:
    """A copy of the built project in a folder of the test."""
    return built.copy_to(tmp_path / "project")


def test_first_build_runs_everything_once(project: Project, built: Project) -> None:
    generator = write_replay(project, built)
    project.scons("-c")
    build = project.scons(f"GENERATOR={generator}")
    assert build.of("MODEL") == ["tiny"]
    assert build.of("CC") == OBJECTS
    assert build.of("LINK") == ["linked.elf"]
    assert build.of("CHECK") == ["app.elf"]


def test_second_build_runs_nothing_and_imports_neither_tvm_nor_numpy(project: Project, tmp_path: Path) -> None:
    barred = forbidding(tmp_path / "barred", "tvm", "numpy", "jsonschema", "onnx", "jinja2", "elftools")
    build = project.scons(variables=barred)
    assert build.is_null, build.output
    # 0.3 to 0.4 s on an idle machine; importing any of them takes more than the rest.
    assert build.cpu_s < 1.0


def test_editing_main_compiles_one_file(project: Project) -> None:
    project.edit("main.c", ": 1;", ": 2;")
    build = project.scons()
    assert build.actions == ["CC main.o", "LINK linked.elf", "CHECK app.elf"]


def test_a_comment_in_main_does_not_even_link(project: Project) -> None:
    # Debug information holds lines, not texts: an edited comment leaves the object as it was.
    project.edit("main.c", "(void)argc;", "(void)argc; /* unused */")
    assert project.scons().actions == ["CC main.o"]


def test_new_weights_compile_only_the_data_file(project: Project) -> None:
    code = {name: project.path(f"build/net/{name}").read_bytes() for name in ("tiny.c", "tiny.h", "tiny_data.h")}
    write_model(project.path("model.onnx"), seed=2)
    build = project.scons()
    assert build.actions == ["MODEL tiny", "CC tiny_data.o", "LINK linked.elf", "CHECK app.elf"]
    assert {name: project.path(f"build/net/{name}").read_bytes() for name in code} == code


def test_another_level_regenerates(project: Project) -> None:
    build = project.scons("LEVEL=size", "build/net/tiny.c")
    assert build.actions == ["MODEL tiny"]
    assert "level=size" in project.path("build/net/tiny.c").read_text(encoding="utf-8")


def test_another_board_regenerates_and_compiles_all(project: Project, built: Project) -> None:
    generator = write_replay(project, built)
    build = project.scons("BOARD=mps2-an500", f"GENERATOR={generator}")
    assert build.of("MODEL") == ["tiny"]
    assert build.of("CC") == OBJECTS
    assert build.of("CHECK") == ["app.elf"]


def test_editing_a_board_file_regenerates(project: Project, built: Project) -> None:
    generator = write_replay(project, built)
    project.edit(f"tools/boards/{BOARD}.yaml", "title: ", "title: My ")
    build = project.scons(f"GENERATOR={generator}")
    assert build.actions == ["MODEL tiny", "CHECK app.elf"]


def test_editing_a_template_of_the_generator_regenerates(project: Project) -> None:
    (template,) = project.path("tools/tvm_stm32/emit/templates").glob("network.c.*")
    project.edit(str(template.relative_to(project.folder)), "/*\n", "/*\n * Another comment.\n")
    build = project.scons()
    assert build.actions[:2] == ["MODEL tiny", "CC tiny.o"]
    assert "CC tiny_data.o" not in build.actions
    assert "Another comment." in project.path("build/net/tiny.c").read_text(encoding="utf-8")


def test_code_that_does_not_generate_is_no_part_of_the_generator(project: Project) -> None:
    project.edit("tools/tvm_stm32/project/emulator.py", '"""', '"""Another word. ')
    assert project.scons().is_null


def test_editing_the_linker_script_links(project: Project) -> None:
    project.edit("app.ld", "SECTIONS", "/* Another comment. */\nSECTIONS")
    assert project.scons().actions[0] == "LINK linked.elf"


def test_editing_the_startup_file_compiles_it_and_links(project: Project) -> None:
    with project.path("startup.c").open("a", encoding="utf-8") as stream:
        stream.write("\nextern int another;\nint another = 3;\n")
    assert project.scons().actions == ["CC startup.o", "LINK linked.elf", "CHECK app.elf"]


def test_editing_a_runtime_header_compiles_what_includes_it(project: Project) -> None:
    project.edit("tools/runtime/include/ai_runtime.h", "#ifndef AI_RUNTIME_H", "\n\n#ifndef AI_RUNTIME_H")
    build = project.scons()
    assert build.of("COPY") == ["ai_runtime.h"]
    assert {"main.o", "tiny.o", "ai_runtime.o"} <= set(build.of("CC"))
    assert not {"startup.o", "port_system.o"} & set(build.of("CC"))


def test_the_linker_template_makes_a_new_script(built: Project, tmp_path: Path) -> None:
    project = built.copy_to(tmp_path / "project")
    generator = write_replay(project, built)
    project.edit("SConstruct", '    LINKER_SCRIPT="app.ld",\n', "")
    assert project.scons(f"GENERATOR={generator}").of("SCRIPT") == [f"{BOARD}.ld"]
    project.edit("tools/runtime/port/image.ld.j2", "SECTIONS", "/* Another comment. */\nSECTIONS")
    assert project.scons(f"GENERATOR={generator}").actions[:2] == [f"SCRIPT {BOARD}.ld", "LINK linked.elf"]


def test_several_models_are_generated_in_parallel(project: Project) -> None:
    # Each waits for the others, so one after another never ends.
    project.write(
        "meeting.py",
        """
import os, sys, time

folder, name = (sys.argv[sys.argv.index(option) + 1] for option in ("-o", "--name"))
open(f"here_{name}", "w").close()
end = time.monotonic() + 20
while not all(os.path.exists(f"here_net{i}") for i in range(4)):
    if time.monotonic() > end:
        sys.exit("the others did not come")
    time.sleep(0.02)
for suffix in (".c", ".h", "_data.c", "_data.h", "_report.json", "_report.txt", ".cmake", ".mk"):
    open(os.path.join(folder, name + suffix), "w").close()
""",
    )
    project.write(
        "SConstruct", HEAD + 'for i in range(4):\n    env.TvmModel(f"build/net/net{i}", "model.onnx", BOARD=board)\n'
    )
    build = project.scons("-j4", "GENERATOR=meeting.py", "build/net")
    assert build.of("MODEL") == ["net0", "net1", "net2", "net3"]
    assert project.scons("-j4", "GENERATOR=meeting.py", "build/net").is_null


def test_clean_removes_all_that_was_made(project: Project) -> None:
    project.scons("-c")
    assert [path for path in project.path("build").rglob("*") if path.is_file()] == []
    assert not project.path("build/app.elf.obj").exists()
    assert project.path("main.c").exists()


def test_dry_run_changes_nothing(project: Project) -> None:
    write_model(project.path("model.onnx"), seed=2)
    before = {path: path.stat().st_mtime_ns for path in project.path("build").rglob("*")}
    assert project.scons("-n").of("MODEL") == ["tiny"]
    assert {path: path.stat().st_mtime_ns for path in project.path("build").rglob("*")} == before


@pytest.mark.parametrize("duplicate", [0, 1])
def test_variant_directory(project: Project, built: Project, duplicate: int) -> None:
    generator = write_replay(project, built)
    for name in ("main.c", "model.onnx", "app.ld", "startup.c"):
        target = project.path(f"source/{name}")
        target.parent.mkdir(exist_ok=True)
        project.path(name).rename(target)
    tail = project.path("SConstruct").read_text(encoding="utf-8").removeprefix(HEAD).replace("build/", "")
    project.write("source/SConscript", "Import('env', 'board')\n" + tail)
    call = f"SConscript('source/SConscript', exports=['env', 'board'], variant_dir='out/v', duplicate={duplicate})\n"
    project.write("SConstruct", HEAD + call)
    build = project.scons(f"GENERATOR={generator}", "out")
    assert build.of("CC") == OBJECTS
    assert project.path("out/v/app.elf").is_file()
    assert sorted(path.name for path in project.path("source").iterdir()) == [
        "SConscript", "app.ld", "main.c", "model.onnx", "startup.c",
    ]  # fmt: skip
    assert project.scons(f"GENERATOR={generator}", "out").is_null
    project.edit("source/main.c", ": 1;", ": 2;")
    assert project.scons(f"GENERATOR={generator}", "out").of("CC") == ["main.o"]
    project.edit("source/app.ld", "SECTIONS", "/* Another comment. */\nSECTIONS")
    assert project.scons(f"GENERATOR={generator}", "out").of("LINK") == ["linked.elf"]


def test_checkouts_in_different_folders_share_a_cache(built: Project, tmp_path: Path) -> None:
    cache = f"CACHE={tmp_path / 'cache'}"
    first = write_project(tmp_path / "first")
    generator = write_replay(first, built)
    assert first.scons(cache, f"GENERATOR={generator}").of("CC") == OBJECTS
    second = write_project(tmp_path / "another folder")
    # The second one's generator would fail.
    build = second.scons(cache, "GENERATOR=none.py")
    assert build.actions == []
    assert build.output.count("Retrieved") == len(build.output.splitlines())
    for name in ("app.elf", "app.map", "net/tiny.c", "net/tiny_data.c"):
        assert second.path(f"build/{name}").read_bytes() == first.path(f"build/{name}").read_bytes()
    shown = write_project(tmp_path / "third").scons(cache, "--cache-show", "GENERATOR=none.py")
    assert shown.of("CC") == OBJECTS


def test_images_built_in_different_folders_are_equal(project: Project, built: Project, tmp_path: Path) -> None:
    generator = write_replay(project, built)
    project.scons("-c")
    project.scons(f"GENERATOR={generator}")
    assert project.path("build/app.elf").read_bytes() == built.path("build/app.elf").read_bytes()
    assert str(tmp_path).encode() not in project.path("build/app.elf").read_bytes()


def test_a_built_project_moved_elsewhere_is_up_to_date(project: Project) -> None:
    moved = project.folder.with_name("moved here")
    project.folder.rename(moved)
    assert Project(moved).scons().is_null


def test_two_boards_in_one_build(project: Project, built: Project) -> None:
    generator = write_replay(project, built)
    project.write(
        "SConstruct",
        HEAD
        + """
runtime = env.TvmRuntime("build/runtime")
for board in ("mps2-an386", "mps2-an500"):
    each = env.Clone()
    network = each.TvmModel(f"build/{board}/tiny", "model.onnx", BOARD=board)
    each.Firmware(f"build/{board}/app.elf", ["main.c", network], BOARD=board, RUNTIME=each.TvmRuntime("build/runtime"))
""",
    )
    build = project.scons(f"GENERATOR={generator}", "-j2")
    assert build.of("MODEL") == ["tiny", "tiny"]
    assert build.of("CHECK") == ["app.elf", "app.elf"]
    assert "warning" not in build.output
    assert project.scons(f"GENERATOR={generator}").is_null


def test_the_documented_sconstruct_builds(project: Project) -> None:
    page = (REPOSITORY / "docs/scons.md").read_text(encoding="utf-8")
    snippet = page.split("```python\n", 2)[2].split("```", 1)[0]
    assert len(snippet.splitlines()) <= 10
    project.write("SConstruct", snippet)
    project.write("src/main.c", MAIN.replace("tiny", "kws"))
    project.path("models").mkdir()
    project.path("model.onnx").rename(project.path("models/kws.onnx"))
    project.scons(variables={"PYTHONPATH": str(project.path("tools"))})
    assert project.path("build/firmware.elf").is_file()


def test_the_documented_run_compares_with_the_host(project: Project) -> None:
    require_tools("qemu-system-arm")
    page = (REPOSITORY / "docs/scons.md").read_text(encoding="utf-8")
    snippet = page.split("### `RunFirmware(")[1].split("```python\n", 1)[1].split("```", 1)[0]
    project.write("SConstruct", HEAD + snippet.replace("kws.tflite", "kws.onnx"))
    project.path("models").mkdir()
    project.path("model.onnx").rename(project.path("models/kws.onnx"))
    assert "every output byte equal" in project.scons("-j2", "run").output


def test_weights_in_a_file_of_their_own(project: Project) -> None:
    project.edit("SConstruct", "BOARD=board, LEVEL", 'BOARD=board, WEIGHTS="incbin", ALIGNMENT=16, LEVEL')
    project.scons()
    weights = project.path("build/net/tiny_weights.bin").read_bytes()
    assert weights[:4] == b"AINW"
    # Caches of compilers do not read what the assembler includes; the C names it.
    assert f"CRC-32 is 0x{zlib.crc32(weights[32:]):08x}" in project.path("build/net/tiny_data.c").read_text("utf-8")
    assert project.scons().is_null
    write_model(project.path("model.onnx"), seed=2)
    assert project.scons().actions == ["MODEL tiny", "CC tiny_data.o", "LINK linked.elf", "CHECK app.elf"]
    assert project.path("build/net/tiny_weights.bin").read_bytes() != weights
    project.scons("-c")
    assert not project.path("build/net/tiny_weights.bin").exists()
