"""What networks cost when CMake configures: milliseconds in our functions, by CMake's own profile.

    python benchmarks/cmake_configure.py [--networks 3] [--repeats 5]

No process is started (a test says so); this is the time of the CMake language itself.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def project_text(networks: int) -> str:
    """A project with so many networks."""
    names = [f"net{number}" for number in range(networks)]
    calls = [f"tvm_stm32_add_model({name} MODEL model.tflite CPU cortex-m4)" for name in names]
    head = ["cmake_minimum_required(VERSION 3.22)", "project(p C)", "find_package(tvm_stm32 CONFIG REQUIRED)"]
    return "\n".join([*head, *calls, "add_executable(app main.c)", f"target_link_libraries(app {' '.join(names)})\n"])


def cost_ms(folder: Path, command: str) -> tuple[float, float]:
    """Milliseconds in find_package and our functions, and in all of the configure step."""
    profile = folder / "profile.json"
    words = ["cmake", "-S", folder, "-B", folder / "b", f"-Dtvm_stm32_DIR={ROOT / 'cmake'}"]
    words += [f"-DTVM_STM32_COMMAND={command}"] if command else []
    words += ["--profiling-format=google-trace", f"--profiling-output={profile}"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    open_: list[tuple[str, int]] = []
    ours, depth, first, last = 0, 0, None, 0
    for event in json.loads(profile.read_text(encoding="utf-8")):
        first = event["ts"] if first is None else first
        last = event["ts"]
        if event["ph"] == "B":
            name = event["name"].lower()
            own = name.startswith("tvm_stm32_") or (name == "find_package" and "tvm_stm32" in str(event.get("args")))
            depth += own
            open_.append((name if own else "", event["ts"]))
        elif event["ph"] == "E":
            name, start = open_.pop()
            if name:
                depth -= 1
                ours += 0 if depth else event["ts"] - start
    return ours / 1000, (last - (first or 0)) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "CMakeLists.txt").write_text(project_text(arguments.networks), encoding="utf-8")
        (folder / "model.tflite").touch()
        (folder / "main.c").write_text("int main(void) { return 0; }\n", encoding="utf-8")
        for label, command in (("the generator is given", sys.executable), ("it is looked for", "")):
            runs = [cost_ms(folder, command) for _ in range(arguments.repeats)]
            ours, whole = (statistics.median(column) for column in zip(*runs, strict=True))
            print(f"{arguments.networks} networks, {label}: {ours:.1f} ms of {whole:.0f} ms")


if __name__ == "__main__":
    main()
