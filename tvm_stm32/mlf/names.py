"""Distinct names for what the archive names as it likes."""

from __future__ import annotations

import re

# Compilers need not tell names apart that differ later (C99, 5.2.4.1), less room for a number.
_LONGEST = 56


class Names:
    """Hands out names that differ; one that is taken gets a number."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def new(self, wanted: str) -> str:
        """``wanted``, or ``wanted_2`` and so on."""
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name)
        return name

    def new_c(self, prefix: str, wanted: str) -> str:
        """A C name with that prefix, short enough for every compiler."""
        stem = re.sub(r"[^0-9A-Za-z]+", "_", wanted).strip("_") or "x"
        return self.new(f"{prefix}_{stem[: max(8, _LONGEST - len(prefix))]}".rstrip("_"))


def sanitized(name: str) -> str:
    """A tensor's name as generators of interface headers spell it in C."""
    return re.sub(r"\W", "_", name)
