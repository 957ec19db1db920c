"""An archive this tool wrote is a source of ``TvmModel`` like any model."""

from __future__ import annotations

from pathlib import Path

from scons_support import HEAD, Project, copy_tools, write_model

from tvm_stm32.compiler import CompileOptions, compile_model
from tvm_stm32.mlf import write_archive
from tvm_stm32.target import Target

SCONSTRUCT = HEAD + 'env.TvmModel("build/net/tiny", "archived.tar", CPU="cortex-m4")\n'


def write_model_archive(folder: Path, seed: int) -> None:
    write_model(folder / "model.onnx", seed)
    library = compile_model(folder / "model.onnx", CompileOptions(Target.for_cpu("cortex-m4")))
    write_archive(library, folder / "archived.tar")


def test_archive_as_a_source(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    copy_tools(folder / "tools")
    write_model_archive(folder, 1)
    project = Project(folder)
    project.write("SConstruct", SCONSTRUCT)
    assert project.scons().of("MODEL") == ["tiny"]
    # The network goes by the target's name, not by the one it was compiled under.
    assert "ai_tiny_network" in project.path("build/net/tiny.h").read_text()
    first = project.path("build/net/tiny_data.c").read_bytes()
    assert project.scons().is_null
    write_model_archive(folder, 2)
    assert project.scons().of("MODEL") == ["tiny"]
    assert project.path("build/net/tiny_data.c").read_bytes() != first
