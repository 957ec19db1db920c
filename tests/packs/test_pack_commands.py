"""tvm-stm32 packs: what people do with it when nothing goes wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from pack_server import PackServer, Project, Toy

from cmsis_packs.installed import find_device, installed
from cmsis_packs.resolve import resolve
from tvm_stm32.boards import load_board
from tvm_stm32.cli import cli
from tvm_stm32.errors import PackError, TargetError

pytestmark = pytest.mark.usefixtures("direct")


def test_a_pack_is_added_locked_and_installed_with_what_it_requires(
    project: Project, server: PackServer, capsys: pytest.CaptureFixture[str]
) -> None:
    project.run("add", "Acme::Toy_DFP@^2.0", "--source", server.index_url)
    assert yaml.safe_load(project.yaml.read_text()) == {"packs": ["Acme::Toy_DFP@^2.0"], "sources": [server.index_url]}
    lock = yaml.safe_load(project.lock.read_text())
    assert [item["pack"] for item in lock["packs"]] == ["Acme::Toy_DFP@2.0.0", "Zen::Core@6.0.0"]
    assert lock["packs"][0]["asked_by"] == ["packs.yaml: Acme::Toy_DFP@^2.0"]
    assert lock["packs"][1]["asked_by"] == ["Acme::Toy_DFP@2.0.0: Zen::Core@>=5.0.0"]
    assert lock["packs"][0]["licence"] == ["LICENSE.txt"]
    assert (project.cache / "Acme" / "Toy_DFP" / "2.0.0" / "Source" / "startup.c").is_file()
    assert "2 packs installed: Acme::Toy_DFP@2.0.0, Zen::Core@6.0.0" in capsys.readouterr().out


def test_an_old_version_is_had_by_its_exact_number(project: Project, server: PackServer) -> None:
    project.run("add", "Acme::Toy_DFP@1.0.0", "--source", server.index_url)
    assert (project.cache / "Acme" / "Toy_DFP" / "1.0.0").is_dir()
    assert server.asked("/Acme.Toy_DFP.2.0.0.pack") == 0


@pytest.mark.parametrize(
    ("wish", "version"),
    [("", "2.0.0"), ("@>=1.0.1", "2.0.0"), ("@^1.0", "1.1.0"), ("@~1.0", "1.0.0"), ("@1.1.0", "1.1.0")],
)
def test_ranges_give_the_newest_version_they_allow(tmp_path: Path, project: Project, wish: str, version: str) -> None:
    mirror = folder_of(tmp_path / "mirror", *(Toy("A", "P", v) for v in ("1.0.0", "1.1.0", "2.0.0", "2.1.0-rc1")))
    project.wants(f"A::P{wish}", sources=(str(mirror),))
    project.run("install")
    assert [str(item.locked) for item in installed(project.lock)] == [f"A::P@{version}"]


def test_a_folder_and_an_archive_are_sources_and_the_first_with_a_fitting_version_wins(
    project: Project,
) -> None:
    folder_of(project.folder / "mirror", Toy("A", "P", "1.0.0"), Toy("A", "Q", "1.0.0"))
    (project.folder / "other.pack").write_bytes(Toy("A", "P", "2.0.0").archive())
    project.wants("A::P@>=2", "A::Q", sources=("mirror", "other.pack"))
    project.run("install")
    lock = yaml.safe_load(project.lock.read_text())
    assert [item["source"] for item in lock["packs"]] == ["other.pack", "mirror/A.Q.1.0.0.pack"]


def test_the_lock_is_the_same_bytes_each_time_and_keeps_versions(
    project: Project, server: PackServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.run("add", "Acme::Toy_DFP@^2.0", "--source", server.index_url)
    first = project.lock.read_bytes()
    server.add(Toy("Zen", "Core", "6.1.0"))
    monkeypatch.setenv("TVM_STM32_PACK_ROOT", str(tmp_path / "second"))
    project.run("install")
    assert project.lock.read_bytes() == first
    project.run("add", "Zen::Safe_DFP")
    assert "Zen::Core@6.0.0" in project.lock.read_text(), "adding a pack does not update another"
    project.lock.write_text(project.lock.read_text().replace("Zen::Safe_DFP@1.0.0", "Zen::Safe_DFP@1.0.0"))
    project.run("update")
    assert "Zen::Core@6.1.0" in project.lock.read_text()


def test_update_of_one_pack_leaves_the_others(project: Project, server: PackServer) -> None:
    project.run("add", "Zen::Core", "Zen::Safe_DFP", "--source", server.index_url)
    server.add(Toy("Zen", "Core", "6.1.0"), Toy("Zen", "Safe_DFP", "1.0.1"))
    project.run("update", "Zen::Core")
    text = project.lock.read_text()
    assert "Zen::Core@6.1.0" in text and "Zen::Safe_DFP@1.0.0" in text


def test_install_from_a_lock_asks_no_server_but_for_the_packs(
    project: Project, server: PackServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.run("add", "Acme::Toy_DFP@^2.0", "--source", server.index_url)
    server.requests.clear()
    project.run("install", "--frozen")
    assert server.requests == []
    monkeypatch.setenv("TVM_STM32_PACK_ROOT", str(tmp_path / "second"))
    project.run("install", "--frozen")
    assert sorted(path for path, _ in server.requests) == ["/Acme.Toy_DFP.2.0.0.pack", "/Zen.Core.6.0.0.pack"]


def test_a_folder_named_on_the_command_line_is_written_from_where_packs_yaml_lies(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_of(tmp_path / "mirror", Toy("A", "P", "1.0.0"))
    monkeypatch.chdir(tmp_path)
    project.run("add", "A::P", "--source", "mirror")
    assert "- ../mirror\n" in project.yaml.read_text()
    project.run("install", "--frozen")


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo terminals")
def test_a_terminal_gets_a_bar_and_a_pipe_gets_lines(project: Project, server: PackServer) -> None:
    import pty

    command = [sys.executable, "-m", "tvm_stm32", "packs", "add", "Zen::Core", "--file", str(project.yaml)]
    command += ["--source", server.index_url]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert "fetched Zen::Core@6.0.0, 4" in lines and "%" not in lines and "\x1b" not in lines
    for path in project.cache.rglob("*.pack"):
        path.unlink()
    project.lock.unlink()
    main, terminal = pty.openpty()
    subprocess.run(command, stderr=terminal, stdout=subprocess.DEVNULL, check=True)
    assert b"100%" in os.read(main, 1 << 16)
    os.close(main)
    os.close(terminal)


def test_comments_in_packs_yaml_stay_when_packs_are_added(project: Project, tmp_path: Path) -> None:
    mirror = folder_of(tmp_path / "mirror", Toy("A", "P", "1.0.0"), Toy("A", "Q", "1.0.0"))
    project.yaml.write_text(f"# ours\npacks:\n  - A::P  # the device\nsources:\n  - {mirror}\n")
    project.run("add", "A::Q@^1.0")
    assert project.yaml.read_text() == (
        f"# ours\npacks:\n  - A::P  # the device\n  - A::Q@^1.0\nsources:\n  - {mirror}\n"
    )
    project.run("add", "A::Q@1.0.0")
    assert "  - A::P  # the device\n  - A::Q@1.0.0\n" in project.yaml.read_text()


def test_list_why_verify_and_devices(project: Project, server: PackServer, capsys: pytest.CaptureFixture[str]) -> None:
    project.run("add", "Acme::Toy_DFP@^2.0", "Zen::Safe_DFP", "--source", server.index_url)
    capsys.readouterr()
    project.run("list")
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == ["pack", "Acme::Toy_DFP", "Zen::Core", "Zen::Safe_DFP"]
    assert all(line.endswith("installed") for line in listed[1:])
    project.run("why", "Zen::Core")
    assert capsys.readouterr().out.splitlines() == [
        "Zen::Core@6.0.0",
        "  Acme::Toy_DFP@2.0.0 asks for Zen::Core@>=5.0.0",
        "    Acme::Toy_DFP@2.0.0",
        "      packs.yaml asks for Acme::Toy_DFP@^2.0",
    ]
    project.run("verify")
    assert capsys.readouterr().out == "3 packs are as the lock says\n"
    project.run("devices", "t*")
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["device", "TOY101", "TOY102", "TWIN7"]


def test_builds_find_devices_and_files_of_installed_packs(project: Project, server: PackServer) -> None:
    project.run("add", "Acme::Toy_DFP", "Zen::Safe_DFP", "--source", server.index_url)
    packs = installed(project.lock, "safe33")
    assert str(packs[0].locked) == "Zen::Safe_DFP@1.0.0" and len(packs) == 3
    assert find_device(packs, "SAFE33")[1].processor().trustzone
    assert len(find_device(packs, "TWIN7")[1].processors) == 2
    owner, device = find_device(packs, "TOY101")
    taken = resolve(owner.pack, device, ["Acme::Device:Startup"])
    assert all((owner.folder / file.path).is_file() for file in taken.sources) and taken.sources
    with pytest.raises(PackError, match=r"no installed pack has the device 'TOY999'[\s\S]*TOY101"):
        find_device(packs, "TOY999")


def test_verify_names_changed_missing_and_foreign_files(project: Project, server: PackServer) -> None:
    project.run("add", "Acme::Toy_DFP@2.0.0", "--source", server.index_url)
    folder = project.cache / "Acme" / "Toy_DFP" / "2.0.0"
    (folder / "Source" / "startup.c").write_text("int main(void){}")
    (folder / "LICENSE.txt").unlink()
    (folder / "new.h").write_text("")
    with pytest.raises(PackError) as caught:
        project.run("verify")
    for text in ("LICENSE.txt is missing", "Source/startup.c was changed", "new.h is not in the archive"):
        assert text in caught.value.message


def test_frozen_fails_for_any_difference_and_changes_nothing(project: Project, server: PackServer) -> None:
    project.wants("Acme::Toy_DFP@1.0.0", sources=(server.index_url,))
    with pytest.raises(PackError, match=r"there is no '.*packs\.lock'"):
        project.run("install", "--frozen")
    project.run("install")
    before, asked = project.lock.read_bytes(), len(server.requests)
    for packs, sources, why in (
        (("Acme::Toy_DFP@1.1.0",), (server.index_url,), "Acme::Toy_DFP@1.1.0 not in the lock; .* no longer asked for"),
        (("Acme::Toy_DFP@1.0.0", "Zen::Core"), (server.index_url,), "Zen::Core not in the lock"),
        (("Acme::Toy_DFP@1.0.0",), ("mirror",), "the sources are others"),
    ):
        project.wants(*packs, sources=sources)
        with pytest.raises(PackError, match=why):
            project.run("install", "--frozen")
    assert project.lock.read_bytes() == before and len(server.requests) == asked


def test_what_is_in_the_cache_needs_no_network(project: Project, server: PackServer) -> None:
    project.run("add", "Acme::Toy_DFP@^2.0", "--source", server.index_url)
    server.requests.clear()
    project.lock.unlink()
    project.run("install", "--offline")
    project.run("update", "--offline")
    assert server.requests == []
    with pytest.raises(PackError, match=r"Zen::Safe_DFP.* is not in the cache"):
        project.run("add", "Zen::Safe_DFP", "--offline")
    assert "Safe" not in project.yaml.read_text() + project.lock.read_text()


def test_two_askers_that_cannot_agree_are_both_named(tmp_path: Path, project: Project) -> None:
    mirror = folder_of(
        tmp_path / "mirror",
        Toy("A", "P", "1.0.0", requires=(("A", "Core", "2.0.0:3.0.0-"),)),
        *(Toy("A", "Core", version) for version in ("1.0.0", "2.5.0", "3.0.0")),
    )
    project.wants("A::P", "A::Core@^1.0", sources=(str(mirror),))
    with pytest.raises(PackError) as caught:
        project.run("install")
    assert caught.value.message == "no version of A::Core is what all ask for"
    assert caught.value.why == "A::P@1.0.0: A::Core@2.0.0:3.0.0-; packs.yaml: A::Core@^1.0"
    assert "there are 3.0.0, 2.5.0, 1.0.0" in caught.value.hint
    project.wants("A::P", "A::Core", sources=(str(mirror),))
    project.run("install")
    assert "A::Core@2.5.0" in project.lock.read_text()


def test_requirements_of_a_version_that_is_not_taken_do_not_count(tmp_path: Path, project: Project) -> None:
    mirror = folder_of(
        tmp_path / "mirror",
        Toy("A", "P", "1.0.0"),
        Toy("A", "P", "2.0.0", requires=(("A", "Core", "2.0.0"),)),
        Toy("A", "R", "1.0.0", requires=(("A", "P", "1.0.0:1.9.9"),)),
        Toy("A", "Core", "1.0.0"),
        Toy("A", "Core", "2.0.0"),
    )
    project.wants("A::P", "A::R", "A::Core@1.0.0", sources=(str(mirror),))
    project.run("install")
    assert [str(item.locked) for item in installed(project.lock)] == ["A::Core@1.0.0", "A::P@1.0.0", "A::R@1.0.0"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("packs: [STM32F4xx_DFP]\n", "packs: 'STM32F4xx_DFP' names no pack"),
        ("packs: ['A::P@latest']\n", "names no pack"),
        ("packs: [A::P, 'A::P@1.0.0']\n", "A::P is asked for twice"),
        ("packs: [A::P]\nsources: ['ftp://x/y.pidx']\n", "'ftp://x/y.pidx' is of no known kind"),
        ("packs: [A::P]\nsource: x\n", "unknown key 'source': sources?"),
        ("packs: &a [*a]\n", "aliases"),
        ("- A::P\n", "is no list of packs"),
    ],
)
def test_a_wrong_packs_yaml_is_named_with_its_key(project: Project, text: str, message: str) -> None:
    project.yaml.write_text(text)
    with pytest.raises(PackError) as caught:
        project.run("install")
    assert message in str(caught.value) and "packs.yaml" in str(caught.value)


def test_a_lock_edited_by_hand_is_named_with_its_key(tmp_path: Path, project: Project) -> None:
    project.wants("A::P", sources=(str(folder_of(tmp_path / "mirror", Toy("A", "P", "1.0.0"))),))
    project.run("install")
    good = project.lock.read_text()
    for old, new, message in (
        ("A::P@1.0.0", "A::P@../../x", "names no version of a pack"),
        ("sha256: ", "sha256: Z", "is wrong here: 64 hex digits"),
        ("lock: 1", "lock: 2", "1 was expected"),
    ):
        project.lock.write_text(good.replace(old, new))
        with pytest.raises(PackError, match=message):
            project.run("install")


def test_help_and_the_reading_of_installed_packs_load_no_downloader() -> None:
    code = (
        "import sys, tvm_stm32.cli, cmsis_packs.installed\n"
        "names = ('cmsis_pack_manager', 'urllib.request', 'filelock', 'yaml', 'jsonschema', 'tvm')\n"
        "print([name for name in names if name in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output == "[]\n"


def folder_of(folder: Path, *packs: Toy) -> Path:
    """A folder of archives."""
    folder.mkdir()
    for pack in packs:
        (folder / pack.archive_name).write_bytes(pack.archive())
    return folder


def test_a_board_file_is_made_of_a_device_of_the_lock(project, server):
    project.wants("Acme::Toy_DFP", sources=(server.index_url,))
    project.run("install")
    file = project.folder / "mine.yaml"
    words = ["board", "new", "mine", "--device", "TOY101", "-o", str(file)]
    cli.main([*words, "--file", str(project.yaml)], standalone_mode=False)
    board = load_board(file)
    assert (board.device, board.target.cpu, board.flash.size) == ("TOY101", "cortex-m4", 0x80000)
    assert [pool.name for pool in board.pools] == ["SRAM", "FLASH"]
    file.unlink()
    with pytest.raises(TargetError, match=r"packs\.lock' does not exist"):
        cli.main([*words, "--file", str(project.folder / "other" / "packs.yaml")], standalone_mode=False)
