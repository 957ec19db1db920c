"""``packs.yaml``: the packs a project wants and where they come from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tvm_stm32.errors import PackError
from tvm_stm32.files import write_atomically
from tvm_stm32.yaml_files import read_checked

from .names import Wish, parse_wish

PUBLIC_INDEX = "https://www.keil.com/pack/index.pidx"
_WHAT = "list of packs"


@dataclass(frozen=True)
class Manifest:
    """The content of a packs.yaml; paths in ``sources`` are relative to ``folder``."""

    folder: Path
    wishes: tuple[Wish, ...] = ()
    sources: tuple[str, ...] = (PUBLIC_INDEX,)

    @property
    def wanted(self) -> tuple[str, ...]:
        """The wishes as written, sorted."""
        return tuple(sorted(map(str, self.wishes)))


def read_manifest(path: Path) -> Manifest:
    """Read a packs.yaml. Raises :class:`PackError` naming the file and the key."""
    if not path.is_file():
        raise PackError(f"there is no '{path}'", hint="tvm-stm32 packs add Vendor::Name makes one")
    return _manifest(path, read_checked(path, _WHAT, schema("packs"), error=PackError))


def _manifest(path: Path, data: dict[str, Any]) -> Manifest:
    try:
        wishes = tuple(map(parse_wish, data["packs"]))
    except PackError as error:
        raise PackError(f"{path}: packs: {error.message}", hint=error.hint) from error
    names = [wish.pack for wish in wishes]
    for name in names:
        if names.count(name) > 1:
            raise PackError(f"{path}: packs: {name} is asked for twice", hint="keep one of the lines")
    for source in data.get("sources", ()):
        if "://" in source and not source.startswith(("https://", "http://")):
            raise PackError(
                f"{path}: sources: '{source}' is of no known kind",
                hint="an https:// or http:// address of an index, a folder, or a .pack file",
            )
    return Manifest(path.parent, wishes, tuple(data.get("sources", (PUBLIC_INDEX,))))


def with_wishes(path: Path, wishes: tuple[Wish, ...], sources: tuple[str, ...] = ()) -> tuple[str, Manifest]:
    """A packs.yaml with ``wishes`` in place of those for the same packs, and ``sources`` as well: its text and content.

    The first ``sources`` a file gets stand instead of the public index. Comments stay where lines are only added.
    """
    import yaml

    old = read_manifest(path) if path.is_file() else Manifest(path.parent)
    added = {wish.pack: wish for wish in wishes}
    kept = [added.pop(wish.pack, wish) for wish in old.wishes]
    data: dict[str, Any] = {"packs": [str(wish) for wish in (*kept, *added.values())]}
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    raw = yaml.safe_load(text) or {}
    places = [*raw.get("sources", ()), *(source for source in sources if source not in raw.get("sources", ()))]
    if places:
        data["sources"] = places
    manifest = _manifest(path, data)
    if data == raw:
        return text, manifest
    for before, after in zip(old.wishes, kept, strict=True):
        text = text.replace(f"- {before}\n", f"- {after}\n")
    edited = _insert(text, [str(wish) for wish in added.values()])
    try:
        if yaml.safe_load(edited) == data:
            return edited, manifest
    except yaml.YAMLError:
        pass
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=1000), manifest


def _insert(text: str, lines: list[str]) -> str:
    """``text`` with items below the first line that starts the list of packs, indented as those there are."""
    before, head, after = text.partition("packs:\n")
    first = next((line for line in after.splitlines() if line.strip().startswith("- ")), "- ")
    indent = first[: first.index("-")]
    items = after.splitlines(keepends=True)
    last = -1
    for index, line in enumerate(items):
        if line[:1].isalpha():  # the next key
            break
        if line.startswith(f"{indent}- "):
            last = index
    new = [f"{indent}- {line}\n" for line in lines]
    return before + head + "".join([*items[: last + 1], *new, *items[last + 1 :]])


@cache
def schema(name: str) -> dict[str, Any]:
    """The JSON schema of packs.yaml (``packs``) or packs.lock (``lock``)."""
    text = Path(__file__).with_name(f"{name}.schema.json").read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


def write_text(path: Path, text: str) -> None:
    """Write a packs.yaml or packs.lock as a whole or not at all, and not when nothing changes."""
    if not path.is_file() or path.read_bytes() != text.encode():
        write_atomically({path: text})
