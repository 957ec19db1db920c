"""What a CMake build does again when something changed, with Ninja and with Makefiles."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from cmake_support import GENERATORS, HOST_MAIN, CMakeProject, program, project_text
from onnx.external_data_helper import convert_model_to_external_data
from scons_support import REPOSITORY, copy_tools, write_model

from tvm_stm32.depfile import Record

ONE_NETWORK = project_text("""
tvm_stm32_add_model(tiny MODEL tiny.onnx CPU host)
add_executable(app main.c)
target_link_libraries(app tiny)
""")

RELAY = """#[version = "0.0.5"]
def @main(%x: Tensor[(1, 3), float32], %w: Tensor[(2, 3), float32]) { nn.dense(%x, %w, units=None) }
"""


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of compiled networks, for the whole session."""
    return tmp_path_factory.getbasetemp() / "cmake_networks"


def write_external(folder: Path, seed: int) -> None:
    """The model, its weights in a file of their own."""
    write_model(folder / "tiny.onnx", seed)
    model = onnx.load(folder / "tiny.onnx")
    convert_model_to_external_data(model, location="tiny.data", size_threshold=8)
    (folder / "tiny.data").unlink(missing_ok=True)
    onnx.save(model, folder / "tiny.onnx")


@pytest.mark.parametrize("generator", GENERATORS)
def test_only_what_changed_is_made_again(generator: str, cache: Path, tmp_path: Path) -> None:
    project = CMakeProject(tmp_path / "a project", cache, generator, tool_root=tmp_path / "tools")
    copy_tools(project.tool_root)
    write_model(project.path("tiny.onnx"))
    project.write("CMakeLists.txt", ONE_NETWORK)
    project.write("main.c", HOST_MAIN)
    project.configure()
    first = project.build()
    assert first.generated == ["runtime -o", "tiny.onnx"]
    assert first.compiled == ["ai_runtime.c", "main.c", "tiny.c", "tiny_data.c"]
    project.run(project.path("b/app"))

    def nothing_is_left() -> None:
        again = project.build()
        assert (again.generated, again.compiled) == ([], []), again.output
        assert again.is_null == (generator == "Ninja"), again.output

    nothing_is_left()

    write_model(project.path("tiny.onnx"))  # the same bytes, newer
    touched = project.build()
    assert (touched.generated, touched.compiled) == (["tiny.onnx"], [])
    nothing_is_left()

    write_model(project.path("tiny.onnx"), seed=2)
    retrained = project.build()
    assert (retrained.generated, retrained.compiled) == (["tiny.onnx"], ["tiny_data.c"])
    nothing_is_left()

    template = project.tool_root / "tvm_stm32/emit/templates/network.h.j2"
    template.write_text(template.read_text() + "/* another end */\n")
    edited = project.build()
    assert (edited.generated, edited.compiled) == (["tiny.onnx"], ["main.c", "tiny.c"])
    nothing_is_left()

    # Makefiles of some versions of CMake (3.25) take a dependency that has gone for changed for good.
    if generator == "Ninja":
        (project.tool_root / "tvm_stm32/frontends/pytorch_operators.py").unlink()
        assert project.build().generated == ["tiny.onnx"]
    header = project.tool_root / "runtime/include/ai_runtime.h"
    header.write_text(header.read_text() + "/* another end */\n")
    assert project.build().generated == ["runtime -o"]
    nothing_is_left()

    project.edit("CMakeLists.txt", "CPU host", "CPU host LEVEL size")
    assert project.build().generated == ["tiny.onnx"]
    nothing_is_left()


def test_a_failed_compile_is_done_again(cache: Path, tmp_path: Path) -> None:
    project = CMakeProject(tmp_path / "p", cache)
    write_model(project.path("tiny.onnx"))
    project.write("CMakeLists.txt", ONE_NETWORK)
    project.write("main.c", HOST_MAIN)
    project.configure()
    project.build()
    project.path("tiny.onnx").write_bytes(b"no model")
    assert "error: " in project.build(fails=True).output
    assert project.build(fails=True).generated == ["tiny.onnx"]
    write_model(project.path("tiny.onnx"))
    assert project.build().compiled == []


@pytest.mark.parametrize("generator", GENERATORS)
def test_a_deleted_file_is_made_again(generator: str, cache: Path, tmp_path: Path) -> None:
    # Signs in paths are for Makefiles, where a script of ours looks at files; CMake 3.25 with Ninja takes no ' or $.
    project = CMakeProject(tmp_path / ("a project" if generator == "Ninja" else "p $x's"), cache, generator)
    write_model(project.path("tiny.onnx"))
    project.write("CMakeLists.txt", ONE_NETWORK)
    project.write("main.c", HOST_MAIN)
    project.configure()
    project.build()
    for name in ("tiny/tiny.c", "tiny/tiny_data.h", "ai_runtime/ai_runtime.c", "ai_runtime/ai_kernels.h"):
        path = project.path(f"b/tvm_stm32/{name}")
        path.unlink()
        assert len(project.build().generated) == 1
        assert path.exists()
    assert project.build().generated == []


def test_weights_beside_an_onnx_model_are_dependencies(cache: Path, tmp_path: Path) -> None:
    project = CMakeProject(tmp_path / "p", cache)
    write_external(project.folder, seed=1)
    project.write("CMakeLists.txt", ONE_NETWORK.replace("CPU host", "CPU host WEIGHTS incbin"))
    project.write("main.c", HOST_MAIN)
    project.configure()
    project.build()
    project.run(project.path("b/app"))
    model = project.path("tiny.onnx").read_bytes()
    write_external(project.folder, seed=2)
    assert project.path("tiny.onnx").read_bytes() == model
    os.utime(project.path("tiny.onnx"), (1, 1))  # its own time does not matter
    retrained = project.build()
    # What the assembler includes is no dependency a compiler finds.
    assert (retrained.generated, retrained.compiled) == (["tiny.onnx"], ["tiny_data.c"])
    assert project.build().is_null


def test_other_inputs_are_dependencies(cache: Path, tmp_path: Path) -> None:
    project = CMakeProject(tmp_path / "p", cache)
    write_model(project.path("tiny.onnx"))
    project.write("pools.yaml", "pools: [{name: FAST, size: 64K}]\n")
    project.write("CMakeLists.txt", ONE_NETWORK.replace("CPU host", "CPU host POOLS pools.yaml PINS input=FAST"))
    project.write("main.c", HOST_MAIN)
    project.configure()
    project.build()
    assert project.build().is_null
    project.write("pools.yaml", "pools: [{name: FAST, size: 64K}] # of the chip\n")
    assert project.build().generated == ["tiny.onnx"]
    assert project.build().is_null


def test_a_board_file_and_weights_of_a_relay_model_are_dependencies(cache: Path, tmp_path: Path) -> None:
    project = CMakeProject(tmp_path / "p", cache)
    shutil.copy(REPOSITORY / "boards" / "mps2-an386.yaml", project.path("board.yaml"))
    project.write("tiny.relay", RELAY)
    np.savez(project.path("tiny.npz"), w=np.ones((2, 3), np.float32))
    arguments = "MODEL tiny.relay BOARD board.yaml KERNELS c PARAMS tiny.npz"
    project.write("CMakeLists.txt", ONE_NETWORK.replace("MODEL tiny.onnx CPU host", arguments))
    project.write("main.c", HOST_MAIN)
    project.configure()
    project.build()
    assert project.build().is_null
    project.edit("board.yaml", "title:", "# A comment.\ntitle:")
    assert project.build().generated == ["tiny.relay"]
    np.savez(project.path("tiny.npz"), w=np.full((2, 3), 2, np.float32))
    retrained = project.build()
    assert (retrained.generated, retrained.compiled) == (["tiny.relay"], ["tiny_data.c"])
    assert project.build().is_null


def test_an_input_that_changes_while_it_is_read_counts_as_changed(tmp_path: Path) -> None:
    model, stamp = tmp_path / "model", tmp_path / "stamp"
    made = Record(tmp_path / "depfile", stamp)
    time.sleep(0.05)
    model.write_text("newer")
    made.write(tmp_path / "first", lambda: [model])
    assert stamp.stat().st_mtime_ns < model.stat().st_mtime_ns


def test_a_model_that_the_build_makes(cache: Path, tmp_path: Path) -> None:
    project = CMakeProject(tmp_path / "p", cache)
    write_model(project.path("trained.bin"))
    body = ONE_NETWORK.replace(
        "tvm_stm32_add_model",
        """add_custom_command(OUTPUT tiny.onnx DEPENDS trained.bin
          COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_CURRENT_SOURCE_DIR}/trained.bin tiny.onnx)
        tvm_stm32_add_model""",
        1,
    )
    project.write("CMakeLists.txt", body)
    project.write("main.c", HOST_MAIN)
    project.configure()
    project.build()
    project.run(project.path("b/app"))
    assert project.build().is_null
    write_model(project.path("trained.bin"), seed=2)
    assert project.build().compiled == ["tiny_data.c"]


def test_plain_make_with_a_depfile(cache: Path, tmp_path: Path) -> None:
    project = CMakeProject(tmp_path / "p", cache)
    program("make")
    write_model(project.path("tiny.onnx"))
    project.write("main.c", HOST_MAIN)
    project.write(
        "Makefile",
        """
app: main.o

net/tiny.stamp: tiny.onnx
	$(TOOL) compile $< -o net --name tiny --cpu host --depfile net/tiny.d --stamp $@
net/tiny.mk: net/tiny.stamp ;
include net/tiny.mk
-include net/tiny.d

CFLAGS += $(tiny_INCLUDES)
OBJECTS := $(patsubst %.c,%.o,$(tiny_SOURCES) $(ai_runtime_SOURCES))
main.o: $(tiny_HEADERS)
app: main.o $(OBJECTS)
	$(CC) -o $@ $^
%.o: %.c
	@echo CC $(notdir $<)
	@$(CC) $(CFLAGS) -c -o $@ $<
""",
    )

    def make() -> tuple[int, list[str]]:
        output = project.run("make", f"TOOL={' '.join(project.command)}")
        return output.count("memo.py"), sorted(line[3:] for line in output.splitlines() if line.startswith("CC "))

    assert make() == (1, ["ai_runtime.c", "main.c", "tiny.c", "tiny_data.c"])
    project.run("./app")
    assert make() == (0, [])
    write_model(project.path("tiny.onnx"))
    assert make() == (1, [])
    assert make() == (0, [])
    write_model(project.path("tiny.onnx"), seed=2)
    assert make() == (1, ["tiny_data.c"])
    # What was made from the model before is not taken for what is made from this one.
    trained = project.path("tiny.onnx").read_bytes()
    project.write("tiny.onnx", "no model")
    assert "error:" in project.run("make", f"TOOL={' '.join(project.command)}", fails=True)
    project.path("tiny.onnx").write_bytes(trained)
    assert make() == (1, [])
    # A file of the generator that is gone with its next version does not stop make.
    project.edit("net/tiny.d", "tiny.onnx \\", "tiny.onnx gone.py \\")
    project.write("net/tiny.d", project.path("net/tiny.d").read_text() + "gone.py:\n")
    assert make() == (1, [])
