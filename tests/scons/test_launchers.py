"""COMPILER_LAUNCHER with the real programs: another checkout compiles nothing, or another daemon compiles all."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from checkouts import FOLDERS, LAUNCHER, Checkout, garble
from scons_support import Project, built_once, require_tools

OBJECTS = 8


@pytest.fixture
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project built without a launcher; read only."""
    return built_once(tmp_path_factory)


def checkouts(folder: Path, built: Project) -> list[Checkout]:
    return [Checkout(folder / name, built, LAUNCHER) for name in FOLDERS]


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def wait_for(port: int, daemon: subprocess.Popen[bytes]) -> None:
    """Until something listens there."""
    end = time.monotonic() + 20
    while time.monotonic() < end and daemon.poll() is None:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail(f"{daemon.args} did not start")


def test_ccache_compiles_once_for_all_checkouts_and_survives_damage(built: Project, tmp_path: Path) -> None:
    require_tools("ccache")
    cache = tmp_path / "cache"
    variables = {"CCACHE_DIR": str(cache), "CCACHE_CONFIGPATH": str(tmp_path / "none.conf")}

    def counts() -> dict[str, int]:
        command = ["ccache", "--print-stats"]
        text = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=True)
        subprocess.run(["ccache", "-z"], env={**os.environ, **variables}, capture_output=True, check=True)
        pairs = (line.split() for line in text.stdout.splitlines())
        return {name: int(number) for name, number in pairs}

    first, second, third = checkouts(tmp_path, built)
    first.scons("COMPILER_LAUNCHER=ccache", *first.options, variables=variables)
    assert counts()["cache_miss"] == OBJECTS
    second.scons("COMPILER_LAUNCHER=ccache", *second.options, variables=variables)
    found = counts()
    assert (found["cache_miss"], found["direct_cache_hit"]) == (0, OBJECTS)
    assert first.image == second.image == built.path("build/app.elf").read_bytes()

    assert garble(cache) > OBJECTS
    third.scons("COMPILER_LAUNCHER=ccache", *third.options, variables=variables)
    assert third.image == first.image


def test_a_build_is_up_to_date_with_and_without_a_launcher(built: Project, tmp_path: Path) -> None:
    require_tools("ccache")
    variables = {"CCACHE_DIR": str(tmp_path / "cache")}
    checkout = Checkout(tmp_path / "checkout", built, LAUNCHER)
    checkout.scons(*checkout.options)
    assert checkout.scons("COMPILER_LAUNCHER=ccache", *checkout.options, variables=variables).is_null


@pytest.fixture
def sccache(tmp_path: Path) -> Iterator[Mapping[str, str]]:
    """Variables of a server of its own, which ends with the test."""
    require_tools("sccache")
    port = free_port()
    variables = {
        "SCCACHE_DIR": str(tmp_path / "cache"),
        "SCCACHE_SERVER_PORT": str(port),
        "SCCACHE_CONF": str(tmp_path / "none"),
        "SCCACHE_IDLE_TIMEOUT": "120",
    }
    own = {**os.environ, **variables, "SCCACHE_START_SERVER": "1", "SCCACHE_NO_DAEMON": "1"}
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(["sccache"], env=own, stdout=log, stderr=log)
    try:
        wait_for(port, server)
        yield variables
    finally:
        server.terminate()
        server.wait(20)


def test_sccache_compiles_once_for_all_checkouts_and_survives_damage(
    built: Project, tmp_path: Path, sccache: Mapping[str, str]
) -> None:
    def counts() -> tuple[int, int]:
        command = ["sccache", "--show-stats", "--stats-format=json"]
        text = subprocess.run(command, env={**os.environ, **sccache}, capture_output=True, check=True).stdout
        stats = json.loads(text)["stats"]
        return tuple(sum(stats[key]["counts"].values()) for key in ("cache_misses", "cache_hits"))

    first, second, third = checkouts(tmp_path, built)
    first.scons("COMPILER_LAUNCHER=sccache", *first.options, variables=sccache)
    assert counts() == (OBJECTS, 0)
    second.scons("COMPILER_LAUNCHER=sccache", *second.options, variables=sccache)
    assert counts() == (OBJECTS, OBJECTS)
    assert first.image == second.image == built.path("build/app.elf").read_bytes()

    assert garble(Path(sccache["SCCACHE_DIR"])) >= OBJECTS
    third.scons("COMPILER_LAUNCHER=sccache", *third.options, variables=sccache)
    assert third.image == first.image


def without_debug_information(project: Project) -> bytes:
    """The image without columns and discriminators, which GCC numbers anew in a preprocessed source."""
    image = project.path("build/app.elf")
    subprocess.run(["arm-none-eabi-strip", "--strip-debug", image], check=True)
    return image.read_bytes()


def test_distcc_gets_the_same_objects_from_another_daemon(built: Project, tmp_path: Path) -> None:
    require_tools("distcc", "distccd")
    port, log, allowed = free_port(), tmp_path / "log", tmp_path / "compilers"
    state = tmp_path / "state"
    state.mkdir()
    allowed.write_text("arm-none-eabi-gcc\n", encoding="utf-8")
    daemon_options = ["--allow", "127.0.0.1", "--listen", "127.0.0.1", "--port", str(port), "--jobs", "2"]
    with log.open("wb") as stream:
        daemon = subprocess.Popen(
            ["distccd", "--no-detach", "--daemon", *daemon_options, "--log-stderr", "--log-level", "info"],
            env={**os.environ, "DISTCC_CMDLIST": str(allowed), "DISTCC_CMDLIST_NUMWORDS": "1"},
            stderr=stream,
            start_new_session=True,
        )
    try:
        wait_for(port, daemon)
        checkout = Checkout(tmp_path / FOLDERS[1], built, LAUNCHER)
        variables = {
            "DISTCC_HOSTS": f"127.0.0.1:{port}/4",
            "DISTCC_FALLBACK": "0",
            "DISTCC_DIR": str(state),
        }
        checkout.scons("-j4", "COMPILER_LAUNCHER=distcc", *checkout.options, variables=variables)
    finally:
        daemon.terminate()
        daemon.wait(20)
    jobs = [line for line in log.read_text("utf-8", "replace").splitlines() if "COMPILE_OK" in line]
    assert len(jobs) == OBJECTS
    assert without_debug_information(checkout) == without_debug_information(built.copy_to(tmp_path / "built"))


def commands(checkout: Checkout, *options: str, **more: bool) -> list[str]:
    """Command lines a build would run."""
    checkout.edit("SConstruct", "board = ", 'env.Replace(CCCOMSTR="", LINKCOMSTR="")\nboard = ')
    return checkout.scons("-n", *checkout.options, *options, **more).output.splitlines()


def test_only_compiles_go_through_the_launcher(built: Project, tmp_path: Path) -> None:
    checkout = Checkout(tmp_path / "checkout", built, LAUNCHER)
    lines = commands(checkout, "COMPILER_LAUNCHER=env NAME=x")
    compiled = [line for line in lines if " -c " in line]
    assert len(compiled) == OBJECTS
    assert all(line.startswith("env NAME=x arm-none-eabi-gcc ") for line in compiled)
    assert [line.split()[0] for line in lines if "-Wl,--gc-sections" in line] == ["arm-none-eabi-gcc"]


def test_weights_that_the_assembler_includes_are_compiled_here(built: Project, tmp_path: Path) -> None:
    checkout = Checkout(tmp_path / "checkout", built, LAUNCHER)
    checkout.edit("SConstruct", "BOARD=board, LEVEL", 'BOARD=board, WEIGHTS="incbin", LEVEL')
    lines = commands(checkout, "COMPILER_LAUNCHER=env")
    here = [line for line in lines if " -c " in line and not line.startswith("env ")]
    assert [line.split()[-1] for line in here] == ["build/net/tiny_data.c"]


def test_a_launcher_that_is_not_there_is_named(built: Project, tmp_path: Path) -> None:
    checkout = Checkout(tmp_path / "checkout", built, LAUNCHER)
    build = checkout.scons("COMPILER_LAUNCHER=no-such-cache", *checkout.options, fails=True)
    assert "COMPILER_LAUNCHER: there is no program 'no-such-cache'" in build.output
    assert "SConstruct, line " in build.output
    checkout.scons("-c", "COMPILER_LAUNCHER=no-such-cache", *checkout.options)


def test_the_tool_prefixes_commands_of_any_environment(tmp_path: Path, built: Project) -> None:
    checkout = Checkout(tmp_path / "checkout", built)
    checkout.write(
        "SConstruct",
        """
env = Environment(
    tools=["gcc", "gnulink", "stm32_launcher"],
    toolpath=["tools/site_scons/site_tools"],
    CC="arm-none-eabi-gcc",
    COMPILER_LAUNCHER=["env", "A NAME=x"],
)
env.Object("one.c")
silent = env.Clone(CCCOM="@$CC -o $TARGET -c $SOURCES")
silent.Tool("stm32_launcher")
silent.Object("silent.o", "one.c")
""",
    )
    checkout.write("one.c", "int one = 1;\n")
    line = 'env "A NAME=x" arm-none-eabi-gcc -o one.o -c one.c\n'
    assert checkout.scons("-n", "one.o").output == line
    assert checkout.scons("-n", "silent.o").output == ""
    checkout.scons("silent.o")
    assert checkout.path("silent.o").is_file()
