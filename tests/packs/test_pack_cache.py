"""The cache: folders of CMSIS-Toolbox, shared ones that are never written, and what a crash leaves."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import click
import pytest
from pack_server import Project, Toy

from cmsis_packs.cache import Cache
from cmsis_packs.installed import installed
from tvm_stm32.errors import PackError


@pytest.fixture
def wanting(project: Project) -> Project:
    """A project that wants A::P from a folder."""
    mirror = project.folder / "mirror"
    mirror.mkdir()
    (mirror / "A.P.1.0.0.pack").write_bytes(Toy("A", "P", "1.0.0", files={"Inc/p.h": b"x"}).archive())
    project.wants("A::P", sources=("mirror",))
    return project


def tree(folder: Path) -> list[tuple[str, int, int]]:
    """Everything below a folder, with sizes and times."""
    paths = sorted(folder.rglob("*"))
    return [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in [folder, *paths]]


def toolbox_cache(folder: Path, archive: Path) -> Path:
    """A cache as CMSIS-Toolbox fills it: the archive, and its files made read-only."""
    Cache(folder).own("x")
    (folder / ".Download").mkdir(parents=True)
    (folder / ".Download" / archive.name).write_bytes(archive.read_bytes())
    pack = folder / "A" / "P" / "1.0.0"
    (pack / "Inc").mkdir(parents=True)
    (pack / "Inc" / "p.h").write_bytes(b"x")
    (pack / "LICENSE.txt").write_bytes(b"free\n")
    (pack / "A.P.pdsc").write_bytes(Toy("A", "P", "1.0.0").pdsc())
    for path in pack.rglob("*"):
        if path.is_file():
            path.chmod(stat.S_IREAD)
    return folder


@pytest.mark.parametrize(
    ("variables", "home", "shared"),
    [
        ({"TVM_STM32_PACK_ROOT": "/a"}, "/a", []),
        ({"CMSIS_PACK_ROOT": "/b"}, "/b", []),
        ({"TVM_STM32_PACK_ROOT": "/a", "CMSIS_PACK_ROOT": "/b"}, "/a", ["/b"]),
        ({"CMSIS_PACK_ROOT": "/b", "TVM_STM32_SHARED_PACKS": os.pathsep.join(["/c", "/b", "/d"])}, "/b", ["/c", "/d"]),
        ({"XDG_CACHE_HOME": "/x", "LOCALAPPDATA": "/x"}, None, []),
    ],
)
def test_variables_name_the_caches(variables: dict[str, str], home: str | None, shared: list[str]) -> None:
    cache = Cache.of_environment(variables)
    assert cache.home == Path(home).absolute() if home else cache.home.name.lower() == "packs"
    assert cache.shared == tuple(Path(text).absolute() for text in shared)


def test_packs_that_cmsis_toolbox_installed_are_used_after_a_comparison(
    wanting: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = toolbox_cache(tmp_path / "toolbox", wanting.folder / "mirror" / "A.P.1.0.0.pack")
    monkeypatch.delenv("TVM_STM32_PACK_ROOT")
    monkeypatch.setenv("CMSIS_PACK_ROOT", str(root))
    before = (root / "A" / "P" / "1.0.0" / "Inc").stat().st_mtime_ns
    wanting.run("install")
    assert [item.folder for item in installed(wanting.lock)] == [root / "A" / "P" / "1.0.0"]
    assert (root / "A" / "P" / "1.0.0" / "Inc").stat().st_mtime_ns == before


def test_a_folder_with_other_content_than_the_archive_is_not_used(
    wanting: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = toolbox_cache(tmp_path / "toolbox", wanting.folder / "mirror" / "A.P.1.0.0.pack")
    header = root / "A" / "P" / "1.0.0" / "Inc" / "p.h"
    header.chmod(0o644)
    header.write_bytes(b"y")
    monkeypatch.setenv("TVM_STM32_PACK_ROOT", str(root))
    with pytest.raises(PackError, match=r"is not the one in the lock[\s\S]*Inc/p\.h was changed[\s\S]*delete"):
        wanting.run("install")
    assert header.read_bytes() == b"y" and not wanting.lock.exists()
    monkeypatch.setenv("TVM_STM32_PACK_ROOT", str(wanting.cache))
    monkeypatch.setenv("TVM_STM32_SHARED_PACKS", str(root))
    wanting.run("install")
    assert [item.folder for item in installed(wanting.lock)] == [wanting.cache / "A" / "P" / "1.0.0"]


@pytest.mark.parametrize("by", ["toolbox", "us"])
def test_a_shared_cache_is_used_and_never_written(
    wanting: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    root = tmp_path / "shared"
    if by == "us":
        monkeypatch.setenv("TVM_STM32_PACK_ROOT", str(root))
        wanting.run("install")
        monkeypatch.setenv("TVM_STM32_PACK_ROOT", str(wanting.cache))
    else:
        toolbox_cache(root, wanting.folder / "mirror" / "A.P.1.0.0.pack")
    monkeypatch.setenv("TVM_STM32_SHARED_PACKS", str(root))
    before = tree(root)
    for path in [root, *root.rglob("*")]:
        path.chmod(path.stat().st_mode & ~0o222)
    wanting.run("install")
    wanting.run("verify")
    wanting.run("list")
    assert [item.folder for item in installed(wanting.lock)] == [root / "A" / "P" / "1.0.0"]
    assert tree(root) == before and wanting.content() == {}
    for path in [root, *root.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)


def test_an_end_in_the_middle_leaves_no_half_pack_and_the_next_install_repairs(
    wanting: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cmsis_packs.cache as module

    def ended(archive: Path, folder: Path) -> None:
        (folder / archive.name).write_text("half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "extract", ended)
        with pytest.raises(click.Abort):
            wanting.run("install")
    assert not (wanting.cache / "A").exists() and not wanting.lock.exists()
    # An end between the folder and the note that it is sound: the files are compared, not extracted again.
    wanting.run("install")
    folder = wanting.cache / "A" / "P" / "1.0.0"
    (wanting.cache / ".tvm-stm32" / "installed" / "A.P.1.0.0.pack").unlink()
    time = folder.stat().st_mtime_ns
    with pytest.raises(PackError, match=r"not installed: A::P@1\.0\.0"):
        installed(wanting.lock)
    wanting.run("install")
    assert installed(wanting.lock)[0].folder == folder and folder.stat().st_mtime_ns == time


def test_a_cache_that_cannot_be_written_is_named_with_the_variable(
    wanting: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TVM_STM32_PACK_ROOT", str(tmp_path / "file" / "cache"))
    with pytest.raises(PackError, match=r"cannot be written[\s\S]*TVM_STM32_PACK_ROOT"):
        wanting.run("install")


def test_reading_installed_packs_writes_nothing(wanting: Project) -> None:
    wanting.run("install")
    before = tree(wanting.cache)
    assert installed(wanting.lock)[0].pack.version == "1.0.0"
    assert tree(wanting.cache) == before
