#!/usr/bin/env python3
"""Which of the ONNX project's node tests run through the pipeline on this computer; writes docs/onnx-coverage.md.

    python benchmarks/onnx_coverage.py [--only PATTERN] [--list] [--sample N] [--jobs N]

``--sample`` also draws N passing tests by a fixed seed into tests/onnx_node_sample.txt, which the test suite runs.
``--only`` (a regular expression) and ``--list`` print instead of writing. A worker that dies or hangs costs one test.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from onnx_cases import NodeTest, difference, node_tests
from onnx_report import Outcome, document

_CHUNK = 24
_PATIENCE_S = 60.0
SAMPLE = ROOT / "tests" / "onnx_node_sample.txt"
SEED = 2026
DOCUMENT = ROOT / "docs" / "onnx-coverage.md"


def _work(pipe: Connection, tests: Sequence[NodeTest], folder: Path) -> None:
    """Body of a worker: chunks of positions come in; ("at", position), ("is", position, reason), ("done",) go out."""
    from onnx_batch import Batch, BuildError, generate

    # Stays open as long as the worker lives: TVM and the C compiler would fill the terminal.
    sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - open as long as the process
    os.dup2(sys.stderr.fileno(), 2)
    while True:
        chunk = pipe.recv()
        built = {}
        for position in chunk:
            pipe.send(("at", position))
            try:
                built[position] = generate(tests[position], folder)
            except Exception as error:
                pipe.send(("is", position, _line(error)))
        batches: dict[int, Any] = {}
        try:
            batch = Batch(list(built.values()), folder, f"batch_{chunk[0]}")
            batches = dict.fromkeys(built, batch)
        except BuildError:
            for position, library in built.items():
                pipe.send(("at", position))
                try:
                    batches[position] = Batch([library], folder, f"single_{position}")
                except BuildError as error:
                    pipe.send(("is", position, f"the C compiler says: {error}"))
        for position, batch in batches.items():
            pipe.send(("at", position))
            try:
                reason = difference(tests[position], batch.run(built[position], tests[position]))
            except Exception as error:
                reason = _line(error)
            pipe.send(("is", position, reason))
        pipe.send(("done",))


def _line(error: Exception) -> str:
    """What an error says in one line, without the test's own file name."""
    text = re.sub(r"^'?test_\w+\.onnx'?: ", "", str(getattr(error, "message", error)))
    why = getattr(error, "why", "")
    known = type(error).__module__.startswith("tvm_stm32") or isinstance(error, RuntimeError)
    text = f"{text}: {why}" if why and why not in text else text
    text = text if known else f"{type(error).__name__}: {text}"
    return " ".join(text.split())[:220]


@dataclass
class _Worker:
    tests: Sequence[NodeTest]
    folder: Path
    chunk: list[int] = field(default_factory=list)
    position: int = -1
    heard: float = 0.0
    process: Any = None
    pipe: Any = None

    def start(self, chunk: list[int]) -> None:
        if self.process is None:
            context = multiprocessing.get_context("fork")
            self.pipe, other = context.Pipe()
            self.process = context.Process(target=_work, args=(other, self.tests, self.folder), daemon=True)
            self.process.start()
            other.close()
        self.chunk, self.position, self.heard = chunk, -1, time.monotonic()
        self.pipe.send(chunk)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.pipe.close()
            self.process = None


def run(tests: Sequence[NodeTest], folder: Path, jobs: int) -> list[str]:
    """The reason why each test does not pass; empty when it does."""
    reasons: dict[int, str] = {}
    chunks = [list(range(start, min(start + _CHUNK, len(tests)))) for start in range(0, len(tests), _CHUNK)]
    workers = [_Worker(tests, folder / str(index)) for index in range(jobs)]
    for worker in workers:
        worker.folder.mkdir()
    busy: list[_Worker] = []
    while chunks or busy:
        while chunks and len(busy) < jobs:
            worker = next(worker for worker in workers if worker not in busy)
            worker.start(chunks.pop(0))
            busy.append(worker)
        ready = wait([worker.pipe for worker in busy], timeout=1.0)
        for worker in list(busy):
            lost = ""
            if worker.pipe in ready:
                try:
                    message = worker.pipe.recv()
                except (EOFError, OSError):
                    lost = "the compiler or the generated code crashes"
                else:
                    worker.heard = time.monotonic()
                    if message[0] == "at":
                        worker.position = message[1]
                    elif message[0] == "is":
                        reasons[message[1]] = message[2]
                    else:
                        busy.remove(worker)
            elif time.monotonic() - worker.heard > _PATIENCE_S:
                lost = f"it takes more than {_PATIENCE_S:.0f} seconds"
            if lost:
                worker.stop()
                busy.remove(worker)
                if worker.position >= 0:
                    reasons[worker.position] = lost
                rest = [position for position in worker.chunk if position not in reasons]
                chunks[:0] = [rest] if rest else []
    for worker in workers:
        worker.stop()
    return [reasons[position] for position in range(len(tests))]


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="PATTERN", help="only tests whose name matches; prints what fails")
    parser.add_argument("--list", action="store_true", help="print the tests and whether they are set aside")
    parser.add_argument("--sample", type=int, metavar="N", default=0, help="draw N passing tests for the test suite")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    tests = [test for test in node_tests() if re.search(options.only or "", test.name)]
    if options.list:
        for test in tests:
            print(test.name, test.operator, test.set_aside)
        return 0
    begun = time.monotonic()
    considered = [test for test in tests if not test.set_aside]
    with tempfile.TemporaryDirectory() as folder:
        reasons = run(considered, Path(folder), options.jobs)
    outcomes = [Outcome(test.name, test.operator, reason) for test, reason in zip(considered, reasons, strict=True)]
    outcomes += [Outcome(test.name, test.operator, "", test.set_aside) for test in tests if test.set_aside]
    failing = [outcome for outcome in outcomes if outcome.reason]
    if options.only:
        for outcome in failing:
            print(f"{outcome.name}: {outcome.reason}")
    else:
        DOCUMENT.write_text(document(outcomes), encoding="utf-8")
    if options.sample:
        passing = sorted(outcome.name for outcome in outcomes if not outcome.reason and not outcome.set_aside)
        drawn = random.Random(SEED).sample(passing, options.sample)
        SAMPLE.write_text("\n".join(drawn) + "\n", encoding="utf-8")
    counts = Counter(bool(reason) for reason in reasons)
    print(f"{counts[False]} of {len(considered)} pass, {len(tests) - len(considered)} set aside", file=sys.stderr)
    print(f"{time.monotonic() - begun:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
