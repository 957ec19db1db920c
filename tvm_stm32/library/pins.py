"""``--pin tensor=pool``: the pools that pins name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import Error, quoted
from . import Pool


def numbered_pins(pins: Mapping[str, str], pools: Sequence[Pool]) -> dict[str, int]:
    """The number of the pool that each pin names, in any case of letters. Raises :class:`Error` for one there is not.

    Which tensors there are is known when the model is compiled.
    """
    numbers = {pool.name.lower(): number for number, pool in enumerate(pools)}
    for name, pool in pins.items():
        if pool.lower() not in numbers:
            raise Error(
                f"--pin {quoted(name)}: there is no pool {quoted(pool)}",
                hint="one of: " + ", ".join(known.name for known in pools),
            )
    return {name: numbers[pool.lower()] for name, pool in pins.items()}
