"""Forms of kernels that are not the level's choice: set by hand, or by the search for less RAM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..errors import Error, quoted
from ..library import Call

APART = "apart"
"""Set for operators that run in bands of rows: each by itself instead."""


def is_chain_form(form: str) -> bool:
    """Whether this is a form of operators in bands of rows, not of a kernel."""
    return form == APART or form.startswith("bands-")


@dataclass
class WantedForms:
    """``given`` by hand: by node, the end of one node's name, or ``#number`` (``#number.part`` in bands of rows);
    ``chosen`` by the search: by node. ``met`` collects the nodes each of ``given`` was for.
    """

    given: Mapping[str, str] = field(default_factory=dict)
    chosen: Mapping[str, str] = field(default_factory=dict)
    met: dict[str, set[str]] = field(default_factory=dict)

    def of(self, number: str, node: str) -> str:
        """The form for the operator ``node``; empty: none is wanted."""
        for key in (node, f"#{number}"):
            if key in self.given:
                self.met.setdefault(key, set()).add(node)
                return self.given[key]
        for key, form in self.given.items():
            if not key.startswith("#") and node.endswith(key):
                self.met.setdefault(key, set()).add(node)
                return form
        return self.chosen.get(node, "")

    def check(self, calls: Sequence[Call], cpu: str) -> None:
        """Raise :class:`Error` when one of ``given`` was for no operator, or for several."""
        for key, form in self.given.items():
            nodes = self.met.get(key, set())
            if len(nodes) > 1:
                raise Error(
                    f"--set {quoted(f'{key}={form}')}: the names of {len(nodes)} operators end so",
                    hint="more of the name: " + ", ".join(quoted(node) for node in sorted(nodes)[:4]),
                )
            if not nodes:
                raise Error(f"--set {quoted(f'{key}={form}')}: {_why_not(key, calls)}", hint=_hint(key, calls, cpu))


def _why_not(key: str, calls: Sequence[Call]) -> str:
    number, _, part = key[1:].partition(".")
    if key.startswith("#") and number.isdecimal():
        if int(number) >= len(calls):
            return f"there are {len(calls)} operators, #0 to #{len(calls) - 1}"
        if part:
            return f"operator #{number} {calls[int(number)].operator} has no part {part}"
        return f"operator #{number} {calls[int(number)].operator} has one kernel only"
    return "no operator with a choice of kernels has this name or number"


def _hint(key: str, calls: Sequence[Call], cpu: str) -> str:
    if key.isdecimal():
        return f"#{key} is the operator with this number"
    if not any(len(call.costs) > 1 or call.stages for call in calls):
        return f"every operator has one kernel on {cpu} at this level"
    return "the report lists operators, their names, numbers and forms"
