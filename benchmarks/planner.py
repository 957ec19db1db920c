#!/usr/bin/env python3
"""Whether the memory planner places hard instances within their capacity, and how long that takes.

    python benchmarks/planner.py [INSTANCE...] [--json FILE]

The instances are those of MiniMalloc (ASPLOS 2023): buffers with lifetimes as lines "id,lower,upper,size", the capacity
in the file's name. A graph of 5,000 random buffers is planned besides, as a compilation plans it. Exit code 1: fewer
than 8 of 11 lie within their capacity, one is more than 2 % above, or one took too long.
"""

from __future__ import annotations

import csv
import itertools
import json
import os
import random
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tvm_stm32.memory.lifetimes import Buffer
from tvm_stm32.memory.planner import Placement, place

DEFAULT_FOLDER = Path(os.environ.get("TVM_STM32_TEST_DATA", ROOT.parent / "shared")) / "fixtures" / "minimalloc"
# Six times what a compilation spends: half of it goes to the capacity itself, the rest to sizes above.
EFFORT = 600_000
LIMIT_S = 60.0
# Of the hard instances: the part that may lie above its capacity, and how far above.
MISSED = 3 / 11
EXCESS = 0.02
RANDOM = "random"
RANDOM_BUFFERS = 5000
RANDOM_LIMIT_S = 5.0
HEADER = f"{'instance':<9}{'buffers':>8}{'bound':>11}{'size':>11}{'capacity':>11}{'over %':>8}{'seconds':>9}"


@dataclass(frozen=True)
class Row:
    """Sizes in bytes; the capacity of the random graph is its bound, which nobody promises to be enough."""

    instance: str
    buffers: int
    bound: int
    size: int
    capacity: int
    seconds: float

    @property
    def over(self) -> float:
        """Part of the capacity by which the size is above it."""
        return max(self.size / self.capacity - 1, 0.0)

    def line(self) -> str:
        """Below HEADER."""
        return (
            f"{self.instance:<9}{self.buffers:>8,}{self.bound:>11,}{self.size:>11,}{self.capacity:>11,}"
            f"{100 * self.over:>8.2f}{self.seconds:>9.2f}"
        )


def instance(path: Path) -> tuple[list[Buffer], int]:
    """The buffers of a file, and its capacity."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    # The time "upper" is the first one after the life of a buffer.
    buffers = [Buffer(row["id"], int(row["size"]), int(row["lower"]), int(row["upper"]) - 1) for row in rows]
    return buffers, int(path.name.split(".")[1])


def random_graph() -> list[Buffer]:
    """Each buffer lives for up to 200 of as many steps as there are buffers."""
    generator = random.Random(2026)
    firsts = [generator.randrange(RANDOM_BUFFERS) for _ in range(RANDOM_BUFFERS)]
    return [
        Buffer(str(number), generator.randrange(1, 20_000), first, first + generator.randrange(200))
        for number, first in enumerate(firsts)
    ]


def measured(name: str, buffers: list[Buffer], capacity: int, effort: int | None) -> Row:
    """Plan and check the offsets."""
    start = time.perf_counter()
    if effort is None:
        placement = place(buffers, 8)
    else:
        placement = place(buffers, 8, capacity=capacity, effort=effort, time_limit=0.9 * LIMIT_S)
    seconds = time.perf_counter() - start
    _check(name, buffers, placement)
    return Row(name, len(buffers), placement.bound, placement.size, capacity or placement.bound, round(seconds, 3))


def _check(name: str, buffers: list[Buffer], placement: Placement) -> None:
    if any(buffer.offset < 0 or buffer.offset + buffer.size > placement.size for buffer in buffers):
        raise click.ClickException(f"{name}: a buffer lies outside")
    for a, b in itertools.combinations(buffers, 2):
        if a.overlaps(b) and a.offset < b.offset + b.size and b.offset < a.offset + a.size:
            raise click.ClickException(f"{name}: {a.name} and {b.name} overlap")


def missed(rows: list[Row]) -> list[str]:
    """What is not as it should be."""
    hard = [row for row in rows if row.instance != RANDOM]
    complaints = [f"{row.instance} took {row.seconds:.1f} s" for row in rows if row.seconds >= _limit(row)]
    complaints += [f"{row.instance} is {100 * row.over:.1f} % above its capacity" for row in hard if row.over > EXCESS]
    above = [row.instance for row in hard if row.over]
    if len(above) > MISSED * len(hard):
        complaints.append(f"{len(above)} of {len(hard)} are above their capacity: {', '.join(above)}")
    return complaints


def _limit(row: Row) -> float:
    return RANDOM_LIMIT_S if row.instance == RANDOM else LIMIT_S


@click.command(help=__doc__.split("\n")[0] if __doc__ else "")
@click.argument("instances", nargs=-1)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Also write the figures here.")
@click.option("--folder", type=click.Path(path_type=Path), default=DEFAULT_FOLDER, help="Folder of the instances.")
def main(instances: tuple[str, ...], json_file: Path | None, folder: Path) -> None:
    """Measure the instances given, or all and the random graph."""
    paths = {path.name.split(".")[0]: path for path in sorted(folder.glob("*.csv"))}
    if not paths:
        raise click.ClickException(f"the instances are not at {folder}; give their folder with --folder")
    chosen = instances or (*paths, RANDOM)
    unknown = set(chosen) - {*paths, RANDOM}
    if unknown:
        raise click.ClickException(f"no such instance; one of: {', '.join((*paths, RANDOM))}")
    click.echo(HEADER)
    rows = []
    for name in chosen:
        if name == RANDOM:
            row = measured(name, random_graph(), 0, None)
        else:
            row = measured(name, *instance(paths[name]), EFFORT)
        click.echo(row.line())
        rows.append(row)
    if json_file:
        json_file.write_text(json.dumps([{**asdict(row), "over": row.over} for row in rows], indent=2) + "\n")
    complaints = missed(rows)
    for complaint in complaints:
        click.echo(f"missed: {complaint}", err=True)
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
