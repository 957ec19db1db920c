"""Wishes become versions: the newest each asker allows, and what those packs require in turn."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches

from tvm_stm32.errors import PackError

from .lock import Lock
from .names import USER, PackName, Wish
from .sources import Release, Source

_MOST_ROUNDS = 30

Wishes = dict[PackName, tuple[Wish, ...]]


def solve(
    wishes: Sequence[Wish],
    sources: Sequence[Source],
    needs: Callable[[Collection[Release]], Sequence[Wish]],
    lock: Lock | None = None,
) -> list[tuple[Release, tuple[Wish, ...]]]:
    """A release for every pack that is wanted or required, with who wants it, sorted by name.

    A version in ``lock`` stays where all allow it. Of others it is the newest that all allow, from the first source
    that has one; a pre-release only where nothing else will do. ``needs`` tells what releases require. No version is
    given up for the sake of another pack: where two cannot agree, the :class:`PackError` names both.
    """
    asked = _by_pack(wishes)
    for _ in range(_MOST_ROUNDS):
        picks: dict[PackName, Release] = {}
        problems: dict[PackName, PackError] = {}
        for pack, askers in asked.items():
            try:
                picks[pack] = _pick(pack, askers, sources, lock)
            except PackError as error:
                problems[pack] = error
        for pack, problem in problems.items():
            # An asker may be of another version by now, which asks for something else.
            if all(wish.asker == USER or wish.asker in map(str, picks.values()) for wish in asked[pack]):
                raise problem
        again = _by_pack([*wishes, *needs(picks.values())])
        if again == asked and not problems:
            return [(picks[pack], asked[pack]) for pack in sorted(picks)]
        asked = again
    raise PackError(
        "the packs' requirements have no end",
        why="each choice of versions requires another one: " + ", ".join(map(str, picks.values())),
        hint="ask for an exact version of one of them in packs.yaml",
    )


def _by_pack(wishes: Sequence[Wish]) -> Wishes:
    found: dict[PackName, list[Wish]] = {}
    for wish in wishes:
        asked = found.setdefault(wish.pack, [])
        if wish not in asked:
            asked.append(wish)
    return {pack: tuple(sorted(asked, key=lambda wish: wish.request)) for pack, asked in sorted(found.items())}


def _pick(pack: PackName, askers: tuple[Wish, ...], sources: Sequence[Source], lock: Lock | None) -> Release:
    locked = lock.find(pack) if lock is not None else None
    if locked is not None and all(wish.allows(locked.version) for wish in askers):
        return Release(pack, locked.version, locked.source)
    known: list[str] = []
    for source in sources:
        releases = source.releases(pack)
        fitting = [release for release in releases if all(wish.allows(release.version) for wish in askers)]
        if fitting:
            return next((release for release in fitting if "-" not in release.version), fitting[0])
        known += [release.version for release in releases if release.version not in known]
    requests = "; ".join(wish.request for wish in askers)
    if not known:
        like = _alike(pack, sources)
        raise PackError(
            f"no source has the pack {pack}",
            why=f"it is asked for by {requests}",
            hint=(f"there is {', '.join(like)}; " if like else "")
            + "a pack that is elsewhere needs its index, folder or file under sources: in packs.yaml",
        )
    versions = ", ".join(known[:8]) + (f" and {len(known) - 8} more" if len(known) > 8 else "")
    raise PackError(
        f"no version of {pack} is what all ask for",
        why=requests,
        hint=f"there are {versions}; ask for another range in packs.yaml, or another version of who asks",
    )


def _alike(pack: PackName, sources: Sequence[Source]) -> list[str]:
    """Packs whose names are close; of other vendors as well, since those are easily mistaken."""
    known = [name for source in sources for name in source.names()]
    by_text = {text: str(name) for name in known for text in (name.name, str(name))}
    texts = get_close_matches(str(pack), by_text, 3) + get_close_matches(pack.name, by_text, 2)
    return list(dict.fromkeys(by_text[text] for text in texts))
