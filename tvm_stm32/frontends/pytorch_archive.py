"""Exported programs from strangers: what ``torch.export.load`` would execute is taken out of the archive or refused.

The loader unpickles sample inputs and, where a table says so, weights; it evaluates the expressions of symbolic shapes;
it loads compiled libraries. A program of fixed shapes needs none of these. The archive is written anew from the members
that are plain data.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator
from typing import Any

from ..errors import ModelError, quoted

LARGEST_PROGRAM = 1 << 30
"""Bytes an exported program may unpack to."""
_MOST_MEMBERS = 20_000

_KEPT = re.compile(
    r"[^/]+/(archive_format|archive_version|byteorder|version|\.data/[\w.-]+|models/[\w.-]+\.json"
    r"|data/(weights|constants)/[\w.-]+)"
)
_OPERATOR = re.compile(r"torch\.ops\.\w+\.[\w.]+$|_operator\.\w+$|math\.\w+$")
_SYMBOLIC = ("as_expr", "expr_str", "as_symbool", "range_constraints")
_SAMPLES = re.compile(r"[^/]+/data/sample_inputs/[\w.-]+\.pt")


def plain_program(file: str, data: bytes, no_samples: bytes) -> bytes:
    """The archive with data only; ``no_samples`` takes the place of its sample inputs.

    Raises :class:`ModelError` for a program that cannot do without code or is of no sensible size, and what
    ``zipfile`` and ``json`` raise for a damaged one.
    """
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as plain:
        entries = archive.infolist()
        if len(entries) > _MOST_MEMBERS or sum(entry.file_size for entry in entries) > LARGEST_PROGRAM:
            raise ModelError(
                f"{file}: the program unpacks to more than {LARGEST_PROGRAM:,} bytes or {_MOST_MEMBERS:,} files"
            )
        names = [entry.filename for entry in entries]
        if len(set(names)) != len(names):
            raise ModelError(f"{file}: the archive holds two files of one name", hint="export the program again")
        for entry in entries:
            if _SAMPLES.fullmatch(entry.filename):
                plain.writestr(entry.filename, no_samples)
            elif _KEPT.fullmatch(entry.filename):
                content = archive.read(entry)
                if entry.filename.endswith(".json"):
                    _check_table(file, json.loads(content))
                plain.writestr(entry.filename, content)
    return made.getvalue()


def _check_table(file: str, table: Any) -> None:
    for part in _tables(table):
        target = part.get("target") if "inputs" in part else None
        if target is not None and not (isinstance(target, str) and _OPERATOR.match(target)):
            raise ModelError(
                f"{file}: a node calls {quoted(str(target)[:80])}",
                why="exported programs call operators, not any Python function",
                hint="write the file with torch.export.save(torch.export.export(module, example_inputs), file)",
            )
        if part.get("use_pickle"):
            raise ModelError(
                f"{file}: it keeps weights as pickled Python objects",
                why="unpickling runs code of whoever wrote the file",
                hint="export the module with plain tensors as parameters and buffers",
            )
        symbolic = [part[key] for key in _SYMBOLIC if part.get(key) not in (None, {}, [])]
        if symbolic:
            raise ModelError(
                f"{file}: the program has dynamic shapes ({quoted(str(symbolic[0])[:60])})",
                why="static memory is planned from fixed shapes, and their expressions would be evaluated as code",
                hint="export the module without dynamic_shapes",
            )


def _tables(value: Any) -> Iterator[dict[str, Any]]:
    """Every table, nested ones included."""
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            yield part
            pending.extend(part.values())
        elif isinstance(part, list):
            pending.extend(part)
