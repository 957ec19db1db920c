"""A CacheDir for several checkouts and users, whose damaged entries do no harm."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from checkouts import CACHE, FOLDERS, Checkout, garble
from scons_support import KINDS, Project, built_once

NOBODY = 65534
STARTUP = "build/app.elf.obj/runtime/startup.o"


@pytest.fixture
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A built project; read only."""
    return built_once(tmp_path_factory)


def entries(cache: Path) -> list[Path]:
    return sorted(path for path in cache.glob("??/*") if path.is_file())


def test_damaged_entries_are_built_again_and_replaced(built: Project, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first, second, third = (Checkout(tmp_path / name, built, CACHE) for name in FOLDERS)
    first.scons(f"SHARED={cache}", *first.options)
    made = {path.name for path in entries(cache)}
    assert all(path.suffix == ".checked" for path in entries(cache))

    assert garble(cache) > len(made) > 0
    build = second.scons(f"SHARED={cache}", *second.options)
    assert "Retrieved" not in build.output
    assert second.image == first.image == built.path("build/app.elf").read_bytes()

    assert {path.name for path in entries(cache)} == made
    # Where Python is does not matter.
    (tmp_path / "venv").symlink_to(sys.prefix)
    python = str(tmp_path / "venv/bin" / Path(sys.executable).name)
    third.edit("SConstruct", 'if "GENERATOR"', f'env["PYTHON"] = {python!r}\nif "GENERATOR"')
    build = third.scons(f"SHARED={cache}", "GENERATOR=none.py")
    assert build.actions == []
    assert build.output.count("Retrieved") == len(build.output.splitlines()) == len(made)
    assert third.image == first.image


def test_entries_under_each_others_names_are_not_taken(built: Project, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first, second = (Checkout(tmp_path / name, built, CACHE) for name in FOLDERS[:2])
    objects = first.scons(f"SHARED={cache}", *first.options, "build/app.elf.obj/runtime").of("CC")
    paths = entries(cache)
    contents = [path.read_bytes() for path in paths]
    for path, content in zip(paths, contents[1:] + contents[:1], strict=True):
        path.write_bytes(content)
    build = second.scons(f"SHARED={cache}", *second.options, "build/app.elf.obj/runtime")
    assert build.of("CC") == objects
    assert "Retrieved" not in build.output
    assert [path.read_bytes() for path in paths] == contents


def test_a_dry_run_and_a_read_only_build_leave_damaged_entries(built: Project, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    checkout = Checkout(tmp_path / "checkout", built, CACHE)
    assert checkout.scons("-n", f"SHARED={cache}", *checkout.options, STARTUP).of("CC") == ["startup.o"]
    assert not cache.exists()
    checkout.scons(f"SHARED={cache}", *checkout.options, STARTUP)
    garble(cache)
    before = {path: path.read_bytes() for path in entries(cache)}
    checkout.scons("-c", "build")
    for option in ("-n", "--cache-readonly"):
        build = checkout.scons(f"SHARED={cache}", option, *checkout.options, STARTUP)
        assert build.of("CC") == ["startup.o"]
    assert {path: path.read_bytes() for path in entries(cache)} == before


def test_a_cache_that_cannot_be_used_is_one_message(built: Project, tmp_path: Path) -> None:
    checkout = Checkout(tmp_path / "checkout", built, CACHE)
    checkout.write("file", "")
    build = checkout.scons("SHARED=file", *checkout.options, fails=True)
    assert "CacheDir: cannot use 'file': " in build.output
    assert "try: another folder" in build.output
    build = checkout.scons("SHARED=file", "--cache-disable", *checkout.options, STARTUP)
    assert build.of("CC") == ["startup.o"]


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that other users reach, unlike those of pytest."""
    folder = Path(tempfile.mkdtemp(prefix="tvm-stm32-shared-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


class OtherUser:
    """Runs SCons as nobody, with another Python where there is one, on a computer that has another name."""

    def __init__(self, home: Path) -> None:
        if not hasattr(os, "geteuid") or os.geteuid() != 0:
            pytest.skip("only root runs programs as another user")
        if shutil.which("unshare") is None or subprocess.run(["unshare", "--uts", "true"], check=False).returncode != 0:
            pytest.skip("no program can be given a host name of its own here")
        self.home = home
        system = shutil.which("python3", path="/usr/bin:/usr/local/bin")
        for python in filter(None, (system, sys.executable)):
            self.python = python
            if self.run(python, "-c", "import SCons, yaml, click, elftools, jinja2, jsonschema").returncode == 0:
                return
        pytest.skip("no Python here has the packages and is for other users")

    def run(self, *command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        as_nobody = f"import os, sys; os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY}); os.umask(0o077)"
        script = f'hostname elsewhere && exec "$0" -c "{as_nobody}; os.execvp(sys.argv[1], sys.argv[1:])" "$@"'
        variables = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": sysconfig.get_path("purelib"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(self.home),
        }
        return subprocess.run(
            ["unshare", "--uts", "sh", "-c", script, sys.executable, *command],
            cwd=cwd or self.home,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )

    def scons(self, project: Project, *arguments: str) -> str:
        """Run SCons in a project, which this user gets; returns what it printed."""
        for path in (project.folder, *project.folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        done = self.run(self.python, "-m", "SCons", "-Q", *arguments, cwd=project.folder)
        assert done.returncode == 0, done.stdout
        return done.stdout


def made(output: str) -> list[str]:
    """Actions that were run and not taken from the cache."""
    return [line for line in output.splitlines() if line.split()[0] in KINDS and not line.startswith("COPY")]


@pytest.fixture
def other_user(shared: Path) -> OtherUser:
    """Another user, or the test is skipped."""
    home = shared / "home"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    return OtherUser(home)


def test_users_of_one_group_share_what_either_has_built(built: Project, shared: Path, other_user: OtherUser) -> None:
    cache = shared / "cache"
    cache.mkdir()
    os.chown(cache, 0, NOBODY)
    cache.chmod(0o2775)
    mine, theirs = (Checkout(shared / name, built, CACHE, own_tools=True) for name in ("a", "b c/d"))

    before = os.umask(0o077)
    try:
        mine.scons(f"SHARED={cache}", *mine.options)
        output = other_user.scons(theirs, f"SHARED={cache}")
        assert made(output) == []
        assert output.count("Retrieved") == len(entries(cache))
        assert theirs.image == mine.image

        # What they build is in the cache for me.
        for project in (mine, theirs):
            project.edit("main.c", ": 1;", ": 2;")
        output = other_user.scons(theirs, f"SHARED={cache}")
        assert [line.split()[0] for line in made(output)] == ["CC", "LINK", "CHECK"]
        build = mine.scons(f"SHARED={cache}")
        assert build.actions == []
        assert mine.image == theirs.image
    finally:
        os.umask(before)
    owners = {path.stat().st_uid for path in entries(cache)}
    assert owners == {0, NOBODY}
    assert stat.S_IMODE(mine.path("build/app.elf").stat().st_mode) & 0o077 == 0


def test_who_may_only_read_a_cache_takes_from_it_and_builds(
    built: Project, shared: Path, other_user: OtherUser
) -> None:
    cache = shared / "cache"
    mine, theirs = (Checkout(shared / name, built, CACHE, own_tools=True) for name in ("a", "b"))
    before = os.umask(0o022)
    try:
        mine.scons(f"SHARED={cache}", *mine.options)
    finally:
        os.umask(before)
    kept = entries(cache)
    assert made(other_user.scons(theirs, f"SHARED={cache}")) == []
    theirs.edit("main.c", ": 1;", ": 2;")
    output = other_user.scons(theirs, f"SHARED={cache}")
    assert [line.split()[0] for line in made(output)] == ["CC", "LINK", "CHECK"]
    assert entries(cache) == kept


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_an_entry_that_is_a_pipe_or_leads_elsewhere_is_replaced(kind: str, tmp_path: Path) -> None:
    tools = Path(__file__).resolve().parents[2] / "site_scons" / "site_tools"
    (tmp_path / "in.txt").write_text("content", encoding="utf-8")
    (tmp_path / "SConstruct").write_text(
        f"env = Environment(tools=['stm32_cache'], toolpath=[{str(tools)!r}])\n"
        "env.CacheDir('cache')\nenv.Command('out.txt', 'in.txt', Copy('$TARGET', '$SOURCE'))\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "SCons", "-Q"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    (entry,) = tmp_path.glob("cache/*/*.checked")
    entry.unlink()
    if kind == "pipe":
        os.mkfifo(entry)
    else:
        entry.symlink_to(tmp_path / "SConstruct")
    (tmp_path / "out.txt").unlink()
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    for made in (tmp_path / "out.txt", entry):
        assert made.is_file() and not made.is_symlink()
    assert (tmp_path / "out.txt").read_text(encoding="utf-8") == "content"
