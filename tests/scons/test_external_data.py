"""ONNX models that keep their weights in other files: those are what a build depends on, too."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import onnx
import pytest
from scons_support import HEAD, Project, copy_tools, forbidding, write_model

SCONSTRUCT = HEAD + 'env.TvmModel("build/net/tiny", ARGUMENTS.get("MODEL", "model.onnx"), CPU="cortex-m4")\n'


def write_external(folder: Path, seed: int = 1) -> None:
    """``model.onnx`` with its weights in ``weights/model.data``; the seed changes those alone."""
    write_model(folder / "model.onnx", seed)
    (folder / "weights").mkdir(exist_ok=True)
    (folder / "weights" / "model.data").unlink(missing_ok=True)
    model = onnx.load(folder / "model.onnx")
    onnx.save(
        model,
        folder / "model.onnx",
        save_as_external_data=True,
        location="weights/model.data",
        size_threshold=30,
    )


def write_project(folder: Path) -> Project:
    """A project of one such model."""
    folder.mkdir()
    copy_tools(folder / "tools")
    write_external(folder)
    project = Project(folder)
    project.write("SConstruct", SCONSTRUCT)
    return project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A built project."""
    project = write_project(tmp_path / "project")
    assert project.scons().of("MODEL") == ["tiny"]
    return project


def sha256(project: Project) -> str:
    report = json.loads(project.path("build/net/tiny_report.json").read_text())
    return str(report["model"]["sha256"])


def test_a_null_build_imports_nothing_heavy(project: Project, tmp_path: Path) -> None:
    build = project.scons(variables=forbidding(tmp_path / "barred", "tvm", "numpy", "onnx", "google"))
    assert build.is_null, build.output
    assert build.cpu_s < 0.6


def test_changed_weights_regenerate_and_change_the_sha256(project: Project) -> None:
    before = sha256(project)
    model = project.path("model.onnx").read_bytes()
    assert before == hashlib.sha256(model + project.path("weights/model.data").read_bytes()).hexdigest()
    write_external(project.folder, seed=2)
    assert project.path("model.onnx").read_bytes() == model
    assert project.scons().of("MODEL") == ["tiny"]
    assert sha256(project) != before
    assert project.scons().is_null


def test_a_touched_file_changes_nothing(project: Project) -> None:
    os.utime(project.path("weights/model.data"), (1, 1))
    assert project.scons().is_null


def test_an_absent_file_is_named_and_built_once_it_is_there(project: Project) -> None:
    weights = project.path("weights/model.data")
    data = weights.read_bytes()
    weights.unlink()
    assert "weights/model.data" in project.scons(fails=True).output
    weights.write_bytes(data)
    assert project.scons().of("MODEL") == ["tiny"]


def test_checkouts_share_a_cache_by_the_weights(tmp_path: Path) -> None:
    cache = f"CACHE={tmp_path / 'cache'}"
    first = write_project(tmp_path / "first")
    assert first.scons(cache).of("MODEL") == ["tiny"]
    same = write_project(tmp_path / "same")
    assert same.scons(cache, "GENERATOR=none.py").actions == []
    assert sha256(same) == sha256(first)
    other = write_project(tmp_path / "other")
    write_external(other.folder, seed=2)
    assert other.scons(cache).of("MODEL") == ["tiny"]
    assert sha256(other) != sha256(first)


@pytest.mark.parametrize("duplicate", [0, 1])
def test_in_a_variant_directory(tmp_path: Path, duplicate: int) -> None:
    project = write_project(tmp_path / "project")
    project.path("source").mkdir()
    for name in ("model.onnx", "weights"):
        project.path(name).rename(project.path(f"source/{name}"))
    project.write(
        "SConstruct", HEAD + f'SConscript("source/SConscript", "env", variant_dir="out", duplicate={duplicate})\n'
    )
    project.write("source/SConscript", 'Import("env")\nenv.TvmModel("net/tiny", "model.onnx", CPU="cortex-m4")\n')
    assert project.scons("out").of("MODEL") == ["tiny"]
    assert project.scons("out").is_null
    write_external(project.path("source"), seed=2)
    assert project.scons("out").of("MODEL") == ["tiny"]


def test_a_model_that_another_builder_makes(tmp_path: Path) -> None:
    project = write_project(tmp_path / "project")
    project.write(
        "SConstruct",
        HEAD
        + """
env.Command(["made/model.onnx", "made/weights/model.data"], ["model.onnx", "weights/model.data"],
            [Copy("${TARGETS[0]}", "${SOURCES[0]}"), Copy("${TARGETS[1]}", "${SOURCES[1]}")])
env.TvmModel("build/net/tiny", "made/model.onnx", CPU="cortex-m4")
""",
    )
    assert project.scons("build").of("MODEL") == ["tiny"]
    assert project.scons("build").is_null
    write_external(project.folder, seed=2)
    assert project.scons("build").of("MODEL") == ["tiny"]
