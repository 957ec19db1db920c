#!/usr/bin/env python3
"""What builds cost: a clean environment per network, the old way, against nodes of one SCons build.

    python benchmarks/build_cost.py [--networks 1,10] [--jobs 2] [--json FILE]

For so many networks (the digits network with weights of its own each), each with a firmware image for an emulated M4:

(a) a fresh CMake project for each: generate, configure with the Arm toolchain, build
(b) one build of all, from nothing: with SCons, and with CMake and Ninja
(c) one weight of one network changed   (d) one kernel option of one network changed
(e) one main.c changed                  (f) nothing changed

Seconds of CPU (of all processes, the one that stays among them) and of the clock. Exit code 1 when an aim is missed:
(c) to (f) at most 1/20 of (a) for one network, (f) under 1 s of CPU at 100, (b) at most 1/4 of (a) at 100.

Where MLPerf Tiny's kws model is at hand (TVM_STM32_TEST_DATA), also its compile in a process of its own: 6 s at most.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tvm_stm32.boards import load_board
from tvm_stm32.project.linker import linker_script

BOARD = "mps2-an386"
KWS = Path(os.environ.get("TVM_STM32_TEST_DATA", ROOT.parent / "shared")) / "models/mlperf_tiny/kws_ref_model.tflite"
KWS_CPU_S = 6.0
PORT = " ".join(
    str(ROOT / "runtime" / "port" / f"port_{part}.c") for part in ("common", "startup", "semihosting", "system")
)
MODEL = ROOT / "examples" / "digits" / "digits_int8.relay"
MAIN = """#include "{name}.h"
#include "port.h"

int main(void)
{{
    ai_handle network;

    return (ai_create(&ai_{name}_network, NULL, &network) == AI_STATUS_OK) ? 0 : 1;
}}
"""
CMAKE = """cmake_minimum_required(VERSION 3.22)
project({name} C)
add_executable(app main.c net/{name}.c net/{name}_data.c {port})
target_include_directories(app PRIVATE net {include})
target_compile_definitions(app PRIVATE AI_USE_SECTIONS)
target_link_options(app PRIVATE -nostartfiles --specs=nano.specs -Wl,--gc-sections -T{script})
"""
TOOLCHAIN = """set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_C_FLAGS_INIT "{flags} -O2 -g -ffunction-sections -fdata-sections")
"""
CMAKE_OF_ALL = """cmake_minimum_required(VERSION 3.22)
project(all C)
set(TVM_STM32_PYTHON "{python}" CACHE FILEPATH "")
find_package(tvm_stm32 CONFIG REQUIRED PATHS "{package}")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS levels.txt)
file(STRINGS levels.txt lines)
add_library(port OBJECT {port})
target_include_directories(port PUBLIC "{include}")
target_link_libraries(port PRIVATE ai_runtime)
foreach(line ${{lines}})
  string(REPLACE " " ";" line "${{line}}")
  list(GET line 0 name)
  list(GET line 1 level)
  tvm_stm32_add_model(${{name}} MODEL ${{name}}.relay BOARD {board} LEVEL ${{level}})
  add_executable(${{name}}_app ${{name}}_main.c)
  target_link_libraries(${{name}}_app PRIVATE ${{name}} port)
  target_link_options(${{name}}_app PRIVATE -nostartfiles --specs=nano.specs -Wl,--gc-sections
    -T${{CMAKE_SOURCE_DIR}}/app.ld)
endforeach()
"""
SCONSTRUCT = """import os
env = Environment(
    tools=["gcc", "gnulink", "stm32_model", "stm32_firmware"], toolpath=["{tools}"], ENV=dict(os.environ)
)
runtime = env.TvmRuntime("build/runtime")
levels = dict(line.split() for line in open("levels.txt"))
for name in {names}:
    network = env.TvmModel(f"build/net/{{name}}", f"{{name}}.relay", BOARD="{board}", LEVEL=levels[name])
    env.Firmware(f"build/{{name}}.elf", [f"{{name}}_main.c", network], BOARD="{board}", RUNTIME=runtime)
"""


@dataclass(frozen=True)
class Cost:
    """Seconds of CPU of all processes, and of the clock."""

    cpu_s: float
    wall_s: float


def measured(work: Callable[[], None]) -> Cost:
    """What ``work`` costs in processes it starts, and in the one that stays."""
    before, start = cpu_seconds(), time.perf_counter()
    work()
    return Cost(round(cpu_seconds() - before, 2), round(time.perf_counter() - start, 2))


def cpu_seconds() -> float:
    """Seconds of CPU all processes have used that this one has started."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime + sum(map(resident_seconds, Path("/proc").glob("[0-9]*")))


def resident_seconds(process: Path) -> float:
    """Seconds of CPU of a process that stays for us, and of its children; 0 for any other."""
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
        if b"--resident-server" not in words or os.environ.get("TVM_STM32_RESIDENT_DIR", "-").encode() not in words[3]:
            return 0.0
        fields = (process / "stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def run(*words: str | Path, cwd: Path) -> None:
    """A command that has to succeed."""
    done = subprocess.run(list(map(str, words)), cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        sys.exit(done.stdout.decode("utf-8", "replace")[-3000:])


def write_model(path: Path, seed: int) -> None:
    """The digits network with some weights of its largest layer changed, for each seed others."""
    text = MODEL.read_text(encoding="utf-8")
    constant = max(re.findall(r'"([A-Za-z0-9+/=]{100,})"', text), key=len)
    digits, draw = list(constant), random.Random(seed)
    for place in draw.sample(range(len(digits) // 2, len(digits) - 8), 8):
        digits[place] = draw.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    path.write_text(text.replace(constant, "".join(digits)), encoding="utf-8")


def old_way(folder: Path, names: list[str]) -> None:
    """A fresh project for each network."""
    target = load_board(BOARD).target
    runtime = ROOT / "runtime"
    for name in names:
        place = folder / name
        place.mkdir(parents=True)
        shutil.copy(folder.parent / f"{name}.relay", place)
        (place / "main.c").write_text(MAIN.format(name=name), encoding="utf-8")
        (place / "app.ld").write_text(linker_script(load_board(BOARD)), encoding="utf-8")
        (place / "arm.cmake").write_text(TOOLCHAIN.format(flags=" ".join(target.compile_flags)), encoding="utf-8")
        text = CMAKE.format(
            name=name,
            port=f"{PORT} {runtime / 'src' / 'ai_runtime.c'}",
            include=f"{runtime / 'include'} {runtime / 'port'}",
            script=place / "app.ld",
        )
        (place / "CMakeLists.txt").write_text(text, encoding="utf-8")
        words = ["compile", f"{name}.relay", "-o", "net", "--name", name, "--no-runtime", "--board", BOARD]
        run(sys.executable, ROOT / "tvm_stm32", *words, cwd=place)
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        run("cmake", "-S", ".", "-B", "build", *generator, "-DCMAKE_TOOLCHAIN_FILE=arm.cmake", cwd=place)
        run("cmake", "--build", "build", cwd=place)


class Build(ABC):
    """One project of all networks: what SCons and CMake have in common."""

    def __init__(self, folder: Path, names: list[str], jobs: int) -> None:
        self.folder, self.names, self.jobs = folder, names, jobs
        folder.mkdir(parents=True)
        for seed, name in enumerate(names):
            write_model(folder / f"{name}.relay", seed)
            (folder / f"{name}_main.c").write_text(MAIN.format(name=name), encoding="utf-8")
        self.levels = dict.fromkeys(names, "time")
        self.write_levels()

    def write_levels(self) -> None:
        """The option of each network, in a file the project reads."""
        lines = "".join(f"{name} {level}\n" for name, level in self.levels.items())
        (self.folder / "levels.txt").write_text(lines, encoding="utf-8")

    @abstractmethod
    def build(self) -> None:
        """Build all that has changed."""

    def changes(self) -> dict[str, Callable[[], None]]:
        """What is changed before a build, by letter."""

        def weight() -> None:
            write_model(self.folder / f"{self.names[0]}.relay", 1_000_000)

        def option() -> None:
            self.levels[self.names[0]] = "size"
            self.write_levels()

        def main() -> None:
            path = self.folder / f"{self.names[0]}_main.c"
            path.write_text(path.read_text(encoding="utf-8").replace(": 1;", ": 2;"), encoding="utf-8")

        return {"c": weight, "d": option, "e": main, "f": lambda: None}


class SconsBuild(Build):
    """With our SCons tools."""

    def __init__(self, folder: Path, names: list[str], jobs: int) -> None:
        super().__init__(folder, names, jobs)
        tools = ROOT / "site_scons" / "site_tools"
        text = SCONSTRUCT.format(names=names, board=BOARD, tools=tools)
        (folder / "SConstruct").write_text(text, encoding="utf-8")

    def build(self) -> None:
        """Run SCons."""
        run(sys.executable, "-m", "SCons", "-Q", f"-j{self.jobs}", cwd=self.folder)


class CmakeBuild(Build):
    """With our CMake package and Ninja."""

    def __init__(self, folder: Path, names: list[str], jobs: int) -> None:
        super().__init__(folder, names, jobs)
        flags = " ".join(load_board(BOARD).target.compile_flags)
        (folder / "arm.cmake").write_text(TOOLCHAIN.format(flags=flags), encoding="utf-8")
        (folder / "app.ld").write_text(linker_script(load_board(BOARD)), encoding="utf-8")
        text = CMAKE_OF_ALL.format(
            package=ROOT / "cmake", python=sys.executable, board=BOARD, port=PORT, include=ROOT / "runtime" / "port"
        )
        (folder / "CMakeLists.txt").write_text(text, encoding="utf-8")

    def build(self) -> None:
        """Configure once; from then on Ninja alone."""
        if not (self.folder / "build" / "build.ninja").exists():
            words = ["-S", ".", "-B", "build", "-G", "Ninja", "-DCMAKE_TOOLCHAIN_FILE=arm.cmake"]
            run("cmake", *words, cwd=self.folder)
        run("ninja", "-C", "build", f"-j{self.jobs}", cwd=self.folder)


BUILDS = {"scons": SconsBuild, "ninja": CmakeBuild}


def costs(networks: int, jobs: int, builds: list[str], scratch: Path) -> dict[str, dict[str, Cost]]:
    """All cases for so many networks, by build; (a) is under ``old``."""
    names = [f"net{number}" for number in range(networks)]
    for seed, name in enumerate(names):
        write_model(scratch / f"{name}.relay", seed)
    found = {"old": {"a": measured(lambda: old_way(scratch / "old", names))}}
    for kind in builds:
        # One of its own for each, started by the build that is measured.
        os.environ["TVM_STM32_RESIDENT_DIR"] = str(scratch / f"{kind}-run")
        Path(os.environ["TVM_STM32_RESIDENT_DIR"]).mkdir()
        ours = BUILDS[kind](scratch / kind, names, jobs)
        rows = {"b": measured(ours.build)}
        for letter, change in ours.changes().items():
            change()
            rows[letter] = measured(ours.build)
        found[kind] = rows
        run(sys.executable, ROOT / "tvm_stm32", "resident", "--stop", cwd=scratch)
    return found


def kws_compile() -> Cost | None:
    """A compile of kws, start-up included, in a process of its own; nothing where the model is not at hand."""
    if not KWS.is_file():
        return None
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, ROOT / "tvm_stm32", "compile", KWS, "-o", "net", "--board", BOARD]
        return measured(lambda: run(*words, cwd=Path(folder)))


def missed_aims(table: dict[int, dict[str, dict[str, Cost]]]) -> list[str]:
    """Aims that a build misses, by number of networks and case."""
    missed = []
    for networks, rows in table.items():
        whole = rows["old"]["a"].cpu_s
        for kind in set(rows) - {"old"}:
            if networks == 1:
                missed += [f"({c}) at 1 with {kind}" for c in "cdef" if rows[kind][c].cpu_s > whole / 20]
            if networks == 100:
                missed += [f"(f) at 100 with {kind}"] if rows[kind]["f"].cpu_s >= 1 else []
                missed += [f"(b) at 100 with {kind}"] if rows[kind]["b"].cpu_s > whole / 4 else []
    return sorted(missed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default="1,10,100", help="How many, for each run.")
    parser.add_argument("--builds", default="scons,ninja", help="With what.")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, help="Write the figures here.")
    arguments = parser.parse_args()
    table: dict[int, dict[str, dict[str, Cost]]] = {}
    print(f"{'networks':>8} {'build':>6} {'case':>4} {'CPU s':>9} {'clock s':>9} {'of (a)':>8}")
    for networks in map(int, arguments.networks.split(",")):
        with tempfile.TemporaryDirectory(prefix="build-cost-") as scratch:
            table[networks] = costs(networks, arguments.jobs, arguments.builds.split(","), Path(scratch))
        whole = table[networks]["old"]["a"].cpu_s
        for kind, rows in table[networks].items():
            for letter, cost in rows.items():
                share = cost.cpu_s / whole
                print(f"{networks:>8} {kind:>6} {letter:>4} {cost.cpu_s:>9.2f} {cost.wall_s:>9.2f} {share:>8.3f}")
    if arguments.json is not None:
        figures = {
            n: {kind: {letter: asdict(cost) for letter, cost in rows.items()} for kind, rows in kinds.items()}
            for n, kinds in table.items()
        }
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    missed = missed_aims(table)
    kws = kws_compile()
    if kws is not None:
        print(f"a compile of kws: {kws.cpu_s:.2f} s of CPU")
        missed += ["a compile of kws"] if kws.cpu_s > KWS_CPU_S else []
    if missed:
        print("missed: " + ", ".join(missed))
        sys.exit(1)


if __name__ == "__main__":
    main()
