"""Archives that would write where they should not, or too much, are refused before anything of them is there."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from pack_server import Project, Toy, zipped

from cmsis_packs.archive import ArchiveLimits, differences, extract, read_description
from tvm_stm32.errors import PackError

GOOD = Toy("A", "P", "1.0.0")
BASE = {"A.P.pdsc": GOOD.pdsc()}
FEW = ArchiveLimits(files=3, small=1000, ratio=2)


USUAL = ArchiveLimits()


def refuse(tmp_path: Path, data: bytes, limits: ArchiveLimits = USUAL) -> str:
    """Why an archive is refused; nothing is written."""
    archive, folder = tmp_path / "A.P.1.0.0.pack", tmp_path / "deep" / "folder"
    folder.mkdir(parents=True)
    archive.write_bytes(data)
    with pytest.raises(PackError) as caught:
        extract(archive, folder, limits)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["A.P.1.0.0.pack", "deep", "folder"]
    assert str(caught.value).startswith("A.P.1.0.0.pack is ")
    return caught.value.why


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["../evil"], "leads out of the pack's folder"),
        (["a/../../evil"], "leads out of the pack's folder"),
        (["/etc/evil"], "leads out of the pack's folder"),
        (["..\\..\\evil"], "leads out of the pack's folder"),
        (["\\\\server\\evil"], "leads out of the pack's folder"),
        (["a//b"], "leads out of the pack's folder"),
        (["a/.. /evil"], "leads out of the pack's folder"),
        (["C:\\evil"], "cannot exist on every system"),
        (["a.h:stream"], "cannot exist on every system"),
        (["a\nb"], "cannot exist on every system"),
        (["a./b"], "cannot exist on every system"),
        (["aux.h"], "is a device on Windows"),
        (["x" * 201], "is too long"),
        (["/".join(["x" * 99] * 5)], "is too long"),
        (["Core.h", "core.h"], "'core.h' and 'Core.h' are one file on Windows and macOS"),
        (["Inc/a.h", "inc/b.h"], "'inc' and 'Inc' are one file"),
        (["caf\u00e9.h", "cafe\u0301.h"], "are one file on Windows and macOS"),
        (["a", "a/b"], "'a' is a file and a folder"),
    ],
)
def test_names_that_no_pack_needs_are_refused(tmp_path: Path, names: list[str], why: str) -> None:
    assert why in refuse(tmp_path, zipped({**BASE, **dict.fromkeys(names, b"x")}))


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_links_and_devices_are_refused(tmp_path: Path, kind: int) -> None:
    def edit(info: zipfile.ZipInfo) -> None:
        if info.filename == "link":
            info.external_attr = (kind | 0o777) << 16

    assert "is a link or a device" in refuse(tmp_path, zipped({**BASE, "link": b"/etc/passwd"}, edit))


def test_bombs_are_refused_by_what_they_say_of_themselves(tmp_path: Path) -> None:
    assert "at most 67,108,864 are taken" in refuse(tmp_path, zipped({**BASE, "zeros": bytes(80 << 20)}))


def test_counts_and_sizes_have_limits(tmp_path: Path) -> None:
    many = zipped({**BASE, **{f"f{number}": b"" for number in range(5)}})
    assert "it holds 6 files, at most 3 are taken" in refuse(tmp_path, many, FEW)


def test_a_bomb_that_lies_about_its_size_is_found_out(tmp_path: Path) -> None:
    data = bytearray(zipped({**BASE, "zeros": bytes(100_000)}))
    # The size in the central directory, the last header of the file.
    at = data.rindex(b"PK\x01\x02")
    data[at + 24 : at + 28] = (10).to_bytes(4, "little")
    archive, folder = tmp_path / "A.P.1.0.0.pack", tmp_path / "folder"
    archive.write_bytes(data)
    folder.mkdir()
    with pytest.raises(PackError, match="is no sound pack"):
        extract(archive, folder)
    assert all(path.stat().st_size < 1000 for path in folder.iterdir())


def flipped(data: bytes) -> bytes:
    at = data.index(b"lib.bin") + 20  # in its compressed content: only extraction meets it
    return data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :]


@pytest.mark.parametrize(
    "spoil", [lambda data: data[: len(data) // 2], lambda data: data[:-1], lambda _: b"", flipped, lambda _: b"PK\5\6"]
)
def test_damaged_archives_are_refused(project: Project, spoil: Callable[[bytes], bytes]) -> None:
    mirror = project.folder / "mirror"
    mirror.mkdir()
    content = {"lib.bin": bytes(range(256)) * 20}
    (mirror / "A.P.1.0.0.pack").write_bytes(spoil(Toy("A", "P", "1.0.0", files=content).archive()))
    project.wants("A::P", sources=("mirror",))
    with pytest.raises(PackError, match=r"A\.P\.1\.0\.0\.pack"):
        project.run("install")
    assert project.content() == {} and not project.lock.exists()
    assert [path for path in project.cache.rglob("*") if path.is_file() and path.name != "lock"] == []


def test_archives_without_one_description_or_with_a_foreign_one_are_refused(project: Project, tmp_path: Path) -> None:
    assert "it has 0 PDSC files at its top" in refuse(tmp_path / "apart", zipped({"sub/A.P.pdsc": GOOD.pdsc()}))
    mirror = project.folder / "mirror"
    mirror.mkdir()
    (mirror / "A.P.2.0.0.pack").write_bytes(GOOD.archive())
    project.wants("A::P", sources=("mirror",))
    with pytest.raises(PackError, match=r"is not A::P@2\.0\.0[\s\S]*describes A::P@1\.0\.0"):
        project.run("install")
    assert project.content() == {}


def test_names_with_backslashes_of_old_tools_become_folders(tmp_path: Path) -> None:
    archive, folder = tmp_path / "A.P.1.0.0.pack", tmp_path / "folder"
    archive.write_bytes(zipped({**BASE, "Inc\\core.h": b"x", "Empty\\": b""}))
    folder.mkdir()
    extract(archive, folder)
    assert (folder / "Inc" / "core.h").read_bytes() == b"x"
    assert differences(archive, folder) == []
    assert read_description(archive).name == "P"
